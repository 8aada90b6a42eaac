#ifndef SLUICE_OUTBOUND_ORDERS_H
#define SLUICE_OUTBOUND_ORDERS_H
/* Pauses and rates that operators ordered and that are in force: data only, for whoever makes or changes a bucket. */
#include "outbound/fleet.h"

struct standing {
    TAILQ_ENTRY(standing) link;
    enum order_verb verb; /* ORDER_PAUSE or ORDER_RATE */
    char *name, *who;
    struct rate rate;
    struct mono until;
    bool seen; /* by whoever goes through them */
    struct policy_twin *twins;
};
struct orders {
    TAILQ_HEAD(, standing) list;
};

void orders_init(struct orders *orders);
void orders_fini(struct orders *orders);
/* Puts it in place of one of the same verb and name. */
void orders_put(struct orders *orders, const struct order *order, struct mono until);
/* False when there was none. */
bool orders_drop(struct orders *orders, enum order_verb verb, const char *name);
struct standing *orders_find(const struct orders *orders, enum order_verb verb, const char *name);

/* Which names a bucket goes by. */
bool orders_name_is(const char *name, const struct bucket_id *id, const struct policy *policy);
/* The configured policy, or one like it with the ordered rate: the same one each time, as long as the order stands. */
struct policy *orders_policy(const struct orders *orders, const struct bucket_id *id, struct policy *policy);
/* What is left of an ordered pause, 0 = none. */
int64_t orders_pause_us(const struct orders *orders, const struct bucket_id *id, const struct policy *policy,
                        struct mono now);

#endif
