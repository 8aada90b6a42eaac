/*
 * The order of stages of the inbound side:
 *
 *   on_request -> read -> ADMIT: admission -> [check endpoint: 204] or DIAL: acquire -> TRANSFER -> over
 *                   |                |                                              \-> TUNNEL  -> over
 *                   `-> refuse       `-> 429, 503
 *
 * Nothing waits for its turn here: the answer is yes or no, as fast as the limits can be looked at. Only then is the
 * API dialled, so a refused request costs it nothing. A connection that turns out dead before a byte left is replaced;
 * afterwards a request is never sent again.
 */
#include "proxy/reverse.h"

#include "base/log.h"
#include "base/mem.h"
#include "proxy/check.h"
#include "proxy/inbound_answer.h"
#include "proxy/inbound_match.h"
#include "proxy/visit_log.h"

#include <string.h>

enum { VISITOR_MAGIC = 0x76697372, VISIT_MAGIC = 0x76697369, MAX_REDIALS = 3 };

enum after { AFTER_NEXT, AFTER_FINISH, AFTER_CLOSE, AFTER_RESET };

static void dial(struct visit *v);

/* ---- states ---- */

static bool move_is_legal(enum visit_state from, enum visit_state to)
{
    static const unsigned legal[] = {
        [VISIT_ADMIT] = 1U << VISIT_DIAL | 1U << VISIT_OVER,
        [VISIT_DIAL] = 1U << VISIT_TRANSFER | 1U << VISIT_OVER,
        /* back: the connection was dead before any byte left */
        [VISIT_TRANSFER] = 1U << VISIT_DIAL | 1U << VISIT_TUNNEL | 1U << VISIT_OVER,
        [VISIT_TUNNEL] = 1U << VISIT_OVER,
        [VISIT_OVER] = 0,
    };
    return (legal[from] >> to & 1U) != 0;
}

static void set_state(struct visit *v, enum visit_state to)
{
    must_be(v, VISIT_MAGIC);
    must(move_is_legal(v->state, to));
    v->state = to;
}

static void reap_due(struct defer *defer)
{
    struct visit *v = container_of(defer, struct visit, reap);

    transfer_fini(&v->transfer);
    forwarded_fini(&v->forwarded);
    message_free(v->request);
    buf_fini(&v->keys);
    buf_fini(&v->fields);
    buf_fini(&v->authority);
    inbound_conf_put(v->inbound);
    v->magic = 0;
    mem_free(v);
}

static void drop_upstream(struct visit *v, bool reset)
{
    if (v->upstream != NULL) {
        upstream_close(v->upstream, reset);
        v->upstream = NULL;
    }
}

/* The only end: everything held is given back, the line is logged, the caller's connection goes on or closes. */
static void over(struct visit *v, enum after after)
{
    struct visitor *visitor = v->visitor;

    admission_cancel(&v->check);
    upstream_acquire_cancel(&v->acquire);
    drop_upstream(v, v->state == VISIT_TRANSFER);
    if (v->tunnel != NULL) {
        tunnel_free(v->tunnel);
        v->tunnel = NULL;
    }
    timer_clear(&v->transfer.timer);
    set_state(v, VISIT_OVER);
    if (v->bytes_out == 0) {
        v->bytes_out = conn_sent_bytes(visitor->conn) - v->sent_before + conn_output_bytes(visitor->conn);
    }
    visit_log(v, loop_now(v->env->loop));
    visitor->visit = NULL;
    loop_defer(v->env->loop, &v->reap, reap_due);
    if (after == AFTER_NEXT && !v->env->draining) {
        conn_next(visitor->conn);
    } else if (after == AFTER_NEXT || after == AFTER_FINISH) {
        conn_finish(visitor->conn);
    } else {
        conn_close(visitor->conn, after == AFTER_RESET);
    }
}

/* ---- answers of our own ---- */

static bool ends_with_answer(const struct visit *v)
{
    return !conn_request_done(v->visitor->conn) || !v->request->keep_alive || v->env->draining;
}

static bool is_head(const struct visit *v)
{
    return slice_is(v->request->method, "HEAD");
}

static void answer(struct visit *v, struct buf *bytes, bool close)
{
    conn_send(v->visitor->conn, buf_ptr(bytes), buf_len(bytes));
    buf_fini(bytes);
    over(v, close ? AFTER_FINISH : AFTER_NEXT);
}

