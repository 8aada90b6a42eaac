#ifndef SLUICE_HTTP_CHUNKS_H
#define SLUICE_HTTP_CHUNKS_H
/* A chunked body (RFC 9112 section 7.1), up to and without the trailer section. */
#include "grammar.h"
#include "http/parse.h"

enum chunks_state { CHUNKS_SIZE, CHUNKS_EXTENSION, CHUNKS_SIZE_END, CHUNKS_DATA, CHUNKS_DATA_END, CHUNKS_TRAILERS };

/* Zero-initialised memory is the start of a body. */
struct chunks {
    enum chunks_state state;
    enum parse_error error;
    uint64_t left;            /* in CHUNKS_DATA */
    size_t extensions_bytes;  /* of all chunks of this message */
    uint16_t extension_bytes; /* of this chunk */
    uint8_t digits;
    bool extension_begun; /* its semicolon came */
    bool cr;              /* in an END: its CR came */
};

/* Uses bytes up to the next event: PARSE_DATA, PARSE_ERROR, or PARSE_MORE, which also means the last chunk when
 * `state` is CHUNKS_TRAILERS then. */
enum parse_event chunks_next(struct chunks *c, struct grammar *g, const char *in, size_t len, size_t *used,
                             struct slice *data);

#endif
