/*
 *   caller --on_body--> to_upstream --upstream_send--> third party
 *   caller <--conn_send-- parse_next <--upstream_recv-- third party
 *
 * Back-pressure: the caller's body is not read while more than HIGH_WATER_BYTES wait for the third party, nor the third
 * party while more than that waits for the caller. What is read in one turn is passed on in that turn, so server-sent
 * events are not held back.
 *
 * A third party may answer before it has the whole request (413, 401), and then close: when sending fails the answer is
 * still read.
 */
#include "proxy/transfer.h"

#include "base/mem.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>

enum { HIGH_WATER_BYTES = 65536, SWALLOW_BYTES = 65536 };
#define SWALLOW_US CLOCK_SECOND_US

static void timer_due(struct timer *timer, struct mono now);

static void watch_clock(struct transfer *t)
{
    if (t->swallowing) {
        return; /* its time runs already */
    }
    int64_t us = t->first_byte.us != 0 ? t->policy->body_timeout_us : t->policy->response_timeout_us;

    timer_set(t->env->loop, &t->timer, mono_add(loop_now(t->env->loop), us), timer_due);
}

static void end(struct transfer *t, enum transfer_end how)
{
    must(!t->over);
    t->over = true;
    timer_clear(&t->timer);
    t->on_end(t, how);
}

/* It failed for a reason on the third party's side. */
static void end_badly(struct transfer *t, enum transfer_end how)
{
    t->reusable = t->reusable && !t->swallowing;
    end(t, t->swallowing ? TRANSFER_SWALLOWED : t->answer_begun ? TRANSFER_BROKEN_OFF : how);
}

static void timer_due(struct timer *timer, struct mono now)
{
    (void)now;
    end_badly(container_of(timer, struct transfer, timer), TRANSFER_TIMEOUT);
}

static void watch(struct transfer *t)
{
    bool writable = buf_len(&t->to_upstream) > 0 && !t->sending_failed;

    upstream_watch(t->upstream, t->reading, writable);
}

/* ---- the request ---- */

/* False when the connection is dead and nothing ever left on it. */
static bool send_upstream(struct transfer *t)
{
    while (buf_len(&t->to_upstream) > 0 && !t->sending_failed) {
        ssize_t sent = upstream_send(t->upstream, buf_ptr(&t->to_upstream), buf_len(&t->to_upstream));
        if (sent < 0 && errno == EAGAIN) {
            break;
        }
        if (sent < 0 && t->parse == NULL) {
            return false;
        }
        if (sent < 0) {
            t->sending_failed = true;
            buf_fini(&t->to_upstream);
            break;
        }
        t->sent_bytes += (uint64_t)sent;
        buf_consume(&t->to_upstream, (size_t)sent);
    }
    t->request_sent = conn_request_done(t->conn) && buf_len(&t->to_upstream) == 0 && !t->sending_failed;
    return true;
}

static void pass_on(struct transfer *t)
{
    if (t->starting || t->over) {
        return;
    }
    send_upstream(t); /* a failure shows when reading the answer */
    if (buf_len(&t->to_upstream) > HIGH_WATER_BYTES) {
        conn_read_body(t->conn, false);
    }
    watch_clock(t);
    watch(t);
}

/* The last `len` bytes put into to_upstream, of which `body` are the caller's. */
static void keep(struct transfer *t, size_t len, size_t body)
{
    if (!t->keep) {
        return;
    }
    t->kept_body_bytes += (int64_t)body;
    if (t->kept_body_bytes > t->keep_body_bytes) {
        t->keep = false;
        buf_fini(&t->kept);
        return;
    }
    buf_add(&t->kept, buf_ptr(&t->to_upstream) + buf_len(&t->to_upstream) - len, len);
}

bool transfer_can_repeat(const struct transfer *t)
{
    return t->keep && t->request_sent && !t->answer_begun;
}

void transfer_again(struct transfer *t)
{
    must(t->over && t->keep && !t->answer_begun);
    parse_free(t->parse);
    t->parse = NULL;
    buf_fini(&t->to_upstream);
    buf_add(&t->to_upstream, buf_ptr(&t->kept), buf_len(&t->kept));
    t->over = t->swallowing = t->request_sent = t->sending_failed = t->reusable = t->reading = false;
    t->first_byte.us = 0;
    t->status = 0;
    t->swallowed_bytes = 0;
    t->again++;
}

