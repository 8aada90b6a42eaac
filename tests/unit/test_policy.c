/* links: src/conf/ src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c */
#include "conf/build.h"
#include "conf/load.h"
#include "conf/policy.h"

#include "base/mem.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- the spacing of slots ---- */

static int64_t interval(int64_t count, int64_t period_us, enum strict_mode strict)
{
    struct policy policy = {.rate = {count, period_us}, .strict = strict, .late_us = 10000, .path_jitter_us = 2000};

    return policy_interval_us(&policy);
}

START_TEST(displacement_is_late_plus_jitter_plus_three_milliseconds)
{
    struct policy policy = {.late_us = 10000, .path_jitter_us = 2000};

    ck_assert_int_eq(policy_displacement_us(&policy), 15000);
    policy.late_us = 0;
    policy.path_jitter_us = 0;
    ck_assert_int_eq(policy_displacement_us(&policy), 3000);
}
END_TEST

START_TEST(a_window_interval_is_rounded_up_to_a_microsecond)
{
    /* (1000000 + 15000) * 1.001 / 10 = 101601.5 */
    ck_assert_int_eq(interval(10, 1000000, STRICT_WINDOW), 101602);
    /* (1000000 + 15000) * 1.001 / 1015 = 1001 exactly */
    ck_assert_int_eq(interval(1015, 1000000, STRICT_WINDOW), 1001);
    /* (3600000000 + 15000) * 1.001 / 5000 = 720723.003 */
    ck_assert_int_eq(interval(5000, INT64_C(3600000000), STRICT_WINDOW), 720724);
}
END_TEST

START_TEST(a_gap_interval_pays_the_displacement_for_every_slot)
{
    /* (100000 + 15000) * 1.001 = 115115 exactly */
    ck_assert_int_eq(interval(10, 1000000, STRICT_GAP), 115115);
    /* (1000000 / 3 + 15000) * 1.001 = 348681.67 */
    ck_assert_int_eq(interval(3, 1000000, STRICT_GAP), 348682);
}
END_TEST

START_TEST(n_intervals_always_span_the_window_and_everything_that_displaces)
{
    for (int64_t count = 1; count <= 3000; count += 7) {
        for (int64_t period = 1000; period <= INT64_C(86400000000); period = period * 9 + 1) {
            int64_t each = interval(count, period, STRICT_WINDOW);
            /* not a microsecond too little, not one more than needed */
            ck_assert(each * count * 1000 >= (period + 15000) * 1001);
            ck_assert((each - 1) * count * 1000 < (period + 15000) * 1001);
        }
    }
}
END_TEST

START_TEST(intervals_do_not_overflow)
{
    struct policy policy = {.rate = {1, INT64_MAX}, .late_us = 1000000};

    ck_assert_int_eq(policy_interval_us(&policy), INT64_MAX);
    policy.rate = (struct rate){INT64_MAX, INT64_MAX};
    policy.strict = STRICT_GAP;
    /* (1 + 1003000) * 1.001 */
    ck_assert_int_eq(policy_interval_us(&policy), 1004005);
    policy.rate = (struct rate){1, INT64_C(366) * 86400 * 1000000};
    policy.strict = STRICT_WINDOW;
    /* (31622400000000 + 1003000) * 1.001 */
    ck_assert_int_eq(policy_interval_us(&policy), INT64_C(31654023404003));
}
END_TEST

START_TEST(permits_in_reserve_are_kept_out_of_the_shared_slots)
{
    struct policy policy = {
        .rate = {10, 1000000}, .late_us = 10000, .path_jitter_us = 2000, .outage_permits = 1, .replicas_max = 3};

    ck_assert_int_eq(policy_interval_us(&policy), 101602);
    policy.on_redis_down = REDIS_DOWN_RESERVE;
    /* 7 of 10 are left: (1000000 + 15000) * 1.001 / 7 = 145145 */
    ck_assert_int_eq(policy_interval_us(&policy), 145145);
}
END_TEST

/* ---- references ---- */

START_TEST(a_policy_lives_until_its_last_reference_is_put)
{
    struct policy *policy = policy_new("edgar", 7);

    ck_assert_uint_eq(policy->refs, 1);
    ck_assert_ptr_eq(policy_get(policy), policy);
    ck_assert_uint_eq(policy->refs, 2);
    policy_put(policy);
    ck_assert_str_eq(policy->label, "edgar");
    ck_assert_uint_eq(policy->line, 7);
    policy_put(policy); /* the sanitizer's leak check sees the rest */
}
END_TEST

START_TEST(a_policy_taken_from_settings_outlives_them)
{
    static const char text[] = "[destination a.com]\nrate = 3/s\n";
    struct err err = {0};
    struct conf *conf = conf_load_text("t", text, sizeof text - 1, &err, NULL);

    ck_assert_ptr_nonnull(conf);
    struct policy *policy = policy_get(conf_route(conf, "a.com", 80));
    conf_free(conf);
    ck_assert_int_eq(policy->rate.count, 3);
    ck_assert_str_eq(policy->hosts[0].host, "a.com");
    policy_put(policy);
}
END_TEST

START_TEST(memory_that_is_not_a_policy_is_noticed)
{
    struct policy policy = {.refs = 1};

    policy_put(&policy);
}
END_TEST

START_TEST(inheriting_takes_values_but_neither_name_nor_hosts)
{
    static const char text[] = "[destination a.com]\nrate = 3/s\nmax_queue = 5\n";
    struct err err = {0};
    struct conf *conf = conf_load_text("t", text, sizeof text - 1, &err, NULL);

    ck_assert_ptr_nonnull(conf);
    struct policy *child = policy_inherit(conf->policies[0], "child", 9);
    ck_assert_int_eq(child->max_queue, 5);
    ck_assert_uint_eq(child->hosts_count, 0);
    ck_assert_str_eq(child->label, "child");
    ck_assert_uint_eq(child->refs, 1);
    policy_put(child);
    conf_free(conf);
}
END_TEST

