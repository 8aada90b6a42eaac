#ifndef SLUICE_OUTBOUND_QUEUE_H
#define SLUICE_OUTBOUND_QUEUE_H
/* Where a request waits: a bounded first-in first-out list of waiters. Borrows them; each is in at most one queue. */
#include "outbound/outbound.h"
#include "outbound/tally.h"

#define WAITER_MAGIC 0x77616974u

TAILQ_HEAD(queue_list, waiter);
struct queue {
    struct queue_list list;
    unsigned count;
    unsigned max;
    struct tally *tally; /* told how many wait; NULL = nobody */
};

void queue_init(struct queue *queue, unsigned max);
bool queue_is_full(const struct queue *queue);
/* The waiter belongs to `bucket` from now on. Both mark it neither near nor ready. */
void queue_append(struct queue *queue, struct waiter *waiter, struct bucket *bucket);
void queue_prepend(struct queue *queue, struct waiter *waiter, struct bucket *bucket);
/* Takes it out, wherever it is, and clears its deadline. */
void queue_remove(struct queue *queue, struct waiter *waiter);

/* These look at the first `within` waiters only. */
struct waiter *queue_first_ready(const struct queue *queue, unsigned within);
/* The first that on_near was not called for, and how many are ahead of it. */
struct waiter *queue_first_far(const struct queue *queue, unsigned within, unsigned *position);
unsigned queue_ready_count(const struct queue *queue, unsigned within);

#endif
