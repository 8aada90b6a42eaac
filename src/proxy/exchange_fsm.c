/*
 * The order of stages, and nowhere else:
 *
 *   on_request -> admit -> [enqueue -> WAIT: near -> acquire -> ready ... release] -> go -> TRANSFER -> over
 *                    |                                                             \-> TUNNEL   -> over
 *                    |-> unpaced: DIAL: acquire ------------------------------------^
 *                    `-> refuse -> over
 *
 * Connecting happens while the exchange waits, so that at the slot nothing is left to do but one send. A connection
 * that dies in hand before its slot is replaced; one that turns out dead at the slot costs no slot. Once a byte of the
 * request left it is never sent again: what the third party did with it can't be known.
 */
#include "proxy/exchange_fsm.h"

#include "base/log.h"
#include "base/mem.h"
#include "proxy/access_log.h"
#include "proxy/admit.h"
#include "proxy/exchange_answer.h"
#include "proxy/exchange_state.h"
#include "proxy/part.h"
#include "proxy/feedback.h"

#include <stdio.h>
#include <string.h>

enum { CALLER_MAGIC = 0x63616c6c, MAX_REDIALS = 3, PROBE_AFTER_US = 5000 };

enum after { AFTER_NEXT, AFTER_FINISH, AFTER_CLOSE, AFTER_RESET, AFTER_SECURE };

static void refuse(struct exchange *e, const struct refusal *refusal);
static void go(struct exchange *e, struct mono now);
static void end_tunnel(struct exchange *e, enum verdict verdict, const char *detail);
static void reap_due(struct defer *defer)
{
    exchange_free(container_of(defer, struct exchange, reap));
}

static void drop_upstream(struct exchange *e, bool reset)
{
    if (e->upstream != NULL) {
        upstream_close(e->upstream, reset);
        e->upstream = NULL;
        e->counts->stats.connections--;
    }
}

/* The only end: everything held is given back, the line is logged, the caller's connection goes on or closes. */
static void over(struct exchange *e, enum after after)
{
    struct caller *caller = e->caller;

    bucket_cancel(&e->waiter);
    bool told = e->transfer.answer_begun; /* of this attempt */
    bucket_finish_left(&e->waiter, told && e->transfer.real_cost >= 0 ? e->transfer.real_cost - e->waiter.cost : 0,
                       told ? e->transfer.left : -1);
    upstream_acquire_cancel(&e->acquire);
    drop_upstream(e, e->state == EXCHANGE_TRANSFER);
    if (e->tunnel != NULL) {
        tunnel_free(e->tunnel);
        e->tunnel = NULL;
    }
    if (e->tunnels_of != NULL) {
        tunnels_leave(e->env->tunnels, e->tunnels_of);
        e->tunnels_of = NULL;
    }
    if (e->relay != NULL) {
        e->relay->over = true;
        relay_fini(e->relay); /* the struct itself goes with the exchange: its functions may be on the stack */
        e->bytes_in = e->relay->to_upstream_bytes;
        e->bytes_out = e->relay->to_caller_bytes;
    }
    timer_clear(&e->transfer.timer);
    timer_clear(&e->probe);
    exchange_set_state(e, EXCHANGE_OVER);
    if (e->bytes_out == 0) {
        e->bytes_out = conn_sent_bytes(caller->conn) - e->sent_before + conn_output_bytes(caller->conn);
    }
    access_log_exchange(e, loop_now(e->env->loop));
    exchange_count_end(e);
    caller->exchange = NULL;
    loop_defer(e->env->loop, &e->reap, reap_due);
    if (after == AFTER_NEXT && !e->env->draining) {
        conn_next(caller->conn);
    } else if (after == AFTER_SECURE) {
        conn_secure(caller->conn, shield_new(e->callers_tls));
        e->callers_tls = NULL;
    } else if (after == AFTER_NEXT || after == AFTER_FINISH) {
        conn_finish(caller->conn);
    } else {
        conn_close(caller->conn, after == AFTER_RESET);
    }
}

/* ---- answers of our own ---- */

