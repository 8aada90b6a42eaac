#ifndef SLUICE_SIM_LOG_QUIET_H
#define SLUICE_SIM_LOG_QUIET_H
#include "base/log.h"

/* Lines of that level so far. */
unsigned log_quiet_count(enum log_level level);

#endif
