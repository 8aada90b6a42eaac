#ifndef SLUICE_OUTBOUND_QUEUE_H
#define SLUICE_OUTBOUND_QUEUE_H
/* Where a request waits: a bounded queue of waiters, each class of them a line. Borrows them; each is in at most one queue. */
#include "outbound/line.h"
#include "outbound/outbound.h"
#include "outbound/tally.h"

#define WAITER_MAGIC 0x77616974u

struct queue {
    struct line returned; /* before all others */
    struct line lines[WAITER_CLASSES];
    uint64_t served[WAITER_CLASSES]; /* what each class has had, by its share: the least served is next */
    uint64_t stride[WAITER_CLASSES]; /* what one turn counts */
    uint64_t level; /* what the class that left last had been served then */
    unsigned count;
    uint64_t units; /* what they cost together */
    unsigned max;
    bool fair;
    bool has_classes;
    struct tally *tally; /* told how many wait; NULL = nobody */
};

void queue_init(struct queue *queue, unsigned max);
/* Nobody may be left. */
void queue_fini(struct queue *queue);
/* From now on. While two classes have waiters, `low_share` of 100 turns go to the lower one; 1 to 50. Those that wait keep their
 * places. `has_classes`: not all are WAITER_NORMAL. */
void queue_set_order(struct queue *queue, unsigned max, bool fair, bool has_classes,
                     unsigned low_share);
/* Whether there is no room for this waiter. In a fair queue a flow may have as many waiters as there is room left, and where there are
 * classes each leaves a tenth to every one above it: so who sends much can't shut others out. */
bool queue_is_full(const struct queue *queue, const struct waiter *waiter);
/* The waiter belongs to `bucket` from now on. Both mark it neither near nor ready. */
void queue_append(struct queue *queue, struct waiter *waiter, struct bucket *bucket);
void queue_prepend(struct queue *queue, struct waiter *waiter, struct bucket *bucket);
/* Takes it out, wherever it is, and clears its deadline. */
void queue_remove(struct queue *queue, struct waiter *waiter);
/* The same for one that leaves by a slot: it was its class' turn. */
void queue_release(struct queue *queue, struct waiter *waiter);

/* All that wait, in the order in which they would leave by a slot each. Nobody may enter or leave meanwhile. */
struct queue_walk {
    const struct queue *queue;
    struct waiter *returned;
    struct waiter *heads[WAITER_CLASSES];
    uint64_t served[WAITER_CLASSES];
};
struct queue_walk queue_walk(const struct queue *queue);
struct waiter *queue_next(struct queue_walk *walk);

/* These look at the first `within` waiters only, in the order in which they would leave. */
/* The first that is ready and costs no more than `cost_most`. */
struct waiter *queue_first_ready(const struct queue *queue, unsigned within, unsigned cost_most);
/* The first that on_near was not called for, and how many are ahead of it. */
struct waiter *queue_first_far(const struct queue *queue, unsigned within, unsigned *position);
/* How many are ready behind the first `skip` of those, up to one of another cost; `cost` is theirs. */
unsigned queue_ready_run(const struct queue *queue, unsigned within, unsigned skip, unsigned *cost);
/* The first of all, the last of all; NULL when nobody waits. */
struct waiter *queue_first(const struct queue *queue);
struct waiter *queue_last(const struct queue *queue);
/* How many are expected to leave before this one, were it appended now and nobody came after it. */
unsigned queue_ahead(const struct queue *queue, const struct waiter *waiter);

#endif
