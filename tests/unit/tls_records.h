#ifndef SLUICE_TESTS_TLS_RECORDS_H
#define SLUICE_TESTS_TLS_RECORDS_H
/* TLS records and hellos, built by hand. */
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline void add_number(struct buf *out, size_t number, unsigned bytes)
{
    while (bytes-- > 0) {
        char byte = (char)(number >> (8 * bytes));
        buf_add(out, &byte, 1);
    }
}

/* A record with `len` bytes of no meaning. */
static inline void add_record(struct buf *out, unsigned type, size_t len)
{
    add_number(out, type, 1);
    add_number(out, 0x0303, 2);
    add_number(out, len, 2);
    memset(buf_reserve(out, len), 'x', len);
    buf_grew(out, len);
}

static inline void add_extension(struct buf *out, unsigned type, const void *bytes, size_t len)
{
    add_number(out, type, 2);
    add_number(out, len, 2);
    buf_add(out, bytes, len);
}

static inline void add_sni(struct buf *out, const void *name, size_t len)
{
    struct buf body = {0};

    add_number(&body, len + 3, 2);
    add_number(&body, 0, 1);
    add_number(&body, len, 2);
    buf_add(&body, name, len);
    add_extension(out, 0, buf_ptr(&body), buf_len(&body));
    buf_fini(&body);
}

/* A handshake message around `extensions`; the server's where `type` is 2. */
static inline void add_hello_message(struct buf *out, unsigned type, const struct buf *extensions)
{
    struct buf body = {0};

    add_number(&body, 0x0303, 2);
    for (int i = 0; i < 4; i++) {
        add_number(&body, 0x0123456789abcdef, 8);
    }
    add_number(&body, 2, 1);
    add_number(&body, 0xabcd, 2); /* session id */
    if (type == 1) {
        add_number(&body, 2, 2);
    }
    add_number(&body, 0x1301, 2);
    add_number(&body, type == 1 ? 0x0100 : 0, type == 1 ? 2 : 1);
    add_number(&body, buf_len(extensions), 2);
    if (buf_len(extensions) > 0) {
        buf_add(&body, buf_ptr(extensions), buf_len(extensions));
    }
    add_number(out, type, 1);
    add_number(out, buf_len(&body), 3);
    buf_add(out, buf_ptr(&body), buf_len(&body));
    buf_fini(&body);
}

/* The message in records of at most `piece` bytes each. */
static inline void add_in_records(struct buf *out, const struct buf *message, size_t piece)
{
    for (size_t at = 0; at < buf_len(message); at += piece) {
        size_t len = buf_len(message) - at < piece ? buf_len(message) - at : piece;
        add_number(out, 22, 1);
        add_number(out, 0x0301, 2);
        add_number(out, len, 2);
        buf_add(out, buf_ptr(message) + at, len);
    }
}

static inline void add_client_hello(struct buf *out, const char *name, bool h2, bool early_data, size_t piece)
{
    struct buf extensions = {0}, message = {0};

    add_extension(&extensions, 0x0a0a, "", 0);
    if (name != NULL) {
        add_sni(&extensions, name, strlen(name));
    }
    add_extension(&extensions, 16, h2 ? "\0\x0c\x02h2\x08http/1.1" : "\0\x09\x08http/1.1", h2 ? 14 : 11);
    if (early_data) {
        add_extension(&extensions, 42, "", 0);
    }
    add_hello_message(&message, 1, &extensions);
    add_in_records(out, &message, piece);
    buf_fini(&extensions);
    buf_fini(&message);
}

static inline void add_server_hello(struct buf *out, bool tls13)
{
    struct buf extensions = {0}, message = {0};

    add_extension(&extensions, 51, "key share", 9);
    if (tls13) {
        add_extension(&extensions, 43, "\x03\x04", 2);
    }
    add_hello_message(&message, 2, &extensions);
    add_in_records(out, &message, 16384);
    buf_fini(&extensions);
    buf_fini(&message);
}

#endif
