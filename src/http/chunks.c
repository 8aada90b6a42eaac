/*
 *      .---------------------------------------------------------------.
 *      v                                                               |
 *     SIZE -> EXTENSION -> SIZE_END -> DATA -> DATA_END ---------------'
 *       '--------------------^   '---> TRAILERS
 *
 * The lines between the data are where chunked bodies are attacked: sizes that overflow, extensions without end, line
 * ends that only some take for one. So each byte of them is looked at here before llhttp, which does the arithmetic,
 * gets to see it. Extensions are skipped as the RFC demands (section 7.1.1) and llhttp never sees them: it knows less
 * of their syntax than the RFC allows. Data is counted, not looked at; llhttp steps over it, whatever its length.
 */
#include "chunks.h"

#include "chars.h"

enum {
    SIZE_DIGITS = 15,            /* below 2^60: no sum of them overflows in anybody's arithmetic */
    CHUNK_EXTENSION_BYTES = 256, /* nobody uses extensions, and without a limit they are a way to send for ever */
    MESSAGE_EXTENSIONS_BYTES = 16 * 1024,
};

static bool is_hex(unsigned char c)
{
    return chars_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void read_on(struct chunks *c, struct grammar *g, const char *in, size_t len)
{
    if (len > 0 && !grammar_read_chunked(g, in, len)) {
        c->error = PARSE_BAD_CHUNK;
    }
}

static size_t next_size(struct chunks *c, struct grammar *g, const char *in, size_t len)
{
    size_t n = 0;

    while (n < len && is_hex((unsigned char)in[n]) && c->digits <= SIZE_DIGITS) {
        n++;
        c->digits++;
    }
    if (c->digits > SIZE_DIGITS || (n < len && c->digits == 0)) {
        c->error = PARSE_BAD_CHUNK;
        return n;
    }
    read_on(c, g, in, n);
    if (n < len) {
        c->state = in[n] == '\r' ? CHUNKS_SIZE_END : CHUNKS_EXTENSION;
    }
    return n;
}

static enum parse_error look_at(struct chunks *c, char byte)
{
    if (!c->extension_begun && !is_blank(byte)) {
        c->extension_begun = true;
        if (byte != ';') {
            return PARSE_BAD_CHUNK;
        }
    }
    if (chars_is_control((unsigned char)byte)) {
        return PARSE_BAD_CHUNK;
    }
    c->extension_bytes++;
    c->extensions_bytes++;
    if (c->extension_bytes > CHUNK_EXTENSION_BYTES || c->extensions_bytes > MESSAGE_EXTENSIONS_BYTES) {
        return PARSE_BAD_CHUNK_EXTENSIONS;
    }
    return PARSE_OK;
}

static size_t next_extension(struct chunks *c, const char *in, size_t len)
{
    size_t n = 0;

    while (n < len && in[n] != '\r' && c->error == PARSE_OK) {
        c->error = look_at(c, in[n++]);
    }
    if (n < len && c->error == PARSE_OK) {
        c->error = c->extension_begun ? PARSE_OK : PARSE_BAD_CHUNK; /* blanks alone are none */
        c->state = CHUNKS_SIZE_END;
    }
    return n;
}

static size_t next_data(struct chunks *c, struct grammar *g, const char *in, size_t len)
{
    size_t n = c->left < len ? (size_t)c->left : len;

    c->left -= n;
    if (c->left == 0) {
        c->state = CHUNKS_DATA_END;
    }
    read_on(c, g, in, n);
    return n;
}

static void end_line(struct chunks *c, const struct grammar *g)
{
    if (c->state == CHUNKS_SIZE_END) {
        c->left = g->chunk_bytes;
        c->state = c->left > 0 ? CHUNKS_DATA : CHUNKS_TRAILERS;
        return;
    }
    c->state = CHUNKS_SIZE;
    c->digits = 0;
    c->extension_bytes = 0;
    c->extension_begun = false;
}

/* A byte of a CR LF, and nothing else. */
static size_t next_end(struct chunks *c, struct grammar *g, const char *in)
{
    bool cr = c->cr;

    if (in[0] != (cr ? '\n' : '\r')) {
        c->error = PARSE_BAD_CHUNK;
        return 0;
    }
    read_on(c, g, in, 1);
    c->cr = !cr;
    if (cr) {
        end_line(c, g);
    }
    return 1;
}

static size_t next_piece(struct chunks *c, struct grammar *g, const char *in, size_t len)
{
    switch (c->state) {
    case CHUNKS_SIZE:
        return next_size(c, g, in, len);
    case CHUNKS_EXTENSION:
        return next_extension(c, in, len);
    case CHUNKS_DATA:
        return next_data(c, g, in, len);
    case CHUNKS_SIZE_END:
    case CHUNKS_DATA_END:
        return next_end(c, g, in);
    case CHUNKS_TRAILERS:
        break;
    }
    wrong("chunks are over");
}

enum parse_event chunks_next(struct chunks *c, struct grammar *g, const char *in, size_t len, size_t *used,
                             struct slice *data)
{
    size_t done = 0;

    while (done < len && c->state != CHUNKS_TRAILERS && c->error == PARSE_OK) {
        bool is_data = c->state == CHUNKS_DATA;
        size_t n = next_piece(c, g, in + done, len - done);
        if (is_data && c->error == PARSE_OK) {
            *data = (struct slice){in + done, n};
            *used += done + n;
            return PARSE_DATA;
        }
        done += n;
    }
    *used += done;
    return c->error == PARSE_OK ? PARSE_MORE : PARSE_ERROR;
}
