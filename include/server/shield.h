#ifndef SLUICE_SERVER_SHIELD_H
#define SLUICE_SERVER_SHIELD_H
/* TLS as a filter between bytes: what came goes in, plain bytes come out, and the other way round. Knows no descriptor.
 */
#include "base/buf.h"

#include <openssl/ssl.h>

struct shield;

enum shield_result {
    SHIELD_OK,
    SHIELD_ENDED,  /* the other side said close_notify */
    SHIELD_FAILED, /* it broke the protocol, or refused our certificate: shield_why() */
};

/* Takes the SSL object, a server's side. */
struct shield *shield_new(SSL *ssl);
void shield_free(struct shield *shield);
/* Decrypts: adds to `plain`. What has to be answered waits in shield_output(). */
enum shield_result shield_receive(struct shield *shield, const void *bytes, size_t len, struct buf *plain);
/* Encrypts; before the handshake is over it waits. */
void shield_send(struct shield *shield, const void *bytes, size_t len);
/* Says close_notify. */
void shield_end(struct shield *shield);
/* Moves what is to be sent to the end of `out`. */
void shield_output(struct shield *shield, struct buf *out);
/* Of a failure, one line without secrets. */
const char *shield_why(const struct shield *shield);

#endif
