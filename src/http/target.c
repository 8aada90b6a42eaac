/*
 * Request targets (RFC 9112 section 3.2). The four forms and what each gives:
 *
 *   origin     GET /a?b            host and port from Host, path "/a?b"
 *   absolute   GET http://h/a?b    host and port from the target, Host is ignored (section 3.2.2)
 *   authority  CONNECT h:443       host and port, both needed (RFC 9110 section 9.3.6)
 *   asterisk   OPTIONS *           host and port from Host, path "*"
 *
 * The host decides which limit a request falls under, so two spellings of one host must come out as one: lower case, no
 * trailing dot, IPv6 in its one canonical text (RFC 5952). For the same reason a host with anything odd in it,
 * percent-encoding included, is refused rather than repaired: the third party might read it in another way than we do.
 * A name made of digits only, such as 2130706433, stays a name here; whether it may be connected to is decided on the
 * address that comes of it.
 *
 * The path is not touched at all: third parties sign it.
 */
#include "http/target.h"

#include "base/addr.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 253, LABEL_BYTES = 63, PORT_HTTP = 80, PORT_HTTPS = 443 }; /* RFC 1035 section 2.3.4 */

static struct slice slice_from(struct slice s, size_t start)
{
    return (struct slice){s.ptr + start, s.len - start};
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Visible ASCII, and no fragment: that is the client's own business and never sent (RFC 9110 section 4.2.5). */
static bool bytes_ok(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c <= 0x20 || c >= 0x7f || c == '#') {
            return false;
        }
    }
    return s.len > 0;
}

/* ---- host and port ---- */

/* A DNS name, or close enough: underscores do occur. */
static bool name_ok(struct slice name)
{
    size_t label = 0;

    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c == '.' && label > 0) {
            label = 0;
        } else if (!(is_alnum(c) || c == '-' || c == '_') || ++label > LABEL_BYTES) {
            return false;
        }
    }
    return label > 0 && name.len <= NAME_BYTES;
}

static enum target_error parse_name(struct slice name, struct target *out)
{
    if (name.len > 0 && name.ptr[name.len - 1] == '.') {
        name.len--; /* the root, said aloud */
    }
    if (!name_ok(name)) {
        return TARGET_BAD_HOST;
    }
    for (size_t i = 0; i < name.len; i++) {
        out->host[i] = lower(name.ptr[i]);
    }
    out->host[name.len] = '\0';
    return TARGET_OK;
}

/* Zone ids (RFC 6874) mean something on the machine that wrote them only, and IPvFuture never came; neither parses. */
static enum target_error parse_ipv6(struct slice literal, struct target *out)
{
    struct addr addr;

    if (!addr_parse_literal(literal, 0, &addr)) {
        return TARGET_BAD_HOST;
    }
    addr_format(&addr, true, out->host);
    out->host_is_ipv6 = true;
    return TARGET_OK;
}

/* What stands before the port. */
static size_t host_len(struct slice authority)
{
    char end = authority.len > 0 && authority.ptr[0] == '[' ? ']' : ':';
    const char *at = authority.len > 0 ? memchr(authority.ptr, end, authority.len) : NULL;

    if (at == NULL) {
        return authority.len;
    }
    return (size_t)(at - authority.ptr) + (end == ']' ? 1 : 0);
}

/* host [ ":" [ port ] ]; `default_port` 0: a port is needed. */
static enum target_error parse_authority(struct slice authority, uint16_t default_port, struct target *out)
{
    struct slice host = {authority.ptr, host_len(authority)};
    struct slice port = slice_from(authority, host.len);

    if (authority.len > 0 && memchr(authority.ptr, '@', authority.len) != NULL) {
        return TARGET_BAD_USERINFO;
    }
    bool bracketed = host.len > 0 && host.ptr[0] == '[';
    enum target_error error = bracketed ? parse_ipv6(host, out) : parse_name(host, out);
    if (error != TARGET_OK) {
        return error;
    }
    out->port = default_port;
    out->authority = authority;
    if (port.len > 0 && port.ptr[0] != ':') {
        return TARGET_BAD_HOST; /* "[::1]x" */
    }
    if (port.len > 1) {
        return str_parse_port(slice_from(port, 1), &out->port) ? TARGET_OK : TARGET_BAD_PORT;
    }
    out->authority.len = host.len; /* an empty port is the default one, and best left out (RFC 9110 section 4.2.3) */
    return default_port != 0 ? TARGET_OK : TARGET_BAD_PORT;
}

