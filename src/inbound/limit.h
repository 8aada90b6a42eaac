#ifndef SLUICE_INBOUND_LIMIT_H
#define SLUICE_INBOUND_LIMIT_H
/* One limit as arithmetic: parameters, state, and the verdict on a request. No clock is read and nothing is allocated
 * here. */
#include "base/clock.h"
#include "conf/inbound.h"

/* What the script can compute exactly: its numbers are doubles, whole up to 2^53. */
#define LIMIT_COUNT_MOST (INT64_C(1) << 26)
#define LIMIT_PERIOD_MOST_US (366 * 86400 * CLOCK_SECOND_US)
#define LIMIT_FILL_MOST_US (100 * LIMIT_PERIOD_MOST_US) /* of an empty token bucket */

enum { LIMIT_STRICT_SLICES = 10, LIMIT_REPLICAS_MOST = 1000 };

struct limit {
    enum inbound_algorithm algorithm;
    int64_t most;      /* the quota: rate.count, or the capacity of a token bucket */
    int64_t period_us; /* of the rate */
    /* token and leaky bucket: one unit takes unit_us + unit_part / parts microseconds */
    int64_t unit_us, unit_part, parts;
    /* windows: how wide a slice is, and how many of them come before the oldest that still matters */
    int64_t width_us, slices;
};

/* A time with a fraction: `part` of the limit's `parts`. */
struct moment {
    int64_t us, part;
};
struct windows {
    int64_t start_us;                         /* of the newest slice */
    uint32_t counts[LIMIT_STRICT_SLICES + 1]; /* newest first */
};
struct log_entry {
    int64_t at_us;
    int64_t total; /* of all costs up to and with this one */
};
struct sliding_log {
    struct log_entry *entries; /* a ring, of whoever keeps the state */
    uint32_t room, first, count;
    int64_t base; /* total before the first */
};
/* Zeroed memory is the state of who never came. */
union limit_state {
    struct moment drained; /* when all of the quota is there again */
    struct windows windows;
    struct sliding_log log;
};

struct limit_verdict {
    bool admitted;
    int64_t remaining, retry_after_us, reset_us; /* as in struct admission_result */
};

/* One limit of a request. */
struct limit_try {
    struct limit limit;
    union limit_state *state;
    int64_t cost;
    bool dry_run;
    struct limit_verdict verdict;
};

/* An algorithm. `state` is a copy that the caller keeps or drops. */
struct limit_ops {
    /* Brings the state to `now`. True when it lay in the future (the clock stepped back) and was cut: to be kept in any
     * case. */
    bool (*settle)(const struct limit *limit, union limit_state *state, int64_t now_us);
    bool (*fits)(const struct limit *limit, const union limit_state *state, int64_t now_us, int64_t cost);
    void (*take)(const struct limit *limit, union limit_state *state, int64_t now_us, int64_t cost);
    /* What is left, and if the request did not fit, when it will. */
    void (*report)(const struct limit *limit, const union limit_state *state, int64_t now_us, int64_t cost,
                   struct limit_verdict *out);
    /* From then on the state is as good as none. */
    int64_t (*idle_at)(const struct limit *limit, const union limit_state *state);
};
extern const struct limit_ops drain_ops, windows_ops, sliding_log_ops;

/* The limit of a rule, its numbers cut to what can be computed exactly. */
struct limit limit_of(const struct inbound_rule *rule);
/* What one of `replicas` may admit by itself: the whole divided, but never less than one request of `cost`. */
struct limit limit_share(const struct limit *whole, int64_t replicas, int64_t cost);
/* A cost cut to what can be computed. */
int64_t limit_cost(int64_t cost);
int64_t limit_idle_at(const struct limit *limit, const union limit_state *state);

/* Takes from all states when every limit that isn't on trial admits the request, from none when one refuses. A limit on
 * trial that would refuse gives nothing either way. True when admitted. */
bool limit_decide(struct limit_try *tries, unsigned count, int64_t now_us);

#endif
