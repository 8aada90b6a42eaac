#ifndef SLUICE_HTTP_PARSE_H
#define SLUICE_HTTP_PARSE_H
/*
 * A parser for one direction of one connection, fed with whatever bytes came, answering one event at a time.
 * llhttp in strict mode does the grammar; on top of it come our own checks (RFC 9112): obs-fold, Host, version,
 * header count and size, chunk extensions, trailers, framing conflicts.
 *
 *   while (len > 0) {
 *       event = parse_next(p, bytes, len, &used, &data);   bytes += used; len -= used;
 *       ...
 *   }
 *
 * That loop finds every event but one: the end of a message without body (FRAMING_NONE, or a length of 0) needs no byte, and
 * comes with the next call, `len` may be 0. To have it find the end of a body of known length, PARSE_DATA with its last byte
 * leaves that byte unused, and PARSE_END uses it.
 */
#include "base/str.h"
#include "http/message.h"

struct parse;

enum parse_event {
    PARSE_MORE,  /* everything was used, nothing to tell */
    PARSE_HEAD,  /* a head is complete: parse_take_message() */
    PARSE_DATA,  /* body bytes: `data` lies within the input */
    PARSE_END,   /* the message is complete; input after `used` belongs to the next one (or to the tunnel) */
    PARSE_ERROR, /* parse_error() says why; the parser is of no more use */
};

/* X(name, status a caller gets, what to do) */
#define PARSE_ERRORS(X)                                                                                              \
    X(SYNTAX, 400, "the message is not valid HTTP/1.1")                                                              \
    X(REQUEST_LINE, 400, "the request line is not METHOD TARGET HTTP/1.1")                                           \
    X(METHOD, 501, "no method is written in small letters")                                                          \
    X(VERSION, 505, "only HTTP/1.0 and HTTP/1.1 are spoken")                                                         \
    X(TARGET_TOO_LONG, 414, "the request target is longer than max_head_bytes allows")                               \
    X(HEAD_TOO_LARGE, 431, "the head is larger than max_head_bytes")                                                 \
    X(TOO_MANY_FIELDS, 431, "the head has more fields than max_headers")                                             \
    X(FIELD, 400, "a header field is malformed")                                                                     \
    X(FOLD, 400, "a header field is folded over several lines")                                                      \
    X(HOST, 400, "exactly one valid Host field is needed")                                                           \
    X(CONTENT_LENGTH, 400, "Content-Length is not one plain number")                                                 \
    X(TRANSFER_ENCODING, 400, "Transfer-Encoding is not understood")                                                 \
    X(TRANSFER_CODING, 501, "only the transfer coding chunked is understood")                                       \
    X(BOTH_FRAMINGS, 400, "Content-Length and Transfer-Encoding together")                                           \
    X(CHUNK, 400, "a chunk is malformed")                                                                            \
    X(CHUNK_EXTENSIONS, 400, "chunk extensions are too long")                                                        \
    X(TRAILER, 400, "the trailer section is malformed or too large")                                                 \
    X(TRUNCATED, 400, "the connection ended inside a message")                                                       \
    X(STATUS_LINE, 502, "the status line is malformed")                                                              \
    X(SWITCH, 502, "it switched protocols unasked")

enum parse_error {
    PARSE_OK,
#define X(name, status, text) PARSE_BAD_##name,
    PARSE_ERRORS(X)
#undef X
};
unsigned parse_error_status(enum parse_error error);   /* for a request; for a response the caller always gets 502 */
const char *parse_error_text(enum parse_error error);

struct parse_limits {
    size_t max_head_bytes;
    unsigned max_fields;
};

/* `limits` must outlive the parser. */
struct parse *parse_new_request(const struct parse_limits *limits);
struct parse *parse_new_response(const struct parse_limits *limits);
void parse_free(struct parse *parse);

/* Before each response (not before each 1xx): the method of the request it answers ("HEAD" has no body). */
void parse_expect_response(struct parse *parse, struct slice method);
/* Requests: call after PARSE_END to read the next one. Heads of 1xx responses end with PARSE_END and are continued by
 * themselves; 101 too, after which the bytes are the tunnel's and the parser must not be fed. */
void parse_reset(struct parse *parse);

/* Uses bytes from `in` up to the next event. CONNECT requests end (PARSE_END) right after their head, whatever follows. */
enum parse_event parse_next(struct parse *parse, const char *in, size_t len, size_t *used, struct slice *data);
/* The peer closed: PARSE_END when that ends the message (until close), PARSE_MORE when between messages, else PARSE_ERROR. */
enum parse_event parse_eof(struct parse *parse);

/* The head of the last PARSE_HEAD; the caller owns it. */
struct message *parse_take_message(struct parse *parse);
/* After PARSE_END of a chunked message: the trailer fields that may be passed on, as "Name: value\r\n" lines. Framing, routing,
 * authentication, and hop-by-hop names are dropped (RFC 9110 section 6.5.1). Valid until the next parse_next() or parse_reset(). */
struct slice parse_trailers(const struct parse *parse);
enum parse_error parse_error(const struct parse *parse);
/* True from the first byte of a message until its end. */
bool parse_in_message(const struct parse *parse);

#endif
