#ifndef SLUICE_HTTP_GRAMMAR_H
#define SLUICE_HTTP_GRAMMAR_H
/*
 * llhttp, held on a short lead: it is given exactly one head, then piece by piece the chunks of a body, and tells what
 * it read. Nothing else of a connection passes through it.
 */
#include "http/message.h"

#include <llhttp.h>

struct grammar {
    llhttp_t llhttp;
    struct field *fields; /* where field lines go; zeroed memory */
    unsigned fields_count;
    unsigned fields_room;
    uint64_t chunk_bytes; /* the size in the last chunk line */
    bool head_read;
};

/* Before each message. */
void grammar_begin(struct grammar *g, bool response);
/* Of a request: its first line, before grammar_read_head() is given the rest. `minor` is the version's, 0 or 1. */
bool grammar_read_request_line(struct grammar *g, bool is_connect, struct slice target, unsigned minor);
/* A whole head, blank line included, of a request without its first line; more than `room` fields are an error. False: grammar_error() knows more. */
bool grammar_read_head(struct grammar *g, const char *head, size_t len, struct field *fields, unsigned room);
/* The next bytes of a chunked body, in pieces of any size. */
bool grammar_read_chunked(struct grammar *g, const char *bytes, size_t len);

llhttp_errno_t grammar_error(const struct grammar *g);
bool grammar_is_chunked(const struct grammar *g);
uint64_t grammar_content_length(const struct grammar *g);

#endif
