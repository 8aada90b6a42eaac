/*
 * The Redis URL, in the forms that redis-cli and the client libraries share:
 *
 *     redis://[[user]:password@]host[:port][/database]      rediss:// is the same over TLS
 *     unix:/path/to/socket                                  also unix:///path
 *
 * User and password are percent-decoded (RFC 3986 section 2.1), so that any character can stand in them. A user without
 * password is refused: tools disagree on whether the one word before @ is a user or a password. What is kept as the URL
 * has the password replaced by ***; no message here repeats what was written, since it may hold one.
 */
#include "conf/value.h"

#include "base/mem.h"

#include <string.h>
#include <sys/un.h>

void redis_conf_fini(struct redis_conf *redis)
{
    mem_free(redis->url);
    mem_free(redis->host);
    mem_free(redis->user);
    if (redis->password != NULL) {
        explicit_bzero(redis->password, strlen(redis->password));
    }
    mem_free(redis->password);
    mem_free(redis->prefix);
    memset(redis, 0, sizeof *redis);
}

#define REDIS_PORT 6379
#define DATABASE_MAX 65535
#define HOST_BYTES_MAX 253
#define CREDENTIAL_BYTES_MAX 1024

static bool starts_with(struct slice text, const char *start)
{
    return text.len >= strlen(start) && memcmp(text.ptr, start, strlen(start)) == 0;
}

static struct slice from(struct slice text, size_t start)
{
    return (struct slice){text.ptr + start, text.len - start};
}

/* Cuts `text` at the first `mark`: what is before is returned, what is behind stays. Without one, everything is
 * returned. */
static struct slice cut_at(struct slice *text, char mark)
{
    const char *at = text->len > 0 ? memchr(text->ptr, mark, text->len) : NULL;
    struct slice before = {text->ptr, at != NULL ? (size_t)(at - text->ptr) : text->len};

    *text = at != NULL ? from(*text, before.len + 1) : (struct slice){text->ptr + text->len, 0};
    return before;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* NULL when a % is not followed by two hexadecimal digits, or stands for NUL. */
static char *decode(struct slice text)
{
    char *out = mem_alloc(text.len + 1);
    size_t used = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.ptr[i + 2]) : -1;
            c = high < 0 || low < 0 ? '\0' : (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0') {
            mem_free(out);
            return NULL;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    return out;
}

/* "user:password" or ":password" */
static const char *parse_credentials(struct slice text, struct redis_conf *out)
{
    struct slice password = text, user = cut_at(&password, ':');

    if (password.len == 0) {
        return "what stands before @ is user:password or :password, neither without the other's colon";
    }
    if (text.len > CREDENTIAL_BYTES_MAX) {
        return "user and password are too long";
    }
    out->password = decode(password);
    out->user = user.len > 0 ? decode(user) : NULL;
    if (out->password == NULL || (user.len > 0 && out->user == NULL)) {
        return "a % in user or password is not followed by two hexadecimal digits; a % itself is written %25";
    }
    return NULL;
}

static bool is_host(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
              c == '_')) {
            return false;
        }
    }
    return text.len > 0 && text.len <= HOST_BYTES_MAX;
}

/* "host", "host:port", "[::1]:port" */
static const char *parse_host(struct slice text, struct redis_conf *out)
{
    struct slice port = text, host;
    struct addr addr;

    if (starts_with(text, "[")) {
        struct slice rest = text;
        host = cut_at(&rest, ']');
        host = from(host, 1);
        if (!addr_parse_literal((struct slice){text.ptr, host.len + 2 <= text.len ? host.len + 2 : text.len}, 1,
                                &addr) ||
            (rest.len > 0 && rest.ptr[0] != ':')) {
            return "the host is not an IPv6 address in brackets";
        }
        port = rest.len > 0 ? from(rest, 1) : (struct slice){"6379", 4};
    } else {
        bool has_port = memchr(text.ptr, ':', text.len) != NULL;
        host = cut_at(&port, ':');
        if (!is_host(host)) {
            return "the host is missing or not a name or address";
        }
        port = has_port ? port : (struct slice){"6379", 4};
    }
    if (!str_parse_port(port, &out->port)) {
        return "the port is not a number from 1 to 65535";
    }
    out->host = mem_strndup(host.ptr, host.len);
    return NULL;
}

