/*
 * Slots by Redis: the part that buckets share, one server and what it says about its clock.
 *
 *   every answered call -> slots_redis_exchange: bounds of Redis' clock, round trip times, steps
 *   once a second       -> TIME, so that a clock step of more than a few milliseconds never goes unnoticed for longer;
 *                          and, for buckets with waiters, members.lua
 *   up, down            -> pacers are told; what happens while down is theirs (fallback.c)
 *
 * The bounds outlive the connection: they relate two clocks, not two sockets. Another server with another clock looks
 * like a step, and is treated like one. A process without bounds has no past to compare with, so it listens for H + I
 * first (slots_asker.c).
 *
 * A cluster is many servers, each with a clock and a run id of its own: one struct slots_redis for each, and an asker
 * belongs to the one that has its bucket. When another server gets the bucket (a failover, a slot that migrates) the
 * asker moves, and with it moves nothing that was measured: calls under way are lost, the epoch is unknown until the
 * new server says it. That is a new one, since the run id in the bucket's marker is not that server's, so nothing is
 * granted there within H + I of the first call (pacing as after any loss of state), whatever the two clocks show.
 */
#include "outbound/slots_redis.h"

#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REDIS_MAGIC 0x736c7264u
#define TICK_US CLOCK_SECOND_US
enum { TICK_ASKERS = 500, TICKS_MOST = 50 };
#define FRESH_US (900 * CLOCK_MS_US)
#define RTT_MARGIN_US INT64_C(1500)
#define UNNOTICED_MOST_US (100 * CLOCK_MS_US)

static void on_up(void *arg, const char *run_id);
static void on_down(void *arg, const char *why);
static void on_moved(void *arg);
static const struct link_ops link_events = {on_up, on_down, on_moved};

/* "HOST/PID": where an operator finds it, and without spaces, as members.lua wants it. */
static char *name_of_this_process(void)
{
    char host[HOST_NAME_MAX + 1] = "";

    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
        snprintf(host, sizeof(host), "?");
    }
    for (char *c = host; *c != '\0'; c++) {
        *c = *c > ' ' && *c < 0x7f ? *c : '?';
    }
    return mem_printf("%s/%ld", host, (long)getpid());
}

struct slots_redis *slots_redis_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id)
{
    struct slots_redis *redis = mem_zalloc(sizeof(*redis));

    redis->magic = REDIS_MAGIC;
    redis->whole = redis;
    SLIST_INIT(&redis->of_whole);
    redis->loop = loop;
    redis->server = link;
    redis->prefix = mem_strdup(prefix);
    redis->me = mem_strdup(replica_id);
    redis->name = name_of_this_process();
    redis->state.down_since = loop_now(loop);
    redis->warned.us = WINDOW_LONG_AGO_US;
    window_clock_init(&redis->clock);
    TAILQ_INIT(&redis->askers);
    TAILQ_INIT(&redis->side_calls);
    link_listen(link, &link_events, redis);
    return redis;
}

void slots_redis_free(struct slots_redis *redis)
{
    must_be(redis, REDIS_MAGIC);
    must(TAILQ_EMPTY(&redis->askers));
    struct slots_redis *server;
    struct side_call *side;

    while ((server = SLIST_FIRST(&redis->of_whole)) != NULL) {
        SLIST_REMOVE_HEAD(&redis->of_whole, next);
        slots_redis_free(server);
    }
    while ((side = TAILQ_FIRST(&redis->side_calls)) != NULL) {
        TAILQ_REMOVE(&redis->side_calls, side, link);
        link_forget(redis->server, &side->call);
        mem_free(side);
    }
    link_forget(redis->server, &redis->time_call);
    timer_clear(&redis->tick);
    mem_free(redis->prefix);
    mem_free(redis->me);
    mem_free(redis->name);
    redis->magic = 0;
    mem_free(redis);
}

/* ---- whose server is which ---- */

static struct slots_redis *server_of(struct slots_redis *whole, struct link *link)
{
    struct slots_redis *server;

    if (link == whole->server) {
        return whole;
    }
    SLIST_FOREACH(server, &whole->of_whole, next)
    {
        if (server->server == link) {
            return server;
        }
    }
    server = slots_redis_new(whole->loop, link, whole->prefix, whole->me);
    server->whole = whole;
    SLIST_INSERT_HEAD(&whole->of_whole, server, next);
    return server;
}

