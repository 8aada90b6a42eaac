#ifndef SLUICE_UPSTREAM_ERROR_H
#define SLUICE_UPSTREAM_ERROR_H
/* What libcurl and the kernel say, as reasons of ours. */
#include "upstream/upstream.h"

#include <curl/curl.h>

/* Of connect() or socket(). */
enum upstream_error error_of_errno(int error);
/* Of a transfer that ended with `code`, not CURLE_OK; `os_error` is its errno or 0. */
enum upstream_error error_of_curl(CURLcode code, int os_error);
/* Of a certificate that was refused, by CURLINFO_SSL_VERIFYRESULT. */
enum upstream_error error_of_certificate(long verify_result);
/* Another address would not help. */
bool error_is_certificate(enum upstream_error error);

#endif
