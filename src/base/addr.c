/*
 * Addresses. Inside, every address is looked at as 16 bytes, IPv4 as v4-mapped IPv6 (RFC 4291 section 2.5.5.2): one
 * comparison serves both families, and ::ffff:10.0.0.1 can't walk past a rule for 10.0.0.0/8.
 *
 * Private is what is not known to be public. For IPv4 that is a list of the ranges in IANA's special-purpose registry
 * that are not globally reachable. For IPv6 it is the other way round: only 2000::/3 is handed out at all, so
 * everything else is private, and a list takes away the special ranges within it. An IPv6 address that carries an IPv4
 * address which a router on the way would unpack (mapped, NAT64, 6to4, Teredo) is as private as what it carries.
 */
#include "base/addr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* ---- text ---- */

/* inet_pton takes strictly four decimal numbers, or IPv6 without a zone; inet_aton's 0x7f.1 and its kind are names
 * here. */
static bool parse_ip(int family, struct slice text, void *bytes)
{
    char copy[INET6_ADDRSTRLEN];

    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.ptr, '\0', text.len) != NULL) {
        return false;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return inet_pton(family, copy, bytes) == 1;
}

static bool cut_brackets(struct slice *text)
{
    if (text->len < 2 || text->ptr[0] != '[' || text->ptr[text->len - 1] != ']') {
        return false;
    }
    *text = (struct slice){text->ptr + 1, text->len - 2};
    return true;
}

bool addr_parse_literal(struct slice text, uint16_t port, struct addr *out)
{
    struct addr addr;
    bool bracketed = cut_brackets(&text);

    memset(&addr, 0, sizeof(addr));
    if (parse_ip(AF_INET6, text, &addr.v6.sin6_addr)) {
        addr.v6.sin6_family = AF_INET6;
        addr.v6.sin6_port = htons(port);
        addr.len = sizeof(addr.v6);
    } else if (!bracketed && parse_ip(AF_INET, text, &addr.v4.sin_addr)) {
        addr.v4.sin_family = AF_INET;
        addr.v4.sin_port = htons(port);
        addr.len = sizeof(addr.v4);
    } else {
        return false;
    }
    *out = addr;
    return true;
}

bool addr_parse_with_port(struct slice text, struct addr *out)
{
    const char *colon = text.len > 0 ? memrchr(text.ptr, ':', text.len) : NULL;
    uint16_t port;

    if (colon == NULL) {
        return false;
    }
    struct slice host = {text.ptr, (size_t)(colon - text.ptr)};
    struct slice digits = {colon + 1, text.len - host.len - 1};
    /* "::1:80" is an address by itself; only brackets tell where it ends */
    if (host.len > 0 && host.ptr[0] != '[' && memchr(host.ptr, ':', host.len) != NULL) {
        return false;
    }
    return str_parse_port(digits, &port) && addr_parse_literal(host, port, out);
}

void addr_format(const struct addr *addr, bool ip_only, char out[ADDR_TEXT_BYTES])
{
    char ip[INET6_ADDRSTRLEN] = "";
    bool v6 = addr->sa.sa_family == AF_INET6;
    const void *bytes = v6 ? (const void *)&addr->v6.sin6_addr : (const void *)&addr->v4.sin_addr;

    if (!v6 && addr->sa.sa_family != AF_INET) {
        snprintf(out, ADDR_TEXT_BYTES, "unknown");
        return;
    }
    must(inet_ntop(addr->sa.sa_family, bytes, ip, sizeof(ip)) != NULL);
    if (ip_only) {
        snprintf(out, ADDR_TEXT_BYTES, "%s", ip);
    } else {
        snprintf(out, ADDR_TEXT_BYTES, v6 ? "[%s]:%u" : "%s:%u", ip, addr_port(addr));
    }
}

uint16_t addr_port(const struct addr *addr)
{
    switch (addr->sa.sa_family) {
    case AF_INET:
        return ntohs(addr->v4.sin_port);
    case AF_INET6:
        return ntohs(addr->v6.sin6_port);
    default:
        return 0;
    }
}

/* ---- ranges ---- */

