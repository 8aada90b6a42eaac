/*
 * A head, read twice: the start line here and the fields by llhttp, then everything that llhttp lets pass although one
 * recipient or another would read it differently (RFC 9112 section 11.2). Where both know the same thing, the number of
 * fields or how long the body is, they must agree.
 *
 * Framing is decided by one rule for both directions: either no Transfer-Encoding, or exactly one that says "chunked"
 * and nothing else; never together with Content-Length; never in HTTP/1.0; and never more than one Content-Length. RFC
 * 9112 section 6.3 would let some of these be repaired. A proxy that repairs must be sure that everybody repairs alike,
 * and nobody who means well sends them.
 */
#include "head.h"

#include "base/mem.h"
#include "chars.h"

#include <string.h>

/* More than this many options in Connection are work for nothing: each is compared with every field's name. */
enum { CONNECTION_OPTIONS = 64 };

/* ---- start lines ---- */

static struct slice part(struct slice s, size_t from, size_t to)
{
    return (struct slice){s.ptr + from, to - from};
}

/* NAME/digit.digit, for any protocol. */
static bool is_version(struct slice s)
{
    if (s.len < 5 || s.ptr[s.len - 4] != '/' || s.ptr[s.len - 2] != '.') {
        return false;
    }
    return chars_is_digit((unsigned char)s.ptr[s.len - 3]) && chars_is_digit((unsigned char)s.ptr[s.len - 1]) &&
           chars_is_token(part(s, 0, s.len - 4));
}

static bool parse_minor(struct slice version, unsigned *minor)
{
    if (!slice_is(version, "HTTP/1.0") && !slice_is(version, "HTTP/1.1")) {
        return false;
    }
    *minor = version.ptr[7] == '1' ? 1 : 0;
    return true;
}

/* Any token may be a method and travels on, but none in use has small letters (RFC 9110 section 9.1): "get" is a mistake,
 * or an attempt to get past somebody who looks for "GET". */
static bool has_small_letters(struct slice method)
{
    for (size_t i = 0; i < method.len; i++) {
        if (method.ptr[i] >= 'a' && method.ptr[i] <= 'z') {
            return true;
        }
    }
    return false;
}

/* method SP request-target SP HTTP-version (RFC 9112 section 3), single spaces only. */
static enum parse_error read_request_line(struct slice line, struct message *out)
{
    const char *end = line.ptr + line.len;
    const char *sp1 = memchr(line.ptr, ' ', line.len);
    const char *sp2 = sp1 != NULL ? memchr(sp1 + 1, ' ', (size_t)(end - sp1 - 1)) : NULL;

    if (sp1 == NULL) {
        return PARSE_BAD_REQUEST_LINE;
    }
    out->method = (struct slice){line.ptr, (size_t)(sp1 - line.ptr)};
    out->target = (struct slice){sp1 + 1, (size_t)((sp2 != NULL ? sp2 : end) - sp1 - 1)};
    if (!chars_is_token(out->method) || !chars_is_visible(out->target)) {
        return PARSE_BAD_REQUEST_LINE;
    }
    if (sp2 == NULL) {
        return PARSE_BAD_VERSION; /* HTTP/0.9 */
    }
    struct slice version = {sp2 + 1, (size_t)(end - sp2 - 1)};
    if (!is_version(version)) {
        return PARSE_BAD_REQUEST_LINE;
    }
    if (!parse_minor(version, &out->minor) || slice_is(out->method, "PRI")) { /* of HTTP/2 alone: RFC 9113 section 3.4 */
        return PARSE_BAD_VERSION;
    }
    return has_small_letters(out->method) ? PARSE_BAD_METHOD : PARSE_OK;
}

static unsigned parse_status(struct slice s)
{
    unsigned status = 0;

    for (size_t i = 0; i < 3; i++) {
        if (!chars_is_digit((unsigned char)s.ptr[i])) {
            return 0;
        }
        status = status * 10 + (unsigned)(s.ptr[i] - '0');
    }
    return status;
}