void slots_redis_join(struct slots_redis *redis, struct redis_asker *asker)
{
    TAILQ_INSERT_TAIL(&redis->askers, asker, link);
    redis->askers_count++;
}

void slots_redis_leave(struct redis_asker *asker)
{
    TAILQ_REMOVE(&asker->redis->askers, asker, link);
    asker->redis->askers_count--;
}

void slots_redis_follow(struct redis_asker *asker)
{
    if (asker->state.up && !asker->redis->state.up) {
        asker->state.down_since = loop_now(asker->redis->loop);
    }
    asker->state.up = asker->redis->state.up;
}

void slots_redis_place(struct redis_asker *asker)
{
    struct slots_redis *from = asker->redis, *whole = from->whole;
    struct slots_redis *to = server_of(whole, link_for(whole->server, asker->keys[ASKER_BUCKET]));

    if (to == from) {
        return;
    }
    slots_redis_leave(asker);
    asker->on_moved(asker, to);
    slots_redis_join(to, asker);
    slots_redis_follow(asker);
    if (to->state.up) {
        asker->on_up(asker);
    }
    asker->base.on_change(asker->base.arg);
}

static void place_all(struct slots_redis *server)
{
    struct redis_asker *asker = TAILQ_FIRST(&server->askers);

    while (asker != NULL) {
        struct redis_asker *next = TAILQ_NEXT(asker, link); /* none is freed here: pacers only note what they hear */
        slots_redis_place(asker);
        asker = next;
    }
}

static void on_moved(void *arg)
{
    struct slots_redis *whole = arg;
    must_be(whole, REDIS_MAGIC);
    struct slots_redis *server;

    place_all(whole);
    SLIST_FOREACH(server, &whole->of_whole, next)
    {
        place_all(server);
    }
}

char *slots_redis_stem(const struct slots_redis *redis, const char *tag, const char *part)
{
    return mem_printf("%s:{%s}%s%s", redis->prefix, tag, part[0] != '\0' ? ":" : "", part);
}

/* ---- clock ---- */

void slots_redis_exchange(struct slots_redis *redis, const struct link_call *call, struct rtime now)
{
    struct redis_asker *asker;
    enum window_step step = window_exchange(&redis->clock, call->sent, call->answered, now);

    rtt_add(&redis->rtt, mono_diff(call->answered, call->sent));
    if (step == WINDOW_STEADY) {
        return;
    }
    log_line(LOG_WARN, "redis_clock_step", LOG_STR("direction", step == WINDOW_STEP_FORWARD ? "forward" : "backward"),
             LOG_END);
    if (step == WINDOW_STEP_FORWARD) {
        TAILQ_FOREACH(asker, &redis->askers, link)
        {
            memcpy(asker->suspect, asker->eid, sizeof(asker->suspect));
        }
    }
}

/* In whole milliseconds, so that it does not change all the time. */
int64_t slots_redis_unnoticed_us(const struct slots_redis *redis, const struct slots_terms *terms)
{
    int64_t slow = (redis->rtt.p90_us + RTT_MARGIN_US + CLOCK_MS_US - 1) / CLOCK_MS_US * CLOCK_MS_US;

    slow = slow < UNNOTICED_MOST_US ? slow : UNNOTICED_MOST_US;
    return slow > terms->unnoticed_us ? slow : terms->unnoticed_us;
}

static void time_done(struct link_call *call, const struct redisReply *reply)
{
    struct slots_redis *redis = container_of(call, struct slots_redis, time_call);
    must_be(redis, REDIS_MAGIC);
    struct rtime now;

    if (reply == NULL) {
        return;
    }
    if (grant_parse_time(reply, &now)) {
        slots_redis_exchange(redis, call, now);
    } else {
        slots_redis_bad_reply(redis, "TIME");
    }
}

static void look_at_clock(struct slots_redis *redis)
{
    static const char *const words[] = {"TIME"};

    redis->time_call.done = time_done;
    if (!redis->time_call.in_flight && !link_command(redis->server, &redis->time_call, words, 1)) {
        return; /* going down: on_down says so */
    }
}

