/*
 *   from the socket --> [BIO in] --SSL_read--> plain
 *   to the socket   <-- [BIO out] <--SSL_write-- plain, or what SSL has to say by itself
 *
 * A filter and not TLS on the descriptor, for two reasons: the first bytes of the handshake may have come along with
 * the CONNECT request and are in user space already, and a connection then has one way of sending, waiting and being
 * full, with TLS or without.
 */
#include "server/shield.h"

#include "base/mem.h"

#include <openssl/err.h>
#include <string.h>

enum { READ_BYTES = 16384 };

struct shield {
    SSL *ssl;
    BIO *in, *out;
    struct buf early; /* to be sent once the handshake is over */
    const char *why;
};

struct shield *shield_new(SSL *ssl)
{
    struct shield *s = mem_zalloc(sizeof(*s));

    s->ssl = ssl;
    s->in = BIO_new(BIO_s_mem());
    s->out = BIO_new(BIO_s_mem());
    must(s->in != NULL && s->out != NULL);
    SSL_set_bio(ssl, s->in, s->out);
    SSL_set_accept_state(ssl);
    return s;
}

void shield_free(struct shield *s)
{
    if (s == NULL) {
        return;
    }
    SSL_free(s->ssl); /* and both BIOs */
    buf_fini(&s->early);
    mem_free(s);
}

static void fail(struct shield *s)
{
    unsigned long code = ERR_peek_last_error();
    const char *words = ERR_reason_error_string(code);

    s->why = words != NULL ? words : "the TLS handshake failed";
    ERR_clear_error();
}

static void send_early(struct shield *s)
{
    if (SSL_is_init_finished(s->ssl) && buf_len(&s->early) > 0) {
        struct buf early = s->early;
        s->early = (struct buf){0};
        shield_send(s, buf_ptr(&early), buf_len(&early));
        buf_fini(&early);
    }
}

enum shield_result shield_receive(struct shield *s, const void *bytes, size_t len, struct buf *plain)
{
    int got;

    ERR_clear_error();
    if (len > 0) {
        must(len < INT32_MAX && BIO_write(s->in, bytes, (int)len) == (int)len);
    }
    while ((got = SSL_read(s->ssl, buf_reserve(plain, READ_BYTES), READ_BYTES)) > 0) {
        buf_grew(plain, (size_t)got);
    }
    int error = SSL_get_error(s->ssl, got);
    send_early(s);
    if (error == SSL_ERROR_ZERO_RETURN) {
        return SHIELD_ENDED;
    }
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        fail(s);
        return SHIELD_FAILED;
    }
    return SHIELD_OK;
}

void shield_send(struct shield *s, const void *bytes, size_t len)
{
    const char *at = bytes;

    if (!SSL_is_init_finished(s->ssl)) {
        buf_add(&s->early, bytes, len);
        return;
    }
    ERR_clear_error();
    while (len > 0) {
        int part = len < READ_BYTES ? (int)len : READ_BYTES;
        int sent = SSL_write(s->ssl, at, part);
        if (sent <= 0) {
            fail(s); /* it was ended or broken before: nobody is there to read this */
            return;
        }
        at += sent;
        len -= (size_t)sent;
    }
}

void shield_end(struct shield *s)
{
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl);
    ERR_clear_error();
}

void shield_output(struct shield *s, struct buf *out)
{
    size_t waiting = BIO_ctrl_pending(s->out);

    if (waiting > 0) {
        must(waiting < INT32_MAX);
        int got = BIO_read(s->out, buf_reserve(out, waiting), (int)waiting);
        must(got == (int)waiting);
        buf_grew(out, waiting);
    }
}

const char *shield_why(const struct shield *s)
{
    return s->why != NULL ? s->why : "";
}
