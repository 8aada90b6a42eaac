/*
 * All buckets of this process, by name.
 *
 * Configured destinations stay. Others (parts of them by route and key, hosts without a section) are forgotten when they have
 * been idle for a while, and at once when there are as many as may be: whoever can choose hosts or key values could fill the
 * memory otherwise. Those used longest ago go first; who is busy is never forgotten. A sweep looks at a few at a time, so
 * that it never holds up a slot however many there are.
 *
 * Forgetting is safe once the bucket's next slot is in the past and nothing is kept for it elsewhere: a new one then starts
 * where the old one left off.
 *
 * New settings reach the buckets in rounds of ADOPT_US: first each configured destination in the order of the file, then
 * what is left at the head of the list of kept ones, which is configured no more, then hosts without a section and parts
 * of destinations. A bucket never goes back to an earlier policy, though exchanges that began under it may still ask for it.
 */
#include "base/mem.h"
#include "outbound/bucket.h"
#include "outbound/ordered.h"

#include <limits.h>

#define OUTBOUND_MAGIC 0x6f757462u
#define SWEEP_EVERY_US CLOCK_SECOND_US
#define IDLE_US (60 * CLOCK_SECOND_US)
#define ADOPT_US 200
#define ADOPT_REST_US 300
#define SWEEP_AGAIN_US (20 * CLOCK_MS_US)
enum { SWEEP_BUCKETS = 256, BUSY_LOOKS = 1000, ROOM_LOOKS = 32 };

struct outbound {
    uint32_t magic;
    struct loop *loop;
    struct bucket_env env;
    struct bucket *by_name;
    TAILQ_HEAD(bucket_list, bucket) buckets; /* least recently used first */
    struct bucket_list kept;                 /* configured */
    struct tally unlisted;
    unsigned count, kept_count, most;
    struct orders orders;
    struct timer sweep;
    const struct conf *conf; /* settings on their way to the buckets; NULL: none are */
    unsigned adopted;        /* how many of its policies have got there */
    unsigned to_visit;       /* buckets not yet looked at for unlisted hosts and parts */
    struct timer adopt;
};

struct outbound *outbound_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id)
{
    struct outbound *outbound = mem_zalloc(sizeof(*outbound));

    outbound->magic = OUTBOUND_MAGIC;
    outbound->loop = loop;
    outbound->most = UINT_MAX;
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
    bucket_free(bucket);
}

/* Parts before what they are parts of. */
static void forget_all(struct outbound *outbound, bool parts)
{
    struct bucket *bucket = TAILQ_FIRST(&outbound->buckets), *next;

    for (; bucket != NULL; bucket = next) {
        next = TAILQ_NEXT(bucket, link);
        if (!parts || bucket->whole != NULL) {
            forget(outbound, bucket);
        }
    }
}

void outbound_free(struct outbound *outbound)
{
    must_be(outbound, OUTBOUND_MAGIC);

    timer_clear(&outbound->sweep);
    timer_clear(&outbound->adopt);
    forget_all(outbound, true);
    forget_all(outbound, false);
    orders_fini(&outbound->orders);
    if (outbound->env.redis != NULL) {
        slots_redis_free(outbound->env.redis);
    }
    slots_local_free(outbound->env.local);
    outbound->magic = 0;
    mem_free(outbound);
}

static void set_policy(struct outbound *outbound, struct bucket *bucket, struct policy *policy);

static struct policy *route_named(const struct policy *policy, const char *label)
{
    for (unsigned i = 0; i < policy->routes_count; i++) {
        if (strcmp(policy->routes[i]->label, label) == 0) {
            return policy->routes[i];
        }
    }
    return NULL;
}

/* What a bucket that is not kept is under now: hosts without a section have [default]'s policy, a part of a destination
 * has that one's or its route's. NULL: its section is gone. */
static struct policy *policy_now(const struct outbound *outbound, const struct bucket *bucket)
{
    const struct conf *conf = outbound->conf;
    struct bucket *whole;

