/* links: src/base/str.c src/base/mem.c src/base/must.c */
#include "base/str.h"

#include <check.h>
#include <string.h>

static struct slice s(const char *text)
{
    return slice_of(text);
}

/* ---- slices ---- */

START_TEST(a_slice_equals_only_the_whole_text)
{
    ck_assert(slice_is(s("abc"), "abc"));
    ck_assert(!slice_is(s("abc"), "ab"));
    ck_assert(!slice_is(s("ab"), "abc"));
    ck_assert(!slice_is(s("abc"), "ABC"));
    ck_assert(slice_is((struct slice){NULL, 0}, ""));
    ck_assert_uint_eq(slice_of(NULL).len, 0);
}
END_TEST

START_TEST(case_blindness_is_for_ascii_letters_only)
{
    ck_assert(slice_is_nocase(s("Content-LENGTH"), "content-length"));
    ck_assert(!slice_is_nocase(s("content-lengt"), "content-length"));
    /* '@' and '`', '[' and '{' differ by the same bit as 'A' and 'a' */
    ck_assert(!slice_is_nocase(s("@["), "`{"));
    ck_assert(!slice_is_nocase(s("\xc4"), "\xe4"));
    ck_assert(slice_equal_nocase(s("Zz09"), s("zZ09")));
}
END_TEST

START_TEST(trimming_takes_blanks_at_both_ends)
{
    ck_assert(slice_is(slice_trim(s(" \t a b\t ")), "a b"));
    ck_assert(slice_is(slice_trim(s(" \t ")), ""));
    ck_assert(slice_is(slice_trim(s("")), ""));
    ck_assert(slice_is(slice_trim(s("\na\r")), "\na\r"));
}
END_TEST

static void list_is(const char *text, const char *const *expected)
{
    struct slice list = s(text), element;

    for (; *expected != NULL; expected++) {
        ck_assert_msg(slice_next_element(&list, &element), "%s: too few", text);
        ck_assert_msg(slice_is(element, *expected), "%s: got %.*s", text, (int)element.len, element.ptr);
    }
    ck_assert_msg(!slice_next_element(&list, &element), "%s: too many", text);
    ck_assert(!slice_next_element(&list, &element));
}

START_TEST(lists_split_at_commas_and_skip_empty_elements)
{
    list_is("a, b ,c", (const char *const[]){"a", "b", "c", NULL});
    list_is(" , ,a,,", (const char *const[]){"a", NULL});
    list_is("", (const char *const[]){NULL});
    list_is(",", (const char *const[]){NULL});
}
END_TEST

START_TEST(quoted_commas_do_not_split_a_list)
{
    list_is("a=\"x,y\", b", (const char *const[]){"a=\"x,y\"", "b", NULL});
    list_is("\"q\\\",r\",s", (const char *const[]){"\"q\\\",r\"", "s", NULL});
    list_is("a\\,b", (const char *const[]){"a\\", "b", NULL});
    list_is("\"open, b", (const char *const[]){"\"open, b", NULL});
    list_is("\"open\\", (const char *const[]){"\"open\\", NULL});
}
END_TEST

/* ---- whole numbers ---- */

START_TEST(u64_takes_all_of_its_range)
{
    uint64_t value = 7;

    ck_assert(str_parse_u64(s("0"), &value) && value == 0);
    ck_assert(str_parse_u64(s("007"), &value) && value == 7);
    ck_assert(str_parse_u64(s("18446744073709551615"), &value) && value == UINT64_MAX);
}
END_TEST

START_TEST(u64_refuses_everything_else_and_leaves_the_value_alone)
{
    static const char *const bad[] = {
        "", " 1", "1 ", "+1", "-1", "0x1", "1.0", "1e3", "18446744073709551616", "99999999999999999999999", "1\n",
    };
    uint64_t value = 42;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!str_parse_u64(s(bad[i]), &value), "%s", bad[i]);
    }
    ck_assert(!str_parse_u64((struct slice){"1\0002", 3}, &value));
    ck_assert_uint_eq(value, 42);
}
END_TEST

START_TEST(a_port_lies_between_1_and_65535)
{
    uint16_t port = 9;

    ck_assert(!str_parse_port(s("0"), &port));
    ck_assert(!str_parse_port(s("65536"), &port));
    ck_assert(!str_parse_port(s("65617"), &port)); /* 81 modulo 2^16 */
    ck_assert(!str_parse_port(s(""), &port));
    ck_assert_uint_eq(port, 9);
    ck_assert(str_parse_port(s("1"), &port) && port == 1);
    ck_assert(str_parse_port(s("65535"), &port) && port == 65535);
}
END_TEST

static int64_t size_of(const char *text)
{
    int64_t bytes = -1;

    return str_parse_size_bytes(s(text), &bytes) ? bytes : -1;
}

