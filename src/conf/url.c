/*
 * The Redis URL, in the forms that redis-cli and the client libraries share, and two more for several servers:
 *
 *     redis://[[user]:password@]host[:port][/database]      rediss:// is the same over TLS
 *     unix:/path/to/socket                                  also unix:///path
 *     sentinel://[[user]:password@]host[:port][,host[:port]...]/name[/database]     sentinels:// over TLS
 *     cluster://[[user]:password@]host[:port][,host[:port]...]                      clusters:// over TLS
 *
 * Hosts behind sentinel:// are sentinels (port 26379), user and password those of the servers they lead to. User and
 * password are percent-decoded (RFC 3986 section 2.1), so that any character can stand in them. A user without password
 * is refused: tools disagree on whether the one word before @ is a user or a password. What is kept as the URL has the
 * password replaced by ***; no message here repeats what was written, since it may hold one.
 */
#include "conf/value.h"

#include "base/mem.h"

#include <string.h>
#include <sys/un.h>

#define REDIS_PORT 6379
#define SENTINEL_PORT 26379
#define HOSTS_MAX 32
#define MASTER_BYTES_MAX 128
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
static const char *parse_host(struct slice text, uint16_t default_port, struct redis_host *out)
{
    struct slice port = text, host;
    struct addr addr;
    bool has_port;

    if (starts_with(text, "[")) {
        struct slice rest = text;
        host = cut_at(&rest, ']');
        host = from(host, 1);
        if (!addr_parse_literal((struct slice){text.ptr, host.len + 2 <= text.len ? host.len + 2 : text.len}, 1,
                                &addr) ||
            (rest.len > 0 && rest.ptr[0] != ':')) {
            return "the host is not an IPv6 address in brackets";
        }
        has_port = rest.len > 0;
        port = has_port ? from(rest, 1) : rest;
    } else {
        has_port = memchr(text.ptr, ':', text.len) != NULL;
        host = cut_at(&port, ':');
        if (!is_host(host)) {
            return "the host is missing or not a name or address";
        }
    }
    out->port = default_port;
    if (has_port && !str_parse_port(port, &out->port)) {
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

/* Takes user and password off the front of `rest`, and cuts it at the first / behind them: what is before is `hosts`.
 */
static const char *parse_front(struct slice *rest, struct slice *hosts, struct redis_conf *out)
{
    *hosts = cut_at(rest, '/');
    const char *at = hosts->len > 0 ? memrchr(hosts->ptr, '@', hosts->len) : NULL;

    if (at == NULL && rest->len > 0 && memchr(rest->ptr, '@', rest->len) != NULL) {
        return "a / in user or password is written %2F";
    }
    if (at != NULL) {
        size_t len = (size_t)(at - hosts->ptr);
        const char *why = parse_credentials((struct slice){hosts->ptr, len}, out);
        *hosts = from(*hosts, len + 1);
        return why;
    }
    return NULL;
}

static const char *parse_network(struct slice rest, struct redis_conf *out)
{
    struct redis_host host = {0};
    struct slice hosts;
    const char *why = parse_front(&rest, &hosts, out);

    if (why == NULL && hosts.len > 0 && memchr(hosts.ptr, ',', hosts.len) != NULL) {
        return "several hosts: write sentinel://HOST,HOST/NAME or cluster://HOST,HOST";
    }
    if (why == NULL) {
        why = hosts.len > 0 ? parse_host(hosts, REDIS_PORT, &host) : "the host is missing";
    }
    out->host = host.host;
    out->port = host.port;
    return why != NULL ? why : parse_database(rest, out);
}

static const char *parse_hosts(struct slice list, uint16_t default_port, struct redis_conf *out)
{
    out->hosts = mem_alloc(HOSTS_MAX * sizeof(out->hosts[0]));
    while (list.len > 0) {
        if (out->hosts_count == HOSTS_MAX) {
            return "more than 32 hosts; a few are enough, they know the others";
        }
        const char *why = parse_host(cut_at(&list, ','), default_port, &out->hosts[out->hosts_count]);
        if (why != NULL) {
            return why;
        }
        out->hosts_count++;
    }
    if (out->hosts_count == 0) {
        return "the host is missing";
    }
    out->host = mem_strdup(out->hosts[0].host);
    out->port = out->hosts[0].port;
    return NULL;
}

/* What Sentinel allows: letters, digits and .-_ */
static bool is_master(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!is_host((struct slice){&c, 1})) {
            return false;
        }
    }
    return text.len > 0 && text.len <= MASTER_BYTES_MAX;
}

static const char *parse_sentinel(struct slice rest, struct redis_conf *out)
{
    struct slice hosts;
    const char *why = parse_front(&rest, &hosts, out);

    out->kind = REDIS_SENTINEL;
    why = why != NULL ? why : parse_hosts(hosts, SENTINEL_PORT, out);
    struct slice master = cut_at(&rest, '/');
    if (why == NULL && !is_master(master)) {
        why = "the primary's name, as the sentinels know it, is missing: sentinel://HOST,HOST/NAME";
    }
    out->master = mem_strndup(master.ptr, master.len);
    return why != NULL ? why : parse_database(rest, out);
}

