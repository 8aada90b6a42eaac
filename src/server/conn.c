/*
 * A caller's connection.
 *
 *              recv                 parse_next              ops
 *   socket ----------> env->scratch ----------> events ----------> owner (proxy)
 *                          |                                          |
 *                          +--> input (what can't be parsed yet)      | conn_queue, conn_send
 *   socket <-------------------------- output <-----------------------+
 *
 * While a request is held the read event stays armed, level-triggered, as that costs no system call; only when unread
 * data makes it fire is it changed to edge-triggered with EV_CLOSED, which reports a half-close behind unread data, and
 * a reset, without spinning (EV_CLOSED alone would not see a reset).
 *
 * Every callback may close the connection, so after each one `state` is looked at again; memory is freed by a deferred
 * call only.
 */
#include "server/conn.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CONN_MAGIC = 0x636f6e6e, LINGER_US = 2000000, HURRY_US = 1000000, LINGER_READS = 16, KEEPALIVE_IDLE_S = 30 };

/*   parked in   woken by                          given up by
 *   IDLE        bytes                             keepalive timeout, caller closes, owner drains
 *   HEAD        bytes                             head timeout, caller closes
 *   HELD        owner                             owner (on_gone, on_timeout while sending)
 *   BODY        bytes, owner                      body timeout, caller closes
 *   RAW         bytes, owner                      owner (its own clock), caller resets
 *   LINGER      caller closes                     LINGER_US
 *   DETACHED    owner                             owner
 *   DEAD        deferred call                     -            */
enum conn_state { IDLE, HEAD, HELD, BODY, RAW, LINGER, DETACHED, DEAD };

struct conn {
    uint32_t magic;
    enum conn_state state;
    bool request_done; /* the held request was read to its end */
    bool body_wanted;
    bool half_closed; /* the caller sends no more */
    bool broken;      /* sending failed: the caller is gone */
    bool edge;        /* read event is edge-triggered */
    bool write_armed;
    bool shut;        /* our side is closed for writing */
    bool shut_wanted; /* RAW: once the output is gone */
    int fd;
    struct conn_env *env;
    const struct conn_ops *ops;
    void *arg;
    struct parse *parse;
    struct shield *shield; /* NULL: no TLS */
    struct buf sealed;     /* TLS: came before the filter was there */
    struct buf clear;      /* TLS: queued, not yet encrypted */
    struct buf input;
    struct buf output;
    uint64_t sent_bytes;
    struct event read_event, write_event;
    struct timer timer;
    struct defer pump, tell_gone, reap;
    struct addr peer, local;
};

static void ready(evutil_socket_t fd, short what, void *arg);
static void timer_due(struct timer *timer, struct mono now);
static void unseal(struct conn *c, const char *bytes, size_t len);
static void send_now(struct conn *c, const void *bytes, size_t len);

static bool is_over(const struct conn *c)
{
    return c->state == DEAD || c->state == DETACHED;
}

static bool wants_bytes(const struct conn *c)
{
    return c->state == IDLE || c->state == HEAD || ((c->state == BODY || c->state == RAW) && c->body_wanted);
}

static void set_timeout(struct conn *c, int64_t us)
{
    timer_set(c->env->loop, &c->timer, mono_add(loop_now(c->env->loop), us), timer_due);
}

static void set_edge(struct conn *c, bool edge)
{
    if (c->edge == edge) {
        return;
    }
    c->edge = edge;
    event_del(&c->read_event);
    event_assign(&c->read_event, loop_base(c->env->loop), c->fd,
                 (short)(edge ? EV_READ | EV_CLOSED | EV_ET | EV_PERSIST : EV_READ | EV_PERSIST), ready, c);
    event_priority_set(&c->read_event, LOOP_PRIORITY_IO);
    event_add(&c->read_event, NULL);
}

static void set_socket_options(int fd, const struct addr *peer)
{
    int yes = 1, idle_s = KEEPALIVE_IDLE_S;

    if (peer->sa.sa_family == AF_INET || peer->sa.sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes)); /* a waiting caller whose host vanished is found */
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    }
}

