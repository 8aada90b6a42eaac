#ifndef SLUICE_PROXY_VISIT_H
#define SLUICE_PROXY_VISIT_H
/* Shared by the files of the inbound side: a visitor is a caller's connection, a visit is one request on it. */
#include "conf/policy.h"
#include "inbound/admission.h"
#include "proxy/forwarded.h"
#include "proxy/transfer.h"
#include "proxy/verdict.h"
#include "server/conn.h"
#include "upstream/tunnel.h"
#include "upstream/upstream.h"

#include <sys/queue.h>

/* What all visits share. */
struct visit_env {
    struct loop *loop;
    const struct conf *conf;
    struct admission *admission;
    struct upstreams *upstreams;
    struct conn_env conn;
    struct transfer_env transfer;
    bool draining;
};

TAILQ_HEAD(visitors, visitor);

struct visitor {
    uint32_t magic;
    TAILQ_ENTRY(visitor) link;
    struct visit_env *env;
    struct inbound_conf *inbound; /* whose listener it came to; a reference, brought up to date with each request */
    bool asks;                          /* it came to the check endpoint */
    struct conn *conn;
    struct visit *visit; /* NULL between requests */
    bool over_limit;
    void (*on_closed)(struct visitor *visitor);
};

/*   X(state, name)     parked: woken by          given up by
 *   ADMIT              admission                 caller gone, drain
 *   DIAL               upstream                  connect timeout, caller gone, drain
 *   TRANSFER           both sides                response and body timeouts, caller gone, drain
 *   TUNNEL             both sides                idle timeout, drain
 *   OVER               -                                                                          */
#define VISIT_STATES(X)                                                                                                \
    X(ADMIT, "admit")                                                                                                  \
    X(DIAL, "dial")                                                                                                    \
    X(TRANSFER, "transfer")                                                                                            \
    X(TUNNEL, "tunnel")                                                                                                \
    X(OVER, "over")
enum visit_state {
#define X(state, name) VISIT_##state,
    VISIT_STATES(X)
#undef X
};

struct visit {
    uint32_t magic;
    enum visit_state state;
    struct visitor *visitor;
    struct visit_env *env;
    struct inbound_conf *inbound; /* whose limits count; with the check endpoint, of the name asked for; a reference */
    struct message *request;
    struct target target;
    struct inbound_request seen; /* as the limits see it */
    struct buf keys;             /* what check.keys point into */
    struct admission_check check;
    struct buf fields; /* lines for the answer, NUL-terminated */
    struct forwarded forwarded;
    struct buf authority; /* a Host for who sent none */
    struct origin origin;
    struct acquire acquire;
    struct upstream *upstream; /* owned while held */
    struct transfer transfer;
    struct tunnel *tunnel;
    enum parse_error bad_body; /* found while the first send was put together */
    unsigned redials;
    struct mono arrived, decided;
    uint64_t sent_before; /* bytes sent to the caller before this visit */
    struct defer reap;
    enum verdict verdict;
    const char *verdict_word;
    unsigned status;
    uint64_t bytes_in, bytes_out;
};

#endif
