#ifndef SLUICE_TESTS_UPSTREAM_TLS_RIG_H
#define SLUICE_TESTS_UPSTREAM_TLS_RIG_H
/* A TLS origin on loopback in a thread of its own, with a certificate it signed itself. One connection at a time. */
#include <check.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum tls_rig_manner {
    TLS_RIG_ECHO,              /* sends back what comes */
    TLS_RIG_SWALLOW_THEN_ECHO, /* sends back every swallow_bytes bytes, once they are all there */
    TLS_RIG_SAY_BYE,           /* answers once, then close_notify and the end */
    TLS_RIG_CUT,               /* answers once, then the end without close_notify */
    TLS_RIG_OLD,               /* TLS 1.1 at most */
    TLS_RIG_PLAIN,             /* no TLS at all */
};

struct tls_rig {
    enum tls_rig_manner manner;
    int listener;
    uint16_t port;
    char certificate_path[64];
    size_t swallow_bytes;
    int handshakes, resumed;
    SSL_CTX *ctx;
    pthread_t thread;
};

static inline void tls_rig_certify(SSL_CTX *ctx, const char *name, const char *path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    char alt[128];

    snprintf(alt, sizeof(alt), "DNS:%s", name);
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, alt);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    ck_assert_int_gt(X509_sign(cert, key, EVP_sha256()), 0);
    ck_assert_int_eq(SSL_CTX_use_certificate(ctx, cert), 1);
    ck_assert_int_eq(SSL_CTX_use_PrivateKey(ctx, key), 1);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    PEM_write_X509(file, cert);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static inline int tls_rig_write_all(SSL *ssl, const char *bytes, size_t len)
{
    return len == 0 || SSL_write(ssl, bytes, (int)len) == (int)len;
}

static inline void tls_rig_echo(struct tls_rig *rig, SSL *ssl)
{
    size_t batch = rig->manner == TLS_RIG_SWALLOW_THEN_ECHO ? rig->swallow_bytes : 0;
    size_t cap = batch > 16384 ? batch : 16384, have = 0;
    char *bytes = malloc(cap);
    int n;

    while ((n = SSL_read(ssl, bytes + have, (int)(cap - have))) > 0) {
        have += (size_t)n;
        if (have >= batch) {
            if (!tls_rig_write_all(ssl, bytes, have)) {
                break;
            }
            have = 0;
            if (rig->manner == TLS_RIG_SAY_BYE || rig->manner == TLS_RIG_CUT) {
                break;
            }
        }
    }
    free(bytes);
}

static inline void tls_rig_serve(struct tls_rig *rig, int fd)
{
    SSL *ssl = SSL_new(rig->ctx);

    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1) {
        rig->handshakes++;
        rig->resumed += SSL_session_reused(ssl);
        tls_rig_echo(rig, ssl);
        if (rig->manner != TLS_RIG_CUT) {
            SSL_shutdown(ssl);
        }
    }
    SSL_free(ssl);
}

static inline void *tls_rig_main(void *arg)
{
    struct tls_rig *rig = arg;
    int fd;

    while ((fd = accept(rig->listener, NULL, NULL)) >= 0) {
        if (rig->manner == TLS_RIG_PLAIN) {
            (void)!write(fd, "220 no TLS here\r\n", 17);
            shutdown(fd, SHUT_WR);
            char bytes[4096];
            while (read(fd, bytes, sizeof(bytes)) > 0) {
            }
        } else {
            tls_rig_serve(rig, fd);
        }
        close(fd);
    }
    return NULL;
}

static inline void tls_rig_start(struct tls_rig *rig, const char *name, enum tls_rig_manner manner)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    sigset_t all, before;

    memset(rig, 0, sizeof(*rig));
    rig->manner = manner;
    rig->ctx = SSL_CTX_new(TLS_server_method());
    if (manner == TLS_RIG_OLD) {
        SSL_CTX_set_security_level(rig->ctx, 0);
        SSL_CTX_set_max_proto_version(rig->ctx, TLS1_1_VERSION);
    }
    snprintf(rig->certificate_path, sizeof(rig->certificate_path), "/tmp/sluice-test-XXXXXX");
    close(mkstemp(rig->certificate_path));
    tls_rig_certify(rig->ctx, name, rig->certificate_path);
    rig->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(rig->listener, (struct sockaddr *)&in, sizeof(in)), 0);
    ck_assert_int_eq(listen(rig->listener, 16), 0);
    getsockname(rig->listener, (struct sockaddr *)&in, &len);
    rig->port = ntohs(in.sin_port);
    /* the thread writes to sockets that may be closed; the test's own thread keeps SIGPIPE deadly, to notice one */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ck_assert_int_eq(pthread_create(&rig->thread, NULL, tls_rig_main, rig), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The connection it serves must be closed, or about to end. */
static inline void tls_rig_stop(struct tls_rig *rig)
{
    shutdown(rig->listener, SHUT_RDWR);
    pthread_join(rig->thread, NULL);
    close(rig->listener);
    SSL_CTX_free(rig->ctx);
    unlink(rig->certificate_path);
}

#endif