struct conn *conn_new(struct conn_env *env, int fd, const struct addr *peer, const struct addr *local,
                      const struct conn_ops *ops, void *arg)
{
    struct conn *c = mem_zalloc(sizeof(*c));

    c->magic = CONN_MAGIC;
    c->env = env;
    c->fd = fd;
    c->peer = *peer;
    c->local = *local;
    c->ops = ops;
    c->arg = arg;
    c->parse = parse_new_request(&env->parse);
    set_socket_options(fd, peer);
    event_assign(&c->read_event, loop_base(env->loop), fd, EV_READ | EV_PERSIST, ready, c);
    event_assign(&c->write_event, loop_base(env->loop), fd, EV_WRITE | EV_PERSIST, ready, c);
    event_priority_set(&c->read_event, LOOP_PRIORITY_IO);
    event_priority_set(&c->write_event, LOOP_PRIORITY_IO);
    event_add(&c->read_event, NULL);
    set_timeout(c, env->head_timeout_us);
    return c;
}

const struct addr *conn_peer(const struct conn *conn)
{
    return &conn->peer;
}

const struct addr *conn_local(const struct conn *conn)
{
    return &conn->local;
}

void conn_hurry(struct conn *conn)
{
    if (conn->state == IDLE) {
        set_timeout(conn, HURRY_US);
    }
}

bool conn_request_done(const struct conn *conn)
{
    return conn->request_done;
}

size_t conn_input_bytes(const struct conn *conn)
{
    return buf_len(&conn->input);
}

size_t conn_output_bytes(const struct conn *conn)
{
    return buf_len(&conn->output) + buf_len(&conn->clear);
}

uint64_t conn_sent_bytes(const struct conn *conn)
{
    return conn->sent_bytes;
}

/* ---- reading ---- */

static void took_head(struct conn *c, const char *bytes, size_t len)
{
    struct message *request = parse_take_message(c->parse);
    size_t used = 0;
    struct slice none;

    c->state = HELD;
    c->body_wanted = false;
    timer_clear(&c->timer);
    c->request_done = request->framing == FRAMING_NONE;
    if (c->request_done) {
        must(parse_next(c->parse, bytes, len, &used, &none) == PARSE_END && used == 0);
    }
    if (len > 0) {
        buf_add(&c->input, bytes, len);
    }
    c->ops->on_request(c->arg, request);
}

static void took_end(struct conn *c, const char *bytes, size_t len)
{
    c->state = HELD;
    c->request_done = true;
    timer_clear(&c->timer);
    if (len > 0) {
        buf_add(&c->input, bytes, len);
    }
    c->ops->on_body_end(c->arg, parse_trailers(c->parse));
}

static void took_error(struct conn *c)
{
    bool in_body = c->state == BODY;

    c->state = HELD;
    timer_clear(&c->timer);
    c->ops->on_bad_request(c->arg, parse_error(c->parse), in_body);
}

/* Parses until an event hands the connection to its owner; what is left over then waits in `input`. */
static void feed(struct conn *c, const char *bytes, size_t len)
{
    if (c->state == RAW) {
        c->ops->on_body(c->arg, (struct slice){bytes, len});
        return;
    }
    while (len > 0 && wants_bytes(c)) {
        size_t used = 0;
        struct slice data;
        enum parse_event event = parse_next(c->parse, bytes, len, &used, &data);
        bytes += used;
        len -= used;
        switch (event) {
        case PARSE_MORE:
            must(len == 0);
            break;
        case PARSE_HEAD:
            took_head(c, bytes, len);
            return;
        case PARSE_DATA:
            c->ops->on_body(c->arg, data);
            break;
        case PARSE_END:
            took_end(c, bytes, len);
            return;
        case PARSE_ERROR:
            took_error(c);
            return;
        }
    }
    if (is_over(c) || c->state == LINGER) {
        return;
    }
    if (len > 0) {
        buf_add(&c->input, bytes, len);
    }
    if (c->state == IDLE && parse_in_message(c->parse)) {
        c->state = HEAD;
        set_timeout(c, c->env->head_timeout_us);
    } else if (c->state == BODY && c->body_wanted) {
        set_timeout(c, c->env->body_timeout_us);
    }
}

