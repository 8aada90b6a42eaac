/* links: src/outbound/strikes.c src/base/mem.c src/base/must.c src/lua/word.lua tests/sim/fake_redis.c tests/sim/fake_commands.c */
/* What follows from a third party's answers: by hand, and the arithmetic in C against the script, at random. */
#include "../sim/fake_redis.h"
#include "outbound/strikes.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0 INT64_C(1700000000000000)
#define SECOND CLOCK_SECOND_US
enum { NUMBERS = 13 };

extern const struct script script_word;

static struct strikes strikes;
static struct fake_redis *redis;
static int64_t now;
static struct strikes_ask terms;

static void setup(void)
{
    now = T0;
    strikes_init(&strikes, now);
    redis = fake_redis_new();
    terms = (struct strikes_ask){.usual_us = SECOND,
                                 .growth = 2,
                                 .least_us = 0,
                                 .most_us = 10 * SECOND,
                                 .slow_to = 1000,
                                 .slowest = 1000,
                                 .step_us = SECOND,
                                 .errors = 0,
                                 .slice_us = SECOND,
                                 .most_of_all_us = 86400 * SECOND};
}

static void teardown(void)
{
    fake_redis_free(redis);
}

static struct strikes_reply ask_lua(const struct strikes_ask *ask)
{
    static const char *const keys[] = {"s:{a}:v", "s:{a}:b"};
    const int64_t numbers[NUMBERS] = {ask->what,     ask->age_us,   ask->asked_us,      ask->usual_us, ask->growth,
                                      ask->least_us, ask->most_us,  ask->slow_to,       ask->slowest,  ask->step_us,
                                      ask->errors,   ask->slice_us, ask->most_of_all_us};
    char text[NUMBERS][24];
    const char *args[NUMBERS];

    for (int i = 0; i < NUMBERS; i++) {
        snprintf(text[i], sizeof(text[i]), "%" PRId64, numbers[i]);
        args[i] = text[i];
    }
    fake_redis_set_time(redis, now);
    struct redisReply *reply = fake_redis_eval(redis, &script_word, keys, 2, args, NUMBERS);
    ck_assert_uint_eq(reply->elements, 6);
    struct strikes_reply out = {.now_us = reply->element[0]->integer,
                                .pause_us = reply->element[1]->integer,
                                .why = (enum stop)reply->element[2]->integer,
                                .count = reply->element[3]->integer,
                                .slow = reply->element[4]->integer,
                                .fresh = reply->element[5]->integer == 1};
    fake_reply_free(reply);
    return out;
}

/* Both, and they agree. */
static struct strikes_reply take(struct strikes_ask ask)
{
    struct strikes_reply c = strikes_take(&strikes, &ask, now), lua = ask_lua(&ask);

    ck_assert_int_eq(c.now_us, lua.now_us);
    ck_assert_int_eq(c.pause_us, lua.pause_us);
    ck_assert_int_eq(c.why, lua.why);
    ck_assert_int_eq(c.count, lua.count);
    ck_assert_int_eq(c.slow, lua.slow);
    ck_assert_int_eq(c.fresh, lua.fresh);
    return c;
}

/* An answer to a request that left `age_us` ago. */
static struct strikes_reply told(enum told what, int64_t age_us, int64_t asked_us)
{
    struct strikes_ask ask = terms;

    ask.what = what;
    ask.age_us = age_us;
    ask.asked_us = asked_us;
    return take(ask);
}

static int64_t pause_left(struct strikes_reply reply)
{
    return reply.pause_us == 0 ? 0 : reply.pause_us - now;
}

START_TEST(the_usual_pause_grows_with_each_new_strike_up_to_the_most)
{
    static const int64_t seconds[] = {1, 2, 4, 8, 10, 10};

    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        struct strikes_reply reply = told(TOLD_THROTTLED, 1000, 0);
        ck_assert(reply.fresh);
        ck_assert_int_eq(reply.why, STOP_THROTTLED);
        ck_assert_int_eq(pause_left(reply), seconds[i] * SECOND);
        now += seconds[i] * SECOND + 5000;
    }
}
END_TEST

