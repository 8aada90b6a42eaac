#ifndef SLUICE_PROXY_TRANSFER_H
#define SLUICE_PROXY_TRANSFER_H
/*
 * One exchange on the wire, from the slot to the last byte: the request to the third party, its answer to the caller,
 * both streamed. Each side is read only as fast as the other takes it.
 */
#include "base/buf.h"
#include "http/parse.h"
#include "http/rewrite.h"
#include "http/target.h"
#include "http/write.h"
#include "server/conn.h"
#include "upstream/upstream.h"

enum transfer_end {
    TRANSFER_DONE,            /* the answer was passed on whole */
    TRANSFER_UPGRADED,        /* 101: a tunnel from here on */
    TRANSFER_UPSTREAM_CLOSED, /* it closed or reset without an answer */
    TRANSFER_BAD_RESPONSE,    /* what it answered is not HTTP */
    TRANSFER_TIMEOUT,         /* it did not answer in time */
    TRANSFER_BROKEN_OFF,      /* it broke off, or stalled, after the answer had begun */
    TRANSFER_SWALLOWED,       /* the answer was kept from the caller, as on_answer said */
};

/* Shared by all transfers of a loop. */
struct transfer_env {
    struct loop *loop;
    struct parse_limits parse;
    struct via via;
    char scratch[65536];
};

struct transfer {
    struct transfer_env *env;
    struct conn *conn;
    struct upstream *upstream;
    const struct message *request;
    const struct target *target;
    const struct policy *policy;
    void (*on_end)(struct transfer *transfer, enum transfer_end how); /* from the loop; once */
    /* Looks at the head of each final answer, before any of it goes to the caller. True: none of it shall. NULL = none. */
    bool (*on_answer)(struct transfer *transfer, const struct message *response);
    bool keep;              /* the request, for transfer_again(); a body of at most keep_body_bytes */
    int64_t keep_body_bytes;
    struct rewrite rewrite; /* is_served NULL: the answer is passed on as it is */
    const char *extra;      /* more response lines, or NULL */
    bool must_close;        /* the caller's connection ends with this answer */
    /* below: for reading only */
    bool starting;
    bool request_sent; /* whole */
    bool sending_failed;
    bool answer_begun; /* a final response head went to the caller */
    bool answer_close; /* it said Connection: close */
    bool reusable;     /* the upstream connection may carry another exchange */
    bool upgrade;      /* the request asked for one that is passed on */
    bool reading;
    bool over;
    bool swallowing; /* on_answer said so */
    unsigned again;  /* attempts after the first */
    size_t swallowed_bytes;
    int64_t kept_body_bytes;
    struct buf kept; /* the whole request so far, as it was sent */
    unsigned status;
    int64_t real_cost, left; /* by policy->cost_answer: what it cost, or what is left; below 0 = not said */
    enum framing answer_framing;
    enum parse_error error;
    uint64_t sent_bytes, received_bytes;
    struct mono first_byte;
    struct parse *parse;
    struct buf to_upstream;
    struct buf early; /* after an upgrade: what the third party sent behind its 101 */
    struct timer timer;
};

/* Sends the head and as much of the body as is here, in one send, on `upstream`. False: the connection was dead and no
 * byte left; it may be started again on another. */
bool transfer_start(struct transfer *transfer) MUST_CHECK;
/* The request is kept, and it was sent whole. */
bool transfer_can_repeat(const struct transfer *transfer);
/* After an end without an answer to the caller: transfer_start() on another connection sends the same request again. */
void transfer_again(struct transfer *transfer);
/* From the caller's connection. */
void transfer_body(struct transfer *transfer, struct slice data);
void transfer_body_end(struct transfer *transfer, struct slice trailers);
void transfer_caller_drained(struct transfer *transfer);
/* Frees what it holds, not itself; its upstream connection stays the owner's. */
void transfer_fini(struct transfer *transfer);

#endif