/* HTTP-version SP status-code [ SP reason-phrase ] (RFC 9112 section 4): many servers leave out the last space with an
 * empty reason. Codes from 600 up are invalid but in use, and passing them on harms nobody. */
static enum parse_error read_status_line(struct slice line, struct message *out)
{
    if (line.len < 12 || line.ptr[8] != ' ' || !is_version(part(line, 0, 8))) {
        return PARSE_BAD_STATUS_LINE;
    }
    out->status = parse_status(part(line, 9, 12));
    if (out->status < 100 || (line.len > 12 && line.ptr[12] != ' ')) {
        return PARSE_BAD_STATUS_LINE;
    }
    out->reason = line.len > 13 ? part(line, 13, line.len) : part(line, line.len, line.len);
    return parse_minor(part(line, 0, 8), &out->minor) ? PARSE_OK : PARSE_BAD_VERSION;
}

enum parse_error head_check_request_line(struct slice line)
{
    struct message ignored;

    return read_request_line(line, &ignored);
}

enum parse_error head_check_status_line(struct slice line)
{
    struct message ignored;

    return read_status_line(line, &ignored);
}

/* ---- fields ---- */

/* What the fields say about the message as a whole, gathered in one pass. */
struct facts {
    unsigned hosts;
    unsigned lengths;
    unsigned codings;
    unsigned options;
    struct slice host;
    struct slice length;
    struct slice coding;
    bool close;
    bool keep_alive;
    bool proxy_keep_alive;
    bool option_upgrade;
    bool upgrade;
    bool expect_continue;
};

static void note_options(struct facts *f, struct slice list)
{
    struct slice option;

    while (slice_next_element(&list, &option)) {
        f->options++;
        f->close = f->close || slice_is_nocase(option, "close");
        f->keep_alive = f->keep_alive || slice_is_nocase(option, "keep-alive");
        f->option_upgrade = f->option_upgrade || slice_is_nocase(option, "upgrade");
    }
}

static void note_proxy_options(struct facts *f, struct slice list)
{
    struct slice option;

    while (slice_next_element(&list, &option)) {
        f->proxy_keep_alive = f->proxy_keep_alive || slice_is_nocase(option, "keep-alive");
    }
}

/* By length first: most fields are none of these. */
static void note_field(struct facts *f, const struct field *field)
{
    switch (field->name.len) {
    case 4:
        if (slice_is_nocase(field->name, "host")) {
            f->hosts++;
            f->host = field->value;
        }
        break;
    case 6:
        f->expect_continue = f->expect_continue ||
                             (slice_is_nocase(field->name, "expect") && slice_is_nocase(field->value, "100-continue"));
        break;
    case 7:
        f->upgrade = f->upgrade || slice_is_nocase(field->name, "upgrade");
        break;
    case 10:
        if (slice_is_nocase(field->name, "connection")) {
            note_options(f, field->value);
        }
        break;
    case 14:
        if (slice_is_nocase(field->name, "content-length")) {
            f->lengths++;
            f->length = field->value;
        }
        break;
    case 16:
        if (slice_is_nocase(field->name, "proxy-connection")) {
            note_proxy_options(f, field->value);
        }
        break;
    case 17:
        if (slice_is_nocase(field->name, "transfer-encoding")) {
            f->codings++;
            f->coding = field->value;
        }
        break;
    }
}

static void note_fields(struct facts *f, const struct grammar *g)
{
    *f = (struct facts){0};
    for (unsigned i = 0; i < g->fields_count; i++) {
        note_field(f, &g->fields[i]);
    }
}

size_t head_close_names(char *head, size_t len)
{
    size_t kept = 0;
    bool in_name = false; /* the first line has none */

    for (size_t i = 0; i < len; i++) {
        size_t after = i;
        while (in_name && after < len && (head[after] == ' ' || head[after] == '\t')) {
            after++;
        }
        if (after > i && after < len && head[after] == ':') {
            i = after;
        }
        in_name = head[i] == '\n' || (in_name && head[i] != ':');
        head[kept++] = head[i];
    }
    return kept;
}

