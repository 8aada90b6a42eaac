#ifndef SLUICE_BASE_LOOP_H
#define SLUICE_BASE_LOOP_H
/*
 * One event loop: libevent for descriptors, one absolute timerfd for every timer, and deferred calls.
 *
 * Timers are kept in a heap by their absolute time and driven by a single timerfd (TFD_TIMER_ABSTIME) at
 * the highest event priority, since libevent's own timers may fire milliseconds early or late. A timer
 * never fires before its time. Inside a callback of a library only record and loop_defer(); never free.
 *
 * The simulator links another implementation of this header, with virtual time.
 */
#include "base/clock.h"
#include "base/must.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct loop;
struct event_base;

/* Event priorities: slots before everything else; then what third parties and Redis say (libevent's default priority), since
 * that is what slots wait for and it finishes what was begun; callers last, however many come at once. */
enum { LOOP_PRIORITY_SLOT = 0, LOOP_PRIORITY_UPSTREAM = 1, LOOP_PRIORITY_IO = 2, LOOP_PRIORITIES = 3 };

struct loop *loop_new(void);
/* All timers must be clear, all defers run. */
void loop_free(struct loop *loop);
/* For modules that watch descriptors; NULL in the simulator. */
struct event_base *loop_base(struct loop *loop);
/* What a handler of LOOP_PRIORITY_IO says first and last, so that what it defers runs at its own priority: libevent knows the
 * running event, but it must not be asked, since handlers free theirs. */
void loop_enter_io(struct loop *loop);
void loop_leave_io(struct loop *loop);

/* Runs until loop_stop(). */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

/* CLOCK_MONOTONIC, read afresh at every call. */
struct mono loop_now(const struct loop *loop);
struct wall loop_wall(const struct loop *loop);

/* A timer, embedded in its owner. Zero-initialised memory is a clear timer. */
struct timer {
    void (*due)(struct timer *timer, struct mono now);
    struct loop *loop; /* non-NULL while set */
    struct mono at;
    uint32_t heap_index;
};
/* Sets or moves a timer. `due` runs once, in the loop, at or after `at`, with the timer already clear. */
void timer_set(struct loop *loop, struct timer *timer, struct mono at, void (*due)(struct timer *, struct mono));
/* No effect on a clear timer. */
void timer_clear(struct timer *timer);
static inline bool timer_is_set(const struct timer *timer)
{
    return timer->loop != NULL;
}

/* A call to make once this turn's callbacks are done. Zero-initialised memory is an idle defer. */
struct defer {
    TAILQ_ENTRY(defer) link;
    void (*run)(struct defer *defer);
    struct loop *loop; /* non-NULL while pending */
    int priority;      /* of the queue it is in */
};
/* Runs `run` before the loop polls again, at the priority of what is running now. Already pending: no effect, but for
 * the priority, which only rises. */
void loop_defer(struct loop *loop, struct defer *defer, void (*run)(struct defer *));
void loop_defer_cancel(struct defer *defer);

#endif
