/* links: tests/unit/conf_expect.c src/conf/ src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c */
/* What divides a destination: keys, routes, quotas, order; and the mistakes that can be made with them. */
#include "conf_expect.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define DESTINATION "[destination a.com]\nrate = 10/s\n"

START_TEST(everything_about_parts_is_read)
{
    struct conf *conf = conf_load_good(
        DESTINATION "https = originate\nkey = header:X-Api-Key, query:api_key, client_ip\nbucket = per_host\n"
                    "quota = 100/1m, 5000/1d aligned utc-03:30\nquota_action = reject\nmax_in_flight = 7\nlease_time = 5s\n"
                    "cost_header = X-Cost\ncost_most = 9\norder = fair\nfair_by = header:X-Team, proxy_user\n"
                    "fair_weights = gold=3, iron=1\npriority_high = proxy_user=web, path=/chat*\nlow_share = 20\n"
                    "[route search]\ndestination = A.com\nmatch = GET,HEAD /search/*\nrate = 30/1m\nkey = path:2\n"
                    "[route rest]\ndestination = a.com\nmatch = *\n");
    const struct policy *policy = conf->policies[0];

    ck_assert_uint_eq(policy->keys_count, 3);
    ck_assert_int_eq(policy->keys[1].by, BUCKET_BY_QUERY);
    ck_assert_str_eq(policy->keys[1].name, "api_key");
    ck_assert(policy->per_host && policy->quota_reject);
    ck_assert_uint_eq(policy->quotas_count, 2);
    ck_assert(!policy->quotas[0].aligned && policy->quotas[1].aligned);
    ck_assert_int_eq(policy->quotas[1].offset_us, -INT64_C(12600) * CLOCK_SECOND_US);
    ck_assert_int_eq(policy->max_in_flight, 7);
    ck_assert_int_eq(policy->cost_most, 9);
    ck_assert_int_eq(policy->order, ORDER_FAIR);
    ck_assert_uint_eq(policy->fair_weights.list[0].weight, 3);
    ck_assert_str_eq(policy->priority_high.list[1].value, "/chat*");

    ck_assert_uint_eq(policy->routes_count, 2);
    const struct policy *route = policy->routes[0];
    ck_assert_ptr_eq(route->parent, policy);
    ck_assert_uint_eq(route->methods_count, 2);
    ck_assert_str_eq(route->path, "/search/*");
    ck_assert_int_eq(route->rate.count, 30);
    ck_assert_int_eq(route->keys[0].by, BUCKET_BY_SEGMENT);
    ck_assert_uint_eq(route->keys[0].index, 2);
    ck_assert_uint_eq(route->quotas_count, 0);
    ck_assert_int_eq(route->max_in_flight, 0);
    ck_assert_int_eq(route->cost_most, 9);
    ck_assert_uint_eq(policy->routes[1]->methods_count, 0);
    ck_assert_int_eq(policy->routes[1]->rate.count, 10);
    conf_free(conf);
}
END_TEST

START_TEST(what_is_printed_is_read_again)
{
    static const char text[] = "[destination a.com]\nrate = 100/s\nkey = header:A, path:3\nquota = 9/1m rolling, 80/1h aligned "
                               "utc+05:30\nfair_weights = x=2\npriority_low = header:P=low, path=/b*\nhttps = originate\n"
                               "[route r]\ndestination = a.com\nmatch = PUT,POST /w*\nrate = 1/s\n";
    struct conf *conf = conf_load_good(text);
    char *once = conf_printed(conf, conf_dump);
    conf_free(conf);
    conf = conf_load_good(once);
    char *twice = conf_printed(conf, conf_dump);
    ck_assert_str_eq(once, twice);
    ck_assert_ptr_nonnull(strstr(once, "quota = 9/1m rolling, 80/1h aligned utc+05:30\n"));
    ck_assert_ptr_nonnull(strstr(once, "match = PUT,POST /w*\n"));
    ck_assert_ptr_nonnull(strstr(once, "key = header:A, path:3\n"));
    ck_assert_ptr_nonnull(strstr(once, "priority_low = header:P=low, path=/b*\n"));
    conf_free(conf);
    free(once);
    free(twice);
}
END_TEST

