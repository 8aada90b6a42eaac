#include "admin/guard.h"

#include "base/addr.h"
#include "base/mem.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { TOKEN_LEAST = 16, TOKEN_MOST = 512, NAME_MOST = 32, LINE_BYTES = TOKEN_MOST + NAME_MOST + 8 };
static const char unnamed[] = "token";

static bool is_visible(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] <= ' ' || text.ptr[i] > '~') {
            return false;
        }
    }
    return true;
}

/* One line without its end; false: neither a token nor nothing. */
static bool take_line(struct slice line, struct guard_tokens *out)
{
    struct slice text = slice_trim(line), name = slice_of(unnamed);
    size_t end = 0;

    if (text.len == 0 || text.ptr[0] == '#') {
        return true;
    }
    while (end < text.len && text.ptr[end] != ' ' && text.ptr[end] != '\t') {
        end++;
    }
    if (end < text.len) {
        name = (struct slice){text.ptr, end};
        text = slice_trim((struct slice){text.ptr + end, text.len - end});
    }
    if (!is_visible(text) || !is_visible(name) || text.len < TOKEN_LEAST || text.len > TOKEN_MOST ||
        name.len > NAME_MOST || out->count == GUARD_TOKENS_MOST) {
        return false;
    }
    out->list[out->count++] = (struct guard_token){mem_strndup(name.ptr, name.len), mem_strndup(text.ptr, text.len)};
    return true;
}

static bool take_lines(FILE *file, struct guard_tokens *out, unsigned *number)
{
    char line[LINE_BYTES];
    bool good = true;

    for (*number = 1; good && fgets(line, sizeof(line), file) != NULL; ++*number) {
        size_t len = strcspn(line, "\r\n");
        good = (line[len] != '\0' || feof(file)) && take_line((struct slice){line, len}, out);
        if (!good) {
            break;
        }
    }
    explicit_bzero(line, sizeof(line));
    return good;
}

bool guard_read_tokens(const char *path, struct guard_tokens *out, struct err *err)
{
    FILE *file = fopen(path, "re");
    unsigned number;

    *out = (struct guard_tokens){.count = 0};
    if (file == NULL) {
        err_add(err, "[admin] token_file: %s: %s", path, strerror(errno));
        return false;
    }
    bool good = take_lines(file, out, &number);
    (void)fclose(file);
    if (good && out->count > 0) {
        return true;
    }
    if (good) {
        err_add(err, "[admin] token_file: %s: there is no token in it", path);
    } else {
        err_add(err,
                "[admin] token_file: %s:%u: a line is TOKEN or NAME TOKEN, the token %d to %d visible characters, at "
                "most %d "
                "lines",
                path, number, TOKEN_LEAST, TOKEN_MOST, GUARD_TOKENS_MOST);
    }
    guard_free_tokens(out);
    return false;
}

void guard_free_tokens(struct guard_tokens *tokens)
{
    for (unsigned i = 0; i < tokens->count; i++) {
        explicit_bzero(tokens->list[i].token, strlen(tokens->list[i].token));
        mem_free(tokens->list[i].token);
        mem_free(tokens->list[i].name);
    }
    tokens->count = 0;
}

const char *guard_find_token(const char *authorization, const struct guard_tokens *tokens)
{
    static const char scheme[] = "Bearer ";
    unsigned char theirs[SHA256_DIGEST_LENGTH], ours[SHA256_DIGEST_LENGTH];
    const char *found = NULL;

    if (authorization == NULL || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0) {
        return NULL;
    }
    const char *shown = authorization + sizeof(scheme) - 1;
    SHA256((const unsigned char *)shown, strlen(shown), theirs);
    for (unsigned i = 0; i < tokens->count; i++) {
        const char *token = tokens->list[i].token;
        SHA256((const unsigned char *)token, strlen(token), ours);
        found = CRYPTO_memcmp(theirs, ours, sizeof(ours)) == 0 ? tokens->list[i].name : found;
    }
    return found;
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