static void refuse(struct exchange *e, const struct refusal *refusal)
{
    over(e, exchange_send_refusal(e, refusal) ? AFTER_FINISH : AFTER_NEXT);
}

static void refuse_as(struct exchange *e, enum verdict verdict, const char *detail, int64_t retry_after_us)
{
    struct refusal refusal = {.verdict = verdict, .detail = detail, .retry_after_us = retry_after_us};

    refuse(e, &refusal);
}

static void refuse_upstream(struct exchange *e, enum upstream_error error, const char *detail)
{
    struct refusal refusal = exchange_upstream_refusal(e, error, detail);

    refuse(e, &refusal);
}

static const char established[] = "HTTP/1.1 200 Connection Established\r\n\r\n";

/* Nothing is asked of the third party yet: its certificate is judged with the first request, and a refusal is HTTP. */
static void go_intercept(struct exchange *e)
{
    struct caller *caller = e->caller;

    snprintf(caller->inside_host, sizeof(caller->inside_host), "%s", e->target.host);
    e->callers_tls = authority_server_side(e->env->authority, caller->inside_host);
    if (e->callers_tls == NULL) {
        refuse_as(e, VERDICT_NO_LEAF, NULL, 0);
        return;
    }
    caller->inside = true;
    caller->inside_port = e->target.port;
    conn_send(caller->conn, established, sizeof(established) - 1);
    e->verdict = VERDICT_INTERCEPT;
    e->status = 200;
    over(e, AFTER_SECURE);
}

static void answer_self(struct exchange *e)
{
    over(e, exchange_send_self(e) ? AFTER_FINISH : AFTER_NEXT);
}

static void drop(struct exchange *e)
{
    e->verdict = VERDICT_CALLER_GONE;
    over(e, AFTER_CLOSE);
}

/* ---- a connection to the third party ---- */

static void acquire(struct exchange *e)
{
    if (e->upstream == NULL && !e->acquiring) {
        e->acquiring = true;
        upstream_acquire(e->env->upstreams, &e->origin, e->policy, &e->acquire);
    }
}

static void held_closed(void *arg)
{
    struct exchange *e = arg;

    must_be(e, EXCHANGE_MAGIC);
    must(e->state == EXCHANGE_WAIT);
    bool was_used = upstream_was_used(e->upstream);
    drop_upstream(e, false);
    bucket_ready(&e->waiter, false);
    if (!was_used && ++e->redials > MAX_REDIALS) {
        refuse_as(e, VERDICT_UPSTREAM_CLOSED, "it closes every connection before a request is sent", 0);
        return;
    }
    acquire(e);
}

static const struct upstream_ops held_ops = {.on_closed = held_closed};

static void acquired(struct acquire *a, struct upstream *upstream)
{
    struct exchange *e = container_of(a, struct exchange, acquire);

    must_be(e, EXCHANGE_MAGIC);
    must(e->upstream == NULL);
    e->acquiring = false;
    e->upstream = upstream;
    e->counts->stats.connections++;
    if (e->state == EXCHANGE_DIAL) {
        go(e, loop_now(e->env->loop));
        return;
    }
    upstream_own(upstream, &held_ops, e);
    upstream_watch_close(upstream);
    bucket_ready(&e->waiter, true);
}

static void acquire_failed(struct acquire *a, enum upstream_error error, const char *detail)
{
    struct exchange *e = container_of(a, struct exchange, acquire);

    must_be(e, EXCHANGE_MAGIC);
    e->acquiring = false;
    refuse_upstream(e, error, detail);
}

/* ---- waiting ---- */

static void waiter_near(struct waiter *waiter)
{
    struct exchange *e = container_of(waiter, struct exchange, waiter);

    if (e->state == EXCHANGE_TUNNEL) {
        bucket_ready(waiter, true); /* a turn in a tunnel has its connection */
    } else {
        acquire(e);
    }
}

