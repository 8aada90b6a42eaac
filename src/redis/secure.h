#ifndef SLUICE_SRC_REDIS_SECURE_H
#define SLUICE_SRC_REDIS_SECURE_H
/* TLS towards Redis: whom to trust and how a server proves its name. */
#include "conf/policy.h"

#include <openssl/ssl.h>

#define SECURE_WHY_BYTES 320

/* For conf->ca_file (NULL: the system's certificate authorities), client_cert and client_key. NULL when one of the
 * files can't be used: `why` says which and why. */
SSL_CTX *secure_context(const struct redis_conf *conf, char why[SECURE_WHY_BYTES]);
/* For one connection to `host`, a name or an address literal; the handshake fails unless the certificate is for it. */
/* NULL when `host` is no name that a certificate can have. */
SSL *secure_session(SSL_CTX *context, const char *host);
/* Why the handshake failed; `error` is OpenSSL's code, 0 for none. */
const char *secure_why(const SSL *ssl, unsigned long error);

#endif
