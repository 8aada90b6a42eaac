#ifndef SLUICE_OUTBOUND_FLEET_H
#define SLUICE_OUTBOUND_FLEET_H
/*
 * Orders of operators to the whole fleet, and who is in it. Orders are kept in Redis; every replica looks once a
 * second, also one without an [admin], and acts. Without Redis this process is the fleet.
 */
#include "outbound/outbound.h"

struct fleet;

enum order_verb {
    ORDER_PAUSE,  /* for_us */
    ORDER_RESUME, /* ends every pause, whoever asked for it */
    ORDER_RATE,   /* rate, for_us */
    ORDER_UNRATE, /* back to the configured rate */
    ORDER_PURGE,  /* who waits is refused */
};
const char *order_verb_text(enum order_verb verb);

/* `name`: a destination, "default" for all hosts without a section, "default:HOST" for one, or a bucket's name. */
struct order {
    enum order_verb verb;
    const char *name;
    int64_t for_us;
    struct rate rate;
    const char *who; /* for the log of every replica: visible characters, no space */
};

/* `link` NULL: no Redis. All but `replica_id` and `prefix` must outlive it. */
struct fleet *fleet_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id,
                        struct outbound *outbound);
void fleet_free(struct fleet *fleet);

enum fleet_done {
    FLEET_TOLD,  /* every replica acts within a second */
    FLEET_ALONE, /* Redis is out of reach: done here only */
    FLEET_NOT,   /* nothing was done: a rate that the others do not have would not hold */
    FLEET_LOST,  /* Redis went away before it confirmed: it stands, or it does not */
};
/* `done` is called once, perhaps from inside; not after fleet_free(). */
typedef void fleet_answer(void *arg, enum fleet_done how);
void fleet_order(struct fleet *fleet, const struct order *order, fleet_answer *done, void *arg);

struct fleet_stats {
    unsigned replicas; /* alive, this one included; as of a second ago, 0 = not known */
    const char *me;
};
void fleet_stats(const struct fleet *fleet, struct fleet_stats *out);
/* Every pause and rate in force by an order; `left_us` is for how long still. */
void fleet_each_order(const struct fleet *fleet, void (*each)(void *arg, const struct order *order, int64_t left_us),
                      void *arg);

#endif
