/*
 * The loop: libevent waits for descriptors; timers live in a binary heap of our own behind one timerfd.
 *
 *   timer_set -> heap -> [timerfd armed for the earliest] -> timers_due: clock read -> every timer whose time has come
 *
 * Re-arming is lazy: setting a timer later than the armed time, or clearing one, costs no system call; the timerfd then
 * fires once for nothing and is armed for the true earliest. At most MAX_CALLBACKS descriptors are served between two
 * looks at the timerfd, so a burst of input can't hold up a slot.
 */
#include "base/loop.h"

#include "base/mem.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* More, and a slot waits longer; fewer, and polling thousands of ready descriptors costs more than serving them. */
enum { MAX_CALLBACKS = 32 };

TAILQ_HEAD(defer_list, defer);
struct defers {
    struct loop *loop;
    struct event *event;
    struct defer_list list;
};

struct loop {
    struct event_base *base;
    struct event *timer_event;
    int timer_fd;
    struct mono armed_at; /* CLOCK_NEVER_US: not armed */
    struct timer **heap;
    uint32_t heap_count, heap_cap;
    struct defers defers[LOOP_PRIORITIES];
    int priority; /* of the handler that is running */
};

static void timers_due(evutil_socket_t fd, short what, void *arg);
static void defers_due(evutil_socket_t fd, short what, void *arg);

struct loop *loop_new(void)
{
    struct loop *loop = mem_zalloc(sizeof(*loop));
    struct event_config *config = event_config_new();

    must(config != NULL);
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_config_set_max_dispatch_interval(config, NULL, MAX_CALLBACKS, LOOP_PRIORITY_UPSTREAM);
    loop->base = event_base_new_with_config(config);
    event_config_free(config);
    must(loop->base != NULL);
    loop->priority = LOOP_PRIORITY_IO;
    event_base_priority_init(loop->base, LOOP_PRIORITIES);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    must(loop->timer_fd >= 0);
    loop->armed_at.us = CLOCK_NEVER_US;
    loop->timer_event = event_new(loop->base, loop->timer_fd, EV_READ | EV_PERSIST, timers_due, loop);
    must(loop->timer_event != NULL);
    event_priority_set(loop->timer_event, LOOP_PRIORITY_SLOT);
    must(event_add(loop->timer_event, NULL) == 0);
    for (int priority = 0; priority < LOOP_PRIORITIES; priority++) {
        struct defers *defers = &loop->defers[priority];
        defers->loop = loop;
        TAILQ_INIT(&defers->list);
        defers->event = event_new(loop->base, -1, 0, defers_due, defers);
        must(defers->event != NULL);
        event_priority_set(defers->event, priority);
    }
    return loop;
}

void loop_free(struct loop *loop)
{
    must(loop->heap_count == 0);
    event_free(loop->timer_event);
    for (int priority = 0; priority < LOOP_PRIORITIES; priority++) {
        must(TAILQ_EMPTY(&loop->defers[priority].list));
        event_free(loop->defers[priority].event);
    }
    event_base_free(loop->base);
    close(loop->timer_fd);
    mem_free(loop->heap);
    mem_free(loop);
}

struct event_base *loop_base(struct loop *loop)
{
    return loop->base;
}

void loop_run(struct loop *loop)
{
    loop->priority = LOOP_PRIORITY_UPSTREAM;
    must(event_base_dispatch(loop->base) >= 0);
    loop->priority = LOOP_PRIORITY_IO;
}

void loop_enter_io(struct loop *loop)
{
    loop->priority = LOOP_PRIORITY_IO;
}

void loop_leave_io(struct loop *loop)
{
    loop->priority = LOOP_PRIORITY_UPSTREAM;
}

void loop_stop(struct loop *loop)
{
    event_base_loopbreak(loop->base);
}

struct mono loop_now(const struct loop *loop)
{
    (void)loop;
    return clock_mono_now();
}

struct wall loop_wall(const struct loop *loop)
{
    (void)loop;
    return clock_wall_now();
}

/* ---- the heap ---- */

static void heap_put(struct loop *loop, uint32_t at, struct timer *timer)
{
    loop->heap[at] = timer;
    timer->heap_index = at;
}

static void heap_up(struct loop *loop, uint32_t at, struct timer *timer)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (loop->heap[parent]->at.us <= timer->at.us) {
            break;
        }
        heap_put(loop, at, loop->heap[parent]);
        at = parent;
    }
    heap_put(loop, at, timer);
}

static void heap_down(struct loop *loop, uint32_t at, struct timer *timer)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= loop->heap_count) {
            break;
        }
        if (child + 1 < loop->heap_count && loop->heap[child + 1]->at.us < loop->heap[child]->at.us) {
            child++;
        }
        if (timer->at.us <= loop->heap[child]->at.us) {
            break;
        }
        heap_put(loop, at, loop->heap[child]);
        at = child;
    }
    heap_put(loop, at, timer);
}

static void heap_fix(struct loop *loop, uint32_t at, struct timer *timer)
{
    if (at > 0 && timer->at.us < loop->heap[(at - 1) / 2]->at.us) {
        heap_up(loop, at, timer);
    } else {
        heap_down(loop, at, timer);
    }
}

