#ifndef SLUICE_INBOUND_HEALTH_H
#define SLUICE_INBOUND_HEALTH_H
/* Whether Redis is worth asking, how many replicas share it, and a loud word while decisions are made without it. */
#include "base/loop.h"
#include "redis/link.h"

struct health {
    struct loop *loop;
    struct link *server;
    char *key; /* of the hash of replicas */
    const char *me;
    unsigned failures; /* in a row */
    bool skipping;     /* Redis is not asked until a probe was answered in time */
    int64_t patience_us;
    int64_t replicas; /* at the last look; at least 1 */
    struct timer pulse;
    struct link_call call;
    /* an outage: decisions are made without Redis */
    bool out;
    const char *mode;
    struct mono out_since;
    int64_t without, without_told;
    struct timer shout;
};

void health_init(struct health *health, struct loop *loop, struct link *link, const char *prefix,
                 const char *replica_id);
void health_fini(struct health *health);
static inline bool health_may_ask(const struct health *health)
{
    return !health->skipping;
}
/* A decision came back in time. */
void health_good(struct health *health);
/* One was late, lost or odd, though waited for that long. */
void health_failed(struct health *health, int64_t patience_us);
/* One was made without Redis, in a way called `mode`. */
void health_went_without(struct health *health, const char *mode);

#endif
