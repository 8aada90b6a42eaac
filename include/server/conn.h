#ifndef SLUICE_SERVER_CONN_H
#define SLUICE_SERVER_CONN_H
/*
 * A caller's connection: bytes in, requests out, one at a time; answers back with back-pressure. While a request is
 * held, nothing more is read than what came along with its head: the rest of its body, and pipelined requests, stay in
 * the kernel. Yet a caller that leaves is noticed.
 *
 *   IDLE --bytes--> HEAD --head complete--> HELD <--conn_read_body()--> BODY     conn_next(): HELD --> IDLE
 * conn_finish(): --> LINGER --> closed
 */
#include "base/addr.h"
#include "base/buf.h"
#include "base/loop.h"
#include "http/parse.h"
#include "server/shield.h"

struct conn;

enum conn_gone {
    CONN_HALF_CLOSED, /* it will send no more, but may still listen: conn_probe() finds out */
    CONN_RESET,       /* it is gone for good */
};

/* Every callback but on_closed may close the connection. */
struct conn_ops {
    /* A request begins (state HELD); the message is the callee's. Without a body conn_request_done() is true already.
     */
    void (*on_request)(void *arg, struct message *request);
    void (*on_body)(void *arg, struct slice data);
    void (*on_body_end)(void *arg, struct slice trailers);
    /* What came is not HTTP (before on_request: `in_body` false) or breaks off inside the body. */
    void (*on_bad_request)(void *arg, enum parse_error error, bool in_body);
    /* No complete head (`in_body` false) or no more body in time; or, with `sending`, the caller does not take its
     * answer. */
    void (*on_timeout)(void *arg, bool in_body, bool sending);
    void (*on_gone)(void *arg, enum conn_gone how);
    void (*on_drained)(void *arg);
    /* The last call: the connection is closed and its memory goes. */
    void (*on_closed)(void *arg);
};

/* Shared by all connections of a loop. */
struct conn_env {
    struct loop *loop;
    struct parse_limits parse;
    int64_t head_timeout_us;
    int64_t keepalive_timeout_us;
    int64_t body_timeout_us; /* longest silence in a request body, or of a caller that doesn't take its answer */
    char scratch[65536];
};

/* Takes the descriptor. `env` outlives the connection. */
struct conn *conn_new(struct conn_env *env, int fd, const struct addr *peer, const struct addr *local,
                      const struct conn_ops *ops, void *arg);

const struct addr *conn_peer(const struct conn *conn);
const struct addr *conn_local(const struct conn *conn);
bool conn_request_done(const struct conn *conn);   /* the request's last byte was read */
size_t conn_input_bytes(const struct conn *conn);  /* read but not yet parsed */
size_t conn_output_bytes(const struct conn *conn); /* accepted but not yet sent */
uint64_t conn_sent_bytes(const struct conn *conn); /* since the connection began */

/* Between requests: the next one is waited for for a second at most. */
void conn_hurry(struct conn *conn);

/* Wants (or not, for now) the body: on_body, on_body_end. Starts at the next turn of the loop, or with pump = true at
 * once. */
void conn_read_body(struct conn *conn, bool wanted);
/* Parses what is in user space already, at once: on_body and on_body_end may come from inside this call. */
void conn_pump(struct conn *conn);

/* Adds to the output; goes out with the next conn_send() or conn_flush(). */
void conn_queue(struct conn *conn, const void *bytes, size_t len);
/* Sends queued output and then `bytes`; what the kernel doesn't take is kept, and on_drained comes when all of it went.
 */
void conn_send(struct conn *conn, const void *bytes, size_t len);
void conn_flush(struct conn *conn);
/* A caller that half-closed may be gone altogether. An interim response tells: a closed peer answers it with a reset
 * (on_gone). Any HTTP/1.1 client must take it (RFC 9110 section 15.2). */
void conn_probe(struct conn *conn);

/* The answer is queued whole and the request was read whole: on with the next request. */
void conn_next(struct conn *conn);
/* Sends what is queued, then closes: our side first, then, so that the answer is not lost to a reset, once the caller
 * closes or after a while (RFC 9112 section 9.6). */
void conn_finish(struct conn *conn);
/* Closes now; `reset`: so that the caller sees that the answer is broken off. */
void conn_close(struct conn *conn, bool reset);

/* After CONNECT: TLS from here on, and HTTP inside it. Takes `shield`; what came too early is its first input. As
 * conn_next(), with the head's time for the handshake too. */
void conn_secure(struct conn *conn, struct shield *shield);
/* For a relay: no HTTP from here on. Bytes come by on_body while conn_read_body() says so, the caller's half-close by
 * on_body_end; conn_send() and on_drained as before. Ends with conn_finish() or conn_close(). */
void conn_go_raw(struct conn *conn);
/* Raw: once everything is sent our side is closed for writing; the caller may go on. */
void conn_shut(struct conn *conn);

/* For a tunnel: the descriptor, no longer watched; what was read too early moves to `early`, unsent output to `unsent`.
 * Afterwards only conn_close(). */
int conn_detach(struct conn *conn, struct buf *early, struct buf *unsent);

#endif