static void refuse(struct visit *v, const struct refusal *refusal)
{
    struct buf bytes = {0};
    bool close = ends_with_answer(v) || refusal->verdict == VERDICT_BAD_REQUEST || refusal->verdict == VERDICT_DRAINING;

    refusal_write(&bytes, refusal, close, is_head(v));
    v->verdict = refusal->verdict;
    v->verdict_word = refusal->word;
    v->status = refusal_status(refusal);
    answer(v, &bytes, close);
}

static void refuse_as(struct visit *v, enum verdict verdict, const char *title, const char *detail)
{
    struct refusal refusal = {.verdict = verdict, .title = title, .detail = detail};

    refuse(v, &refusal);
}

static void refuse_upstream(struct visit *v, enum upstream_error error, const char *detail)
{
    struct refusal refusal = {
        .verdict = VERDICT_UPSTREAM,
        .status = upstream_error_status(error),
        .error = upstream_error_type(error),
        .title = "The API can't be reached",
        .retry_after_us = error == UPSTREAM_BAD_RESOURCES ? CLOCK_SECOND_US : 0,
    };

    log_line(LOG_WARN, "inbound_upstream_failed", LOG_STR("inbound", v->inbound->label),
             LOG_STR("host", v->origin.host), LOG_STR("why", detail != NULL ? detail : upstream_error_type(error)),
             LOG_END);
    refuse(v, &refusal);
}

/* ---- yes or no ---- */

static void answer_check(struct visit *v)
{
    struct buf bytes = {0};
    bool close = ends_with_answer(v);

    check_admit(&bytes, &v->check, close);
    v->verdict = VERDICT_SELF;
    v->verdict_word = "admitted";
    v->status = 204;
    answer(v, &bytes, close);
}

static void answer_refused(struct visit *v)
{
    struct buf bytes = {0};
    bool close = ends_with_answer(v);

    v->status = inbound_refuse(&bytes, &v->check, close, is_head(v));
    v->verdict = v->check.unchecked ? VERDICT_REDIS_DOWN : VERDICT_RATE_LIMITED;
    answer(v, &bytes, close);
}

static void decided(struct admission_check *check)
{
    struct visit *v = container_of(check, struct visit, check);

    must_be(v, VISIT_MAGIC);
    v->decided = loop_now(v->env->loop);
    if (!check->admitted) {
        answer_refused(v);
    } else if (v->visitor->asks) {
        answer_check(v);
    } else {
        inbound_fields(&v->fields, check);
        buf_add(&v->fields, "", 1);
        set_state(v, VISIT_DIAL);
        dial(v);
    }
}

static void admit(struct visit *v)
{
    inbound_match(v->inbound, &v->seen, &v->keys, &v->check);
    v->check.done = decided;
    admission_start(v->env->admission, &v->check);
}

/* ---- a connection to the API ---- */

static void dial(struct visit *v)
{
    v->origin = (struct origin){.host = v->inbound->upstream_host, .port = v->inbound->upstream_port};
    upstream_acquire(v->env->upstreams, &v->origin, v->inbound->policy, &v->acquire);
}

static void transfer_ended(struct transfer *transfer, enum transfer_end how);

/* The connection was dead before a byte left: another one. */
static void try_again(struct visit *v)
{
    drop_upstream(v, true);
    if (++v->redials > MAX_REDIALS) {
        refuse_as(v, VERDICT_UPSTREAM_CLOSED, "The API can't be reached",
                  "every connection was dead before the request could be sent");
        return;
    }
    set_state(v, VISIT_DIAL);
    dial(v);
}

static void bad_body(struct visit *v, enum parse_error error)
{
    struct refusal refusal = {
        .verdict = VERDICT_BAD_REQUEST, .status = parse_error_status(error), .detail = parse_error_text(error)};

    v->bytes_in = v->transfer.sent_bytes;
    drop_upstream(v, true); /* a reset, so that a broken body is not taken for a whole one */
    if (!v->transfer.answer_begun) {
        refuse(v, &refusal);
        return;
    }
    v->verdict = VERDICT_BAD_REQUEST;
    v->status = v->transfer.status;
    over(v, AFTER_RESET);
}

