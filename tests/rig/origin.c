/*
 * origin - plays the third party: answers HTTP/1.1 and writes down when each request came.
 *
 *   origin [-b ADDRESS] [-p PORT] [-l FILE] [-r N/SECONDS]
 *
 *   -b ADDRESS      where to listen, 127.0.0.1 if not said
 *   -p PORT         0 (if not said): any free one. "listening on ADDRESS:PORT" is the first line of the output.
 *   -l FILE         the arrivals: a line "ns,path" each, after that heading; "-" is the standard output
 *   -r N/SECONDS    answer 429 to what comes as number N + 1 within SECONDS, and count it
 *
 *   /bytes/N        a body of N bytes            /delay/MS     answer that much later
 *   /status/CODE    answer with that status      anything else: a short body
 *   /__stats        counters as JSON, not written down; the log is complete up to then
 *   /__reset        forget the arrivals so far (counters and limit; the log goes on)
 *
 * An arrival's time is when the kernel received the packet that completed the request's head (SO_TIMESTAMPNS), so
 * that this program's own place in the scheduler's queue is not held against whoever sent it. The kernel stamps in
 * CLOCK_REALTIME; the log is in CLOCK_MONOTONIC, translated at each arrival, so that a stepped clock makes no gap.
 */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <getopt.h>
#include <llhttp.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 256, READ_BYTES = 65536, BODY_MAX = 1 << 30, CLOCKS_APART_NS = 20000, CLOCKS_TRIES = 20 };

struct origin {
    struct event_base *base;
    llhttp_settings_t settings;
    FILE *log;
    int64_t *recent_ns; /* ring of the last `limit` arrivals that were let in */
    long limit;         /* 0: none */
    int64_t window_ns;
    unsigned long admitted, arrivals, violations, connections;
};

struct conn {
    struct origin *origin;
    int fd;
    struct event *readable, *writable, *delay;
    struct evbuffer *out;
    llhttp_t parser;
    char path[PATH_BYTES];
    size_t path_len;
    int64_t received_ns; /* of the bytes being parsed */
    bool over_limit, closing, delayed;
};

static void conn_free(struct conn *conn)
{
    event_free(conn->readable);
    event_free(conn->writable);
    event_free(conn->delay);
    evbuffer_free(conn->out);
    close(conn->fd);
    free(conn);
}

/* ---- what came when */

/* True when this arrival is one too many. A ring of the last N suffices: the one N before must be a window away. */
static bool limit_exceeded(struct origin *origin, int64_t at_ns)
{
    if (origin->limit == 0)
        return false;
    int64_t *oldest_ns = &origin->recent_ns[origin->admitted % (unsigned long)origin->limit];
    if (origin->admitted >= (unsigned long)origin->limit && at_ns - *oldest_ns < origin->window_ns)
        return true;
    *oldest_ns = at_ns;
    origin->admitted++;
    return false;
}

static bool is_control(const struct conn *conn)
{
    return strncmp(conn->path, "/__", 3) == 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct conn *conn = parser->data;
    struct origin *origin = conn->origin;
    conn->path[conn->path_len] = 0;
    conn->path_len = 0;
    if (is_control(conn))
        return 0;
    origin->arrivals++;
    conn->over_limit = limit_exceeded(origin, conn->received_ns);
    origin->violations += conn->over_limit;
    if (origin->log != NULL)
        fprintf(origin->log, "%lld,%s\n", (long long)conn->received_ns, conn->path);
    return 0;
}

/* ---- answers */

static void write_head(struct conn *conn, int status, const char *type, size_t length)
{
    bool keep = llhttp_should_keep_alive(&conn->parser);
    conn->closing = !keep;
    evbuffer_add_printf(conn->out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n", status,
                        status == 200 ? "OK" : "Told", type, length, keep ? "" : "Connection: close\r\n");
}

static void write_text(struct conn *conn, int status, const char *type, const char *text)
{
    write_head(conn, status, type, strlen(text));
    if (conn->parser.method != HTTP_HEAD)
        evbuffer_add(conn->out, text, strlen(text));
}

static void write_pattern(struct conn *conn, size_t length)
{
    static const char pattern[] = "abcdefghijklmnopqrstuvwxyz";
    write_head(conn, 200, "text/plain", length);
    if (conn->parser.method == HTTP_HEAD)
        return;
    for (size_t done = 0; done < length;) {
        size_t part = length - done < 26 ? length - done : 26;
        evbuffer_add(conn->out, pattern, part);
        done += part;
    }
}

