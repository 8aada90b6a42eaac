/*
 * From a name to a stream of bytes:
 *
 *   dial -> [lookup thread] -> addresses -> connect, one after the other -> [TLS handshake] -> open
 *
 * libevent's callbacks only record (`event`, `gone`, the time bytes came) and defer step(), which alone acts on it, in
 * the order things happen on a wire: found, connected, open, bytes, gone. So a stream may be closed in any call made
 * from here, and bytes that came before an end of file are always delivered before it.
 *
 * connect() is done here and not by bufferevent_socket_connect(): TCP, Unix and TLS then differ in one line, and
 * options are set before the first packet. A lookup that outlasts its dial is kept for the next one, so a dead resolver
 * holds one thread and not one per retry. A dial whose stream was of no use makes the next one begin with the address
 * after: a silent address, or a replica's, doesn't hide the others of the same name.
 */
#include "redis/transport.h"

#include "base/addr.h"
#include "base/mem.h"
#include "redis/lookup.h"
#include "redis/secure.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define TRANSPORT_MAGIC 0x74726e73u
enum { ADDRESSES_MAX = 8, CHUNK_BYTES = 16 * 1024, WHY_BYTES = 128 };

struct transport {
    uint32_t magic;
    struct loop *loop;
    const struct redis_conf *conf;
    const struct transport_ops *ops;
    void *arg;
    SSL_CTX *tls; /* NULL without TLS, or without the files for it */
    struct defer step;

    struct lookup *lookup; /* may outlast a dial */
    bool resolving;        /* this dial waits for it */
    struct addr addresses[ADDRESSES_MAX];
    unsigned addresses_count;
    unsigned first; /* where the next dial begins */
    unsigned tried; /* in this dial */

    struct event *connecting; /* non-NULL while connect() is under way */
    struct bufferevent *stream;
    SSL *ssl;              /* owned by stream */
    bool opened;           /* on_open was called */
    bool heard;            /* bytes came */
    bool writable, shaken; /* recorded: connect() has ended, the stream is ready */
    bool gone;             /* recorded: failed or ended, for `why` */
    struct mono arrived;   /* when bytes came last */
    char why[WHY_BYTES];
};

static void step(struct defer *defer);

static void wake(struct transport *transport)
{
    loop_defer(transport->loop, &transport->step, step);
}

/* The first reason is kept: what follows is its consequence. */
static void fail(struct transport *transport, const char *format, ...) PRINTF_LIKE(2, 3);
static void fail(struct transport *transport, const char *format, ...)
{
    va_list args;

    if (!transport->gone) {
        transport->gone = true;
        va_start(args, format);
        vsnprintf(transport->why, sizeof(transport->why), format, args);
        va_end(args);
    }
    wake(transport);
}

/* ---- libevent's callbacks: record and defer ---- */

static void connect_ended(evutil_socket_t fd, short what, void *arg)
{
    struct transport *transport = arg;

    (void)fd;
    (void)what;
    must_be(transport, TRANSPORT_MAGIC);
    transport->writable = true;
    wake(transport);
}

static void lookup_ended(void *arg)
{
    struct transport *transport = arg;

    must_be(transport, TRANSPORT_MAGIC);
    wake(transport);
}

static void bytes_came(struct bufferevent *stream, void *arg)
{
    struct transport *transport = arg;

    (void)stream;
    must_be(transport, TRANSPORT_MAGIC);
    transport->heard = true;
    transport->arrived = loop_now(transport->loop);
    wake(transport);
}

/* With TLS 1.3 our side of the handshake ends before the server has looked at our certificate; its alert may be lost in
 * the reset that follows it. */
static const char *hint(const struct transport *transport)
{
    if (transport->ssl == NULL || transport->heard) {
        return "";
    }
    return transport->conf->client_cert == NULL ? "; does the server ask for a client certificate? (client_cert)"
                                                : "; does the server trust the issuer of client_cert?";
}