static enum parse_error check_names(const struct message *m)
{
    for (unsigned i = 0; i < m->fields_count; i++) {
        if (!chars_is_token(m->fields[i].name)) {
            return PARSE_BAD_FIELD;
        }
    }
    return PARSE_OK;
}

/* RFC 9112 section 3.2. Without an authority in the target, an empty Host leaves nowhere to go. */
static enum parse_error check_host(const struct message *m, const struct facts *f)
{
    bool needed = m->target.ptr[0] == '/';

    if (f->hosts > 1 || (f->hosts == 0 && m->minor >= 1)) {
        return PARSE_BAD_HOST;
    }
    if (f->hosts == 1 && (!chars_is_host(f->host) || (needed && f->host.len == 0))) {
        return PARSE_BAD_HOST;
    }
    return PARSE_OK;
}

/* ---- framing ---- */

/* With "gzip, chunked" the end of the body would be known but not its meaning: 501 (RFC 9112 section 6.1). Anything
 * that doesn't end in chunked, or has it twice, has no end that all agree on: 400 (section 6.3). */
static enum parse_error check_coding(struct slice coding)
{
    struct slice element, last = {0};
    unsigned count = 0, chunked = 0;

    if (slice_is_nocase(coding, "chunked")) {
        return PARSE_OK;
    }
    while (slice_next_element(&coding, &element)) {
        count++;
        chunked += slice_is_nocase(element, "chunked") ? 1 : 0;
        last = element;
    }
    if (count > 1 && chunked == 1 && slice_is_nocase(last, "chunked")) {
        return PARSE_BAD_TRANSFER_CODING;
    }
    return PARSE_BAD_TRANSFER_ENCODING;
}

static enum parse_error read_framing(struct message *m, const struct facts *f)
{
    enum parse_error error;

    if (f->codings > 0 && f->lengths > 0) {
        return PARSE_BAD_BOTH_FRAMINGS;
    }
    if (f->codings > 1 || (f->codings == 1 && m->minor == 0)) {
        return PARSE_BAD_TRANSFER_ENCODING;
    }
    if (f->codings == 1) {
        error = check_coding(f->coding);
        m->framing = FRAMING_CHUNKED;
        return error;
    }
    if (f->lengths == 0) {
        m->framing = FRAMING_NONE;
        return PARSE_OK;
    }
    m->framing = FRAMING_LENGTH;
    if (f->lengths > 1 || !str_parse_u64(f->length, &m->content_length) || m->content_length > INT64_MAX) {
        return PARSE_BAD_CONTENT_LENGTH;
    }
    return PARSE_OK;
}

static bool framings_agree(const struct grammar *g, const struct message *m)
{
    if (grammar_is_chunked(g) != (m->framing == FRAMING_CHUNKED)) {
        return false;
    }
    return m->framing != FRAMING_LENGTH || grammar_content_length(g) == m->content_length;
}

/* ---- both together ---- */

/* llhttp stopped: what to call that. It stops in the middle of a field, so the framing fields before and at that place
 * have to be looked for. */
static enum parse_error explain(const struct grammar *g, const struct facts *f)
{
    const struct field *at = g->fields_count < g->fields_room ? &g->fields[g->fields_count] : NULL;
    bool at_coding = at != NULL && slice_is_nocase(at->name, "transfer-encoding");

    switch (grammar_error(g)) {
    case HPE_INVALID_URL:
        return PARSE_BAD_REQUEST_LINE;
    case HPE_INVALID_CONSTANT: /* of a response */
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        return PARSE_BAD_VERSION;
    case HPE_INVALID_STATUS:
        return PARSE_BAD_STATUS_LINE;
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return f->codings > 0 || at_coding ? PARSE_BAD_BOTH_FRAMINGS : PARSE_BAD_CONTENT_LENGTH;
    case HPE_INVALID_CONTENT_LENGTH:
        return PARSE_BAD_CONTENT_LENGTH;
    case HPE_INVALID_TRANSFER_ENCODING:
        return PARSE_BAD_TRANSFER_ENCODING;
    case HPE_INVALID_HEADER_TOKEN:
        return PARSE_BAD_FIELD;
    default:
        return PARSE_BAD_SYNTAX;
    }
}

