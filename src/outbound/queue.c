/*
 * WHERE A REQUEST WAITS.
 *
 *   bucket_enqueue -> [high  ...] -.
 *                     [normal ...] -+-> head -> pacer: near (get a connection) -> ready -> released at its slot
 *                     [low   ...] -'
 *                          |
 *                          +-> cancelled or past its deadline: out at once, from any place
 *
 * Slots are not bound to waiters: whoever is first and ready when a window opens takes it, so one who leaves the queue
 * costs nothing. A waiter that lost its connection at the head is overtaken by the next ready one rather than letting the
 * slot go to waste. Only the few waiters at the head are ever walked.
 *
 * Classes share by stride (Waldspurger and Weihl, "Stride scheduling", 1995): each turn adds a class' stride to what it
 * was served, and the least served is next; one that was empty starts a turn behind whoever left last, so it has no
 * credit from then. A higher class' stride is smaller by the ratio of the shares: its few requests go before everything below them,
 * and when it wants all there is, the lower one still has its share. Within a class: line.c.
 */
#include "outbound/queue.h"

#define STRIDE (UINT64_C(1) << 20)
enum { ALL = 100, SHARE_USUAL = 10, LEFT_TO_HIGHER = 10 };

void queue_init(struct queue *queue, unsigned max)
{
    *queue = (struct queue){.tally = NULL};
    queue_set_order(queue, max, false, false, SHARE_USUAL);
}

void queue_fini(struct queue *queue)
{
    line_fini(&queue->returned);
    for (int class = 0; class < WAITER_CLASSES; class ++) {
        line_fini(&queue->lines[class]);
    }
}

void queue_set_order(struct queue *queue, unsigned max, bool fair, bool has_classes, unsigned low_share)
{
    must(low_share > 0 && low_share < ALL);
    queue->max = max;
    queue->fair = fair;
    queue->has_classes = has_classes;
    queue->stride[WAITER_HIGH] = STRIDE;
    for (int class = WAITER_NORMAL; class < WAITER_CLASSES; class ++) {
        queue->stride[class] = queue->stride[class - 1] * (ALL - low_share) / low_share;
    }
}

/* ---- the order ---- */

struct queue_walk queue_walk(const struct queue *queue)
{
    struct queue_walk walk = {.queue = queue, .returned = line_first(&queue->returned)};

    for (int class = 0; class < WAITER_CLASSES; class ++) {
        walk.heads[class] = line_first(&queue->lines[class]);
        walk.served[class] = queue->served[class];
    }
    return walk;
}

/* Equal ones: the higher class. */
static int least_served(const struct queue_walk *walk)
{
    int least = -1;

    for (int class = 0; class < WAITER_CLASSES; class ++) {
        if (walk->heads[class] != NULL && (least < 0 || walk->served[class] < walk->served[least])) {
            least = class;
        }
    }
    return least;
}

struct waiter *queue_next(struct queue_walk *walk)
{
    struct waiter *waiter = walk->returned;

    if (waiter != NULL) {
        walk->returned = line_next(&walk->queue->returned, waiter);
        return waiter;
    }
    int class = least_served(walk);
    if (class < 0) {
        return NULL;
    }
    waiter = walk->heads[class];
    walk->heads[class] = line_next(&walk->queue->lines[class], waiter);
    walk->served[class] += walk->queue->stride[class] * waiter->cost;
    return waiter;
}

/* ---- entering and leaving ---- */

static unsigned or_1(unsigned n)
{
    return n > 0 ? n : 1;
}

static void enter(struct queue *queue, struct waiter *waiter, struct bucket *bucket, bool returned)
{
    must(waiter->bucket == NULL && bucket != NULL);
    must(waiter->ops != NULL);
    waiter->magic = WAITER_MAGIC;
    waiter->bucket = bucket;
    waiter->near = waiter->ready = false;
    waiter->returned = returned;
    waiter->weight = or_1(waiter->weight);
    waiter->cost = or_1(waiter->cost);
    queue->count++;
    queue->units += waiter->cost;
    tally_waiting(queue->tally, 1);
}

bool queue_is_full(const struct queue *queue, const struct waiter *waiter)
{
    uint64_t kept = queue->has_classes ? (uint64_t)queue->max * waiter->class * LEFT_TO_HIGHER / ALL : 0;

    if (queue->count + kept >= queue->max) {
        return true;
    }
    return queue->fair && line_of_flow(&queue->lines[waiter->class], waiter->flow) >= queue->max - queue->count;
}

