/*
 * A Redis that is down is known to be down (the link says so) and costs nothing. One that is slow costs every request
 * its whole patience, so after a few failures in a row it is not asked at all:
 *
 *   ASKING --3 failures in a row--> SKIPPING --probe answered in time--> ASKING
 *                                     |    ^
 *                                     1 s  |  late or lost
 *                                     '----'  (at once when the link has come up anew)
 *
 * The probe is the pulse by which replicas count each other once a second, so no request ever waits for it.
 *
 * The first decision without Redis is told in the log at once, then once a second how many there were, for as long as
 * it lasts: an API that is not protected must not go unnoticed. The end is one quiet line.
 */
#include "inbound/health.h"

#include "base/log.h"
#include "base/mem.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>

#define PULSE_US CLOCK_SECOND_US
#define MEMBER_TTL_US (5 * CLOCK_SECOND_US)
#define PATIENCE_US (20 * CLOCK_MS_US)
enum { FAILURES_MOST = 3 };

extern const struct script script_members;

static void pulse_due(struct timer *timer, struct mono now);

/* ---- asking or skipping ---- */

static void set_pulse(struct health *health, int64_t after_us)
{
    timer_set(health->loop, &health->pulse, mono_add(loop_now(health->loop), after_us), pulse_due);
}

static void end_outage(struct health *health)
{
    if (!health->out) {
        return;
    }
    health->out = false;
    timer_clear(&health->shout);
    log_line(LOG_INFO, "admission_checked_again", LOG_INT("without", health->without),
             LOG_INT("for_ms", mono_diff(loop_now(health->loop), health->out_since) / CLOCK_MS_US), LOG_END);
}

void health_good(struct health *health)
{
    health->failures = 0;
    health->skipping = false;
    end_outage(health);
}

void health_failed(struct health *health, int64_t patience_us)
{
    health->patience_us = patience_us;
    if (++health->failures >= FAILURES_MOST && !health->skipping) {
        health->skipping = true;
        set_pulse(health, PULSE_US);
        log_line(LOG_WARN, "admission_skips_redis", LOG_INT("failures", health->failures), LOG_END);
    }
}

/* ---- the pulse ---- */

static bool read_replicas(const struct redisReply *reply, int64_t *replicas)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[1]->type != REDIS_REPLY_INTEGER) {
        return false;
    }
    *replicas = reply->element[1]->integer > 1 ? reply->element[1]->integer : 1;
    return true;
}

static void pulse_done(struct link_call *call, const struct redisReply *reply)
{
    struct health *health = container_of(call, struct health, call);

    if (read_replicas(reply, &health->replicas) && mono_diff(call->answered, call->sent) <= health->patience_us) {
        health_good(health);
    }
}

static void send_pulse(struct health *health)
{
    char ttl[24];
    const char *keys[] = {health->key}, *args[] = {health->me, "0", ttl};

    snprintf(ttl, sizeof(ttl), "%" PRId64, MEMBER_TTL_US);
    health->call.done = pulse_done;
    if (!health->call.in_flight && !link_eval(health->server, &health->call, &script_members, keys, 1, args, 3)) {
        return; /* down: on_up comes when it no longer is */
    }
}

static void pulse_due(struct timer *timer, struct mono now)
{
    struct health *health = container_of(timer, struct health, pulse);

    (void)now;
    send_pulse(health);
    set_pulse(health, PULSE_US);
}

static void on_up(void *arg, const char *run_id)
{
    struct health *health = arg;

    (void)run_id;
    send_pulse(health);
    set_pulse(health, PULSE_US);
}

static void on_down(void *arg, const char *why)
{
    (void)arg, (void)why; /* every call in flight has been told */
}

/* ---- the outage ---- */

static void tell(struct health *health)
{
    log_line(LOG_ERROR, "admission_without_redis", LOG_STR("on_redis_down", health->mode),
             LOG_INT("decisions", health->without - health->without_told),
             LOG_INT("for_ms", mono_diff(loop_now(health->loop), health->out_since) / CLOCK_MS_US), LOG_END);
    health->without_told = health->without;
}

static void shout_due(struct timer *timer, struct mono now)
{
    struct health *health = container_of(timer, struct health, shout);

    tell(health);
    timer_set(health->loop, &health->shout, mono_add(now, CLOCK_SECOND_US), shout_due);
}

void health_went_without(struct health *health, const char *mode)
{
    struct mono now = loop_now(health->loop);

    health->mode = mode;
    if (health->out) {
        health->without++;
        return;
    }
    health->out = true;
    health->out_since = now;
    health->without = 1;
    health->without_told = 0;
    tell(health);
    timer_set(health->loop, &health->shout, mono_add(now, CLOCK_SECOND_US), shout_due);
}

/* ---- life ---- */

void health_init(struct health *health, struct loop *loop, struct link *link, const char *prefix,
                 const char *replica_id)
{
    static const struct link_ops events = {.on_up = on_up, .on_down = on_down};

    *health =
        (struct health){.loop = loop, .server = link, .me = replica_id, .patience_us = PATIENCE_US, .replicas = 1};
    health->key = mem_printf("%s:in:members", prefix);
    link_listen(link, &events, health);
    set_pulse(health, PULSE_US);
}

void health_fini(struct health *health)
{
    timer_clear(&health->pulse);
    timer_clear(&health->shout);
    link_forget(health->server, &health->call);
    mem_free(health->key);
}