static void go(struct visit *v)
{
    struct transfer *t = &v->transfer;

    set_state(v, VISIT_TRANSFER);
    if (v->forwarded.message.fields == NULL) {
        forwarded_init(&v->forwarded, &v->seen, v->target.authority);
    }
    t->env = &v->env->transfer;
    t->conn = v->visitor->conn;
    t->upstream = v->upstream;
    t->request = &v->forwarded.message;
    t->target = &v->target;
    t->policy = v->inbound->policy;
    t->on_end = transfer_ended;
    t->must_close = v->env->draining;
    /* HTTP/2 is not spoken, so an offer of it is not passed on */
    t->upgrade = v->request->upgrade && v->request->minor == 1 && !message_has_token(v->request, "Upgrade", "h2c");
    t->extra = buf_ptr(&v->fields);
    if (!transfer_start(t)) {
        try_again(v);
    } else if (v->bad_body != PARSE_OK) {
        bad_body(v, v->bad_body);
    }
}

static void acquired(struct acquire *acquire, struct upstream *upstream)
{
    struct visit *v = container_of(acquire, struct visit, acquire);

    must_be(v, VISIT_MAGIC);
    must(v->state == VISIT_DIAL && v->upstream == NULL);
    v->upstream = upstream;
    go(v);
}

static void acquire_failed(struct acquire *acquire, enum upstream_error error, const char *detail)
{
    struct visit *v = container_of(acquire, struct visit, acquire);

    must_be(v, VISIT_MAGIC);
    refuse_upstream(v, error, detail);
}

/* ---- the exchange ---- */

static void tunnel_done(void *arg, const struct tunnel_result *result)
{
    struct visit *v = arg;

    must_be(v, VISIT_MAGIC);
    v->bytes_in = result->to_upstream_bytes;
    v->bytes_out = result->to_caller_bytes;
    drop_upstream(v, result->end == TUNNEL_RESET);
    over(v, result->end == TUNNEL_RESET ? AFTER_RESET : AFTER_CLOSE);
}

static void go_tunnel(struct visit *v)
{
    struct buf early = {0}, unsent = {0};

    set_state(v, VISIT_TUNNEL);
    v->verdict = VERDICT_TUNNEL;
    upstream_watch(v->upstream, false, false);
    int fd = conn_detach(v->visitor->conn, &early, &unsent);
    if (buf_len(&v->transfer.early) > 0) {
        buf_add(&unsent, buf_ptr(&v->transfer.early), buf_len(&v->transfer.early));
    }
    v->tunnel = tunnel_start(v->env->loop, fd, upstream_fd(v->upstream), &early, &unsent,
                             v->inbound->policy->tunnel_idle_us, tunnel_done, v);
}

static void transfer_done(struct visit *v)
{
    if (v->transfer.reusable) {
        upstream_release(v->upstream);
    } else {
        upstream_close(v->upstream, false);
    }
    v->upstream = NULL;
    over(v, v->transfer.answer_close ? AFTER_FINISH : AFTER_NEXT);
}

static void transfer_ended(struct transfer *t, enum transfer_end how)
{
    struct visit *v = container_of(t, struct visit, transfer);

    must_be(v, VISIT_MAGIC);
    v->bytes_in = t->sent_bytes;
    v->status = t->status;
    switch (how) {
    case TRANSFER_SWALLOWED:
        wrong("nobody looks at these answers");
    case TRANSFER_DONE:
        transfer_done(v);
        return;
    case TRANSFER_UPGRADED:
        go_tunnel(v);
        return;
    case TRANSFER_BROKEN_OFF:
        v->verdict = VERDICT_BROKEN_OFF;
        /* only a body that ends with the connection needs a reset to be seen as broken */
        over(v, t->answer_framing == FRAMING_UNTIL_CLOSE ? AFTER_RESET : AFTER_FINISH);
        return;
    case TRANSFER_UPSTREAM_CLOSED:
        refuse_as(v, VERDICT_UPSTREAM_CLOSED, "The API closed without an answer", NULL);
        return;
    case TRANSFER_BAD_RESPONSE:
        refuse_as(v, VERDICT_BAD_RESPONSE, "The API's answer is not valid", parse_error_text(t->error));
        return;
    case TRANSFER_TIMEOUT:
        refuse_as(v, VERDICT_RESPONSE_TIMEOUT, "The API did not answer in time", NULL);
        return;
    }
}

/* ---- the caller ---- */

