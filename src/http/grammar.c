#include "grammar.h"

/* A span may come in parts; within one buffer they adjoin. */
static void extend(struct slice *s, const char *at, size_t len)
{
    if (s->ptr == NULL) {
        s->ptr = at;
    }
    s->len = (size_t)(at + len - s->ptr);
}

static int took_name(llhttp_t *llhttp, const char *at, size_t len)
{
    struct grammar *g = llhttp->data;

    if (g->fields_count == g->fields_room) {
        return -1;
    }
    extend(&g->fields[g->fields_count].name, at, len);
    return 0;
}

static int took_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct grammar *g = llhttp->data;

    if (g->fields_count == g->fields_room) {
        return -1;
    }
    extend(&g->fields[g->fields_count].value, at, len);
    return 0;
}

static int took_field(llhttp_t *llhttp)
{
    struct grammar *g = llhttp->data;

    if (g->fields_count == g->fields_room) {
        return -1;
    }
    struct field *field = &g->fields[g->fields_count++];
    field->value = slice_trim(field->value);
    return 0;
}

/* The pause keeps llhttp from going on to a body that, by what only we know, may not be there at all: an answer to
 * HEAD, or what follows a CONNECT. */
static int took_head(llhttp_t *llhttp)
{
    struct grammar *g = llhttp->data;

    g->head_read = true;
    return HPE_PAUSED;
}

static int took_chunk_line(llhttp_t *llhttp)
{
    struct grammar *g = llhttp->data;

    g->chunk_bytes = llhttp->content_length;
    return 0;
}

static const llhttp_settings_t settings = {
    .on_header_field = took_name,
    .on_header_value = took_value,
    .on_header_value_complete = took_field,
    .on_headers_complete = took_head,
    .on_chunk_header = took_chunk_line,
};

void grammar_begin(struct grammar *g, bool response)
{
    *g = (struct grammar){0};
    llhttp_init(&g->llhttp, response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
    g->llhttp.data = g;
}

/* llhttp knows some methods only, and a proxy passes on any (RFC 9110 section 16.1): so for all but CONNECT, whose target
 * has another form, one that it knows stands in; POST, whose framing has no exceptions. */
bool grammar_read_request_line(struct grammar *g, bool is_connect, struct slice target, unsigned minor)
{
    struct slice parts[] = {slice_of(is_connect ? "CONNECT " : "POST "), target,
                            slice_of(minor == 1 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n")};

    for (int i = 0; i < 3; i++) {
        if (llhttp_execute(&g->llhttp, parts[i].ptr, parts[i].len) != HPE_OK) {
            return false;
        }
    }
    return true;
}

bool grammar_read_head(struct grammar *g, const char *head, size_t len, struct field *fields, unsigned room)
{
    g->fields = fields;
    g->fields_count = 0;
    g->fields_room = room;
    return llhttp_execute(&g->llhttp, head, len) == HPE_PAUSED && g->head_read;
}

bool grammar_read_chunked(struct grammar *g, const char *bytes, size_t len)
{
    llhttp_resume(&g->llhttp); /* no effect but after the head */
    return llhttp_execute(&g->llhttp, bytes, len) == HPE_OK;
}

llhttp_errno_t grammar_error(const struct grammar *g)
{
    return llhttp_get_errno(&g->llhttp);
}

bool grammar_is_chunked(const struct grammar *g)
{
    return (g->llhttp.flags & F_CHUNKED) != 0;
}

uint64_t grammar_content_length(const struct grammar *g)
{
    return g->llhttp.content_length;
}
