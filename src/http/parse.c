/*
 * From bytes to events. Who does what:
 *
 *   section   collects a head, or trailers, up to the blank line; refuses bytes that no line may hold
 *   head      reads a whole head, with grammar (llhttp) for the fields; decides the framing
 *   chunks    walks through a chunked body, again with llhttp
 *   trailers  reads a whole trailer section and keeps what may travel on
 *   here      which of them has its turn
 *
 *                        .------------------- another 1xx --------------------.
 *                        v                                                    |
 *   parse_reset() ---> BETWEEN -> HEAD -.-> LENGTH -------------------> ENDING -> DONE
 *   parse_expect_..()                   |-> CHUNKED -> TRAILERS --.-------'        ^
 *                                       '-> UNTIL_CLOSE --------- parse_eof() -----'
 *
 * Bodies of known length never pass through llhttp: bytes are counted. A message's end is an event of its own, yet
 * needs no byte. So that a loop over the input finds it, the last byte of such a body is handed out but stays unused
 * until PARSE_END; only a head without body has its end for nothing.
 *
 * Between messages a parser holds no memory but its own.
 */
#include "http/parse.h"

#include "base/buf.h"
#include "base/mem.h"
#include "chunks.h"
#include "head.h"
#include "hop.h"
#include "section.h"
#include "trailers.h"

enum {
    EMPTY_LINES = 4,        /* before a request: some old clients send them after a body (RFC 9112 section 2.2) */
    INTERIM_RESPONSES = 32, /* before one final response */
};

enum state { BETWEEN, HEAD, LENGTH, CHUNKED, TRAILERS, UNTIL_CLOSE, ENDING, DONE, FAILED };

#define PARSE_MAGIC 0x70617273u

struct parse {
    uint32_t magic;
    bool response;
    bool to_head;   /* the request to be answered is a HEAD */
    bool interim;   /* this response is a 1xx, but not 101 */
    bool held_back; /* the body's last byte was told but not used */
    bool empty_cr;  /* in an empty line before a request, after its CR */
    uint8_t empty_lines;
    uint8_t interims;
    enum state state;
    enum parse_error error;
    const struct parse_limits *limits;
    uint64_t left; /* in LENGTH */
    struct section section;
    struct grammar grammar;
    struct chunks chunks;
    struct message *message; /* not yet taken */
    struct buf nominees;     /* with chunks: what Connection named, comma after comma */
    struct buf trailers;
};

static const struct section_kind request_head = {
    .first_line = head_check_request_line,
    .line_ends = PARSE_BAD_SYNTAX,
    .first_control = PARSE_BAD_REQUEST_LINE,
    .control = PARSE_BAD_FIELD,
    .fold = PARSE_BAD_FOLD,
    .first_too_long = PARSE_BAD_TARGET_TOO_LONG,
    .too_long = PARSE_BAD_HEAD_TOO_LARGE,
    .too_many = PARSE_BAD_TOO_MANY_FIELDS,
};

static const struct section_kind response_head = {
    .first_line = head_check_status_line,
    .line_ends = PARSE_BAD_SYNTAX,
    .first_control = PARSE_BAD_STATUS_LINE,
    .control = PARSE_BAD_FIELD,
    .fold = PARSE_BAD_FOLD,
    .first_too_long = PARSE_BAD_STATUS_LINE,
    .too_long = PARSE_BAD_HEAD_TOO_LARGE,
    .too_many = PARSE_BAD_TOO_MANY_FIELDS,
};

static const struct section_kind trailer_section = {
    .first_line = NULL,
    .line_ends = PARSE_BAD_TRAILER,
    .first_control = PARSE_BAD_TRAILER,
    .control = PARSE_BAD_TRAILER,
    .fold = PARSE_BAD_TRAILER,
    .first_too_long = PARSE_BAD_TRAILER,
    .too_long = PARSE_BAD_TRAILER,
    .too_many = PARSE_BAD_TRAILER,
};

/* ---- errors ---- */

unsigned parse_error_status(enum parse_error error)
{
    switch (error) {
    case PARSE_OK:
        return 200;
#define X(name, status, text)                                                                                          \
    case PARSE_BAD_##name:                                                                                             \
        return status;
        PARSE_ERRORS(X)
#undef X
    }
    return 400;
}

const char *parse_error_text(enum parse_error error)
{
    switch (error) {
    case PARSE_OK:
        return "no error";
#define X(name, status, text)                                                                                          \
    case PARSE_BAD_##name:                                                                                             \
        return text;
        PARSE_ERRORS(X)
#undef X
    }
    return "unknown";
}