/* ---- routes ---- */

static struct conf *routes;

static void load_routes(void)
{
    static const char text[] = "[destination exact-port]\nhosts = www.example.com:8080\n"
                               "[destination exact]\nhosts = www.example.com\n"
                               "[destination suffix-port]\nhosts = *.example.com:8080\n"
                               "[destination suffix]\nhosts = *.example.com\n"
                               "[destination deep]\nhosts = *.deep.example.com\n"
                               "[destination com-port]\nhosts = *.com:8080\n"
                               "[destination v4]\nhosts = 192.0.2.7\n"
                               "[destination v6]\nhosts = [2001:DB8:0:0:0:0:0:1]:443\n"
                               "[proxy]\nprivate_upstreams = allow\n";
    struct err err = {0};

    routes = conf_load_text("t", text, sizeof text - 1, &err, NULL);
    err_print(&err, "");
    ck_assert_ptr_nonnull(routes);
}

static void free_routes(void)
{
    conf_free(routes);
}

static const char *route_of(const char *host, uint16_t port)
{
    struct policy *policy = conf_route(routes, host, port);

    return policy != NULL ? policy->label : "(unlisted)";
}

START_TEST(an_exact_host_wins_over_a_suffix_and_a_port_over_none)
{
    ck_assert_str_eq(route_of("www.example.com", 8080), "exact-port");
    ck_assert_str_eq(route_of("www.example.com", 80), "exact");
    ck_assert_str_eq(route_of("api.example.com", 8080), "suffix-port");
    ck_assert_str_eq(route_of("api.example.com", 443), "suffix");
}
END_TEST

START_TEST(the_longer_suffix_wins_even_over_one_with_a_port)
{
    ck_assert_str_eq(route_of("a.deep.example.com", 8080), "deep");
    ck_assert_str_eq(route_of("a.b.deep.example.com", 80), "deep");
    ck_assert_str_eq(route_of("other.com", 8080), "com-port");
}
END_TEST

START_TEST(a_suffix_is_neither_the_name_itself_nor_the_end_of_a_label)
{
    ck_assert_str_eq(route_of("example.com", 80), "(unlisted)");
    ck_assert_str_eq(route_of("badexample.com", 80), "(unlisted)");
    ck_assert_str_eq(route_of("deep.example.com", 80), "suffix");
    ck_assert_str_eq(route_of("com", 8080), "(unlisted)");
}
END_TEST

START_TEST(addresses_match_in_every_spelling)
{
    ck_assert_str_eq(route_of("192.0.2.7", 80), "v4");
    ck_assert_str_eq(route_of("2001:db8::1", 443), "v6");
    ck_assert_str_eq(route_of("2001:0db8:0::0:1", 443), "v6");
    ck_assert_str_eq(route_of("2001:db8::1", 80), "(unlisted)");
    ck_assert_str_eq(route_of("2001:db8::2", 443), "(unlisted)");
}
END_TEST

START_TEST(odd_names_are_unlisted_and_do_no_harm)
{
    char longest[2000];

    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert_str_eq(route_of(longest, 80), "(unlisted)");
    ck_assert_str_eq(route_of("", 80), "(unlisted)");
    ck_assert_str_eq(route_of(".", 80), "(unlisted)");
    ck_assert_str_eq(route_of("....", 0), "(unlisted)");
    ck_assert_str_eq(route_of("*.example.com", 80), "suffix"); /* a name like any other, not the pattern */
    for (size_t i = 1; i < sizeof longest - 1; i += 2) {
        longest[i] = '.';
    }
    ck_assert_str_eq(route_of(longest, 80), "(unlisted)");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy");
    TCase *spacing = tcase_create("spacing"), *refs = tcase_create("references"), *route = tcase_create("routes");

    tcase_add_test(spacing, displacement_is_late_plus_jitter_plus_three_milliseconds);
    tcase_add_test(spacing, a_window_interval_is_rounded_up_to_a_microsecond);
    tcase_add_test(spacing, a_gap_interval_pays_the_displacement_for_every_slot);
    tcase_add_test(spacing, n_intervals_always_span_the_window_and_everything_that_displaces);
    tcase_add_test(spacing, intervals_do_not_overflow);
    tcase_add_test(spacing, permits_in_reserve_are_kept_out_of_the_shared_slots);
    tcase_add_test(refs, a_policy_lives_until_its_last_reference_is_put);
    tcase_add_test(refs, a_policy_taken_from_settings_outlives_them);
    tcase_add_test_raise_signal(refs, memory_that_is_not_a_policy_is_noticed, SIGABRT);
    tcase_add_test(refs, inheriting_takes_values_but_neither_name_nor_hosts);
    tcase_add_checked_fixture(route, load_routes, free_routes);
    tcase_add_test(route, an_exact_host_wins_over_a_suffix_and_a_port_over_none);
    tcase_add_test(route, the_longer_suffix_wins_even_over_one_with_a_port);
    tcase_add_test(route, a_suffix_is_neither_the_name_itself_nor_the_end_of_a_label);
    tcase_add_test(route, addresses_match_in_every_spelling);
    tcase_add_test(route, odd_names_are_unlisted_and_do_no_harm);
    suite_add_tcase(suite, spacing);
    suite_add_tcase(suite, refs);
    suite_add_tcase(suite, route);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
