/*
 * One X509_STORE and one session cache for all connections that trust the same. Left alone, libcurl reads the whole CA
 * bundle for every connection, which takes 22 ms of CPU with Debian's; its own cache of it is refused as long as a
 * CApath is set, and is kept per multi handle. With the shared store a new connection costs 0.8 ms, with a resumed
 * session half of that.
 *
 *   policy (ca_file, client_cert, client_key) -> [trusts, by the three names] -> trust -> SSL_CTX of each connection
 *
 * Sessions are not shared any further than that: a resumed session skips verification, so one that was made under
 * another CA file, or as another client, would speak for somebody who was never checked. Keys are read once and stay in
 * memory, so that a connection never waits for a disk and the files need not be readable later. A reload reads them again,
 * in a thread; where a file has changed, new connections are made by the new one, and pooled ones by the old are not
 * used again, since a pool is for one trust.
 */
#include "tls.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>
#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#define uthash_fatal(why) wrong(why)
#include <uthash.h>

enum { DIGEST_BYTES = 32, READ_BYTES = 16384 };

struct trust {
    UT_hash_handle hh;
    LIST_ENTRY(trust) link; /* while retired */
    unsigned holders;
    unsigned char digest[DIGEST_BYTES]; /* of the files, as they were read */
    char *name; /* the three paths; the key */
    X509_STORE *store;
    SSL_CTX *identity; /* holds client certificate, chain and key; NULL: none */
    CURLSH *sessions;
};

struct trusts {
    struct trust *by_name;
    LIST_HEAD(, trust) retired; /* replaced, but maybe still in use */
};

static const char *openssl_words(void)
{
    const char *words = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return words != NULL ? words : "it holds nothing of the kind";
}

/* ---- reading ---- */

static const char *system_file(void)
{
    const char *file = getenv("SSL_CERT_FILE");

    return file != NULL && *file != '\0' ? file : curl_version_info(CURLVERSION_NOW)->cainfo;
}

static void load_system(X509_STORE *store)
{
    const char *file = system_file();

    if (file != NULL && X509_STORE_load_file(store, file) == 1) {
        return;
    }
    if (X509_STORE_set_default_paths(store) != 1) {
        log_line(LOG_WARN, "no_trusted_certificates", LOG_STR("file", file != NULL ? file : ""), LOG_END);
    }
}

static bool is_readable(const struct policy *policy, const char *key, const char *path, struct err *err)
{
    if (access(path, R_OK) == 0) {
        return true;
    }
    if (err != NULL) {
        err_add(err, "[%s] %s: can't read %s: %s", policy->label, key, path, strerror(errno));
    }
    return false;
}

static bool is_good(const struct policy *policy, const char *key, const char *path, bool good, struct err *err)
{
    const char *words = openssl_words();

    if (!good && err != NULL) {
        err_add(err, "[%s] %s: %s is not a good PEM file: %s", policy->label, key, path, words);
    }
    return good;
}

static bool load_store(struct trust *trust, const struct policy *policy, struct err *err)
{
    if (policy->ca_file == NULL) {
        load_system(trust->store);
        return true;
    }
    return is_readable(policy, "ca_file", policy->ca_file, err) &&
           is_good(policy, "ca_file", policy->ca_file, X509_STORE_load_file(trust->store, policy->ca_file) == 1, err);
}

static bool load_identity(struct trust *trust, const struct policy *policy, struct err *err)
{
    const char *cert = policy->client_cert;
    const char *key = policy->client_key != NULL ? policy->client_key : cert;

    if (cert == NULL) {
        return true;
    }
    if (!is_readable(policy, "client_cert", cert, err) || !is_readable(policy, "client_key", key, err)) {
        return false;
    }
    trust->identity = SSL_CTX_new(TLS_client_method());
    must(trust->identity != NULL);
    return is_good(policy, "client_cert", cert, SSL_CTX_use_certificate_chain_file(trust->identity, cert) == 1, err) &&
           is_good(policy, "client_key", key, SSL_CTX_use_PrivateKey_file(trust->identity, key, SSL_FILETYPE_PEM) == 1,
                   err);
}

static void digest_file(EVP_MD_CTX *digest, const char *path)
{
    unsigned char bytes[READ_BYTES];
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    size_t got;

    while (file != NULL && (got = fread(bytes, 1, sizeof(bytes), file)) > 0) {
        must(EVP_DigestUpdate(digest, bytes, got) == 1);
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    if (file != NULL) {
        (void)fclose(file);
    }
}

static void digest_files(const struct policy *policy, unsigned char out[DIGEST_BYTES])
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();

    must(digest != NULL && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1);
    digest_file(digest, policy->ca_file != NULL ? policy->ca_file : system_file());
    digest_file(digest, policy->client_cert);
    digest_file(digest, policy->client_key);
    must(EVP_DigestFinal_ex(digest, out, NULL) == 1);
    EVP_MD_CTX_free(digest);
}

/* False: a connection uses its sessions yet. */
static bool trust_free(struct trust *trust)
{
    if (curl_share_cleanup(trust->sessions) != CURLSHE_OK) {
        return false;
    }
    X509_STORE_free(trust->store);
    SSL_CTX_free(trust->identity);
    mem_free(trust->name);
    mem_free(trust);
    return true;
}

static struct trust *trust_new(const struct policy *policy, char *name, struct err *err)
{
    struct trust *trust = mem_zalloc(sizeof(*trust));

