/*
 * A connection's life: made by libcurl, then watched and used by us.
 *
 *   connection_start -> [libcurl: socket, connect, TLS] -> adopt -> on_made -> BUSY <-> IDLE -> connection_close
 *
 * libcurl gets an address literal by CONNECT_TO, so that it never resolves (its resolver's threads are joined when one
 * cancels) and has one address per attempt (its own fail-over tries the second one late or never); the name stays in
 * the URL for SNI and certificate. CONNECT_ONLY leaves the connection to us: a request then costs half of what it costs
 * with libcurl's engine, and libcurl can't send it a second time on its own.
 *
 * A plain connection is used by send() and recv() on its descriptor. TLS goes through curl_easy_send() and
 * curl_easy_recv(), since the SSL object must not be used outside of libcurl.
 *
 * Two persistent events per connection. Reading stays armed from one exchange to the next, because a connection that
 * idles is watched for its end anyway; when nobody wants what it reports it is taken away lazily, on its next report.
 */
#include "connection.h"

#include "base/mem.h"
#include "error.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTION_MAGIC = 0x55505354 };
/* Longer than anybody keeps a connection: libcurl closes idle ones older than this when another one is made. */
#define CONNECTION_MAX_AGE_S 31536000L

static void on_read_event(evutil_socket_t fd, short what, void *arg);
static void on_write_event(evutil_socket_t fd, short what, void *arg);

/* ---- connecting ---- */

bool connection_may_reach(const struct upstreams_conf *conf, const struct addr *addr)
{
    if (conf->private_mode == PRIVATE_ALLOW || !addr_is_private(addr)) {
        return true;
    }
    for (unsigned i = 0; conf->private_mode == PRIVATE_LIST && i < conf->private_upstreams_count; i++) {
        if (cidr_contains(&conf->private_upstreams[i], addr)) {
            return true;
        }
    }
    return false;
}

/* The last word on where we connect to: whatever happened before, this address is the one. */
static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct upstream *upstream = arg;
    struct addr addr = {.len = 0};

    (void)purpose;
    must_be(upstream, CONNECTION_MAGIC);
    if (to->addrlen > sizeof(addr.any)) {
        return CURL_SOCKET_BAD;
    }
    memcpy(&addr.any, &to->addr, to->addrlen);
    addr.len = to->addrlen;
    if (!connection_may_reach(upstream->env->conf, &addr)) {
        upstream->prohibited = true;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(to->family, to->socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->protocol);
    if (fd < 0) {
        upstream->socket_error = errno;
        return CURL_SOCKET_BAD;
    }
    return fd;
}

/* curl_slist for CONNECT_TO; empty host and port stand for any. */
static struct curl_slist *connect_to(const struct addr *addr)
{
    char text[ADDR_TEXT_BYTES];

    addr_format(addr, false, text);
    char *entry = mem_printf("::%s", text);
    struct curl_slist *list = curl_slist_append(NULL, entry);
    mem_free(entry);
    must(list != NULL);
    return list;
}

static void set_url(CURL *easy, const struct origin *origin)
{
    bool v6 = strchr(origin->host, ':') != NULL;
    char *url = mem_printf("%s://%s%s%s:%u/", origin->tls ? "https" : "http", v6 ? "[" : "", origin->host,
                           v6 ? "]" : "", (unsigned)origin->port);

    must(curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK);
    mem_free(url);
}

static void set_options(struct upstream *upstream, const struct origin *origin, int64_t timeout_us)
{
    CURL *easy = upstream->transfer.easy;
    int64_t timeout_ms = timeout_us / CLOCK_MS_US;

    set_url(easy, origin);
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* or ALPN chooses h2 under our bytes */
    curl_easy_setopt(easy, CURLOPT_PROXY, "");                                 /* or http_proxy is obeyed */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, CONNECTION_MAX_AGE_S);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(timeout_ms > 0 ? timeout_ms : 1));
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, upstream);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, upstream->problem);
    if (origin->tls) {
        tls_set_up(origin->trust, easy);
    }
}

