#ifndef SLUICE_SRC_REDIS_SECURE_H
#define SLUICE_SRC_REDIS_SECURE_H
/* TLS towards Redis: whom to trust and how a server proves its name. */
#include "base/must.h"

#include <openssl/ssl.h>

/* `ca_file` NULL: the system's certificate authorities. NULL when the file can't be used. */
SSL_CTX *secure_context(const char *ca_file);
/* For one connection to `host`, a name or an address literal; the handshake fails unless the certificate is for it. */
/* NULL when `host` is no name that a certificate can have. */
SSL *secure_session(SSL_CTX *context, const char *host);
/* Why the handshake failed; `error` is OpenSSL's code, 0 for none. */
const char *secure_why(const SSL *ssl, unsigned long error);

#endif
