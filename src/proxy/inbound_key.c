/*
 * Whose request it is. Two spellings of one caller must not be two callers, or a limit is as wide as there are
 * spellings: percent-encoding is decoded, an IPv6 host is its network (anybody has 2^64 addresses there), an IPv4
 * address in IPv6 clothes is the IPv4 one. And two kinds of key must not meet: each carries its kind.
 *
 * X-Forwarded-For is written from left to right by each hop, so only its right end, as far as trusted hops wrote it, is
 * worth anything.
 */
#include "proxy/inbound_key.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <string.h>

enum { HOPS_MOST = 64, BASIC_BYTES_MOST = 512 };

/* ---- addresses ---- */

bool inbound_trusts(const struct inbound_conf *inbound, const struct addr *addr)
{
    for (unsigned i = 0; i < inbound->trusted_proxies_count; i++) {
        if (cidr_contains(&inbound->trusted_proxies[i], addr)) {
            return true;
        }
    }
    return false;
}

/* "192.0.2.1", "192.0.2.1:8080", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:8080" */
static bool parse_hop(struct slice text, struct addr *out)
{
    return addr_parse_literal(text, 0, out) || addr_parse_with_port(text, out);
}

/* The last `HOPS_MOST` elements of X-Forwarded-For, in order. */
static unsigned read_hops(const struct message *message, struct slice hops[HOPS_MOST])
{
    unsigned count = 0;

    for (unsigned i = 0; i < message->fields_count; i++) {
        struct slice list = message->fields[i].value, element;
        if (!slice_is_nocase(message->fields[i].name, "X-Forwarded-For")) {
            continue;
        }
        while (slice_next_element(&list, &element)) {
            if (count == HOPS_MOST) {
                memmove(hops, hops + 1, (HOPS_MOST - 1) * sizeof hops[0]);
                count--;
            }
            hops[count++] = element;
        }
    }
    return count;
}

struct addr inbound_client(const struct inbound_conf *inbound, const struct inbound_request *request)
{
    struct addr client = *request->peer, hop;
    struct slice hops[HOPS_MOST];

    if (!request->trusted) {
        return client;
    }
    unsigned count = read_hops(request->message, hops);
    const struct field *real = message_field(request->message, "X-Real-IP");
    if (count == 0 && real != NULL) {
        hops[count++] = real->value;
    }
    while (count > 0 && parse_hop(hops[--count], &hop)) {
        client = hop;
        if (!inbound_trusts(inbound, &client)) {
            break;
        }
    }
    return client;
}

static void add_client(struct buf *out, const struct inbound_conf *inbound, const struct inbound_request *request)
{
    struct addr client = inbound_client(inbound, request);
    char text[INET6_ADDRSTRLEN] = "";

    if (client.sa.sa_family == AF_INET) {
        must(inet_ntop(AF_INET, &client.v4.sin_addr, text, sizeof(text)) != NULL);
    } else if (client.sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&client.v6.sin6_addr)) {
        must(inet_ntop(AF_INET, client.v6.sin6_addr.s6_addr + 12, text, sizeof(text)) != NULL);
    } else if (client.sa.sa_family == AF_INET6) {
        struct in6_addr network = client.v6.sin6_addr;
        for (unsigned bit = inbound->ipv6_prefix_bits; bit < 128; bit++) {
            network.s6_addr[bit / 8] &= (uint8_t) ~(0x80U >> bit % 8);
        }
        must(inet_ntop(AF_INET6, &network, text, sizeof(text)) != NULL);
    }
    buf_printf(out, "client_ip=%s", text);
}

/* ---- text ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void inbound_decode(struct buf *out, struct slice text, bool query)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%' && i + 2 < text.len && hex_digit(text.ptr[i + 1]) >= 0 && hex_digit(text.ptr[i + 2]) >= 0) {
            c = (char)(hex_digit(text.ptr[i + 1]) * 16 + hex_digit(text.ptr[i + 2]));
            i += 2;
        } else if (c == '+' && query) {
            c = ' ';
        }
        buf_add(out, &c, 1);
    }
}

/* Cuts `text` at the first `mark`; false at the end of the text. */
static bool next_part(struct slice *text, char mark, struct slice *part)
{
    if (text->ptr == NULL) {
        return false;
    }
    const char *at = text->len > 0 ? memchr(text->ptr, mark, text->len) : NULL;
    *part = (struct slice){text->ptr, at != NULL ? (size_t)(at - text->ptr) : text->len};
    *text = at != NULL ? (struct slice){at + 1, text->len - part->len - 1} : (struct slice){NULL, 0};
    return true;
}

/* "name=value"; without = the value is empty. */
static struct slice cut_name(struct slice *pair)
{
    struct slice name;

    (void)next_part(pair, '=', &name);
    if (pair->ptr == NULL) {
        *pair = (struct slice){name.ptr + name.len, 0};
    }
    return name;
}

/* ---- kinds; each appends and is true when the request has it ---- */

