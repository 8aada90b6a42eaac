/* links: tests/unit/fake_redis.c src/redis/link.c src/redis/node.c src/redis/cluster.c src/redis/slotmap.c src/redis/sentinel.c src/redis/inquiry.c src/conf/redis_conf.c src/redis/flight.c src/redis/backoff.c src/redis/hello.c src/redis/resp.c src/redis/reply.c src/redis/script.c src/redis/command.c src/redis/transport.c src/redis/lookup.c src/redis/secure.c src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c src/base/loop.c src/base/clock.c src/base/histogram.c src/base/err.c */
/* The link and everything that can go wrong on a connection. */
#include "fake_redis.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fake *fake;

static void setup(void)
{
    fake = fake_new();
}
static void teardown(void)
{
    fake_free(fake);
}
static void start_up(void)
{
    fake_start(fake);
    fake_until(fake, fake->ups == 1);
}

/* ---- lost while up ---- */

/* Call 0 has been sent, call 1 too; the link then goes down for `why`. */
static void assert_dropped(const char *why)
{
    fake_until(fake, fake->downs == 1);
    ck_assert_str_eq(fake->why, why);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(fake->calls[i].done, 1);
        ck_assert(fake->calls[i].lost);
    }
    fake_until(fake, fake->ups == 2);
    ck_assert_int_eq(fake->calls[0].done, 1);
    ck_assert_int_eq(fake->commands_count, 2); /* nothing was sent again */
}

static void send_two(void)
{
    start_up();
    ck_assert(fake_eval(fake, 0) && fake_eval(fake, 1));
    fake_until(fake, fake->commands_count == 2);
}

static const char *const cant_serve[] = {"READONLY",   "NOREPLICAS",  "OOM",     "LOADING", "BUSY",
                                         "MASTERDOWN", "CLUSTERDOWN", "MISCONF", "NOAUTH",  "NOPERM"};

START_TEST(a_server_that_cannot_serve_drops_the_link)
{
    char answer[64], why[64];

    send_two();
    snprintf(answer, sizeof(answer), "-%s for some reason\r\n", cant_serve[_i]);
    snprintf(why, sizeof(why), "the server can't serve: %s", cant_serve[_i]);
    fake_say(fake, answer);
    assert_dropped(why);
}
END_TEST

START_TEST(an_error_that_an_old_server_wraps_is_unwrapped)
{
    send_two();
    fake_say(fake, "-ERR Error running script (call to f_9216): @user_script: 1: -READONLY You can't write.\r\n");
    assert_dropped("the server can't serve: READONLY");
}
END_TEST

START_TEST(other_errors_are_the_callers_business)
{
    send_two();
    fake_say(fake, "-ERR user_script:1: oops\r\n-READONLYISH or not\r\n");
    fake_until(fake, fake->calls[1].done == 1);
    ck_assert_str_eq(fake->calls[0].text, "-ERR user_script:1: oops");
    ck_assert_str_eq(fake->calls[1].text, "-READONLYISH or not");
    ck_assert_int_eq(fake->downs, 0);
}
END_TEST

static const struct {
    const char *bytes, *why;
} garbage[] = {
    {"garbage\r\n", "bytes that are not RESP"},
    {"\r\n", "bytes that are not RESP"},
    {"$-5\r\n", "bytes that are not RESP"},
    {":12x\r\n", "bytes that are not RESP"},
    {"%1\r\n+a\r\n+b\r\n", "bytes that are not RESP"},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "bytes that are not RESP"},
    {"*1000000000\r\n", "reply too large"},
    {"*262144\r\n*262144\r\n", "reply too large"},
};

START_TEST(odd_bytes_drop_the_link)
{
    send_two();
    fake_say(fake, garbage[_i].bytes);
    assert_dropped(garbage[_i].why);
}
END_TEST

START_TEST(a_huge_reply_drops_the_link)
{
    char *block = mem_alloc(64 * 1024);

    memset(block, 'x', 64 * 1024);
    block[64 * 1024 - 1] = '\0';
    send_two();
    fake_say(fake, "$100000000\r\n");
    for (int i = 0; i < 18; i++) {
        fake_say(fake, block);
    }
    mem_free(block);
    assert_dropped("reply too large");
}
END_TEST

