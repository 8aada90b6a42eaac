/*
 * A request and its limits.
 *
 *   state --copy--> settle (bring to now) --> fits? --all do--> take --> the copy becomes the state
 *                                               \--one doesn't---------> the copy is dropped
 *                     report: what is left, when to come again           (from the copy, either way)
 *
 * So a refusal leaves every state as it was, to the last bit. The one exception is a state that lies in the future,
 * because the clock was set back: it is cut to the most it can mean from now on, and that is kept even when the request
 * is refused, or a caller who keeps asking would be shut out until the clock has caught up.
 *
 * src/lua/admit.lua does the same in the same order; tests/vectors/admission.tsv holds both to it. Three families are
 * six algorithms: drain.c (token and leaky bucket), windows.c (fixed, sliding counter, strict), sliding_log.c.
 */
#include "inbound/limit.h"

static const struct limit_ops *ops_of(const struct limit *limit)
{
    switch (limit->algorithm) {
    case ALGORITHM_TOKEN_BUCKET:
    case ALGORITHM_LEAKY_BUCKET:
        return &drain_ops;
    case ALGORITHM_FIXED_WINDOW:
    case ALGORITHM_SLIDING_WINDOW_COUNTER:
    case ALGORITHM_SLIDING_WINDOW_STRICT:
        return &windows_ops;
    case ALGORITHM_SLIDING_WINDOW_LOG:
        return &sliding_log_ops;
    }
    wrong("no such algorithm");
}

/* ---- parameters ---- */

static int64_t between(int64_t least, int64_t x, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void set_unit(struct limit *limit, int64_t count, int64_t period_us)
{
    int64_t divisor = common_divisor(period_us, count);

    limit->parts = count / divisor;
    limit->unit_us = period_us / divisor / limit->parts;
    limit->unit_part = period_us / divisor % limit->parts;
    limit->most = between(1, limit->most, LIMIT_FILL_MOST_US / (limit->unit_us + 1));
}

/* The oldest slice is the one that `slices` newer ones have followed: a fixed window forgets it, a counter lets it
 * fade, a strict one counts it whole. */
static void set_slices(struct limit *limit)
{
    limit->slices = limit->algorithm == ALGORITHM_SLIDING_WINDOW_STRICT ? LIMIT_STRICT_SLICES : 1;
    limit->width_us = limit->algorithm == ALGORITHM_SLIDING_WINDOW_STRICT
                          ? (limit->period_us + LIMIT_STRICT_SLICES - 1) / LIMIT_STRICT_SLICES
                          : limit->period_us;
}

struct limit limit_of(const struct inbound_rule *rule)
{
    int64_t count = between(1, rule->rate.count, LIMIT_COUNT_MOST);
    struct limit limit = {.algorithm = rule->algorithm,
                          .most = count,
                          .period_us = between(1, rule->rate.period_us, LIMIT_PERIOD_MOST_US)};

    if (rule->algorithm == ALGORITHM_TOKEN_BUCKET) {
        limit.most = between(1, rule->capacity, LIMIT_COUNT_MOST);
    }
    if (rule->algorithm == ALGORITHM_TOKEN_BUCKET || rule->algorithm == ALGORITHM_LEAKY_BUCKET) {
        set_unit(&limit, count, limit.period_us);
    } else {
        set_slices(&limit);
    }
    return limit;
}

struct limit limit_share(const struct limit *whole, int64_t replicas, int64_t cost)
{
    struct limit share = *whole;
    int64_t least = between(1, cost, whole->most);

    replicas = between(1, replicas, LIMIT_REPLICAS_MOST);
    if (whole->algorithm == ALGORITHM_TOKEN_BUCKET || whole->algorithm == ALGORITHM_LEAKY_BUCKET) {
        int64_t part = whole->unit_part * replicas; /* the unit takes that many times as long: nothing is rounded */
        share.unit_us = whole->unit_us * replicas + part / whole->parts;
        share.unit_part = part % whole->parts;
    }
    if (whole->algorithm != ALGORITHM_LEAKY_BUCKET) {
        share.most = between(least, whole->most / replicas, whole->most);
    }
    return share;
}

int64_t limit_cost(int64_t cost)
{
    return between(0, cost, LIMIT_COUNT_MOST + 1); /* one more than any limit: still too much */
}

int64_t limit_idle_at(const struct limit *limit, const union limit_state *state)
{
    return ops_of(limit)->idle_at(limit, state);
}

/* ---- a request ---- */

static bool look(struct limit_try *try, union limit_state *settled, int64_t now_us)
{
    const struct limit_ops *ops = ops_of(&try->limit);

    *settled = *try->state;
    if (ops->settle(&try->limit, settled, now_us)) {
        *try->state = *settled;
    }
    return try->cost <= try->limit.most && ops->fits(&try->limit, settled, now_us, try->cost);
}

static void answer(struct limit_try *try, const union limit_state *settled, int64_t now_us)
{
    ops_of(&try->limit)->report(&try->limit, settled, now_us, try->cost, &try->verdict);
    if (try->verdict.admitted) {
        try->verdict.retry_after_us = 0;
    } else if (try->cost > try->limit.most) {
        try->verdict.retry_after_us = CLOCK_NEVER_US;
    }
}

bool limit_decide(struct limit_try *tries, unsigned count, int64_t now_us)
{
    union limit_state settled[INBOUND_RULES_MOST];
    bool admitted = true;

    must(count <= INBOUND_RULES_MOST);
    for (unsigned i = 0; i < count; i++) {
        must(tries[i].cost >= 0);
        tries[i].verdict = (struct limit_verdict){.admitted = look(&tries[i], &settled[i], now_us)};
        admitted = admitted && (tries[i].verdict.admitted || tries[i].dry_run);
    }
    for (unsigned i = 0; i < count; i++) {
        if (admitted && tries[i].verdict.admitted && tries[i].cost > 0) {
            ops_of(&tries[i].limit)->take(&tries[i].limit, &settled[i], now_us, tries[i].cost);
            *tries[i].state = settled[i];
        }
        answer(&tries[i], &settled[i], now_us);
    }
    return admitted;
}
