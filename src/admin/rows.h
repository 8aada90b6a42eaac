#ifndef SLUICE_ADMIN_ROWS_H
#define SLUICE_ADMIN_ROWS_H
/* What there is to say of each destination, put together from the rows below. Valid until the loop goes on. */
#include "admin/state.h"

struct row {
    const char *name;
    const struct destination_stats *traffic; /* NULL: one host among those without a section */
    bool is_queue;                           /* the rest is there */
    struct bucket_stats queue; /* of "default", for all hosts without a section: its tally and policy only */
    bool is_sum;               /* such a one */
};

struct rows {
    struct row *at;
    unsigned count, cap;
};

/* Every configured destination, then "default" and "-". */
void rows_collect(const struct admin *admin, struct rows *rows);
/* And at most so many of the hosts without a section that have something going on. */
void rows_add_busy(const struct admin *admin, struct rows *rows, unsigned most);
void rows_fini(struct rows *rows);

#endif
