/*
 * All buckets of this process, by name.
 *
 * Configured destinations stay; others (hosts without a section) are forgotten when they have been idle for a while. A
 * sweep looks at a few buckets a second, so that it never holds up a slot however many there are. Forgetting is safe
 * once the bucket's next slot is in the past: a new one then starts where the old one left off.
 */
#include "base/mem.h"
#include "outbound/bucket.h"
#include "outbound/ordered.h"

#define OUTBOUND_MAGIC 0x6f757462u
#define SWEEP_EVERY_US CLOCK_SECOND_US
#define IDLE_US (60 * CLOCK_SECOND_US)
enum { SWEEP_BUCKETS = 256, BUSY_LOOKS = 1000 };

struct outbound {
    uint32_t magic;
    struct loop *loop;
    struct bucket_env env;
    struct bucket *by_name;
    TAILQ_HEAD(bucket_list, bucket) buckets; /* least recently swept first */
    struct bucket_list kept;                 /* configured */
    struct tally unlisted;
    struct orders orders;
    unsigned count;
    struct timer sweep;
};

struct outbound *outbound_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id)
{
    struct outbound *outbound = mem_zalloc(sizeof(*outbound));

    outbound->magic = OUTBOUND_MAGIC;
    outbound->loop = loop;
    outbound->env = (struct bucket_env){.loop = loop, .born = loop_now(loop), .local = slots_local_new(loop)};
    TAILQ_INIT(&outbound->buckets);
    TAILQ_INIT(&outbound->kept);
    tally_init(&outbound->unlisted, NULL);
    orders_init(&outbound->orders);
    if (link != NULL) {
        outbound->env.redis = slots_redis_new(loop, link, prefix, replica_id);
    }
    return outbound;
}

static void forget(struct outbound *outbound, struct bucket *bucket)
{
    HASH_DELETE(by_name, outbound->by_name, bucket);
    TAILQ_REMOVE(&outbound->buckets, bucket, link);
    outbound->count--;
    if (bucket->whole != NULL) {
        bucket->whole->parts--;
    }
    bucket_free(bucket);
}

static struct bucket *part_of(const struct outbound *outbound, const struct bucket *whole)
{
    struct bucket *bucket = TAILQ_FIRST(&outbound->buckets);

    while (bucket->whole != whole) {
        bucket = TAILQ_NEXT(bucket, link);
    }
    return bucket;
}

void outbound_free(struct outbound *outbound)
{
    must_be(outbound, OUTBOUND_MAGIC);
    struct bucket *bucket;

    timer_clear(&outbound->sweep);
    while ((bucket = TAILQ_FIRST(&outbound->buckets)) != NULL) {
        forget(outbound, bucket->parts == 0 ? bucket : part_of(outbound, bucket));
    }
    orders_fini(&outbound->orders);
    if (outbound->env.redis != NULL) {
        slots_redis_free(outbound->env.redis);
    }
    slots_local_free(outbound->env.local);
    outbound->magic = 0;
    mem_free(outbound);
}

static void sweep_due(struct timer *timer, struct mono now)
{
    struct outbound *outbound = container_of(timer, struct outbound, sweep);
    must_be(outbound, OUTBOUND_MAGIC);
    unsigned looks = outbound->count < SWEEP_BUCKETS ? outbound->count : SWEEP_BUCKETS;

    while (looks-- > 0) {
        struct bucket *bucket = TAILQ_FIRST(&outbound->buckets);
        TAILQ_REMOVE(&outbound->buckets, bucket, link);
        TAILQ_INSERT_TAIL(&outbound->buckets, bucket, link);
        if (mono_diff(now, bucket->used) > IDLE_US && bucket_is_idle(bucket, now)) {
            forget(outbound, bucket);
        }
    }
    if (outbound->count > 0) {
        timer_set(outbound->loop, &outbound->sweep, mono_add(now, SWEEP_EVERY_US), sweep_due);
    }
}

static struct bucket *find(const struct outbound *outbound, const char *name)
{
    struct bucket *bucket;

    HASH_FIND(by_name, outbound->by_name, name, strlen(name), bucket);
    return bucket;
}

static struct bucket *add(struct outbound *outbound, struct policy *policy, const struct bucket_id *id)
{
    struct bucket *whole = id->part[0] != '\0' ? find(outbound, id->destination) : NULL;
    struct tally *sum = whole != NULL && whole->is_kept ? &whole->tally : &outbound->unlisted;
    struct bucket *bucket = bucket_new(&outbound->env, policy, id, sum);

    if (sum != &outbound->unlisted) {
        bool is_of_whole = policy->parent != NULL && (id->parent == NULL || id->parent[0] == '\0');
        bucket->whole = whole;
        bucket->pacer.wholes_meter = is_of_whole ? &whole->pacer.meter : NULL;
        whole->parts++;
    }

    HASH_ADD_KEYPTR(by_name, outbound->by_name, bucket->name, strlen(bucket->name), bucket);
    TAILQ_INSERT_TAIL(&outbound->buckets, bucket, link);
    outbound->count++;
    if (!timer_is_set(&outbound->sweep)) {
        timer_set(outbound->loop, &outbound->sweep, mono_add(bucket->used, SWEEP_EVERY_US), sweep_due);
    }
    return bucket;
}

/* ---- orders of operators ---- */

static struct bucket_id id_of(const struct bucket *bucket)
{
    return (struct bucket_id){bucket->tag, bucket->part, bucket->parent};
}