/* Each asker once a second, however many there are, but only so many at once. */
static void tick_due(struct timer *timer, struct mono now)
{
    struct slots_redis *redis = container_of(timer, struct slots_redis, tick);
    must_be(redis, REDIS_MAGIC);
    unsigned turns = redis->askers_count / TICK_ASKERS + 1;

    if (mono_diff(now, redis->summed_up) >= TICK_US) {
        redis->summed_up = now;
        rtt_sum_up(&redis->rtt);
    }
    if (!redis->clock.known || mono_diff(now, redis->clock.at) >= FRESH_US) {
        look_at_clock(redis);
    }
    turns = turns < TICKS_MOST ? turns : TICKS_MOST;
    for (unsigned left = (redis->askers_count + turns - 1) / turns; left > 0; left--) {
        struct redis_asker *asker = TAILQ_FIRST(&redis->askers);
        slots_redis_leave(asker);
        slots_redis_join(redis, asker);
        asker->on_tick(asker);
    }
    timer_set(redis->loop, &redis->tick, mono_add(now, TICK_US / turns), tick_due);
}

/* ---- the link ---- */

static void tell_pacers(struct slots_redis *redis)
{
    struct redis_asker *asker;

    TAILQ_FOREACH(asker, &redis->askers, link)
    {
        slots_redis_follow(asker);
        asker->base.on_change(asker->base.arg);
    }
}

static void on_up(void *arg, const char *run_id)
{
    struct slots_redis *redis = arg;
    must_be(redis, REDIS_MAGIC);
    struct redis_asker *asker;

    if (run_id[0] == '\0') {
        return; /* a cluster as a whole: nothing is asked of it */
    }
    if (strlen(run_id) >= SLOT_RID_BYTES) {
        slots_redis_bad_reply(redis, "run_id");
        return;
    }
    redis->state.up = true;
    look_at_clock(redis);
    TAILQ_FOREACH(asker, &redis->askers, link)
    {
        asker->on_up(asker);
    }
    timer_set(redis->loop, &redis->tick, mono_add(loop_now(redis->loop), TICK_US), tick_due);
    tell_pacers(redis);
}

static void on_down(void *arg, const char *why)
{
    struct slots_redis *redis = arg;
    must_be(redis, REDIS_MAGIC);

    (void)why;
    if (redis->state.up) {
        redis->state.up = false;
        redis->state.down_since = loop_now(redis->loop);
    }
    timer_clear(&redis->tick);
    tell_pacers(redis);
}

void slots_redis_too_slow(struct slots_redis *redis, const struct slots_terms *terms, int64_t took_us)
{
    struct mono now = loop_now(redis->loop);

    if (mono_diff(now, redis->warned) >= CLOCK_SECOND_US) {
        redis->warned = now;
        log_line(LOG_WARN, "redis_too_slow", LOG_INT("round_trip_us", took_us),
                 LOG_INT("most_us", slots_redis_unnoticed_us(redis, terms)), LOG_END);
    }
}

void slots_redis_bad_reply(struct slots_redis *redis, const char *what)
{
    struct mono now = loop_now(redis->loop);

    if (mono_diff(now, redis->warned) >= CLOCK_SECOND_US) {
        redis->warned = now;
        log_line(LOG_ERROR, "redis_bad_reply", LOG_STR("to", what), LOG_END);
    }
}

/* ---- calls nobody waits for ---- */

static void side_done(struct link_call *call, const struct redisReply *reply)
{
    struct side_call *side = container_of(call, struct side_call, call);
    must_be(side->redis, REDIS_MAGIC);

    (void)reply;
    TAILQ_REMOVE(&side->redis->side_calls, side, link);
    mem_free(side);
}

void slots_redis_run(struct slots_redis *redis, const struct script *script, const char *const *keys, unsigned keys_count,
                     const char *const *args, unsigned args_count)
{
    struct side_call *side = mem_zalloc(sizeof(*side));

    side->redis = redis;
    side->call.done = side_done;
    if (!link_eval(redis->server, &side->call, script, keys, keys_count, args, args_count)) {
        mem_free(side);
        return;
    }
    TAILQ_INSERT_TAIL(&redis->side_calls, side, link);
}

void slots_redis_tell(struct slots_redis *redis, const struct script *script, const char *key, int64_t first,
                      int64_t second)
{
    char text[2][24];
    const char *args[2] = {text[0], text[1]};

    snprintf(text[0], sizeof(text[0]), "%" PRId64, first);
    snprintf(text[1], sizeof(text[1]), "%" PRId64, second);
    slots_redis_run(redis, script, &key, 1, args, 2);
}