START_TEST(answers_to_requests_that_had_left_before_are_of_the_same_strike)
{
    told(TOLD_THROTTLED, 1000, 0);
    for (int i = 0; i < 5; i++) {
        now += 10000;
        struct strikes_reply reply = told(TOLD_THROTTLED, 50000, 0);
        ck_assert(!reply.fresh);
        ck_assert_int_eq(reply.count, 1);
        ck_assert_int_eq(reply.pause_us, T0 + SECOND);
    }
    now = T0 + 2 * SECOND; /* a slow one */
    ck_assert(!told(TOLD_THROTTLED, 3 * SECOND, 0).fresh);
    ck_assert_int_eq(told(TOLD_NOTHING, 0, 0).pause_us, 0);
}
END_TEST

START_TEST(a_good_answer_to_a_request_after_the_pause_forgives)
{
    told(TOLD_THROTTLED, 0, 0);
    now += SECOND;
    told(TOLD_THROTTLED, 0, 0);
    ck_assert_int_eq(told(TOLD_WELL, 10000, 0).count, 2);
    now += 2 * SECOND + 1;
    ck_assert_int_eq(told(TOLD_WELL, 2, 0).count, 2);
    ck_assert_int_eq(told(TOLD_WELL, 1, 0).count, 0);
    ck_assert_int_eq(pause_left(told(TOLD_THROTTLED, 0, 0)), SECOND);
}
END_TEST

START_TEST(what_is_asked_for_counts_within_bounds)
{
    terms.least_us = 3 * SECOND;
    ck_assert_int_eq(pause_left(told(TOLD_THROTTLED, 0, SECOND)), 3 * SECOND);
    ck_assert_int_eq(pause_left(told(TOLD_THROTTLED, 0, 5 * SECOND)), 5 * SECOND);
    ck_assert_int_eq(pause_left(told(TOLD_THROTTLED, 0, INT64_C(366) * 86400 * SECOND)), 10 * SECOND);
    now += SECOND;
    ck_assert_int_eq(pause_left(told(TOLD_THROTTLED, 2 * SECOND, 4 * SECOND)), 9 * SECOND); /* never shortened */
}
END_TEST

START_TEST(a_ban_is_as_long_as_the_longer_of_ours_and_theirs)
{
    terms.usual_us = 5 * SECOND;
    struct strikes_reply reply = told(TOLD_BANNED, 0, 0);
    ck_assert_int_eq(reply.why, STOP_BANNED);
    ck_assert_int_eq(pause_left(reply), 5 * SECOND);
    ck_assert_int_eq(pause_left(told(TOLD_BANNED, 0, 8 * SECOND)), 8 * SECOND);
    terms.usual_us = 60 * SECOND;
    ck_assert_int_eq(pause_left(told(TOLD_BANNED, 0, 0)), 60 * SECOND);
    now += 61 * SECOND;
    ck_assert_int_eq(told(TOLD_NOTHING, 0, 0).why, STOP_NONE);
}
END_TEST

START_TEST(errors_stop_it_until_enough_of_them_are_old)
{
    terms.errors = 5;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(told(TOLD_ERROR, 0, 0).pause_us, 0);
        now += SECOND;
    }
    struct strikes_reply reply = told(TOLD_ERROR, 0, 0);
    ck_assert_int_eq(reply.why, STOP_ERRORS);
    ck_assert_int_eq(reply.pause_us, T0 + 11 * SECOND);
    now = reply.pause_us;
    ck_assert_int_eq(told(TOLD_NOTHING, 0, 0).pause_us, 0);
    ck_assert_int_eq(told(TOLD_ERROR, 0, 0).pause_us, T0 + 12 * SECOND);
    now += 30 * SECOND;
    ck_assert_int_eq(told(TOLD_ERROR, 0, 0).pause_us, 0);
}
END_TEST

START_TEST(repeated_throttling_slows_it_down_and_time_brings_it_back)
{
    terms.slowest = 4000;
    ck_assert_int_eq(told(TOLD_THROTTLED, 0, 0).slow, 1000);
    now += SECOND + 1;
    ck_assert_int_eq(told(TOLD_WELL, 0, 0).count, 0);
    ck_assert_int_eq(told(TOLD_THROTTLED, 0, 0).slow, 1500);
    now += SECOND + 1;
    for (int i = 0; i < 5; i++) {
        now = told(TOLD_THROTTLED, 0, 0).pause_us;
    }
    ck_assert_int_le(strikes.slow, 4000);
    ck_assert_int_gt(strikes.slow, 1900);
    int64_t before = told(TOLD_NOTHING, 0, 0).slow - 1000;
    now += 8 * SECOND;
    int64_t after = told(TOLD_NOTHING, 0, 0).slow - 1000;
    ck_assert_int_le(llabs(2 * after - before), before / 10);
    now += 150 * SECOND;
    ck_assert_int_eq(told(TOLD_NOTHING, 0, 0).slow, 1000);
}
END_TEST

