/*
 * Heads for the next hop. A head is never passed on as the bytes that came: it is written anew from its parts, with one
 * form of line end and exactly one framing, so that the next recipient can't read it differently than we did (RFC 9112
 * section 11.2). Within that, nothing is changed that needn't be: order, case, duplicates and values stay as they are,
 * since third parties look at them, and sign them.
 *
 * A field of ours goes where the one it replaces stood: Host, Content-Length, Transfer-Encoding. Via follows the last
 * Via there is. What replaces nothing comes at the end, Host excepted, which comes first (RFC 9110 section 7.2).
 */
#include "http/write.h"

#include "hop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MORE_ROOM_BYTES = 256 }; /* what we add to a head is seldom more */

/* One head being written. */
struct writing {
    struct buf *out;
    const struct message *message;
    const struct via *via;
    struct hop hop;
    enum framing framing; /* NONE keeps a Content-Length that tells about something else than this message's body */
    bool keep_length;     /* with NONE: whether it does */
    bool upgrade;
    bool framed; /* the framing field is written */
    const struct field *last_via;
};

static void add(struct buf *out, struct slice s)
{
    buf_add(out, s.ptr, s.len);
}

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

static void add_line(struct buf *out, struct slice name, struct slice value)
{
    add(out, name);
    ADD(out, ": ");
    add(out, value);
    ADD(out, "\r\n");
}

static void add_number(struct buf *out, struct slice name, uint64_t number)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRIu64, number);

    add_line(out, name, (struct slice){text, (size_t)len});
}

static void add_via(struct writing *w)
{
    if (w->via != NULL) {
        buf_add_str(w->out, w->message->minor == 0 ? "Via: 1.0 " : "Via: 1.1 ");
        buf_add_str(w->out, w->via->pseudonym);
        ADD(w->out, "\r\n");
    }
}

static void begin(struct writing *w)
{
    const struct message *m = w->message;

    buf_reserve(w->out, m->head_bytes + MORE_ROOM_BYTES);
    hop_read(&w->hop, m);
    for (unsigned i = 0; i < m->fields_count; i++) {
        if (slice_is_nocase(m->fields[i].name, "Via")) {
            w->last_via = &m->fields[i];
        }
    }
}

/* ---- framing ---- */

static void write_length(struct writing *w, struct slice name)
{
    if (w->framed) {
        return;
    }
    if (w->framing == FRAMING_LENGTH || (w->framing == FRAMING_NONE && w->keep_length)) {
        add_number(w->out, name, w->message->content_length);
        w->framed = true;
    }
}

static void write_coding(struct writing *w, struct slice name)
{
    if (w->framing == FRAMING_CHUNKED && !w->framed) {
        add_line(w->out, name, slice_of("chunked"));
        w->framed = true;
    }
}

/* The framing field, if nothing stood where it could go. */
static void end_framing(struct writing *w)
{
    if (w->framing == FRAMING_LENGTH) {
        write_length(w, slice_of("Content-Length"));
    }
    write_coding(w, slice_of("Transfer-Encoding"));
}

/* ---- fields that both directions treat alike ---- */

/* True if `field` is dealt with. */
static bool write_common(struct writing *w, const struct field *field)
{
    if (message_is_ours(w->message, field)) {
        return false;
    }
    if (slice_is_nocase(field->name, "Content-Length")) {
        write_length(w, field->name);
        return true;
    }
    if (slice_is_nocase(field->name, "Transfer-Encoding")) {
        write_coding(w, field->name);
        return true;
    }
    if (w->upgrade && slice_is_nocase(field->name, "Upgrade")) {
        add_line(w->out, field->name, field->value);
        return true;
    }
    return hop_drops(&w->hop, field->name);
}

static void write_as_is(struct writing *w, const struct field *field)
{
    add_line(w->out, field->name, field->value);
    if (field == w->last_via) {
        add_via(w);
    }
}

/* Options by comma, or no Connection at all. */
static void write_connection(struct buf *out, const char *const *options, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        buf_add_str(out, i == 0 ? "Connection: " : ", ");
        buf_add_str(out, options[i]);
    }
    if (count > 0) {
        ADD(out, "\r\n");
    }
}

/* ---- requests ---- */

static void write_request_line(struct writing *w, const struct target *target)
{
    add(w->out, w->message->method);
    ADD(w->out, " ");
    if (target->path.len == 0 || target->path.ptr[0] == '?') {
        ADD(w->out, "/"); /* RFC 9112 section 3.2.1 */
    }
    add(w->out, target->path);
    ADD(w->out, " HTTP/1.1\r\n");
}

/* RFC 9110 section 7.6.2. */
static bool counts_forwards(const struct message *request)
{
    return slice_is(request->method, "TRACE") || slice_is(request->method, "OPTIONS");
}

static bool write_max_forwards(struct writing *w, const struct field *field)
{
    uint64_t left;

    if (!slice_is_nocase(field->name, "Max-Forwards") || !counts_forwards(w->message) ||
        !str_parse_u64(field->value, &left) || left == 0) {
        return false;
    }
    add_number(w->out, field->name, left - 1);
    return true;
}

/* An HTTP/1.0 caller would not understand the 100 that comes back (RFC 9110 section 10.1.1). */
static bool is_void_expectation(const struct message *request, const struct field *field)
{
    return request->minor == 0 && slice_is_nocase(field->name, "Expect");
}

