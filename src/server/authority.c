/*
 *   host -> [leaves: hash and LRU list] -> certificate and key -> SSL of one connection
 *              | not there, or about to expire: made now
 *
 * One SSL_CTX for all, and per host no more than a certificate and a key, so that ten thousand hosts cost what
 * AUTHORITY_LEAVES_MOST cost. Sessions are not resumed: a handshake with P-256 is cheap, and a ticket made for one host
 * must not open another.
 *
 * The SNI must name the host of the CONNECT: our certificate says who the third party is, and TLS to it will be begun
 * with that name. The key of the CA is read once, from a file that nobody else can read, and never leaves this process.
 */
#include "server/authority.h"

#include "base/mem.h"
#include "certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>
#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#define uthash_fatal(why) wrong(why)
#include <uthash.h>

enum { RENEW_BEFORE_S = 86400 };
static const char cert_name[] = "ca.pem", key_name[] = "ca-key.pem";

struct leaf {
    UT_hash_handle hh;
    TAILQ_ENTRY(leaf) link; /* used last first */
    char *host;
    X509 *cert;
    EVP_PKEY *key;
};

struct authority {
    X509 *cert;
    EVP_PKEY *key;
    SSL_CTX *ctx;
    struct leaf *by_host;
    TAILQ_HEAD(leaves, leaf) leaves;
    uint64_t made;
};

/* ---- files ---- */

static char *path_of(const char *dir, const char *name)
{
    return mem_printf("%s/%s", dir, name);
}

/* A new file with these rights from its first moment on. */
static FILE *create(const char *path, mode_t mode, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (file == NULL) {
        err_add(err, "can't make %s: %s%s", path, strerror(errno),
                errno == EEXIST ? "; callers may trust it, so it is not replaced: remove it yourself" : "");
    }
    return file;
}

static bool write_key(const char *path, EVP_PKEY *key, struct err *err)
{
    FILE *file = create(path, S_IRUSR | S_IWUSR, err);

    if (file == NULL) {
        return false;
    }
    bool written = PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1;
    written = fclose(file) == 0 && written;
    if (!written) {
        err_add(err, "can't write %s", path);
        unlink(path);
    }
    return written;
}

static bool write_cert(const char *path, X509 *cert, struct err *err)
{
    FILE *file = create(path, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH, err);

    if (file == NULL) {
        return false;
    }
    bool written = PEM_write_X509(file, cert) == 1;
    written = fclose(file) == 0 && written;
    if (!written) {
        err_add(err, "can't write %s", path);
        unlink(path);
    }
    return written;
}

bool authority_create(const char *dir, const char *permitted, struct err *err)
{
    char *cert_path = path_of(dir, cert_name), *key_path = path_of(dir, key_name);
    EVP_PKEY *key = certificate_make_key();
    X509 *cert = key != NULL ? certificate_make_ca(key, permitted) : NULL;
    bool made = false;

    if (cert == NULL) {
        err_add(err, "OpenSSL can't make the certificate%s", permitted != NULL ? "; are these domains?" : "");
    } else if (mkdir(dir, S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH) != 0 && errno != EEXIST) {
        err_add(err, "can't make the directory %s: %s", dir, strerror(errno));
    } else {
        made = write_key(key_path, key, err);
        if (made && !write_cert(cert_path, cert, err)) {
            unlink(key_path);
            made = false;
        }
    }
    ERR_clear_error();
    X509_free(cert);
    EVP_PKEY_free(key);
    mem_free(cert_path);
    mem_free(key_path);
    return made;
}