    if (strcmp(bucket->configured->label, conf->fallback->label) == 0) {
        return conf->fallback;
    }
    HASH_FIND(by_name, outbound->by_name, bucket->tag, strlen(bucket->tag), whole);
    if (whole == NULL || !whole->is_kept || whole->configured->version != conf->version) {
        return NULL;
    }
    return bucket->configured->parent != NULL ? route_named(whole->configured, bucket->configured->label)
                                              : whole->configured;
}

static void catch_up(struct outbound *outbound, struct bucket *bucket)
{
    const struct conf *conf = outbound->conf;

    if (conf != NULL && !bucket->is_kept && bucket->configured->version < conf->version) {
        struct policy *policy = policy_now(outbound, bucket);
        if (policy != NULL) {
            set_policy(outbound, bucket, policy);
        }
    }
}

static void mark_used(struct outbound *outbound, struct bucket *bucket, struct mono now)
{
    bucket->used = now;
    TAILQ_REMOVE(&outbound->buckets, bucket, link);
    TAILQ_INSERT_TAIL(&outbound->buckets, bucket, link);
}

/* What has parts stays for them: they count for it. */
static void forget_or_keep(struct outbound *outbound, struct bucket *bucket, struct mono now)
{
    if (bucket->parts == 0 && bucket_is_idle(bucket, now)) {
        forget(outbound, bucket);
    } else {
        mark_used(outbound, bucket, now);
    }
}

static void sweep_due(struct timer *timer, struct mono now)
{
    struct outbound *outbound = container_of(timer, struct outbound, sweep);
    must_be(outbound, OUTBOUND_MAGIC);
    struct bucket *bucket;
    unsigned looks = 0;

    while (looks < SWEEP_BUCKETS && (bucket = TAILQ_FIRST(&outbound->buckets)) != NULL &&
           mono_diff(now, bucket->used) > IDLE_US) {
        catch_up(outbound, bucket);
        forget_or_keep(outbound, bucket, now);
        looks++;
    }
    if (outbound->count > 0) {
        int64_t in_us = looks == SWEEP_BUCKETS ? SWEEP_AGAIN_US : SWEEP_EVERY_US;
        timer_set(outbound->loop, &outbound->sweep, mono_add(now, in_us), sweep_due);
    }
}

static struct bucket *find(const struct outbound *outbound, const char *name)
{
    struct bucket *bucket;

    HASH_FIND(by_name, outbound->by_name, name, strlen(name), bucket);
    return bucket;
}

static bool is_full(const struct outbound *outbound)
{
    return outbound->count - outbound->kept_count >= outbound->most;
}

static bool has_room(struct outbound *outbound)
{
    struct mono now = loop_now(outbound->loop);

    for (unsigned looks = 0; is_full(outbound) && looks < ROOM_LOOKS && !TAILQ_EMPTY(&outbound->buckets); looks++) {
        forget_or_keep(outbound, TAILQ_FIRST(&outbound->buckets), now);
    }
    return !is_full(outbound);
}

static struct bucket *whole_of(struct outbound *outbound, const struct bucket_id *id)
{
    struct bucket *whole = id->part[0] != '\0' ? find(outbound, id->destination) : NULL;

    return whole != NULL && whole->is_kept ? whole : NULL;
}

static struct bucket *add(struct outbound *outbound, struct policy *policy, const struct bucket_id *id)
{
    struct bucket *whole = whole_of(outbound, id);
    struct bucket *bucket = bucket_new(&outbound->env, policy, id, whole, &outbound->unlisted);

