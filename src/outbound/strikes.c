/*
 * Strikes: how one throttled answer after the other is met.
 *
 *   a pause is over -> throttled again -> the next strike: pause_default has grown, and with adapt the rate sinks
 *                   -> a good answer   -> all forgiven
 *   a request that had left before the pause was over belongs to the strike that brought it, however late its answer
 *     comes: with several in flight one offence would else look like many
 *
 * A slow-down is a factor on the interval. It comes back by itself, by a twelfth of what is left with each step (eight
 * steps are half of it), computed when somebody looks, so nobody has to be there for it. It never goes below even.
 *
 * Errors are counted in slices of a tenth of their period, of which eleven are looked at, so never too few.
 */
#include "outbound/strikes.h"

#include <string.h>

enum { STEPS_MOST = 200, GROWTH_MOST = 64, REPEATED_STEPS = 80 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void strikes_init(struct strikes *s, int64_t now_us)
{
    *s = (struct strikes){.slow = STRIKES_EVEN, .moved_us = now_us};
}

static void check_clock(struct strikes *s, const struct strikes_ask *ask, int64_t now)
{
    s->until_us = s->until_us > now + ask->most_of_all_us ? 0 : s->until_us;
    s->pause_us = s->pause_us > now + ask->most_of_all_us ? 0 : s->pause_us;
    if (s->until_us > s->pause_us) { /* an operator ended it: with it went the offence */
        s->until_us = 0;
    }
    s->struck_us = least(s->struck_us, now);
    s->moved_us = least(s->moved_us, now);
}

static void come_back(struct strikes *s, const struct strikes_ask *ask, int64_t now)
{
    int64_t steps = (now - s->moved_us) / ask->step_us;
    int64_t excess = s->slow - STRIKES_EVEN;

    for (int64_t i = 0; i < least(steps, STEPS_MOST); i++) {
        excess = excess * 11 / 12;
    }
    s->slow = STRIKES_EVEN + (steps > STEPS_MOST ? 0 : excess);
    s->moved_us += steps * ask->step_us;
}

static void slow_down(struct strikes *s, int64_t to, int64_t now)
{
    s->slow = to;
    s->moved_us = now;
}

/* The length of the pause, -1 = nothing new. */
static int64_t throttled(struct strikes *s, const struct strikes_ask *ask, int64_t now, bool *fresh)
{
    int64_t length = -1;

    *fresh = now - ask->age_us >= s->until_us;
    if (*fresh) {
        bool lately = s->struck_us > 0 && now - s->struck_us <= REPEATED_STEPS * ask->step_us;
        s->count++;
        if (ask->slowest > STRIKES_EVEN && (s->count > 1 || lately)) {
            slow_down(s, least(s->slow * 3 / 2, ask->slowest), now);
        }
        s->struck_us = now;
        length = ask->usual_us;
        for (int64_t i = 2; i <= least(s->count, GROWTH_MOST); i++) {
            length = least(length * ask->growth, ask->most_us);
        }
    }
    if (ask->asked_us > 0) {
        length = ask->asked_us;
    }
    return length < 0 ? -1 : most(least(length, ask->most_us), ask->least_us);
}

static void count_error(struct strikes *s, int64_t slice)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < s->errors_count; i++) {
        if (s->errors[i].index >= slice - STRIKES_SLICES && s->errors[i].index <= slice) {
            s->errors[kept++] = s->errors[i];
        }
    }
    if (kept == 0 || s->errors[kept - 1].index != slice) {
        s->errors[kept].index = slice;
        s->errors[kept++].count = 0;
    }
    s->errors[kept - 1].count++;
    s->errors_count = kept;
}

static int64_t failed(struct strikes *s, const struct strikes_ask *ask, int64_t now)
{
    int64_t total = 0, length = -1;

    count_error(s, now / ask->slice_us);
    for (unsigned i = 0; i < s->errors_count; i++) {
        total += s->errors[i].count;
    }
    for (unsigned i = 0; i < s->errors_count && total >= ask->errors; i++) {
        total -= s->errors[i].count;
        length = (s->errors[i].index + STRIKES_SLICES + 1) * ask->slice_us - now;
    }
    return length;
}

static int64_t look_at_budget(struct strikes *s, const struct strikes_ask *ask, int64_t now)
{
    int64_t to = least(ask->slow_to, ask->slowest);

    if (to > s->slow) {
        slow_down(s, to, now);
    }
    return ask->asked_us > 0 ? least(ask->asked_us, ask->most_us) : -1;
}

static void pause_for(struct strikes *s, const struct strikes_ask *ask, int64_t now, int64_t length, enum stop why)
{
    int64_t last = now + least(length, ask->most_of_all_us);

    if (last >= s->until_us) {
        s->until_us = last;
        s->why = why;
    }
    s->pause_us = most(s->pause_us, last);
}

struct strikes_reply strikes_take(struct strikes *strikes, const struct strikes_ask *ask, int64_t now)
{
    struct strikes copy = *strikes; /* who only looks changes nothing */
    struct strikes *s = ask->what == TOLD_NOTHING ? &copy : strikes;
    int64_t length = -1;
    enum stop why = STOP_NONE;
    bool fresh = false;

    check_clock(s, ask, now);
    come_back(s, ask, now);
    switch (ask->what) {
    case TOLD_NOTHING:
        break;
    case TOLD_WELL:
        s->count = now - ask->age_us >= s->until_us ? 0 : s->count;
        break;
    case TOLD_THROTTLED:
        length = throttled(s, ask, now, &fresh);
        why = STOP_THROTTLED;
        break;
    case TOLD_BANNED:
        length = most(ask->usual_us, least(ask->asked_us, ask->most_us));
        why = STOP_BANNED;
        break;
    case TOLD_ERROR:
        length = ask->errors > 0 ? failed(s, ask, now) : -1;
        why = STOP_ERRORS;
        break;
    case TOLD_BUDGET:
        length = look_at_budget(s, ask, now);
        why = STOP_BUDGET;
        break;
    }
    if (length >= 0) {
        pause_for(s, ask, now, length, why);
    }
    return (struct strikes_reply){.now_us = now,
                                  .pause_us = s->pause_us > now ? s->pause_us : 0,
                                  .why = s->until_us > now ? s->why : STOP_NONE,
                                  .count = s->count,
                                  .slow = s->slow,
                                  .fresh = fresh};
}
