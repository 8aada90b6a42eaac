#ifndef SLUICE_OUTBOUND_WINDOW_H
#define SLUICE_OUTBOUND_WINDOW_H
/* What every exchange with Redis says about its clock, and slots on that clock as windows of our own. Pure. */
#include "outbound/slot.h"

#define WINDOW_LONG_AGO_US (INT64_MIN / 4)

/* Bounds of theta = Redis' clock - CLOCK_MONOTONIC. */
struct window_clock {
    bool known;
    int64_t low_us, high_us;
    struct mono at;      /* when they were last made */
    struct mono born;    /* first exchange ever */
    struct mono step_at; /* when a step of Redis' clock was last discovered; nothing asked before is to be used */
};

enum window_step { WINDOW_STEADY, WINDOW_STEP_FORWARD, WINDOW_STEP_BACKWARD };

/* A slot on our own clock: released from `first` to `last` or not at all. */
struct window {
    struct mono first, last;
    struct slot slot; /* as the hander-out of slots knows it */
    int64_t cost;     /* what it was asked for */
};

void window_clock_init(struct window_clock *clock);
/* Takes in one exchange: sent and answered by our clock, `now` by Redis' clock in between. */
enum window_step window_exchange(struct window_clock *clock, struct mono sent, struct mono answered, struct rtime now);
/* The part of a slot's window that is inside it whatever the delays were; `now` is the reply's. False when nothing is
 * left. */
bool window_map(const struct window_clock *clock, const struct slot *slot, struct rtime now,
                struct window *out) MUST_CHECK;
/* About when Redis' clock shows `at`. */
struct mono window_guess(const struct window_clock *clock, struct rtime at);

#endif
