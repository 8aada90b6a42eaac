/*
 *   caller --on_body--> held [allowed | not yet] --upstream_send--> third party
 *                              ^ turns_caller()
 *   caller <------------------ conn_send <--upstream_recv---------- third party
 *                              ^ turns_server()
 *
 *   parked in        woken by                      given up by
 *   a turn held      relay_grant()                 its owner (queue, deadline), either side's end
 *   nothing to read  either side                   tunnel_idle, tunnel_max_age
 *   a side is full   that side                     body_timeout (the caller), tunnel_idle
 *
 * Back-pressure makes the meter hold: bytes behind the beginning of a turn stay here, one read at most, and the caller
 * is not read again before they may go; its TCP window does the rest. What the third party says is never held. The 200
 * has been sent by then, so a refusal can only be a closed connection: TLS has no way of saying 429. Only before the
 * ClientHello was answered an alert can still be said in the clear (RFC 8446 section 6.2).
 *
 * Where the caller's end shows while a TLS turn is held, it is taken for gone and no slot is spent: a TLS client that
 * wants an answer doesn't end its side first. Without TLS half-closing is an honest way to end a request.
 */
#include "proxy/relay.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { HIGH_WATER_BYTES = 65536 };
enum { ALERT_UNRECOGNIZED_NAME = 112, ALERT_NO_APPLICATION_PROTOCOL = 120 };

static void end(struct relay *r, enum relay_end how)
{
    must(!r->over);
    r->over = true;
    timer_clear(&r->idle);
    timer_clear(&r->age);
    conn_read_body(r->conn, false);
    upstream_watch(r->upstream, false, false);
    r->ops->on_end(r->arg, how);
}

static void watch(struct relay *r)
{
    upstream_watch(r->upstream, r->reading, r->allowed > 0);
    conn_read_body(r->conn, !r->caller_ended && !r->waiting && buf_len(&r->held) < HIGH_WATER_BYTES);
}

/* ---- the ClientHello ---- */

static void refuse_hello(struct relay *r, unsigned char why, enum relay_end how)
{
    const unsigned char alert[] = {21, 3, 3, 0, 2, 2, why}; /* a record: fatal */

    conn_send(r->conn, alert, sizeof(alert));
    end(r, how);
}

/* False when the relay is over. */
static bool judge_hello(struct relay *r)
{
    const struct client_hello *hello = &r->turns.hello;
    bool wrong_name = hello->has_sni && (hello->bad_sni || strcmp(hello->sni, r->host) != 0);

    if (r->policy->sni_check && (wrong_name || r->turns.hello_bad)) {
        refuse_hello(r, ALERT_UNRECOGNIZED_NAME, RELAY_BAD_SNI);
        return false;
    }
    if (hello->offers_h2 && r->policy->tunnel_h2 == TUNNEL_H2_REFUSE) {
        refuse_hello(r, ALERT_NO_APPLICATION_PROTOCOL, RELAY_H2);
        return false;
    }
    if (hello->offers_h2) {
        r->ops->on_h2(r->arg);
    }
    return true;
}

/* ---- from the caller ---- */

/* False when the relay is over. */
static bool judge(struct relay *r)
{
    enum turns_want want = TURNS_PASSED;

    if (r->host == NULL) {
        r->allowed = buf_len(&r->held);
    }
    while (!r->turn_due && r->allowed < buf_len(&r->held) && want != TURNS_MORE) {
        r->allowed += turns_caller(&r->turns, buf_ptr(&r->held) + r->allowed, buf_len(&r->held) - r->allowed, &want);
        if (want == TURNS_HELLO && !judge_hello(r)) {
            return false;
        }
        r->turn_due = want == TURNS_TURN;
    }
    return true;
}

/* What was judged as far as it could be, when nothing will follow. */
static void judge_rest(struct relay *r)
{
    if (r->caller_ended && !r->turn_due) {
        r->allowed = buf_len(&r->held);
    }
}

/* False when the relay is over. */
static bool send_allowed(struct relay *r)
{
    while (r->allowed > 0) {
        ssize_t sent = upstream_send(r->upstream, buf_ptr(&r->held), r->allowed);
        if (sent < 0 && errno == EAGAIN) {
            return true;
        }
        if (sent < 0) {
            end(r, RELAY_RESET);
            return false;
        }
        buf_consume(&r->held, (size_t)sent);
        r->allowed -= (size_t)sent;
        r->to_upstream_bytes += (uint64_t)sent;
        r->last_moved = loop_now(r->loop);
    }
    return true;
}

/* Passes the caller's half-close on; TLS of ours has none, so there it is the end. False when the relay is over. */
static bool pass_end(struct relay *r)
{
    int fd = upstream_fd(r->upstream);

    if (!r->caller_ended || r->upstream_shut || buf_len(&r->held) > 0) {
        return true;
    }
    r->upstream_shut = true;
    if (fd >= 0) {
        shutdown(fd, SHUT_WR);
    }
    if (fd < 0 || r->upstream_ended) {
        end(r, RELAY_CLOSED);
        return false;
    }
    return true;
}

