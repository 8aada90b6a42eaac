#ifndef SLUICE_OUTBOUND_SLOTS_H
#define SLUICE_OUTBOUND_SLOTS_H
/*
 * Who hands out slots: Redis (slots_redis.c) or this process alone (slots_local.c), behind one interface.
 *
 * Each bucket has an asker. It asks for up to `want` windows, one question at a time, and hears through on_answer: from
 * the loop, or from inside ask() itself. An answer records and defers; it never calls back into the asker.
 */
#include "base/loop.h"
#include "conf/policy.h"
#include "outbound/window.h"

enum { SLOTS_WANT_MAX = 256, SLOTS_RESUME = -1, SLOTS_SAYS_BYTES = 384 };

/* Whether slots can be had at all. Owned by the implementation, read by pacers. */
struct slots {
    bool up;
    struct mono down_since; /* valid while not up */
};

/* A policy as arithmetic. */
struct slots_terms {
    int64_t interval_us;
    int64_t late_us, horizon_us;
    int64_t unnoticed_us; /* the largest clock step that the interval allows to go unnoticed */
    int64_t per_step_us;  /* count of slots that share a longer displacement: rate.count, or 1 with STRICT_GAP */
};
/* The spacing for `count` per period under that policy. */
struct slots_terms slots_terms_of(const struct policy *policy, int64_t count);

/* All that a slot of one bucket is taken from: its own level, and where it is a route's the destination's. */
struct slots_level {
    const char *part; /* what tells it from others with the same tag; "" = the destination as a whole. Borrowed */
    struct slots_terms terms;
    struct slot_limits limits;
};
struct slots_spec {
    const char *tag; /* the destination's name; borrowed */
    struct slots_level levels[SLOT_LEVELS];
    unsigned levels_count;
    int64_t even_us; /* the interval of the first level as configured, whatever is made of it for a while */
    int64_t cost_most;
    int64_t lease_us; /* after which requests in flight of a replica that says nothing no longer count */
    char says[SLOTS_SAYS_BYTES]; /* the limits of the first level, for people and for comparing replicas */
};
/* What a policy asks for; the shared part of its rate with `is_shared`. */
struct slots_spec slots_spec_of(const struct policy *policy, const char *tag, const char *part, const char *parent_part,
                                bool is_shared);
bool slots_spec_counts_flight(const struct slots_spec *spec);

enum slots_outcome {
    SLOTS_GRANTED, /* windows; may be none left of a grant */
    SLOTS_LATER,   /* none now: ask again at `again` */
    SLOTS_LOST,    /* nobody knows; Redis is gone */
};
struct slots_answer {
    enum slots_outcome outcome;
    const struct window *windows; /* by time */
    unsigned count;
    unsigned spoilt; /* granted, but of no use to us any more */
    struct mono again;
    enum slot_reason reason; /* why not more, or not now */
};

/* What was learned of a slot that was used. */
struct slots_bill {
    int64_t more;         /* units it cost more than it was asked with; below 0 fewer */
    int64_t left, age_us; /* what the third party says is left of its quota, -1 = nothing, for a request that old */
};

struct asker;
struct asker_ops {
    /* False: can't be asked now (Redis is gone). */
    bool (*ask)(struct asker *asker, unsigned want, int64_t cost);
    /* Will not use these: consecutive slots from `first_us` on, the last of which made `tat_us`. False: too late to
     * tell anybody. */
    bool (*give_back)(struct asker *asker, const struct window *oldest, const struct window *newest);
    /* SLOTS_RESUME ends a pause. */
    void (*pause)(struct asker *asker, int64_t for_us);
    struct mono (*paused_until)(const struct asker *asker);
    /* A pause that others know of, as of `sent`; long ago = none. Tells nobody. */
    void (*heard)(struct asker *asker, struct mono sent, struct mono until);
    /* About when the next slot will be due, as far as is known. */
    struct mono (*next_free)(const struct asker *asker, struct mono now);
    /* How far ahead of its use a slot has to be asked for. */
    int64_t (*lookahead_us)(const struct asker *asker);
    /* Of the same bucket. */
    void (*set_spec)(struct asker *asker, const struct slots_spec *spec);
    /* `flying` changed otherwise than by a grant. */
    void (*tell_flying)(struct asker *asker);
    void (*charge)(struct asker *asker, const struct slots_bill *bill);
    /* Nothing would be lost by forgetting it. */
    bool (*is_idle)(const struct asker *asker, struct mono now);
    void (*free)(struct asker *asker);
};

struct asker {
    const struct asker_ops *ops;
    void (*on_answer)(void *arg, struct asker *asker, const struct slots_answer *answer);
    void (*on_change)(void *arg); /* slots.up changed */
    void *arg;
    struct slots_terms terms;
    unsigned queued; /* written by the pacer: waiters here */
    unsigned flying; /* likewise: in flight, or about to be by windows in hand */
    unsigned others; /* other replicas with waiters for this bucket, and how many waiters they have */
    unsigned others_queued;
    uint64_t calls; /* to Redis */
    uint64_t differs; /* times that another replica was found to have other limits */
};

/* This process alone: slots on loop_now(). */
struct slots_local;
struct slots_local *slots_local_new(struct loop *loop);
/* All askers must be gone. */
void slots_local_free(struct slots_local *local);
/* No slot before `not_before`. */
struct asker *slots_local_asker(struct slots_local *local, const struct slots_spec *spec, struct mono not_before);

struct link;
struct slots_redis;
/* `prefix` and `replica_id` are copied. */
struct slots_redis *slots_redis_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id);
/* All askers must be gone. */
void slots_redis_free(struct slots_redis *redis);
/* `is_warm`: its epoch clock in Redis is started as soon as a server answers. */
struct asker *slots_redis_asker(struct slots_redis *redis, const struct slots_spec *spec);
/* Whether the server that has this bucket is up. */
const struct slots *slots_redis_state(const struct asker *asker);
void slots_redis_warm(struct asker *asker);
/* "PREFIX:{TAG}:PART", how keys of that part begin; what is in braces chooses the node of a cluster. The caller's. */
char *slots_redis_stem(const struct slots_redis *redis, const char *tag, const char *part);

#endif