static void forget(struct parse *p)
{
    section_fini(&p->section);
    message_free(p->message);
    p->message = NULL;
    buf_fini(&p->nominees);
    buf_fini(&p->trailers);
    p->chunks = (struct chunks){0};
    p->held_back = false;
}

static enum parse_event fail(struct parse *p, enum parse_error error)
{
    forget(p);
    p->state = FAILED;
    p->error = error;
    return PARSE_ERROR;
}

/* ---- lifetime ---- */

static struct parse *new_parse(const struct parse_limits *limits, bool response)
{
    struct parse *p = mem_zalloc(sizeof(*p));

    p->magic = PARSE_MAGIC;
    p->limits = limits;
    p->response = response;
    return p;
}

struct parse *parse_new_request(const struct parse_limits *limits)
{
    return new_parse(limits, false);
}

struct parse *parse_new_response(const struct parse_limits *limits)
{
    return new_parse(limits, true);
}

void parse_free(struct parse *p)
{
    if (p != NULL) {
        must_be(p, PARSE_MAGIC);
        forget(p);
        p->magic = 0;
        mem_free(p);
    }
}

void parse_reset(struct parse *p)
{
    must_be(p, PARSE_MAGIC);
    forget(p);
    p->state = BETWEEN;
    p->error = PARSE_OK;
    p->to_head = false;
    p->interim = false;
    p->empty_cr = false;
    p->empty_lines = 0;
    p->interims = 0;
}

void parse_expect_response(struct parse *p, struct slice method)
{
    parse_reset(p);
    p->to_head = slice_is(method, "HEAD");
}

/* ---- heads ---- */

/* The message may be gone when the trailers come. */
static void keep_nominees(struct parse *p)
{
    struct hop hop;

    hop_read(&hop, p->message);
    for (unsigned i = 0; i < hop.count; i++) {
        buf_add(&p->nominees, hop.nominees[i].ptr, hop.nominees[i].len);
        buf_add(&p->nominees, ",", 1);
    }
}

static void begin_body(struct parse *p)
{
    switch (p->message->framing) {
    case FRAMING_LENGTH:
        p->left = p->message->content_length;
        p->state = p->left > 0 ? LENGTH : ENDING;
        break;
    case FRAMING_CHUNKED:
        keep_nominees(p);
        p->state = CHUNKED;
        break;
    case FRAMING_UNTIL_CLOSE:
        p->state = UNTIL_CLOSE;
        break;
    case FRAMING_NONE:
        p->state = ENDING;
        break;
    }
}

static enum parse_error read_head(struct parse *p, struct message *m, unsigned fields_count)
{
    enum parse_error error;

    grammar_begin(&p->grammar, p->response);
    if (!p->response) {
        return head_read_request(&p->grammar, m, fields_count);
    }
    error = head_read_response(&p->grammar, m, fields_count, p->to_head);
    p->interim = m->status < 200 && m->status != 101;
    if (error == PARSE_OK && p->interim && ++p->interims > INTERIM_RESPONSES) {
        return PARSE_BAD_SYNTAX;
    }
    return error;
}

static enum parse_event end_head(struct parse *p)
{
    unsigned fields_count = p->section.lines - 1;
    struct message *m = mem_zalloc(sizeof(*m));

    p->message = m;
    m->head_bytes = p->section.total;
    m->head = section_give(&p->section);
    if (p->response) {
        m->head_bytes = head_close_names(m->head, m->head_bytes);
    }
    enum parse_error error = read_head(p, m, fields_count);
    if (error != PARSE_OK) {
        return fail(p, error);
    }
    begin_body(p);
    return PARSE_HEAD;
}

static enum parse_event next_head(struct parse *p, const char *in, size_t len, size_t *used)
{
    const struct section_kind *kind = p->response ? &response_head : &request_head;

    *used += section_take(&p->section, kind, p->limits, in, len);
    if (p->section.error != PARSE_OK) {
        return fail(p, p->section.error);
    }
    return p->section.whole ? end_head(p) : PARSE_MORE;
}

/* Skips empty lines; they don't begin a message. */
static enum parse_event next_message(struct parse *p, const char *in, size_t len, size_t *used)
{
    size_t i = 0;

    buf_fini(&p->trailers);
    for (; !p->response && i < len; i++) {
        if (p->empty_cr) {
            if (in[i] != '\n') {
                return fail(p, PARSE_BAD_SYNTAX);
            }
            p->empty_cr = false;
            p->empty_lines++;
        } else if (in[i] == '\r' && p->empty_lines < EMPTY_LINES) {
            p->empty_cr = true;
        } else {
            break;
        }
    }
    *used += i;
    if (i == len) {
        return PARSE_MORE;
    }
    p->state = HEAD;
    return next_head(p, in + i, len - i, used);
}