/* ---- the forms ---- */

static enum target_error parse_host_field(const struct message *request, struct target *out)
{
    const struct field *host = message_field(request, "Host");

    if (host == NULL) {
        return TARGET_BAD_HOST; /* HTTP/1.0 may leave it out, but then we don't know where to go */
    }
    return parse_authority(host->value, PORT_HTTP, out);
}

static enum target_error parse_scheme(struct slice *target, bool *tls)
{
    const char *colon = memchr(target->ptr, ':', target->len);

    if (colon == NULL) {
        return TARGET_BAD_SYNTAX;
    }
    struct slice scheme = {target->ptr, (size_t)(colon - target->ptr)};
    *tls = slice_is_nocase(scheme, "https");
    if (!*tls && !slice_is_nocase(scheme, "http")) {
        return TARGET_BAD_SCHEME;
    }
    *target = slice_from(*target, scheme.len + 1);
    if (target->len < 2 || memcmp(target->ptr, "//", 2) != 0) {
        return TARGET_BAD_SYNTAX;
    }
    *target = slice_from(*target, 2);
    return TARGET_OK;
}

static enum target_error parse_absolute(const struct message *request, struct target *out)
{
    struct slice rest = request->target;
    size_t len = 0;

    out->form = TARGET_ABSOLUTE;
    enum target_error error = parse_scheme(&rest, &out->tls);
    if (error != TARGET_OK) {
        return error;
    }
    while (len < rest.len && rest.ptr[len] != '/' && rest.ptr[len] != '?') {
        len++;
    }
    out->path = slice_from(rest, len);
    if (out->path.len == 0) {
        /* the server as a whole, for OPTIONS (RFC 9112 section 3.2.4) */
        out->path = slice_of(slice_is(request->method, "OPTIONS") ? "*" : "/");
    }
    return parse_authority((struct slice){rest.ptr, len}, out->tls ? PORT_HTTPS : PORT_HTTP, out);
}

enum target_error target_parse(const struct message *request, struct target *out)
{
    struct slice target = request->target;

    memset(out, 0, sizeof(*out));
    if (!bytes_ok(target)) {
        return TARGET_BAD_SYNTAX;
    }
    if (slice_is(request->method, "CONNECT")) {
        out->form = TARGET_AUTHORITY;
        return parse_authority(target, 0, out);
    }
    if (slice_is(target, "*")) {
        out->form = TARGET_ASTERISK;
        out->path = target;
        return slice_is(request->method, "OPTIONS") ? parse_host_field(request, out) : TARGET_BAD_SYNTAX;
    }
    if (target.ptr[0] == '/') {
        out->form = TARGET_ORIGIN;
        out->path = target;
        return parse_host_field(request, out);
    }
    return parse_absolute(request, out);
}

const char *target_error_text(enum target_error error)
{
    static const char *const texts[] = {
        [TARGET_OK] = "the request target is fine",
        [TARGET_BAD_SYNTAX] = "the request target is malformed",
        [TARGET_BAD_SCHEME] = "only http and https are forwarded",
        [TARGET_BAD_USERINFO] = "a user name in the request target is not allowed",
        [TARGET_BAD_HOST] = "the host is missing or malformed",
        [TARGET_BAD_PORT] = "the port is missing or out of range",
    };

    must((size_t)error < sizeof(texts) / sizeof(texts[0]));
    return texts[error];
}

/* ---- for logs ---- */

enum { SECRET_BYTES_LEAST = 20 };

/* A string that stops growing where its memory ends. */
struct text {
    char *out;
    size_t len, cap;
};

static void put(struct text *text, const char *bytes, size_t len)
{
    size_t room = text->cap - 1 - text->len;

    len = len < room ? len : room;
    if (len > 0) {
        memcpy(text->out + text->len, bytes, len);
    }
    text->len += len;
    text->out[text->len] = '\0';
}

static void put_str(struct text *text, const char *string)
{
    put(text, string, strlen(string));
}

/* Names of parameters help, their values are what keys and tokens hide in; one without a name may be all secret. */
static void put_query(struct text *text, struct slice query)
{
    while (query.len > 0) {
        const char *amp = memchr(query.ptr, '&', query.len);
        struct slice pair = {query.ptr, amp != NULL ? (size_t)(amp - query.ptr) : query.len};
        const char *equals = pair.len > 0 ? memchr(pair.ptr, '=', pair.len) : NULL;
        if (equals != NULL) {
            put(text, pair.ptr, (size_t)(equals - pair.ptr) + 1);
        }
        if (pair.len > 0) {
            put_str(text, "...");
        }
        if (amp != NULL) {
            put(text, "&", 1);
        }
        query = slice_from(query, pair.len + (amp != NULL ? 1 : 0));
    }
}

