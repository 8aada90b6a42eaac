#ifndef SLUICE_SERVER_CERTIFICATE_H
#define SLUICE_SERVER_CERTIFICATE_H
/* Making X.509 certificates: ours, and those that it signs. NULL when OpenSSL can't. */
#include <openssl/evp.h>
#include <openssl/x509.h>

/* `permitted` as in authority_create(). */
X509 *certificate_make_ca(EVP_PKEY *key, const char *permitted);
/* For `host`, a name or an address, with `key`; signed by `ca`. */
X509 *certificate_make_leaf(EVP_PKEY *key, const char *host, X509 *ca, EVP_PKEY *ca_key);
EVP_PKEY *certificate_make_key(void);

#endif