/* ---- bodies ---- */

static enum parse_event next_of_length(struct parse *p, const char *in, size_t len, size_t *used, struct slice *data)
{
    size_t n = p->left < len ? (size_t)p->left : len;

    *data = (struct slice){in, n};
    p->left -= n;
    if (p->left == 0) {
        p->state = ENDING;
        p->held_back = true;
        n--;
    }
    *used += n;
    return PARSE_DATA;
}

static struct slice text_of(const struct buf *buf)
{
    return (struct slice){buf->data != NULL ? buf_ptr(buf) : "", buf_len(buf)};
}

static enum parse_event end_message(struct parse *p)
{
    p->held_back = false;
    p->state = p->interim ? BETWEEN : DONE;
    return PARSE_END;
}

static enum parse_event next_trailers(struct parse *p, const char *in, size_t len, size_t *used)
{
    *used += section_take(&p->section, &trailer_section, p->limits, in, len);
    if (p->section.error != PARSE_OK) {
        return fail(p, p->section.error);
    }
    if (!p->section.whole) {
        return PARSE_MORE;
    }
    struct slice section = {p->section.bytes, p->section.total};
    struct slice nominees = text_of(&p->nominees);
    if (!trailers_read(section, nominees, &p->trailers)) {
        return fail(p, PARSE_BAD_TRAILER);
    }
    section_fini(&p->section);
    buf_fini(&p->nominees);
    return end_message(p);
}

static enum parse_event next_chunked(struct parse *p, const char *in, size_t len, size_t *used, struct slice *data)
{
    enum parse_event event = chunks_next(&p->chunks, &p->grammar, in, len, used, data);

    if (event == PARSE_ERROR) {
        return fail(p, p->chunks.error);
    }
    if (event == PARSE_MORE && p->chunks.state == CHUNKS_TRAILERS) {
        p->state = TRAILERS;
        if (*used < len) {
            return next_trailers(p, in + *used, len - *used, used);
        }
    }
    return event;
}

static enum parse_event next_ending(struct parse *p, size_t len, size_t *used)
{
    if (p->held_back && len == 0) {
        return PARSE_MORE;
    }
    *used = p->held_back ? 1 : 0;
    return end_message(p);
}

/* ---- events ---- */

enum parse_event parse_next(struct parse *p, const char *in, size_t len, size_t *used, struct slice *data)
{
    must_be(p, PARSE_MAGIC);
    *used = 0;
    *data = (struct slice){NULL, 0};
    if (p->state == ENDING) {
        return next_ending(p, len, used);
    }
    if (p->state == FAILED) {
        return PARSE_ERROR;
    }
    if (len == 0) {
        return PARSE_MORE;
    }
    switch (p->state) {
    case BETWEEN:
        return next_message(p, in, len, used);
    case HEAD:
        return next_head(p, in, len, used);
    case LENGTH:
        return next_of_length(p, in, len, used, data);
    case CHUNKED:
        return next_chunked(p, in, len, used, data);
    case TRAILERS:
        return next_trailers(p, in, len, used);
    case UNTIL_CLOSE:
        *used = len;
        *data = (struct slice){in, len};
        return PARSE_DATA;
    default: /* DONE: bytes that nobody asked for */
        return fail(p, PARSE_BAD_SYNTAX);
    }
}

enum parse_event parse_eof(struct parse *p)
{
    must_be(p, PARSE_MAGIC);
    switch (p->state) {
    case ENDING:
    case UNTIL_CLOSE:
        return end_message(p);
    case BETWEEN:
    case DONE:
        return PARSE_MORE;
    case FAILED:
        return PARSE_ERROR;
    default:
        return fail(p, PARSE_BAD_TRUNCATED);
    }
}

struct message *parse_take_message(struct parse *p)
{
    must_be(p, PARSE_MAGIC);
    struct message *m = p->message;
    p->message = NULL;
    return m;
}

struct slice parse_trailers(const struct parse *p)
{
    must_be(p, PARSE_MAGIC);
    return text_of(&p->trailers);
}

enum parse_error parse_error(const struct parse *p)
{
    must_be(p, PARSE_MAGIC);
    return p->error;
}

bool parse_in_message(const struct parse *p)
{
    must_be(p, PARSE_MAGIC);
    return p->state != BETWEEN && p->state != DONE && p->state != FAILED;
}
