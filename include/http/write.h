#ifndef SLUICE_HTTP_WRITE_H
#define SLUICE_HTTP_WRITE_H
/*
 * Heads rebuilt from their parsed parts, for the next hop: order, case and duplicates kept; hop-by-hop fields (RFC 9110 section
 * 7.6.1, those that Connection names too) and the old framing left out; our framing, Via and Connection put in.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "http/message.h"
#include "http/target.h"

/* Our pseudonym in Via; also how a loop is seen. */
struct via {
    const char *pseudonym; /* a token, unique to this fleet member */
};

/* A request for the third party, in origin-form; `framing` NONE, LENGTH or CHUNKED; `upgrade` keeps Connection: Upgrade.
 * Max-Forwards of TRACE and OPTIONS is counted down (the caller has checked that it is not 0). Proxy-Authorization is dropped. */
void write_request_head(struct buf *out, const struct message *request, const struct target *target, const struct via *via,
                        bool upgrade);

struct response_form {
    enum framing framing;   /* towards the caller */
    bool close;             /* say Connection: close */
    bool keep_alive_10;     /* say Connection: keep-alive, to an HTTP/1.0 caller that asked for it */
    bool upgrade;           /* 101: keep Connection: Upgrade and Upgrade */
    const char *extra;      /* more lines, "Name: value\r\n" each, or NULL */
};
/* A response for the caller (also 1xx). The version is always HTTP/1.1 (RFC 9110 section 6.2). */
void write_response_head(struct buf *out, const struct message *response, const struct via *via, const struct response_form *form);

/* Before and after a piece of a chunked body; the end, with trailer lines. */
void write_chunk_head(struct buf *out, size_t len);
void write_chunk_tail(struct buf *out);
void write_last_chunk(struct buf *out, struct slice trailers);

/* A Date field (RFC 9110 section 6.6.1), whole line. */
void write_date(struct buf *out, struct wall at);

/* How a Via field shows this pseudonym: a loop through ourselves (RFC 9110 section 7.6.3). */
bool via_has_loop(const struct message *request, const struct via *via);

#endif
