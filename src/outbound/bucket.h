#ifndef SLUICE_OUTBOUND_BUCKET_H
#define SLUICE_OUTBOUND_BUCKET_H
/* One destination: its queue and its pacer. Owned by struct outbound. */
#include "outbound/pacer.h"
#include "outbound/word_of.h"

#include <uthash.h>

struct bucket {
    uint32_t magic;
    char *name; /* destination, and part where there is one, with a space between them */
    char *tag, *part, *parent;
    struct policy *configured; /* what the settings say; a reference */
    struct policy *policy;     /* what is in force: that, or its twin with an ordered rate; a reference */
    struct loop *loop;
    struct slots_redis *redis; /* NULL: this process alone */
    struct slots_local *local;
    struct mono born;          /* of the outbound */
    struct queue queue;
    struct pacer pacer;
    struct word word;
    struct mono used; /* when it was last asked for */
    bool is_kept;     /* configured: never forgotten */
    struct bucket *whole; /* of a part: the configured destination, which counts what its parts do; NULL = none */
    unsigned parts;       /* buckets whose whole this is */
    struct tally tally;
    UT_hash_handle by_name;
    TAILQ_ENTRY(bucket) link;
    TAILQ_ENTRY(bucket) kept; /* while is_kept */
};

/* Where buckets get their slots: `redis` NULL = from this process alone. */
struct bucket_env {
    struct loop *loop;
    struct slots_redis *redis;
    struct slots_local *local;
    struct mono born;
};
/* Takes a reference of the policy. `whole` counts the same, and where that is NULL `sum`. */
struct bucket *bucket_new(const struct bucket_env *env, struct policy *policy, const struct bucket_id *id, struct bucket *whole,
                          struct tally *sum);
void bucket_free(struct bucket *bucket);
/* Everybody who waits now is given up. */
void bucket_purge(struct bucket *bucket);
void bucket_set_policy(struct bucket *bucket, struct policy *policy);
bool bucket_is_idle(const struct bucket *bucket, struct mono now);

#endif
