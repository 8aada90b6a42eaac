#ifndef SLUICE_UPSTREAM_UPSTREAM_H
#define SLUICE_UPSTREAM_UPSTREAM_H
/*
 * Connections to third parties: names resolved by our own threads, one address per attempt, connected by libcurl
 * (CONNECT_ONLY; TCP and, where asked for, verified TLS), kept while idle and dropped as soon as the third party closes
 * them. One pool, and one curl multi handle, per origin.
 *
 *   acquire -> [idle connection] or [resolve -> connect, next address on failure] -> on_ready
 *                                          -> owner sends and receives -> release or close
 */
#include "base/addr.h"
#include "base/err.h"
#include "base/loop.h"
#include "conf/policy.h"

#include <sys/types.h>

struct upstreams;
struct upstream; /* one connection */

struct origin {
    const char *host; /* lower case, no brackets */
    uint16_t port;
    bool tls;
    bool fresh;          /* a tunnel: a connection of its own, never pooled */
    struct trust *trust; /* internal: with tls, whom we trust and who we are */
};

/* X(name, HTTP status, RFC 9209 error, text for the caller without inner addresses) */
#define UPSTREAM_ERRORS(X)                                                                                             \
    X(DNS, 502, "dns_error", "the name could not be resolved")                                                         \
    X(DNS_TIMEOUT, 504, "dns_timeout", "the name could not be resolved in time")                                       \
    X(PRIVATE, 403, "destination_ip_prohibited", "the name leads to a private address; see private_upstreams")         \
    X(REFUSED, 502, "connection_refused", "the third party refused the connection")                                    \
    X(TIMEOUT, 504, "connection_timeout", "the third party did not accept the connection in time")                     \
    X(UNREACHABLE, 502, "destination_unavailable", "the third party can't be reached")                                 \
    X(TLS, 502, "tls_protocol_error", "the TLS handshake with the third party failed")                                 \
    X(CERTIFICATE, 502, "tls_certificate_error", "the third party's certificate is not valid")                         \
    X(EXPIRED, 502, "tls_certificate_error", "the third party's certificate has expired")                              \
    X(NOT_YET_VALID, 502, "tls_certificate_error", "the third party's certificate is not valid yet")                   \
    X(SELF_SIGNED, 502, "tls_certificate_error", "the third party's certificate is self-signed; see ca_file")          \
    X(UNKNOWN_CA, 502, "tls_certificate_error", "the third party's certificate is by an unknown issuer; see ca_file")  \
    X(WRONG_NAME, 502, "tls_certificate_error", "the third party's certificate is for another name")                   \
    X(TRUST, 502, "proxy_configuration_error", "ca_file, client_cert or client_key of this proxy can't be read")       \
    X(RESOURCES, 503, "proxy_internal_error", "no descriptors or memory left for another connection")
enum upstream_error {
    UPSTREAM_OK,
#define X(name, status, type, text) UPSTREAM_BAD_##name,
    UPSTREAM_ERRORS(X)
#undef X
};

struct upstreams_conf {
    enum private_mode private_mode;
    const struct cidr *private_upstreams;
    unsigned private_upstreams_count;
    int64_t dns_ttl_us;
    int64_t dns_timeout_us;
    unsigned resolver_threads;
};

/* Embedded in the owner of the wish for a connection. Callbacks come from the loop, never from inside
 * upstream_acquire(). */
struct acquire {
    TAILQ_ENTRY(acquire) link;
    void (*on_ready)(struct acquire *acquire, struct upstream *upstream); /* owned by the acquirer now */
    void (*on_error)(struct acquire *acquire, enum upstream_error error, const char *detail); /* detail: for the log */
    void *pool;      /* internal; non-NULL while waiting */
    uint64_t serial; /* internal */
    bool fresh;      /* internal */
};

/* The owner's callbacks while it holds a connection. */
struct upstream_ops {
    void (*on_readable)(void *arg); /* upstream_recv() until EAGAIN, or stop watching */
    void (*on_writable)(void *arg);
    void (*on_closed)(void *arg); /* only while upstream_watch_close() is in force: closed, or unasked bytes came */
};

/* What the policies' TLS needs (ca_file, client_cert, client_key). */
struct trusts;
/* Reads those files, in any thread, so that mistakes in them show at start; NULL and lines in `err` then. For policies
 * that come later they are read when first needed. */
struct trusts *upstreams_read_trusts(const struct conf *conf, struct err *err) MUST_CHECK;
void upstreams_free_trusts(struct trusts *trusts);

struct upstreams *upstreams_new(struct loop *loop, const struct upstreams_conf *conf);
/* Other settings from here on, but for resolver_threads; and what was read by upstreams_read_trusts() (NULL: nothing), of
 * which what is not needed stays there, for the caller to free. */
void upstreams_adopt(struct upstreams *upstreams, const struct upstreams_conf *conf, struct trusts *trusts);
/* All connections must be released or closed, all acquires over. */
struct upstreams_stats {
    unsigned idle, busy, connecting; /* connections to third parties: kept for the next request, in use, being made */
};
void upstreams_stats(const struct upstreams *upstreams, struct upstreams_stats *out);
void upstreams_free(struct upstreams *upstreams);

/* Wishes for a connection to `origin` with the policy's timeouts. At most policy->max_connections to one origin (not
 * counting fresh ones). */
void upstream_acquire(struct upstreams *upstreams, const struct origin *origin, const struct policy *policy,
                      struct acquire *acquire);
/* No callback will come. No effect when not waiting. */
void upstream_acquire_cancel(struct acquire *acquire);

void upstream_own(struct upstream *upstream, const struct upstream_ops *ops, void *arg);
/* Bytes sent, or -1 with errno EAGAIN or another (the connection is dead). Never raises SIGPIPE. */
ssize_t upstream_send(struct upstream *upstream, const void *bytes, size_t len);
/* Bytes received, 0 at the end, -1 with errno EAGAIN, ECONNRESET (also a TLS end without close_notify) or another. */
ssize_t upstream_recv(struct upstream *upstream, void *bytes, size_t len);
/* Which callbacks the owner wants. Level-triggered; already decrypted TLS data counts as readable. */
void upstream_watch(struct upstream *upstream, bool readable, bool writable);
/* Holding it unused: tell on_closed when it dies. Ends with the next upstream_watch(). */
void upstream_watch_close(struct upstream *upstream);
bool upstream_was_used(const struct upstream *upstream); /* carried an exchange before */
/* The descriptor of a plain connection, for splice; -1 with TLS. */
int upstream_fd(const struct upstream *upstream);
/* Back to the pool, for the next acquirer. Only when the last response was complete and kept alive. */
void upstream_release(struct upstream *upstream);
/* Ends it. `reset`: with RST instead of FIN. May be called inside its own callbacks. */
void upstream_close(struct upstream *upstream, bool reset);

unsigned upstream_error_status(enum upstream_error error);
const char *upstream_error_type(enum upstream_error error); /* RFC 9209 */
const char *upstream_error_text(enum upstream_error error);

#endif
