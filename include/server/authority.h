#ifndef SLUICE_SERVER_AUTHORITY_H
#define SLUICE_SERVER_AUTHORITY_H
/*
 * The CA whose certificates callers see where TLS ends here. Two files in one directory: ca.pem, which callers get to
 * trust, and ca-key.pem, which nobody but us may read. Certificates for single hosts are made when first asked for and
 * kept in memory only.
 */
#include "base/err.h"

#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>

enum { AUTHORITY_LEAVES_MOST = 1000 };

struct authority;

/* Makes both files (the key with mode 0600); never overwrites. `permitted` (NULL: any name) lists the domains, by
 * comma, that certificates may be for (RFC 5280 section 4.2.1.10). */
bool authority_create(const char *dir, const char *permitted, struct err *err) MUST_CHECK;
/* Prints the certificate, with a line about it before, to `out`. */
bool authority_show(const char *dir, FILE *out, struct err *err) MUST_CHECK;

/* NULL, and what to do in `err`, when the files are missing, readable by others, expired, or no pair. */
struct authority *authority_load(const char *dir, struct err *err) MUST_CHECK;
void authority_free(struct authority *authority);
/* The same certificate. */
bool authority_is_same(const struct authority *a, const struct authority *b);

/* A server's side of a TLS connection with the certificate for `host` (a name, or an address without brackets); only
 * that SNI and only http/1.1 are taken. NULL without memory. `host` must outlive it. */
SSL *authority_server_side(struct authority *authority, const char *host);
/* Certificates in memory, and how many were ever made. */
unsigned authority_leaves(const struct authority *authority);
uint64_t authority_made(const struct authority *authority);

#endif
