/*
 * burst - callers that all come at once: N requests over C connections, through one or more proxies.
 *
 *   burst [-x PROXY]... -u URL -c CONNECTIONS -n REQUESTS [-H 'Name: value']... [-o FILE] [-T SECONDS] [-w FILE]
 *
 *   -x PROXY    ADDRESS:PORT; connections are dealt out over several. Without any, straight to the URL's host.
 *   -u URL      http://host:port/path; "{seq}" in it becomes the request's number
 *   -c, -n      all connections are opened first, then each sends; with more requests than connections the rest follow
 *               as answers come
 *   -o FILE     a line "seq,sent_ns,answered_ns,status" per request (CLOCK_MONOTONIC; status 0: no answer)
 *   -T SECONDS  leave then, whatever is unanswered (120 if not said)
 *   -w FILE     is created when every connection has sent its first request
 *
 * Exit 0 when every request was answered with 200, 1 when not.
 */
#include "net.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <getopt.h>
#include <llhttp.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROXIES_MAX = 16, REQUEST_BYTES = 4096 };

struct call {
    int64_t sent_ns, answered_ns;
    int status;
};

struct burst {
    struct event_base *base;
    llhttp_settings_t settings;
    struct sockaddr_in proxies[PROXIES_MAX];
    unsigned proxies_count;
    const char *url, *path, *ready_file;
    char host[256], headers[2048];
    long connections, requests;
    long opened, broken, next, done, ok;
    int64_t first_sent_ns, all_sent_ns;
    struct call *calls;
};

struct conn {
    struct burst *burst;
    int fd;
    struct event *event;
    llhttp_t parser;
    long seq; /* of the request under way; -1: none */
};

/* ---- requests */

static size_t write_target(const struct burst *burst, long seq, char *out, size_t size)
{
    const char *target = burst->proxies_count > 0 ? burst->url : burst->path;
    const char *mark = strstr(target, "{seq}");
    int length = mark == NULL ? snprintf(out, size, "%s", target)
                              : snprintf(out, size, "%.*s%ld%s", (int)(mark - target), target, seq, mark + 5);
    if (length < 0 || (size_t)length >= size)
        die("the URL is too long");
    return (size_t)length;
}

static void conn_close(struct conn *conn)
{
    event_free(conn->event);
    close(conn->fd);
    conn->fd = -1;
}

static void finish_when_done(struct burst *burst)
{
    if (burst->done == burst->requests || burst->broken == burst->connections)
        event_base_loopbreak(burst->base);
}

static void send_next(struct conn *conn)
{
    struct burst *burst = conn->burst;
    char target[1024], request[REQUEST_BYTES];
    if (burst->next == burst->requests)
        return;
    conn->seq = burst->next++;
    write_target(burst, conn->seq, target, sizeof(target));
    int length = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", target, burst->host,
                          burst->headers);
    burst->calls[conn->seq].sent_ns = monotonic_ns();
    if (length >= (int)sizeof(request) || send(conn->fd, request, (size_t)length, MSG_NOSIGNAL) != length)
        die("request %ld could not be sent: %s", conn->seq, strerror(errno));
}

static int on_message_complete(llhttp_t *parser)
{
    struct conn *conn = parser->data;
    struct burst *burst = conn->burst;
    if (parser->status_code / 100 == 1 || conn->seq < 0)
        return 0;
    burst->calls[conn->seq].answered_ns = monotonic_ns();
    burst->calls[conn->seq].status = parser->status_code;
    burst->ok += parser->status_code == 200;
    burst->done++;
    conn->seq = -1;
    return 0;
}

static void lose(struct conn *conn)
{
    struct burst *burst = conn->burst;
    burst->done += conn->seq >= 0;
    burst->broken++;
    conn_close(conn);
    finish_when_done(burst);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    char bytes[16384];
    (void)what;
    ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0 || llhttp_execute(&conn->parser, bytes, (size_t)got) != HPE_OK) {
        lose(conn);
        return;
    }
    if (conn->seq < 0)
        send_next(conn);
    finish_when_done(conn->burst);
}

/* ---- connections: all are opened before the first request is sent */

static void fire(struct burst *burst, struct conn *conns)
{
    burst->first_sent_ns = monotonic_ns();
    for (long i = 0; i < burst->connections; i++)
        send_next(&conns[i]);
    burst->all_sent_ns = monotonic_ns();
    if (burst->ready_file != NULL) {
        int fd = open(burst->ready_file, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0)
            die("%s: %s", burst->ready_file, strerror(errno));
        close(fd);
    }
}

static void conn_open(struct burst *burst, struct conn *conn, const struct sockaddr_in *to)
{
    int on = 1;
    conn->burst = burst;
    conn->seq = -1;
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0 || connect(conn->fd, (const struct sockaddr *)to, sizeof(*to)) != 0)
        die("connection %ld of %ld failed: %s", burst->opened + 1, burst->connections, strerror(errno));
    burst->opened++;
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    llhttp_init(&conn->parser, HTTP_RESPONSE, &burst->settings);
    conn->parser.data = conn;
    conn->event = event_new(burst->base, conn->fd, EV_READ | EV_PERSIST, on_readable, conn);
    event_add(conn->event, NULL);
}

