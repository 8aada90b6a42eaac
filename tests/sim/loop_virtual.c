/*
 * The world moves from one happening to the next: events of its own (messages, faults) and wake-ups of its loops.
 * Between two happenings no time passes, so an hour costs what its happenings cost.
 */
#include "loop_virtual.h"

#include "base/mem.h"

#include <math.h>

enum { LOOPS_MAX = 64 };

struct event {
    int64_t at_us;
    uint64_t order;
    void (*run)(void *arg);
    void *arg;
};

struct world {
    int64_t now_us;
    uint64_t random, order;
    struct event *events; /* a heap */
    unsigned events_count, events_cap;
    struct loop *loops[LOOPS_MAX];
    unsigned loops_count;
    bool is_private; /* made by loop_new() */
};

struct loop {
    struct world *world;
    int64_t offset_us;
    int drift_ppm;
    double late_mean_us, stall_p, stall_us;
    int64_t late_us; /* of the next wake-up */
    int64_t frozen_until_us;
    bool is_dead, is_stopped;
    struct timer **heap;
    uint32_t count, cap;
    TAILQ_HEAD(, defer) defers;
};

/* ---- random numbers: splitmix64 ---- */

uint64_t world_random(struct world *world)
{
    uint64_t z = (world->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double world_uniform(struct world *world, double least, double most)
{
    return least + (most - least) * ((double)(world_random(world) >> 11) / 9007199254740992.0);
}

double world_exponential(struct world *world, double mean)
{
    return mean <= 0 ? 0 : -mean * log(1.0 - world_uniform(world, 0, 1));
}

/* ---- the world ---- */

struct world *world_new(uint64_t seed)
{
    struct world *world = mem_zalloc(sizeof(*world));
    world->random = seed * 2 + 1;
    return world;
}

void world_free(struct world *world)
{
    must(world->loops_count == 0);
    mem_free(world->events);
    mem_free(world);
}

int64_t world_now(const struct world *world)
{
    return world->now_us;
}

static bool event_before(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void world_at(struct world *world, int64_t at_us, void (*run)(void *arg), void *arg)
{
    struct event event = {at_us > world->now_us ? at_us : world->now_us, world->order++, run, arg};
    unsigned at = world->events_count++;

    if (world->events_count > world->events_cap) {
        world->events_cap = world->events_cap > 0 ? world->events_cap * 2 : 64;
        world->events = mem_realloc(world->events, world->events_cap * sizeof(event));
    }
    while (at > 0 && event_before(&event, &world->events[(at - 1) / 2])) {
        world->events[at] = world->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->events[at] = event;
}

static struct event event_pop(struct world *world)
{
    struct event first = world->events[0], last = world->events[--world->events_count];
    unsigned at = 0, child;

    while ((child = 2 * at + 1) < world->events_count) {
        if (child + 1 < world->events_count && event_before(&world->events[child + 1], &world->events[child])) {
            child++;
        }
        if (!event_before(&world->events[child], &last)) {
            break;
        }
        world->events[at] = world->events[child];
        at = child;
    }
    world->events[at] = last;
    return first;
}

/* ---- loops ---- */

struct loop *world_loop(struct world *world, int64_t offset_us, int drift_ppm)
{
    struct loop *loop = mem_zalloc(sizeof(*loop));

    must(world->loops_count < LOOPS_MAX);
    world->loops[world->loops_count++] = loop;
    loop->world = world;
    loop->offset_us = offset_us;
    loop->drift_ppm = drift_ppm;
    loop->frozen_until_us = INT64_MIN;
    TAILQ_INIT(&loop->defers);
    return loop;
}

struct loop *loop_new(void)
{
    struct world *world = world_new(1);
    world->is_private = true;
    return world_loop(world, 1000000000, 0);
}

void loop_free(struct loop *loop)
{
    struct world *world = loop->world;

    must(loop->count == 0 && TAILQ_EMPTY(&loop->defers));
    for (unsigned i = 0; i < world->loops_count; i++) {
        if (world->loops[i] == loop) {
            world->loops[i] = world->loops[--world->loops_count];
            break;
        }
    }
    mem_free(loop->heap);
    mem_free(loop);
    if (world->is_private) {
        world_free(world);
    }
}

struct world *loop_world(const struct loop *loop)
{
    return loop->world;
}

struct event_base *loop_base(struct loop *loop)
{
    (void)loop;
    return NULL;
}

struct mono loop_now(const struct loop *loop)
{
    int64_t t = loop->world->now_us;
    return (struct mono){loop->offset_us + t + t * loop->drift_ppm / 1000000};
}

struct wall loop_wall(const struct loop *loop)
{
    return (struct wall){INT64_C(1700000000000000) + loop->world->now_us};
}

/* The first time of the world at which this clock shows `at` or later. */
static int64_t world_time_of(const struct loop *loop, struct mono at)
{
    int64_t shown = at.us - loop->offset_us;
    int64_t t = shown - shown * loop->drift_ppm / 1000000 - 2;

    while (loop->offset_us + t + t * loop->drift_ppm / 1000000 < at.us) {
        t++;
    }
    return t;
}

static void draw_lateness(struct loop *loop)
{
    double late = world_exponential(loop->world, loop->late_mean_us);

    if (loop->stall_p > 0 && world_uniform(loop->world, 0, 1) < loop->stall_p) {
        late += world_uniform(loop->world, 0, loop->stall_us);
    }
    loop->late_us = (int64_t)late;
}

void loop_set_lateness(struct loop *loop, double mean_us, double stall_p, double stall_us)
{
    loop->late_mean_us = mean_us;
    loop->stall_p = stall_p;
    loop->stall_us = stall_us;
    draw_lateness(loop);
}

void loop_freeze(struct loop *loop, int64_t for_us)
{
    int64_t until = loop->world->now_us + for_us;
    loop->frozen_until_us = until > loop->frozen_until_us ? until : loop->frozen_until_us;
}

void loop_skip_clock(struct loop *loop, int64_t by_us)
{
    loop->offset_us -= by_us;
}

void loop_kill(struct loop *loop)
{
    struct defer *defer;

    loop->is_dead = true;
    while (loop->count > 0) {
        timer_clear(loop->heap[0]);
    }
    while ((defer = TAILQ_FIRST(&loop->defers)) != NULL) {
        loop_defer_cancel(defer);
    }
}

/* ---- timers ---- */

static void put(struct loop *loop, uint32_t at, struct timer *timer)
{
    loop->heap[at] = timer;
    timer->heap_index = at;
}

static void sift(struct loop *loop, uint32_t at)
{
    struct timer *timer = loop->heap[at];
    uint32_t child;

    for (; at > 0 && timer->at.us < loop->heap[(at - 1) / 2]->at.us; at = (at - 1) / 2) {
        put(loop, at, loop->heap[(at - 1) / 2]);
    }
    for (; (child = 2 * at + 1) < loop->count; at = child) {
        if (child + 1 < loop->count && loop->heap[child + 1]->at.us < loop->heap[child]->at.us) {
            child++;
        }
        if (timer->at.us <= loop->heap[child]->at.us) {
            break;
        }
        put(loop, at, loop->heap[child]);
    }
    put(loop, at, timer);
}

void timer_set(struct loop *loop, struct timer *timer, struct mono at, void (*due)(struct timer *, struct mono))
{
    must(timer->loop == NULL || timer->loop == loop);
    timer->due = due;
    timer->at = at;
    if (timer->loop == NULL) {
        if (loop->count == loop->cap) {
            loop->cap = loop->cap > 0 ? loop->cap * 2 : 64;
            loop->heap = mem_realloc(loop->heap, loop->cap * sizeof(loop->heap[0]));
        }
        timer->loop = loop;
        put(loop, loop->count++, timer);
    }
    sift(loop, timer->heap_index);
}

void timer_clear(struct timer *timer)
{
    struct loop *loop = timer->loop;

    if (loop != NULL) {
        uint32_t at = timer->heap_index;
        struct timer *last = loop->heap[--loop->count];
        timer->loop = NULL;
        if (last != timer) {
            put(loop, at, last);
            sift(loop, at);
        }
    }
}

/* ---- deferred calls ---- */

void loop_enter_io(struct loop *loop)
{
    (void)loop; /* no priorities here */
}

void loop_leave_io(struct loop *loop)
{
    (void)loop;
}

void loop_defer(struct loop *loop, struct defer *defer, void (*run)(struct defer *))
{
    if (defer->loop == NULL && !loop->is_dead) {
        defer->loop = loop;
        defer->run = run;
        TAILQ_INSERT_TAIL(&loop->defers, defer, link);
    }
}

void loop_defer_cancel(struct defer *defer)
{
    if (defer->loop != NULL) {
        TAILQ_REMOVE(&defer->loop->defers, defer, link);
        defer->loop = NULL;
    }
}

static void run_defers(struct loop *loop)
{
    struct defer *defer;

    while ((defer = TAILQ_FIRST(&loop->defers)) != NULL) {
        TAILQ_REMOVE(&loop->defers, defer, link);
        defer->loop = NULL;
        defer->run(defer);
    }
}

/* ---- running ---- */

struct delivery {
    struct loop *loop;
    void (*run)(void *arg);
    void *arg;
};

static void deliver(void *arg)
{
    struct delivery *delivery = arg;
    struct loop *loop = delivery->loop;

    if (loop->is_dead) {
        mem_free(delivery);
    } else if (loop->world->now_us < loop->frozen_until_us) {
        world_at(loop->world, loop->frozen_until_us, deliver, delivery);
    } else {
        delivery->run(delivery->arg);
        mem_free(delivery);
        run_defers(loop);
    }
}

void loop_deliver(struct loop *loop, void (*run)(void *arg), void *arg)
{
    struct delivery *delivery = mem_alloc(sizeof(*delivery));
    *delivery = (struct delivery){loop, run, arg};
    world_at(loop->world, loop->world->now_us, deliver, delivery);
}

static int64_t wake_time(const struct loop *loop)
{
    int64_t at = INT64_MAX;

    if (loop->is_dead) {
        return INT64_MAX;
    }
    if (!TAILQ_EMPTY(&loop->defers)) {
        at = loop->world->now_us;
    } else if (loop->count > 0 && loop->heap[0]->at.us < CLOCK_NEVER_US) {
        at = world_time_of(loop, loop->heap[0]->at) + loop->late_us;
    }
    return at != INT64_MAX && at < loop->frozen_until_us ? loop->frozen_until_us : at;
}

static void wake(struct loop *loop)
{
    struct mono turn = loop_now(loop);

    run_defers(loop);
    while (loop->count > 0 && loop->heap[0]->at.us <= turn.us) {
        struct timer *timer = loop->heap[0];
        timer_clear(timer);
        timer->due(timer, loop_now(loop));
    }
    run_defers(loop);
    draw_lateness(loop);
}

/* False when nothing happens until `until`. */
static bool step(struct world *world, int64_t until)
{
    struct loop *next = NULL;
    int64_t at = world->events_count > 0 ? world->events[0].at_us : INT64_MAX;

    for (unsigned i = 0; i < world->loops_count; i++) {
        int64_t when = wake_time(world->loops[i]);
        if (when < at) {
            at = when;
            next = world->loops[i];
        }
    }
    if (at > until) {
        return false;
    }
    world->now_us = at > world->now_us ? at : world->now_us;
    if (next != NULL) {
        wake(next);
    } else {
        struct event event = event_pop(world);
        event.run(event.arg);
    }
    return true;
}

void world_run(struct world *world, int64_t for_us)
{
    int64_t until = world->now_us + for_us;

    while (step(world, until)) {
    }
    world->now_us = until;
}

void loop_run(struct loop *loop)
{
    loop->is_stopped = false;
    while (!loop->is_stopped && step(loop->world, INT64_MAX)) {
    }
}

void loop_stop(struct loop *loop)
{
    loop->is_stopped = true;
}