/* Whether an encoded `?` or `;` begins at `at`, however often it was encoded (%3F, %253F, ...); then its length. */
static size_t encoded_mark(struct slice path, size_t at)
{
    size_t end = at + 1;

    while (end + 1 < path.len && path.ptr[end] == '2' && path.ptr[end + 1] == '5') {
        end += 2;
    }
    if (end + 1 >= path.len || path.ptr[end] != '3') {
        return 0;
    }
    return memchr("FfBb", path.ptr[end + 1], 4) != NULL ? end + 2 - at : 0;
}

/* Where a path ends and something that has values begins: a query, parameters (RFC 3986 section 3.3), or an encoded query,
 * which is none to us but may be one to whoever decodes it. `mark_len` receives the length of what begins it. */
static size_t path_end(struct slice path, size_t *mark_len)
{
    for (size_t i = 0; i < path.len; i++) {
        bool plain = path.ptr[i] == '?' || path.ptr[i] == ';';
        *mark_len = plain ? 1 : path.ptr[i] == '%' ? encoded_mark(path, i) : 0;
        if (*mark_len > 0) {
            return i;
        }
    }
    *mark_len = 0;
    return path.len;
}

/* Long, with digits, small and capital letters: what keys in the path of a webhook or a bot look like, and hardly any
 * other segment. */
static bool looks_secret(struct slice segment)
{
    bool digit = false, small = false, capital = false;

    for (size_t i = 0; i < segment.len; i++) {
        char c = segment.ptr[i];
        digit = digit || (c >= '0' && c <= '9');
        small = small || (c >= 'a' && c <= 'z');
        capital = capital || (c >= 'A' && c <= 'Z');
    }
    return segment.len >= SECRET_BYTES_LEAST && digit && small && capital;
}

static void put_segment(struct text *text, struct slice segment)
{
    const char *equals = segment.len > 0 ? memchr(segment.ptr, '=', segment.len) : NULL;

    if (equals != NULL) {
        put(text, segment.ptr, (size_t)(equals - segment.ptr) + 1);
        put_str(text, "...");
    } else if (looks_secret(segment)) {
        put_str(text, "...");
    } else {
        put(text, segment.ptr, segment.len);
    }
}

static void put_segments(struct text *text, struct slice path)
{
    while (path.len > 0) {
        const char *slash = memchr(path.ptr, '/', path.len);
        size_t len = slash != NULL ? (size_t)(slash - path.ptr) : path.len;
        put_segment(text, (struct slice){path.ptr, len});
        put_str(text, slash != NULL ? "/" : "");
        path = slice_from(path, len + (slash != NULL ? 1 : 0));
    }
}

static void put_path(struct text *text, struct slice path)
{
    size_t mark_len, end = path_end(path, &mark_len);

    put_segments(text, (struct slice){path.ptr, end});
    if (mark_len > 0) {
        put_str(text, end > 0 ? "" : "/");
        put(text, path.ptr + end, mark_len);
        put_query(text, slice_from(path, end + mark_len));
    }
}

void target_path_for_log(struct slice path, char *out, size_t out_bytes)
{
    struct text text = {out, 0, out_bytes};

    must(out_bytes > 0);
    out[0] = '\0';
    put_path(&text, path);
}

void target_for_log(const struct target *target, char *out, size_t out_bytes)
{
    struct text text = {out, 0, out_bytes};
    char port[8] = "";

    must(out_bytes > 0);
    out[0] = '\0';
    if (target->form == TARGET_AUTHORITY || target->port != (target->tls ? PORT_HTTPS : PORT_HTTP)) {
        snprintf(port, sizeof(port), ":%u", target->port);
    }
    if (target->form != TARGET_AUTHORITY) {
        put_str(&text, target->tls ? "https://" : "http://");
    }
    put_str(&text, target->host_is_ipv6 ? "[" : "");
    put_str(&text, target->host);
    put_str(&text, target->host_is_ipv6 ? "]" : "");
    put_str(&text, port);
    if (!slice_is(target->path, "*")) { /* in absolute form the server as a whole has no path */
        put_path(&text, target->path);
    }
}
