#ifndef SLUICE_UPSTREAM_HELLO_H
#define SLUICE_UPSTREAM_HELLO_H
/* What TLS says in the clear when it begins: ClientHello and ServerHello (RFC 8446 section 4.1, RFC 6066 section 3). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HELLO_SNI_BYTES = 256, HELLO_RECORD_HEADER_BYTES = 5 };

struct client_hello {
    bool has_sni;
    bool bad_sni; /* there is one, but it is empty, too long, or no text */
    bool offers_h2;
    bool early_data;           /* the first request may come before the handshake's end */
    char sni[HELLO_SNI_BYTES]; /* lower case, without trailing dot */
};

enum hello {
    HELLO_DONE,
    HELLO_MORE, /* it is not all here */
    HELLO_BAD,  /* it is none */
};

/* From the first byte of a connection: records, of which the ClientHello may fill several. */
enum hello hello_read_client(const uint8_t *bytes, size_t len, struct client_hello *out);
/* From the first byte of the handshake message, without record headers. */
enum hello hello_read_server(const uint8_t *message, size_t len, bool *tls13);

#endif
