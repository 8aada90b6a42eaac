/* links: src/base/histogram.c src/base/must.c src/outbound/tally.c */
/* Counting times, and what becomes of waiters and slots. */
#include "base/must.h"
#include "outbound/tally.h"

#include <check.h>
#include <stdlib.h>

static const struct histogram_bounds three = {3, {100, 200, 400}};

START_TEST(a_time_on_a_bound_belongs_to_it_and_one_above_all_is_counted)
{
    struct histogram h;

    histogram_init(&h, &three);
    histogram_add(&h, 0);
    histogram_add(&h, 100);
    histogram_add(&h, 101);
    histogram_add(&h, 400);
    histogram_add(&h, 401);
    ck_assert_uint_eq(h.counts[0], 2);
    ck_assert_uint_eq(h.counts[1], 1);
    ck_assert_uint_eq(h.counts[2], 1);
    ck_assert_uint_eq(h.counts[3], 1);
    ck_assert_uint_eq(h.total, 5);
    ck_assert_int_eq(h.sum_us, 1002);
}
END_TEST

START_TEST(a_time_below_zero_counts_as_zero_and_sums_do_not_overflow)
{
    struct histogram h;

    histogram_init(&h, &three);
    histogram_add(&h, -5);
    ck_assert_uint_eq(h.counts[0], 1);
    ck_assert_int_eq(h.sum_us, 0);
    histogram_add(&h, INT64_MAX);
    histogram_add(&h, INT64_MAX);
    ck_assert_int_eq(h.sum_us, INT64_MAX);
}
END_TEST

START_TEST(quantiles_lie_on_a_line_between_two_bounds)
{
    struct histogram h;

    histogram_init(&h, &three);
    ck_assert_int_eq(histogram_quantile_us(&h, 0.5), 0);
    for (int i = 0; i < 10; i++) {
        histogram_add(&h, 150);
    }
    ck_assert_int_eq(histogram_quantile_us(&h, 0.5), 150);
    ck_assert_int_eq(histogram_quantile_us(&h, 1), 200);
    for (int i = 0; i < 10; i++) {
        histogram_add(&h, 300);
    }
    ck_assert_int_eq(histogram_quantile_us(&h, 0.5), 200);
    ck_assert_int_eq(histogram_quantile_us(&h, 0.75), 300);
}
END_TEST

START_TEST(above_the_last_bound_nothing_more_is_known)
{
    struct histogram h;

    histogram_init(&h, &three);
    histogram_add(&h, 1000000);
    ck_assert_int_eq(histogram_quantile_us(&h, 0.5), 400);
}
END_TEST

START_TEST(all_bounds_in_use_rise)
{
    const struct histogram_bounds *all[] = {&histogram_waits, &histogram_answers, &histogram_lateness, &histogram_trips};

    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_gt(all[i]->count, 0);
        ck_assert_uint_le(all[i]->count, HISTOGRAM_BOUNDS_MOST);
        for (unsigned b = 1; b < all[i]->count; b++) {
            ck_assert_int_gt(all[i]->us[b], all[i]->us[b - 1]);
        }
    }
}
END_TEST

START_TEST(a_sum_counts_what_each_of_its_parts_counts)
{
    struct tally sum, one, other;

    tally_init(&sum, NULL);
    tally_init(&one, &sum);
    tally_init(&other, &sum);
    tally_count(&one, TALLY_ARRIVED, 3);
    tally_count(&other, TALLY_ARRIVED, 2);
    tally_waiting(&one, 1);
    tally_waiting(&other, 1);
    tally_waiting(&one, -1);
    tally_release(&one, 7, 7);
    tally_release(&other, 4, 4);
    tally_lateness(&other, 60);
    ck_assert_uint_eq(one.counts[TALLY_ARRIVED], 3);
    ck_assert_uint_eq(sum.counts[TALLY_ARRIVED], 5);
    ck_assert_uint_eq(one.waiting, 0);
    ck_assert_uint_eq(sum.waiting, 1);
    ck_assert_uint_eq(sum.counts[TALLY_RELEASED], 2);
    ck_assert_uint_eq(other.most_in_window, 4);
    ck_assert_uint_eq(sum.most_in_window, 7);
    ck_assert_uint_eq(one.lateness.total, 0);
    ck_assert_uint_eq(sum.lateness.total, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("histogram");
    TCase *tcase = tcase_create("counting");

    tcase_add_test(tcase, a_time_on_a_bound_belongs_to_it_and_one_above_all_is_counted);
    tcase_add_test(tcase, a_time_below_zero_counts_as_zero_and_sums_do_not_overflow);
    tcase_add_test(tcase, quantiles_lie_on_a_line_between_two_bounds);
    tcase_add_test(tcase, above_the_last_bound_nothing_more_is_known);
    tcase_add_test(tcase, all_bounds_in_use_rise);
    tcase_add_test(tcase, a_sum_counts_what_each_of_its_parts_counts);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
