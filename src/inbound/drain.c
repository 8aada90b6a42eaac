/*
 * Token bucket and leaky bucket: one moment is all there is to keep, the one when the bucket will be as if nobody had
 * come.
 *
 *   token bucket   a request of cost c puts the moment off by c units of time (one unit = period / count); it may pass
 * while the moment stays within `capacity` units of now. Any W sees at most capacity + ceil(rate W) - 1. leaky bucket
 * the same moment, but a request may pass only when it has been reached: one per unit, no two closer, N in any period
 * (requests of a larger cost c keep the units after them free: N + c - 1).
 *
 * A unit is hardly ever a whole number of microseconds (3 per second: 333333 and a third). The moment therefore has a
 * fraction in parts of the reduced count, and sums are exact: after N units exactly one period has passed.
 */
#include "inbound/limit.h"

static int64_t max2(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_after(struct moment a, struct moment b)
{
    return a.us > b.us || (a.us == b.us && a.part > b.part);
}

static struct moment later(const struct limit *limit, struct moment from, int64_t units)
{
    int64_t part = from.part + units * limit->unit_part;
    return (struct moment){from.us + units * limit->unit_us + part / limit->parts, part % limit->parts};
}

static int64_t rounded_up(struct moment moment)
{
    return moment.us + (moment.part > 0);
}

/* How far the moment may be put off, in units, by a request of that cost before it. */
static int64_t slack(const struct limit *limit, int64_t cost)
{
    return limit->algorithm == ALGORITHM_TOKEN_BUCKET ? limit->most - cost : 0;
}

static bool settle(const struct limit *limit, union limit_state *state, int64_t now_us)
{
    struct moment now = {now_us, 0}, latest = later(limit, now, limit->most);

    if (state->drained.part >= limit->parts) { /* kept in another limit's parts: the settings have changed */
        state->drained = (struct moment){state->drained.us + 1, 0};
    }
    if (is_after(state->drained, latest)) {
        state->drained = latest;
        return true;
    }
    if (!is_after(state->drained, now)) {
        state->drained = now;
    }
    return false;
}

static bool fits(const struct limit *limit, const union limit_state *state, int64_t now_us, int64_t cost)
{
    return !is_after(state->drained, later(limit, (struct moment){now_us, 0}, slack(limit, cost))) || cost == 0;
}

static void take(const struct limit *limit, union limit_state *state, int64_t now_us, int64_t cost)
{
    (void)now_us;
    state->drained = later(limit, state->drained, cost);
}

/* Whole units between now and the latest that the moment may be. */
static int64_t units_left(const struct limit *limit, struct moment drained, int64_t now_us)
{
    struct moment latest = later(limit, (struct moment){now_us, 0}, limit->most);
    __int128 parts = (__int128)(latest.us - drained.us) * limit->parts + latest.part - drained.part;
    __int128 unit = (__int128)limit->unit_us * limit->parts + limit->unit_part;

    return (int64_t)(parts / unit);
}

/* The first microsecond at which the moment is no more than `units` away: ceil(drained - units). */
static int64_t when_within(const struct limit *limit, struct moment drained, int64_t units)
{
    struct moment span = later(limit, (struct moment){0, 0}, units);
    return drained.us - span.us + (drained.part > span.part);
}

static void report(const struct limit *limit, const union limit_state *state, int64_t now_us, int64_t cost,
                   struct limit_verdict *out)
{
    int64_t wait_us = rounded_up(state->drained) - now_us;

    out->reset_us = wait_us;
    if (limit->algorithm == ALGORITHM_TOKEN_BUCKET) {
        out->remaining = units_left(limit, state->drained, now_us) / max2(cost, 1);
    } else {
        out->remaining = wait_us == 0 && cost <= limit->most;
    }
    if (cost <= limit->most) {
        out->retry_after_us = when_within(limit, state->drained, slack(limit, cost)) - now_us;
    }
}

static int64_t idle_at(const struct limit *limit, const union limit_state *state)
{
    (void)limit;
    return rounded_up(state->drained);
}

const struct limit_ops drain_ops = {settle, fits, take, report, idle_at};
