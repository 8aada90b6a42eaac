/* links: tests/unit/fake_redis.c src/redis/link.c src/redis/node.c src/redis/cluster.c src/redis/slotmap.c src/redis/sentinel.c src/redis/inquiry.c src/conf/redis_conf.c src/redis/flight.c src/redis/backoff.c src/redis/hello.c src/redis/resp.c src/redis/reply.c src/redis/script.c src/redis/command.c src/redis/transport.c src/redis/lookup.c src/redis/secure.c src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c src/base/loop.c src/base/clock.c src/base/histogram.c src/base/err.c */
#include "fake_redis.h"

#include "base/mem.h"
#include "redis/backoff.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void assert_handshake(const char *first)
{
    static const char rest[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$6\r\nsluice\r\n"
                               "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
                               "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"
                               "*1\r\n$4\r\nROLE\r\n"
                               "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$26\r\nreturn {KEYS[1], ARGV[1]}\n\r\n"
                               "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$9\r\nreturn 2\n\r\n";
    char expected[1024];

    fake->conf.database = 3;
    start_up();
    snprintf(expected, sizeof(expected), "%s%s", first, rest);
    size_t len = evbuffer_get_length(fake->bytes);
    ck_assert_uint_eq(len, strlen(expected));
    ck_assert_mem_eq(evbuffer_pullup(fake->bytes, -1), expected, len);
}

START_TEST(the_handshake_without_a_password_begins_with_the_name)
{
    assert_handshake("");
}
END_TEST

START_TEST(the_handshake_with_a_password_authenticates_first)
{
    fake->conf.password = mem_strdup("pass word");
    assert_handshake("*2\r\n$4\r\nAUTH\r\n$9\r\npass word\r\n");
}
END_TEST

START_TEST(the_handshake_with_a_user_names_both)
{
    fake->conf.user = mem_strdup("u");
    fake->conf.password = mem_strdup("p");
    assert_handshake("*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n");
}
END_TEST

START_TEST(up_comes_with_the_run_id_and_only_after_the_last_answer)
{
    fake->load = ""; /* none */
    fake_start(fake);
    ck_assert_int_eq(link_state(fake->link), LINK_CONNECTING);
    fake_until(fake, link_state(fake->link) == LINK_LOADING);
    fake_run_us(fake, 30 * CLOCK_MS_US);
    ck_assert_int_eq(link_state(fake->link), LINK_LOADING);
    ck_assert_str_eq(link_run_id(fake->link), "");
    ck_assert(!fake_eval(fake, 0));
    ck_assert(!fake->calls[0].call.in_flight);
    fake_say(fake, "$40\r\n4ca238f611c9d0ae4e9a75a5dbac22aedc1e44e3\r\n");
    fake_until(fake, link_state(fake->link) != LINK_LOADING);
    ck_assert_str_eq(fake->logged_why, "unexpected SHA-1 of a script");
    fake->load = NULL;
    fake_until(fake, fake->ups == 1);
    ck_assert_int_eq(link_state(fake->link), LINK_UP);
    ck_assert_str_eq(fake->run_id, FAKE_RUN_ID);
    ck_assert_str_eq(link_run_id(fake->link), FAKE_RUN_ID);
    ck_assert_int_eq(fake->downs, 0);
}
END_TEST

START_TEST(calls_of_one_turn_leave_in_one_piece_and_are_answered_in_order)
{
    fake->answers[0] = "+zero\r\n";
    fake->answers[1] = ":17\r\n";
    fake->answers[2] = "$3\r\ntwo\r\n";
    start_up();
    for (int i = 0; i < 3; i++) {
        ck_assert(fake_eval(fake, i));
        ck_assert(fake->calls[i].call.in_flight);
        ck_assert_int_eq(fake->calls[i].done, 0);
    }
    fake_until(fake, fake->calls[2].done == 1);
    ck_assert_int_eq(fake->reads, 1);
    ck_assert_str_eq(fake->calls[0].text, "zero");
    ck_assert_str_eq(fake->calls[1].text, ":17");
    ck_assert_str_eq(fake->calls[2].text, "two");
    ck_assert_str_eq(fake->commands, "EVALSHA 9216e5ee9cc0a828c4eb1ca4c725e3091dd17740 1 k a0\n"
                                     "EVALSHA 9216e5ee9cc0a828c4eb1ca4c725e3091dd17740 1 k a1\n"
                                     "EVALSHA 9216e5ee9cc0a828c4eb1ca4c725e3091dd17740 1 k a2\n");
}
END_TEST

START_TEST(any_command_can_be_sent)
{
    const char *const words[] = {"SET", "key", ""};
    fake->answers[0] = "+OK\r\n";
    start_up();
    ck_assert(link_command(fake->link, &fake->calls[0].call, words, 3));
    fake_until(fake, fake->calls[0].done == 1);
    ck_assert_str_eq(fake->commands, "SET key \n");
    ck_assert_str_eq(fake->calls[0].text, "OK");
}
END_TEST

START_TEST(the_stamps_enclose_the_round_trip)
{
    start_up();
    struct mono before = loop_now(fake->loop);
    ck_assert(fake_eval(fake, 0));
    fake_until(fake, fake->commands_count == 1);
    struct mono received = loop_now(fake->loop);
    ck_assert_int_ge(fake->calls[0].call.sent.us, before.us);
    ck_assert_int_le(fake->calls[0].call.sent.us, received.us);
    fake_run_us(fake, 5 * CLOCK_MS_US);
    struct mono replied = loop_now(fake->loop);
    fake_say(fake, ":1\r\n");
    fake_until(fake, fake->calls[0].done == 1);
    ck_assert_int_ge(fake->calls[0].call.answered.us, replied.us);
    ck_assert_int_le(fake->calls[0].call.answered.us, loop_now(fake->loop).us);
}
END_TEST

START_TEST(replies_may_come_byte_by_byte)
{
    fake->answer_bytewise = true;
    fake->answers[0] = "*2\r\n$3\r\nabc\r\n:5\r\n";
    fake->answers[1] = "$5\r\nhello\r\n";
    start_up();
    ck_assert(fake_eval(fake, 0) && fake_eval(fake, 1));
    fake_until(fake, fake->calls[1].done == 1);
    ck_assert_int_eq(fake->calls[0].done, 1);
    ck_assert(!fake->calls[0].lost);
    ck_assert_str_eq(fake->calls[1].text, "hello");
}
END_TEST

START_TEST(noscript_is_answered_by_eval_with_the_same_arguments)
{
    fake->answers[0] = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    fake->answers[1] = "+second\r\n";
    fake->answers[2] = "+again\r\n";
    start_up();
    ck_assert(fake_eval(fake, 0) && fake_eval(fake, 1));
    fake_until(fake, fake->calls[0].done == 1);
    ck_assert_str_eq(fake->calls[0].text, "again");
    ck_assert_str_eq(fake->calls[1].text, "second");
    ck_assert_ptr_nonnull(strstr(fake->commands, "\nEVAL return {KEYS[1], ARGV[1]}\n 1 k a0\n"));
    ck_assert_int_eq(fake->commands_count, 3);
    ck_assert_int_eq(fake->downs, 0);
}
END_TEST

START_TEST(noscript_is_answered_only_once)
{
    fake->answers[0] = fake->answers[1] = "-NOSCRIPT No matching script.\r\n";
    start_up();
    ck_assert(fake_eval(fake, 0));
    fake_until(fake, fake->calls[0].done == 1);
    ck_assert_str_eq(fake->calls[0].text, "-NOSCRIPT No matching script.");
    ck_assert_int_eq(fake->commands_count, 2);
}
END_TEST

START_TEST(a_forgotten_call_is_not_sent_again)
{
    fake->answers[1] = "+ok\r\n";
    start_up();
    ck_assert(fake_eval(fake, 0));
    fake_until(fake, fake->commands_count == 1);
    link_forget(fake->link, &fake->calls[0].call);
    fake->answered = 1;
    ck_assert(fake_eval(fake, 1));
    fake_say(fake, "-NOSCRIPT gone\r\n");
    fake_until(fake, fake->calls[1].done == 1);
    ck_assert_int_eq(fake->commands_count, 2);
    ck_assert_int_eq(fake->calls[0].done, 0);
}
END_TEST

START_TEST(a_forgotten_call_keeps_its_place_in_the_order)
{
    fake->answers[0] = "+zero\r\n";
    fake->answers[1] = "+one\r\n";
    fake->answers[2] = "+two\r\n";
    start_up();
    ck_assert(fake_eval(fake, 0) && fake_eval(fake, 1) && fake_eval(fake, 2));
    link_forget(fake->link, &fake->calls[1].call);
    ck_assert(!fake->calls[1].call.in_flight);
    link_forget(fake->link, &fake->calls[1].call); /* no effect */
    fake_until(fake, fake->calls[2].done == 1);
    ck_assert_str_eq(fake->calls[0].text, "zero");
    ck_assert_str_eq(fake->calls[2].text, "two");
    ck_assert_int_eq(fake->calls[1].done, 0);
}
END_TEST

static void forget_all(struct fake_call *call)
{
    for (int i = 0; i < FAKE_CALLS; i++) {
        link_forget(call->fake->link, &call->fake->calls[i].call);
    }
}

START_TEST(others_may_be_forgotten_while_a_lost_call_ends)
{
    start_up();
    for (int i = 0; i < 8; i++) {
        ck_assert(fake_eval(fake, i));
    }
    fake->calls[3].then = forget_all;
    fake_until(fake, fake->commands_count == 8);
    fake_hang_up(fake);
    fake_until(fake, fake->downs == 1);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(fake->calls[i].done, i <= 3);
    }
}
END_TEST