void conn_pump(struct conn *c)
{
    must_be(c, CONN_MAGIC);
    if (buf_len(&c->input) == 0 || !wants_bytes(c)) {
        return;
    }
    struct buf taken = c->input;
    c->input = (struct buf){0};
    feed(c, buf_ptr(&taken), buf_len(&taken));
    buf_fini(&taken);
}

static void pump_due(struct defer *defer)
{
    struct conn *c = container_of(defer, struct conn, pump);

    if (buf_len(&c->sealed) > 0) {
        struct buf taken = c->sealed;
        c->sealed = (struct buf){0};
        unseal(c, buf_ptr(&taken), (size_t)buf_len(&taken));
        buf_fini(&taken);
    } else {
        conn_pump(c);
    }
}

static void read_ended(struct conn *c)
{
    c->half_closed = true;
    if (c->state == RAW) {
        c->body_wanted = false;
        set_edge(c, true);
        c->ops->on_body_end(c->arg, (struct slice){NULL, 0});
    } else if (c->state == IDLE || parse_eof(c->parse) != PARSE_ERROR) {
        conn_close(c, false);
    } else {
        set_edge(c, true); /* an end of file would be reported for ever */
        took_error(c);
    }
}

static void read_failed(struct conn *c)
{
    if (c->state == BODY || c->state == RAW) {
        c->ops->on_gone(c->arg, CONN_RESET);
    } else {
        conn_close(c, false);
    }
}

/* ---- TLS ---- */

static void send_sealed(struct conn *c)
{
    shield_output(c->shield, &c->output);
    if (!c->write_armed && !c->broken && buf_len(&c->output) > 0) {
        send_now(c, NULL, 0);
    }
}

/* Queued bytes and `bytes` become records in the output. */
static void seal(struct conn *c, const void *bytes, size_t len)
{
    if (buf_len(&c->clear) > 0) {
        struct buf clear = c->clear;
        c->clear = (struct buf){0};
        buf_add(&clear, bytes, len);
        shield_send(c->shield, buf_ptr(&clear), buf_len(&clear));
        buf_fini(&clear);
    } else if (len > 0) {
        shield_send(c->shield, bytes, len);
    }
    shield_output(c->shield, &c->output);
}

static void tls_failed(struct conn *c)
{
    char client[ADDR_TEXT_BYTES];

    addr_format(&c->peer, false, client);
    log_line(LOG_WARN, "caller_tls", LOG_STR("client", client), LOG_STR("why", shield_why(c->shield)),
             LOG_STR("cure", "callers must trust our CA (sluice ca show), name the CONNECT host, and speak HTTP/1.1"),
             LOG_END);
    if (c->state == IDLE || c->state == HEAD) {
        conn_finish(c);
    } else {
        c->ops->on_gone(c->arg, CONN_RESET);
    }
}

static void unseal(struct conn *c, const char *bytes, size_t len)
{
    struct buf plain = {0};
    enum shield_result result = shield_receive(c->shield, bytes, len, &plain);

    send_sealed(c);
    if (buf_len(&plain) > 0) {
        feed(c, buf_ptr(&plain), buf_len(&plain));
    }
    buf_fini(&plain);
    if (is_over(c) || c->state == LINGER || result == SHIELD_OK) {
        return;
    }
    if (result == SHIELD_FAILED) {
        tls_failed(c);
    } else if (wants_bytes(c) && buf_len(&c->input) == 0) {
        read_ended(c);
    } else {
        c->half_closed = true;
    }
}

