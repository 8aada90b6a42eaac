#include "error.h"

#include <errno.h>

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
