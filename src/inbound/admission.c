/*
 * A check's way:
 *
 *   start --no Redis configured------------------> this process decides ------------------> done (next turn)
 *     |---link up, Redis worth asking--> pending --reply in time--> what the script says --> done
 *     |                                    '------late, lost, odd--.
 *     '---down, or skipped (health.c)------------------------------+--> on_redis_down -----> done
 *
 *   on_redis_down   open: admitted unseen; closed: refused unseen; local: this process decides by its share of the rate
 *
 * A check that is late has been decided by its timer; a reply that still comes finds nobody. What it may have taken in
 * Redis is lost to its caller: never too many because of it, only one too few.
 *
 * The link sends what one turn of the loop has brought in one write, so the requests of a turn share a round trip.
 */
#include "inbound/admission.h"

#include "base/log.h"
#include "base/mem.h"
#include "inbound/admission_redis.h"
#include "inbound/health.h"
#include "inbound/local.h"

#define ADMISSION_MAGIC 0x61646d69u
#define LATE_US (2 * CLOCK_MS_US)
#define LOOK_US CLOCK_MS_US
enum { LOCAL_KEYS_MOST = 1000000 };
#define LOCAL_LOG_BYTES_MOST ((size_t)256 << 20)

struct admission {
    uint32_t magic;
    struct loop *loop;
    struct link *server; /* NULL: this process alone */
    char *prefix, *replica_id;
    struct key_hasher *hasher;
    struct local *local;
    struct health health;
    TAILQ_HEAD(, admission_check) pending;
    struct admission_counters counters;
    struct mono noted; /* of an odd key, in the log */
};

struct admission *admission_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id,
                                const void *secret, size_t secret_bytes)
{
    struct admission *admission = mem_zalloc(sizeof(*admission));

    admission->magic = ADMISSION_MAGIC;
    admission->loop = loop;
    admission->server = link;
    admission->prefix = mem_strdup(prefix);
    admission->replica_id = mem_strdup(replica_id);
    admission->hasher = key_hasher_new(secret, secret_bytes);
    admission->local = local_new(LOCAL_KEYS_MOST, LOCAL_LOG_BYTES_MOST);
    admission->noted = mono_add(loop_now(loop), -CLOCK_SECOND_US);
    TAILQ_INIT(&admission->pending);
    if (link != NULL) {
        health_init(&admission->health, loop, link, admission->prefix, admission->replica_id);
    }
    return admission;
}

void admission_free(struct admission *admission)
{
    must_be(admission, ADMISSION_MAGIC);
    must(TAILQ_EMPTY(&admission->pending));
    if (admission->server != NULL) {
        health_fini(&admission->health);
    }
    local_free(admission->local);
    key_hasher_free(admission->hasher);
    mem_free(admission->prefix);
    mem_free(admission->replica_id);
    admission->magic = 0;
    mem_free(admission);
}

void admission_counters(const struct admission *admission, struct admission_counters *out)
{
    must_be(admission, ADMISSION_MAGIC);
    *out = admission->counters;
    out->local_forgotten = local_forgotten(admission->local);
    out->local_keys = local_count(admission->local);
    out->replicas = admission->server != NULL ? admission->health.replicas : 1;
    out->without_redis = admission->server != NULL && admission->health.out;
}

/* ---- the end of a check ---- */

static void leave(struct admission *admission, struct admission_check *check)
{
    TAILQ_REMOVE(&admission->pending, check, link);
    timer_clear(&check->timeout);
    check->admission = NULL;
}

static void count(struct admission *admission, const struct admission_check *check)
{
    struct admission_counters *counters = &admission->counters;

    counters->admitted += check->admitted;
    counters->refused += !check->admitted;
    counters->unchecked += check->unchecked;
    for (unsigned i = 0; i < check->count && !check->unchecked; i++) {
        counters->dry_refused += check->rules[i]->dry_run && !check->results[i].admitted;
    }
}

static void finish(struct admission *admission, struct admission_check *check)
{
    leave(admission, check);
    count(admission, check);
    check->done(check); /* which may free it */
}

static void deferred(struct defer *defer)
{
    struct admission_check *check = container_of(defer, struct admission_check, defer);

    must_be(check->admission, ADMISSION_MAGIC);
    finish(check->admission, check);
}

/* ---- without Redis ---- */

static void decide_here(struct admission *admission, struct admission_check *check, int64_t replicas)
{
    struct limit_try tries[INBOUND_RULES_MOST];
    struct local_key *keys[INBOUND_RULES_MOST];
    int64_t now_us = loop_now(admission->loop).us;

    local_sweep(admission->local, now_us);
    for (unsigned i = 0; i < check->count; i++) {
        const struct inbound_rule *rule = check->rules[i];
        struct key_hash hash = key_hash(admission->hasher, check->inbound, rule, check->keys[i]);
        struct limit whole = limit_of(rule);
        int64_t cost = limit_cost(check->costs[i]);
        struct limit share = limit_share(&whole, replicas, cost);
        keys[i] = local_get(admission->local, &hash, &share);
        tries[i] = (struct limit_try){share, local_state(keys[i]), cost, rule->dry_run, {0}};
    }
    check->admitted = limit_decide(tries, check->count, now_us);
    for (unsigned i = 0; i < check->count; i++) {
        local_put(keys[i], &tries[i].limit);
        check->results[i] = admission_result_of(&tries[i].limit, &tries[i].verdict);
    }
}