static void stream_event(struct bufferevent *stream, short what, void *arg)
{
    struct transport *transport = arg;
    int error = errno;

    must_be(transport, TRANSPORT_MAGIC);
    if (what & BEV_EVENT_CONNECTED) {
        transport->shaken = true;
        wake(transport);
    } else if (transport->ssl != NULL && !transport->shaken) {
        fail(transport, "TLS: %s", secure_why(transport->ssl, bufferevent_get_openssl_error(stream)));
    } else if (what & BEV_EVENT_EOF) {
        fail(transport, "connection closed%s", hint(transport));
    } else {
        unsigned long code = transport->ssl != NULL ? bufferevent_get_openssl_error(stream) : 0;
        fail(transport, "connection lost: %s%s", code != 0 ? secure_why(transport->ssl, code) : strerror(error),
             hint(transport));
    }
}

/* ---- connecting ---- */

static void set_options(int fd)
{
    const int on = 1;

    /* what can't be set is done without: the timeouts of the link notice a dead peer as well */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* False with errno set. */
static bool connect_to(struct transport *transport, const struct sockaddr *sa, socklen_t len)
{
    int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return false;
    }
    if (sa->sa_family != AF_UNIX) {
        set_options(fd);
    }
    if (connect(fd, sa, len) != 0 && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        errno = error;
        return false;
    }
    transport->connecting = event_new(loop_base(transport->loop), fd, EV_WRITE, connect_ended, transport);
    must(transport->connecting != NULL && event_add(transport->connecting, NULL) == 0);
    return true;
}

static void try_next_address(struct transport *transport, int error)
{
    while (transport->tried < transport->addresses_count) {
        unsigned at = (transport->first + transport->tried++) % transport->addresses_count;
        const struct addr *addr = &transport->addresses[at];
        if (connect_to(transport, &addr->sa, addr->len)) {
            return;
        }
        error = errno;
    }
    fail(transport, "connect: %s", strerror(error));
}

static void connect_unix(struct transport *transport)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    if (strlen(transport->conf->host) >= sizeof(sun.sun_path)) {
        fail(transport, "connect: %s", strerror(ENAMETOOLONG));
        return;
    }
    memcpy(sun.sun_path, transport->conf->host, strlen(transport->conf->host));
    if (!connect_to(transport, (const struct sockaddr *)&sun, sizeof(sun))) {
        fail(transport, "connect: %s", strerror(errno));
    }
}

static int end_connecting(struct transport *transport)
{
    int fd = (int)event_get_fd(transport->connecting);

    event_free(transport->connecting);
    transport->connecting = NULL;
    transport->writable = false;
    return fd;
}