START_TEST(others_may_be_forgotten_while_an_answered_call_ends)
{
    fake->answers[0] = "+ok\r\n";
    start_up();
    ck_assert(fake_eval(fake, 0) && fake_eval(fake, 1));
    fake->calls[0].then = forget_all;
    fake_until(fake, fake->calls[0].done == 1);
    ck_assert(!fake->calls[1].call.in_flight);
}
END_TEST

static void eval_next(struct fake_call *call)
{
    int next = (int)(call - call->fake->calls) + 1;

    if (next < 5) {
        call->fake->calls[next].then = eval_next;
        ck_assert_int_eq(fake_eval(call->fake, next), !call->lost);
    }
}
static void eval_first(struct fake *which)
{
    if (which->ups == 1) {
        which->calls[0].then = eval_next;
        ck_assert(fake_eval(which, 0));
    }
}

START_TEST(calls_may_be_made_while_coming_up_and_while_a_call_ends)
{
    for (int i = 0; i < 5; i++) {
        fake->answers[i] = "+ok\r\n";
    }
    fake->on_up = eval_first;
    start_up();
    fake_until(fake, fake->calls[4].done == 1);
    ck_assert_int_eq(fake->commands_count, 5);
}
END_TEST

static void eval_in_vain(struct fake *which)
{
    ck_assert(!fake_eval(which, 9));
    ck_assert_str_eq(link_run_id(which->link), "");
}