START_TEST(sizes_are_powers_of_1024)
{
    ck_assert_int_eq(size_of("0"), 0);
    ck_assert_int_eq(size_of("512"), 512);
    ck_assert_int_eq(size_of("64k"), 65536);
    ck_assert_int_eq(size_of("10m"), 10485760);
    ck_assert_int_eq(size_of("1g"), 1073741824);
    ck_assert_int_eq(size_of("1G"), 1073741824);
    ck_assert_int_eq(size_of("9223372036854775807"), INT64_MAX);
}
END_TEST

START_TEST(sizes_that_are_odd_or_too_large_are_refused)
{
    static const char *const bad[] = {
        "", "k", "1kb", "1t", "1.5m", "-1", "1 k", "9223372036854775808", "8589934592g", "99999999999999999999k",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(size_of(bad[i]) == -1, "%s", bad[i]);
    }
}
END_TEST

/* ---- durations ---- */

static int64_t duration_of(const char *text)
{
    int64_t us = -1;

    return str_parse_duration_us(s(text), &us) ? us : -1;
}

START_TEST(durations_are_exact)
{
    ck_assert_int_eq(duration_of("250ms"), 250000);
    ck_assert_int_eq(duration_of("1s"), 1000000);
    ck_assert_int_eq(duration_of("5m"), 300000000);
    ck_assert_int_eq(duration_of("1h"), INT64_C(3600000000));
    ck_assert_int_eq(duration_of("1d"), INT64_C(86400000000));
    ck_assert_int_eq(duration_of("7us"), 7);
    ck_assert_int_eq(duration_of("1.5s"), 1500000);
    ck_assert_int_eq(duration_of("0.000001s"), 1);
    ck_assert_int_eq(duration_of("0.1ms"), 100);
    ck_assert_int_eq(duration_of("1.10000000000000000000s"), 1100000);
    ck_assert_int_eq(duration_of("2.25h"), INT64_C(8100000000));
    /* 63 bits: a double would have rounded it */
    ck_assert_int_eq(duration_of("9223372036854.775807s"), INT64_MAX);
}
END_TEST

START_TEST(only_zero_goes_without_a_unit)
{
    ck_assert_int_eq(duration_of("0"), 0);
    ck_assert_int_eq(duration_of("0s"), 0);
    ck_assert_int_eq(duration_of("1"), -1);
    ck_assert_int_eq(duration_of("0.5"), -1);
}
END_TEST

START_TEST(durations_that_are_odd_or_too_large_are_refused)
{
    static const char *const bad[] = {
        "",
        "s",
        ".5s",
        "1.s",
        "1..5s",
        "1.2.3s",
        "-1s",
        "+1s",
        "1 s",
        "1s ",
        "1S",
        "1sec",
        "1m30s",
        "0x",
        "0.1us",
        "1e3s",
        "1,5s",
        "0.00001ms",
        "0.0000001s",
        "1.000000000000000000001s",
        "9223372036854.775808s",
        "106751992d",
        "99999999999999999999d",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(duration_of(bad[i]) == -1, "%s", bad[i]);
    }
}
END_TEST

static const char *shown(int64_t us)
{
    static char text[32];

    str_format_duration(us, text);
    return text;
}

START_TEST(durations_are_shown_in_the_largest_exact_unit)
{
    ck_assert_str_eq(shown(0), "0s");
    ck_assert_str_eq(shown(1), "1us");
    ck_assert_str_eq(shown(1500000), "1500ms");
    ck_assert_str_eq(shown(INT64_C(3600000000)), "1h");
    ck_assert_str_eq(shown(INT64_C(5400000000)), "90m");
    ck_assert_str_eq(shown(INT64_C(86400000000)), "1d");
    ck_assert_str_eq(shown(-2000000), "-2s");
    ck_assert_str_eq(shown(INT64_MAX), "9223372036854775807us");
    ck_assert_str_eq(shown(INT64_MIN), "-9223372036854775808us");
}
END_TEST

START_TEST(what_is_shown_reads_back_as_the_same_duration)
{
    int64_t us = 1;

    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(duration_of(shown(us)), us);
        ck_assert_int_eq(duration_of(shown(us * 1000)), us * 1000);
        us = us * 5 / 2 + 1;
    }
}
END_TEST

/* ---- rates ---- */

static void rate_is(const char *text, int64_t count, int64_t period_us)
{
    struct rate rate;

    ck_assert_msg(str_parse_rate(s(text), &rate), "%s", text);
    ck_assert_msg(rate.count == count && rate.period_us == period_us, "%s: %lld per %lld us", text,
                  (long long)rate.count, (long long)rate.period_us);
}

START_TEST(a_rate_is_a_count_per_period)
{
    rate_is("10/s", 10, 1000000);
    rate_is("10/1s", 10, 1000000);
    rate_is("1/3s", 1, 3000000);
    rate_is("30/1m", 30, 60000000);
    rate_is("30/m", 30, 60000000);
    rate_is("7/250ms", 7, 250000);
    rate_is("1/0.5s", 1, 500000);
    rate_is("1/d", 1, INT64_C(86400000000));
}
END_TEST

START_TEST(a_rate_keeps_the_period_it_is_counted_over)
{
    rate_is("5000/1h", 5000, INT64_C(3600000000));
    rate_is("10/2s", 10, 2000000);
    rate_is("10.0/s", 10, 1000000);
}
END_TEST