START_TEST(a_large_reply_is_fine)
{
    char *block = mem_alloc(512 * 1024);

    memset(block, 'x', 512 * 1024);
    block[512 * 1024 - 1] = '\0';
    send_two();
    for (int i = 0; i < 2; i++) {
        fake_say(fake, "$524287\r\n");
        fake_say(fake, block);
        fake_say(fake, "\r\n");
    }
    mem_free(block);
    fake_until(fake, fake->calls[1].done == 1);
    ck_assert(!fake->calls[1].lost);
}
END_TEST

START_TEST(a_reply_to_nothing_drops_the_link)
{
    start_up();
    fake_say(fake, "+hello\r\n");
    fake_until(fake, fake->downs == 1);
    ck_assert_str_eq(fake->why, "a reply to nothing that was asked");
}
END_TEST

START_TEST(a_close_in_the_middle_of_a_reply_loses_the_calls)
{
    send_two();
    fake_say(fake, "$10\r\nabc");
    fake_run_us(fake, 20 * CLOCK_MS_US);
    ck_assert_int_eq(fake->calls[0].done, 0);
    fake_hang_up(fake);
    assert_dropped("connection closed");
}
END_TEST

START_TEST(what_came_before_a_close_counts)
{
    fake->answers[0] = "+zero\r\n";
    start_up();
    ck_assert(fake_eval(fake, 0) && fake_eval(fake, 1));
    fake_until(fake, fake->commands_count == 2);
    fake_hang_up(fake);
    fake_until(fake, fake->downs == 1);
    ck_assert(fake->calls[1].lost);
    ck_assert_int_eq(fake->calls[0].done, 1);
}
END_TEST

START_TEST(a_server_that_stops_answering_is_dropped_in_time)
{
    fake->conf.timeout_us = 60 * CLOCK_MS_US;
    send_two();
    assert_dropped("no answer in time");
    int64_t waited = mono_diff(fake->calls[0].call.answered, fake->calls[0].call.sent);
    ck_assert_int_ge(waited, 60 * CLOCK_MS_US);
}
END_TEST

START_TEST(the_timeout_is_the_oldest_calls_own)
{
    fake->conf.timeout_us = 400 * CLOCK_MS_US;
    start_up();
    ck_assert(fake_eval(fake, 0));
    fake_run_us(fake, 200 * CLOCK_MS_US);
    ck_assert(fake_eval(fake, 1));
    fake_say(fake, "+zero\r\n");
    fake_until(fake, fake->calls[1].done == 1);
    ck_assert(!fake->calls[0].lost);
    ck_assert(fake->calls[1].lost);
    ck_assert_int_ge(mono_diff(fake->calls[1].call.answered, fake->calls[1].call.sent), 400 * CLOCK_MS_US);
}
END_TEST

START_TEST(a_link_without_calls_stays_up)
{
    fake->conf.timeout_us = 10 * CLOCK_MS_US;
    fake->answers[0] = "+zero\r\n";
    start_up();
    ck_assert(fake_eval(fake, 0));
    fake_until(fake, fake->calls[0].done == 1);
    fake_run_us(fake, 60 * CLOCK_MS_US);
    ck_assert_int_eq(fake->downs, 0);
}
END_TEST

static void block(struct timer *timer, struct mono now)
{
    /* a process that stands still: the answer comes and the timeout passes meanwhile */
    struct fake *which = container_of(timer, struct fake, alarm);

    while (mono_diff(loop_now(which->loop), now) < 120 * CLOCK_MS_US) {
    }
    which->rang = true;
}

START_TEST(an_answer_that_came_while_the_process_stood_still_counts)
{
    fake->conf.timeout_us = 50 * CLOCK_MS_US;
    start_up();
    ck_assert(fake_eval(fake, 0));
    fake_until(fake, fake->commands_count == 1);
    fake_say(fake, "+zero\r\n");
    timer_set(fake->loop, &fake->alarm, loop_now(fake->loop), block);
    fake_until(fake, fake->calls[0].done == 1);
    ck_assert(fake->rang);
    ck_assert(!fake->calls[0].lost);
}
END_TEST

START_TEST(a_server_that_accepts_and_says_nothing_is_given_up)
{
    fake->mute = true;
    fake->conf.connect_timeout_us = 50 * CLOCK_MS_US;
    fake_start(fake);
    fake_until(fake, fake->accepted == 2);
    ck_assert_str_eq(fake->logged_why, "timed out: handshake");
    fake->mute = false;
    fake_until(fake, fake->ups == 1);
}
END_TEST

