/* links: tests/unit/admission_twins.c tests/unit/admission_vectors.c src/inbound/limit.c src/inbound/drain.c src/inbound/windows.c src/inbound/sliding_log.c src/inbound/admission_redis.c src/inbound/key_hash.c src/lua/admit.lua tests/sim/fake_redis.c tests/sim/fake_commands.c src/base/mem.c src/base/must.c src/base/str.c */
/* The same requests to the arithmetic in C and to the script: the same answers, to the microsecond. And what the script
 * does with keys that are not as it left them. */
#include "../sim/fake_redis.h"
#include "admission_twins.h"
#include "admission_vectors.h"

#include <check.h>
#include <string.h>

#define T0 INT64_C(1800000000000000)

static struct twins *twins;

static void setup(void)
{
    twins = twins_new();
}

static void teardown(void)
{
    twins_free(twins);
}

static void begin(void *arg)
{
    (void)arg;
    teardown();
    setup();
}

static bool decide_c(void *arg, const struct inbound_rule *const *rules, const int64_t *costs, unsigned count,
                     int64_t now_us, struct admission_result *out)
{
    (void)arg;
    return twins_decide_c(twins, rules, costs, count, now_us, out);
}

static bool decide_lua(void *arg, const struct inbound_rule *const *rules, const int64_t *costs, unsigned count,
                       int64_t now_us, struct admission_result *out)
{
    (void)arg;
    return twins_decide_lua(twins, rules, costs, count, now_us, out);
}

START_TEST(the_arithmetic_in_c_says_what_the_vectors_say)
{
    ck_assert_uint_gt(vectors_play(begin, decide_c, NULL), 500);
}
END_TEST

START_TEST(the_script_says_what_the_vectors_say)
{
    ck_assert_uint_gt(vectors_play(begin, decide_lua, NULL), 500);
}
END_TEST

/* ---- one limit of 4 a second ---- */

static const enum inbound_algorithm algorithms[] = {ALGORITHM_TOKEN_BUCKET,          ALGORITHM_FIXED_WINDOW,
                                                    ALGORITHM_SLIDING_WINDOW_LOG,    ALGORITHM_SLIDING_WINDOW_COUNTER,
                                                    ALGORITHM_SLIDING_WINDOW_STRICT, ALGORITHM_LEAKY_BUCKET};
enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

static struct admission_result ask(enum inbound_algorithm algorithm, int64_t now_us)
{
    static char label[] = "a";
    struct inbound_rule rule = {.label = label, .algorithm = algorithm, .rate = {4, CLOCK_SECOND_US}, .capacity = 4};
    const struct inbound_rule *rules[] = {&rule};
    struct admission_result result;

    twins_decide_lua(twins, rules, (const int64_t[]){1}, 1, now_us, &result);
    return result;
}

START_TEST(every_key_expires_when_it_has_no_meaning_left)
{
    for (int64_t i = 0; i < 20; i++) {
        ask(algorithms[_i], T0 + i * 1000);
        int64_t ttl_ms = fake_redis_ttl_ms(twins_redis(twins), twins_key(twins));
        ck_assert_int_gt(ttl_ms, 0);
        ck_assert_int_le(ttl_ms, 2002); /* two periods at most */
    }
    fake_redis_set_time(twins_redis(twins), T0 + 3 * CLOCK_SECOND_US);
    ck_assert_int_eq(fake_redis_ttl_ms(twins_redis(twins), twins_key(twins)), -2);
}
END_TEST

START_TEST(a_key_of_another_type_begins_anew)
{
    ask(algorithms[_i], T0);
    char key[128];
    snprintf(key, sizeof(key), "%s", twins_key(twins));
    fake_redis_load(twins_redis(twins), NULL);
    fake_redis_set(twins_redis(twins), key, "some", "hash");
    struct admission_result result = ask(algorithms[_i], T0 + 1);
    ck_assert(result.admitted);
    ck_assert_int_eq(twins_note(twins), 1);
    ck_assert_int_gt(fake_redis_ttl_ms(twins_redis(twins), key), 0);
    result = ask(algorithms[_i], T0 + 2);
    ck_assert_int_eq(twins_note(twins), 0);
}
END_TEST

static const char *const garbage[] = {"",
                                      "x",
                                      "-1",
                                      "1e300",
                                      "99999999999999999999",
                                      "1 2 x",
                                      "  ",
                                      "1.5",
                                      "nan",
                                      "1 99999999999999999999",
                                      "1 2 3 4 5 6 7 8 9 10 11 12 13",
                                      "0x10",
                                      "1 -2"};
enum { GARBAGE = sizeof(garbage) / sizeof(garbage[0]) };

START_TEST(a_key_with_garbage_begins_anew)
{
    for (unsigned a = 0; a < ALGORITHMS; a++) {
        struct admission_result fresh;
        begin(NULL);
        fresh = ask(algorithms[a], T0);
        char key[128];
        snprintf(key, sizeof(key), "%s", twins_key(twins));
        fake_redis_set_text(twins_redis(twins), key, algorithms[a] == ALGORITHM_SLIDING_WINDOW_LOG, garbage[_i]);
        struct admission_result result = ask(algorithms[a], T0);
        ck_assert_msg(twins_note(twins) == 1, "%s to %u", garbage[_i], a);
        ck_assert(result.admitted);
        ck_assert_int_eq(result.remaining, fresh.remaining);
    }
}
END_TEST

START_TEST(a_state_far_in_the_future_shuts_nobody_out_for_longer_than_two_periods)
{
    for (int64_t i = 0; i < 4; i++) {
        ask(algorithms[_i], T0 + 3600 * CLOCK_SECOND_US);
    }
    bool admitted = false;
    for (int64_t i = 0; i <= 2000; i++) { /* asks all the time: refusals must not keep it out */
        admitted = admitted || ask(algorithms[_i], T0 + i * 1000).admitted;
    }
    ck_assert(admitted);
}
END_TEST

START_TEST(a_limit_that_was_lowered_forgives_what_was_above)
{
    static char label[] = "a";
    struct inbound_rule rule = {.label = label, .rate = {7, CLOCK_SECOND_US}, .capacity = 100};
    const struct inbound_rule *rules[] = {&rule};
    struct admission_result result;

    ck_assert(twins_decide_lua(twins, rules, (const int64_t[]){99}, 1, T0, &result));
    rule.rate.count = 3;
    rule.capacity = 2;
    ck_assert(!twins_decide_lua(twins, rules, (const int64_t[]){1}, 1, T0 + 1, &result));
    ck_assert_int_eq(result.retry_after_us, 333334);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admission_vectors");
    TCase *tcase = tcase_create("vectors");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, the_arithmetic_in_c_says_what_the_vectors_say);
    tcase_add_test(tcase, the_script_says_what_the_vectors_say);
    tcase_add_loop_test(tcase, every_key_expires_when_it_has_no_meaning_left, 0, ALGORITHMS);
    tcase_add_loop_test(tcase, a_key_of_another_type_begins_anew, 0, ALGORITHMS);
    tcase_add_loop_test(tcase, a_key_with_garbage_begins_anew, 0, GARBAGE);
    tcase_add_loop_test(tcase, a_state_far_in_the_future_shuts_nobody_out_for_longer_than_two_periods, 0, ALGORITHMS);
    tcase_add_test(tcase, a_limit_that_was_lowered_forgives_what_was_above);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
