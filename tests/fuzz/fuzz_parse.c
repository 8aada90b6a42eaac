/* links: src/http/chars.c src/http/chunks.c src/http/grammar.c src/http/head.c src/http/message.c src/http/parse.c src/http/section.c src/http/target.c src/base/buf.c src/base/mem.c src/base/must.c src/base/str.c */
/*
 * The parser, fed twice with the same bytes: as they came, and one by one. Where packets end is up to the network and to
 * whoever wants to get something past us, so both must come to the same end: the same heads, the same body, the same verdict.
 * The first byte says whether it is a request or the answer to one.
 */
#include "http/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 16 };

struct outcome {
    unsigned heads, ends;
    size_t body_bytes;
    uint64_t hash; /* of heads and body, in order */
    enum parse_error error;
    bool stopped;
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void mix(struct outcome *outcome, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        outcome->hash = (outcome->hash ^ (uint8_t)bytes[i]) * 1099511628211u;
}

static void take_head(struct parse *parse, struct outcome *outcome)
{
    struct message *message = parse_take_message(parse);
    outcome->heads++;
    mix(outcome, message->method.ptr, message->method.len);
    mix(outcome, message->target.ptr, message->target.len);
    for (unsigned i = 0; i < message->fields_count; i++) {
        mix(outcome, message->fields[i].name.ptr, message->fields[i].name.len);
        mix(outcome, message->fields[i].value.ptr, message->fields[i].value.len);
    }
    outcome->stopped |= message->status == 101;
    message_free(message);
}

/* One event; false when nothing more may be fed. */
static bool step(struct parse *parse, enum parse_event event, struct slice data, bool request, struct outcome *outcome)
{
    switch (event) {
    case PARSE_MORE:
        return true;
    case PARSE_HEAD:
        take_head(parse, outcome);
        return true;
    case PARSE_DATA:
        outcome->body_bytes += data.len;
        mix(outcome, data.ptr, data.len);
        return true;
    case PARSE_END:
        outcome->ends++;
        if (request)
            parse_reset(parse);
        return request && outcome->ends < MESSAGES_MAX && !outcome->stopped;
    case PARSE_ERROR:
        outcome->error = parse_error(parse);
        return false;
    }
    return false;
}

static struct outcome feed(const char *bytes, size_t size, size_t piece, bool request)
{
    static const struct parse_limits limits = {4096, 20};
    struct outcome outcome = {.hash = 14695981039346656037u};
    struct parse *parse = request ? parse_new_request(&limits) : parse_new_response(&limits);
    if (!request)
        parse_expect_response(parse, (struct slice){"GET", 3});
    bool more = true;
    while (more && size > 0) {
        size_t offered = piece < size ? piece : size, used = 0;
        struct slice data = {NULL, 0};
        enum parse_event event = parse_next(parse, bytes, offered, &used, &data);
        if (used > offered || (used == 0 && event == PARSE_MORE))
            abort();
        more = step(parse, event, data, request, &outcome);
        bytes += used;
        size -= used;
    }
    if (more)
        step(parse, parse_eof(parse), (struct slice){NULL, 0}, request, &outcome);
    parse_free(parse);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1 || size > 16384)
        return 0;
    const char *text = (const char *)bytes + 1;
    bool request = bytes[0] % 2 == 0;
    struct outcome whole = feed(text, size - 1, size, request), single = feed(text, size - 1, 1, request);
    if (whole.heads != single.heads || whole.ends != single.ends || whole.body_bytes != single.body_bytes ||
        whole.hash != single.hash || whole.error != single.error) {
        fprintf(stderr, "whole: %u heads, %u ends, %zu bytes, error %d; byte by byte: %u, %u, %zu, %d\n", whole.heads, whole.ends,
                whole.body_bytes, (int)whole.error, single.heads, single.ends, single.body_bytes, (int)single.error);
        abort();
    }
    return 0;
}
