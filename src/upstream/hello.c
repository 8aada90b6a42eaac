/*
 * Readers for the two messages of a TLS handshake that nobody encrypts. They look, and change nothing: what they do not
 * understand is the other end's affair. Each length is checked against the one that encloses it.
 */
#include "upstream/hello.h"

#include <string.h>

enum { RECORD_HANDSHAKE = 22, RECORD_BYTES_MAX = 16384 };
enum { MESSAGE_CLIENT_HELLO = 1, MESSAGE_SERVER_HELLO = 2, MESSAGE_HEADER_BYTES = 4, MESSAGE_BYTES_MAX = 32768 };
enum { EXTENSION_SERVER_NAME = 0, EXTENSION_ALPN = 16, EXTENSION_EARLY_DATA = 42, EXTENSION_SUPPORTED_VERSIONS = 43 };
enum { RANDOM_BYTES = 32, NAME_HOST = 0, VERSION_TLS13 = 0x0304 };

/* Bytes that are taken from the front; `bad` once more was asked for than there is. */
struct cursor {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static const uint8_t *take(struct cursor *c, size_t len)
{
    const uint8_t *at = c->at;

    if (c->bad || len > c->left) {
        c->bad = true;
        return NULL;
    }
    c->at += len;
    c->left -= len;
    return at;
}

static size_t take_number(struct cursor *c, size_t bytes)
{
    const uint8_t *at = take(c, bytes);
    size_t number = 0;

    for (size_t i = 0; at != NULL && i < bytes; i++) {
        number = number << 8 | at[i];
    }
    return number;
}

/* What a length of `bytes` bytes encloses. */
static struct cursor take_vector(struct cursor *c, size_t bytes)
{
    size_t len = take_number(c, bytes);
    const uint8_t *at = take(c, len);