void conn_secure(struct conn *c, struct shield *shield)
{
    must_be(c, CONN_MAGIC);
    must(c->state == HELD && c->request_done && c->shield == NULL);
    c->shield = shield;
    c->sealed = c->input;
    c->input = (struct buf){0};
    parse_reset(c->parse);
    c->state = IDLE;
    c->request_done = false;
    set_timeout(c, c->env->head_timeout_us);
    if (buf_len(&c->sealed) > 0) {
        loop_defer(c->env->loop, &c->pump, pump_due);
    }
    set_edge(c, false);
}

static void read_some(struct conn *c)
{
    if (buf_len(&c->input) + buf_len(&c->sealed) > 0) {
        pump_due(&c->pump); /* what came first goes first */
        return;
    }
    ssize_t got = recv(c->fd, c->env->scratch, sizeof(c->env->scratch), 0);
    if (got > 0 && c->shield != NULL) {
        unseal(c, c->env->scratch, (size_t)got);
    } else if (got > 0) {
        feed(c, c->env->scratch, (size_t)got);
    } else if (got == 0) {
        read_ended(c);
    } else if (errno != EAGAIN && errno != EINTR) {
        read_failed(c);
    }
}

/* Something happened while nothing is to be read: more data, or the caller left. */
static void look_for_leaving(struct conn *c)
{
    struct pollfd look = {.fd = c->fd, .events = POLLIN | POLLRDHUP};

    if (poll(&look, 1, 0) < 0) {
        return;
    }
    set_edge(c, true);
    if ((look.revents & (POLLERR | POLLHUP)) != 0) {
        c->ops->on_gone(c->arg, CONN_RESET);
    } else if ((look.revents & POLLRDHUP) != 0 && !c->half_closed) {
        c->half_closed = true;
        c->ops->on_gone(c->arg, CONN_HALF_CLOSED);
    }
}

static void discard(struct conn *c)
{
    ssize_t got = recv(c->fd, c->env->scratch, sizeof(c->env->scratch), 0);

    if (got == 0 && !c->shut) {
        c->half_closed = true;
        set_edge(c, true);
    } else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        conn_close(c, false);
    }
}

static void read_or_look(struct conn *c)
{
    must_be(c, CONN_MAGIC);
    if (c->state == LINGER) {
        discard(c);
    } else if (wants_bytes(c)) {
        read_some(c);
    } else if (!is_over(c)) {
        look_for_leaving(c);
    }
}

/* The clock is the owner's: silence is no fault here. */
static void read_raw(struct conn *c, bool wanted)
{
    c->body_wanted = wanted;
    if (wanted && buf_len(&c->input) > 0) {
        loop_defer(c->env->loop, &c->pump, pump_due);
    }
    if (wanted) {
        set_edge(c, false);
    }
}

void conn_go_raw(struct conn *c)
{
    must_be(c, CONN_MAGIC);
    must(c->state == HELD || c->state == BODY);
    timer_clear(&c->timer);
    c->state = RAW;
    c->request_done = true;
    c->body_wanted = false;
}

void conn_read_body(struct conn *c, bool wanted)
{
    must_be(c, CONN_MAGIC);
    if (c->state == RAW) {
        read_raw(c, wanted);
        return;
    }
    if (c->request_done || is_over(c) || c->state == LINGER) {
        return;
    }
    c->state = BODY;
    c->body_wanted = wanted;
    if (!wanted) {
        if (!c->write_armed) {
            timer_clear(&c->timer);
        }
        return;
    }
    set_timeout(c, c->env->body_timeout_us);
    if (buf_len(&c->input) > 0) {
        loop_defer(c->env->loop, &c->pump, pump_due);
    }
    set_edge(c, false);
}

/* ---- writing ---- */

static void gone_due(struct defer *defer)
{
    struct conn *c = container_of(defer, struct conn, tell_gone);

    if (c->state == LINGER) {
        conn_close(c, false);
    } else if (!is_over(c)) {
        c->ops->on_gone(c->arg, CONN_RESET);
        if (c->state == LINGER) { /* finished by its owner: there is nobody to linger for */
            conn_close(c, false);
        }
    }
}