static void follow(struct outbound *outbound, struct bucket *bucket, struct policy *configured)
{
    struct bucket_id id = id_of(bucket);

    if (configured != bucket->configured) {
        policy_get(configured);
        policy_put(bucket->configured);
        bucket->configured = configured;
    }
    bucket_set_policy(bucket, orders_policy(&outbound->orders, &id, configured));
}

/* What an order paused stays so for keys and hosts that are new. */
static void join_pause(struct outbound *outbound, struct bucket *bucket)
{
    struct bucket_id id = id_of(bucket);
    int64_t left_us = orders_pause_us(&outbound->orders, &id, bucket->configured, bucket->used);

    if (left_us > 0) {
        bucket_pause(bucket, left_us);
    }
}

struct orders *outbound_orders(struct outbound *outbound)
{
    must_be(outbound, OUTBOUND_MAGIC);
    return &outbound->orders;
}

static void obey(struct outbound *outbound, struct bucket *bucket, const struct order *order)
{
    switch (order->verb) {
    case ORDER_PAUSE:
        bucket_pause(bucket, order->for_us);
        return;
    case ORDER_RESUME:
        bucket_resume(bucket);
        return;
    case ORDER_RATE:
    case ORDER_UNRATE:
        follow(outbound, bucket, bucket->configured);
        return;
    case ORDER_PURGE:
        bucket_purge(bucket);
        return;
    }
    wrong("no such order");
}

unsigned outbound_obey(struct outbound *outbound, const struct order *order)
{
    must_be(outbound, OUTBOUND_MAGIC);
    struct bucket *bucket;
    unsigned concerned = 0;

    TAILQ_FOREACH(bucket, &outbound->buckets, link)
    {
        struct bucket_id id = id_of(bucket);
        if (orders_name_is(order->name, &id, bucket->configured)) {
            obey(outbound, bucket, order);
            concerned++;
        }
    }
    return concerned;
}

struct bucket *outbound_part(struct outbound *outbound, struct policy *policy, const struct bucket_id *id)
{
    must_be(outbound, OUTBOUND_MAGIC);
    char *joined = id->part[0] != '\0' ? mem_printf("%s %s", id->destination, id->part) : NULL;
    const char *name = joined != NULL ? joined : id->destination;
    struct bucket *bucket = find(outbound, name);
    bool is_new = bucket == NULL;

    if (is_new) {
        bucket = add(outbound, policy, id);
    }
    mem_free(joined);
    bucket->used = loop_now(outbound->loop);
    follow(outbound, bucket, policy);
    if (is_new) {
        join_pause(outbound, bucket);
    }
    return bucket;
}

struct bucket *outbound_bucket(struct outbound *outbound, struct policy *policy, const char *name)
{
    return outbound_part(outbound, policy, &(struct bucket_id){.destination = name, .part = ""});
}

void outbound_warm(struct outbound *outbound, struct policy *policy, const char *name)
{
    struct bucket *bucket = outbound_bucket(outbound, policy, name);

    if (!bucket->is_kept) {
        bucket->is_kept = true;
        bucket->tally.sum = NULL;
        TAILQ_INSERT_TAIL(&outbound->kept, bucket, kept);
    }
    if (outbound->env.redis != NULL) {
        slots_redis_warm(bucket->pacer.shared);
    }
}

unsigned outbound_waiting(const struct outbound *outbound)
{
    must_be(outbound, OUTBOUND_MAGIC);
    const struct bucket *bucket;
    unsigned waiting = 0;

    TAILQ_FOREACH(bucket, &outbound->buckets, link)
    {
        waiting += bucket->queue.count;
    }
    return waiting;
}

void outbound_each(struct outbound *outbound, outbound_visit *each, void *arg)
{
    must_be(outbound, OUTBOUND_MAGIC);
    struct bucket *bucket;
    struct bucket_stats stats;

    TAILQ_FOREACH(bucket, &outbound->buckets, link)
    {
        bucket_stats(bucket, &stats);
        each(arg, &stats);
    }
}

void outbound_each_kept(struct outbound *outbound, outbound_visit *each, void *arg)
{
    must_be(outbound, OUTBOUND_MAGIC);
    struct bucket *bucket;
    struct bucket_stats stats;

    TAILQ_FOREACH(bucket, &outbound->kept, kept)
    {
        bucket_stats(bucket, &stats);
        each(arg, &stats);
    }
}

bool outbound_look(const struct outbound *outbound, const char *name, struct bucket_stats *out)
{
    must_be(outbound, OUTBOUND_MAGIC);
    const struct bucket *bucket = find(outbound, name);

    if (bucket == NULL || !bucket->is_kept) {
        return false;
    }
    bucket_stats(bucket, out);
    return true;
}

void outbound_each_busy(struct outbound *outbound, unsigned most, outbound_visit *each, void *arg)
{
    must_be(outbound, OUTBOUND_MAGIC);
    struct bucket *bucket;
    struct bucket_stats stats;
    unsigned looks = 0, told = 0;

    TAILQ_FOREACH_REVERSE(bucket, &outbound->buckets, bucket_list, link)
    {
        if (told == most || looks++ == BUSY_LOOKS) {
            return;
        }
        if (bucket->is_kept) {
            continue;
        }
        bucket_stats(bucket, &stats);
        if (stats.waiting > 0 || stats.paused_us > 0) {
            each(arg, &stats);
            told++;
        }
    }
}

const struct tally *outbound_unlisted(const struct outbound *outbound)
{
    must_be(outbound, OUTBOUND_MAGIC);
    return &outbound->unlisted;
}
