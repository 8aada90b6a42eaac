/* links: src/admin/history.c src/base/mem.c src/base/must.c */
/* The latest two minutes, second by second. */
#include "admin/history.h"

#include <check.h>
#include <stdlib.h>

static struct history *history;

static void setup(void)
{
    history = history_new();
}

static void teardown(void)
{
    history_free(history);
}

/* So many seconds ago: what came and what left; and that there are so many seconds. */
static void expect(const char *name, size_t seconds, size_t ago, int64_t came, int64_t left)
{
    json_t *all = history_json(history, 10);
    const json_t *one = json_object_get(all, name);
    const json_t *arrived = json_object_get(one, "arrived"), *released = json_object_get(one, "released");

    ck_assert_uint_eq(json_array_size(arrived), seconds);
    ck_assert_uint_eq(json_array_size(released), seconds);
    ck_assert_int_eq(json_integer_value(json_array_get(arrived, seconds - 1 - ago)), came);
    ck_assert_int_eq(json_integer_value(json_array_get(released, seconds - 1 - ago)), left);
    json_decref(all);
}

START_TEST(each_second_has_what_came_and_left_since_the_one_before)
{
    history_turn(history);
    history_take(history, "a", 5, 2);
    history_turn(history);
    history_take(history, "a", 5, 4);
    history_turn(history);
    history_take(history, "a", 9, 5);
    expect("a", 3, 2, 5, 2);
    expect("a", 3, 1, 0, 2);
    expect("a", 3, 0, 4, 1);
}
END_TEST

START_TEST(a_destination_that_was_not_there_before_has_nothing_before)
{
    history_turn(history);
    history_take(history, "a", 1, 1);
    history_turn(history);
    history_take(history, "a", 1, 1);
    history_take(history, "b", 7, 3);
    expect("b", 2, 1, 0, 0);
    expect("b", 2, 0, 7, 3);
}
END_TEST

START_TEST(what_is_older_than_two_minutes_is_forgotten)
{
    for (uint64_t second = 1; second <= HISTORY_SECONDS + 30; second++) {
        history_turn(history);
        history_take(history, "a", second * (second + 1) / 2, second);
    }
    expect("a", HISTORY_SECONDS, 0, HISTORY_SECONDS + 30, 1);
    expect("a", HISTORY_SECONDS, HISTORY_SECONDS - 1, 31, 1);
}
END_TEST

START_TEST(a_second_in_which_one_was_not_looked_at_is_empty)
{
    for (int second = 0; second < HISTORY_SECONDS + 1; second++) {
        history_turn(history);
        history_take(history, "a", (uint64_t)second + 1, 0);
    }
    history_turn(history);
    expect("a", HISTORY_SECONDS, 0, 0, 0);
    expect("a", HISTORY_SECONDS, 1, 1, 0);
}
END_TEST

START_TEST(of_what_did_nothing_and_beyond_what_was_asked_for_nothing_is_told)
{
    history_turn(history);
    history_take(history, "a", 1, 0);
    history_take(history, "idle", 0, 0);
    history_take(history, "b", 0, 0);
    history_turn(history);
    history_take(history, "b", 1, 1);
    json_t *all = history_json(history, 10), *one = history_json(history, 1);
    ck_assert_uint_eq(json_object_size(all), 2);
    ck_assert_ptr_null(json_object_get(all, "idle"));
    ck_assert_uint_eq(json_object_size(one), 1);
    json_decref(all);
    json_decref(one);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *tcase = tcase_create("seconds");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, each_second_has_what_came_and_left_since_the_one_before);
    tcase_add_test(tcase, a_destination_that_was_not_there_before_has_nothing_before);
    tcase_add_test(tcase, what_is_older_than_two_minutes_is_forgotten);
    tcase_add_test(tcase, a_second_in_which_one_was_not_looked_at_is_empty);
    tcase_add_test(tcase, of_what_did_nothing_and_beyond_what_was_asked_for_nothing_is_told);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