/* HTTP/1.0 may leave Host out; then it is the upstream's. */
static enum target_error read_target(struct visit *v)
{
    enum target_error error = target_parse(v->request, &v->target);

    if (error != TARGET_BAD_HOST || v->request->minor != 0 || message_field(v->request, "Host") != NULL ||
        v->target.form != TARGET_ORIGIN || v->inbound->upstream_host == NULL) {
        return error;
    }
    bool v6 = strchr(v->inbound->upstream_host, ':') != NULL;
    buf_printf(&v->authority, v6 ? "[%s]:%u" : "%s:%u", v->inbound->upstream_host, v->inbound->upstream_port);
    v->target.authority = (struct slice){buf_ptr(&v->authority), buf_len(&v->authority)};
    return TARGET_OK;
}

static enum verdict refused(struct refusal *refusal, enum verdict verdict, const char *detail)
{
    *refusal = (struct refusal){.verdict = verdict, .detail = detail};
    return verdict;
}

/* What the limits are to look at. */
static enum verdict read_request(struct visit *v, struct refusal *refusal)
{
    enum target_error error = read_target(v);

    if (slice_is(v->request->method, "CONNECT")) {
        return refused(refusal, VERDICT_BAD_REQUEST, "this is not a forward proxy");
    }
    if (slice_is(v->request->method, "TRACE")) {
        return refused(refusal, VERDICT_NO_TRACE, "it would echo credentials");
    }
    if (v->visitor->asks && error == TARGET_BAD_HOST) {
        error = TARGET_OK;
        v->target.path = v->request->target; /* whoever asks without a host is answered all the same */
    }
    if (error != TARGET_OK) {
        return refused(refusal, VERDICT_BAD_REQUEST, target_error_text(error));
    }
    if (via_has_loop(v->request, &v->env->transfer.via)) {
        return refused(refusal, VERDICT_LOOP, "its Via names this proxy: the upstream leads back here");
    }
    v->seen.message = v->request;
    v->seen.method = v->request->method;
    v->seen.path = v->target.path;
    v->seen.peer = conn_peer(v->visitor->conn);
    v->seen.trusted = inbound_trusts(v->inbound, v->seen.peer);
    return v->visitor->asks ? check_read(v, refusal) : VERDICT_FORWARDED;
}

/* Settings were loaded again: the same place as it is now. One that is gone keeps its limits for who is here yet. */
static void refresh(struct visitor *visitor)
{
    struct inbound_conf *now = NULL;

    if (visitor->inbound->version != visitor->env->conf->version) {
        now = check_place(visitor->env->conf, slice_of(visitor->inbound->label));
    }
    if (now != NULL) {
        inbound_conf_put(visitor->inbound);
        visitor->inbound = inbound_conf_get(now);
    }
}

static void on_request(void *arg, struct message *request)
{
    struct visitor *visitor = arg;
    struct refusal refusal;

    must_be(visitor, VISITOR_MAGIC);
    must(visitor->visit == NULL);
    struct visit *v = mem_zalloc(sizeof(*v));
    v->magic = VISIT_MAGIC;
    v->visitor = visitor;
    v->env = visitor->env;
    refresh(visitor);
    v->inbound = inbound_conf_get(visitor->inbound);
    v->request = request;
    v->arrived = loop_now(v->env->loop);
    v->sent_before = conn_sent_bytes(visitor->conn);
    v->acquire.on_ready = acquired;
    v->acquire.on_error = acquire_failed;
    visitor->visit = v;
    if (read_request(v, &refusal) != VERDICT_FORWARDED) {
        refuse(v, &refusal);
    } else {
        admit(v);
    }
}

static void on_body(void *arg, struct slice data)
{
    struct visitor *visitor = arg;

    if (visitor->visit != NULL && visitor->visit->state == VISIT_TRANSFER) {
        transfer_body(&visitor->visit->transfer, data);
    }
}

static void on_body_end(void *arg, struct slice trailers)
{
    struct visitor *visitor = arg;

    if (visitor->visit != NULL && visitor->visit->state == VISIT_TRANSFER) {
        transfer_body_end(&visitor->visit->transfer, trailers);
    }
}

static void refuse_visitor(struct visitor *visitor, const struct refusal *refusal)
{
    struct buf bytes = {0};

    refusal_write(&bytes, refusal, true, false);
    conn_send(visitor->conn, buf_ptr(&bytes), buf_len(&bytes));
    buf_fini(&bytes);
    visit_log_refusal(visitor, refusal);
    conn_finish(visitor->conn);
}