static void write_request_field(struct writing *w, const struct field *field, const struct target *target)
{
    if (slice_is_nocase(field->name, "Host")) {
        add_line(w->out, field->name, target->authority);
    } else if (!write_common(w, field) && !write_max_forwards(w, field) && !is_void_expectation(w->message, field)) {
        write_as_is(w, field);
    }
}

static bool wants_trailers(const struct message *request)
{
    return request->minor >= 1 && message_has_token(request, "TE", "trailers");
}

void write_request_head(struct buf *out, const struct message *request, const struct target *target,
                        const struct via *via, bool upgrade)
{
    struct writing w = {.out = out, .message = request, .via = via, .framing = request->framing, .upgrade = upgrade};
    const char *options[2];
    unsigned count = 0;

    w.keep_length = request->content_length == 0; /* a POST of nothing says so (RFC 9110 section 8.6) */
    begin(&w);
    write_request_line(&w, target);
    if (message_field(request, "Host") == NULL) {
        add_line(out, slice_of("Host"), target->authority);
    }
    for (unsigned i = 0; i < request->fields_count; i++) {
        write_request_field(&w, &request->fields[i], target);
    }
    end_framing(&w);
    if (w.last_via == NULL) {
        add_via(&w);
    }
    if (wants_trailers(request)) {
        ADD(out, "TE: trailers\r\n");
        options[count++] = "TE";
    }
    if (upgrade) {
        options[count++] = "Upgrade";
    }
    write_connection(out, options, count);
    ADD(out, "\r\n");
}

/* ---- responses ---- */

static void write_status_line(struct writing *w)
{
    char text[] = "HTTP/1.1 000 ";
    unsigned status = w->message->status;

    text[9] = (char)('0' + status / 100 % 10);
    text[10] = (char)('0' + status / 10 % 10);
    text[11] = (char)('0' + status % 10);
    buf_add(w->out, text, sizeof(text) - 1); /* the space is there without a reason, too (RFC 9112 section 4) */
    add(w->out, w->message->reason);
    ADD(w->out, "\r\n");
}

static void write_response_connection(struct buf *out, const struct response_form *form)
{
    const char *options[2];
    unsigned count = 0;

    if (form->upgrade) {
        options[count++] = "Upgrade";
    }
    if (form->close) {
        options[count++] = "close";
    } else if (form->keep_alive_10) {
        options[count++] = "keep-alive";
    }
    write_connection(out, options, count);
}

void write_response_head(struct buf *out, const struct message *response, const struct via *via,
                         const struct response_form *form)
{
    struct writing w = {
        .out = out, .message = response, .via = via, .framing = form->framing, .upgrade = form->upgrade};

    /* HEAD and 304 tell the length of what a GET would have given; 1xx and 204 must not (RFC 9110 section 8.6). */
    w.keep_length = response->status >= 200 && response->status != 204;
    begin(&w);
    write_status_line(&w);
    for (unsigned i = 0; i < response->fields_count; i++) {
        if (!write_common(&w, &response->fields[i])) {
            write_as_is(&w, &response->fields[i]);
        }
    }
    end_framing(&w);
    if (w.last_via == NULL) {
        add_via(&w);
    }
    write_response_connection(out, form);
    if (form->extra != NULL) {
        buf_add_str(out, form->extra);
    }
    ADD(out, "\r\n");
}

/* ---- chunks ---- */

void write_chunk_head(struct buf *out, size_t len)
{
    char text[24];

    must(len > 0); /* that would be the last chunk */
    int n = snprintf(text, sizeof(text), "%zx\r\n", len);
    buf_add(out, text, (size_t)n);
}

void write_chunk_tail(struct buf *out)
{
    ADD(out, "\r\n");
}

void write_last_chunk(struct buf *out, struct slice trailers)
{
    ADD(out, "0\r\n");
    add(out, trailers);
    ADD(out, "\r\n");
}

/* ---- own words ---- */

void write_date(struct buf *out, struct wall at)
{
    char text[64];
    time_t seconds = (time_t)(at.us / CLOCK_SECOND_US);
    struct tm utc;

    if (gmtime_r(&seconds, &utc) != NULL &&
        strftime(text, sizeof(text), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc) > 0) {
        buf_add_str(out, text);
    }
}

/* ---- loops ---- */

/* protocol RWS received-by [ RWS comment ] (RFC 9110 section 7.6.3) */
static struct slice received_by(struct slice element)
{
    size_t from = 0, to;

    while (from < element.len && element.ptr[from] != ' ' && element.ptr[from] != '\t') {
        from++;
    }
    struct slice rest = slice_trim((struct slice){element.ptr + from, element.len - from});
    for (to = 0; to < rest.len && rest.ptr[to] != ' ' && rest.ptr[to] != '\t';) {
        to++;
    }
    return (struct slice){rest.ptr, to};
}

bool via_has_loop(const struct message *request, const struct via *via)
{
    for (unsigned i = 0; i < request->fields_count; i++) {
        struct slice list = request->fields[i].value, element;
        if (!slice_is_nocase(request->fields[i].name, "Via")) {
            continue;
        }
        while (slice_next_element(&list, &element)) {
            if (slice_is_nocase(received_by(element), via->pseudonym)) {
                return true;
            }
        }
    }
    return false;
}