static bool add_header(struct buf *out, const struct inbound_request *request, const char *name)
{
    const struct field *field = message_field(request->message, name);

    if (field == NULL || field->value.len == 0) {
        return false;
    }
    buf_printf(out, "header:%s=", name);
    buf_add(out, field->value.ptr, field->value.len);
    return true;
}

/* The credentials of an Authorization field with that scheme (RFC 9110 section 11.4). */
static bool find_credentials(const struct inbound_request *request, const char *scheme, struct slice *out)
{
    const struct field *field = message_field(request->message, "Authorization");
    struct slice word, rest;

    if (field == NULL) {
        return false;
    }
    rest = field->value;
    if (!next_part(&rest, ' ', &word) || rest.ptr == NULL || !slice_is_nocase(word, scheme)) {
        return false;
    }
    *out = slice_trim(rest);
    return out->len > 0;
}

static bool add_bearer(struct buf *out, const struct inbound_request *request)
{
    struct slice token;

    if (!find_credentials(request, "Bearer", &token)) {
        return false;
    }
    buf_add_str(out, "bearer=");
    buf_add(out, token.ptr, token.len);
    return true;
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* RFC 4648 section 4; stops at what is no digit. How many bytes. */
static size_t decode_base64(struct slice text, char out[BASIC_BYTES_MOST])
{
    uint32_t bits = 0;
    unsigned have = 0;
    size_t len = 0;

    for (size_t i = 0; i < text.len && base64_digit(text.ptr[i]) >= 0 && len < BASIC_BYTES_MOST; i++) {
        bits = bits << 6 | (uint32_t)base64_digit(text.ptr[i]);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[len++] = (char)(bits >> have & 0xff);
        }
    }
    return len;
}

/* RFC 7617: the user id ends at the first colon. The password plays no part: whoever guesses passwords is one caller.
 */
static bool add_basic_user(struct buf *out, const struct inbound_request *request)
{
    char text[BASIC_BYTES_MOST];
    struct slice credentials;

    if (!find_credentials(request, "Basic", &credentials)) {
        return false;
    }
    size_t len = decode_base64(credentials, text);
    const char *colon = memchr(text, ':', len);
    if (colon == NULL || colon == text) {
        return false;
    }
    buf_add_str(out, "basic_user=");
    buf_add(out, text, (size_t)(colon - text));
    return true;
}

/* RFC 6265 section 4.2.1 */
static bool add_cookie(struct buf *out, const struct inbound_request *request, const char *name)
{
    for (unsigned i = 0; i < request->message->fields_count; i++) {
        struct slice list = request->message->fields[i].value, pair;
        if (!slice_is_nocase(request->message->fields[i].name, "Cookie")) {
            continue;
        }
        while (next_part(&list, ';', &pair)) {
            pair = slice_trim(pair);
            if (slice_is(cut_name(&pair), name) && pair.len > 0) {
                buf_printf(out, "cookie:%s=", name);
                buf_add(out, pair.ptr, pair.len);
                return true;
            }
        }
    }
    return false;
}

static bool is_decoded(struct slice text, const char *name)
{
    struct buf decoded = {0};

    inbound_decode(&decoded, text, true);
    bool same = buf_len(&decoded) == strlen(name) && memcmp(buf_ptr(&decoded), name, strlen(name)) == 0;
    buf_fini(&decoded);
    return same;
}

static bool add_query(struct buf *out, const struct inbound_request *request, const char *name)
{
    struct slice query = request->path, pair;

    (void)next_part(&query, '?', &pair);
    while (next_part(&query, '&', &pair)) {
        if (is_decoded(cut_name(&pair), name) && pair.len > 0) {
            buf_printf(out, "query:%s=", name);
            inbound_decode(out, pair, true);
            return true;
        }
    }
    return false;
}

static bool add_segment(struct buf *out, const struct inbound_request *request, unsigned index)
{
    struct slice path = request->path, segment;

    (void)next_part(&path, '?', &segment);
    path = segment;
    for (unsigned i = 0; next_part(&path, '/', &segment);) {
        if (segment.len > 0 && ++i == index) {
            buf_printf(out, "path:%u=", index);
            inbound_decode(out, segment, false);
            return true;
        }
    }
    return false;
}

static bool add_one(struct buf *out, const struct inbound_conf *inbound, const struct inbound_key *key,
                    const struct inbound_request *request)
{
    switch (key->kind) {
    case KEY_HEADER:
        return add_header(out, request, key->name);
    case KEY_BEARER:
        return add_bearer(out, request);
    case KEY_BASIC_USER:
        return add_basic_user(out, request);
    case KEY_COOKIE:
        return add_cookie(out, request, key->name);
    case KEY_QUERY:
        return add_query(out, request, key->name);
    case KEY_SEGMENT:
        return add_segment(out, request, key->index);
    case KEY_CLIENT_IP:
        add_client(out, inbound, request);
        return true;
    }
    wrong("no such kind of key");
}

void inbound_key_add(struct buf *out, const struct inbound_conf *inbound, const struct inbound_rule *rule,
                     const struct inbound_request *request)
{
    for (unsigned i = 0; i < rule->keys_count; i++) {
        if (add_one(out, inbound, &rule->keys[i], request)) {
            return;
        }
    }
}
