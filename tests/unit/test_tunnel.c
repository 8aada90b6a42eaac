/* links: src/upstream/tunnel.c src/base/buf.c src/base/clock.c src/base/loop.c src/base/mem.c src/base/must.c */
#include "upstream/tunnel.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the rig: caller [caller_far | caller_near] tunnel [upstream_near | upstream_far] third party ---- */

struct rig {
    struct loop *loop;
    int caller_far, caller_near, upstream_near, upstream_far;
    struct tunnel *tunnel;
    struct buf to_upstream, to_caller;
    struct tunnel_result result;
    unsigned done;
    bool free_when_done;
};

static void connect_pair(int *far, int *near)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&in, sizeof(in)), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&in, &len);
    *far = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(*far, (struct sockaddr *)&in, sizeof(in)), 0);
    *near = accept(listener, NULL, NULL);
    ck_assert_int_ge(*near, 0);
    fcntl(*near, F_SETFL, O_NONBLOCK);
    close(listener);
}

static void on_done(void *arg, const struct tunnel_result *result)
{
    struct rig *rig = arg;

    rig->done++;
    rig->result = *result;
    if (rig->free_when_done) {
        tunnel_free(rig->tunnel);
        rig->tunnel = NULL;
    }
    loop_stop(rig->loop);
}

/* Besides those there were before the rig. */
static unsigned inherited_pipes;
static unsigned open_pipes(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned count = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char link[64] = "";
        if (readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1) > 0 && strncmp(link, "pipe:", 5) == 0) {
            count++;
        }
    }
    closedir(dir);
    return count - inherited_pipes;
}

static void rig_init(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    rig->loop = loop_new();
    inherited_pipes += open_pipes(); /* libevent's too */
    connect_pair(&rig->caller_far, &rig->caller_near);
    connect_pair(&rig->upstream_far, &rig->upstream_near);
}

static void rig_start(struct rig *rig, int64_t idle_us)
{
    rig->tunnel = tunnel_start(rig->loop, rig->caller_near, rig->upstream_near, &rig->to_upstream, &rig->to_caller,
                               idle_us, on_done, rig);
}

