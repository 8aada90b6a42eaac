/*
 * A caller says http://api/ and we say https:// for it. A redirect to https://api/ would lead it away from us, to a TLS
 * of its own and past the rate; a cookie marked Secure would be kept but never sent back over http://. Both are mended
 * in the head that came, which only ever gets shorter. Nothing else is touched: links in bodies are the caller's
 * affair, and Strict-Transport-Security does not count over http:// (RFC 6797 section 8.1).
 */
#include "http/rewrite.h"

#include "http/target.h"

#include <string.h>
#include <strings.h>

enum { PORT_HTTPS = 443 };
static const char https[] = "https://", http[] = "http://";

static struct slice slice_from(struct slice s, size_t start)
{
    return (struct slice){s.ptr + start, s.len - start};
}

/* The message owns its head, and the value lies in it. */
static char *writable(struct message *m, struct slice value)
{
    return m->head + (value.ptr - m->head);
}

/* ---- Location ---- */

static size_t authority_len(struct slice rest)
{
    size_t len = 0;

    while (len < rest.len && strchr("/?#", rest.ptr[len]) == NULL) {
        len++;
    }
    return len;
}

/* Read by the parser that reads our callers' targets, so that a host means the same in both. */
static bool read_host(struct slice url, struct target *target)
{
    struct message as_request = {.method = slice_of("GET"), .target = url};

    return target_parse(&as_request, target) == TARGET_OK && target->form == TARGET_ABSOLUTE && target->tls;
}

static void rewrite_location(struct message *m, struct field *field, const struct rewrite *rewrite)
{
    struct slice url = field->value;
    struct target target;
    const size_t scheme = sizeof(https) - 1, shorter = sizeof(http) - 1;

    if (url.len <= scheme || strncasecmp(url.ptr, https, scheme) != 0) {
        return;
    }
    size_t host = authority_len(slice_from(url, scheme));
    if (!read_host((struct slice){url.ptr, scheme + host}, &target) ||
        !rewrite->is_served(rewrite->arg, target.host, target.port)) {
        return;
    }
    char *out = writable(m, url);
    size_t authority = target.authority.len;
    if (target.port == PORT_HTTPS && authority > 4 && memcmp(target.authority.ptr + authority - 4, ":443", 4) == 0) {
        authority -= 4;
    }
    memcpy(out, http, shorter);
    memmove(out + shorter, out + scheme, authority);
    memmove(out + shorter + authority, out + scheme + host, url.len - scheme - host);
    field->value.len = shorter + authority + url.len - scheme - host;
}

/* ---- Set-Cookie ---- */

static size_t find_semicolon(struct slice value, size_t from)
{
    while (from < value.len && value.ptr[from] != ';') {
        from++;
    }
    return from;
}

/* name=value; attribute; attribute=value (RFC 6265 section 5.2): the first part is never an attribute. */
static void rewrite_cookie(struct message *m, struct field *field)
{
    struct slice *value = &field->value;
    size_t at = find_semicolon(*value, 0);

    while (at < value->len) {
        size_t end = find_semicolon(*value, at + 1);
        struct slice attribute = slice_trim((struct slice){value->ptr + at + 1, end - at - 1});
        if (!slice_is_nocase(attribute, "Secure")) {
            at = end;
            continue;
        }
        char *out = writable(m, *value);
        memmove(out + at, out + end, value->len - end);
        value->len -= end - at;
    }
}

void rewrite_response(struct message *m, const struct rewrite *rewrite)
{
    for (unsigned i = 0; i < m->fields_count; i++) {
        struct field *field = &m->fields[i];
        if (slice_is_nocase(field->name, "Location") || slice_is_nocase(field->name, "Content-Location")) {
            rewrite_location(m, field, rewrite);
        } else if (slice_is_nocase(field->name, "Set-Cookie")) {
            rewrite_cookie(m, field);
        }
    }
}