    trust->name = name;
    trust->store = X509_STORE_new();
    trust->sessions = curl_share_init();
    must(trust->store != NULL && trust->sessions != NULL);
    /* what libcurl sets on the store that ours replaces */
    X509_STORE_set_flags(trust->store, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
    /* without lock functions: only the loop's thread uses it */
    must(curl_share_setopt(trust->sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) == CURLSHE_OK);
    digest_files(policy, trust->digest);
    if (load_store(trust, policy, err) && load_identity(trust, policy, err)) {
        return trust;
    }
    must(trust_free(trust));
    return NULL;
}

/* ---- all of them ---- */

struct trusts *tls_trusts_new(void)
{
    struct trusts *trusts = mem_zalloc(sizeof(*trusts));

    LIST_INIT(&trusts->retired);
    return trusts;
}

static void drop(struct trusts *trusts, struct trust *trust)
{
    HASH_DEL(trusts->by_name, trust);
    must(trust_free(trust));
}

void tls_trusts_free(struct trusts *trusts)
{
    struct trust *trust, *next;

    if (trusts == NULL) {
        return;
    }
    HASH_ITER(hh, trusts->by_name, trust, next)
    {
        drop(trusts, trust);
    }
    while ((trust = LIST_FIRST(&trusts->retired)) != NULL) {
        LIST_REMOVE(trust, link);
        must(trust_free(trust));
    }
    mem_free(trusts);
}

struct trusts *tls_trusts_read(const struct conf *conf, struct err *err)
{
    struct trusts *trusts = tls_trusts_new();
    bool good = true;

    for (unsigned i = 0; i <= conf->policies_count; i++) {
        const struct policy *policy = i < conf->policies_count ? conf->policies[i] : conf->fallback;
        good = (policy->https == HTTPS_TUNNEL || tls_trust_of(trusts, policy, err) != NULL) && good;
    }
    if (!good) {
        tls_trusts_free(trusts);
        return NULL;
    }
    return trusts;
}

void tls_trust_hold(struct trust *trust)
{
    if (trust != NULL) {
        trust->holders++;
    }
}

void tls_trust_release(struct trust *trust)
{
    if (trust != NULL) {
        must(trust->holders > 0);
        trust->holders--;
    }
}

static void sweep_retired(struct trusts *trusts)
{
    struct trust *trust = LIST_FIRST(&trusts->retired);

    while (trust != NULL) {
        struct trust *next = LIST_NEXT(trust, link);
        if (trust->holders == 0) {
            LIST_REMOVE(trust, link);
            if (!trust_free(trust)) {
                LIST_INSERT_HEAD(&trusts->retired, trust, link);
            }
        }
        trust = next;
    }
}

static void retire(struct trusts *trusts, struct trust *trust)
{
    HASH_DEL(trusts->by_name, trust);
    LIST_INSERT_HEAD(&trusts->retired, trust, link);
}

void tls_trusts_adopt(struct trusts *trusts, struct trusts *fresh)
{
    struct trust *trust, *next, *other;

    sweep_retired(trusts); /* of the reload before */
    HASH_ITER(hh, trusts->by_name, trust, next)
    {
        HASH_FIND_STR(fresh->by_name, trust->name, other);
        if (other == NULL || memcmp(trust->digest, other->digest, DIGEST_BYTES) != 0) {
            retire(trusts, trust);
        }
    }
    HASH_ITER(hh, fresh->by_name, trust, next)
    {
        HASH_FIND_STR(trusts->by_name, trust->name, other);
        if (other == NULL) {
            HASH_DEL(fresh->by_name, trust);
            HASH_ADD_KEYPTR(hh, trusts->by_name, trust->name, strlen(trust->name), trust);
        }
    }
}

struct trust *tls_trust_of(struct trusts *trusts, const struct policy *policy, struct err *err)
{
    struct trust *trust;
    /* no path has a line end */
    char *name = mem_printf("%s\n%s\n%s", policy->ca_file != NULL ? policy->ca_file : "",
                            policy->client_cert != NULL ? policy->client_cert : "",
                            policy->client_key != NULL ? policy->client_key : "");

    HASH_FIND_STR(trusts->by_name, name, trust);
    if (trust != NULL) {
        mem_free(name);
        return trust;
    }
    trust = trust_new(policy, name, err);
    if (trust != NULL) {
        HASH_ADD_KEYPTR(hh, trusts->by_name, trust->name, strlen(trust->name), trust);
    }
    return trust;
}

/* ---- using ---- */

static bool show_identity(SSL_CTX *ctx, SSL_CTX *identity)
{
    STACK_OF(X509) *chain = NULL;

    SSL_CTX_get0_chain_certs(identity, &chain);
    return SSL_CTX_use_cert_and_key(ctx, SSL_CTX_get0_certificate(identity), SSL_CTX_get0_privatekey(identity), chain,
                                    1) == 1;
}

static CURLcode on_ssl_ctx(CURL *easy, void *ssl_ctx, void *arg)
{
    struct trust *trust = arg;
    SSL_CTX *ctx = ssl_ctx;

    (void)easy;
    SSL_CTX_set1_cert_store(ctx, trust->store);
    if (trust->identity != NULL && !show_identity(ctx, trust->identity)) {
        return CURLE_SSL_CERTPROBLEM;
    }
    /* A send that was refused may come again from another place, with more behind it. */
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* A send never waits for something to read, so that writable and readable mean what they say. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    return CURLE_OK;
}

void tls_set_up(struct trust *trust, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2 | (long)CURL_SSLVERSION_MAX_DEFAULT);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(easy, CURLOPT_SHARE, trust->sessions);
    must(curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_ssl_ctx) == CURLE_OK);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, trust);
}
