#ifndef SLUICE_HTTP_TARGET_H
#define SLUICE_HTTP_TARGET_H
/* Where a request wants to go: request target and Host field (RFC 9112 section 3.2, RFC 9110 section 4.2). */
#include "http/message.h"

#define TARGET_HOST_BYTES 256

enum target_form {
    TARGET_ORIGIN,    /* /path?query, the host from Host */
    TARGET_ABSOLUTE,  /* http://host/path: rules over Host */
    TARGET_AUTHORITY, /* CONNECT host:port */
    TARGET_ASTERISK,  /* OPTIONS * */
};
enum target_error {
    TARGET_OK,
    TARGET_BAD_SYNTAX,   /* 400 */
    TARGET_BAD_SCHEME,   /* 400: neither http nor https */
    TARGET_BAD_USERINFO, /* 400: user@host is not allowed (RFC 9110 section 4.2.4) */
    TARGET_BAD_HOST,     /* 400: empty, too long, zone id, or characters a host can't have */
    TARGET_BAD_PORT,     /* 400: CONNECT without port, 0, or over 65535 */
};

struct target {
    enum target_form form;
    bool tls;                     /* https:// */
    char host[TARGET_HOST_BYTES]; /* lower case, brackets and trailing dot removed */
    bool host_is_ipv6;
    uint16_t port;                /* the scheme's default filled in */
    struct slice path;            /* what goes upstream: path and query byte for byte; "/" where it was empty, "*" for OPTIONS *
                                     (also for OPTIONS http://host without path). Not for CONNECT. May begin with '?', then "/" has to
                                     be put before it. */
    struct slice authority;       /* host[:port] as the caller wrote it, without userinfo: the new Host */
};

enum target_error target_parse(const struct message *request, struct target *out);
const char *target_error_text(enum target_error error);
/* The target for logs: scheme, host, path; a query's values are replaced by "...". */
void target_for_log(const struct target *target, char *out, size_t out_bytes);
/* A path and its query alone, masked in the same way. */
void target_path_for_log(struct slice path, char *out, size_t out_bytes);

#endif