static void waiter_release(struct waiter *waiter, struct mono now)
{
    struct exchange *e = container_of(waiter, struct exchange, waiter);

    must_be(e, EXCHANGE_MAGIC);
    must(e->upstream != NULL);
    if (e->state == EXCHANGE_TUNNEL) {
        exchange_hold_bytes(e, 0);
        e->turns_waited_us += mono_diff(now, e->turn_began);
        e->counts->stats.turns++;
        histogram_add(&e->counts->stats.wait, mono_diff(now, e->turn_began));
        bucket_finish(&e->waiter, 0); /* its end can't be seen */
        relay_grant(e->relay);
    } else {
        go(e, now);
    }
}

static void waiter_give_up(struct waiter *waiter, enum give_up why)
{
    struct exchange *e = container_of(waiter, struct exchange, waiter);
    const char *detail;
    enum verdict verdict = verdict_of_give_up(why, &detail);

    must_be(e, EXCHANGE_MAGIC);
    if (e->state == EXCHANGE_TUNNEL) {
        end_tunnel(e, verdict, "a turn inside the tunnel");
    } else if (why == GIVE_UP_PAUSED) {
        struct refusal refusal = {.verdict = VERDICT_PAUSED, .retry_after_us = CLOCK_SECOND_US};
        feedback_explain(e, &refusal);
        refuse(e, &refusal);
    } else {
        refuse_as(e, verdict, detail, CLOCK_SECOND_US);
    }
}

static const struct waiter_ops waiter_ops = {
    .on_near = waiter_near, .on_release = waiter_release, .on_give_up = waiter_give_up};

static void enqueue(struct exchange *e)
{
    struct refusal refusal = {.verdict = exchange_enter_queue(e), .forecast = &e->forecast};

    if (refusal.verdict == VERDICT_FORWARDED) {
        exchange_set_state(e, EXCHANGE_WAIT);
    } else {
        refusal.retry_after_us = e->forecast.retry_after_us > 0 ? e->forecast.retry_after_us : CLOCK_SECOND_US;
        if (refusal.verdict == VERDICT_WAIT_TOO_LONG) {
            feedback_explain(e, &refusal);
        } else if (refusal.verdict == VERDICT_BUCKETS) {
            refusal.detail = "[proxy] max_buckets of them are in use; try again, or raise it";
            refusal.forecast = NULL;
        }
        refuse(e, &refusal);
    }
}

/* ---- turns inside a tunnel ---- */

/* What went through went through; what is held is dropped with the connection. */
static void end_tunnel(struct exchange *e, enum verdict verdict, const char *detail)
{
    e->verdict = verdict;
    e->detail = detail;
    over(e, AFTER_FINISH);
}

static void turn_due(void *arg)
{
    struct exchange *e = arg;
    size_t bytes = buf_len(&e->relay->held) + conn_input_bytes(e->caller->conn);

    must_be(e, EXCHANGE_MAGIC);
    e->turn_began = loop_now(e->env->loop);
    enum verdict verdict = exchange_queue_is_heavy(e, bytes) ? VERDICT_QUEUED_BYTES : exchange_enter_queue(e);
    if (verdict == VERDICT_FORWARDED) {
        exchange_hold_bytes(e, bytes);
    } else {
        end_tunnel(e, verdict, "a turn inside the tunnel");
    }
}

static void h2_offered(void *arg)
{
    struct exchange *e = arg;

    must_be(e, EXCHANGE_MAGIC);
    e->counts->stats.h2++;
    exchange_warn_of_h2(e);
}

static void relay_ended(void *arg, enum relay_end how)
{
    struct exchange *e = arg;

    must_be(e, EXCHANGE_MAGIC);
    switch (how) {
    case RELAY_CLOSED:
        over(e, AFTER_FINISH);
        return;
    case RELAY_RESET:
        drop_upstream(e, true);
        over(e, AFTER_RESET);
        return;
    case RELAY_GONE:
        end_tunnel(e, VERDICT_CALLER_GONE, "while its turn waited");
        return;
    case RELAY_IDLE:
        end_tunnel(e, VERDICT_TUNNEL, "tunnel_idle");
        return;
    case RELAY_AGED:
        end_tunnel(e, VERDICT_TUNNEL, "tunnel_max_age");
        return;
    case RELAY_BAD_SNI:
        end_tunnel(e, VERDICT_SNI, "the CONNECT host and the name in the ClientHello must agree, see sni_check");
        return;
    case RELAY_H2:
        end_tunnel(e, VERDICT_H2, "let the caller speak HTTP/1.1, or set tunnel_h2 = count or https = originate");
        return;
    }
}

