#ifndef SLUICE_OUTBOUND_BUCKET_H
#define SLUICE_OUTBOUND_BUCKET_H
/* One destination: its queue and its pacer. Owned by struct outbound. */
#include "outbound/pacer.h"
#include "outbound/word_of.h"

#include <uthash.h>

struct bucket {
    uint32_t magic;
    char *name;
    struct policy *policy; /* a reference */
    struct loop *loop;
    struct slots_redis *redis; /* NULL: this process alone */
    struct mono born;          /* of the outbound */
    struct queue queue;
    struct pacer pacer;
    struct word word;
    struct mono used; /* when it was last asked for */
    bool is_kept;     /* configured: never forgotten */
    struct tally tally;
    UT_hash_handle by_name;
    TAILQ_ENTRY(bucket) link;
    TAILQ_ENTRY(bucket) kept; /* while is_kept */
};

/* `redis` NULL: this process alone. Takes a reference of the policy. `sum` counts the same. */
struct bucket *bucket_new(struct loop *loop, struct slots_redis *redis, struct policy *policy, const char *name,
                          struct mono born, struct tally *sum);
void bucket_free(struct bucket *bucket);
void bucket_set_policy(struct bucket *bucket, struct policy *policy);
bool bucket_is_idle(const struct bucket *bucket, struct mono now);

#endif