    if (whole != NULL && policy->parent != NULL && (id->parent == NULL || id->parent[0] == '\0')) {
        bucket->pacer.wholes_meter = &whole->pacer.meter;
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
    return (struct bucket_id){.destination = bucket->tag, .part = bucket->part, .parent = bucket->parent};
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

/* Settings are never taken back to earlier ones. */
static void set_policy(struct outbound *outbound, struct bucket *bucket, struct policy *policy)
{
    if (policy->version >= bucket->configured->version) {
        follow(outbound, bucket, policy);
    }
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

    if (is_new && (id->again || has_room(outbound))) {
        bucket = add(outbound, policy, id);
    }
    mem_free(joined);
    if (bucket != NULL) {
        mark_used(outbound, bucket, loop_now(outbound->loop));
        set_policy(outbound, bucket, policy);
    }
    if (bucket != NULL && is_new) {
        join_pause(outbound, bucket);
    }
    return bucket;
}

struct bucket *outbound_bucket(struct outbound *outbound, struct policy *policy, const char *name)
{
    return outbound_part(outbound, policy, &(struct bucket_id){.destination = name, .part = "", .again = true});
}

void outbound_warm(struct outbound *outbound, struct policy *policy, const char *name)
{
    struct bucket *bucket = outbound_bucket(outbound, policy, name);

    if (bucket->is_kept) {
        TAILQ_REMOVE(&outbound->kept, bucket, kept);
    } else {
        outbound->kept_count++;
    }
    bucket->is_kept = true;
    bucket->tally.sum = NULL;
    TAILQ_INSERT_TAIL(&outbound->kept, bucket, kept); /* in the order of the file */
    if (outbound->env.redis != NULL) {
        slots_redis_warm(bucket->pacer.shared);
    }
}

/* ---- other settings ---- */

static void adopt_next(struct outbound *outbound)
{
    struct policy *policy = outbound->conf->policies[outbound->adopted++];

    outbound_warm(outbound, policy, policy->label);
}

/* Configured ones have all gone to the end of the list. False: the first one is still configured, or there is none. */
static bool let_go_next(struct outbound *outbound)
{
    struct bucket *bucket = TAILQ_FIRST(&outbound->kept);

    if (bucket == NULL || bucket->configured->version >= outbound->conf->version) {
        return false;
    }
    TAILQ_REMOVE(&outbound->kept, bucket, kept);
    bucket->is_kept = false;
    outbound->kept_count--;
    return true;
}

static void visit_next(struct outbound *outbound)
{
    struct bucket *bucket = TAILQ_FIRST(&outbound->buckets);

    outbound->to_visit--;
    TAILQ_REMOVE(&outbound->buckets, bucket, link);
    TAILQ_INSERT_TAIL(&outbound->buckets, bucket, link);
    catch_up(outbound, bucket);
}

/* False when all is done. */
static bool adopt_some(struct outbound *outbound)
{
    if (outbound->adopted < outbound->conf->policies_count) {
        adopt_next(outbound);
    } else if (!let_go_next(outbound)) {
        if (outbound->to_visit == 0 || TAILQ_EMPTY(&outbound->buckets)) {
            return false;
        }
        visit_next(outbound);
    }
    return true;
}

static void adopt_due(struct timer *timer, struct mono now)
{
    struct outbound *outbound = container_of(timer, struct outbound, adopt);
    must_be(outbound, OUTBOUND_MAGIC);

    while (mono_diff(loop_now(outbound->loop), now) < ADOPT_US) {
        if (!adopt_some(outbound)) {
            return;
        }
    }
    timer_set(outbound->loop, timer, mono_add(loop_now(outbound->loop), ADOPT_REST_US), adopt_due);
}

void outbound_adopt(struct outbound *outbound, const struct conf *conf)
{
    must_be(outbound, OUTBOUND_MAGIC);
    outbound->conf = conf;
    outbound->adopted = 0;
    outbound->to_visit = outbound->count;
    timer_set(outbound->loop, &outbound->adopt, loop_now(outbound->loop), adopt_due);
}

void outbound_set_most(struct outbound *outbound, unsigned most)
{
    must_be(outbound, OUTBOUND_MAGIC);
    outbound->most = most;
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

const struct policy *outbound_unlisted_policy(struct outbound *outbound, struct policy *configured, int64_t *paused_us)
{
    must_be(outbound, OUTBOUND_MAGIC);
    const struct bucket_id id = {.destination = configured->label, .part = ""};

    *paused_us = orders_pause_us(&outbound->orders, &id, configured, loop_now(outbound->loop));
    return orders_policy(&outbound->orders, &id, configured);
}

const struct tally *outbound_unlisted(const struct outbound *outbound)
{
    must_be(outbound, OUTBOUND_MAGIC);
    return &outbound->unlisted;
}
