#ifndef SLUICE_UPSTREAM_TURNS_H
#define SLUICE_UPSTREAM_TURNS_H
/*
 * Counts requests inside a tunnel without opening it. Pure: bytes in, verdicts out; no clock, no descriptor.
 *
 *   caller's bytes -> turns_caller() -> so many may pass; the rest passes, needs more bytes to be judged, or begins a
 * turn server's bytes -> turns_server()    always pass
 */
#include "base/buf.h"
#include "upstream/hello.h"

enum turns_kind {
    TURNS_UNDECIDED, /* nothing came yet */
    TURNS_TLS,       /* records */
    TURNS_OTHER,     /* anything else: counted by who speaks */
};

enum turns_want {
    TURNS_PASSED, /* all of it may pass */
    TURNS_MORE,   /* what is left can't be judged before more of it is here */
    TURNS_TURN,   /* what is left begins a turn: hold it, and call again after turns_grant() */
    TURNS_HELLO,  /* the ClientHello is here, see `hello`: call again with the same bytes if it may pass */
};

/* Where one direction is in its records. */
struct turns_side {
    uint8_t header[5];
    unsigned header_len;
    size_t left; /* of the record's body */
};

struct turns {
    enum turns_kind kind;
    bool hello_bad; /* it begins like TLS, but its ClientHello can't be read */
    bool version_known, tls13;
    bool finished;      /* TLS 1.3: the caller's handshake is over */
    bool granted;       /* the next record begins the turn that was granted */
    unsigned shown;     /* TLS 1.3: turns that its handshake took, for a client certificate */
    bool spoken;        /* the server has spoken since the last turn began: the caller's next word begins another */
    bool small;         /* a record too small for a request has passed in this turn */
    size_t caller_left; /* of the record that the caller is in */
    struct turns_side server;
    struct buf server_hello;
    struct client_hello hello;
    uint64_t count; /* turns granted */
};

void turns_init(struct turns *turns);
void turns_fini(struct turns *turns);
/* How many of these bytes, which were not judged before, may pass now; `want` is about the rest. */
size_t turns_caller(struct turns *turns, const void *bytes, size_t len, enum turns_want *want);
/* The turn that TURNS_TURN spoke of may begin. */
void turns_grant(struct turns *turns);
void turns_server(struct turns *turns, const void *bytes, size_t len);

#endif