static const struct relay_ops relay_ops = {.on_turn = turn_due, .on_h2 = h2_offered, .on_end = relay_ended};

/* The caller's connection is raw from here on. `host` NULL: nothing is counted. */
static void go_relay(struct exchange *e, const char *host, const struct buf *early)
{
    struct relay *relay = mem_zalloc(sizeof(*relay));

    exchange_set_state(e, EXCHANGE_TUNNEL);
    e->verdict = VERDICT_TUNNEL;
    e->relay = relay;
    relay->ops = &relay_ops;
    relay->arg = e;
    relay->loop = e->env->loop;
    relay->conn = e->caller->conn;
    relay->upstream = e->upstream;
    relay->policy = e->policy;
    relay->host = host;
    relay->scratch = e->env->transfer.scratch;
    relay->scratch_bytes = sizeof(e->env->transfer.scratch);
    conn_go_raw(relay->conn);
    relay_start(relay, early);
}

/* ---- the slot ---- */

static void transfer_ended(struct transfer *transfer, enum transfer_end how);

/* The connection was dead before a byte left: another one, with the same slot. */
static void try_again(struct exchange *e)
{
    drop_upstream(e, true);
    if (++e->redials > MAX_REDIALS) {
        refuse_as(e, VERDICT_UPSTREAM_CLOSED, "every connection was dead before the request could be sent", 0);
        return;
    }
    conn_read_body(e->caller->conn, false); /* the rest of it waits, as it did before the slot */
    exchange_set_state(e, e->paced ? EXCHANGE_WAIT : EXCHANGE_DIAL);
    if (e->paced) {
        bucket_return(exchange_bucket(e), &e->waiter, mono_add(e->arrived, e->patience_us), true);
    }
    acquire(e);
}

static void bad_body(struct exchange *e, enum parse_error error)
{
    struct refusal refusal = {
        .verdict = VERDICT_BAD_REQUEST, .status = parse_error_status(error), .detail = parse_error_text(error)};

    e->bytes_in = e->transfer.sent_bytes;
    drop_upstream(e, true); /* a reset, so that a broken body is not taken for a whole one */
    if (!e->transfer.answer_begun) {
        refuse(e, &refusal);
        return;
    }
    e->verdict = VERDICT_BAD_REQUEST;
    e->status = e->transfer.status;
    over(e, AFTER_RESET);
}

static bool answer_came(struct transfer *t, const struct message *response)
{
    return feedback_take(container_of(t, struct exchange, transfer), response);
}

static void give_upstream_back(struct exchange *e)
{
    if (e->transfer.reusable) {
        upstream_release(e->upstream);
    } else {
        upstream_close(e->upstream, false);
    }
    e->upstream = NULL;
    e->counts->stats.connections--;
}

/* To the head of the queue: a slot of its own for each attempt. */
static void retry(struct exchange *e)
{
    give_upstream_back(e);
    e->retries++;
    e->counts->stats.retries++;
    transfer_again(&e->transfer);
    conn_read_body(e->caller->conn, false); /* of the next request, if any */
    exchange_set_state(e, EXCHANGE_WAIT);
    bucket_return(exchange_bucket(e), &e->waiter, mono_add(e->arrived, e->patience_us), false);
}