static void write_stats(struct conn *conn)
{
    struct origin *origin = conn->origin;
    char json[256];
    if (origin->log != NULL)
        fflush(origin->log);
    snprintf(json, sizeof(json), "{\"arrivals\": %lu, \"violations\": %lu, \"connections\": %lu}\n", origin->arrivals,
             origin->violations, origin->connections);
    write_text(conn, 200, "application/json", json);
}

static void reset_stats(struct conn *conn)
{
    struct origin *origin = conn->origin;
    origin->arrivals = origin->violations = origin->admitted = origin->connections = 0;
    write_text(conn, 200, "text/plain", "forgotten\n");
}

static size_t number_after(const char *path, const char *prefix, size_t max)
{
    unsigned long number = strtoul(path + strlen(prefix), NULL, 10);
    return number > max ? max : number;
}

static void start_delay(struct conn *conn, size_t ms)
{
    struct timeval after = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
    conn->delayed = true;
    event_add(conn->delay, &after);
}

static void answer(struct conn *conn)
{
    const char *path = conn->path;
    if (strcmp(path, "/__stats") == 0)
        write_stats(conn);
    else if (strcmp(path, "/__reset") == 0)
        reset_stats(conn);
    else if (conn->over_limit)
        write_text(conn, 429, "text/plain", "too many\n");
    else if (strncmp(path, "/bytes/", 7) == 0)
        write_pattern(conn, number_after(path, "/bytes/", BODY_MAX));
    else if (strncmp(path, "/delay/", 7) == 0)
        start_delay(conn, number_after(path, "/delay/", 3600000));
    else if (strncmp(path, "/status/", 8) == 0)
        write_text(conn, (int)number_after(path, "/status/", 599), "text/plain", "as you asked\n");
    else
        write_text(conn, 200, "text/plain", "hello, caller\n");
}

static int on_url(llhttp_t *parser, const char *at, size_t length)
{
    struct conn *conn = parser->data;
    size_t room = PATH_BYTES - 1 - conn->path_len;
    if (length > room)
        length = room;
    memcpy(conn->path + conn->path_len, at, length);
    conn->path_len += length;
    return 0;
}

/* A delayed answer must come before the next one: the parser is paused, and what follows waits in the socket. */
static int on_message_complete(llhttp_t *parser)
{
    struct conn *conn = parser->data;
    answer(conn);
    return conn->delayed || conn->closing ? HPE_PAUSED : 0;
}

/* ---- sockets */

/* False when the connection is gone. */
static bool flush_out(struct conn *conn)
{
    while (evbuffer_get_length(conn->out) > 0) {
        if (evbuffer_write(conn->out, conn->fd) >= 0)
            continue;
        if (errno == EAGAIN) {
            event_add(conn->writable, NULL);
            return true;
        }
        conn_free(conn);
        return false;
    }
    if (conn->closing) {
        conn_free(conn);
        return false;
    }
    return true;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    flush_out(arg);
}

static void on_delay(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    (void)fd;
    (void)what;
    conn->delayed = false;
    write_text(conn, 200, "text/plain", "later\n");
    llhttp_resume(&conn->parser);
    event_add(conn->readable, NULL);
    flush_out(conn);
}

/* Both clocks at one moment: tried again when something came between the two readings, or an arrival would be off by
 * it. */
static int64_t both_clocks_ns(int64_t *wall_ns)
{
    int64_t before_ns, after_ns;
    int tries = 0;
    do {
        before_ns = monotonic_ns();
        *wall_ns = realtime_ns();
        after_ns = monotonic_ns();
    } while (after_ns - before_ns > CLOCKS_APART_NS && ++tries < CLOCKS_TRIES);
    return before_ns + (after_ns - before_ns) / 2;
}

static int64_t stamp_of(struct msghdr *msg)
{
    int64_t wall_ns, here_ns = both_clocks_ns(&wall_ns);
    for (struct cmsghdr *part = CMSG_FIRSTHDR(msg); part != NULL; part = CMSG_NXTHDR(msg, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;
            memcpy(&stamp, CMSG_DATA(part), sizeof(stamp));
            return here_ns - (wall_ns - (stamp.tv_sec * NS_PER_S + stamp.tv_nsec));
        }
    }
    return here_ns;
}

