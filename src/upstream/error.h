#ifndef SLUICE_UPSTREAM_ERROR_H
#define SLUICE_UPSTREAM_ERROR_H
/* What libcurl and the kernel say, as reasons of ours. */
#include "upstream/upstream.h"

#include <curl/curl.h>

/* Of connect() or socket(). */
enum upstream_error error_of_errno(int error);
/* Of a transfer that ended with `code`, not CURLE_OK; `os_error` is its errno or 0. */
enum upstream_error error_of_curl(CURLcode code, int os_error);

#endif