static void go_transfer(struct exchange *e)
{
    struct transfer *t = &e->transfer;

    exchange_set_state(e, EXCHANGE_TRANSFER);
    if (t->env == NULL) { /* the first time */
        t->keep = e->paced && e->policy->feedback.retry != RETRY_NONE;
        t->keep_body_bytes = e->policy->feedback.retry_body_max;
    }
    t->env = &e->env->transfer;
    t->conn = e->caller->conn;
    t->upstream = e->upstream;
    t->request = e->request;
    t->target = &e->target;
    t->policy = e->policy;
    t->on_end = transfer_ended;
    t->on_answer = answer_came;
    t->must_close = e->env->draining;
    /* HTTP/2 is not spoken, so an offer of it is not passed on */
    t->upgrade = e->request->upgrade && e->request->minor == 1 && !message_has_token(e->request, "Upgrade", "h2c");
    exchange_set_timing(e);
    if (!transfer_start(t)) {
        try_again(e);
    } else if (e->bad_body != PARSE_OK) {
        bad_body(e, e->bad_body);
    }
}

static void tunnel_done(void *arg, const struct tunnel_result *result)
{
    struct exchange *e = arg;

    must_be(e, EXCHANGE_MAGIC);
    e->bytes_in = result->to_upstream_bytes;
    e->bytes_out = result->to_caller_bytes;
    drop_upstream(e, result->end == TUNNEL_RESET);
    over(e, result->end == TUNNEL_RESET ? AFTER_RESET : AFTER_CLOSE);
}

static void go_tunnel(struct exchange *e, struct buf *to_caller)
{
    struct buf early = {0};
    struct buf unsent = {0};

    exchange_set_state(e, EXCHANGE_TUNNEL);
    e->verdict = VERDICT_TUNNEL;
    upstream_watch(e->upstream, false, false);
    int fd = conn_detach(e->caller->conn, &early, &unsent);
    if (to_caller != NULL && buf_len(to_caller) > 0) {
        buf_add(&unsent, buf_ptr(to_caller), buf_len(to_caller));
    }
    e->tunnel = tunnel_start(e->env->loop, fd, upstream_fd(e->upstream), &early, &unsent, e->policy->tunnel_idle_us,
                             tunnel_done, e);
}

static void go_connect(struct exchange *e)
{
    e->status = 200;
    conn_queue(e->caller->conn, established, sizeof(established) - 1);
    if (e->metered) {
        go_relay(e, e->target.host, NULL);
        return;
    }
    upstream_own(e->upstream, &held_ops, e);
    go_tunnel(e, NULL);
}

static void go(struct exchange *e, struct mono now)
{
    e->released = now;
    if (e->connect) {
        go_connect(e);
    } else {
        go_transfer(e);
    }
}

static void transfer_done(struct exchange *e)
{
    give_upstream_back(e);
    over(e, e->transfer.answer_close ? AFTER_FINISH : AFTER_NEXT);
}

static void transfer_ended(struct transfer *t, enum transfer_end how)
{
    struct exchange *e = container_of(t, struct exchange, transfer);

    must_be(e, EXCHANGE_MAGIC);
    e->bytes_in = t->sent_bytes;
    e->status = t->status;
    switch (how) {
    case TRANSFER_DONE:
        transfer_done(e);
        return;
    case TRANSFER_UPGRADED:
        if (e->origin.tls) {
            go_relay(e, NULL, &t->early);
        } else {
            go_tunnel(e, &t->early);
        }
        return;
    case TRANSFER_BROKEN_OFF:
        e->verdict = VERDICT_BROKEN_OFF;
        /* only a body that ends with the connection needs a reset to be seen as broken */
        over(e, t->answer_framing == FRAMING_UNTIL_CLOSE ? AFTER_RESET : AFTER_FINISH);
        return;
    case TRANSFER_SWALLOWED:
        retry(e);
        return;
    case TRANSFER_UPSTREAM_CLOSED:
        if (feedback_retries_unanswered(e)) {
            retry(e);
            return;
        }
        refuse_as(e, VERDICT_UPSTREAM_CLOSED, "it may have seen the request, so it was not sent again", 0);
        return;
    case TRANSFER_BAD_RESPONSE:
        refuse_as(e, VERDICT_BAD_RESPONSE, parse_error_text(t->error), 0);
        return;
    case TRANSFER_TIMEOUT:
        refuse_as(e, VERDICT_RESPONSE_TIMEOUT, "response_timeout passed", 0);
        return;
    }
}

/* ---- the caller ---- */