static void heap_add(struct loop *loop, struct timer *timer)
{
    if (loop->heap_count == loop->heap_cap) {
        loop->heap_cap = loop->heap_cap > 0 ? loop->heap_cap * 2 : 64;
        loop->heap = mem_realloc(loop->heap, loop->heap_cap * sizeof(loop->heap[0]));
    }
    loop->heap_count++;
    heap_up(loop, loop->heap_count - 1, timer);
}

static void heap_remove(struct loop *loop, uint32_t at)
{
    loop->heap_count--;
    if (at < loop->heap_count) {
        heap_fix(loop, at, loop->heap[loop->heap_count]);
    }
}

/* ---- timers ---- */

static void arm(struct loop *loop, struct mono at)
{
    /* it_value 0 would disarm; a time that has passed fires at once */
    int64_t us = at.us > 0 ? at.us : 1;
    struct itimerspec spec = {.it_value = {us / CLOCK_SECOND_US, (us % CLOCK_SECOND_US) * 1000}};

    must(timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0);
    loop->armed_at = at;
}

void timer_set(struct loop *loop, struct timer *timer, struct mono at, void (*due)(struct timer *, struct mono))
{
    must(timer->loop == NULL || timer->loop == loop);
    timer->due = due;
    timer->at = at;
    if (timer->loop == NULL) {
        timer->loop = loop;
        heap_add(loop, timer);
    } else {
        heap_fix(loop, timer->heap_index, timer);
    }
    if (at.us < loop->armed_at.us) {
        arm(loop, at);
    }
}

void timer_clear(struct timer *timer)
{
    if (timer->loop != NULL) {
        must(timer->loop->heap[timer->heap_index] == timer);
        heap_remove(timer->loop, timer->heap_index);
        timer->loop = NULL;
    }
}

/* `turn` is read once: a handler that sets a timer for the time after it can't keep the loop from its descriptors. */
static void timers_due(evutil_socket_t fd, short what, void *arg)
{
    struct loop *loop = arg;
    uint64_t expirations;

    (void)what;
    if (read((int)fd, &expirations, sizeof(expirations)) < 0) {
        must(errno == EAGAIN || errno == EINTR);
    }
    loop->armed_at.us = CLOCK_NEVER_US;
    struct mono turn = clock_mono_now();
    loop->priority = LOOP_PRIORITY_SLOT;
    while (loop->heap_count > 0 && loop->heap[0]->at.us <= turn.us) {
        struct timer *timer = loop->heap[0];
        struct mono now = clock_mono_now();
        timer_clear(timer);
        timer->due(timer, now);
    }
    loop->priority = LOOP_PRIORITY_UPSTREAM;
    if (loop->heap_count > 0 && loop->heap[0]->at.us < loop->armed_at.us) {
        arm(loop, loop->heap[0]->at);
    }
}

/* ---- deferred calls ----
 *
 * One queue per priority. A call is put at the priority of the handler that asks for it: higher, and libevent would
 * break off after that handler and poll, which with thousands of ready descriptors costs more than it serves them for;
 * lower, and what an upstream's answer sets off would wait behind every caller. */

static void put(struct loop *loop, struct defer *defer, int priority)
{
    struct defers *defers = &loop->defers[priority];

    if (TAILQ_EMPTY(&defers->list)) {
        event_active(defers->event, EV_TIMEOUT, 0);
    }
    defer->priority = priority;
    TAILQ_INSERT_TAIL(&defers->list, defer, link);
}

void loop_defer(struct loop *loop, struct defer *defer, void (*run)(struct defer *))
{
    int priority = loop->priority;

    if (defer->loop == NULL) {
        defer->loop = loop;
        defer->run = run;
        put(loop, defer, priority);
        return;
    }
    must(defer->run == run);
    if (priority < defer->priority) {
        TAILQ_REMOVE(&loop->defers[defer->priority].list, defer, link);
        put(loop, defer, priority);
    }
}

void loop_defer_cancel(struct defer *defer)
{
    if (defer->loop != NULL) {
        TAILQ_REMOVE(&defer->loop->defers[defer->priority].list, defer, link);
        defer->loop = NULL;
    }
}

/* Runs what is pending now; what these calls defer in turn runs next, before the loop polls again. */
static void defers_due(evutil_socket_t fd, short what, void *arg)
{
    struct defers *defers = arg;
    struct loop *loop = defers->loop;
    struct defer *defer;
    struct defer end = {0};

    (void)fd;
    (void)what;
    loop->priority = (int)(defers - loop->defers);
    TAILQ_INSERT_TAIL(&defers->list, &end, link);
    while ((defer = TAILQ_FIRST(&defers->list)) != &end) {
        TAILQ_REMOVE(&defers->list, defer, link);
        defer->loop = NULL;
        defer->run(defer);
    }
    TAILQ_REMOVE(&defers->list, &end, link);
    loop->priority = LOOP_PRIORITY_UPSTREAM;
    if (!TAILQ_EMPTY(&defers->list)) {
        event_active(defers->event, EV_TIMEOUT, 0);
    }
}