START_TEST(fractions_of_a_count_become_whole_by_the_smallest_factor)
{
    rate_is("2.5/s", 5, 2000000);
    rate_is("0.33/s", 33, 100000000);
    rate_is("0.1/s", 1, 10000000);
    rate_is("2.5/1.5s", 5, 3000000);
    rate_is("0.25/1m", 1, 240000000);
    rate_is("1.000001/s", 1000001, INT64_C(1000000000000));
}
END_TEST

START_TEST(rates_that_mean_nothing_are_refused)
{
    static const char *const bad[] = {
        "",
        "10",
        "/s",
        "10/",
        "0/s",
        "0.0/s",
        "10/0s",
        "10/0",
        "-1/s",
        "1/-1s",
        "10/5",
        "1//s",
        "1/s/",
        "10 / s",
        "10/ s",
        "1/sec",
        "ten/s",
        "1/1.s",
        "1e1/s",
        ".5/s",
        "+1/s",
        "1/S",
        "1/0.0000001s",
        "9223372036854775808/s",
        "99999999999999999999/s",
        "0.0000000000001/1d",
        "1/9223372036854775807d",
    };
    struct rate rate = {3, 4};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!str_parse_rate(s(bad[i]), &rate), "%s", bad[i]);
    }
    ck_assert(rate.count == 3 && rate.period_us == 4);
}
END_TEST

/* ---- what was meant ---- */

START_TEST(the_distance_counts_single_edits)
{
    ck_assert_uint_eq(str_distance("", ""), 0);
    ck_assert_uint_eq(str_distance("rate", "rate"), 0);
    ck_assert_uint_eq(str_distance("", "rate"), 4);
    ck_assert_uint_eq(str_distance("rate", ""), 4);
    ck_assert_uint_eq(str_distance("rate", "rat"), 1);
    ck_assert_uint_eq(str_distance("rate", "crate"), 1);
    ck_assert_uint_eq(str_distance("rate", "rite"), 1);
    ck_assert_uint_eq(str_distance("rate", "arte"), 1);
    ck_assert_uint_eq(str_distance("kitten", "sitting"), 3);
    ck_assert_uint_eq(str_distance("sitting", "kitten"), 3);
}
END_TEST

START_TEST(the_nearest_name_is_offered_when_it_is_near)
{
    static const char *const names[] = {"rate", "max_queue", "max_wait", "hosts", NULL};

    ck_assert_str_eq(str_nearest("rat", names), "rate");
    ck_assert_str_eq(str_nearest("max-queue", names), "max_queue");
    ck_assert_str_eq(str_nearest("maxwiat", names), "max_wait");
    ck_assert_str_eq(str_nearest("host", names), "hosts");
}
END_TEST

START_TEST(no_name_is_offered_when_none_is_near)
{
    static const char *const names[] = {"rate", "max_queue", "x", NULL};
    static const char *const none[] = {NULL};

    ck_assert_ptr_null(str_nearest("colour", names));
    ck_assert_ptr_null(str_nearest("y", names));
    ck_assert_ptr_null(str_nearest("", names));
    ck_assert_ptr_null(str_nearest("rate", none));
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("str");
    TCase *tc = tcase_create("str");

    tcase_add_test(tc, a_slice_equals_only_the_whole_text);
    tcase_add_test(tc, case_blindness_is_for_ascii_letters_only);
    tcase_add_test(tc, trimming_takes_blanks_at_both_ends);
    tcase_add_test(tc, lists_split_at_commas_and_skip_empty_elements);
    tcase_add_test(tc, quoted_commas_do_not_split_a_list);
    tcase_add_test(tc, u64_takes_all_of_its_range);
    tcase_add_test(tc, u64_refuses_everything_else_and_leaves_the_value_alone);
    tcase_add_test(tc, a_port_lies_between_1_and_65535);
    tcase_add_test(tc, sizes_are_powers_of_1024);
    tcase_add_test(tc, sizes_that_are_odd_or_too_large_are_refused);
    tcase_add_test(tc, durations_are_exact);
    tcase_add_test(tc, only_zero_goes_without_a_unit);
    tcase_add_test(tc, durations_that_are_odd_or_too_large_are_refused);
    tcase_add_test(tc, durations_are_shown_in_the_largest_exact_unit);
    tcase_add_test(tc, what_is_shown_reads_back_as_the_same_duration);
    tcase_add_test(tc, a_rate_is_a_count_per_period);
    tcase_add_test(tc, a_rate_keeps_the_period_it_is_counted_over);
    tcase_add_test(tc, fractions_of_a_count_become_whole_by_the_smallest_factor);
    tcase_add_test(tc, rates_that_mean_nothing_are_refused);
    tcase_add_test(tc, the_distance_counts_single_edits);
    tcase_add_test(tc, the_nearest_name_is_offered_when_it_is_near);
    tcase_add_test(tc, no_name_is_offered_when_none_is_near);
    suite_add_tcase(all, tc);
    return all;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());

    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