static uint64_t served_at_start(const struct queue *queue, enum waiter_class class)
{
    uint64_t level = queue->level + queue->stride[class];

    return queue->served[class] > level ? queue->served[class] : level;
}

void queue_append(struct queue *queue, struct waiter *waiter, struct bucket *bucket)
{
    struct line *line = &queue->lines[waiter->class];

    enter(queue, waiter, bucket, false);
    if (line->count == 0) {
        queue->served[waiter->class] = served_at_start(queue, waiter->class);
    }
    line_append(line, waiter, queue->fair);
}

void queue_prepend(struct queue *queue, struct waiter *waiter, struct bucket *bucket)
{
    enter(queue, waiter, bucket, true);
    line_prepend(&queue->returned, waiter);
}

void queue_remove(struct queue *queue, struct waiter *waiter)
{
    must_be(waiter, WAITER_MAGIC);
    must(waiter->bucket != NULL && queue->count > 0);
    line_remove(waiter->returned ? &queue->returned : &queue->lines[waiter->class], waiter);
    timer_clear(&waiter->deadline);
    waiter->bucket = NULL;
    queue->count--;
    queue->units -= waiter->cost;
    tally_waiting(queue->tally, -1);
}

void queue_release(struct queue *queue, struct waiter *waiter)
{
    if (!waiter->returned) {
        uint64_t *served = &queue->served[waiter->class];
        queue->level = *served > queue->level ? *served : queue->level;
        *served += queue->stride[waiter->class] * waiter->cost;
    }
    queue_remove(queue, waiter);
}

/* ---- looking ---- */

struct waiter *queue_first_ready(const struct queue *queue, unsigned within, unsigned cost_most)
{
    struct queue_walk walk = queue_walk(queue);
    struct waiter *waiter;

    for (; within > 0 && (waiter = queue_next(&walk)) != NULL; within--) {
        if (waiter->ready && waiter->cost <= cost_most) {
            return waiter;
        }
    }
    return NULL;
}

struct waiter *queue_first_far(const struct queue *queue, unsigned within, unsigned *position)
{
    struct queue_walk walk = queue_walk(queue);
    struct waiter *waiter;

    for (*position = 0; *position < within && (waiter = queue_next(&walk)) != NULL; ++*position) {
        if (!waiter->near) {
            return waiter;
        }
    }
    return NULL;
}

unsigned queue_ready_run(const struct queue *queue, unsigned within, unsigned skip, unsigned *cost)
{
    struct queue_walk walk = queue_walk(queue);
    const struct waiter *waiter;
    unsigned ready = 0, run = 0;

    *cost = 1;
    for (; within > 0 && (waiter = queue_next(&walk)) != NULL; within--) {
        if (!waiter->ready || ready++ < skip) {
            continue;
        }
        if (run > 0 && waiter->cost != *cost) {
            break;
        }
        *cost = waiter->cost;
        run++;
    }
    return run;
}

struct waiter *queue_first(const struct queue *queue)
{
    struct queue_walk walk = queue_walk(queue);

    return queue_next(&walk);
}

struct waiter *queue_last(const struct queue *queue)
{
    for (int class = WAITER_CLASSES - 1; class >= 0; class --) {
        if (queue->lines[class].count > 0) {
            return line_last(&queue->lines[class]);
        }
    }
    return line_last(&queue->returned);
}

/* While `turns` of one class' waiters leave, so many of another's do. */
static unsigned meanwhile(const struct queue *queue, int class, enum waiter_class own, uint64_t turns)
{
    bool begins = queue->lines[own].count == 0;
    uint64_t until = (begins ? served_at_start(queue, own) : queue->served[own]) + turns * queue->stride[own];
    uint64_t from = queue->served[class];
    bool first = class < (int)own; /* of equal ones */
    uint64_t most = until > from ? (until - from + (first ? 0 : queue->stride[class] - 1)) / queue->stride[class] : 0;

    most += first && until >= from ? 1 : 0;
    return most < queue->lines[class].count ? (unsigned)most : queue->lines[class].count;
}

unsigned queue_ahead(const struct queue *queue, const struct waiter *waiter)
{
    unsigned own = line_ahead(&queue->lines[waiter->class], waiter, queue->fair);
    unsigned ahead = queue->returned.count + own;

    for (int class = 0; class < WAITER_CLASSES; class ++) {
        ahead += class != (int)waiter->class ? meanwhile(queue, class, waiter->class, own) : 0;
    }
    return ahead;
}
