#ifndef SLUICE_SRC_REDIS_NODE_H
#define SLUICE_SRC_REDIS_NODE_H
/* The connection to one server, made again and again: the one that a URL names, the primary that Sentinel names, or one
 * primary of a cluster. */
#include "redis/flight.h"
#include "redis/script.h"

#include <openssl/types.h>

struct node;
struct redisReply;

/* Of a call that has not run: another server has taken it over; it is lost; the owner is to see the reply. */
enum elsewhere { ELSEWHERE_TAKEN, ELSEWHERE_LOST, ELSEWHERE_TOLD };

/* Never called from inside a function of this header, always from the loop. */
struct node_ops {
    void (*on_up)(void *arg);                    /* node_run_id() is valid until on_down */
    void (*on_down)(void *arg, const char *why); /* after every call in flight got its lost reply */
    /* The server says that another one has the key (MOVED, ASK), or that it can't tell yet (TRYAGAIN); the call has not
     * run. The flight is out of the FIFO. NULL: not a cluster, so it can't be. */
    enum elsewhere (*on_elsewhere)(void *arg, struct flight *flight, const struct redisReply *reply);
};

/* What the nodes of a link have in common; outlives them. */
struct node_shared {
    struct loop *loop;
    struct script_set scripts;
    SSL_CTX *tls; /* NULL without TLS, or without files that it needs */
    struct histogram trips;
    uint64_t ups, lost;
};

/* `conf` is copied. */
struct node *node_new(struct node_shared *shared, const struct redis_conf *conf, const struct node_ops *ops, void *arg);
void node_free(struct node *node);
/* Begins to dial, if it does not already. */
void node_start(struct node *node);
/* Ends the connection, as if lost, and stays down until node_start(). No callback is running. */
void node_stop(struct node *node, const char *why);
enum link_state node_state(const struct node *node);
struct mono node_changed(const struct node *node); /* when it came up, or ceased to be */
const char *node_state_text(enum link_state state);
const char *node_run_id(const struct node *node);

bool node_eval(struct node *node, struct link_call *call, const struct script *script, struct words keys,
               struct words args) MUST_CHECK;
bool node_command(struct node *node, struct link_call *call, struct words words) MUST_CHECK;
/* Sends what another server didn't run; `asking`: the key is on its way here. False, and nothing, when it can't. */
bool node_take_over(struct node *node, struct flight *flight, bool asking) MUST_CHECK;
/* A call in flight here. */
void node_forget(struct node *node, struct link_call *call);

#endif