static void write_failed(struct conn *c)
{
    c->broken = true;
    buf_fini(&c->output);
    buf_fini(&c->clear);
    if (c->write_armed) {
        event_del(&c->write_event);
        c->write_armed = false;
    }
    loop_defer(c->env->loop, &c->tell_gone, gone_due); /* the owner is in the middle of something */
}

static void arm_write(struct conn *c)
{
    if (!c->write_armed) {
        c->write_armed = true;
        event_add(&c->write_event, NULL);
    }
    set_timeout(c, c->env->body_timeout_us);
}

void conn_queue(struct conn *c, const void *bytes, size_t len)
{
    must_be(c, CONN_MAGIC);
    if (!c->broken) {
        buf_add(c->shield != NULL ? &c->clear : &c->output, bytes, len);
    }
}

/* Sends output and `bytes` in one call as far as the kernel takes them. */
static void send_now(struct conn *c, const void *bytes, size_t len)
{
    struct iovec parts[2] = {{c->output.data + c->output.start, buf_len(&c->output)}, {(void *)(uintptr_t)bytes, len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = len > 0 ? 2 : 1};
    ssize_t sent = sendmsg(c->fd, &message, MSG_NOSIGNAL);

    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        write_failed(c);
        return;
    }
    size_t done = sent > 0 ? (size_t)sent : 0;
    size_t from_output = done < buf_len(&c->output) ? done : buf_len(&c->output);
    c->sent_bytes += done;
    if (from_output > 0) {
        buf_consume(&c->output, from_output);
    }
    done -= from_output;
    if (len > done) {
        buf_add(&c->output, (const char *)bytes + done, len - done);
    }
    if (buf_len(&c->output) > 0) {
        arm_write(c);
    }
}

void conn_send(struct conn *c, const void *bytes, size_t len)
{
    must_be(c, CONN_MAGIC);
    if (c->broken || is_over(c)) {
        return;
    }
    if (c->shield != NULL) {
        seal(c, bytes, len);
        send_sealed(c);
    } else if (c->write_armed) {
        buf_add(&c->output, bytes, len);
    } else if (len + buf_len(&c->output) > 0) {
        send_now(c, bytes, len);
    }
}

void conn_flush(struct conn *c)
{
    conn_send(c, NULL, 0);
}

void conn_probe(struct conn *c)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

    conn_send(c, interim, sizeof(interim) - 1);
}

/* Unread bytes at the time of closing would make the kernel send a reset, which may overtake the answer. */
static void drop_unread(struct conn *c)
{
    for (int i = 0; i < LINGER_READS; i++) {
        if (recv(c->fd, c->env->scratch, sizeof(c->env->scratch), 0) <= 0) {
            return;
        }
    }
}

static void shut_down(struct conn *c)
{
    c->shut = true;
    drop_unread(c);
    if (c->half_closed || shutdown(c->fd, SHUT_WR) != 0) {
        conn_close(c, false);
        return;
    }
    set_timeout(c, LINGER_US);
}

static void shut_if_wanted(struct conn *c)
{
    if (c->shut_wanted && !c->shut && !c->broken && buf_len(&c->output) == 0) {
        c->shut = true;
        shutdown(c->fd, SHUT_WR);
    }
}

void conn_shut(struct conn *c)
{
    must_be(c, CONN_MAGIC);
    must(c->state == RAW);
    if (c->shield != NULL) {
        seal(c, NULL, 0);
        shield_end(c->shield);
        send_sealed(c);
    }
    c->shut_wanted = true;
    shut_if_wanted(c);
}