static struct conn *open_all(struct burst *burst, const struct sockaddr_in *direct)
{
    struct conn *conns = calloc((size_t)burst->connections, sizeof(*conns));
    if (conns == NULL)
        die("out of memory");
    for (long i = 0; i < burst->connections; i++)
        conn_open(burst, &conns[i], burst->proxies_count > 0 ? &burst->proxies[i % burst->proxies_count] : direct);
    return conns;
}

/* ---- what came of it */

static void write_calls(const struct burst *burst, const char *name)
{
    FILE *file = fopen(name, "w");
    if (file == NULL)
        die("%s: %s", name, strerror(errno));
    fprintf(file, "seq,sent_ns,answered_ns,status\n");
    for (long i = 0; i < burst->next; i++)
        fprintf(file, "%ld,%lld,%lld,%d\n", i, (long long)burst->calls[i].sent_ns,
                (long long)burst->calls[i].answered_ns, burst->calls[i].status);
    if (fclose(file) != 0)
        die("%s: %s", name, strerror(errno));
}

static void tell(const struct burst *burst)
{
    int64_t first_ns = INT64_MAX, last_ns = 0;
    for (long i = 0; i < burst->next; i++) {
        if (burst->calls[i].answered_ns == 0)
            continue;
        first_ns = burst->calls[i].answered_ns < first_ns ? burst->calls[i].answered_ns : first_ns;
        last_ns = burst->calls[i].answered_ns > last_ns ? burst->calls[i].answered_ns : last_ns;
    }
    printf("%ld calls over %ld connections, sent within %.1f ms; %ld answered 200", burst->next, burst->connections,
           (double)(burst->all_sent_ns - burst->first_sent_ns) / 1e6, burst->ok);
    if (last_ns > 0)
        printf(", first after %.3f s, last after %.3f s", (double)(first_ns - burst->first_sent_ns) / 1e9,
               (double)(last_ns - burst->first_sent_ns) / 1e9);
    printf("\n");
}

static void take_url(struct burst *burst, const char *url)
{
    if (strncmp(url, "http://", 7) != 0)
        die("'%s' does not begin with http://", url);
    size_t length = strcspn(url + 7, "/");
    if (length == 0 || length >= sizeof(burst->host))
        die("'%s' has no fitting host", url);
    memcpy(burst->host, url + 7, length);
    burst->url = url;
    burst->path = url[7 + length] != 0 ? url + 7 + length : "/";
}

static void take_header(struct burst *burst, const char *header)
{
    size_t used = strlen(burst->headers);
    if (snprintf(burst->headers + used, sizeof(burst->headers) - used, "%s\r\n", header) >=
        (int)(sizeof(burst->headers) - used))
        die("too many headers");
}

static void take_proxy(struct burst *burst, const char *text)
{
    if (burst->proxies_count == PROXIES_MAX)
        die("at most %d proxies", PROXIES_MAX);
    burst->proxies[burst->proxies_count++] = parse_addr(text);
}

static void run(struct burst *burst, long seconds)
{
    struct sockaddr_in direct = {0};
    struct timeval limit = {seconds, 0};
    if (burst->proxies_count == 0)
        direct = parse_addr(burst->host);
    struct conn *conns = open_all(burst, &direct);
    fire(burst, conns);
    event_base_loopexit(burst->base, &limit);
    event_base_dispatch(burst->base);
    for (long i = 0; i < burst->connections; i++)
        if (conns[i].fd >= 0)
            conn_close(&conns[i]);
    free(conns);
}

int main(int argc, char **argv)
{
    struct burst burst = {.base = event_base_new(), .connections = 1, .requests = 1};
    const char *out = NULL;
    long seconds = 120;
    for (int option; (option = getopt(argc, argv, "x:u:c:n:H:o:T:w:")) != -1;) {
        switch (option) {
        case 'x':
            take_proxy(&burst, optarg);
            break;
        case 'u':
            take_url(&burst, optarg);
            break;
        case 'c':
            burst.connections = parse_count(optarg, 1, 1000000);
            break;
        case 'n':
            burst.requests = parse_count(optarg, 1, 10000000);
            break;
        case 'H':
            take_header(&burst, optarg);
            break;
        case 'o':
            out = optarg;
            break;
        case 'T':
            seconds = parse_count(optarg, 1, 86400);
            break;
        case 'w':
            burst.ready_file = optarg;
            break;
        default:
            return 2;
        }
    }
    if (burst.url == NULL)
        die("burst: -u URL is missing");
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    llhttp_settings_init(&burst.settings);
    burst.settings.on_message_complete = on_message_complete;
    burst.calls = calloc((size_t)burst.requests, sizeof(*burst.calls));
    if (burst.calls == NULL)
        die("out of memory");
    run(&burst, seconds);
    tell(&burst);
    if (out != NULL)
        write_calls(&burst, out);
    bool good = burst.ok == burst.requests;
    free(burst.calls);
    event_base_free(burst.base);
    return !good;
}
