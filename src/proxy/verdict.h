#ifndef SLUICE_PROXY_VERDICT_H
#define SLUICE_PROXY_VERDICT_H
/*
 * What can become of an exchange, and what a refused caller is told: the one place where a status code is decided.
 * A refusal is problem+json (RFC 9457) with Proxy-Status (RFC 9209), so that it can be told from the third party's own
 * answers.
 */
#include "base/buf.h"
#include "outbound/outbound.h"

/* X(name, word in the log, status, RFC 9209 error, title) */
#define VERDICTS(X)                                                                                                    \
    X(FORWARDED, "forwarded", 0, "", "")                                                                               \
    X(TUNNEL, "tunnel", 200, "", "")                                                                                   \
    X(INTERCEPT, "intercept", 200, "", "")                                                                             \
    X(CALLER_GONE, "caller_gone", 0, "", "")                                                                           \
    X(SELF, "answered_by_proxy", 200, "", "")                                                                          \
    X(BROKEN_OFF, "broken_off", 0, "", "")                                                                             \
    X(QUEUE_FULL, "queue_full", 429, "http_request_denied", "The queue for this destination is full")                  \
    X(WAIT_TOO_LONG, "wait_too_long", 429, "http_request_denied", "The wait for this destination would be too long")   \
    X(QUEUED_BYTES, "queued_bytes", 503, "http_request_denied", "Too many bytes are queued in this proxy")             \
    X(DEADLINE, "deadline", 504, "http_request_denied", "The deadline came before the turn")                           \
    X(QUOTA, "quota_used_up", 429, "http_request_denied", "A quota of this destination is used up")                    \
    X(COST, "cost_too_high", 400, "http_request_denied", "The request costs more than this destination ever allows")   \
    X(BUCKETS, "too_many_buckets", 503, "http_request_denied", "Too many hosts or key values are in use at once")         \
    X(PURGED, "purged", 503, "http_request_denied", "An operator emptied the queue of this destination")              \
    X(REDIS_DOWN, "redis_down", 503, "proxy_internal_error", "The fleet's coordination is out of reach")               \
    X(PAUSED, "paused", 429, "http_request_denied", "The third party asked for a pause longer than the wait allows")    \
    X(BANNED, "banned", 503, "http_request_denied", "The third party has banned us")                                   \
    X(ERROR_BUDGET, "error_budget", 503, "http_request_denied", "The third party answered with too many errors")       \
    X(DENIED, "denied", 403, "http_request_denied", "This destination is not allowed")                                 \
    X(NOT_LISTED, "not_listed", 403, "http_request_denied", "This proxy does not serve this host directly")            \
    X(BAD_PORT, "bad_port", 403, "http_request_denied", "CONNECT to this port is not allowed")                         \
    X(CLIENT_DENIED, "client_denied", 403, "http_request_denied", "This client may not use this proxy")                \
    X(AUTH, "auth_required", 407, "http_request_denied", "Proxy credentials are missing or wrong")                     \
    X(BAD_REQUEST, "bad_request", 400, "http_request_error", "The request is not valid")                               \
    X(HEADER_MISSING, "header_missing", 400, "http_request_error", "The request lacks a header field")                 \
    X(REQUEST_TIMEOUT, "request_timeout", 408, "http_request_error", "The request did not arrive in time")             \
    X(NO_TRACE, "no_trace", 405, "http_request_denied", "TRACE ends here")                                             \
    X(HTTPS_URL, "https_url", 501, "http_request_denied", "https:// can't be asked for in plain")                      \
    X(MISDIRECTED, "misdirected", 421, "http_request_error", "The request is for another host than its CONNECT")       \
    X(NO_LEAF, "no_certificate", 503, "proxy_internal_error", "No certificate can be made for this host")              \
    X(TUNNELS, "too_many_tunnels", 503, "connection_limit_reached", "Too many tunnels to this destination")            \
    X(SNI, "sni_mismatch", 403, "http_request_denied", "The TLS in the tunnel asks for another host")                  \
    X(H2, "h2_refused", 403, "http_request_denied", "HTTP/2 can't be counted inside a tunnel")                         \
    X(RATE_LIMITED, "rate_limited", 429, "http_request_denied", "The caller's limit is used up")                       \
    X(NO_SUCH_CHECK, "no_such_check", 404, "http_request_denied", "There is no such check")                            \
    X(LOOP, "loop", 502, "proxy_loop_detected", "The request came through this proxy before")                          \
    X(DRAINING, "draining", 503, "http_request_denied", "This proxy is shutting down")                                 \
    X(DRAIN_CUT, "drain_cut", 504, "http_response_timeout", "This proxy ended before the third party answered")        \
    X(CONNECTIONS, "too_many_connections", 503, "connection_limit_reached", "Too many callers at once")                \
    X(UPSTREAM, "upstream", 502, "destination_unavailable", "The third party can't be reached")                        \
    X(UPSTREAM_CLOSED, "upstream_closed", 502, "connection_terminated", "The third party closed without an answer")    \
    X(BAD_RESPONSE, "upstream_bad_response", 502, "http_protocol_error", "The third party's answer is not valid")      \
    X(RESPONSE_TIMEOUT, "upstream_timeout", 504, "http_response_timeout", "The third party did not answer in time")

enum verdict {
#define X(name, word, status, error, title) VERDICT_##name,
    VERDICTS(X)
#undef X
        VERDICT_COUNT
};

const char *verdict_word(enum verdict verdict);

struct refusal {
    enum verdict verdict;
    unsigned status;                 /* 0: the verdict's own */
    const char *word;                /* NULL: the verdict's own */
    const char *error;               /* NULL: the verdict's own */
    const char *title;               /* NULL: the verdict's own */
    const char *detail;              /* one sentence: what to do; NULL = none */
    const char *destination;         /* NULL = none */
    const struct forecast *forecast; /* NULL = none */
    int64_t retry_after_us;          /* 0 = no Retry-After */
};

/* Of a waiter that was given up, and why in words. */
enum verdict verdict_of_give_up(enum give_up why, const char **detail);

unsigned refusal_status(const struct refusal *refusal);
/* The whole response. `head_only`: the answer to HEAD. */
void refusal_write(struct buf *out, const struct refusal *refusal, bool close, bool head_only);
/* The answer to an OPTIONS that ends here. */
void self_write(struct buf *out, bool close);

#endif
