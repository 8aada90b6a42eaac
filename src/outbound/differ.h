#ifndef SLUICE_OUTBOUND_DIFFER_H
#define SLUICE_OUTBOUND_DIFFER_H
/* Replicas that pace one bucket by different limits: each says its own in Redis (members.lua), and who finds others
 * there shouts. */
#include "outbound/grant.h"
#include "outbound/slots.h"

struct redisReply;

struct differ {
    uint64_t count;      /* times that another replica was found to have other limits */
    int64_t interval_us; /* the largest of theirs; 0 = as far as is known all agree */
    struct mono said;    /* ours, to Redis */
    struct mono warned;
    struct mono since; /* there is a difference */
};

void differ_init(struct differ *differ);
/* Ours are others from now on: said soon. */
void differ_changed(struct differ *differ);
/* Ours are to be said although nobody waits. */
bool differ_is_due(const struct differ *differ, struct mono now);
/* What a reply of members.lua tells. `name` is ours. */
void differ_take(struct differ *differ, const struct redisReply *reply, const struct slots_spec *spec, const char *name,
                 struct mono now);

#endif