static void make_stream(struct transport *transport, int fd)
{
    struct event_base *base = loop_base(transport->loop);

    if (transport->conf->tls) {
        transport->ssl = secure_session(transport->tls, transport->conf->host);
        if (transport->ssl == NULL) {
            close(fd);
            fail(transport, "TLS: not a name that a certificate can have");
            return;
        }
        transport->stream =
            bufferevent_openssl_socket_new(base, fd, transport->ssl, BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
    } else {
        transport->stream = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
        transport->shaken = true;
        wake(transport);
    }
    must(transport->stream != NULL);
    bufferevent_setcb(transport->stream, bytes_came, NULL, stream_event, transport);
    must(bufferevent_enable(transport->stream, EV_READ | EV_WRITE) == 0);
}

static void connected(struct transport *transport)
{
    int fd = end_connecting(transport);
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    if (error != 0) {
        close(fd);
        try_next_address(transport, error);
        return;
    }
    make_stream(transport, fd);
}

static void found(struct transport *transport)
{
    char why[LOOKUP_WHY_BYTES];

    transport->resolving = false;
    transport->addresses_count = lookup_result(transport->lookup, transport->addresses, ADDRESSES_MAX, why);
    lookup_free(transport->lookup);
    transport->lookup = NULL;
    if (transport->addresses_count == 0) {
        fail(transport, "%s", why);
        return;
    }
    try_next_address(transport, 0);
}

static void resolve(struct transport *transport)
{
    const struct redis_conf *conf = transport->conf;

    if (addr_parse_literal(slice_of(conf->host), conf->port, &transport->addresses[0])) {
        transport->addresses_count = 1;
        try_next_address(transport, 0);
        return;
    }
    if (transport->lookup == NULL) {
        transport->lookup = lookup_start(transport->loop, conf->host, conf->port, lookup_ended, transport);
    }
    if (transport->lookup == NULL) {
        fail(transport, "name lookup: no thread to be had");
        return;
    }
    transport->resolving = true;
    wake(transport); /* an earlier dial's lookup may have ended by now */
}

/* ---- what was recorded takes effect ---- */

static void deliver(struct transport *transport)
{
    char chunk[CHUNK_BYTES];

    /* the callee may close the stream at any chunk */
    while (transport->opened && evbuffer_get_length(bufferevent_get_input(transport->stream)) > 0) {
        size_t len = bufferevent_read(transport->stream, chunk, sizeof(chunk));
        transport->ops->on_bytes(transport->arg, chunk, len, transport->arrived);
    }
}

static void step(struct defer *defer)
{
    struct transport *transport = container_of(defer, struct transport, step);

    must_be(transport, TRANSPORT_MAGIC);
    if (transport->resolving && lookup_is_done(transport->lookup)) {
        found(transport);
    }
    if (transport->writable) {
        connected(transport);
    }
    if (transport->shaken && !transport->opened) {
        transport->opened = true;
        transport->ops->on_open(transport->arg);
    }
    deliver(transport);
    if (transport->gone) {
        char why[WHY_BYTES];
        memcpy(why, transport->why, sizeof(why));
        transport_close(transport);
        transport->ops->on_gone(transport->arg, why);
    }
}

/* ---- for the link ---- */

struct transport *transport_new(struct loop *loop, const struct redis_conf *conf, SSL_CTX *tls,
                                const struct transport_ops *ops, void *arg)
{
    struct transport *transport = mem_zalloc(sizeof(*transport));

    transport->magic = TRANSPORT_MAGIC;
    transport->loop = loop;
    transport->conf = conf;
    transport->ops = ops;
    transport->arg = arg;
    if (tls != NULL) {
        must(SSL_CTX_up_ref(tls) == 1);
        transport->tls = tls;
    }
    return transport;
}

void transport_free(struct transport *transport)
{
    must_be(transport, TRANSPORT_MAGIC);
    transport_close(transport);
    lookup_free(transport->lookup);
    SSL_CTX_free(transport->tls);
    loop_defer_cancel(&transport->step); /* a lookup may have woken it */
    transport->magic = 0;
    mem_free(transport);
}

void transport_dial(struct transport *transport)
{
    must_be(transport, TRANSPORT_MAGIC);
    must(!transport->resolving && transport->connecting == NULL && transport->stream == NULL && !transport->gone);
    transport->tried = 0;
    if (transport->conf->tls && transport->tls == NULL) {
        fail(transport, "TLS: ca_file, client_cert or client_key can't be used");
    } else if (transport->conf->unix_socket) {
        connect_unix(transport);
    } else {
        resolve(transport);
    }
}

void transport_forget(struct transport *transport)
{
    must_be(transport, TRANSPORT_MAGIC);
    must(!transport->resolving && transport->connecting == NULL && transport->stream == NULL);
    lookup_free(transport->lookup);
    transport->lookup = NULL;
    transport->addresses_count = transport->first = transport->tried = 0;
}

void transport_send(struct transport *transport, struct evbuffer *bytes)
{
    must_be(transport, TRANSPORT_MAGIC);
    must(transport->opened);
    must(bufferevent_write_buffer(transport->stream, bytes) == 0);
}

void transport_prefer(struct transport *transport)
{
    must_be(transport, TRANSPORT_MAGIC);
    if (transport->tried > 0) {
        transport->first += transport->tried - 1;
        transport->tried = 0;
    }
}

void transport_close(struct transport *transport)
{
    must_be(transport, TRANSPORT_MAGIC);
    transport->first += transport->tried;
    if (transport->connecting != NULL) {
        close(end_connecting(transport));
    }
    if (transport->stream != NULL) {
        bufferevent_free(transport->stream);
    }
    transport->stream = NULL;
    transport->ssl = NULL;
    transport->tried = 0;
    transport->resolving = transport->heard = transport->opened = transport->writable = transport->shaken =
        transport->gone = false;
    loop_defer_cancel(&transport->step);
}

const char *transport_waits_for(const struct transport *transport)
{
    must_be(transport, TRANSPORT_MAGIC);
    if (transport->resolving) {
        return "name lookup";
    }
    return transport->stream != NULL ? "TLS handshake" : "connect";
}