static void watch_descriptor(struct upstream *upstream)
{
    struct event_base *base = loop_base(upstream->env->loop);

    event_assign(&upstream->read_event, base, upstream->fd, EV_READ | EV_PERSIST, on_read_event, upstream);
    event_assign(&upstream->write_event, base, upstream->fd, EV_WRITE | EV_PERSIST, on_write_event, upstream);
    event_priority_set(&upstream->read_event, LOOP_PRIORITY_UPSTREAM);
    event_priority_set(&upstream->write_event, LOOP_PRIORITY_UPSTREAM);
}

/* libcurl takes a connection for unused, and may close it, until curl_easy_recv() was called once. For a plain one a
 * receive of nothing does; with TLS it must be for a byte, which is kept should there be one. */
static CURLcode attach(struct upstream *upstream)
{
    size_t received = 0;
    CURLcode code = curl_easy_recv(upstream->transfer.easy, &upstream->early, upstream->tls ? 1 : 0, &received);

    upstream->drained = code == CURLE_AGAIN;
    upstream->early_held = received > 0;
    if (code == CURLE_AGAIN) {
        return CURLE_OK;
    }
    return code == CURLE_OK && upstream->tls && received == 0 ? CURLE_RECV_ERROR : code;
}

static CURLcode adopt(struct upstream *upstream)
{
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (curl_easy_getinfo(upstream->transfer.easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD) {
        return CURLE_RECV_ERROR;
    }
    upstream->fd = fd;
    watch_descriptor(upstream);
    return attach(upstream);
}

static enum upstream_error why_failed(const struct upstream *upstream, CURLcode code)
{
    long os_error = 0, verify_result = 0;

    if (upstream->prohibited) {
        return UPSTREAM_BAD_PRIVATE;
    }
    if (upstream->socket_error != 0) {
        return error_of_errno(upstream->socket_error);
    }
    curl_easy_getinfo(upstream->transfer.easy, CURLINFO_OS_ERRNO, &os_error);
    enum upstream_error error = error_of_curl(code, (int)os_error);
    if (error == UPSTREAM_BAD_CERTIFICATE) {
        curl_easy_getinfo(upstream->transfer.easy, CURLINFO_SSL_VERIFYRESULT, &verify_result);
        error = error_of_certificate(verify_result);
    }
    return error;
}

static void on_transfer_done(struct transfer *transfer, CURLcode code)
{
    struct upstream *upstream = container_of(transfer, struct upstream, transfer);

    must_be(upstream, CONNECTION_MAGIC);
    must(upstream->state == CONNECTION_CONNECTING);
    if (code == CURLE_OK) {
        code = adopt(upstream);
    }
    if (code != CURLE_OK) {
        enum upstream_error error = why_failed(upstream, code);
        upstream->on_made(upstream, error, *upstream->problem ? upstream->problem : curl_easy_strerror(code));
        return;
    }
    curl_easy_setopt(transfer->easy, CURLOPT_ERRORBUFFER, NULL);
    mem_free(upstream->problem);
    upstream->problem = NULL;
    upstream->on_made(upstream, UPSTREAM_OK, NULL);
}

struct upstream *connection_start(struct connection_env *env, struct multi *multi, const struct origin *origin,
                                  const struct addr *addr, int64_t timeout_us,
                                  void (*on_made)(struct upstream *, enum upstream_error, const char *))
{
    CURL *easy = curl_easy_init();

    if (easy == NULL) {
        return NULL;
    }
    struct upstream *upstream = mem_zalloc(sizeof(*upstream));
    upstream->magic = CONNECTION_MAGIC;
    upstream->state = CONNECTION_CONNECTING;
    upstream->env = env;
    upstream->on_made = on_made;
    upstream->multi = multi;
    upstream->transfer = (struct transfer){easy, on_transfer_done};
    upstream->problem = mem_zalloc(CURL_ERROR_SIZE);
    upstream->fd = -1;
    upstream->tls = origin->tls;
    upstream->fresh = origin->fresh;
    upstream->drained = true;
    set_options(upstream, origin, timeout_us);
    upstream->connect_to = connect_to(addr);
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, upstream->connect_to);
    multi_add(multi, &upstream->transfer);
    return upstream;
}

/* ---- events ---- */

static void arm_read(struct upstream *upstream)
{
    if (!upstream->read_armed) {
        upstream->read_armed = event_add(&upstream->read_event, NULL) == 0;
    }
}

