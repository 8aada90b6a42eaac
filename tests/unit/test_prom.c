/* links: src/admin/prom.c src/base/histogram.c src/base/buf.c src/base/mem.c src/base/must.c */
/* The text that Prometheus reads, byte by byte. */
#include "admin/prom.h"

#include <check.h>
#include <stdlib.h>

static struct buf out;

static void setup(void)
{
    out = (struct buf){0};
}

static void teardown(void)
{
    buf_fini(&out);
}

static void expect(const char *wanted)
{
    buf_add(&out, "", 1);
    ck_assert_str_eq(buf_ptr(&out), wanted);
}

START_TEST(a_sample_without_labels_has_no_braces)
{
    prom_family(&out, "sluice_callers", "gauge", "Connections of callers.");
    prom_sample(&out, "sluice_callers", NULL, PROM_PLAIN, 17);
    expect("# HELP sluice_callers Connections of callers.\n# TYPE sluice_callers gauge\nsluice_callers 17\n");
}
END_TEST

START_TEST(labels_come_in_order_with_commas_between)
{
    prom_sample(&out, "a_total", &(struct prom_labels){{{"x", "1"}, {"y", "2"}, {"z", "3"}}}, PROM_PLAIN, INT64_MAX);
    expect("a_total{x=\"1\",y=\"2\",z=\"3\"} 9223372036854775807\n");
}
END_TEST

START_TEST(a_value_of_a_label_is_escaped)
{
    prom_sample(&out, "a", &(struct prom_labels){{{"x", "\"q\" \\ b\nc"}}}, PROM_PLAIN, 0);
    expect("a{x=\"\\\"q\\\" \\\\ b\\nc\"} 0\n");
}
END_TEST

START_TEST(seconds_are_exact_and_without_needless_zeros)
{
    static const int64_t us[] = {0, 1, 50, 100000, 1000000, 2500000, 101602, 1796096562143000, -3};

    for (size_t i = 0; i < sizeof(us) / sizeof(us[0]); i++) {
        prom_sample(&out, "s", NULL, PROM_SECONDS, us[i]);
    }
    expect("s 0\ns 0.000001\ns 0.00005\ns 0.1\ns 1\ns 2.5\ns 0.101602\ns 1796096562.143\ns 0\n");
}
END_TEST

START_TEST(a_histogram_is_cumulative_and_ends_with_all)
{
    static const struct histogram_bounds two = {2, {1000, 2500000}};
    struct histogram histogram;

    histogram_init(&histogram, &two);
    histogram_add(&histogram, 1000);
    histogram_add(&histogram, 1001);
    histogram_add(&histogram, 3000000);
    prom_histogram(&out, "w_seconds", &(struct prom_labels){{{"destination", "d"}}}, &histogram);
    expect("w_seconds_bucket{destination=\"d\",le=\"0.001\"} 1\n"
           "w_seconds_bucket{destination=\"d\",le=\"2.5\"} 2\n"
           "w_seconds_bucket{destination=\"d\",le=\"+Inf\"} 3\n"
           "w_seconds_sum{destination=\"d\"} 3.002001\n"
           "w_seconds_count{destination=\"d\"} 3\n");
}
END_TEST

START_TEST(a_histogram_without_labels_has_its_bounds_alone)
{
    static const struct histogram_bounds one = {1, {1000000}};
    struct histogram histogram;

    histogram_init(&histogram, &one);
    prom_histogram(&out, "w", NULL, &histogram);
    expect("w_bucket{le=\"1\"} 0\nw_bucket{le=\"+Inf\"} 0\nw_sum 0\nw_count 0\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prom");
    TCase *tcase = tcase_create("text");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_sample_without_labels_has_no_braces);
    tcase_add_test(tcase, labels_come_in_order_with_commas_between);
    tcase_add_test(tcase, a_value_of_a_label_is_escaped);
    tcase_add_test(tcase, seconds_are_exact_and_without_needless_zeros);
    tcase_add_test(tcase, a_histogram_is_cumulative_and_ends_with_all);
    tcase_add_test(tcase, a_histogram_without_labels_has_its_bounds_alone);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
