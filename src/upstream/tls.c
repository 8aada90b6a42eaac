/*
 * One X509_STORE and one session cache for all connections. Left alone, libcurl reads the whole CA bundle for every
 * connection, which takes 22 ms of CPU with Debian's; its own cache of it is refused as long as a CApath is set, and is
 * kept per multi handle. With the shared store a new connection costs 0.8 ms, with a resumed session half of that.
 */
#include "tls.h"

#include "base/log.h"
#include "base/mem.h"

#include <openssl/ssl.h>
#include <stdlib.h>

struct tls {
    X509_STORE *store;
    CURLSH *sessions;
};

static void load_trusted(X509_STORE *store)
{
    const char *file = getenv("SSL_CERT_FILE");

    if (file == NULL || *file == '\0') {
        file = curl_version_info(CURLVERSION_NOW)->cainfo;
    }
    if (file != NULL && X509_STORE_load_file(store, file) == 1) {
        return;
    }
    if (X509_STORE_set_default_paths(store) != 1) {
        log_line(LOG_WARN, "no_trusted_certificates", LOG_STR("file", file != NULL ? file : ""), LOG_END);
    }
}

struct tls *tls_new(void)
{
    struct tls *tls = mem_zalloc(sizeof(*tls));

    tls->store = X509_STORE_new();
    tls->sessions = curl_share_init();
    must(tls->store != NULL && tls->sessions != NULL);
    /* what libcurl sets on the store that ours replaces */
    X509_STORE_set_flags(tls->store, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
    load_trusted(tls->store);
    /* without lock functions: only the loop's thread uses it */
    must(curl_share_setopt(tls->sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) == CURLSHE_OK);
    return tls;
}

void tls_free(struct tls *tls)
{
    must(curl_share_cleanup(tls->sessions) == CURLSHE_OK);
    X509_STORE_free(tls->store);
    mem_free(tls);
}

static CURLcode on_ssl_ctx(CURL *easy, void *ssl_ctx, void *arg)
{
    struct tls *tls = arg;
    SSL_CTX *ctx = ssl_ctx;

    (void)easy;
    SSL_CTX_set1_cert_store(ctx, tls->store);
    /* A send that was refused may come again from another place, with more behind it. */
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* A send never waits for something to read, so that writable and readable mean what they say. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    return CURLE_OK;
}

void tls_set_up(struct tls *tls, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2 | (long)CURL_SSLVERSION_MAX_DEFAULT);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(easy, CURLOPT_SHARE, tls->sessions);
    must(curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_ssl_ctx) == CURLE_OK);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, tls);
}