    return at != NULL ? (struct cursor){at, len, false} : (struct cursor){NULL, 0, true};
}

/* ---- extensions ---- */

static void read_name(struct cursor name, struct client_hello *out)
{
    out->has_sni = true;
    if (name.left > 0 && name.at[name.left - 1] == '.') {
        name.left--;
    }
    out->bad_sni = name.bad || name.left == 0 || name.left >= HELLO_SNI_BYTES;
    for (size_t i = 0; !out->bad_sni && i < name.left; i++) {
        char c = (char)name.at[i];
        out->bad_sni = name.at[i] <= ' ' || name.at[i] >= 0x7f;
        out->sni[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    if (out->bad_sni) {
        out->sni[0] = '\0';
    }
}

static void read_server_name(struct cursor body, struct client_hello *out)
{
    struct cursor list = take_vector(&body, 2);

    /* A second one is forbidden (RFC 8446 section 4.2), and who reads it may not be who read the first. */
    if (list.bad || list.left == 0 || out->has_sni) {
        out->has_sni = out->bad_sni = true;
        out->sni[0] = '\0';
        return;
    }
    while (list.left > 0 && !list.bad && !out->has_sni) {
        size_t type = take_number(&list, 1);
        struct cursor name = take_vector(&list, 2);
        if (type == NAME_HOST) {
            read_name(name, out);
        }
    }
}

static void read_alpn(struct cursor body, struct client_hello *out)
{
    struct cursor list = take_vector(&body, 2);

    while (list.left > 0 && !list.bad) {
        struct cursor name = take_vector(&list, 1);
        if (!name.bad && name.left == 2 && memcmp(name.at, "h2", 2) == 0) {
            out->offers_h2 = true;
        }
    }
}

static void read_extension(size_t type, struct cursor body, struct client_hello *out)
{
    if (type == EXTENSION_SERVER_NAME) {
        read_server_name(body, out);
    } else if (type == EXTENSION_ALPN) {
        read_alpn(body, out);
    } else if (type == EXTENSION_EARLY_DATA) {
        out->early_data = true;
    }
}

/* ---- the ClientHello ---- */

static enum hello read_client_message(const uint8_t *message, size_t len, struct client_hello *out)
{
    struct cursor c = {message, len, false};

    take(&c, MESSAGE_HEADER_BYTES + 2 + RANDOM_BYTES);
    take_vector(&c, 1); /* session id */
    take_vector(&c, 2); /* cipher suites */
    take_vector(&c, 1); /* compression methods */
    if (c.bad) {
        return HELLO_BAD;
    }
    struct cursor extensions = c.left > 0 ? take_vector(&c, 2) : (struct cursor){c.at, 0, false};
    while (extensions.left > 0 && !extensions.bad) {
        size_t type = take_number(&extensions, 2);
        struct cursor body = take_vector(&extensions, 2);
        if (!body.bad) {
            read_extension(type, body, out);
        }
    }
    return extensions.bad ? HELLO_BAD : HELLO_DONE;
}

/* Copies the next record's part of the message; false when it is none, or not all here (`*more`). */
static bool take_record(struct cursor *c, uint8_t *message, size_t *have, bool *more)
{
    size_t type = take_number(c, 1);
    size_t major = take_number(c, 1);

    take(c, 1);
    size_t len = take_number(c, 2);
    *more = c->bad;
    if (c->bad || type != RECORD_HANDSHAKE || major != 3 || len == 0 || len > RECORD_BYTES_MAX) {
        return false;
    }
    *more = c->left < len;
    size_t part = *more ? c->left : len;
    if (part > MESSAGE_BYTES_MAX - *have) {
        *more = false;
        return false;
    }
    memcpy(message + *have, take(c, part), part);
    *have += part;
    return !*more;
}

enum hello hello_read_client(const uint8_t *bytes, size_t len, struct client_hello *out)
{
    uint8_t message[MESSAGE_BYTES_MAX];
    struct cursor c = {bytes, len, false};
    size_t have = 0, wanted = MESSAGE_HEADER_BYTES;

    memset(out, 0, sizeof(*out));
    if (len > 1 && bytes[1] != 3) {
        return HELLO_BAD; /* known at the second byte: the rest of a header may never come */
    }
    while (have < wanted) {
        bool more = true;
        bool whole = c.left > 0 && take_record(&c, message, &have, &more);
        if (have > 0 && message[0] != MESSAGE_CLIENT_HELLO) {
            return HELLO_BAD;
        }
        if (have >= MESSAGE_HEADER_BYTES) {
            wanted = MESSAGE_HEADER_BYTES + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
        }
        if (wanted > MESSAGE_BYTES_MAX) {
            return HELLO_BAD;
        }
        if (!whole && have < wanted) {
            return more ? HELLO_MORE : HELLO_BAD;
        }
    }
    return read_client_message(message, wanted, out);
}

/* ---- the ServerHello ---- */

enum hello hello_read_server(const uint8_t *message, size_t len, bool *tls13)
{
    struct cursor c = {message, len, false};

    *tls13 = false;
    if (len > 0 && message[0] != MESSAGE_SERVER_HELLO) {
        return HELLO_BAD;
    }
    take(&c, 1);
    size_t wanted = take_number(&c, 3);
    if (c.bad || wanted > c.left) {
        return wanted > MESSAGE_BYTES_MAX ? HELLO_BAD : HELLO_MORE;
    }
    c.left = wanted;
    take(&c, 2 + RANDOM_BYTES);
    take_vector(&c, 1); /* session id */
    take(&c, 2 + 1);    /* cipher suite, compression method */
    struct cursor extensions = c.left > 0 ? take_vector(&c, 2) : (struct cursor){c.at, 0, c.bad};
    while (extensions.left > 0 && !extensions.bad) {
        size_t type = take_number(&extensions, 2);
        struct cursor body = take_vector(&extensions, 2);
        if (type == EXTENSION_SUPPORTED_VERSIONS && body.left == 2) {
            *tls13 = take_number(&body, 2) == VERSION_TLS13;
        }
    }
    return c.bad || extensions.bad ? HELLO_BAD : HELLO_DONE;
}
