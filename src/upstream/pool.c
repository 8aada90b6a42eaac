/*
 * Pools: for each origin, who waits for a connection, which ones are idle, and how many more are being made.
 *
 *   acquire -> [waiting, FIFO] <- pump -> idle connection (LIFO) -> on_ready
 *                                  `----> attempt, while more wait than are being made and max_connections allows
 *
 *   parked in    woken by                                           given up by
 *   waiting      a release, an attempt's end (pump)                 an attempt's failure, upstream_acquire_cancel()
 *   idle         pump                                               the other end, upstream_idle
 *
 * Attempts belong to the pool, not to an acquire: a connection that comes back first serves the head of the queue, and
 * the attempt's connection the next one or the idle list. Hence one failed attempt speaks for those who have waited for
 * it: all of them when nothing else is going on, only the head while others are being served. The exception is a fresh
 * acquire, whose attempt and connection are its own.
 *
 * LIFO keeps the few warm connections busy and lets the surplus expire. The pump is a deferred call and the only
 * place that hands out idle connections and frees a pool, so neither happens under anybody's feet. A pool without
 * anything in it is forgotten at once, with its multi handle's descriptors.
 */
#include "pool.h"

#include "attempt.h"
#include "connection.h"
#include "resolve.h"

#include "base/mem.h"

#include <string.h>
#include <uthash.h>

enum { UPSTREAMS_MAGIC = 0x55505353, POOL_MAGIC = 0x504f4f4c };
enum { KEY_HEAD_BYTES = 3 + sizeof(struct trust *), KEY_HOST_BYTES = 255 };

struct key {
    unsigned len;
    char bytes[KEY_HEAD_BYTES + KEY_HOST_BYTES + 1]; /* port, TLS, trust, host */
};

struct upstreams {
    uint32_t magic;
    struct loop *loop;
    struct upstreams_conf conf;
    struct cidr *ranges; /* owned; conf.private_upstreams */
    struct resolver *resolver;
    struct trusts *trusts;
    struct connection_env env;
    struct pool *pools;
    uint64_t serial; /* of the newest acquire */
};

struct pool {
    uint32_t magic;
    UT_hash_handle hh;
    struct key key;
    struct upstreams *upstreams;
    struct origin origin, fresh_origin; /* hosts point into the key */
    struct multi *multi;                /* made with the first attempt */
    TAILQ_HEAD(, acquire) waiting;
    struct connection_list idle; /* released last first */
    LIST_HEAD(, attempt) attempts;
    unsigned waiting_count, idle_count, attempt_count, busy_count;
    unsigned fresh_count;                      /* attempts and connections outside of the pool's limit */
    int64_t connect_timeout_us, idle_us, most; /* by the policy seen last */
    struct timer expiry;                       /* at or before the oldest idle connection's end */
    struct defer pump;
};

static void pump(struct defer *defer);
static void expiry_due(struct timer *timer, struct mono now);

/* ---- all pools ---- */

static void copy_conf(struct upstreams *upstreams, const struct upstreams_conf *conf)
{
    size_t bytes = conf->private_upstreams_count * sizeof(upstreams->ranges[0]);

    mem_free(upstreams->ranges);
    upstreams->ranges = NULL;
    if (bytes > 0) {
        upstreams->ranges = mem_alloc(bytes);
        memcpy(upstreams->ranges, conf->private_upstreams, bytes);
    }
    upstreams->conf = *conf;
    upstreams->conf.private_upstreams = upstreams->ranges;
}

struct upstreams *pool_upstreams_new(struct loop *loop, const struct upstreams_conf *conf, workers_resolve resolve)
{
    struct upstreams *upstreams = mem_zalloc(sizeof(*upstreams));

    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    upstreams->magic = UPSTREAMS_MAGIC;
    upstreams->loop = loop;
    copy_conf(upstreams, conf);
    upstreams->resolver = resolve_new(loop, conf, resolve);
    upstreams->trusts = tls_trusts_new();
    upstreams->env.loop = loop;
    upstreams->env.conf = &upstreams->conf;
    TAILQ_INIT(&upstreams->env.closed);
    return upstreams;
}

struct upstreams *upstreams_new(struct loop *loop, const struct upstreams_conf *conf)
{
    return pool_upstreams_new(loop, conf, NULL);
}

unsigned pool_count(const struct upstreams *upstreams)
{
    return HASH_COUNT(upstreams->pools);
}

unsigned pool_idle_count(const struct upstreams *upstreams)
{
    unsigned count = 0;

    for (const struct pool *pool = upstreams->pools; pool != NULL; pool = pool->hh.next) {
        count += pool->idle_count;
    }
    return count;
}

/* ---- one pool ---- */

