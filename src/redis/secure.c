#include "redis/secure.h"

#include "base/addr.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

/*
 * The system's authorities by the paths built into OpenSSL. Not SSL_CTX_set_default_verify_paths(): that lets
 * SSL_CERT_FILE and SSL_CERT_DIR in the environment decide whom to trust.
 */
static void trust_system(SSL_CTX *context)
{
    if (SSL_CTX_load_verify_file(context, X509_get_default_cert_file()) != 1) {
        ERR_clear_error(); /* Debian has the directory only */
    }
    if (SSL_CTX_load_verify_dir(context, X509_get_default_cert_dir()) != 1) {
        ERR_clear_error();
    }
}

static int no_passphrase(char *out, int size, int writing, void *arg)
{
    (void)out, (void)size, (void)writing, (void)arg;
    return -1;
}

/* Which file, of which key, and OpenSSL's word for it; false. */
static bool refuse(const char *key, const char *path, char why[SECURE_WHY_BYTES])
{
    unsigned long code = ERR_peek_error();
    const char *text = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

    snprintf(why, SECURE_WHY_BYTES, "[redis] %s: %s can't be used: %s", key, path,
             text != NULL ? text : "no PEM in it");
    ERR_clear_error();
    return false;
}

static bool trust(SSL_CTX *context, const struct redis_conf *conf, char why[SECURE_WHY_BYTES])
{
    ERR_clear_error();
    if (conf->ca_file == NULL) {
        trust_system(context);
        return true;
    }
    return SSL_CTX_load_verify_file(context, conf->ca_file) == 1 || refuse("ca_file", conf->ca_file, why);
}

static bool show(SSL_CTX *context, const struct redis_conf *conf, char why[SECURE_WHY_BYTES])
{
    const char *key = conf->client_key != NULL ? conf->client_key : conf->client_cert;

    if (conf->client_cert == NULL) {
        return true;
    }
    if (SSL_CTX_use_certificate_chain_file(context, conf->client_cert) != 1) {
        return refuse("client_cert", conf->client_cert, why);
    }
    /* this also sees whether the two belong together */
    return SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 || refuse("client_key", key, why);
}

SSL_CTX *secure_context(const struct redis_conf *conf, char why[SECURE_WHY_BYTES])
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    must(context != NULL);
    must(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1);
    /* a peer that closes without close_notify is plainly gone; RESP itself tells a cut-off reply */
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    /* a key with a passphrase is refused, and asks nobody */
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    if (!trust(context, conf, why) || !show(context, conf, why)) {
        SSL_CTX_free(context);
        return NULL;
    }
    return context;
}

SSL *secure_session(SSL_CTX *context, const char *host)
{
    SSL *ssl = SSL_new(context);
    struct addr literal;

    must(ssl != NULL);
    if (addr_parse_literal(slice_of(host), 1, &literal)) {
        char ip[ADDR_TEXT_BYTES];
        addr_format(&literal, true, ip);
        must(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), ip) == 1);
        return ssl;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, host) != 1) {
        ERR_clear_error();
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

const char *secure_why(const SSL *ssl, unsigned long error)
{
    long verified = SSL_get_verify_result(ssl);
    if (verified != X509_V_OK) {
        return X509_verify_cert_error_string(verified);
    }
    const char *text = error == 0                ? NULL
                       : ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error))
                                                 : ERR_reason_error_string(error);
    return text != NULL ? text : "handshake failed";
}
