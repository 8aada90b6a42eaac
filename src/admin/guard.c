#include "admin/guard.h"

#include "base/addr.h"
#include "base/mem.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { TOKEN_LEAST = 16, TOKEN_MOST = 512 };

static bool is_token(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~') {
            return false;
        }
    }
    return text.len >= TOKEN_LEAST && text.len <= TOKEN_MOST;
}

char *guard_read_token(const char *path, struct err *err)
{
    FILE *file = fopen(path, "re");
    char line[TOKEN_MOST + 2];

    if (file == NULL) {
        err_add(err, "[admin] token_file: %s: %s", path, strerror(errno));
        return NULL;
    }
    bool got = fgets(line, sizeof(line), file) != NULL;
    (void)fclose(file);
    struct slice token = slice_trim((struct slice){line, got ? strcspn(line, "\r\n") : 0});
    char *found = is_token(token) ? mem_strndup(token.ptr, token.len) : NULL;
    explicit_bzero(line, sizeof(line));
    if (found == NULL) {
        err_add(err, "[admin] token_file: %s: its first line must be %d to %d visible characters", path, TOKEN_LEAST,
                TOKEN_MOST);
    }
    return found;
}

bool guard_knows_token(const char *authorization, const char *token)
{
    static const char scheme[] = "Bearer ";
    unsigned char theirs[SHA256_DIGEST_LENGTH], ours[SHA256_DIGEST_LENGTH];

    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0) {
        return false;
    }
    const char *shown = authorization + sizeof(scheme) - 1;
    SHA256((const unsigned char *)shown, strlen(shown), theirs);
    SHA256((const unsigned char *)token, strlen(token), ours);
    return CRYPTO_memcmp(theirs, ours, sizeof(ours)) == 0;
}

bool guard_is_own_host(const char *host)
{
    struct addr addr;

    if (host == NULL) {
        return true; /* no browser */
    }
    struct slice text = slice_of(host);
    if (addr_parse_literal(text, 0, &addr) || addr_parse_with_port(text, &addr)) {
        return true;
    }
    const char *colon = strchr(host, ':');
    return slice_is_nocase((struct slice){host, colon != NULL ? (size_t)(colon - host) : text.len}, "localhost");
}

/* "http://HOST" or "https://HOST", as behind a proxy that speaks TLS. */
static bool is_same_origin(const char *origin, const char *host)
{
    const char *rest = strstr(origin, "://");

    if (host == NULL || rest == NULL || (strncmp(origin, "http://", 7) != 0 && strncmp(origin, "https://", 8) != 0)) {
        return false;
    }
    return strcasecmp(rest + 3, host) == 0;
}

bool guard_is_own_post(const struct guard_post *post)
{
    static const char json[] = "application/json";
    const char *type = post->content_type;

    if (type == NULL || strncasecmp(type, json, sizeof(json) - 1) != 0 ||
        strchr("; \t", type[sizeof(json) - 1]) == NULL) {
        return false;
    }
    if (post->origin != NULL && !is_same_origin(post->origin, post->host)) {
        return false;
    }
    return post->fetch_site == NULL || strcmp(post->fetch_site, "same-origin") == 0 ||
           strcmp(post->fetch_site, "none") == 0;
}
