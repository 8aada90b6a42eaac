#ifndef TESTS_PARSE_RUN_H
#define TESTS_PARSE_RUN_H
/*
 * Feeds a parser and writes down what it said, in a line that reads the same whatever pieces the bytes came in:
 *
 *   GET /a length 3 'abc' .                a request with a body, and its end
 *   200 chunked 'abc' {X: 1\r\n} .         a response with a trailer field
 *   !HOST                                  an error, which ends it
 *   +5                                     bytes left over after the end
 *
 * Words after the framing: 1.0, close, expect, upgrade. Requests follow one another on one connection; after a CONNECT
 * or a final response, what is left is counted.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "http/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum run_kind { RUN_REQUEST, RUN_RESPONSE, RUN_RESPONSE_TO_HEAD };

struct run {
    enum run_kind kind;
    struct parse *parse;
    struct buf said;
    bool in_data;
    bool tunnel;
    bool over;
    bool used_too_much;
    bool data_outside;
};

static const char *run_error_name(enum parse_error error)
{
    switch (error) {
    case PARSE_OK:
        return "OK";
#define X(name, status, text)                                                                                          \
    case PARSE_BAD_##name:                                                                                             \
        return #name;
        PARSE_ERRORS(X)
#undef X
    }
    return "?";
}

static void run_say(struct run *r, const char *word)
{
    if (r->in_data) {
        buf_add_str(&r->said, "'");
        r->in_data = false;
    }
    if (buf_len(&r->said) > 0) {
        buf_add_str(&r->said, " ");
    }
    buf_add_str(&r->said, word);
}

static void run_say_data(struct run *r, struct slice data)
{
    if (!r->in_data) {
        run_say(r, "'");
        r->in_data = true;
    }
    buf_add(&r->said, data.ptr, data.len);
}

static void run_say_framing(struct run *r, const struct message *m)
{
    static const char *const framings[] = {"none", "length", "chunked", "until-close"};
    char number[32];

    run_say(r, framings[m->framing]);
    if (m->framing == FRAMING_LENGTH) {
        snprintf(number, sizeof(number), "%" PRIu64, m->content_length);
        run_say(r, number);
    }
    if (m->minor == 0) {
        run_say(r, "1.0");
    }
    if (!m->keep_alive) {
        run_say(r, "close");
    }
    if (m->expect_continue) {
        run_say(r, "expect");
    }
    if (m->upgrade) {
        run_say(r, "upgrade");
    }
}

static void run_say_head(struct run *r)
{
    struct message *m = parse_take_message(r->parse);
    char *start = r->kind == RUN_REQUEST
                      ? mem_printf("%.*s %.*s", (int)m->method.len, m->method.ptr, (int)m->target.len, m->target.ptr)
                      : mem_printf("%u", m->status);

    run_say(r, start);
    mem_free(start);
    run_say_framing(r, m);
    r->tunnel = r->kind == RUN_REQUEST ? slice_is(m->method, "CONNECT") : m->status >= 200 || m->status == 101;
    message_free(m);
}

static void run_say_end(struct run *r)
{
    struct slice trailers = parse_trailers(r->parse);

    if (trailers.len > 0) {
        run_say(r, "{");
        buf_add(&r->said, trailers.ptr, trailers.len);
        buf_add_str(&r->said, "}");
    }
    run_say(r, ".");
    if (r->tunnel) {
        r->over = true;
    } else if (r->kind == RUN_REQUEST) {
        parse_reset(r->parse);
    }
}

/* One event; false when there is nothing more to be had from these bytes. */
static bool run_step(struct run *r, const char *in, size_t len, size_t *used)
{
    struct slice data;
    enum parse_event event = parse_next(r->parse, in, len, used, &data);

    r->used_too_much = r->used_too_much || *used > len || (event == PARSE_MORE && *used != len);
    switch (event) {
    case PARSE_HEAD:
        run_say_head(r);
        return true;
    case PARSE_DATA:
        r->data_outside = r->data_outside || data.ptr < in || data.ptr + data.len > in + len || data.len == 0;
        run_say_data(r, data);
        return true;
    case PARSE_END:
        run_say_end(r);
        return !r->over;
    case PARSE_ERROR:
        run_say(r, "!");
        buf_add_str(&r->said, run_error_name(parse_error(r->parse)));
        r->over = true;
        r->tunnel = false;
        return false;
    case PARSE_MORE:
        break;
    }
    return false;
}

static void run_eof(struct run *r)
{
    switch (parse_eof(r->parse)) {
    case PARSE_END:
        run_say(r, "eof");
        run_say_end(r);
        break;
    case PARSE_ERROR:
        run_say(r, "!");
        buf_add_str(&r->said, run_error_name(parse_error(r->parse)));
        break;
    default:
        break;
    }
}

/* Bytes come in pieces that end at the places in `cuts`; each piece together with what the one before left unused. */
static void run_pieces(struct run *r, const char *in, size_t len, const size_t *cuts, size_t cuts_count)
{
    size_t at = 0;

    for (size_t i = 0; i <= cuts_count && !r->over; i++) {
        size_t end = i < cuts_count ? cuts[i] : len;
        bool more = true;
        while (more) {
            size_t used = 0;
            char *copy = malloc(end > at ? end - at : 1); /* of just that size: reading past it is noticed */
            memcpy(copy, in + at, end - at);
            more = run_step(r, copy, end - at, &used);
            free(copy);
            at += used;
        }
    }
    if (r->tunnel && r->over && at < len) {
        char *left = mem_printf("+%zu", len - at);
        run_say(r, left);
        mem_free(left);
    } else if (!r->over) {
        run_eof(r);
    }
}

/* The transcript, owned by the caller; NULL when the parser broke its promises about `used` and `data`. */
static char *run(enum run_kind kind, const struct parse_limits *limits, const char *in, size_t len, const size_t *cuts,
                 size_t cuts_count)
{
    struct run r = {.kind = kind};
    char *said;

    r.parse = kind == RUN_REQUEST ? parse_new_request(limits) : parse_new_response(limits);
    if (kind != RUN_REQUEST) {
        parse_expect_response(r.parse, slice_of(kind == RUN_RESPONSE_TO_HEAD ? "HEAD" : "GET"));
    }
    run_pieces(&r, in, len, cuts, cuts_count);
    if (r.in_data) {
        buf_add_str(&r.said, "'");
    }
    said = mem_strndup(r.said.data != NULL ? buf_ptr(&r.said) : "", buf_len(&r.said));
    buf_fini(&r.said);
    parse_free(r.parse);
    if (r.used_too_much || r.data_outside) {
        mem_free(said);
        return NULL;
    }
    return said;
}

static inline char *run_whole(enum run_kind kind, const struct parse_limits *limits, const char *in, size_t len)
{
    return run(kind, limits, in, len, NULL, 0);
}

static inline char *run_bytewise(enum run_kind kind, const struct parse_limits *limits, const char *in, size_t len)
{
    size_t *cuts = mem_alloc((len + 1) * sizeof(*cuts));
    char *said;

    for (size_t i = 0; i < len; i++) {
        cuts[i] = i + 1;
    }
    said = run(kind, limits, in, len, cuts, len);
    mem_free(cuts);
    return said;
}

#endif
