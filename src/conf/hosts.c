/*
 * Patterns of `hosts`. Each is brought into the one form in which requests arrive: lower case, no trailing dot, IPv6 in
 * its shortest form (RFC 5952) without brackets, since two spellings of one host must not get two rates. A pattern that
 * no request can match is refused, for whoever wrote it believes that something is limited by it.
 */
#include "conf/value.h"

#include "base/mem.h"

#include <string.h>

/* RFC 1035 section 2.3.4 */
#define HOST_BYTES_MAX 253
#define LABEL_BYTES_MAX 63

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool has(struct slice text, const char *what)
{
    return memmem(text.ptr, text.len, what, strlen(what)) != NULL;
}

/* Mistakes of form that deserve words of their own; NULL when there is none. */
static const char *bad_form(struct slice text)
{
    if (has(text, "://")) {
        return "a host is written without http:// or https://";
    }
    if (has(text, "/")) {
        return "a host is written without a path";
    }
    if (has(text, "@")) {
        return "a host is written without a user";
    }
    if (has(text, " ") || has(text, "\t")) {
        return "a space inside a host; hosts are separated by commas";
    }
    if (slice_is(text, "*")) {
        return "every other host is what [default] is for";
    }
    return NULL;
}

static const char *bad_label(struct slice label)
{
    if (label.len == 0) {
        return "two dots in a row, or one at the beginning";
    }
    if (label.len > LABEL_BYTES_MAX) {
        return "a part of a name is longer than 63 characters, nothing can reach it";
    }
    for (size_t i = 0; i < label.len; i++) {
        char c = label.ptr[i];
        if (c == '*') {
            return "* may only stand at the beginning, as in *.example.com";
        }
        if ((unsigned char)c >= 0x80) {
            return "names outside ASCII are written in their xn-- form";
        }
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')) {
            return "a character that a host cannot have";
        }
    }
    return NULL;
}

/* Whether the last label is a number, which makes the whole an IPv4 address or nothing (WHATWG URL, "ends in a
 * number"). */
static bool ends_in_number(struct slice label)
{
    bool hex = label.len >= 2 && label.ptr[0] == '0' && label.ptr[1] == 'x';

    for (size_t i = hex ? 2 : 0; i < label.len; i++) {
        char c = label.ptr[i];
        if (!((c >= '0' && c <= '9') || (hex && c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return label.len > 0;
}

static const char *bad_name(struct slice name, bool wildcard)
{
    struct slice rest = name, label;
    struct addr addr;

    if (name.len > HOST_BYTES_MAX) {
        return "longer than 253 characters, nothing can reach it";
    }
    do {
        const char *dot = memchr(rest.ptr, '.', rest.len);
        label = (struct slice){rest.ptr, dot != NULL ? (size_t)(dot - rest.ptr) : rest.len};
        const char *why = bad_label(label);
        if (why != NULL) {
            return why;
        }
        size_t used = dot != NULL ? label.len + 1 : label.len;
        rest = (struct slice){rest.ptr + used, rest.len - used};
    } while (label.ptr + label.len < name.ptr + name.len);
    if (!ends_in_number(label)) {
        return NULL;
    }
    if (wildcard) {
        return "nothing is below an address, nothing can reach this";
    }
    return addr_parse_literal(name, 0, &addr) ? NULL
                                              : "an IPv4 address has four numbers from 0 to 255, without leading zeros";
}

/* Fills host and wildcard from a name or IPv4 address. */
static const char *parse_name(struct slice text, struct host_pattern *out)
{
    out->wildcard = text.len > 2 && text.ptr[0] == '*' && text.ptr[1] == '.';
    if (out->wildcard) {
        text = (struct slice){text.ptr + 2, text.len - 2};
    }
    if (text.len > 1 && text.ptr[text.len - 1] == '.') {
        text.len--; /* the root, RFC 1034 section 3.1 */
    }
    if (text.len == 0) {
        return "the host is missing";
    }
    out->host = mem_strndup(text.ptr, text.len);
    for (size_t i = 0; i < text.len; i++) {
        out->host[i] = lower(out->host[i]);
    }
    return bad_name((struct slice){out->host, text.len}, out->wildcard);
}

static const char *parse_ipv6(struct slice text, struct host_pattern *out)
{
    struct addr addr;
    char shortest[ADDR_TEXT_BYTES];

    if (!addr_parse_literal(text, 0, &addr)) {
        return "not an IPv6 address in brackets, such as [::1] or [::1]:8080";
    }
    addr_format(&addr, true, shortest);
    out->host = mem_strdup(shortest);
    return NULL;
}

/* Cuts ":port" off the end; false when what follows the colon is no port. */
static bool cut_port(struct slice *text, uint16_t *port)
{
    const char *colon = memrchr(text->ptr, ':', text->len);

    if (colon == NULL || memchr(colon, ']', text->len - (size_t)(colon - text->ptr)) != NULL) {
        return true;
    }
    size_t len = (size_t)(colon - text->ptr);
    struct slice digits = {colon + 1, text->len - len - 1};
    text->len = len;
    return str_parse_port(digits, port);
}

static const char *parse_pattern(struct slice text, struct host_pattern *out)
{
    const char *why = bad_form(text), *colon = memchr(text.ptr, ':', text.len);

    if (why != NULL) {
        return why;
    }
    if (text.ptr[0] != '[' && colon != NULL && colon != memrchr(text.ptr, ':', text.len)) {
        return "an IPv6 address stands in brackets, such as [::1] or [::1]:8080";
    }
    if (!cut_port(&text, &out->port)) {
        return "the port is not a number from 1 to 65535";
    }
    if (text.len == 0) {
        return "the host is missing";
    }
    return text.ptr[0] == '[' ? parse_ipv6(text, out) : parse_name(text, out);
}

static bool same_pattern(const struct host_pattern *a, const struct host_pattern *b)
{
    return a->port == b->port && a->wildcard == b->wildcard && strcmp(a->host, b->host) == 0;
}

static bool add_pattern(const struct place *place, struct slice text, struct policy *policy)
{
    struct host_pattern pattern = {NULL, false, 0};
    const char *why = parse_pattern(text, &pattern);

    for (unsigned i = 0; why == NULL && i < policy->hosts_count; i++) {
        why = same_pattern(&pattern, &policy->hosts[i]) ? "this host is there twice" : NULL;
    }
    if (why != NULL) {
        report_error(place, "%.*s: %s", REPORT_SHOWN(text), why);
        mem_free(pattern.host);
        return false;
    }
    policy->hosts = mem_realloc(policy->hosts, (policy->hosts_count + 1) * sizeof(struct host_pattern));
    policy->hosts[policy->hosts_count++] = pattern;
    return true;
}

bool hosts_set(const struct place *place, struct slice text, struct policy *policy)
{
    struct slice element;
    bool good = true, any = false;

    while (slice_next_element(&text, &element)) {
        any = true;
        good = add_pattern(place, element, policy) && good;
    }
    if (!any) {
        report_error(place, "the list is empty");
    }
    return good && any;
}

void hosts_print(const struct policy *policy, struct buf *out)
{
    for (unsigned i = 0; i < policy->hosts_count; i++) {
        const struct host_pattern *pattern = &policy->hosts[i];
        bool ipv6 = strchr(pattern->host, ':') != NULL;

        buf_printf(out, "%s%s%s%s%s", i > 0 ? ", " : "", pattern->wildcard ? "*." : "", ipv6 ? "[" : "", pattern->host,
                   ipv6 ? "]" : "");
        if (pattern->port != 0) {
            buf_printf(out, ":%u", pattern->port);
        }
    }
}