static const char *parse_database(struct slice text, struct redis_conf *out)
{
    uint64_t database = 0;

    if (text.len > 0 && (!str_parse_u64(text, &database) || database > DATABASE_MAX)) {
        return "what follows the / is not a database from 0 to 65535";
    }
    out->database = (int64_t)database;
    return NULL;
}

static const char *parse_network(struct slice rest, struct redis_conf *out)
{
    struct slice database = rest;
    struct slice host = cut_at(&database, '/');
    const char *at = host.len > 0 ? memrchr(host.ptr, '@', host.len) : NULL;
    const char *why = NULL;

    if (at == NULL && database.len > 0 && memchr(database.ptr, '@', database.len) != NULL) {
        return "a / in user or password is written %2F";
    }
    if (at != NULL) {
        size_t len = (size_t)(at - host.ptr);
        why = parse_credentials((struct slice){host.ptr, len}, out);
        host = from(host, len + 1);
    }
    if (why == NULL) {
        why = host.len > 0 ? parse_host(host, out) : "the host is missing";
    }
    return why != NULL ? why : parse_database(database, out);
}

static const char *parse_unix(struct slice path, struct redis_conf *out)
{
    if (starts_with(path, "//")) {
        path = from(path, 2);
    }
    if (path.len < 2 || path.ptr[0] != '/') {
        return "unix: is followed by an absolute path";
    }
    if (path.len >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        return "the path is too long for a socket";
    }
    out->unix_socket = true;
    out->host = mem_strndup(path.ptr, path.len);
    return NULL;
}

static const char *parse_url(struct slice text, struct redis_conf *out)
{
    if (starts_with(text, "redis://")) {
        return parse_network(from(text, 8), out);
    }
    if (starts_with(text, "rediss://")) {
        out->tls = true;
        return parse_network(from(text, 9), out);
    }
    if (starts_with(text, "unix:")) {
        return parse_unix(from(text, 5), out);
    }
    if (starts_with(text, "$")) {
        return "variables of the environment are not filled in here";
    }
    return "neither redis://HOST, rediss://HOST nor unix:/PATH";
}

/* Everything but letters, digits and -._~ as %XX. */
static void add_encoded(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c) != NULL) {
            buf_add(out, text, 1);
        } else {
            buf_printf(out, "%%%02X", c);
        }
    }
}

static char *masked(const struct redis_conf *redis)
{
    struct buf out = {0};

    if (redis->unix_socket) {
        return mem_printf("unix:%s", redis->host);
    }
    buf_add_str(&out, redis->tls ? "rediss://" : "redis://");
    if (redis->user != NULL) {
        add_encoded(&out, redis->user);
    }
    buf_add_str(&out, redis->password != NULL ? ":***@" : "");
    buf_printf(&out, strchr(redis->host, ':') != NULL ? "[%s]:%u/%d" : "%s:%u/%d", redis->host, redis->port,
               (int)redis->database);
    char *url = mem_strndup(buf_ptr(&out), buf_len(&out));
    buf_fini(&out);
    return url;
}

bool url_set(const struct place *place, struct slice text, struct redis_conf *redis)
{
    struct redis_conf parsed = {.port = REDIS_PORT};
    const char *why = parse_url(text, &parsed);

    if (why != NULL) {
        report_error(place, "%s", why);
        redis_conf_fini(&parsed);
        return false;
    }
    parsed.url = masked(&parsed);
    parsed.prefix = redis->prefix;
    parsed.timeout_us = redis->timeout_us;
    parsed.connect_timeout_us = redis->connect_timeout_us;
    redis->prefix = NULL;
    redis_conf_fini(redis);
    *redis = parsed;
    return true;
}
