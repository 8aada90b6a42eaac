#ifndef SLUICE_ADMIN_METRICS_H
#define SLUICE_ADMIN_METRICS_H
#include "admin/state.h"

/* The whole answer to GET /metrics. Labels are names from the settings and words of ours, nothing else, so there are as
 * many series as the settings ask for. */
void metrics_write(const struct admin *admin, struct buf *out);

#endif