START_TEST(mistakes_in_values_are_named)
{
    conf_expect_reason("default", "key = cookie:sid", "cookie:sid is not none, header:NAME, bearer");
    conf_expect_reason("default", "key = header:", "header: is not none");
    conf_expect_reason("default", "key = path:0", "path:0 is not none");
    conf_expect_reason("default", "key = client_ip:4", "client_ip:4 is not none");
    conf_expect_reason("default", "key = ,", "the list is empty");
    conf_expect_reason("default", "quota = 100", "100 has no period");
    conf_expect_reason("default", "quota = 100/1m fixed", "100/1m fixed is not COUNT/PERIOD");
    conf_expect_reason("default", "quota = 100/1m rolling utc", "100/1m rolling utc is not COUNT/PERIOD");
    conf_expect_reason("default", "quota = 100/1m aligned cet", "cet is no zone; write utc, utc+02 or utc-03:30");
    conf_expect_reason("default", "quota = 100/1m aligned utc+25", "utc+25 is no zone");
    conf_expect_reason("default", "quota = 5/500ms aligned", "5/500ms aligned: windows of the calendar are at least 1s long");
    conf_expect_reason("default", "quota = 1/1m, 2/1m, 3/1m, 4/1m, 5/1m", "more than 4 quotas");
    conf_expect_reason("default", "quota = 5/1m, 6/1m", "two quotas for the same time: the smaller one is enough");
    conf_expect("[default]\nquota = 5/1s aligned\nlate = 500ms\nmax_wait = 1d\n",
                "f.ini:3: [default] late: its windows are too short for late and path_jitter: nothing could leave between two edges");
    conf_expect_reason("default", "quota_action = drop", "drop is not wait or reject");
    conf_expect_reason("default", "cost_answer = X-Left rest", "X-Left rest is not the name of a header, with used or remaining");
    conf_expect_reason("default", "cost_answer = X-Left remaining", "what is left is left of a quota: there is none");
    conf_expect_reason("default", "cost = 0", "0 is out of range");
    conf_expect_reason("default", "order = fare", "fare is not fifo or fair");
    conf_expect_reason("default", "fair_by = cookie", "cookie is not proxy_user, client_ip or header:NAME");
    conf_expect_reason("default", "fair_weights = gold", "gold is not VALUE=WEIGHT");
    conf_expect_reason("default", "fair_weights = gold=0", "gold=0 is not VALUE=WEIGHT");
    conf_expect_reason("default", "priority_high = web", "web is not proxy_user=NAME, header:NAME=VALUE or path=PATTERN");
    conf_expect_reason("default", "priority_high = client_ip=1.2.3.4", "client_ip=1.2.3.4 is not proxy_user=NAME");
    conf_expect_reason("default", "low_share = 0", "0 is out of range");
}
END_TEST

START_TEST(mistakes_in_routes_are_named)
{
    conf_expect(DESTINATION "[route r]\nmatch = /x\n",
                "f.ini:3: [route r]: which destination is it a route of? Set destination = NAME");
    conf_expect(DESTINATION "[route r]\ndestination = a.con\nmatch = /x\n",
                "f.ini:4: [route r] destination: there is no [destination a.con]; did you mean a.com?");
    conf_expect(DESTINATION "[route r]\ndestination = a.com\n",
                "f.ini:3: [route r]: which requests is it for? Set match = PATTERN, as in GET /search/*");
    conf_expect(DESTINATION "[route r]\ndestination = a.com\nmatch = search\n",
                "f.ini:5: [route r] match: search is not PATTERN or METHOD,METHOD PATTERN; a pattern is a path with * for "
                "anything, as in GET /search/*");
    conf_expect(DESTINATION "https = originate\n[route r]\ndestination = a.com\nmatch = *\n[route s]\ndestination = a.com\n"
                            "match = GET /x\n",
                "f.ini:9: [route s] match: nothing reaches this: [route r] on line 4 is for the same requests");
    conf_expect(DESTINATION "https = originate\n[route r]\ndestination = a.com\nmatch = GET /x\n[route s]\n"
                            "destination = a.com\nmatch = GET /x\n",
                "f.ini:9: [route s] match: nothing reaches this: [route r] on line 4 is for the same requests");
    conf_expect(DESTINATION "[route r]\ndestination = a.com\nmatch = /x\nstrict = gap\n",
                "f.ini:6: [route r] strict: this key belongs in [default] or [destination NAME]");
}
END_TEST

START_TEST(limits_that_contradict_each_other_are_told)
{
    conf_expect("[destination a.com]\nrate = 10/s\ncost = 8\nquota = 5/1m\n",
                "f.ini:4: [destination a.com] quota: a request may cost 8, more than all of the quota 5/1m rolling: it could "
                "never leave");
    conf_expect("[redis]\nurl = unix:/r\n[destination a.com]\nrate = 10/s\non_redis_down = reserve\noutage_permits = 1\n"
                "max_in_flight = 3\nhttps = originate\n",
                "f.ini:7: [destination a.com] max_in_flight: on_redis_down = reserve counts nothing in flight while Redis is "
                "gone; use hold or reject");
    conf_expect_warning("[destination a.com]\nrate = 10/s\nquota = 5000/1h\n",
                        "the quota 5000/1h rolling is slower than the rate: after 5000 of them callers wait");
    conf_expect_warning("[destination a.com]\nrate = 10/s\nquota = 5000/1m\n",
                        "the quota 5000/1m rolling never binds: the rate allows 590 in that time");
    conf_expect_warning(DESTINATION "[route r]\ndestination = a.com\nmatch = /x\n", "requests inside a CONNECT to "
                                                                                    "[destination a.com] can't be told apart");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parts of destinations");
    TCase *parts = tcase_create("parts");

    tcase_add_checked_fixture(parts, NULL, conf_clear);
    tcase_add_test(parts, everything_about_parts_is_read);
    tcase_add_test(parts, what_is_printed_is_read_again);
    tcase_add_test(parts, mistakes_in_values_are_named);
    tcase_add_test(parts, mistakes_in_routes_are_named);
    tcase_add_test(parts, limits_that_contradict_each_other_are_told);
    suite_add_tcase(suite, parts);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