void transfer_body(struct transfer *t, struct slice data)
{
    size_t before = buf_len(&t->to_upstream);

    if (t->sending_failed) {
        return; /* read and dropped, so that the caller gets to reading the answer */
    }
    if (t->request->framing != FRAMING_CHUNKED) {
        buf_add(&t->to_upstream, data.ptr, data.len);
    } else {
        write_chunk_head(&t->to_upstream, data.len);
        buf_add(&t->to_upstream, data.ptr, data.len);
        write_chunk_tail(&t->to_upstream);
    }
    keep(t, buf_len(&t->to_upstream) - before, data.len);
    pass_on(t);
}

void transfer_body_end(struct transfer *t, struct slice trailers)
{
    if (t->request->framing == FRAMING_CHUNKED && !t->sending_failed) {
        size_t before = buf_len(&t->to_upstream);
        write_last_chunk(&t->to_upstream, trailers);
        keep(t, buf_len(&t->to_upstream) - before, trailers.len);
    }
    pass_on(t);
}

/* A kept connection may have died since the loop last looked; the descriptor knows. Costs a call, saves a lost request.
 */
static bool is_dead(const struct transfer *t)
{
    char byte;
    int fd = upstream_fd(t->upstream);

    if (fd < 0 || !upstream_was_used(t->upstream)) {
        return false;
    }
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

static void on_readable(void *arg);
static void on_writable(void *arg);

static const struct upstream_ops ops = {.on_readable = on_readable, .on_writable = on_writable};

/* The head, and what came along with it, to leave together. */
static void gather_request(struct transfer *t)
{
    write_request_head(&t->to_upstream, t->request, t->target, &t->env->via, t->upgrade);
    keep(t, buf_len(&t->to_upstream), 0);
    if (!conn_request_done(t->conn) && conn_input_bytes(t->conn) > 0) {
        t->starting = true;
        conn_read_body(t->conn, true);
        conn_pump(t->conn);
        t->starting = false;
    }
}

bool transfer_start(struct transfer *t)
{
    if (is_dead(t)) {
        return false;
    }
    if (buf_len(&t->to_upstream) == 0) { /* else this is the second try, after a connection that was dead */
        gather_request(t);
    }
    if (!send_upstream(t)) {
        return false;
    }
    t->parse = parse_new_response(&t->env->parse);
    parse_expect_response(t->parse, t->request->method);
    t->reading = true;
    upstream_own(t->upstream, &ops, t);
    if (!conn_request_done(t->conn)) {
        conn_read_body(t->conn, buf_len(&t->to_upstream) <= HIGH_WATER_BYTES);
    }
    watch_clock(t);
    watch(t);
    return true;
}

static void on_writable(void *arg)
{
    struct transfer *t = arg;

    send_upstream(t);
    if (buf_len(&t->to_upstream) == 0) {
        conn_read_body(t->conn, true);
    }
    watch_clock(t);
    watch(t);
}

/* ---- the answer ---- */

static void pass_interim(struct transfer *t, const struct message *response)
{
    struct response_form form = {.framing = FRAMING_NONE};
    struct buf head = {0};

    if (response->status == 100 && t->again > 0) {
        return; /* it heard that already */
    }
    if (t->request->minor == 0) {
        return; /* HTTP/1.0 knows no interim responses (RFC 9110 section 15.2) */
    }
    write_response_head(&head, response, &t->env->via, &form);
    conn_send(t->conn, buf_ptr(&head), buf_len(&head));
    buf_fini(&head);
}

static enum framing framing_for_caller(const struct transfer *t, const struct message *response)
{
    if (response->framing != FRAMING_CHUNKED && response->framing != FRAMING_UNTIL_CLOSE) {
        return response->framing;
    }
    return t->request->minor == 0 ? FRAMING_UNTIL_CLOSE : FRAMING_CHUNKED;
}

/* An answer without Date gets the time it came (RFC 9110 section 6.6.1). */
static void add_date(const struct transfer *t, const struct message *response, struct buf *extra)
{
    if (message_field(response, "Date") == NULL) {
        write_date(extra, loop_wall(t->env->loop));
    }
}

/* What the third party says that the request cost, or has left; nonsense says nothing. A part of a unit that is left is none. */
static void read_cost(struct transfer *t, const struct message *response)
{
    const struct policy *policy = t->policy;
    const struct field *field = policy->cost_answer != NULL ? message_field(response, policy->cost_answer) : NULL;
    uint64_t number;

    t->real_cost = t->left = -1;
    if (field == NULL) {
        return;
    }
    const char *dot = policy->cost_is_left ? memchr(field->value.ptr, '.', field->value.len) : NULL;
    struct slice whole = {field->value.ptr, dot != NULL ? (size_t)(dot - field->value.ptr) : field->value.len};
    if (policy->cost_is_left && field->value.len > 1 && field->value.ptr[0] == '-') {
        t->left = 0; /* more than all */
    } else if (str_parse_u64(whole, &number) && policy->cost_is_left) {
        t->left = number < INT32_MAX ? (int64_t)number : INT32_MAX;
    } else if (str_parse_u64(whole, &number) && number <= (uint64_t)policy->cost_most) {
        t->real_cost = (int64_t)number;
    }
}

static void begin_answer(struct transfer *t, const struct message *response)
{
    struct buf head = {0};
    struct buf extra = {0};

    t->status = response->status;
    read_cost(t, response);
    t->answer_framing = framing_for_caller(t, response);
    t->answer_close = t->must_close || !t->request->keep_alive || !conn_request_done(t->conn) ||
                      t->answer_framing == FRAMING_UNTIL_CLOSE;
    t->reusable = response->keep_alive && response->framing != FRAMING_UNTIL_CLOSE;
    if (t->extra != NULL) {
        buf_add_str(&extra, t->extra);
    }
    add_date(t, response, &extra);
    buf_add(&extra, "", 1);
    struct response_form form = {
        .framing = t->answer_framing,
        .close = t->answer_close,
        .keep_alive_10 = t->request->minor == 0 && !t->answer_close,
        .extra = buf_ptr(&extra),
    };
    write_response_head(&head, response, &t->env->via, &form);
    conn_queue(t->conn, buf_ptr(&head), buf_len(&head));
    buf_fini(&head);
    buf_fini(&extra);
    t->answer_begun = true;
    t->keep = false;
    buf_fini(&t->kept);
}

/* What comes now is read and dropped, so that the connection can be used again; but not for long. False when that is
 * not worth it. */
static bool swallow(struct transfer *t, const struct message *response)
{
    bool too_long = response->framing == FRAMING_UNTIL_CLOSE ||
                    (response->framing == FRAMING_LENGTH && response->content_length > SWALLOW_BYTES);

    t->swallowing = true;
    t->status = response->status;
    t->reusable = response->keep_alive && !too_long;
    if (too_long) {
        end(t, TRANSFER_SWALLOWED);
        return false;
    }
    timer_set(t->env->loop, &t->timer, mono_add(loop_now(t->env->loop), SWALLOW_US), timer_due);
    return true;
}

/* A head came: interim, upgrade or final. False when the transfer is over. */
static bool took_head(struct transfer *t, struct message *response, const char *rest, size_t rest_len)
{
    struct response_form upgraded = {.framing = FRAMING_NONE, .upgrade = true, .extra = t->extra};
    struct buf head = {0};

    if (t->rewrite.is_served != NULL) {
        rewrite_response(response, &t->rewrite);
    }

    if (response->status >= 200 && t->on_answer != NULL && t->on_answer(t, response)) {
        return swallow(t, response);
    }
    if (response->status != 101) {
        (response->status < 200 ? pass_interim : begin_answer)(t, response);
        return true;
    }
    if (!t->upgrade || !t->request_sent) {
        /* a switch that nobody asked for, or in the middle of a body, whose rest would be taken for the new protocol */
        t->error = PARSE_BAD_SWITCH;
        end_badly(t, TRANSFER_BAD_RESPONSE);
        return false;
    }
    t->status = 101;
    t->answer_begun = true;
    write_response_head(&head, response, &t->env->via, &upgraded);
    conn_queue(t->conn, buf_ptr(&head), buf_len(&head));
    buf_fini(&head);
    buf_add(&t->early, rest, rest_len);
    end(t, TRANSFER_UPGRADED);
    return false;
}

static void took_data(struct transfer *t, struct slice data)
{
    struct buf framing = {0};

    if (t->answer_framing != FRAMING_CHUNKED) {
        conn_send(t->conn, data.ptr, data.len);
        return;
    }
    write_chunk_head(&framing, data.len);
    conn_queue(t->conn, buf_ptr(&framing), buf_len(&framing));
    buf_fini(&framing);
    conn_send(t->conn, data.ptr, data.len);
    write_chunk_tail(&framing);
    conn_queue(t->conn, buf_ptr(&framing), buf_len(&framing));
    buf_fini(&framing);
}

static void took_end(struct transfer *t, size_t left_over)
{
    struct buf last = {0};

    if (t->answer_framing == FRAMING_CHUNKED) {
        write_last_chunk(&last, parse_trailers(t->parse));
        conn_queue(t->conn, buf_ptr(&last), buf_len(&last));
        buf_fini(&last);
    }
    conn_flush(t->conn);
    t->reusable = t->reusable && t->request_sent && left_over == 0;
    end(t, TRANSFER_DONE);
}

/* False when the transfer is over. */
static bool swallowed(struct transfer *t, enum parse_event event, size_t len, size_t left_over)
{
    t->swallowed_bytes += len;
    if (event != PARSE_END && t->swallowed_bytes <= SWALLOW_BYTES) {
        return true;
    }
    t->reusable = t->reusable && event == PARSE_END && left_over == 0;
    end(t, TRANSFER_SWALLOWED);
    return false;
}

/* False when the transfer is over. */
static bool took_event(struct transfer *t, enum parse_event event, struct slice data, const char *rest, size_t rest_len)
{
    struct message *response;
    bool goes_on;

    if (t->swallowing && (event == PARSE_DATA || event == PARSE_END)) {
        return swallowed(t, event, data.len, rest_len);
    }
    switch (event) {
    case PARSE_MORE:
        return true;
    case PARSE_HEAD:
        response = parse_take_message(t->parse);
        goes_on = took_head(t, response, rest, rest_len);
        message_free(response);
        return goes_on;
    case PARSE_DATA:
        took_data(t, data);
        return true;
    case PARSE_END:
        if (!t->answer_begun) {
            return true; /* the end of an interim response */
        }
        took_end(t, rest_len);
        return false;
    case PARSE_ERROR:
        t->error = parse_error(t->parse);
        end_badly(t, TRANSFER_BAD_RESPONSE);
        return false;
    }
    return false;
}

static void feed(struct transfer *t, const char *bytes, size_t len)
{
    bool looked = false;

    /* a head without a body ends without needing another byte, hence the look after the last one */
    while (len > 0 || !looked) {
        size_t used = 0;
        struct slice data = {0};
        enum parse_event event;
        looked = len == 0;
        event = parse_next(t->parse, bytes, len, &used, &data);
        bytes += used;
        len -= used;
        if (event == PARSE_MORE && len == 0) {
            break;
        }
        if (!took_event(t, event, data, bytes, len)) {
            return;
        }
        if (event != PARSE_MORE) {
            looked = false;
        }
    }
    conn_flush(t->conn);
    if (conn_output_bytes(t->conn) > HIGH_WATER_BYTES) {
        t->reading = false;
        timer_clear(&t->timer); /* the caller is the slow one, and its connection has a clock of its own */
        watch(t);
    }
}

static void answer_ended(struct transfer *t)
{
    enum parse_event event = parse_eof(t->parse);

    t->reusable = false;
    if (event == PARSE_END && t->answer_begun) {
        took_end(t, 1);
    } else {
        t->error = parse_error(t->parse);
        end_badly(t, t->first_byte.us != 0 ? TRANSFER_BAD_RESPONSE : TRANSFER_UPSTREAM_CLOSED);
    }
}

static void on_readable(void *arg)
{
    struct transfer *t = arg;
    ssize_t got = upstream_recv(t->upstream, t->env->scratch, sizeof(t->env->scratch));

    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got <= 0) {
        if (got < 0 && t->answer_begun) {
            t->reusable = false;
            end(t, TRANSFER_BROKEN_OFF); /* a reset never ends a body that runs until close */
            return;
        }
        answer_ended(t);
        return;
    }
    if (t->first_byte.us == 0) {
        t->first_byte = loop_now(t->env->loop);
    }
    t->received_bytes += (uint64_t)got;
    watch_clock(t);
    feed(t, t->env->scratch, (size_t)got);
}

void transfer_caller_drained(struct transfer *t)
{
    if (t->over || t->reading || t->parse == NULL) {
        return;
    }
    t->reading = true;
    watch_clock(t);
    watch(t);
}

void transfer_fini(struct transfer *t)
{
    buf_fini(&t->kept);
    timer_clear(&t->timer);
    parse_free(t->parse);
    t->parse = NULL;
    buf_fini(&t->to_upstream);
    buf_fini(&t->early);
}