START_TEST(a_port_that_nobody_listens_on_is_named)
{
    fake->conf.port = 1;
    fake_start(fake);
    fake_until(fake, fake->logged_down == 1);
    ck_assert_str_eq(fake->logged_why, "connect: Connection refused");
}
END_TEST

START_TEST(a_host_that_swallows_packets_is_given_up)
{
    /* a listener that accepts nobody and has a full queue drops further SYNs */
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);
    int listener = socket(AF_INET, SOCK_STREAM, 0), fill[8];

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&sin, sizeof(sin)), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
    for (int i = 0; i < 8; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        ck_assert(connect(fill[i], (struct sockaddr *)&sin, sizeof(sin)) == 0 || errno == EINPROGRESS);
    }
    fake->conf.port = ntohs(sin.sin_port);
    fake->conf.connect_timeout_us = 80 * CLOCK_MS_US;
    fake_start(fake);
    fake_until(fake, fake->logged_down == 1);
    ck_assert_str_eq(fake->logged_why, "timed out: connect");
    for (int i = 0; i < 8; i++) {
        close(fill[i]);
    }
    close(listener);
}
END_TEST

START_TEST(a_reset_is_named)
{
    send_two();
    struct linger none = {.l_onoff = 1};
    setsockopt(bufferevent_getfd(fake->peer), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    fake_hang_up(fake);
    assert_dropped("connection lost: Connection reset by peer");
}
END_TEST

START_TEST(a_server_without_tls_is_named)
{
    fake->conf.tls = true;
    fake_start(fake);
    fake_until(fake, fake->accepted == 1 && fake->peer != NULL);
    fake_say(fake, "-ERR Protocol error\r\n");
    fake_until(fake, fake->logged_down == 1);
    ck_assert_str_eq(fake->logged_why, "TLS: wrong version number");
}
END_TEST

START_TEST(a_server_that_never_ends_the_tls_handshake_is_given_up)
{
    fake->conf.tls = true;
    fake->conf.connect_timeout_us = 50 * CLOCK_MS_US;
    fake_start(fake);
    fake_until(fake, fake->logged_down == 1);
    ck_assert_str_eq(fake->logged_why, "timed out: TLS handshake");
}
END_TEST

START_TEST(a_socket_path_that_is_too_long_is_named)
{
    mem_free(fake->conf.host);
    fake->conf.host = mem_zalloc(200);
    memset(fake->conf.host, 'x', 199);
    fake->conf.unix_socket = true;
    fake_start(fake);
    ck_assert_int_eq(link_state(fake->link), LINK_CONNECTING);
    fake_until(fake, fake->logged_down == 1);
    ck_assert_str_eq(fake->logged_why, "connect: File name too long");
}
END_TEST

START_TEST(a_host_that_does_not_exist_is_named)
{
    mem_free(fake->conf.host);
    fake->conf.host = mem_strdup("no such host");
    fake_start(fake);
    ck_assert_int_eq(link_state(fake->link), LINK_CONNECTING);
    fake_until(fake, fake->logged_down == 1);
    ck_assert_int_eq(strncmp(fake->logged_why, "name lookup: ", 13), 0);
}
END_TEST

START_TEST(a_host_name_is_looked_up)
{
    mem_free(fake->conf.host);
    fake->conf.host = mem_strdup("localhost");
    start_up();
}
END_TEST

START_TEST(retries_are_spaced_by_a_growing_backoff)
{
    fake->close_on_accept = true;
    fake_start(fake);
    fake_until(fake, fake->accepted == 5);
    for (int i = 1; i < 5; i++) {
        int64_t gap = mono_diff(fake->accepted_at[i], fake->accepted_at[i - 1]);
        ck_assert_int_ge(gap, (50 * CLOCK_MS_US << (i - 1)) * 3 / 4 - 5 * CLOCK_MS_US);
    }
}
END_TEST

/* Gap before the dial number `dial`, after `lives` connections that each end while up. */
static int64_t gap_after(const char *answer, int lives)
{
    fake_start(fake);
    for (int i = 1; i <= lives; i++) {
        fake_until(fake, fake->ups == i);
        ck_assert(fake_eval(fake, i));
        fake_until(fake, fake->commands_count == i);
        fake_say(fake, answer);
        fake_until(fake, fake->calls[i].done == 1);
        if (fake->downs < i) {
            fake_hang_up(fake);
        }
        fake_until(fake, fake->downs == i);
    }
    fake_until(fake, fake->accepted == lives + 1);
    return mono_diff(fake->accepted_at[lives], fake->accepted_at[lives - 1]);
}

START_TEST(backoff_starts_anew_after_a_connection_that_was_of_use)
{
    ck_assert_int_lt(gap_after("+ok\r\n", 5), 500 * CLOCK_MS_US);
}
END_TEST

START_TEST(backoff_grows_while_connections_are_of_no_use)
{
    ck_assert_int_ge(gap_after("-OOM command not allowed\r\n", 5), 600 * CLOCK_MS_US);
    ck_assert_int_eq(fake->logged_down, 1);
}
END_TEST

/* The pacer's TIME is answered by a server that can't write, every second and after every reconnect. */
START_TEST(backoff_grows_while_a_server_answers_some_calls_and_cannot_serve_others)
{
    fake_start(fake);
    for (int i = 0; i < 5; i++) {
        fake_until(fake, fake->ups == i + 1);
        ck_assert(fake_eval(fake, 2 * i) && fake_eval(fake, 2 * i + 1));
        fake_until(fake, fake->commands_count == 2 * (i + 1));
        fake_say(fake, "+ok\r\n-OOM command not allowed\r\n");
        fake_until(fake, fake->downs == i + 1);
        ck_assert(!fake->calls[2 * i].lost && fake->calls[2 * i + 1].lost);
    }
    fake_until(fake, fake->accepted == 6);
    ck_assert_int_ge(mono_diff(fake->accepted_at[5], fake->accepted_at[4]), 600 * CLOCK_MS_US);
    ck_assert_int_eq(fake->logged_down, 1);
}
END_TEST

START_TEST(a_server_that_comes_back_as_another_is_told)
{
    start_up();
    fake->info = "$49\r\nrun_id:ffffffffffffffffffffffffffffffffffffffff\r\n\r\n";
    fake_hang_up(fake);
    fake_until(fake, fake->ups == 2);
    ck_assert_str_eq(fake->run_id, "ffffffffffffffffffffffffffffffffffffffff");
}
END_TEST

START_TEST(a_link_may_be_freed_with_calls_in_flight)
{
    send_two();
    ck_assert(fake_eval(fake, 2)); /* teardown frees it: nobody is called */
}
END_TEST

#define ADD(name) tcase_add_test(tc, name)

static void add_losses(TCase *tc)
{
    tcase_add_loop_test(tc, a_server_that_cannot_serve_drops_the_link, 0, sizeof(cant_serve) / sizeof(cant_serve[0]));
    ADD(an_error_that_an_old_server_wraps_is_unwrapped);
    ADD(other_errors_are_the_callers_business);
    tcase_add_loop_test(tc, odd_bytes_drop_the_link, 0, sizeof(garbage) / sizeof(garbage[0]));
    ADD(a_huge_reply_drops_the_link);
    ADD(a_large_reply_is_fine);
    ADD(a_reply_to_nothing_drops_the_link);
    ADD(a_close_in_the_middle_of_a_reply_loses_the_calls);
    ADD(what_came_before_a_close_counts);
    ADD(a_server_that_stops_answering_is_dropped_in_time);
    ADD(the_timeout_is_the_oldest_calls_own);
    ADD(a_link_without_calls_stays_up);
    ADD(an_answer_that_came_while_the_process_stood_still_counts);
    ADD(a_server_that_accepts_and_says_nothing_is_given_up);
    ADD(a_port_that_nobody_listens_on_is_named);
    ADD(a_host_that_swallows_packets_is_given_up);
    ADD(a_reset_is_named);
    ADD(a_server_without_tls_is_named);
    ADD(a_server_that_never_ends_the_tls_handshake_is_given_up);
    ADD(a_socket_path_that_is_too_long_is_named);
    ADD(a_host_that_does_not_exist_is_named);
    ADD(a_host_name_is_looked_up);
    ADD(retries_are_spaced_by_a_growing_backoff);
    ADD(backoff_starts_anew_after_a_connection_that_was_of_use);
    ADD(backoff_grows_while_connections_are_of_no_use);
    ADD(backoff_grows_while_a_server_answers_some_calls_and_cannot_serve_others);
    ADD(a_server_that_comes_back_as_another_is_told);
    ADD(a_link_may_be_freed_with_calls_in_flight);
}

int main(void)
{
    Suite *suite = suite_create("link_faults");
    TCase *tc = tcase_create("faults");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 20);
    add_losses(tc);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
