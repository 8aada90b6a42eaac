#ifndef SLUICE_TESTS_INBOUND_REQUEST_H
#define SLUICE_TESTS_INBOUND_REQUEST_H
/* A request for the tests of the inbound side, read by the real parser from its text. */
#include "base/mem.h"
#include "http/parse.h"
#include "proxy/inbound_request.h"

#include <check.h>
#include <string.h>

struct sample {
    struct inbound_request request;
    struct message *message;
    struct addr peer;
};

/* `lines` are header lines, each with its CRLF. The peer is trusted when `inbound` says so. */
static inline struct sample *sample_new(const struct inbound_conf *inbound, const char *method, const char *target,
                                        const char *peer, const char *lines)
{
    static const struct parse_limits limits = {.max_head_bytes = 32768, .max_fields = 100};
    struct sample *s = mem_zalloc(sizeof(*s));
    char *text = mem_printf("%s %s HTTP/1.1\r\nHost: api.example\r\n%s\r\n", method, target, lines);
    struct parse *parse = parse_new_request(&limits);
    struct slice data;
    size_t used;

    ck_assert_int_eq(parse_next(parse, text, strlen(text), &used, &data), PARSE_HEAD);
    s->message = parse_take_message(parse);
    parse_free(parse);
    mem_free(text);
    ck_assert(addr_parse_literal(slice_of(peer), 4000, &s->peer));
    s->request = (struct inbound_request){
        .message = s->message, .method = s->message->method, .path = s->message->target, .peer = &s->peer};
    s->request.trusted = inbound_trusts(inbound, &s->peer);
    return s;
}

static inline void sample_free(struct sample *s)
{
    message_free(s->message);
    mem_free(s);
}

#endif
