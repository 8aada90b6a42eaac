#ifndef SLUICE_REDIS_LINK_H
#define SLUICE_REDIS_LINK_H
/*
 * The connection to Redis: dialled, authenticated, its server's run_id and role read, scripts loaded, kept; dropped as
 * a whole on the first timeout or odd byte, since replies would shift; re-dialled with jittered back-off (50 ms to 2
 * s).
 *
 *   DOWN -> CONNECTING -> LOADING (AUTH, SELECT, INFO server, ROLE, SCRIPT LOAD) -> UP -> DOWN ...
 *
 * With sentinels they are asked before each dial where the primary is. A cluster is many servers behind one link, which
 * sends each call to the server that has its first key, and follows MOVED and ASK; link_for() is the link to that one
 * server, for whoever depends on which it is. The link as a whole is UP while any of them is.
 *
 * RESP by hiredis' redisReader and redisFormatCommandArgv, transport by a bufferevent. The simulator links another
 * implementation. No callback is ever made from inside a call of this header: always from the loop.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/histogram.h"
#include "base/loop.h"
#include "conf/policy.h"

struct link;
struct node;
struct redisReply;

#define LINK_STATES(X)                                                                                                 \
    X(DOWN, "down")             /* waiting to dial again */                                                            \
    X(CONNECTING, "connecting") /* resolving, TCP, TLS */                                                              \
    X(LOADING, "loading")       /* AUTH, SELECT, INFO, ROLE, SCRIPT LOAD in flight */                                  \
    X(UP, "up")                 /* commands are taken */
enum link_state {
#define X(name, text) LINK_##name,
    LINK_STATES(X)
#undef X
};

/* A Lua script, generated from src/lua/NAME.lua by the Makefile as `extern const struct script script_NAME`. */
struct script {
    const char *name;
    const char *text;
    unsigned reserved; /* 0 */
};

struct link_ops {
    void (*on_up)(void *arg,
                  const char *run_id); /* a (new) server answers; valid until on_down. "" for a cluster as a whole */
    void (*on_down)(void *arg, const char *why); /* after every call in flight got its lost reply */
    void (*on_moved)(void *arg);                 /* link_for() of some keys is another one now; NULL: of no interest */
};

/* Embedded in its owner. `reply` is NULL when the call is lost: it may or may not have run. Error replies that mean the
 * server can't serve (READONLY, NOREPLICAS, OOM, LOADING, BUSY, MASTERDOWN, CLUSTERDOWN, MISCONF, NOAUTH, NOPERM) drop
 * the link and count as lost. */
struct link_call {
    TAILQ_ENTRY(link_call) link;
    void (*done)(struct link_call *call, const struct redisReply *reply);
    struct mono sent, answered;
    bool in_flight;
    bool pinned; /* set by the owner: means nothing to another server (it names this one's run_id, say), so it is lost
                  * where it would be sent on, and its owner sees an error ASK or TRYAGAIN */
    struct node *node; /* where it is in flight */
};

/* Whether the files that TLS needs can be used; if not, why is in `err`. */
bool link_check(const struct redis_conf *conf, struct err *err) MUST_CHECK;
struct link *link_new(struct loop *loop, const struct redis_conf *conf, const struct script *const *scripts,
                      unsigned scripts_count);
void link_free(struct link *link);
/* Up to 8 listeners; told at once (by a deferred call) when the link is up already. */
void link_listen(struct link *link, const struct link_ops *ops, void *arg);
void link_start(struct link *link);
/* The link to the server that has `key`, which lives as long as `link`: `link` itself unless it is a cluster's, or
 * while nobody is known to have it. */
struct link *link_for(struct link *link, const char *key);
enum link_state link_state(const struct link *link);
const char *link_run_id(const struct link *link); /* "" unless UP */
const char *link_state_text(enum link_state state);

struct link_stats {
    enum link_state state;
    struct mono since;             /* in that state */
    uint64_t ups;                  /* how often it came up */
    uint64_t lost;                 /* calls without an answer */
    const struct histogram *trips; /* calls with one */
};
void link_stats(const struct link *link, struct link_stats *out);

/* EVALSHA with `keys` then `args`; NOSCRIPT is answered by loading once more. False when the link, or in a cluster the
 * server that has the first key, is not UP: nothing was sent. */
bool link_eval(struct link *link, struct link_call *call, const struct script *script, const char *const *keys,
               unsigned keys_count, const char *const *args, unsigned args_count) MUST_CHECK;
/* Any command; not for a cluster as a whole. */
bool link_command(struct link *link, struct link_call *call, const char *const *words, unsigned words_count) MUST_CHECK;
/* The owner goes away: `done` will not be called. */
void link_forget(struct link *link, struct link_call *call);

#endif