static bool enter_tunnels(struct exchange *e)
{
    e->tunnels_of = tunnels_enter(e->env->tunnels, e->bucket_name, e->policy->max_tunnels);
    return e->tunnels_of != NULL;
}

static void on_request(void *arg, struct message *request)
{
    struct caller *caller = arg;
    struct proxy_env *env = caller->env;
    struct refusal refusal;

    must_be(caller, CALLER_MAGIC);
    must(caller->exchange == NULL);
    struct exchange *e = mem_zalloc(sizeof(*e));
    e->magic = EXCHANGE_MAGIC;
    e->caller = caller;
    e->env = env;
    e->request = request;
    e->arrived = loop_now(env->loop);
    e->sent_before = conn_sent_bytes(caller->conn);
    e->waiter.ops = &waiter_ops;
    e->acquire.on_ready = acquired;
    e->acquire.on_error = acquire_failed;
    caller->exchange = e;
    enum verdict verdict = admit_exchange(e, &refusal);
    exchange_count_begin(e);
    if (verdict == VERDICT_SELF) {
        answer_self(e);
    } else if (verdict != VERDICT_FORWARDED) {
        refuse(e, &refusal);
    } else if (exchange_queue_is_heavy(e, conn_input_bytes(caller->conn))) {
        refuse_as(e, VERDICT_QUEUED_BYTES, "[proxy] max_queued_bytes is reached", CLOCK_SECOND_US);
    } else if (e->intercept) {
        go_intercept(e);
    } else if (e->metered && !enter_tunnels(e)) {
        refuse_as(e, VERDICT_TUNNELS, "max_tunnels of this destination are open", CLOCK_SECOND_US);
    } else if (e->paced && !e->metered) {
        enqueue(e);
    } else {
        exchange_set_state(e, EXCHANGE_DIAL);
        acquire(e);
    }
}

static void on_body(void *arg, struct slice data)
{
    struct caller *caller = arg;

    if (caller->exchange != NULL && caller->exchange->state == EXCHANGE_TRANSFER) {
        transfer_body(&caller->exchange->transfer, data);
    } else if (caller->exchange != NULL && caller->exchange->relay != NULL) {
        relay_body(caller->exchange->relay, data);
    }
}

static void on_body_end(void *arg, struct slice trailers)
{
    struct caller *caller = arg;

    if (caller->exchange != NULL && caller->exchange->state == EXCHANGE_TRANSFER) {
        transfer_body_end(&caller->exchange->transfer, trailers);
    } else if (caller->exchange != NULL && caller->exchange->relay != NULL) {
        relay_body_end(caller->exchange->relay);
    }
}

static void refuse_caller(struct caller *caller, const struct refusal *refusal)
{
    struct buf answer = {0};

    refusal_write(&answer, refusal, true, false);
    conn_send(caller->conn, buf_ptr(&answer), buf_len(&answer));
    buf_fini(&answer);
    access_log_refusal(caller, refusal);
    counts_ended(counters_of(caller->env->counters, NULL), refusal->verdict, refusal_status(refusal));
    conn_finish(caller->conn);
}

static void on_bad_request(void *arg, enum parse_error error, bool in_body)
{
    struct caller *caller = arg;
    struct exchange *e = caller->exchange;
    struct refusal refusal = {
        .verdict = VERDICT_BAD_REQUEST, .status = parse_error_status(error), .detail = parse_error_text(error)};

    if (e == NULL) {
        must(!in_body);
        refuse_caller(caller, &refusal);
    } else if (e->transfer.starting) {
        e->bad_body = error; /* go_transfer is in the middle of it */
    } else {
        bad_body(e, error);
    }
}

static void on_timeout(void *arg, bool in_body, bool sending)
{
    struct caller *caller = arg;
    struct exchange *e = caller->exchange;
    struct refusal refusal = {.verdict = VERDICT_REQUEST_TIMEOUT};

    (void)in_body;
    if (e == NULL) {
        refuse_caller(caller, &refusal);
        return;
    }
    drop_upstream(e, true);
    if (sending || e->transfer.answer_begun) {
        e->status = e->relay != NULL ? e->status : e->transfer.status;
        e->verdict = VERDICT_REQUEST_TIMEOUT;
        over(e, AFTER_RESET);
    } else {
        refuse(e, &refusal);
    }
}

