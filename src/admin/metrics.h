#ifndef SLUICE_ADMIN_METRICS_H
#define SLUICE_ADMIN_METRICS_H
#include "admin/rows.h"

/* The answer to GET /metrics. Labels are names from the settings and words of ours, nothing else, so there are as many
 * series as the settings ask for. */
struct metrics;
struct metrics *metrics_new(void);
void metrics_row(void *metrics, const struct row *row);
/* All of it, once every row has been told. */
void metrics_write(struct metrics *metrics, const struct admin *admin, struct buf *out);
void metrics_free(struct metrics *metrics);

#endif
