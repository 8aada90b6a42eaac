#ifndef SLUICE_PROXY_RELAY_H
#define SLUICE_PROXY_RELAY_H
/*
 * Bytes both ways between a caller and a third party whose bytes can't be left to the kernel: because the requests
 * among them are counted (a metered tunnel), or because one of the two sides speaks TLS with us (an upgraded
 * connection).
 */
#include "conf/policy.h"
#include "server/conn.h"
#include "upstream/turns.h"
#include "upstream/upstream.h"

enum relay_end {
    RELAY_CLOSED,  /* both sides are done */
    RELAY_RESET,   /* one broke off */
    RELAY_GONE,    /* the caller left while its turn was held: the slot is saved */
    RELAY_IDLE,    /* tunnel_idle */
    RELAY_AGED,    /* tunnel_max_age */
    RELAY_BAD_SNI, /* the ClientHello asks for another host */
    RELAY_H2,      /* the caller offers HTTP/2, and tunnel_h2 = refuse */
};

/* From the loop. Each may be the last thing that the relay does: it may be freed inside. */
struct relay_ops {
    void (*on_turn)(void *arg); /* a request is held: relay_grant() lets it go. The caller is not read meanwhile */
    void (*on_h2)(void *arg);   /* the caller offers HTTP/2, of which turns can't count every request */
    void (*on_end)(void *arg, enum relay_end how); /* once */
};

struct relay {
    const struct relay_ops *ops;
    void *arg;
    struct loop *loop;
    struct conn *conn;
    struct upstream *upstream;
    const struct policy *policy;
    const char *host; /* that CONNECT named; NULL: nothing is counted or checked */
    char *scratch;
    size_t scratch_bytes;
    /* below: for reading only */
    struct turns turns;
    struct buf held; /* from the caller */
    size_t allowed;  /* of those, may be sent */
    bool turn_due, waiting;
    bool reading; /* from the third party */
    bool caller_ended, upstream_ended, upstream_shut, over;
    struct mono last_moved;
    struct timer idle, age;
    struct defer starting;
    uint64_t to_upstream_bytes, to_caller_bytes;
};

/* Fill in what stands before "below". The caller's connection must be raw; bytes in `early` go to it first. Neither
 * side is closed by the relay. */
void relay_start(struct relay *relay, const struct buf *early);
void relay_grant(struct relay *relay);
/* From the caller's connection. */
void relay_body(struct relay *relay, struct slice data);
void relay_body_end(struct relay *relay);
void relay_drained(struct relay *relay);
void relay_caller_gone(struct relay *relay, enum conn_gone how);
/* Frees what it holds, not itself. */
void relay_fini(struct relay *relay);

#endif
