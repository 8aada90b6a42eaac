/* links: src/proxy/busiest.c src/base/clock.c src/base/must.c src/base/mem.c src/base/str.c */
/* Who sends most, of more names than there is room for. */
#include "proxy/busiest.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct busiest busiest;
static char told[1024];

static struct mono at(int64_t seconds)
{
    return (struct mono){(1000 + seconds) * CLOCK_SECOND_US};
}

static void setup(void)
{
    memset(&busiest, 0, sizeof(busiest));
}

static void call(const char *name, int times, int64_t seconds)
{
    while (times-- > 0) {
        busiest_count(&busiest, slice_of(name), at(seconds));
    }
}

static void note(void *arg, const char *name, uint64_t count)
{
    size_t len = strlen(told);

    (void)arg;
    snprintf(told + len, sizeof(told) - len, "%s=%llu ", name, (unsigned long long)count);
}

static const char *tell(int64_t seconds, unsigned most, int64_t *span_us)
{
    told[0] = '\0';
    *span_us = busiest_each(&busiest, at(seconds), most, note, NULL);
    return told;
}

START_TEST(nobody_is_told_of_when_nobody_came)
{
    int64_t span_us;

    ck_assert_str_eq(tell(0, 10, &span_us), "");
}
END_TEST

START_TEST(the_busiest_come_first_and_no_more_than_asked_for)
{
    int64_t span_us;

    call("a", 2, 0);
    call("b", 5, 1);
    call("c", 3, 2);
    ck_assert_str_eq(tell(30, 2, &span_us), "b=5 c=3 ");
    ck_assert_int_eq(span_us, 30 * CLOCK_SECOND_US);
}
END_TEST

START_TEST(the_minute_before_counts_and_the_one_before_that_is_forgotten)
{
    int64_t span_us;

    call("old", 9, 0);
    call("a", 2, 59);
    call("a", 1, 61);
    ck_assert_str_eq(tell(70, 10, &span_us), "old=9 a=3 ");
    ck_assert_int_eq(span_us, (60 + 9) * CLOCK_SECOND_US);
    call("a", 4, 122);
    ck_assert_str_eq(tell(123, 10, &span_us), "a=5 ");
    ck_assert_str_eq(tell(500, 10, &span_us), "");
}
END_TEST

START_TEST(who_sends_much_is_found_among_thousands_who_send_once)
{
    char name[32];
    int64_t span_us;

    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof(name), "passer-by-%d", i);
        call(name, 1, 1);
        if (i % 10 == 0) {
            call("steady", 1, 1);
        }
    }
    ck_assert_ptr_nonnull(strstr(tell(2, BUSIEST_NAMES, &span_us), "steady="));
    ck_assert_uint_ge(strtoul(strstr(told, "steady=") + 7, NULL, 10), 500);
}
END_TEST

START_TEST(a_name_of_any_length_is_cut_and_counted)
{
    char name[300];
    int64_t span_us;

    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    call(name, 2, 0);
    ck_assert_uint_eq(strlen(tell(1, 1, &span_us)), BUSIEST_NAME_BYTES - 1 + strlen("=2 "));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("busiest");
    TCase *tcase = tcase_create("counting");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, nobody_is_told_of_when_nobody_came);
    tcase_add_test(tcase, the_busiest_come_first_and_no_more_than_asked_for);
    tcase_add_test(tcase, the_minute_before_counts_and_the_one_before_that_is_forgotten);
    tcase_add_test(tcase, who_sends_much_is_found_among_thousands_who_send_once);
    tcase_add_test(tcase, a_name_of_any_length_is_cut_and_counted);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
