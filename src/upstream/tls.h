#ifndef SLUICE_UPSTREAM_TLS_H
#define SLUICE_UPSTREAM_TLS_H
/* What all TLS connections share: the certificates we trust, and the sessions that can be resumed. */
#include <curl/curl.h>

struct tls;

/* Reads the trusted certificates: SSL_CERT_FILE where set, else the system's bundle. */
struct tls *tls_new(void);
/* No easy handle set up with it may be left. */
void tls_free(struct tls *tls);
/* Makes `easy` verify the peer, and its name, against our store. */
void tls_set_up(struct tls *tls, CURL *easy);

#endif