static ssize_t receive(struct conn *conn, char *bytes, size_t size)
{
    char control[256];
    struct iovec part = {bytes, size};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(conn->fd, &msg, MSG_DONTWAIT);
    if (got > 0)
        conn->received_ns = stamp_of(&msg);
    return got;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct conn *conn = arg;
    char bytes[READ_BYTES];
    (void)fd;
    (void)what;
    ssize_t got = receive(conn, bytes, sizeof(bytes));
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        conn_free(conn);
        return;
    }
    llhttp_errno_t verdict = llhttp_execute(&conn->parser, bytes, (size_t)got);
    if (conn->delayed)
        event_del(conn->readable);
    if (verdict != HPE_OK && verdict != HPE_PAUSED) {
        evbuffer_add_printf(conn->out, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        conn->closing = true;
    }
    flush_out(conn);
}

static void conn_new(struct origin *origin, int fd)
{
    int on = 1;
    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        die("out of memory");
    conn->origin = origin;
    conn->fd = fd;
    conn->out = evbuffer_new();
    llhttp_init(&conn->parser, HTTP_REQUEST, &origin->settings);
    conn->parser.data = conn;
    conn->readable = event_new(origin->base, fd, EV_READ | EV_PERSIST, on_readable, conn);
    conn->writable = event_new(origin->base, fd, EV_WRITE, on_writable, conn);
    conn->delay = evtimer_new(origin->base, on_delay, conn);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    origin->connections++;
    event_add(conn->readable, NULL);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    for (;;) {
        int peer = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (peer < 0)
            return;
        conn_new(arg, peer);
    }
}

/* Stamping is asked for on the listener and inherited, so that not even the first packet goes without. */
static int listen_on(const char *address, const char *port)
{
    char text[80];
    int on = 1;
    snprintf(text, sizeof(text), "%s:%s", address, port);
    struct sockaddr_in addr = parse_addr(text);
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&addr, len) != 0 || listen(fd, 4096) != 0)
        die("cannot listen on %s: %s", text, strerror(errno));
    getsockname(fd, (struct sockaddr *)&addr, &len);
    printf("listening on %s:%u\n", address, ntohs(addr.sin_port));
    fflush(stdout);
    return fd;
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)number;
    (void)what;
    event_base_loopbreak(arg);
}

static void set_limit(struct origin *origin, char *text)
{
    char *slash = strchr(text, '/');
    if (slash == NULL)
        die("'%s' is not N/SECONDS", text);
    *slash = 0;
    origin->limit = parse_count(text, 1, 1000000);
    origin->window_ns = (int64_t)(strtod(slash + 1, NULL) * NS_PER_S);
    origin->recent_ns = calloc((size_t)origin->limit, sizeof(*origin->recent_ns));
    if (origin->window_ns <= 0 || origin->recent_ns == NULL)
        die("'%s/%s' is no limit", text, slash + 1);
}

static void open_log(struct origin *origin, const char *name)
{
    origin->log = strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
    if (origin->log == NULL)
        die("%s: %s", name, strerror(errno));
    fprintf(origin->log, "ns,path\n");
    if (origin->log == stdout)
        setvbuf(stdout, NULL, _IOLBF, 0);
}

int main(int argc, char **argv)
{
    struct origin origin = {.base = event_base_new()};
    const char *address = "127.0.0.1", *port = "0", *log = NULL;
    for (int option; (option = getopt(argc, argv, "b:p:l:r:")) != -1;) {
        if (option == 'b')
            address = optarg;
        else if (option == 'p')
            port = optarg;
        else if (option == 'l')
            log = optarg;
        else if (option == 'r')
            set_limit(&origin, optarg);
        else
            die("usage: origin [-b ADDRESS] [-p PORT] [-l FILE] [-r N/SECONDS]");
    }
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    llhttp_settings_init(&origin.settings);
    origin.settings.on_url = on_url;
    origin.settings.on_headers_complete = on_headers_complete;
    origin.settings.on_message_complete = on_message_complete;
    int fd = listen_on(address, port);
    if (log != NULL)
        open_log(&origin, log);
    struct event *accepting = event_new(origin.base, fd, EV_READ | EV_PERSIST, on_accept, &origin);
    struct event *stop = evsignal_new(origin.base, SIGTERM, on_signal, origin.base);
    struct event *interrupt = evsignal_new(origin.base, SIGINT, on_signal, origin.base);
    event_add(accepting, NULL);
    event_add(stop, NULL);
    event_add(interrupt, NULL);
    event_base_dispatch(origin.base);
    return origin.log != NULL && fclose(origin.log) != 0;
}