static void make_key(struct key *key, const struct origin *origin)
{
    size_t len = strlen(origin->host);

    if (len > KEY_HOST_BYTES) {
        len = 0; /* the empty name: no host has it, and attempts say so */
    }
    memset(key, 0, sizeof(*key));
    key->bytes[0] = (char)(origin->port >> 8);
    key->bytes[1] = (char)(origin->port & 0xff);
    key->bytes[2] = origin->tls;
    memcpy(key->bytes + 3, &origin->trust, sizeof(origin->trust));
    memcpy(key->bytes + KEY_HEAD_BYTES, origin->host, len);
    key->len = (unsigned)(KEY_HEAD_BYTES + len);
}

static struct pool *pool_new(struct upstreams *upstreams, const struct origin *origin, const struct key *key)
{
    struct pool *pool = mem_zalloc(sizeof(*pool));

    pool->magic = POOL_MAGIC;
    pool->upstreams = upstreams;
    pool->key = *key;
    pool->origin = (struct origin){
        .host = pool->key.bytes + KEY_HEAD_BYTES, .port = origin->port, .tls = origin->tls, .trust = origin->trust};
    pool->fresh_origin = pool->origin;
    pool->fresh_origin.fresh = true;
    TAILQ_INIT(&pool->waiting);
    TAILQ_INIT(&pool->idle);
    LIST_INIT(&pool->attempts);
    tls_trust_hold(origin->trust);
    HASH_ADD(hh, upstreams->pools, key.bytes, key->len, pool);
    return pool;
}

static struct pool *pool_of(struct upstreams *upstreams, const struct origin *origin)
{
    struct key key;
    struct pool *pool;

    make_key(&key, origin);
    HASH_FIND(hh, upstreams->pools, key.bytes, key.len, pool);
    return pool != NULL ? pool : pool_new(upstreams, origin, &key);
}

static bool is_empty(const struct pool *pool)
{
    return pool->waiting_count + pool->idle_count + pool->attempt_count + pool->busy_count + pool->fresh_count == 0;
}

static void pool_free(struct pool *pool)
{
    must(is_empty(pool));
    HASH_DEL(pool->upstreams->pools, pool);
    if (pool->multi != NULL) {
        multi_free(pool->multi);
    }
    timer_clear(&pool->expiry);
    loop_defer_cancel(&pool->pump);
    tls_trust_release(pool->origin.trust);
    pool->magic = 0;
    mem_free(pool);
}

static void pump_soon(struct pool *pool)
{
    loop_defer(pool->upstreams->loop, &pool->pump, pump);
}

/* ---- idle connections ---- */

static void drop_idle(struct upstream *upstream)
{
    struct pool *pool = upstream->pool;

    TAILQ_REMOVE(&pool->idle, upstream, link);
    pool->idle_count--;
    connection_close(upstream, false);
    pump_soon(pool);
}

static void keep_idle(struct pool *pool, struct upstream *upstream)
{
    struct loop *loop = pool->upstreams->loop;

    upstream->idle_until = mono_add(loop_now(loop), pool->idle_us);
    TAILQ_INSERT_HEAD(&pool->idle, upstream, link);
    pool->idle_count++;
    if (!timer_is_set(&pool->expiry) || mono_before(upstream->idle_until, pool->expiry.at)) {
        timer_set(loop, &pool->expiry, upstream->idle_until, expiry_due);
    }
    connection_park(upstream, drop_idle);
    pump_soon(pool);
}

/* The timer is left alone when connections come and go, and asks here who is the oldest now. */
static void expiry_due(struct timer *timer, struct mono now)
{
    struct pool *pool = container_of(timer, struct pool, expiry);
    struct upstream *oldest;

    must_be(pool, POOL_MAGIC);
    while ((oldest = TAILQ_LAST(&pool->idle, connection_list)) != NULL && !mono_before(now, oldest->idle_until)) {
        drop_idle(oldest);
    }
    if (oldest != NULL) {
        timer_set(pool->upstreams->loop, timer, oldest->idle_until, expiry_due);
    }
}

/* ---- attempts ---- */

static struct acquire *take_head(struct pool *pool)
{
    struct acquire *acquire = TAILQ_FIRST(&pool->waiting);

    TAILQ_REMOVE(&pool->waiting, acquire, link);
    pool->waiting_count--;
    acquire->pool = NULL;
    return acquire;
}

static void fail_waiting(struct pool *pool, uint64_t up_to, enum upstream_error error, const char *detail)
{
    bool others_served = pool->busy_count > 0;
    struct acquire *head;

    while ((head = TAILQ_FIRST(&pool->waiting)) != NULL && head->serial <= up_to &&
           pool->waiting_count > pool->attempt_count + pool->idle_count) {
        take_head(pool)->on_error(head, error, detail);
        if (others_served) {
            break;
        }
    }
}