static void write_on(struct conn *c)
{
    must_be(c, CONN_MAGIC);
    if (buf_len(&c->output) > 0) {
        send_now(c, NULL, 0);
    }
    if (c->broken || buf_len(&c->output) > 0) {
        return;
    }
    event_del(&c->write_event);
    c->write_armed = false;
    if (c->state == LINGER) {
        shut_down(c);
        return;
    }
    if (c->state == HELD || c->state == RAW || (c->state == BODY && !c->body_wanted)) {
        timer_clear(&c->timer);
    }
    shut_if_wanted(c);
    c->ops->on_drained(c->arg);
}

static void ready(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;
    struct loop *loop = c->env->loop; /* which outlives it */

    (void)fd;
    loop_enter_io(loop);
    if ((what & EV_WRITE) != 0) {
        write_on(c);
    } else {
        read_or_look(c);
    }
    loop_leave_io(loop);
}

/* ---- life ---- */

static void timer_due(struct timer *timer, struct mono now)
{
    struct conn *c = container_of(timer, struct conn, timer);

    (void)now;
    must_be(c, CONN_MAGIC);
    if (c->state == LINGER || c->state == IDLE) {
        conn_close(c, false);
    } else if (!is_over(c)) {
        c->ops->on_timeout(c->arg, c->state == BODY, c->write_armed);
    }
}

void conn_next(struct conn *c)
{
    must_be(c, CONN_MAGIC);
    must(c->state == HELD && c->request_done);
    if (c->half_closed && buf_len(&c->input) == 0) {
        conn_finish(c);
        return;
    }
    parse_reset(c->parse);
    c->state = IDLE;
    c->request_done = false;
    set_timeout(c, c->env->keepalive_timeout_us);
    if (buf_len(&c->input) > 0) {
        loop_defer(c->env->loop, &c->pump, pump_due);
    }
    set_edge(c, false);
}

void conn_finish(struct conn *c)
{
    must_be(c, CONN_MAGIC);
    if (is_over(c)) {
        return;
    }
    loop_defer_cancel(&c->pump);
    buf_fini(&c->input);
    c->state = LINGER;
    if (c->broken) {
        return; /* gone_due closes it */
    }
    if (c->shield != NULL) {
        seal(c, NULL, 0);
        shield_end(c->shield);
        shield_output(c->shield, &c->output);
    }
    if (buf_len(&c->output) > 0) {
        if (!c->write_armed) {
            send_now(c, NULL, 0);
        }
        if (c->broken || buf_len(&c->output) > 0) {
            set_timeout(c, c->env->body_timeout_us);
            set_edge(c, false);
            return;
        }
    }
    if (!c->half_closed) {
        set_edge(c, false);
    }
    shut_down(c);
}

static void reap_due(struct defer *defer)
{
    struct conn *c = container_of(defer, struct conn, reap);

    c->ops->on_closed(c->arg);
    c->magic = 0;
    parse_free(c->parse);
    shield_free(c->shield);
    buf_fini(&c->sealed);
    buf_fini(&c->clear);
    buf_fini(&c->input);
    buf_fini(&c->output);
    mem_free(c);
}

static void unwatch(struct conn *c)
{
    event_del(&c->read_event);
    if (c->write_armed) {
        event_del(&c->write_event);
        c->write_armed = false;
    }
    timer_clear(&c->timer);
    loop_defer_cancel(&c->pump);
    loop_defer_cancel(&c->tell_gone);
}

void conn_close(struct conn *c, bool reset)
{
    must_be(c, CONN_MAGIC);
    if (c->state == DEAD) {
        return;
    }
    if (c->state != DETACHED) {
        unwatch(c);
    }
    if (reset) {
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
    close(c->fd);
    c->state = DEAD;
    loop_defer(c->env->loop, &c->reap, reap_due);
}

int conn_detach(struct conn *c, struct buf *early, struct buf *unsent)
{
    must_be(c, CONN_MAGIC);
    must(!is_over(c) && c->shield == NULL);
    unwatch(c);
    *early = c->input;
    *unsent = c->output;
    c->input = (struct buf){0};
    c->output = (struct buf){0};
    c->state = DETACHED;
    return c->fd;
}
