#include "proxy/exchange_answer.h"

#include "base/log.h"

#include <string.h>

bool exchange_send_refusal(struct exchange *e, const struct refusal *refusal)
{
    struct conn *conn = e->caller->conn;
    struct refusal full = *refusal;
    struct buf answer = {0};
    /* a refused CONNECT closes: what follows it may be meant for somebody else (RFC 9931) */
    bool close = e->connect || !conn_request_done(conn) || !e->request->keep_alive || e->env->draining ||
                 refusal->verdict == VERDICT_BAD_REQUEST || refusal->verdict == VERDICT_DRAINING;

    if (e->policy != NULL) {
        full.destination = e->bucket_name;
    }
    refusal_write(&answer, &full, close, slice_is(e->request->method, "HEAD"));
    conn_send(conn, buf_ptr(&answer), buf_len(&answer));
    buf_fini(&answer);
    e->verdict = refusal->verdict;
    e->verdict_word = refusal->word;
    e->status = refusal_status(refusal);
    return close;
}

/* An upstream error's word in the log is "upstream_" and its RFC 9209 name, but for the one that is our refusal. */
struct refusal exchange_upstream_refusal(struct exchange *e, enum upstream_error error, const char *detail)
{
    static const char *const words[] = {[UPSTREAM_OK] = NULL,
#define X(name, status, type, text) [UPSTREAM_BAD_##name] = "upstream_" type,
                                        UPSTREAM_ERRORS(X)
#undef X
    };

    e->detail = upstream_error_text(error);
    log_line(LOG_DEBUG, "upstream_failed", LOG_STR("host", e->origin.host),
             LOG_STR("why", detail != NULL ? detail : "-"), LOG_END);
    return (struct refusal){
        .verdict = VERDICT_UPSTREAM,
        .status = upstream_error_status(error),
        .word = error == UPSTREAM_BAD_PRIVATE ? "private_address" : words[error],
        .error = upstream_error_type(error),
        .title = upstream_error_text(error),
        .retry_after_us = error == UPSTREAM_BAD_RESOURCES ? CLOCK_SECOND_US : 0,
    };
}

bool exchange_send_self(struct exchange *e)
{
    struct buf head = {0};
    bool close = !conn_request_done(e->caller->conn) || !e->request->keep_alive || e->env->draining;

    self_write(&head, close);
    conn_send(e->caller->conn, buf_ptr(&head), buf_len(&head));
    buf_fini(&head);
    e->verdict = VERDICT_SELF;
    e->status = 200;
    return close;
}
