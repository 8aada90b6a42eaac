#ifndef SLUICE_REDIS_LINK_H
#define SLUICE_REDIS_LINK_H
/*
 * The connection to Redis: dialled, authenticated, its server's run_id and role read, scripts loaded, kept; dropped as a whole on the first
 * timeout or odd byte, since replies would shift; re-dialled with jittered back-off (50 ms to 2 s).
 *
 *   DOWN -> CONNECTING -> LOADING (AUTH, SELECT, INFO server, ROLE, SCRIPT LOAD) -> UP -> DOWN ...
 *
 * RESP by hiredis' redisReader and redisFormatCommandArgv, transport by a bufferevent. The simulator links another implementation.
 * No callback is ever made from inside a call of this header: always from the loop.
 */
#include "base/clock.h"
#include "base/histogram.h"
#include "base/loop.h"
#include "conf/policy.h"

struct link;
struct redisReply;

#define LINK_STATES(X)                                                                                               \
    X(DOWN, "down")             /* waiting to dial again */                                                          \
    X(CONNECTING, "connecting") /* resolving, TCP, TLS */                                                            \
    X(LOADING, "loading")       /* AUTH, SELECT, INFO, ROLE, SCRIPT LOAD in flight */                                \
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
    void (*on_up)(void *arg, const char *run_id); /* a (new) server answers; valid until on_down */
    void (*on_down)(void *arg, const char *why);  /* after every call in flight got its lost reply */
};

/* Embedded in its owner. `reply` is NULL when the call is lost: it may or may not have run. Error replies that mean the server
 * can't serve (READONLY, NOREPLICAS, OOM, LOADING, BUSY, MASTERDOWN, CLUSTERDOWN, MISCONF, NOAUTH, NOPERM) drop the link and count as lost. */
struct link_call {
    TAILQ_ENTRY(link_call) link;
    void (*done)(struct link_call *call, const struct redisReply *reply);
    struct mono sent, answered;
    bool in_flight;
};

struct link *link_new(struct loop *loop, const struct redis_conf *conf, const struct script *const *scripts, unsigned scripts_count);
void link_free(struct link *link);
/* Up to 8 listeners; told at once (by a deferred call) when the link is up already. */
void link_listen(struct link *link, const struct link_ops *ops, void *arg);
void link_start(struct link *link);
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

/* EVALSHA with `keys` then `args`; NOSCRIPT is answered by loading once more. False when the link is not UP: nothing was sent. */
bool link_eval(struct link *link, struct link_call *call, const struct script *script, const char *const *keys, unsigned keys_count,
               const char *const *args, unsigned args_count) MUST_CHECK;
/* Any command. */
bool link_command(struct link *link, struct link_call *call, const char *const *words, unsigned words_count) MUST_CHECK;
/* The owner goes away: `done` will not be called. */
void link_forget(struct link *link, struct link_call *call);

#endif
