#ifndef SLUICE_TESTS_UPSTREAM_RIG_H
#define SLUICE_TESTS_UPSTREAM_RIG_H
/* One loop, one set of upstreams, and origins that are listening sockets nobody serves but the test. */
#include "upstream/connection.h"
#include "upstream/pool.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct loop *loop __attribute__((unused));
static struct upstreams *upstreams __attribute__((unused));
static struct policy policy __attribute__((unused));
static struct upstreams_conf conf __attribute__((unused));
static sem_t hanging __attribute__((unused)), let_go __attribute__((unused));

static inline int fake_resolve(const char *host, struct addr addrs[WORKERS_ADDRS], unsigned *count)
{
    static const struct {
        const char *host, *addrs[3];
    } names[] = {
        {"good.test", {"127.0.0.1"}},
        {"wrong.test", {"127.0.0.1"}},
        {"second.test", {"127.0.0.2", "127.0.0.1"}},
        {"third.test", {"127.0.0.3", "127.0.0.2", "127.0.0.1"}},
        {"metadata.test", {"169.254.169.254", "10.0.0.1"}},
        {"hang.test", {"127.0.0.1"}},
    };

    *count = 0;
    if (strcmp(host, "hang.test") == 0) {
        sem_post(&hanging);
        sem_wait(&let_go);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (int k = 0; strcmp(host, names[i].host) == 0 && k < 3 && names[i].addrs[k] != NULL; k++) {
            if (addr_parse_literal(slice_of(names[i].addrs[k]), 0, &addrs[*count])) {
                (*count)++;
            }
        }
    }
    return *count > 0 ? 0 : EAI_NONAME;
}

static inline void set_up(void)
{
    sem_init(&hanging, 0, 0);
    sem_init(&let_go, 0, 0);
    policy = (struct policy){
        .connect_timeout_us = 5 * CLOCK_SECOND_US, .upstream_idle_us = 60 * CLOCK_SECOND_US, .max_connections = 100};
    conf = (struct upstreams_conf){.private_mode = PRIVATE_ALLOW,
                                   .dns_ttl_us = 60 * CLOCK_SECOND_US,
                                   .dns_timeout_us = 5 * CLOCK_SECOND_US,
                                   .resolver_threads = 2};
    loop = loop_new();
    upstreams = NULL;
}

static inline void begin(void)
{
    upstreams = pool_upstreams_new(loop, &conf, fake_resolve);
}

static inline void tear_down(void)
{
    if (upstreams != NULL) {
        upstreams_free(upstreams);
    }
    loop_free(loop);
}

static inline uint16_t port_of(int fd)
{
    struct sockaddr_in in;
    socklen_t len = sizeof(in);

    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    return ntohs(in.sin_port);
}

/* Port 0: a free one. */
static inline int listen_on(const char *ip, uint16_t port, int backlog)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    inet_pton(AF_INET, ip, &in.sin_addr);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    ck_assert_int_eq(listen(fd, backlog), 0);
    return fd;
}

/* A socket that accepts no more: its backlog is full, so the kernel drops every SYN. */
struct black_hole {
    int fd, fillers[4];
};

static inline struct black_hole black_hole_on(const char *ip, uint16_t port)
{
    struct black_hole hole = {.fd = listen_on(ip, port, 0)};
    struct sockaddr_in in;
    socklen_t len = sizeof(in);

    getsockname(hole.fd, (struct sockaddr *)&in, &len);
    for (int i = 0; i < 4; i++) {
        hole.fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)!connect(hole.fillers[i], (struct sockaddr *)&in, sizeof(in));
    }
    return hole;
}

static inline void black_hole_close(struct black_hole *hole)
{
    close(hole->fd);
    for (int i = 0; i < 4; i++) {
        close(hole->fillers[i]);
    }
}

static inline void stop_due(struct timer *timer, struct mono now)
{
    (void)timer;
    (void)now;
    loop_stop(loop);
}

