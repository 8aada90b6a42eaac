#ifndef SLUICE_PROXY_EXCHANGE_H
#define SLUICE_PROXY_EXCHANGE_H
/* Shared by the files that drive exchanges: a proxy has callers, a caller has at most one exchange. */
#include "conf/policy.h"
#include "outbound/outbound.h"
#include "proxy/counts.h"
#include "proxy/relay.h"
#include "proxy/transfer.h"
#include "proxy/tunnels.h"
#include "proxy/verdict.h"
#include "server/authority.h"
#include "server/conn.h"
#include "upstream/tunnel.h"
#include "upstream/upstream.h"

#include <sys/queue.h>

struct users;

/* What all exchanges of a proxy share. */
struct proxy_env {
    struct loop *loop;
    const struct conf *conf;
    struct outbound *outbound;
    struct upstreams *upstreams;
    struct users *users; /* NULL: nobody has to log in */
    struct conn_env conn;
    struct transfer_env transfer;
    struct tunnels *tunnels;
    struct counters *counters;
    char *secret; /* owned: all replicas have it, and nobody else; hashes keys */
    struct authority *authority; /* NULL: nothing is intercepted */
    bool draining;
    int64_t queued_bytes; /* request bytes held in user space by waiting exchanges */
};

TAILQ_HEAD(callers, caller);

struct caller {
    uint32_t magic;
    TAILQ_ENTRY(caller) link;
    struct proxy_env *env;
    struct conn *conn;
    struct exchange *exchange; /* NULL between requests */
    bool inside;               /* an intercepted CONNECT: what comes is for this host */
    char inside_host[TARGET_HOST_BYTES];
    uint16_t inside_port;
    char *user; /* owned: who sent that CONNECT; NULL = nobody */
    bool over_limit; /* accepted only to be told that there are too many */
    void (*on_closed)(struct caller *caller);
};

/*   X(state, name)     parked: woken by                          given up by
 *   ADMIT              -
 *   WAIT               pacer (near, release), upstream           deadline, caller gone, Redis gone, drain
 *   DIAL               upstream (unpaced)                        connect timeout, caller gone, drain
 *   TRANSFER           both sides                                response and body timeouts, caller gone, drain
 *   TUNNEL             both sides, pacer (a turn)                idle timeout, drain, deadline of a turn
 *   OVER               -                                                                                            */
#define EXCHANGE_STATES(X)                                                                                             \
    X(ADMIT, "admit")                                                                                                  \
    X(WAIT, "wait")                                                                                                    \
    X(DIAL, "dial")                                                                                                    \
    X(TRANSFER, "transfer")                                                                                            \
    X(TUNNEL, "tunnel")                                                                                                \
    X(OVER, "over")
enum exchange_state {
#define X(state, name) EXCHANGE_##state,
    EXCHANGE_STATES(X)
#undef X
};

struct exchange {
    uint32_t magic;
    enum exchange_state state;
    struct caller *caller;
    struct proxy_env *env;
    struct policy *policy; /* reference; NULL until routed */
    char *bucket_name;     /* owned: the destination's */
    char *part;            /* owned: what tells its bucket from others of the destination; "" = nothing */
    char *parent_part;     /* owned: of a route, the part of the destination that limits it as well; NULL = none */
    struct counts *counts; /* of its destination */
    struct message *request;
    struct target target;
    struct origin origin;
    bool paced;
    bool connect;
    bool intercept; /* a CONNECT whose TLS ends here */
    bool metered;   /* a tunnel: turns inside it are paced, not the CONNECT */
    bool acquiring;
    enum parse_error bad_body; /* found while the first send was put together */
    unsigned redials;
    unsigned retries;   /* sent again after an answer, or none */
    unsigned throttled; /* answers that said to slow down */
    int64_t held_bytes;
    struct forecast forecast;
    int64_t patience_us;
    struct waiter waiter;
    struct acquire acquire;
    struct upstream *upstream; /* owned while held */
    struct transfer transfer;
    SSL *callers_tls; /* owned, on its way to the caller's connection */
    struct tunnel *tunnel;
    struct relay *relay; /* instead of `tunnel` where bytes are looked at */
    struct tunnels_of *tunnels_of;
    struct mono turn_began;
    int64_t turns_waited_us;
    char *timing; /* Server-Timing line */
    char *wanted; /* owned: the words of a refusal that are not always the same */
    struct mono arrived, released;
    struct wall arrived_wall;
    struct timer probe;   /* to find out whether a half-closed caller still listens */
    uint64_t sent_before; /* bytes sent to the caller before this exchange */
    struct defer reap;
    enum verdict verdict;
    const char *verdict_word;
    const char *detail; /* for the log */
    unsigned status;
    uint64_t bytes_in, bytes_out;
};

#endif
