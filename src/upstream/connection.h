#ifndef SLUICE_UPSTREAM_CONNECTION_H
#define SLUICE_UPSTREAM_CONNECTION_H
/* One connection: a CONNECT_ONLY easy handle while it is made, then its descriptor (plain) or libcurl's TLS. */
#include "multi.h"
#include "tls.h"
#include "upstream/upstream.h"

#include <event2/event.h>
#include <event2/event_struct.h>

struct pool;
struct attempt;

/* X(state): parked in · woken by · given up by
 *   CONNECTING  libcurl · connect result · its share of connect_timeout, connection_close()
 *   IDLE        the pool · an acquirer · the other end's close, upstream_idle
 *   BUSY        its owner · whatever it watches for · upstream_release(), upstream_close()
 *   CLOSED      memory only · - · the end of this turn of the loop */
#define CONNECTION_STATES(X) X(CONNECTING) X(IDLE) X(BUSY) X(CLOSED)
enum connection_state {
#define X(name) CONNECTION_##name,
    CONNECTION_STATES(X)
#undef X
};

TAILQ_HEAD(connection_list, upstream);

/* What connections share. */
struct connection_env {
    struct loop *loop;
    const struct upstreams_conf *conf;
    struct connection_list closed; /* their memory goes at the end of the turn */
};

struct upstream {
    uint32_t magic;
    enum connection_state state;
    struct connection_env *env;
    /* how the making of it ended: UPSTREAM_OK, or an error with words for the log; from the loop */
    void (*on_made)(struct upstream *upstream, enum upstream_error error, const char *detail);
    void (*on_idle_dead)(struct upstream *upstream); /* while IDLE; from the loop */
    struct multi *multi;
    struct transfer transfer;
    TAILQ_ENTRY(upstream) link; /* idle in its pool, or closed */
    struct pool *pool;
    struct attempt *attempt; /* while CONNECTING */
    struct mono idle_until;  /* while IDLE */
    struct defer freeing;    /* while CLOSED */
    struct curl_slist *connect_to;
    char *problem;    /* libcurl's words, while CONNECTING */
    int socket_error; /* of socket(), while CONNECTING */
    int fd;
    bool prohibited; /* a private address was about to be used */
    bool tls, fresh, used;
    bool read_armed, write_armed; /* events registered */
    bool want_read, want_write, want_close;
    bool drained;    /* TLS: nothing decrypted is left unread */
    bool early_held; /* a byte that came with the handshake */
    char early;
    struct event read_event, write_event;
    const struct upstream_ops *ops;
    void *arg;
};

/* True when the settings let us connect there. */
bool connection_may_reach(const struct upstreams_conf *conf, const struct addr *addr);
/* Begins to connect to `addr` (with its port). NULL when libcurl can't be had. */
struct upstream *connection_start(struct connection_env *env, struct multi *multi, const struct origin *origin,
                                  const struct addr *addr, int64_t timeout_us,
                                  void (*on_made)(struct upstream *, enum upstream_error, const char *));
/* Between owners: on_idle_dead() comes when the other end closes, or sends what nobody asked for. */
void connection_park(struct upstream *upstream, void (*on_idle_dead)(struct upstream *));
/* Has an owner from now on. */
void connection_hand_over(struct upstream *upstream);
/* Ends it in any state; the memory goes at the end of the turn. */
void connection_close(struct upstream *upstream, bool reset);
/* Gives the memory of closed ones back now. */
void connection_free_closed(struct connection_env *env);

#endif