static inline void run_for(int64_t us)
{
    struct timer timer = {0};

    timer_set(loop, &timer, mono_add(loop_now(loop), us), stop_due);
    loop_run(loop);
}

struct wish {
    struct acquire acquire;
    struct upstream *upstream;
    enum upstream_error error;
    char detail[128];
    unsigned calls;
    unsigned order; /* of being called, from 1 */
};
static unsigned calls_expected, calls_made;

static inline void called(struct wish *wish)
{
    wish->calls++;
    wish->order = ++calls_made;
    if (calls_expected > 0 && --calls_expected == 0) {
        loop_stop(loop);
    }
}

static inline void on_ready(struct acquire *acquire, struct upstream *upstream)
{
    struct wish *wish = container_of(acquire, struct wish, acquire);

    wish->upstream = upstream;
    called(wish);
}

static inline void on_error(struct acquire *acquire, enum upstream_error error, const char *detail)
{
    struct wish *wish = container_of(acquire, struct wish, acquire);

    ck_assert_ptr_nonnull(detail);
    wish->error = error;
    snprintf(wish->detail, sizeof(wish->detail), "%s", detail);
    called(wish);
}

static inline void want(struct wish *wish, const struct origin *origin)
{
    memset(wish, 0, sizeof(*wish));
    wish->acquire.on_ready = on_ready;
    wish->acquire.on_error = on_error;
    upstream_acquire(upstreams, origin, &policy, &wish->acquire);
    ck_assert_uint_eq(wish->calls, 0);
}

static inline void run_for_calls(unsigned count)
{
    calls_expected = count;
    loop_run(loop);
}

static inline struct upstream *get(const struct origin *origin)
{
    struct wish wish;

    want(&wish, origin);
    run_for_calls(1);
    ck_assert_msg(wish.upstream != NULL, "error %d: %s", wish.error, wish.detail);
    return wish.upstream;
}

static inline enum upstream_error get_error(const struct origin *origin)
{
    struct wish wish;

    want(&wish, origin);
    run_for_calls(1);
    ck_assert_ptr_null(wish.upstream);
    return wish.error;
}

/* What the owner is told. */
struct owner {
    struct upstream *upstream;
    unsigned readable, writable, closed;
    bool close_when_readable;
};

static inline void on_readable(void *arg)
{
    struct owner *owner = arg;

    owner->readable++;
    if (owner->close_when_readable) {
        upstream_close(owner->upstream, false);
    }
    loop_stop(loop);
}
static inline void on_writable(void *arg)
{
    struct owner *owner = arg;

    owner->writable++;
    loop_stop(loop);
}
static inline void on_closed(void *arg)
{
    struct owner *owner = arg;

    owner->closed++;
    loop_stop(loop);
}
static const struct upstream_ops ops = {on_readable, on_writable, on_closed};

static inline void own(struct owner *owner, struct upstream *upstream)
{
    *owner = (struct owner){.upstream = upstream};
    upstream_own(upstream, &ops, owner);
}

/* Waits, in the loop, and reads what there is. */
static inline ssize_t receive(struct owner *owner, void *bytes, size_t len)
{
    ssize_t n;

    while ((n = upstream_recv(owner->upstream, bytes, len)) < 0 && errno == EAGAIN) {
        upstream_watch(owner->upstream, true, false);
        loop_run(loop);
    }
    return n;
}

static inline void send_all(struct owner *owner, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = upstream_send(owner->upstream, bytes, len);
        if (n >= 0) {
            bytes += n;
            len -= (size_t)n;
        } else {
            ck_assert_int_eq(errno, EAGAIN);
            upstream_watch(owner->upstream, false, true);
            loop_run(loop);
        }
    }
}

static inline int open_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static inline struct origin origin_of(const char *host, int listener)
{
    return (struct origin){.host = host, .port = port_of(listener)};
}

static inline TCase *add_case(Suite *suite, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    suite_add_tcase(suite, tc);
    return tc;
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
