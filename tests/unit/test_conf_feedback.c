/* links: tests/unit/conf_expect.c src/conf/ src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c */
/* What a destination may say about the third party's word, about sending again, and about fields of requests. */
#include "conf_expect.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct feedback_conf *first(const struct conf *conf)
{
    return &conf->policies[0]->feedback;
}

START_TEST(without_a_word_429_and_503_with_retry_after_are_obeyed)
{
    struct conf *conf = conf_load_good("[default]\nrate = 1/s\n");
    const struct feedback_conf *word = &conf->fallback->feedback;

    ck_assert(word->on && !word->adapt);
    ck_assert_uint_eq(word->throttle_status_count, 1);
    ck_assert_uint_eq(word->throttle_status[0].first, 429);
    ck_assert_uint_eq(word->throttle_if_count, 1);
    ck_assert_uint_eq(word->throttle_if[0].status.last, 503);
    ck_assert_str_eq(word->throttle_if[0].field, "Retry-After");
    ck_assert_ptr_null(word->throttle_if[0].value);
    ck_assert_uint_eq(word->pause_header_count, 2);
    ck_assert_int_eq(word->pause_header[1].format, TIME_IETF);
    ck_assert_uint_eq(word->ban_status_count, 0);
    ck_assert_int_eq(word->error_rate.count, 0);
    ck_assert_int_eq(word->retry, RETRY_NONE);
    conf_free(conf);
}
END_TEST

START_TEST(what_the_table_of_apis_needs_can_be_said)
{
    struct conf *conf =
        conf_load_good("[destination api.github.com]\n"
                       "https = originate\n"
                       "throttle_if = 403 header:x-ratelimit-remaining=0, 403 header:retry-after, 5xx header:X-A\n"
                       "pause_header = Retry-After:auto, X-RateLimit-Reset:unix, reset-requests:godur, A:ms\n"
                       "ban_status = 418, 403\n"
                       "error_budget = 5000/10m status=401,403,429\n"
                       "budget_header = X-RateLimit-Remaining X-RateLimit-Reset:unix\n"
                       "adapt = on\n"
                       "set_header = User-Agent: acme/1.0 (ops@acme.example, +1)\n"
                       "set_header = X-B: c:d = e\n"
                       "drop_header = X-Trace, X-Span\n"
                       "require_header = User-Agent\n");
    const struct feedback_conf *word = first(conf);

    ck_assert_uint_eq(word->throttle_if_count, 3);
    ck_assert_str_eq(word->throttle_if[0].value, "0");
    ck_assert_uint_eq(word->throttle_if[2].status.first, 500);
    ck_assert_uint_eq(word->throttle_if[2].status.last, 599);
    ck_assert_uint_eq(word->pause_header_count, 4);
    ck_assert_int_eq(word->pause_header[2].format, TIME_GODUR);
    ck_assert_uint_eq(word->ban_status_count, 2);
    ck_assert_int_eq(word->error_rate.count, 5000);
    ck_assert_uint_eq(word->error_status_count, 3);
    ck_assert_str_eq(word->budget_header[0].remaining, "X-RateLimit-Remaining");
    ck_assert_uint_eq(word->set_header_count, 2);
    ck_assert_str_eq(word->set_header[0].value, "acme/1.0 (ops@acme.example, +1)");
    ck_assert_str_eq(word->set_header[1].name, "X-B");
    ck_assert_str_eq(word->set_header[1].value, "c:d = e");
    ck_assert_uint_eq(word->drop_header_count, 2);
    conf_free(conf);
}
END_TEST

START_TEST(a_destination_replaces_whole_lists_of_default_and_none_empties_them)
{
    struct conf *conf =
        conf_load_good("[default]\nhttps = originate\nset_header = A: 1\nset_header = B: 2\n"
                       "ban_status = 403\nerror_budget = 5/1m status=4xx\n"
                       "[destination a.test]\nset_header = C: 3\n"
                       "[destination b.test]\nset_header = none\nban_status = none\nerror_budget = none\n"
                       "[destination c.test]\n");

    ck_assert_uint_eq(conf->policies[0]->feedback.set_header_count, 1);
    ck_assert_str_eq(conf->policies[0]->feedback.set_header[0].name, "C");
    ck_assert_uint_eq(conf->policies[1]->feedback.set_header_count, 0);
    ck_assert_uint_eq(conf->policies[1]->feedback.ban_status_count, 0);
    ck_assert_int_eq(conf->policies[1]->feedback.error_rate.count, 0);
    ck_assert_uint_eq(conf->policies[2]->feedback.set_header_count, 2);
    ck_assert_uint_eq(conf->policies[2]->feedback.ban_status_count, 1);
    conf_free(conf);
}
END_TEST

START_TEST(only_some_hosts_may_be_obeyed)
{
    struct conf *conf = conf_load_good("[destination a]\nhosts = *.a.test:80, b.test:80, c.test:80\n"
                                       "feedback_from = *.x.a.test, b.test, c.test:80\n"
                                       "[destination d.test:80]\n");
    const struct feedback_conf *word = first(conf);

    ck_assert(feedback_conf_obeys(word, "y.x.a.test", 80));
    ck_assert(!feedback_conf_obeys(word, "x.a.test", 80));
    ck_assert(!feedback_conf_obeys(word, "yx.a.test", 80));
    ck_assert(feedback_conf_obeys(word, "b.test", 99));
    ck_assert(feedback_conf_obeys(word, "c.test", 80) && !feedback_conf_obeys(word, "c.test", 81));
    ck_assert(!feedback_conf_obeys(word, "other.test", 80));
    ck_assert(feedback_conf_obeys(&conf->policies[1]->feedback, "d.test", 80));
    conf_free(conf);
}
END_TEST