static void go_on(struct relay *r)
{
    if (r->over || !judge(r)) {
        return;
    }
    judge_rest(r);
    if (!send_allowed(r) || !pass_end(r)) {
        return;
    }
    if (r->turn_due && !r->waiting) {
        r->waiting = true;
        watch(r);
        r->ops->on_turn(r->arg);
        return;
    }
    watch(r);
}

void relay_grant(struct relay *r)
{
    must(r->waiting && !r->over);
    turns_grant(&r->turns);
    r->waiting = r->turn_due = false;
    r->last_moved = loop_now(r->loop);
    go_on(r);
}

void relay_body(struct relay *r, struct slice data)
{
    buf_add(&r->held, data.ptr, data.len);
    r->last_moved = loop_now(r->loop);
    go_on(r);
}

void relay_body_end(struct relay *r)
{
    if (r->over || r->caller_ended) {
        return;
    }
    r->caller_ended = true;
    if (r->host != NULL && r->turns.kind == TURNS_UNDECIDED && buf_len(&r->held) > 0) {
        end(r, RELAY_CLOSED); /* it was never seen what this is, so it does not pass */
    } else {
        go_on(r);
    }
}

void relay_caller_gone(struct relay *r, enum conn_gone how)
{
    if (r->over) {
        return;
    }
    if (how == CONN_RESET) {
        end(r, r->waiting ? RELAY_GONE : RELAY_RESET);
    } else if (r->waiting && r->turns.kind == TURNS_TLS) {
        end(r, RELAY_GONE);
    }
}

/* ---- from the third party ---- */

static void upstream_is_done(struct relay *r)
{
    r->upstream_ended = true;
    r->reading = false;
    if (r->waiting || r->upstream_shut) {
        end(r, RELAY_CLOSED);
        return;
    }
    conn_shut(r->conn);
    watch(r);
}

static void on_readable(void *arg)
{
    struct relay *r = arg;
    ssize_t got = upstream_recv(r->upstream, r->scratch, r->scratch_bytes);

    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got < 0) {
        end(r, RELAY_RESET);
        return;
    }
    if (got == 0) {
        upstream_is_done(r);
        return;
    }
    if (r->host != NULL) {
        turns_server(&r->turns, r->scratch, (size_t)got);
    }
    r->to_caller_bytes += (uint64_t)got;
    r->last_moved = loop_now(r->loop);
    conn_send(r->conn, r->scratch, (size_t)got);
    if (conn_output_bytes(r->conn) > HIGH_WATER_BYTES) {
        r->reading = false;
        watch(r);
    }
}

static void on_writable(void *arg)
{
    go_on(arg);
}

void relay_drained(struct relay *r)
{
    if (!r->over && !r->reading && !r->upstream_ended) {
        r->reading = true;
        watch(r);
    }
}

/* ---- life ---- */

/* A turn that waits is not idle: the queue has a clock of its own. */
static void idle_due(struct timer *timer, struct mono now)
{
    struct relay *r = container_of(timer, struct relay, idle);
    struct mono until = mono_add(r->waiting ? now : r->last_moved, r->policy->tunnel_idle_us);

    if (mono_before(now, until)) {
        timer_set(r->loop, timer, until, idle_due);
    } else {
        end(r, RELAY_IDLE);
    }
}

static void age_due(struct timer *timer, struct mono now)
{
    (void)now;
    end(container_of(timer, struct relay, age), RELAY_AGED);
}

static void start(struct defer *defer)
{
    go_on(container_of(defer, struct relay, starting));
}

void relay_start(struct relay *r, const struct buf *early)
{
    static const struct upstream_ops ops = {.on_readable = on_readable, .on_writable = on_writable};
    struct mono now = loop_now(r->loop);

    turns_init(&r->turns);
    r->last_moved = now;
    r->reading = true;
    timer_set(r->loop, &r->idle, mono_add(now, r->policy->tunnel_idle_us), idle_due);
    if (r->host != NULL && r->policy->tunnel_max_age_us > 0) {
        timer_set(r->loop, &r->age, mono_add(now, r->policy->tunnel_max_age_us), age_due);
    }
    upstream_own(r->upstream, &ops, r);
    if (early != NULL && buf_len(early) > 0) {
        conn_queue(r->conn, buf_ptr(early), buf_len(early));
    }
    conn_flush(r->conn);
    loop_defer(r->loop, &r->starting, start);
}

void relay_fini(struct relay *r)
{
    timer_clear(&r->idle);
    timer_clear(&r->age);
    loop_defer_cancel(&r->starting);
    turns_fini(&r->turns);
    buf_fini(&r->held);
}
