/*
 * WHERE A REQUEST WAITS.
 *
 *   bucket_enqueue ->  tail ... [waiter] [waiter] [waiter]  head -> pacer: near (get a connection) -> ready -> released
 * at its slot
 *                                   |
 *                                   +-> cancelled or past its deadline: out at once, from any place
 *
 * Slots are not bound to waiters: whoever is first and ready when a window opens takes it, so one who leaves the queue
 * costs nothing. An intrusive list makes entering and leaving cheap at any length; only the few waiters at the head are
 * ever walked. A waiter that lost its connection at the head is overtaken by the next ready one rather than letting the
 * slot go to waste.
 */
#include "outbound/queue.h"

void queue_init(struct queue *queue, unsigned max)
{
    TAILQ_INIT(&queue->list);
    queue->count = 0;
    queue->max = max;
    queue->tally = NULL;
}

bool queue_is_full(const struct queue *queue)
{
    return queue->count >= queue->max;
}

static void enter(struct queue *queue, struct waiter *waiter, struct bucket *bucket)
{
    must(waiter->bucket == NULL && bucket != NULL);
    must(waiter->ops != NULL);
    waiter->magic = WAITER_MAGIC;
    waiter->bucket = bucket;
    waiter->near = waiter->ready = false;
    queue->count++;
    tally_waiting(queue->tally, 1);
}

void queue_append(struct queue *queue, struct waiter *waiter, struct bucket *bucket)
{
    enter(queue, waiter, bucket);
    TAILQ_INSERT_TAIL(&queue->list, waiter, link);
}

void queue_prepend(struct queue *queue, struct waiter *waiter, struct bucket *bucket)
{
    enter(queue, waiter, bucket);
    TAILQ_INSERT_HEAD(&queue->list, waiter, link);
}

void queue_remove(struct queue *queue, struct waiter *waiter)
{
    must_be(waiter, WAITER_MAGIC);
    must(waiter->bucket != NULL && queue->count > 0);
    TAILQ_REMOVE(&queue->list, waiter, link);
    timer_clear(&waiter->deadline);
    waiter->bucket = NULL;
    queue->count--;
    tally_waiting(queue->tally, -1);
}

struct waiter *queue_first_ready(const struct queue *queue, unsigned within)
{
    struct waiter *waiter = TAILQ_FIRST(&queue->list);

    for (; waiter != NULL && within > 0; waiter = TAILQ_NEXT(waiter, link), within--) {
        if (waiter->ready) {
            return waiter;
        }
    }
    return NULL;
}

struct waiter *queue_first_far(const struct queue *queue, unsigned within, unsigned *position)
{
    struct waiter *waiter = TAILQ_FIRST(&queue->list);

    for (*position = 0; waiter != NULL && *position < within; waiter = TAILQ_NEXT(waiter, link), ++*position) {
        if (!waiter->near) {
            return waiter;
        }
    }
    return NULL;
}

unsigned queue_ready_count(const struct queue *queue, unsigned within)
{
    const struct waiter *waiter = TAILQ_FIRST(&queue->list);
    unsigned ready = 0;

    for (; waiter != NULL && within > 0; waiter = TAILQ_NEXT(waiter, link), within--) {
        ready += waiter->ready;
    }
    return ready;
}