static void probe_due(struct timer *timer, struct mono now)
{
    struct exchange *e = container_of(timer, struct exchange, probe);

    (void)now;
    must_be(e, EXCHANGE_MAGIC);
    if (e->state == EXCHANGE_WAIT || e->state == EXCHANGE_DIAL) {
        conn_probe(e->caller->conn);
    }
}

static void on_gone(void *arg, enum conn_gone how)
{
    struct caller *caller = arg;
    struct exchange *e = caller->exchange;

    if (e == NULL) {
        conn_close(caller->conn, false);
        return;
    }
    if (e->relay != NULL) {
        relay_caller_gone(e->relay, how);
        return;
    }
    bool waiting = e->state == EXCHANGE_WAIT || e->state == EXCHANGE_DIAL;
    bool may_listen = e->request->minor == 1 && !e->connect && !e->request->expect_continue;
    if (how == CONN_HALF_CLOSED && waiting && may_listen) {
        /* not at once: where the answer is about to come anyway, it tells as well */
        timer_set(e->env->loop, &e->probe, mono_add(loop_now(e->env->loop), PROBE_AFTER_US), probe_due);
    } else if (how == CONN_RESET || waiting) {
        e->status = e->transfer.status;
        e->bytes_in = e->transfer.sent_bytes;
        drop(e);
    }
}

static void on_drained(void *arg)
{
    struct caller *caller = arg;

    if (caller->exchange != NULL && caller->exchange->state == EXCHANGE_TRANSFER) {
        transfer_caller_drained(&caller->exchange->transfer);
    } else if (caller->exchange != NULL && caller->exchange->relay != NULL) {
        relay_drained(caller->exchange->relay);
    }
}

static void on_closed(void *arg)
{
    struct caller *caller = arg;

    must_be(caller, CALLER_MAGIC);
    must(caller->exchange == NULL);
    caller->on_closed(caller);
}

static const struct conn_ops conn_ops = {
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_bad_request = on_bad_request,
    .on_timeout = on_timeout,
    .on_gone = on_gone,
    .on_drained = on_drained,
    .on_closed = on_closed,
};

struct caller *caller_new(struct proxy_env *env, int fd, const struct addr *peer, const struct addr *local,
                          void (*closed)(struct caller *caller))
{
    struct caller *caller = mem_zalloc(sizeof(*caller));

    caller->magic = CALLER_MAGIC;
    caller->env = env;
    caller->on_closed = closed;
    caller->conn = conn_new(&env->conn, fd, peer, local, &conn_ops, caller);
    return caller;
}

void caller_refuse(struct caller *caller)
{
    struct refusal refusal = {.verdict = VERDICT_CONNECTIONS,
                              .detail = "[proxy] max_connections is reached",
                              .retry_after_us = CLOCK_SECOND_US};

    refuse_caller(caller, &refusal);
}

void caller_drain(struct caller *caller)
{
    if (caller->exchange != NULL) {
        caller->exchange->transfer.must_close = true;
    } else {
        conn_hurry(caller->conn); /* its next request may be on its way */
    }
}

void caller_stop(struct caller *caller)
{
    struct exchange *e = caller->exchange;

    if (e == NULL) {
        conn_close(caller->conn, false);
    } else if (e->state == EXCHANGE_WAIT || e->state == EXCHANGE_DIAL) {
        refuse_as(e, VERDICT_DRAINING, "its turn did not come before drain_timeout; try another replica",
                  CLOCK_SECOND_US);
    } else if (e->state == EXCHANGE_TRANSFER && !e->transfer.answer_begun) {
        drop_upstream(e, true);
        e->bytes_in = e->transfer.sent_bytes;
        refuse_as(e, VERDICT_DRAIN_CUT, "it may have seen the request", 0);
    } else {
        e->verdict = VERDICT_BROKEN_OFF;
        e->status = e->transfer.status;
        over(e, AFTER_RESET);
    }
}