static X509 *read_cert(const char *dir, struct err *err)
{
    char *path = path_of(dir, cert_name);
    FILE *file = fopen(path, "re");
    X509 *cert = NULL;

    if (file == NULL) {
        err_add(err, "can't read %s: %s; make a CA with: sluice ca init --dir %s", path, strerror(errno), dir);
    } else if ((cert = PEM_read_X509(file, NULL, NULL, NULL)) == NULL) {
        err_add(err, "%s holds no certificate", path);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    ERR_clear_error();
    mem_free(path);
    return cert;
}

static bool is_private(const char *path, FILE *file, struct err *err)
{
    struct stat st;

    if (fstat(fileno(file), &st) == 0 && (st.st_mode & (S_IRWXG | S_IRWXO)) == 0) {
        return true;
    }
    err_add(err, "%s can be read by others: whoever has this key can pose as any host to your callers; chmod 600 %s",
            path, path);
    return false;
}

static EVP_PKEY *read_key(const char *dir, struct err *err)
{
    char *path = path_of(dir, key_name);
    FILE *file = fopen(path, "re");
    EVP_PKEY *key = NULL;

    if (file == NULL) {
        err_add(err, "can't read %s: %s", path, strerror(errno));
    } else if (is_private(path, file, err) && (key = PEM_read_PrivateKey(file, NULL, NULL, NULL)) == NULL) {
        err_add(err, "%s holds no key without a password", path);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    ERR_clear_error();
    mem_free(path);
    return key;
}

bool authority_show(const char *dir, FILE *out, struct err *err)
{
    X509 *cert = read_cert(dir, err);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (cert == NULL) {
        return false;
    }
    (void)fprintf(out, "# %s/%s, SHA-256 ", dir, cert_name);
    if (X509_digest(cert, EVP_sha256(), digest, &len) == 1) {
        for (unsigned i = 0; i < len; i++) {
            (void)fprintf(out, "%s%02X", i > 0 ? ":" : "", digest[i]);
        }
    }
    (void)fprintf(out, "\n");
    bool shown = PEM_write_X509(out, cert) == 1;
    X509_free(cert);
    return shown;
}

/* ---- the TLS of callers ---- */

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";

    (void)ssl;
    (void)arg;
    return SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, ours, sizeof(ours) - 1, in, in_len) ==
                   OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Names may end with a dot, which says the same (RFC 6066 has none, but they come). */
static bool is_same_host(const char *sni, const char *host)
{
    size_t len = strlen(sni);

    len -= len > 0 && sni[len - 1] == '.';
    return len == strlen(host) && strncasecmp(sni, host, len) == 0;
}

static int check_name(SSL *ssl, int *alert, void *arg)
{
    const char *sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const char *host = SSL_get_app_data(ssl);

    (void)arg;
    if (sni == NULL || is_same_host(sni, host)) {
        return SSL_TLSEXT_ERR_OK;
    }
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *make_ctx(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    must(ctx != NULL);
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    SSL_CTX_set_tlsext_servername_callback(ctx, check_name);
    return ctx;
}

/* ---- leaves ---- */

static void drop(struct authority *a, struct leaf *leaf)
{
    HASH_DEL(a->by_host, leaf);
    TAILQ_REMOVE(&a->leaves, leaf, link);
    X509_free(leaf->cert);
    EVP_PKEY_free(leaf->key);
    mem_free(leaf->host);
    mem_free(leaf);
}

static struct leaf *make_leaf(struct authority *a, const char *host)
{
    EVP_PKEY *key = certificate_make_key();
    X509 *cert = key != NULL ? certificate_make_leaf(key, host, a->cert, a->key) : NULL;

    if (cert == NULL) {
        EVP_PKEY_free(key);
        ERR_clear_error();
        return NULL;
    }
    if (HASH_COUNT(a->by_host) >= AUTHORITY_LEAVES_MOST) {
        drop(a, TAILQ_LAST(&a->leaves, leaves));
    }
    struct leaf *leaf = mem_zalloc(sizeof(*leaf));
    leaf->host = mem_strdup(host);
    leaf->cert = cert;
    leaf->key = key;
    HASH_ADD_KEYPTR(hh, a->by_host, leaf->host, strlen(leaf->host), leaf);
    TAILQ_INSERT_HEAD(&a->leaves, leaf, link);
    a->made++;
    return leaf;
}

static bool expires_soon(X509 *cert)
{
    time_t soon = time(NULL) + RENEW_BEFORE_S;

    return X509_cmp_time(X509_get0_notAfter(cert), &soon) <= 0;
}

static struct leaf *leaf_for(struct authority *a, const char *host)
{
    struct leaf *leaf;

    HASH_FIND_STR(a->by_host, host, leaf);
    if (leaf != NULL && expires_soon(leaf->cert)) {
        drop(a, leaf);
        leaf = NULL;
    }
    if (leaf == NULL) {
        return make_leaf(a, host);
    }
    TAILQ_REMOVE(&a->leaves, leaf, link);
    TAILQ_INSERT_HEAD(&a->leaves, leaf, link);
    return leaf;
}

SSL *authority_server_side(struct authority *a, const char *host)
{
    struct leaf *leaf = leaf_for(a, host);
    SSL *ssl = leaf != NULL ? SSL_new(a->ctx) : NULL;

    if (ssl == NULL || SSL_use_certificate(ssl, leaf->cert) != 1 || SSL_use_PrivateKey(ssl, leaf->key) != 1) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_app_data(ssl, (char *)(uintptr_t)host);
    return ssl;
}

/* ---- life ---- */

static bool is_fit(const char *dir, X509 *cert, EVP_PKEY *key, struct err *err)
{
    if (X509_check_private_key(cert, key) != 1) {
        err_add(err, "%s/%s and %s/%s do not belong together", dir, cert_name, dir, key_name);
    } else if (X509_check_ca(cert) != 1) {
        err_add(err, "%s/%s is not the certificate of a CA; make one with: sluice ca init --dir DIR", dir, cert_name);
    } else if (expires_soon(cert)) {
        err_add(err,
                "%s/%s has expired, or does within a day; remove it and make a new one with: sluice ca init --dir %s",
                dir, cert_name, dir);
    } else {
        return true;
    }
    ERR_clear_error();
    return false;
}

struct authority *authority_load(const char *dir, struct err *err)
{
    X509 *cert = read_cert(dir, err);
    EVP_PKEY *key = cert != NULL ? read_key(dir, err) : NULL;

    if (key == NULL || !is_fit(dir, cert, key, err)) {
        X509_free(cert);
        EVP_PKEY_free(key);
        return NULL;
    }
    struct authority *a = mem_zalloc(sizeof(*a));
    a->cert = cert;
    a->key = key;
    a->ctx = make_ctx();
    TAILQ_INIT(&a->leaves);
    return a;
}

bool authority_is_same(const struct authority *a, const struct authority *b)
{
    return X509_cmp(a->cert, b->cert) == 0;
}

void authority_free(struct authority *a)
{
    struct leaf *leaf;

    if (a == NULL) {
        return;
    }
    while ((leaf = TAILQ_FIRST(&a->leaves)) != NULL) {
        drop(a, leaf);
    }
    SSL_CTX_free(a->ctx);
    X509_free(a->cert);
    EVP_PKEY_free(a->key);
    mem_free(a);
}

unsigned authority_leaves(const struct authority *a)
{
    return HASH_COUNT(a->by_host);
}

uint64_t authority_made(const struct authority *a)
{
    return a->made;
}
