#ifndef SLUICE_SIM_FLEET_H
#define SLUICE_SIM_FLEET_H
/* Replicas, callers, a third party that counts, and what can go wrong between them. */
#include "link_virtual.h"

#include "conf/policy.h"

struct fleet_conf {
    unsigned replicas;
    int64_t count, period_us; /* the limit */
    bool is_gap;
    bool hears; /* feedback = on */
    int64_t for_us;
    double load;                /* offered, of the limit */
    double delay_us, jitter_us; /* to Redis, one way */
    double spike_p, spike_us, lost_p;
    double late_us, stall_p, stall_us; /* of loops */
    int64_t dial_us;                   /* longest time to get a connection */
    int64_t patience_us;               /* mean; 0 = callers never leave */
    int64_t permits, replicas_max;     /* on_redis_down = reserve */
    enum on_redis_down mode;
    /* what limits beside the rate; 0 = nothing does */
    struct quota_limit quotas[2];
    unsigned quotas_count;
    int64_t in_flight, lease_us;
    int64_t service_us;  /* longest time from an arrival to the end of its answer */
    int64_t route_count; /* every other caller is for a route, with so many in a period */
};

enum fault {
    FAULT_FREEZE,       /* replica `who` for `amount` us */
    FAULT_CRASH,        /* replica `who` */
    FAULT_ADD,          /* another replica */
    FAULT_CUT,          /* replica `who` from Redis, for `amount` us */
    FAULT_STALL,        /* Redis for `amount` us */
    FAULT_DOWN,         /* Redis for `amount` us, data kept */
    FAULT_EMPTY,        /* Redis for `amount` us, data lost */
    FAULT_FLUSH,        /* data lost, the process stays */
    FAULT_EVICT,        /* the bucket alone lost, what its epoch is stays */
    FAULT_STEP,         /* Redis' clock by `amount` us */
    FAULT_SLEW,         /* Redis' clock gains `amount` ppm */
    FAULT_PAUSE,        /* an operator asks replica `who` to wait `amount` us */
    FAULT_WORD,         /* the third party answers replica `who` that it shall; 0 = it doesn't say how long */
    FAULT_CANCEL_STORM, /* `amount` percent of the waiters of replica `who` leave */
};

struct fleet_result {
    unsigned most; /* arrivals in any half-open period */
    double used;   /* of the limit, from the fifth second on */
    int64_t least_gap_us;
    double mean_wait_s, calls_per_release;
    uint64_t released, late, wasted;
    unsigned most_of_quota[2], most_in_flight, most_of_route, of_route;
};

struct fleet;
struct fleet *fleet_new(const struct fleet_conf *conf, uint64_t seed);
void fleet_fault(struct fleet *fleet, int64_t at_us, enum fault fault, unsigned who, int64_t amount);
/* Redis is down for `down_us`, then another server answers that lacks the last `lost_us` of writes. */
void fleet_failover(struct fleet *fleet, int64_t at_us, int64_t down_us, int64_t lost_us);
struct fleet_result fleet_run(struct fleet *fleet);
void fleet_free(struct fleet *fleet);

#endif