static void close_once(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void rig_fini(struct rig *rig)
{
    if (rig->tunnel != NULL) {
        tunnel_free(rig->tunnel);
    }
    close_once(&rig->caller_far);
    close_once(&rig->caller_near);
    close_once(&rig->upstream_near);
    close_once(&rig->upstream_far);
    loop_free(rig->loop);
}

struct stop {
    struct timer timer;
    struct loop *loop;
};

static void stop_due(struct timer *timer, struct mono now)
{
    (void)now;
    loop_stop(container_of(timer, struct stop, timer)->loop);
}

static void run_for(struct rig *rig, int64_t us)
{
    struct stop stop = {.loop = rig->loop};

    timer_set(rig->loop, &stop.timer, mono_add(loop_now(rig->loop), us), stop_due);
    loop_run(rig->loop);
    timer_clear(&stop.timer);
}

/* Runs the loop until `fd` has something to tell. */
static ssize_t receive(struct rig *rig, int fd, void *bytes, size_t len)
{
    ssize_t n;

    while ((n = recv(fd, bytes, len, MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
        run_for(rig, CLOCK_MS_US);
    }
    return n;
}

static void reset(int *fd)
{
    struct linger at_once = {1, 0};

    setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close_once(fd);
}

/* ---- a stream whose every byte is known ---- */

static unsigned char byte_at(uint64_t at)
{
    return (unsigned char)((at * 2654435761u) >> 13);
}

struct stream {
    pthread_t thread;
    int fd;
    uint64_t bytes;
    bool right; /* receiver: every byte was the expected one, then the end */
};

static void *send_stream(void *arg)
{
    struct stream *stream = arg;
    unsigned char bytes[100000];

    for (uint64_t at = 0; at < stream->bytes;) {
        size_t len = sizeof(bytes) < stream->bytes - at ? sizeof(bytes) : (size_t)(stream->bytes - at);
        for (size_t i = 0; i < len; i++) {
            bytes[i] = byte_at(at + i);
        }
        for (size_t sent = 0; sent < len;) {
            ssize_t n = send(stream->fd, bytes + sent, len - sent, MSG_NOSIGNAL);
            if (n <= 0) {
                return NULL;
            }
            sent += (size_t)n;
        }
        at += len;
    }
    shutdown(stream->fd, SHUT_WR);
    return NULL;
}

static void *receive_stream(void *arg)
{
    struct stream *stream = arg;
    unsigned char bytes[70000];
    ssize_t n;
    uint64_t at = 0;

    stream->right = true;
    while ((n = recv(stream->fd, bytes, sizeof(bytes), 0)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            stream->right = stream->right && bytes[i] == byte_at(at + (uint64_t)i);
        }
        at += (uint64_t)n;
    }
    stream->right = stream->right && n == 0;
    stream->bytes = at;
    return NULL;
}

static struct stream stream_of(int fd, uint64_t bytes)
{
    return (struct stream){.fd = fd, .bytes = bytes};
}

/* ---- tests ---- */

START_TEST(bytes_pass_both_ways_and_those_read_before_go_first)
{
    struct rig rig;
    char bytes[64];

    rig_init(&rig);
    buf_add_str(&rig.to_upstream, "hello ");
    buf_add_str(&rig.to_caller, "200 ");
    rig_start(&rig, CLOCK_SECOND_US);
    ck_assert_msg(buf_len(&rig.to_upstream) == 0 && buf_len(&rig.to_caller) == 0, "they are the tunnel's now");
    ck_assert_int_eq(receive(&rig, rig.upstream_far, bytes, sizeof(bytes)), 6);
    ck_assert_mem_eq(bytes, "hello ", 6);
    ck_assert_int_eq(receive(&rig, rig.caller_far, bytes, sizeof(bytes)), 4);
    ck_assert_int_eq(send(rig.caller_far, "world", 5, 0), 5);
    ck_assert_int_eq(receive(&rig, rig.upstream_far, bytes, sizeof(bytes)), 5);
    ck_assert_mem_eq(bytes, "world", 5);
    ck_assert_int_eq(send(rig.upstream_far, "back", 4, 0), 4);
    ck_assert_int_eq(receive(&rig, rig.caller_far, bytes, sizeof(bytes)), 4);
    ck_assert_mem_eq(bytes, "back", 4);
    ck_assert_uint_eq(rig.done, 0);
    close_once(&rig.caller_far);
    close_once(&rig.upstream_far);
    loop_run(rig.loop);
    ck_assert_uint_eq(rig.done, 1);
    ck_assert_uint_eq(rig.result.to_upstream_bytes, 11);
    ck_assert_uint_eq(rig.result.to_caller_bytes, 8);
    rig_fini(&rig);
}
END_TEST

START_TEST(fifty_megabytes_arrive_byte_for_byte_in_both_directions_at_once)
{
    enum { BYTES = 50 * 1024 * 1024 + 77 };
    struct rig rig;

    rig_init(&rig);
    rig_start(&rig, 10 * CLOCK_SECOND_US);
    struct stream out = stream_of(rig.caller_far, BYTES), in = stream_of(rig.upstream_far, 0);
    struct stream back_out = stream_of(rig.upstream_far, BYTES / 5), back_in = stream_of(rig.caller_far, 0);
    pthread_create(&out.thread, NULL, send_stream, &out);
    pthread_create(&in.thread, NULL, receive_stream, &in);
    pthread_create(&back_out.thread, NULL, send_stream, &back_out);
    pthread_create(&back_in.thread, NULL, receive_stream, &back_in);
    loop_run(rig.loop);
    ck_assert_int_eq(rig.result.end, TUNNEL_CLOSED);
    pthread_join(out.thread, NULL);
    pthread_join(in.thread, NULL);
    pthread_join(back_out.thread, NULL);
    pthread_join(back_in.thread, NULL);
    ck_assert(in.right && back_in.right);
    ck_assert_uint_eq(in.bytes, BYTES);
    ck_assert_uint_eq(back_in.bytes, BYTES / 5);
    ck_assert_uint_eq(rig.result.to_upstream_bytes, BYTES);
    ck_assert_uint_eq(rig.result.to_caller_bytes, BYTES / 5);
    ck_assert_uint_eq(open_pipes(), 0);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_half_close_is_passed_on_and_the_other_way_stays_open)
{
    struct rig rig;
    char bytes[16];

    rig_init(&rig);
    rig_start(&rig, CLOCK_SECOND_US);
    ck_assert_int_eq(send(rig.caller_far, "question", 8, 0), 8);
    shutdown(rig.caller_far, SHUT_WR);
    ck_assert_int_eq(receive(&rig, rig.upstream_far, bytes, sizeof(bytes)), 8);
    ck_assert_int_eq(receive(&rig, rig.upstream_far, bytes, sizeof(bytes)), 0);
    run_for(&rig, 3 * CLOCK_MS_US);
    ck_assert_uint_eq(rig.done, 0);
    ck_assert_int_eq(send(rig.upstream_far, "answer", 6, 0), 6);
    ck_assert_int_eq(receive(&rig, rig.caller_far, bytes, sizeof(bytes)), 6);
    shutdown(rig.upstream_far, SHUT_WR);
    ck_assert_int_eq(receive(&rig, rig.caller_far, bytes, sizeof(bytes)), 0);
    ck_assert_uint_eq(rig.done, 1);
    ck_assert_int_eq(rig.result.end, TUNNEL_CLOSED);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_reset_of_one_side_resets_the_other)
{
    char byte;

    for (int from_caller = 0; from_caller < 2; from_caller++) {
        struct rig rig;
        rig_init(&rig);
        rig_start(&rig, CLOCK_SECOND_US);
        run_for(&rig, CLOCK_MS_US);
        reset(from_caller ? &rig.caller_far : &rig.upstream_far);
        loop_run(rig.loop);
        ck_assert_uint_eq(rig.done, 1);
        ck_assert_int_eq(rig.result.end, TUNNEL_RESET);
        close_once(&rig.caller_near);
        close_once(&rig.upstream_near);
        ck_assert_int_eq(recv(from_caller ? rig.upstream_far : rig.caller_far, &byte, 1, 0), -1);
        ck_assert_int_eq(errno, ECONNRESET);
        rig_fini(&rig);
    }
}
END_TEST

START_TEST(a_receiver_that_vanishes_under_load_is_a_reset_without_a_signal)
{
    struct rig rig;

    rig_init(&rig);
    rig_start(&rig, 10 * CLOCK_SECOND_US);
    struct stream out = stream_of(rig.caller_far, 200 * 1024 * 1024);
    pthread_create(&out.thread, NULL, send_stream, &out);
    run_for(&rig, 20 * CLOCK_MS_US); /* the pipe is in use, and full */
    reset(&rig.upstream_far);
    loop_run(rig.loop);
    ck_assert_int_eq(rig.result.end, TUNNEL_RESET);
    close_once(&rig.caller_near);
    pthread_join(out.thread, NULL);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_silent_tunnel_ends_after_its_idle_time_and_traffic_puts_that_off)
{
    struct rig rig;
    struct mono began;
    char byte;

    rig_init(&rig);
    rig.free_when_done = true;
    rig_start(&rig, 60 * CLOCK_MS_US);
    began = loop_now(rig.loop);
    run_for(&rig, 40 * CLOCK_MS_US);
    ck_assert_int_eq(send(rig.caller_far, "x", 1, 0), 1);
    ck_assert_int_eq(receive(&rig, rig.upstream_far, &byte, 1), 1);
    loop_run(rig.loop);
    ck_assert_int_eq(rig.result.end, TUNNEL_IDLE);
    ck_assert_int_ge(mono_diff(loop_now(rig.loop), began), 100 * CLOCK_MS_US);
    rig_fini(&rig);
}
END_TEST

/* Bytes `fd` takes until it has been full for a while, with the loop running. */
static uint64_t stuff(struct rig *rig, int fd)
{
    char bytes[65536] = {0};
    uint64_t sum = 0;

    for (unsigned full = 0; full < 20;) {
        ssize_t n = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            sum += (uint64_t)n;
            full = 0;
        } else {
            run_for(rig, CLOCK_MS_US);
            full++;
        }
        ck_assert_uint_lt(sum, 200u * 1024 * 1024);
    }
    return sum;
}

static void limit_buffers(int fd)
{
    int bytes = 64 * 1024;

    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

START_TEST(a_reader_that_stalls_stops_the_sender_and_loses_nothing)
{
    struct rig rig;
    char bytes[65536];
    uint64_t got = 0;
    ssize_t n;

    rig_init(&rig);
    limit_buffers(rig.caller_far);
    limit_buffers(rig.caller_near);
    limit_buffers(rig.upstream_near);
    limit_buffers(rig.upstream_far);
    rig_start(&rig, 10 * CLOCK_SECOND_US);
    uint64_t sent = stuff(&rig, rig.caller_far);
    ck_assert_msg(sent < 2 * 1024 * 1024, "four socket buffers and one read: %lu", (unsigned long)sent);
    shutdown(rig.caller_far, SHUT_WR);
    while ((n = receive(&rig, rig.upstream_far, bytes, sizeof(bytes))) > 0) {
        got += (uint64_t)n;
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(got, sent);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_pipe_is_made_for_much_data_only_and_given_back_when_it_falls_quiet)
{
    struct rig rig;
    char bytes[65536];
    uint64_t got = 0;

    rig_init(&rig);
    rig_start(&rig, 10 * CLOCK_SECOND_US);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(send(rig.caller_far, "small", 5, 0), 5);
        ck_assert_int_eq(receive(&rig, rig.upstream_far, bytes, sizeof(bytes)), 5);
    }
    ck_assert_uint_eq(open_pipes(), 0);
    uint64_t sent = stuff(&rig, rig.caller_far);
    ck_assert_uint_eq(open_pipes(), 2);
    while (got < sent) {
        got += (uint64_t)receive(&rig, rig.upstream_far, bytes, sizeof(bytes));
    }
    ck_assert_int_eq(send(rig.caller_far, "small", 5, 0), 5);
    ck_assert_int_eq(receive(&rig, rig.upstream_far, bytes, sizeof(bytes)), 5);
    ck_assert_uint_eq(open_pipes(), 0);
    rig_fini(&rig);
}
END_TEST

START_TEST(a_tunnel_may_be_broken_off_before_its_end)
{
    struct rig rig;

    rig_init(&rig);
    rig_start(&rig, CLOCK_SECOND_US);
    tunnel_free(rig.tunnel);
    rig_start(&rig, CLOCK_SECOND_US);
    stuff(&rig, rig.caller_far);
    tunnel_free(rig.tunnel);
    rig.tunnel = NULL;
    run_for(&rig, 2 * CLOCK_MS_US);
    ck_assert_uint_eq(rig.done, 0);
    ck_assert_uint_eq(open_pipes(), 0);
    rig_fini(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tunnel");
    TCase *tc = tcase_create("tunnel");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, bytes_pass_both_ways_and_those_read_before_go_first);
    tcase_add_test(tc, fifty_megabytes_arrive_byte_for_byte_in_both_directions_at_once);
    tcase_add_test(tc, a_half_close_is_passed_on_and_the_other_way_stays_open);
    tcase_add_test(tc, a_reset_of_one_side_resets_the_other);
    tcase_add_test(tc, a_receiver_that_vanishes_under_load_is_a_reset_without_a_signal);
    tcase_add_test(tc, a_silent_tunnel_ends_after_its_idle_time_and_traffic_puts_that_off);
    tcase_add_test(tc, a_reader_that_stalls_stops_the_sender_and_loses_nothing);
    tcase_add_test(tc, a_pipe_is_made_for_much_data_only_and_given_back_when_it_falls_quiet);
    tcase_add_test(tc, a_tunnel_may_be_broken_off_before_its_end);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