static void on_shared_done(struct attempt *attempt, struct upstream *upstream, enum upstream_error error,
                           const char *detail)
{
    struct pool *pool = attempt->owner;

    must_be(pool, POOL_MAGIC);
    LIST_REMOVE(attempt, link);
    pool->attempt_count--;
    if (upstream != NULL) {
        upstream->pool = pool;
        keep_idle(pool, upstream);
        return;
    }
    pump_soon(pool);
    fail_waiting(pool, attempt->serial, error, detail);
}

static void on_fresh_done(struct attempt *attempt, struct upstream *upstream, enum upstream_error error,
                          const char *detail)
{
    struct pool *pool = attempt->owner;
    struct acquire *acquire = attempt->acquire;

    must_be(pool, POOL_MAGIC);
    LIST_REMOVE(attempt, link);
    acquire->pool = NULL;
    if (upstream != NULL) {
        upstream->pool = pool;
        connection_hand_over(upstream);
        acquire->on_ready(acquire, upstream);
        return;
    }
    pool->fresh_count--;
    pump_soon(pool);
    acquire->on_error(acquire, error, detail);
}

static struct attempt *add_attempt(struct pool *pool, const struct origin *origin, attempt_done done)
{
    struct upstreams *upstreams = pool->upstreams;

    if (pool->multi == NULL) {
        pool->multi = multi_new(upstreams->loop);
    }
    struct attempt *attempt =
        attempt_new(&upstreams->env, upstreams->resolver, pool->multi, origin, pool->connect_timeout_us, done);
    attempt->owner = pool;
    attempt->serial = upstreams->serial;
    LIST_INSERT_HEAD(&pool->attempts, attempt, link);
    return attempt;
}

static bool may_attempt(const struct pool *pool)
{
    return pool->waiting_count > pool->attempt_count + pool->idle_count &&
           (int64_t)pool->attempt_count + pool->idle_count + pool->busy_count < pool->most;
}

/* Counted beforehand: whoever comes again from inside on_error waits for the next pump. */
static void start_attempts(struct pool *pool)
{
    for (unsigned wanted = pool->waiting_count; wanted > 0 && may_attempt(pool); wanted--) {
        struct attempt *attempt = add_attempt(pool, &pool->origin, on_shared_done);
        pool->attempt_count++;
        attempt_start(attempt);
    }
}

static void start_fresh(struct pool *pool, struct acquire *acquire)
{
    struct attempt *attempt = add_attempt(pool, &pool->fresh_origin, on_fresh_done);

    attempt->acquire = acquire;
    acquire->pool = attempt;
    pool->fresh_count++;
    attempt_start_soon(attempt);
}

static void hand_out_idle(struct pool *pool)
{
    while (pool->waiting_count > 0 && pool->idle_count > 0) {
        struct upstream *upstream = TAILQ_FIRST(&pool->idle);
        TAILQ_REMOVE(&pool->idle, upstream, link);
        pool->idle_count--;
        pool->busy_count++;
        connection_hand_over(upstream);
        struct acquire *acquire = take_head(pool);
        acquire->on_ready(acquire, upstream);
    }
}

static void pump(struct defer *defer)
{
    struct pool *pool = container_of(defer, struct pool, pump);

    must_be(pool, POOL_MAGIC);
    hand_out_idle(pool);
    start_attempts(pool);
    if (is_empty(pool)) {
        pool_free(pool);
    }
}

/* ---- for the owner ---- */

struct trusts *upstreams_read_trusts(const struct conf *conf, struct err *err)
{
    return tls_trusts_read(conf, err);
}

void upstreams_free_trusts(struct trusts *trusts)
{
    tls_trusts_free(trusts);
}

static bool same_reach(const struct upstreams_conf *a, const struct upstreams_conf *b)
{
    return a->private_mode == b->private_mode && a->private_upstreams_count == b->private_upstreams_count &&
           (a->private_upstreams_count == 0 ||
            memcmp(a->private_upstreams, b->private_upstreams,
                   a->private_upstreams_count * sizeof(a->private_upstreams[0])) == 0);
}

/* They may lead where nobody may go any more. */
static void drop_all_idle(struct upstreams *upstreams)
{
    for (struct pool *pool = upstreams->pools; pool != NULL; pool = pool->hh.next) {
        struct upstream *upstream;
        while ((upstream = TAILQ_FIRST(&pool->idle)) != NULL) {
            drop_idle(upstream); /* an empty pool is freed by its pump, later */
        }
    }
}