static void on_bad_request(void *arg, enum parse_error error, bool in_body)
{
    struct visitor *visitor = arg;
    struct visit *v = visitor->visit;
    struct refusal refusal = {
        .verdict = VERDICT_BAD_REQUEST, .status = parse_error_status(error), .detail = parse_error_text(error)};

    if (v == NULL) {
        must(!in_body);
        refuse_visitor(visitor, &refusal);
    } else if (v->transfer.starting) {
        v->bad_body = error; /* go() is in the middle of it */
    } else {
        bad_body(v, error);
    }
}

static void on_timeout(void *arg, bool in_body, bool sending)
{
    struct visitor *visitor = arg;
    struct visit *v = visitor->visit;
    struct refusal refusal = {.verdict = VERDICT_REQUEST_TIMEOUT};

    (void)in_body;
    if (v == NULL) {
        refuse_visitor(visitor, &refusal);
        return;
    }
    drop_upstream(v, true);
    if (sending || v->transfer.answer_begun) {
        v->status = v->transfer.status;
        v->verdict = VERDICT_REQUEST_TIMEOUT;
        over(v, AFTER_RESET);
    } else {
        refuse(v, &refusal);
    }
}

/* A half-closed caller may still listen, and its answer is not far. */
static void on_gone(void *arg, enum conn_gone how)
{
    struct visitor *visitor = arg;
    struct visit *v = visitor->visit;

    if (v == NULL) {
        conn_close(visitor->conn, false);
    } else if (how == CONN_RESET) {
        v->status = v->transfer.status;
        v->bytes_in = v->transfer.sent_bytes;
        v->verdict = VERDICT_CALLER_GONE;
        over(v, AFTER_CLOSE);
    }
}

static void on_drained(void *arg)
{
    struct visitor *visitor = arg;

    if (visitor->visit != NULL && visitor->visit->state == VISIT_TRANSFER) {
        transfer_caller_drained(&visitor->visit->transfer);
    }
}

static void on_closed(void *arg)
{
    struct visitor *visitor = arg;

    must_be(visitor, VISITOR_MAGIC);
    must(visitor->visit == NULL);
    visitor->on_closed(visitor);
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

struct visitor *visitor_new(struct visit_env *env, struct inbound_conf *inbound, bool asks, int fd,
                            const struct addr *peer, const struct addr *local, void (*closed)(struct visitor *visitor))
{
    struct visitor *visitor = mem_zalloc(sizeof(*visitor));

    visitor->magic = VISITOR_MAGIC;
    visitor->env = env;
    visitor->inbound = inbound_conf_get(inbound);
    visitor->asks = asks;
    visitor->on_closed = closed;
    visitor->conn = conn_new(&env->conn, fd, peer, local, &conn_ops, visitor);
    return visitor;
}

void visitor_free(struct visitor *visitor)
{
    inbound_conf_put(visitor->inbound);
    mem_free(visitor);
}

void visitor_refuse(struct visitor *visitor)
{
    struct refusal refusal = {.verdict = VERDICT_CONNECTIONS,
                              .detail = "[proxy] max_connections is reached",
                              .retry_after_us = CLOCK_SECOND_US};

    refuse_visitor(visitor, &refusal);
}

void visitor_drain(struct visitor *visitor)
{
    if (visitor->visit != NULL) {
        visitor->visit->transfer.must_close = true;
    } else {
        conn_hurry(visitor->conn); /* its next request may be on its way */
    }
}

void visitor_stop(struct visitor *visitor)
{
    struct visit *v = visitor->visit;

    if (v == NULL) {
        conn_close(visitor->conn, false);
    } else if (v->state == VISIT_ADMIT || v->state == VISIT_DIAL) {
        refuse_as(v, VERDICT_DRAINING, NULL, "try another replica");
    } else if (v->state == VISIT_TRANSFER && !v->transfer.answer_begun) {
        drop_upstream(v, true);
        v->bytes_in = v->transfer.sent_bytes;
        refuse_as(v, VERDICT_DRAIN_CUT, NULL, "it may have seen the request");
    } else {
        v->verdict = VERDICT_BROKEN_OFF;
        v->status = v->transfer.status;
        over(v, AFTER_RESET);
    }
}