START_TEST(a_budget_that_runs_low_slows_it_down_and_an_empty_one_stops_it)
{
    struct strikes_ask ask = terms;

    ask.what = TOLD_BUDGET;
    ask.slowest = 10000;
    ask.slow_to = 2500;
    ck_assert_int_eq(take(ask).slow, 2500);
    ask.slow_to = 1200;
    ck_assert_int_eq(take(ask).slow, 2500);
    ask.slow_to = 99000;
    ck_assert_int_eq(take(ask).slow, 10000);
    ask.asked_us = 3 * SECOND;
    struct strikes_reply reply = take(ask);
    ck_assert_int_eq(reply.why, STOP_BUDGET);
    ck_assert_int_eq(pause_left(reply), 3 * SECOND);
}
END_TEST

START_TEST(a_clock_that_goes_back_ends_what_lies_too_far_ahead)
{
    told(TOLD_THROTTLED, 0, 10 * SECOND);
    now -= 2 * 86400 * SECOND;
    ck_assert_int_eq(told(TOLD_NOTHING, 0, 0).pause_us, 0);
    ck_assert(told(TOLD_THROTTLED, 0, 0).fresh);
}
END_TEST

START_TEST(a_pause_that_an_operator_ended_is_no_reason_any_more)
{
    told(TOLD_THROTTLED, 0, 0);
    told(TOLD_BANNED, 0, 9 * SECOND);
    strikes.pause_us = 0;
    fake_redis_set(redis, "s:{a}:b", "pause", "0");
    now += SECOND;
    ck_assert_int_eq(told(TOLD_NOTHING, 0, 0).why, STOP_NONE);
    struct strikes_reply reply = told(TOLD_THROTTLED, 0, 0);
    ck_assert(reply.fresh);
    ck_assert_int_eq(reply.why, STOP_THROTTLED);
    ck_assert_int_eq(pause_left(reply), 2 * SECOND);
}
END_TEST

static int64_t pick(int64_t least, int64_t most)
{
    return least + random() % (most - least + 1);
}

START_TEST(the_script_and_the_arithmetic_agree_whatever_comes)
{
    srandom((unsigned)_i + 1);
    terms.slowest = pick(0, 1) ? 10000 : 1000;
    terms.errors = pick(0, 6);
    terms.growth = pick(1, 10);
    terms.least_us = pick(0, 1) * pick(0, 3 * SECOND);
    for (int i = 0; i < 400; i++) {
        struct strikes_ask ask = terms;
        ask.what = (enum told)pick(TOLD_NOTHING, TOLD_BUDGET);
        ask.age_us = pick(0, 3) * pick(0, SECOND);
        ask.asked_us = pick(0, 1) * pick(0, 20 * SECOND);
        ask.slow_to = pick(1000, 12000);
        take(ask);
        now += pick(0, 5) == 0 ? pick(0, 40 * SECOND) : pick(0, SECOND);
        now -= pick(0, 99) == 0 ? pick(0, 100 * SECOND) : 0;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("strikes");
    TCase *tc = tcase_create("strikes");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_usual_pause_grows_with_each_new_strike_up_to_the_most);
    tcase_add_test(tc, answers_to_requests_that_had_left_before_are_of_the_same_strike);
    tcase_add_test(tc, a_good_answer_to_a_request_after_the_pause_forgives);
    tcase_add_test(tc, what_is_asked_for_counts_within_bounds);
    tcase_add_test(tc, a_ban_is_as_long_as_the_longer_of_ours_and_theirs);
    tcase_add_test(tc, errors_stop_it_until_enough_of_them_are_old);
    tcase_add_test(tc, repeated_throttling_slows_it_down_and_time_brings_it_back);
    tcase_add_test(tc, a_budget_that_runs_low_slows_it_down_and_an_empty_one_stops_it);
    tcase_add_test(tc, a_clock_that_goes_back_ends_what_lies_too_far_ahead);
    tcase_add_test(tc, a_pause_that_an_operator_ended_is_no_reason_any_more);
    tcase_add_loop_test(tc, the_script_and_the_arithmetic_agree_whatever_comes, 0, 20);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed_tests = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed_tests == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