static void decide_unseen(struct admission_check *check, bool admitted)
{
    struct limit_verdict verdict = {.admitted = admitted, .retry_after_us = admitted ? 0 : CLOCK_SECOND_US};

    check->unchecked = true;
    check->admitted = admitted;
    for (unsigned i = 0; i < check->count; i++) {
        struct limit limit = limit_of(check->rules[i]);
        check->results[i] = admission_result_of(&limit, &verdict);
    }
}

static void decide_without_redis(struct admission *admission, struct admission_check *check)
{
    static const char *const names[] = {
        [INBOUND_DOWN_OPEN] = "open", [INBOUND_DOWN_LOCAL] = "local", [INBOUND_DOWN_CLOSED] = "closed"};
    enum inbound_redis_down mode = check->inbound->on_redis_down;

    health_went_without(&admission->health, names[mode]);
    if (mode == INBOUND_DOWN_LOCAL) {
        decide_here(admission, check, admission->health.replicas);
    } else {
        decide_unseen(check, mode == INBOUND_DOWN_OPEN);
    }
}

/* ---- with Redis ---- */

static void failed(struct admission *admission, struct admission_check *check)
{
    health_failed(&admission->health, check->inbound->timeout_us);
    decide_without_redis(admission, check);
    finish(admission, check);
}

static void timed_out(struct timer *timer, struct mono now)
{
    struct admission_check *check = container_of(timer, struct admission_check, timeout);
    must_be(check->admission, ADMISSION_MAGIC);

    (void)now;
    link_forget(check->admission->server, &check->call);
    failed(check->admission, check);
}

/* A timer that is itself late means that we were busy, or stopped: the reply may be there, unread. One look at the
 * socket. */
static void time_is_up(struct timer *timer, struct mono now)
{
    struct admission_check *check = container_of(timer, struct admission_check, timeout);
    must_be(check->admission, ADMISSION_MAGIC);

    if (mono_diff(now, mono_add(check->started, check->inbound->timeout_us)) > LATE_US) {
        timer_set(check->admission->loop, timer, mono_add(now, LOOK_US), timed_out);
    } else {
        timed_out(timer, now);
    }
}

static void tell_odd(struct admission *admission, const char *what)
{
    struct mono now = loop_now(admission->loop);

    if (mono_diff(now, admission->noted) >= CLOCK_SECOND_US) {
        admission->noted = now;
        log_line(LOG_WARN, "admission_odd", LOG_STR("what", what), LOG_END);
    }
}

static void answered(struct link_call *call, const struct redisReply *reply)
{
    struct admission_check *check = container_of(call, struct admission_check, call);
    struct admission *admission = check->admission;
    must_be(admission, ADMISSION_MAGIC);
    enum admission_note note;

    if (!admission_redis_read(reply, check, &note)) {
        if (reply != NULL) {
            tell_odd(admission, "reply");
        }
        failed(admission, check);
        return;
    }
    if (note != ADMISSION_FINE) {
        tell_odd(admission,
                 note == ADMISSION_KEY_RESET ? "a key that was not ours was reset" : "the clock of Redis went back");
    }
    health_good(&admission->health);
    finish(admission, check);
}

static bool ask_redis(struct admission *admission, struct admission_check *check)
{
    check->call.done = answered;
    if (!health_may_ask(&admission->health) ||
        !admission_redis_ask(admission->server, check, admission->prefix, admission->hasher)) {
        return false;
    }
    admission->counters.redis_calls++;
    timer_set(admission->loop, &check->timeout, mono_add(check->started, check->inbound->timeout_us), time_is_up);
    return true;
}

/* ---- for owners ---- */

void admission_start(struct admission *admission, struct admission_check *check)
{
    must_be(admission, ADMISSION_MAGIC);
    must(check->admission == NULL && check->done != NULL && check->count <= INBOUND_RULES_MOST);
    check->admission = admission;
    check->started = loop_now(admission->loop);
    check->unchecked = false;
    TAILQ_INSERT_TAIL(&admission->pending, check, link);
    if (check->count > 0 && admission->server != NULL && ask_redis(admission, check)) {
        return;
    }
    if (check->count > 0 && admission->server != NULL) {
        decide_without_redis(admission, check);
    } else {
        decide_here(admission, check, 1);
    }
    loop_defer(admission->loop, &check->defer, deferred);
}

void admission_cancel(struct admission_check *check)
{
    struct admission *admission = check->admission;

    if (admission == NULL) {
        return;
    }
    must_be(admission, ADMISSION_MAGIC);
    loop_defer_cancel(&check->defer);
    if (check->call.in_flight) {
        link_forget(admission->server, &check->call);
    }
    leave(admission, check);
}
