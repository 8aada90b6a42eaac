#ifndef SLUICE_ADMIN_ROWS_H
#define SLUICE_ADMIN_ROWS_H
/* What there is to say of each destination, put together from the rows below; a few at a time, since slots must not be
 * late because somebody looks at thousands of them. */
#include "admin/state.h"

struct row {
    const char *name;
    const struct destination_stats *traffic; /* NULL: one queue only, of a host or a part */
    bool is_queue;                           /* the rest is there */
    struct bucket_stats queue; /* of "default", for all hosts without a section: its tally and policy only */
    bool is_sum;               /* such a one */
    bool is_unpaced;           /* and those hosts' requests take no slots */
};

/* Every configured destination, then "default" and "-", at most `most`; then at most `busy_most` of the queues of hosts
 * and parts that have something going on. A row is valid during the call. `done` is the last that is heard of it,
 * unless it is stopped. */
typedef void rows_visit(void *arg, const struct row *row);
void rows_walk(struct admin *admin, unsigned most, unsigned busy_most, rows_visit *each, void (*done)(void *arg),
               void *arg);
/* All walks, without a word. */
void rows_stop(struct admin *admin, void (*dropped)(void *arg));

#endif