/* False for a family that is neither IPv4 nor IPv6. */
static bool addr_bytes(const struct addr *addr, uint8_t bytes[16])
{
    if (addr->sa.sa_family == AF_INET6) {
        memcpy(bytes, &addr->v6.sin6_addr, 16);
        return true;
    }
    memcpy(bytes, mapped_prefix, sizeof(mapped_prefix));
    memcpy(bytes + 12, &addr->v4.sin_addr, 4);
    return addr->sa.sa_family == AF_INET;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

static bool host_bits_zero(const struct cidr *range)
{
    for (unsigned bit = range->bits; bit < 128; bit++) {
        if ((range->bytes[bit / 8] >> (7 - bit % 8) & 1) != 0) {
            return false;
        }
    }
    return true;
}

bool cidr_parse(struct slice text, struct cidr *out)
{
    const char *slash = text.len > 0 ? memchr(text.ptr, '/', text.len) : NULL;
    struct slice ip = {text.ptr, slash != NULL ? (size_t)(slash - text.ptr) : text.len};
    struct addr addr;
    struct cidr range;

    if (!addr_parse_literal(ip, 0, &addr) || !addr_bytes(&addr, range.bytes)) {
        return false;
    }
    unsigned widest = addr.sa.sa_family == AF_INET ? 32 : 128;
    uint64_t bits = widest;
    if (slash != NULL && (!str_parse_u64((struct slice){slash + 1, text.len - ip.len - 1}, &bits) || bits > widest)) {
        return false;
    }
    range.bits = (uint8_t)(128 - widest + bits);
    if (!host_bits_zero(&range)) {
        return false;
    }
    *out = range;
    return true;
}

bool cidr_contains(const struct cidr *range, const struct addr *addr)
{
    uint8_t bytes[16];

    return addr_bytes(addr, bytes) && same_bits(range->bytes, bytes, range->bits);
}

/* ---- private or public ---- */

struct prefix {
    uint8_t bytes[16];
    uint8_t bits;
};

static const struct prefix private_v4[] = {
    {{0}, 8},             /* this network, RFC 791 */
    {{10}, 8},            /* private use, RFC 1918 */
    {{100, 64}, 10},      /* shared address space, RFC 6598 */
    {{127}, 8},           /* loopback, RFC 1122 */
    {{169, 254}, 16},     /* link-local, RFC 3927: where clouds keep their metadata */
    {{172, 16}, 12},      /* private use */
    {{192, 0, 0}, 24},    /* protocol assignments, RFC 6890 */
    {{192, 0, 2}, 24},    /* documentation, RFC 5737 */
    {{192, 88, 99}, 24},  /* 6to4 relays, withdrawn by RFC 7526 */
    {{192, 168}, 16},     /* private use */
    {{198, 18}, 15},      /* benchmarking, RFC 2544 */
    {{198, 51, 100}, 24}, /* documentation */
    {{203, 0, 113}, 24},  /* documentation */
    {{224}, 4},           /* multicast, RFC 5771 */
    {{240}, 4},           /* reserved, and the broadcast address */
};

static const struct prefix public_v6 = {{0x20}, 3};
static const struct prefix private_v6[] = {
    {{0x20, 0x01}, 23},             /* protocol assignments, RFC 2928 */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation, RFC 3849 */
    {{0x3f, 0xff}, 20},             /* documentation, RFC 9637 */
};

/* IPv6 that carries IPv4, `at` bytes in. */
static const struct carrier {
    struct prefix prefix;
    uint8_t at;
    uint8_t mask; /* what every byte is XORed with */
} carriers[] = {
    {{{[10] = 0xff, [11] = 0xff}, 96}, 12, 0},  /* v4-mapped */
    {{{0x00, 0x64, 0xff, 0x9b}, 96}, 12, 0},    /* NAT64, RFC 6052 */
    {{{0x20, 0x02}, 16}, 2, 0},                 /* 6to4, RFC 3056 */
    {{{0x20, 0x01, 0x00, 0x00}, 32}, 4, 0},     /* Teredo's server, RFC 4380 section 4 */
    {{{0x20, 0x01, 0x00, 0x00}, 32}, 12, 0xff}, /* and its client */
};

static bool in_any(const struct prefix *list, size_t count, const uint8_t *bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (same_bits(list[i].bytes, bytes, list[i].bits)) {
            return true;
        }
    }
    return false;
}

static bool carried_is_private(const struct carrier *carrier, const uint8_t bytes[16])
{
    uint8_t v4[4];

    for (size_t i = 0; i < sizeof(v4); i++) {
        v4[i] = bytes[carrier->at + i] ^ carrier->mask;
    }
    return in_any(private_v4, COUNT(private_v4), v4);
}

bool addr_is_private(const struct addr *addr)
{
    uint8_t bytes[16];
    bool carries = false;

    if (!addr_bytes(addr, bytes)) {
        return true;
    }
    for (size_t i = 0; i < COUNT(carriers); i++) {
        if (same_bits(carriers[i].prefix.bytes, bytes, carriers[i].prefix.bits)) {
            if (carried_is_private(&carriers[i], bytes)) {
                return true;
            }
            carries = true;
        }
    }
    return !carries &&
           (!same_bits(public_v6.bytes, bytes, public_v6.bits) || in_any(private_v6, COUNT(private_v6), bytes));
}
