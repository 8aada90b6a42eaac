/*
 * Fixed window, sliding window counter and strict sliding window: counts in slices of equal width, newest first.
 *
 *     slices + 1 of them        ... [ oldest ][        ][ newest: start_us .. now
 *
 *   fixed      2 of one period: the oldest no longer counts. At most N in each window, so 2N around an edge.
 *   counter    2 of one period: the oldest counts for as much of it as the sliding window still covers, as if its
 * requests had come evenly; rounded up. If they all came at its end that is too little: 2N - 1 in the worst window.
 *   strict     11 of a tenth: the oldest counts whole, so every request of the last period is counted, and some that
 * are a little older. Never above N in any window; under a steady flood about 10/11 of the rate gets through.
 *
 * Slices start at multiples of their width while nobody comes; the next one starts where the last ended. A start in the
 * future (the clock stepped back) is moved to now with its counts: nobody gets a second quota from a step, nobody waits
 * longer than all slices take. From then on the slices are off the grid until the caller pauses.
 */
#include "inbound/limit.h"

#include <string.h>

static int64_t max2(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool settle(const struct limit *limit, union limit_state *state, int64_t now_us)
{
    struct windows *windows = &state->windows;
    bool in_future = windows->start_us > now_us;

    if (in_future) {
        windows->start_us = now_us;
    }
    int64_t steps = (now_us - windows->start_us) / limit->width_us;
    if (steps > limit->slices) {
        memset(windows->counts, 0, sizeof(windows->counts));
        windows->start_us = now_us - now_us % limit->width_us;
    } else if (steps > 0) {
        memmove(windows->counts + steps, windows->counts,
                (size_t)(limit->slices + 1 - steps) * sizeof(windows->counts[0]));
        memset(windows->counts, 0, (size_t)steps * sizeof(windows->counts[0]));
        windows->start_us += steps * limit->width_us;
    }
    return in_future;
}

static int64_t sum(const uint32_t *counts, int64_t count)
{
    int64_t total = 0;

    for (int64_t i = 0; i < count; i++) {
        total += counts[i];
    }
    return total;
}

static int64_t weight(const struct limit *limit, int64_t oldest, int64_t elapsed_us)
{
    switch (limit->algorithm) {
    case ALGORITHM_SLIDING_WINDOW_STRICT:
        return oldest;
    case ALGORITHM_SLIDING_WINDOW_COUNTER: {
        __int128 covered = (__int128)oldest * (limit->width_us - elapsed_us);
        return (int64_t)((covered + limit->width_us - 1) / limit->width_us);
    }
    default:
        return 0;
    }
}

static int64_t used(const struct limit *limit, const struct windows *windows, int64_t now_us)
{
    return sum(windows->counts, limit->slices) +
           weight(limit, windows->counts[limit->slices], now_us - windows->start_us);
}

static bool fits(const struct limit *limit, const union limit_state *state, int64_t now_us, int64_t cost)
{
    return cost == 0 || used(limit, &state->windows, now_us) + cost <= limit->most;
}

static void take(const struct limit *limit, union limit_state *state, int64_t now_us, int64_t cost)
{
    (void)limit, (void)now_us;
    state->windows.counts[0] += (uint32_t)cost;
}

/* How far into a slice the oldest count has faded enough to leave `free`; more than the width when it never does. */
static int64_t faded_us(const struct limit *limit, int64_t oldest, int64_t free)
{
    if (free < 0) {
        return limit->width_us + 1;
    }
    if (limit->algorithm != ALGORITHM_SLIDING_WINDOW_COUNTER) {
        return weight(limit, oldest, 0) <= free ? 0 : limit->width_us + 1;
    }
    return oldest <= free ? 0 : limit->width_us - (int64_t)((__int128)free * limit->width_us / oldest);
}

/* When a request of that cost fits, if nobody else comes: slice by slice, each of which makes one more count the
 * oldest. */
static int64_t when_fits(const struct limit *limit, const struct windows *windows, int64_t cost)
{
    for (int64_t step = 0; step <= limit->slices; step++) {
        int64_t newer = sum(windows->counts, limit->slices - step);
        int64_t into_us = faded_us(limit, windows->counts[limit->slices - step], limit->most - cost - newer);
        if (into_us <= limit->width_us) {
            return windows->start_us + step * limit->width_us + into_us;
        }
    }
    return windows->start_us + (limit->slices + 1) * limit->width_us;
}

static int64_t when_all_gone(const struct limit *limit, const struct windows *windows)
{
    int64_t lives = limit->algorithm == ALGORITHM_FIXED_WINDOW ? limit->slices : limit->slices + 1;

    for (int64_t i = 0; i < lives; i++) {
        if (windows->counts[i] > 0) {
            return windows->start_us + (lives - i) * limit->width_us;
        }
    }
    return 0;
}

static void report(const struct limit *limit, const union limit_state *state, int64_t now_us, int64_t cost,
                   struct limit_verdict *out)
{
    const struct windows *windows = &state->windows;

    out->remaining = max2(limit->most - used(limit, windows, now_us), 0) / max2(cost, 1);
    out->reset_us = max2(when_all_gone(limit, windows) - now_us, 0);
    out->retry_after_us = max2(when_fits(limit, windows, cost) - now_us, 0);
}

static int64_t idle_at(const struct limit *limit, const union limit_state *state)
{
    bool any = sum(state->windows.counts, limit->slices + 1) > 0;
    return any ? state->windows.start_us + (limit->slices + 1) * limit->width_us : 0;
}

const struct limit_ops windows_ops = {settle, fits, take, report, idle_at};
