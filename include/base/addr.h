#ifndef SLUICE_BASE_ADDR_H
#define SLUICE_BASE_ADDR_H
/* Socket addresses, address ranges, and which of them are nobody's business outside. */
#include "base/must.h"
#include "base/str.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct addr {
    union {
        struct sockaddr sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage any;
    };
    socklen_t len;
};

#define ADDR_TEXT_BYTES 64

/* An address literal, "127.0.0.1" or "::1" (brackets allowed), with the port in `port`. */
bool addr_parse_literal(struct slice text, uint16_t port, struct addr *out) MUST_CHECK;
/* "127.0.0.1:3128", "[::1]:3128". */
bool addr_parse_with_port(struct slice text, struct addr *out) MUST_CHECK;
/* "127.0.0.1:3128" or "[::1]:3128"; `ip_only` leaves brackets and port out. */
void addr_format(const struct addr *addr, bool ip_only, char out[ADDR_TEXT_BYTES]);
uint16_t addr_port(const struct addr *addr);

struct cidr {
    uint8_t bytes[16]; /* IPv4 as v4-mapped IPv6 */
    uint8_t bits;      /* 0 to 128 */
};
/* "10.0.0.0/8", "::1/128", or a bare address. Host bits must be zero. */
bool cidr_parse(struct slice text, struct cidr *out) MUST_CHECK;
bool cidr_contains(const struct cidr *range, const struct addr *addr);

/* True for every address that does not belong to the public internet: private, loopback, link-local (cloud metadata
 * too), shared (RFC 6598), multicast, reserved, unspecified, unique local; and for v4-mapped, NAT64 (RFC 6052), 6to4
 * and Teredo forms of such an IPv4 address. IANA special-purpose registries, RFC 6890. */
bool addr_is_private(const struct addr *addr);

#endif