START_TEST(a_dump_says_the_same_when_it_is_read_again)
{
    struct conf *conf =
        conf_load_good("[destination a.test]\nhttps = originate\nset_header = A: 1, 2\nset_header = B: 2\n"
                       "throttle_status = 4xx, 529, *\nthrottle_if = none\nban_if = 403 header:X=y\n"
                       "error_budget = 5/1m status=4xx\nfeedback_from = *.a.test:80, [::1]\nrequire_header = A, B\n");
    char *dump = conf_printed(conf, conf_dump);
    struct conf *again = conf_load_good(dump);
    char *second = conf_printed(again, conf_dump);

    ck_assert_str_eq(dump, second);
    ck_assert_ptr_nonnull(strstr(dump, "set_header = A: 1, 2\nset_header = B: 2\n"));
    ck_assert_ptr_nonnull(strstr(dump, "throttle_status = 4xx, 529, *\nthrottle_if = none\n"));
    free(dump);
    free(second);
    conf_free(conf);
    conf_free(again);
}
END_TEST

START_TEST(what_cannot_be_meant_is_refused_with_what_to_write)
{
    static const char *const rows[][2] = {
        {"throttle_status = 600", "600 is not a status from 100 to 599"},
        {"throttle_status = 6xx", "6xx is not a status"},
        {"throttle_status = ,", "the list is empty; write none"},
        {"throttle_if = 503", "503 is not STATUS header:NAME"},
        {"throttle_if = 503 header:a b", "a b is not the name of a header field"},
        {"throttle_if = header:a", "header:a is not STATUS header:NAME"},
        {"pause_header = Retry-After", "Retry-After is not NAME:FORMAT"},
        {"pause_header = Retry-After:second", "second is not auto, seconds"},
        {"budget_header = X-Left", "X-Left is not NAME:FORMAT"},
        {"budget_header = X-Left:unix", "X-Left:unix is neither REMAINING RESET:FORMAT"},
        {"budget_header = A B:ietf", "A B:ietf is neither REMAINING RESET:FORMAT"},
        {"error_budget = 5/m", "5/m is not COUNT/PERIOD status=LIST"},
        {"error_budget = 5/1ms status=429", "the period is out of range"},
        {"error_budget = 5/1m status=", "5/1m status= is not COUNT/PERIOD status=LIST"},
        {"retry = always", "always is not none, throttled or safe"},
        {"pause_growth = 0", "0 is out of range"},
        {"set_header = User-Agent", "User-Agent is not NAME: VALUE"},
        {"set_header = A:", "the value of A is empty"},
        {"set_header = transfer-encoding: chunked", "Transfer-Encoding frames the message"},
        {"set_header = Content-Length: 5", "Content-Length frames the message"},
        {"set_header = Connection: close", "Connection frames the message"},
        {"drop_header = Host", "Host frames the message"},
        {"require_header = A B", "A B is not the name"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        conf_expect_reason("default", rows[i][0], rows[i][1]);
    }
    conf_expect("[default]\npause_min = 2m\npause_max = 1m\n",
                "f.ini:3: [default] pause_max: pause_min of 2m is longer than pause_max, 1m");
}
END_TEST

START_TEST(fields_cannot_be_changed_inside_tunnels_and_that_is_said_with_what_to_do)
{
    conf_expect(
        "[destination a.test]\nset_header = A: 1\n",
        "f.ini:2: [destination a.test] set_header: requests inside a tunnel can't be changed or looked at: set https = "
        "originate or intercept, or, for plain http alone, write each host with its port, as in api.example.com:80");
    conf_free(conf_load_good("[destination a.test:80]\nset_header = A: 1\n"));
    conf_free(conf_load_good("[destination a.test]\nset_header = A: 1\nhttps = originate\n"));
    conf_expect_warning("[destination a.test]\nban_status = 403\n", "answers inside a tunnel are not seen");
    conf_expect_warning("[destination a.test:80]\nadapt_floor = 5\n", "has no effect without adapt = on");
    conf_expect_warning("[destination a.test:80]\nretry_max = 5\n", "has no effect without retry");
    conf_expect_warning("[destination a.test:80]\nfeedback = off\nban_status = 403\n",
                        "has no effect with feedback = off");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conf feedback");
    TCase *tc = tcase_create("settings");

    tcase_add_test(tc, without_a_word_429_and_503_with_retry_after_are_obeyed);
    tcase_add_test(tc, what_the_table_of_apis_needs_can_be_said);
    tcase_add_test(tc, a_destination_replaces_whole_lists_of_default_and_none_empties_them);
    tcase_add_test(tc, only_some_hosts_may_be_obeyed);
    tcase_add_test(tc, a_dump_says_the_same_when_it_is_read_again);
    tcase_add_test(tc, what_cannot_be_meant_is_refused_with_what_to_write);
    tcase_add_test(tc, fields_cannot_be_changed_inside_tunnels_and_that_is_said_with_what_to_do);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
