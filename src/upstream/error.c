#include "error.h"

#include <errno.h>
#include <openssl/x509_vfy.h>

enum upstream_error error_of_errno(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return UPSTREAM_BAD_REFUSED;
    case ETIMEDOUT:
        return UPSTREAM_BAD_TIMEOUT;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        return UPSTREAM_BAD_RESOURCES;
    default:
        return UPSTREAM_BAD_UNREACHABLE;
    }
}

enum upstream_error error_of_curl(CURLcode code, int os_error)
{
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return UPSTREAM_BAD_TIMEOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_INVALIDCERTSTATUS:
        return UPSTREAM_BAD_CERTIFICATE;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ENGINE_SETFAILED:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_USE_SSL_FAILED:
        return UPSTREAM_BAD_TLS;
    case CURLE_OUT_OF_MEMORY:
        return UPSTREAM_BAD_RESOURCES;
    case CURLE_COULDNT_RESOLVE_HOST:
        return UPSTREAM_BAD_DNS;
    default:
        return error_of_errno(os_error);
    }
}

/* A wrong name is libcurl's own finding, made when OpenSSL was content with the chain. */
enum upstream_error error_of_certificate(long verify_result)
{
    switch (verify_result) {
    case X509_V_OK:
    case X509_V_ERR_UNSPECIFIED:
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return UPSTREAM_BAD_WRONG_NAME;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return UPSTREAM_BAD_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return UPSTREAM_BAD_NOT_YET_VALID;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return UPSTREAM_BAD_SELF_SIGNED;
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return UPSTREAM_BAD_UNKNOWN_CA;
    default:
        return UPSTREAM_BAD_CERTIFICATE;
    }
}

bool error_is_certificate(enum upstream_error error)
{
    return error >= UPSTREAM_BAD_CERTIFICATE && error <= UPSTREAM_BAD_TRUST;
}

unsigned upstream_error_status(enum upstream_error error)
{
    switch (error) {
#define X(name, status, type, text)                                                                                    \
    case UPSTREAM_BAD_##name:                                                                                          \
        return status;
        UPSTREAM_ERRORS(X)
#undef X
    case UPSTREAM_OK:
        break;
    }
    wrong("no upstream error");
}

const char *upstream_error_type(enum upstream_error error)
{
    switch (error) {
#define X(name, status, type, text)                                                                                    \
    case UPSTREAM_BAD_##name:                                                                                          \
        return type;
        UPSTREAM_ERRORS(X)
#undef X
    case UPSTREAM_OK:
        break;
    }
    wrong("no upstream error");
}

const char *upstream_error_text(enum upstream_error error)
{
    switch (error) {
#define X(name, status, type, text)                                                                                    \
    case UPSTREAM_BAD_##name:                                                                                          \
        return text;
        UPSTREAM_ERRORS(X)
#undef X
    case UPSTREAM_OK:
        break;
    }
    wrong("no upstream error");
}