START_TEST(calls_made_while_going_down_are_refused)
{
    fake->on_up = eval_first;
    fake->on_down = eval_in_vain;
    start_up();
    fake_until(fake, fake->commands_count == 1);
    fake_hang_up(fake);
    fake_until(fake, fake->downs == 1);
    ck_assert(fake->calls[0].lost);
    ck_assert_int_eq(fake->calls[1].done, 0);
    ck_assert_int_eq(fake->calls[9].done, 0);
    fake_until(fake, fake->ups == 2);
}
END_TEST

static int late_ups, late_downs;
static void late_up(void *arg, const char *run_id)
{
    (void)arg;
    ck_assert_str_eq(run_id, FAKE_RUN_ID);
    late_ups++;
}
static void late_down(void *arg, const char *why)
{
    (void)arg;
    (void)why;
    late_downs++;
}

START_TEST(a_late_listener_is_told_from_the_loop)
{
    static const struct link_ops late = {.on_up = late_up, .on_down = late_down};
    late_ups = late_downs = 0;
    start_up();
    link_listen(fake->link, &late, NULL);
    ck_assert_int_eq(late_ups, 0);
    fake_until(fake, late_ups == 1);
    fake_run_us(fake, CLOCK_MS_US);
    ck_assert_int_eq(late_ups, 1);
    ck_assert_int_eq(fake->ups, 1);
    fake_hang_up(fake);
    fake_until(fake, late_downs == 1);
    fake_until(fake, late_ups == 2);
}
END_TEST

START_TEST(backoff_doubles_to_two_seconds_and_strays_by_a_quarter)
{
    static const int64_t plain_ms[] = {50, 100, 200, 400, 800, 1600, 2000, 2000};
    int64_t low = INT64_MAX, high = 0;
    for (int round = 0; round < 200; round++) {
        struct backoff backoff = {0};
        for (int i = 0; i < 8; i++) {
            int64_t us = backoff_next_us(&backoff, BACKOFF_MAX_US);
            ck_assert_int_ge(us, plain_ms[i] * 750);
            ck_assert_int_le(us, plain_ms[i] * 1250);
            low = i == 0 && us < low ? us : low;
            high = i == 0 && us > high ? us : high;
        }
        backoff_reset(&backoff);
        ck_assert_int_le(backoff_next_us(&backoff, BACKOFF_MAX_US), 62500);
    }
    ck_assert_int_lt(low, 42000);
    ck_assert_int_gt(high, 58000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("link");
    TCase *tc = tcase_create("calls");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, the_handshake_without_a_password_begins_with_the_name);
    tcase_add_test(tc, the_handshake_with_a_password_authenticates_first);
    tcase_add_test(tc, the_handshake_with_a_user_names_both);
    tcase_add_test(tc, up_comes_with_the_run_id_and_only_after_the_last_answer);
    tcase_add_test(tc, calls_of_one_turn_leave_in_one_piece_and_are_answered_in_order);
    tcase_add_test(tc, any_command_can_be_sent);
    tcase_add_test(tc, the_stamps_enclose_the_round_trip);
    tcase_add_test(tc, replies_may_come_byte_by_byte);
    tcase_add_test(tc, noscript_is_answered_by_eval_with_the_same_arguments);
    tcase_add_test(tc, noscript_is_answered_only_once);
    tcase_add_test(tc, a_forgotten_call_is_not_sent_again);
    tcase_add_test(tc, a_forgotten_call_keeps_its_place_in_the_order);
    tcase_add_test(tc, others_may_be_forgotten_while_a_lost_call_ends);
    tcase_add_test(tc, others_may_be_forgotten_while_an_answered_call_ends);
    tcase_add_test(tc, calls_may_be_made_while_coming_up_and_while_a_call_ends);
    tcase_add_test(tc, calls_made_while_going_down_are_refused);
    tcase_add_test(tc, a_late_listener_is_told_from_the_loop);
    suite_add_tcase(suite, tc);
    TCase *pure = tcase_create("backoff");
    tcase_add_test(pure, backoff_doubles_to_two_seconds_and_strays_by_a_quarter);
    suite_add_tcase(suite, pure);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
