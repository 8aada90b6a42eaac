#ifndef SLUICE_ADMIN_TOP_H
#define SLUICE_ADMIN_TOP_H
#include "admin/ask.h"

/* Shows the status every second until q; p and r pause and resume the destination under the bar. */
enum ask_exit top_run(struct ask *ask);

#endif