static void disarm_read(struct upstream *upstream)
{
    if (upstream->read_armed) {
        event_del(&upstream->read_event);
        upstream->read_armed = false;
    }
}

static void set_write(struct upstream *upstream, bool armed)
{
    if (armed && !upstream->write_armed) {
        upstream->write_armed = event_add(&upstream->write_event, NULL) == 0;
    } else if (!armed && upstream->write_armed) {
        event_del(&upstream->write_event);
        upstream->write_armed = false;
    }
}

/* What TLS has decrypted already raises no event on the descriptor: make one. */
static void report_undrained(struct upstream *upstream)
{
    if (upstream->tls && (!upstream->drained || upstream->early_held)) {
        event_active(&upstream->read_event, EV_READ, 0);
    }
}

/* Nobody asked for anything: readable means the end, or bytes that answer nothing. TLS has its own reasons to read
 * (session tickets), so there only a byte or an end counts. */
static bool is_dead(struct upstream *upstream)
{
    size_t received = 0;

    if (!upstream->tls) {
        char byte;
        return recv(upstream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
    }
    if (upstream->early_held) {
        return true;
    }
    CURLcode code = curl_easy_recv(upstream->transfer.easy, &upstream->early, 1, &received);
    upstream->drained = code == CURLE_AGAIN;
    upstream->early_held = received > 0;
    return code != CURLE_AGAIN;
}

static void on_read_event(evutil_socket_t fd, short what, void *arg)
{
    struct upstream *upstream = arg;

    (void)fd;
    (void)what;
    must_be(upstream, CONNECTION_MAGIC);
    must(upstream->state == CONNECTION_IDLE || upstream->state == CONNECTION_BUSY);
    if (upstream->want_read) {
        upstream->ops->on_readable(upstream->arg);
        if (upstream->state == CONNECTION_BUSY && upstream->want_read) {
            report_undrained(upstream);
        }
    } else if (upstream->state == CONNECTION_BUSY && !upstream->want_close) {
        disarm_read(upstream);
    } else if (is_dead(upstream)) {
        disarm_read(upstream);
        if (upstream->state == CONNECTION_IDLE) {
            upstream->on_idle_dead(upstream);
        } else {
            upstream->want_close = false;
            upstream->ops->on_closed(upstream->arg);
        }
    }
}

static void on_write_event(evutil_socket_t fd, short what, void *arg)
{
    struct upstream *upstream = arg;

    (void)fd;
    (void)what;
    must_be(upstream, CONNECTION_MAGIC);
    must(upstream->state == CONNECTION_BUSY && upstream->want_write);
    upstream->ops->on_writable(upstream->arg);
}

static void want(struct upstream *upstream, bool readable, bool writable, bool closed)
{
    upstream->want_read = readable;
    upstream->want_write = writable;
    upstream->want_close = closed;
    set_write(upstream, writable);
    if (readable || closed || upstream->state == CONNECTION_IDLE) {
        arm_read(upstream);
        report_undrained(upstream);
    } else if (upstream->fresh && !writable) {
        disarm_read(upstream); /* somebody else is going to watch the descriptor */
    }
}

/* ---- for the pool ---- */

void connection_park(struct upstream *upstream, void (*on_idle_dead)(struct upstream *))
{
    must_be(upstream, CONNECTION_MAGIC);
    must(upstream->state == CONNECTION_CONNECTING || upstream->state == CONNECTION_BUSY);
    upstream->used = upstream->used || upstream->state == CONNECTION_BUSY;
    upstream->state = CONNECTION_IDLE;
    upstream->on_idle_dead = on_idle_dead;
    upstream->ops = NULL;
    upstream->arg = NULL;
    want(upstream, false, false, false);
}

void connection_hand_over(struct upstream *upstream)
{
    must_be(upstream, CONNECTION_MAGIC);
    must(upstream->state == CONNECTION_CONNECTING || upstream->state == CONNECTION_IDLE);
    upstream->state = CONNECTION_BUSY;
}

static void free_closed(struct defer *defer)
{
    struct upstream *upstream = container_of(defer, struct upstream, freeing);

    must_be(upstream, CONNECTION_MAGIC);
    TAILQ_REMOVE(&upstream->env->closed, upstream, link);
    upstream->magic = 0;
    mem_free(upstream);
}

void connection_free_closed(struct connection_env *env)
{
    struct upstream *upstream;

    while ((upstream = TAILQ_FIRST(&env->closed)) != NULL) {
        loop_defer_cancel(&upstream->freeing);
        free_closed(&upstream->freeing);
    }
}

/* Its own callbacks may be on the stack, so the struct stays until the turn is over; the descriptor does not. */
void connection_close(struct upstream *upstream, bool reset)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    must_be(upstream, CONNECTION_MAGIC);
    must(upstream->state != CONNECTION_CLOSED);
    if (upstream->fd >= 0) {
        event_del(&upstream->read_event);
        event_del(&upstream->write_event);
        if (reset) {
            setsockopt(upstream->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        }
    }
    multi_remove(upstream->multi, &upstream->transfer);
    curl_easy_cleanup(upstream->transfer.easy);
    curl_slist_free_all(upstream->connect_to);
    mem_free(upstream->problem);
    upstream->state = CONNECTION_CLOSED;
    upstream->want_read = upstream->want_write = upstream->want_close = false;
    upstream->fd = -1;
    TAILQ_INSERT_TAIL(&upstream->env->closed, upstream, link);
    loop_defer(upstream->env->loop, &upstream->freeing, free_closed);
}

/* ---- for the owner ---- */

static void must_be_busy(const struct upstream *upstream)
{
    must_be(upstream, CONNECTION_MAGIC);
    must(upstream->state == CONNECTION_BUSY);
}

void upstream_own(struct upstream *upstream, const struct upstream_ops *ops, void *arg)
{
    must_be_busy(upstream);
    upstream->ops = ops;
    upstream->arg = arg;
}

ssize_t upstream_send(struct upstream *upstream, const void *bytes, size_t len)
{
    size_t sent = 0;

    must_be_busy(upstream);
    if (!upstream->tls) {
        ssize_t n;
        while ((n = send(upstream->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR) {
        }
        return n;
    }
    CURLcode code = curl_easy_send(upstream->transfer.easy, bytes, len, &sent);
    if (code == CURLE_OK) {
        return (ssize_t)sent;
    }
    errno = code == CURLE_AGAIN ? EAGAIN : ECONNRESET;
    return -1;
}

/* libcurl says "end" for a close_notify and for a cut connection alike. */
static bool is_cut(CURL *easy)
{
    struct curl_tlssessioninfo *info = NULL;

    curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &info);
    return info == NULL || info->internals == NULL || (SSL_get_shutdown(info->internals) & SSL_RECEIVED_SHUTDOWN) == 0;
}

static ssize_t receive_tls(struct upstream *upstream, char *bytes, size_t len)
{
    size_t received = 0;

    if (upstream->early_held && len > 0) {
        *bytes = upstream->early;
        upstream->early_held = false;
        upstream->drained = false;
        return 1;
    }
    CURLcode code = curl_easy_recv(upstream->transfer.easy, bytes, len, &received);
    upstream->drained = code != CURLE_OK || received == 0;
    if (code == CURLE_OK && (received > 0 || !is_cut(upstream->transfer.easy))) {
        return (ssize_t)received;
    }
    errno = code == CURLE_AGAIN ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t upstream_recv(struct upstream *upstream, void *bytes, size_t len)
{
    ssize_t n;

    must_be_busy(upstream);
    if (upstream->tls) {
        return receive_tls(upstream, bytes, len);
    }
    while ((n = recv(upstream->fd, bytes, len, MSG_DONTWAIT)) < 0 && errno == EINTR) {
    }
    return n;
}

void upstream_watch(struct upstream *upstream, bool readable, bool writable)
{
    must_be_busy(upstream);
    must((!readable && !writable) || upstream->ops != NULL);
    want(upstream, readable, writable, false);
}

void upstream_watch_close(struct upstream *upstream)
{
    must_be_busy(upstream);
    must(upstream->ops != NULL);
    want(upstream, false, false, true);
}

bool upstream_was_used(const struct upstream *upstream)
{
    must_be_busy(upstream);
    return upstream->used;
}

int upstream_fd(const struct upstream *upstream)
{
    must_be_busy(upstream);
    return upstream->tls ? -1 : upstream->fd;
}