void upstreams_adopt(struct upstreams *upstreams, const struct upstreams_conf *conf, struct trusts *trusts)
{
    must_be(upstreams, UPSTREAMS_MAGIC);
    if (!same_reach(&upstreams->conf, conf)) {
        drop_all_idle(upstreams);
    }
    copy_conf(upstreams, conf);
    resolve_set_times(upstreams->resolver, conf);
    if (trusts != NULL) {
        tls_trusts_adopt(upstreams->trusts, trusts);
    }
}

void upstream_acquire(struct upstreams *upstreams, const struct origin *origin, const struct policy *policy,
                      struct acquire *acquire)
{
    struct origin keyed = *origin;

    must_be(upstreams, UPSTREAMS_MAGIC);
    keyed.trust = origin->tls ? tls_trust_of(upstreams->trusts, policy, NULL) : NULL;
    struct pool *pool = pool_of(upstreams, &keyed);

    pool->connect_timeout_us = policy->connect_timeout_us;
    pool->idle_us = policy->upstream_idle_us;
    pool->most = policy->max_connections;
    acquire->fresh = origin->fresh;
    acquire->serial = ++upstreams->serial;
    if (acquire->fresh) {
        start_fresh(pool, acquire);
        return;
    }
    acquire->pool = pool;
    TAILQ_INSERT_TAIL(&pool->waiting, acquire, link);
    pool->waiting_count++;
    pump_soon(pool);
}

static void cancel_fresh(struct attempt *attempt)
{
    struct pool *pool = attempt->owner;

    must_be(pool, POOL_MAGIC);
    LIST_REMOVE(attempt, link);
    pool->fresh_count--;
    attempt_abort(attempt);
    pump_soon(pool);
}

/* An attempt begun for a shared one goes on: its connection will do for the next. */
void upstream_acquire_cancel(struct acquire *acquire)
{
    if (acquire->pool == NULL) {
        return;
    }
    if (acquire->fresh) {
        cancel_fresh(acquire->pool);
    } else {
        struct pool *pool = acquire->pool;
        must_be(pool, POOL_MAGIC);
        TAILQ_REMOVE(&pool->waiting, acquire, link);
        pool->waiting_count--;
        pump_soon(pool);
    }
    acquire->pool = NULL;
}

static void count_out(struct upstream *upstream)
{
    struct pool *pool = upstream->pool;

    must_be(pool, POOL_MAGIC);
    must(upstream->state == CONNECTION_BUSY);
    if (upstream->fresh) {
        must(pool->fresh_count > 0);
        pool->fresh_count--;
    } else {
        must(pool->busy_count > 0);
        pool->busy_count--;
    }
    pump_soon(pool);
}

void upstream_release(struct upstream *upstream)
{
    struct pool *pool = upstream->pool;

    count_out(upstream);
    if (upstream->fresh || (int64_t)pool->attempt_count + pool->idle_count + pool->busy_count >= pool->most) {
        connection_close(upstream, false);
    } else {
        keep_idle(pool, upstream);
    }
}

void upstream_close(struct upstream *upstream, bool reset)
{
    count_out(upstream);
    connection_close(upstream, reset);
}

static void pool_clear(struct pool *pool)
{
    struct upstream *upstream;
    struct attempt *attempt;

    must(pool->waiting_count == 0 && pool->busy_count == 0 && pool->fresh_count == 0);
    while ((upstream = TAILQ_FIRST(&pool->idle)) != NULL) {
        drop_idle(upstream);
    }
    while ((attempt = LIST_FIRST(&pool->attempts)) != NULL) {
        LIST_REMOVE(attempt, link);
        pool->attempt_count--;
        attempt_abort(attempt);
    }
    pool_free(pool);
}

void upstreams_stats(const struct upstreams *upstreams, struct upstreams_stats *out)
{
    must_be(upstreams, UPSTREAMS_MAGIC);
    *out = (struct upstreams_stats){0};
    for (const struct pool *pool = upstreams->pools; pool != NULL; pool = pool->hh.next) {
        out->idle += pool->idle_count;
        out->busy += pool->busy_count + pool->fresh_count;
        out->connecting += pool->attempt_count;
    }
}

void upstreams_free(struct upstreams *upstreams)
{
    struct pool *pool, *next;

    must_be(upstreams, UPSTREAMS_MAGIC);
    HASH_ITER(hh, upstreams->pools, pool, next)
    {
        pool_clear(pool);
    }
    connection_free_closed(&upstreams->env);
    resolve_free(upstreams->resolver);
    tls_trusts_free(upstreams->trusts);
    curl_global_cleanup();
    mem_free(upstreams->ranges);
    upstreams->magic = 0;
    mem_free(upstreams);
}