static const char *parse_cluster(struct slice rest, struct redis_conf *out)
{
    struct slice hosts;
    const char *why = parse_front(&rest, &hosts, out);

    out->kind = REDIS_CLUSTER;
    why = why != NULL ? why : parse_hosts(hosts, REDIS_PORT, out);
    if (why == NULL && rest.len > 0 && !slice_is(rest, "0")) {
        why = "a cluster has no databases: nothing follows the hosts";
    }
    return why;
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

struct form {
    const char *scheme;
    const char *(*parse)(struct slice rest, struct redis_conf *out);
    bool tls;
};
static const struct form forms[] = {
    {"redis://", parse_network, false},     {"rediss://", parse_network, true},
    {"unix:", parse_unix, false},           {"sentinel://", parse_sentinel, false},
    {"sentinels://", parse_sentinel, true}, {"cluster://", parse_cluster, false},
    {"clusters://", parse_cluster, true},
};

/* The scheme that may have been meant. */
static const char *guess_scheme(struct slice text)
{
    static const char *const schemes[] = {"redis",     "rediss",  "unix",     "sentinel",
                                          "sentinels", "cluster", "clusters", NULL};
    struct slice rest = text, written = cut_at(&rest, ':');
    char scheme[16];

    if (rest.len == 0 || written.len == 0 || written.len >= sizeof(scheme)) {
        return NULL;
    }
    memcpy(scheme, written.ptr, written.len);
    scheme[written.len] = '\0';
    return str_nearest(scheme, schemes);
}

/* `meant` is set beside a reason when there is a scheme to propose. */
static const char *parse_url(struct slice text, struct redis_conf *out, const char **meant)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (starts_with(text, forms[i].scheme)) {
            out->tls = forms[i].tls;
            return forms[i].parse(from(text, strlen(forms[i].scheme)), out);
        }
    }
    if (starts_with(text, "$")) {
        return "variables of the environment are not filled in here";
    }
    *meant = guess_scheme(text);
    return "neither redis://HOST, rediss://HOST, unix:/PATH, sentinel://HOST,HOST/NAME nor cluster://HOST,HOST";
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

static void add_host(struct buf *out, const char *host, uint16_t port)
{
    buf_printf(out, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, port);
}

static const char *scheme_of(const struct redis_conf *redis)
{
    static const char *const schemes[][2] = {[REDIS_SERVER] = {"redis://", "rediss://"},
                                             [REDIS_SENTINEL] = {"sentinel://", "sentinels://"},
                                             [REDIS_CLUSTER] = {"cluster://", "clusters://"}};
    return schemes[redis->kind][redis->tls];
}

static char *masked(const struct redis_conf *redis)
{
    struct buf out = {0};

    if (redis->unix_socket) {
        return mem_printf("unix:%s", redis->host);
    }
    buf_add_str(&out, scheme_of(redis));
    if (redis->user != NULL) {
        add_encoded(&out, redis->user);
    }
    buf_add_str(&out, redis->password != NULL ? ":***@" : "");
    if (redis->kind == REDIS_SERVER) {
        add_host(&out, redis->host, redis->port);
    }
    for (unsigned i = 0; i < redis->hosts_count; i++) {
        buf_add_str(&out, i > 0 ? "," : "");
        add_host(&out, redis->hosts[i].host, redis->hosts[i].port);
    }
    if (redis->kind == REDIS_SENTINEL) {
        buf_printf(&out, "/%s", redis->master);
    }
    if (redis->kind != REDIS_CLUSTER) {
        buf_printf(&out, "/%d", (int)redis->database);
    }
    char *url = mem_strndup(buf_ptr(&out), buf_len(&out));
    buf_fini(&out);
    return url;
}

/* What a URL says, and nothing else, goes from one to the other. */
static void take_over(struct redis_conf *to, struct redis_conf *parsed)
{
    struct redis_conf old = *to;

    *to = *parsed;
    to->user_name = old.user_name;
    to->password_file = old.password_file;
    to->password_env = old.password_env;
    to->sentinel_user = old.sentinel_user;
    to->sentinel_password = old.sentinel_password;
    to->sentinel_password_file = old.sentinel_password_file;
    to->sentinel_password_env = old.sentinel_password_env;
    to->ca_file = old.ca_file;
    to->client_cert = old.client_cert;
    to->client_key = old.client_key;
    to->prefix = old.prefix;
    to->timeout_us = old.timeout_us;
    to->connect_timeout_us = old.connect_timeout_us;
}

bool url_set(const struct place *place, struct slice text, struct redis_conf *redis)
{
    struct redis_conf parsed = {.port = REDIS_PORT};
    const char *meant = NULL, *why = parse_url(text, &parsed, &meant);

    if (why != NULL) {
        if (meant != NULL) {
            report_error(place, "%s; did you mean %s?", why, meant);
        } else {
            report_error(place, "%s", why);
        }
        redis_conf_fini(&parsed);
        return false;
    }
    parsed.url = masked(&parsed);
    take_over(redis, &parsed);
    return true;
}