static struct slice first_line(const struct message *m)
{
    const char *end = memchr(m->head, '\r', m->head_bytes);

    return (struct slice){m->head, (size_t)(end - m->head)};
}

static bool read_by_grammar(struct grammar *g, const struct message *m, unsigned fields_count)
{
    size_t start = 0;

    if (m->status == 0) {
        start = first_line(m).len + 2;
        if (!grammar_read_request_line(g, slice_is(m->method, "CONNECT"), m->target, m->minor)) {
            return false;
        }
    }
    return grammar_read_head(g, m->head + start, m->head_bytes - start, m->fields, fields_count);
}

static enum parse_error read_fields(struct grammar *g, struct message *m, unsigned fields_count, struct facts *f)
{
    enum parse_error error;

    m->fields = fields_count > 0 ? mem_zalloc(fields_count * sizeof(struct field)) : NULL;
    bool read = read_by_grammar(g, m, fields_count);
    m->fields_count = g->fields_count;
    note_fields(f, g);
    if (!read) {
        return explain(g, f);
    }
    if (m->fields_count != fields_count) {
        return PARSE_BAD_SYNTAX;
    }
    error = check_names(m);
    if (error == PARSE_OK && f->options > CONNECTION_OPTIONS) {
        error = PARSE_BAD_FIELD;
    }
    if (error == PARSE_OK) {
        error = read_framing(m, f);
    }
    return error != PARSE_OK || framings_agree(g, m) ? error : PARSE_BAD_SYNTAX;
}

/* RFC 9112 section 9.3. Proxy-Connection was never standard, but HTTP/1.0 clients of proxies say it in good faith. */
static bool keeps_alive(const struct message *m, const struct facts *f, bool proxy_field)
{
    if (f->close) {
        return false;
    }
    return m->minor >= 1 || f->keep_alive || (proxy_field && f->proxy_keep_alive);
}

enum parse_error head_read_request(struct grammar *g, struct message *m, unsigned fields_count)
{
    struct facts f;
    enum parse_error error = read_request_line(first_line(m), m);

    if (error == PARSE_OK) {
        error = read_fields(g, m, fields_count, &f);
    }
    if (error == PARSE_OK) {
        error = check_host(m, &f);
    }
    if (error != PARSE_OK) {
        return error;
    }
    m->keep_alive = keeps_alive(m, &f, true);
    m->expect_continue = f.expect_continue && m->minor >= 1;
    m->upgrade = f.upgrade && f.option_upgrade && m->minor >= 1; /* RFC 9110 section 7.8 */
    /* A CONNECT has no content (RFC 9110 section 9.3.6): what follows is the tunnel's, whatever the fields say. */
    if (slice_is(m->method, "CONNECT")) {
        m->content_length = 0;
        m->framing = FRAMING_NONE;
    } else if (m->framing == FRAMING_LENGTH && m->content_length == 0) {
        m->framing = FRAMING_NONE;
    }
    return PARSE_OK;
}

/* RFC 9112 section 6.3, rules 1 and 8. */
static void frame_response(struct message *m, bool to_head)
{
    bool never = m->status < 200 || m->status == 204;
    bool said = m->framing == FRAMING_CHUNKED || m->content_length > 0;

    if (never && said) {
        m->keep_alive = false; /* we read no body; but whoever announces one may send it as well */
    }
    if (never || m->status == 304 || to_head) {
        m->framing = FRAMING_NONE;
    } else if (m->framing == FRAMING_NONE) {
        m->framing = FRAMING_UNTIL_CLOSE;
        m->keep_alive = false;
    }
}

enum parse_error head_read_response(struct grammar *g, struct message *m, unsigned fields_count, bool to_head)
{
    struct facts f;
    enum parse_error error = read_status_line(first_line(m), m);

    if (error == PARSE_OK) {
        error = read_fields(g, m, fields_count, &f);
    }
    if (error != PARSE_OK) {
        return error;
    }
    m->keep_alive = keeps_alive(m, &f, false);
    m->upgrade = m->status == 101;
    frame_response(m, to_head);
    return PARSE_OK;
}
