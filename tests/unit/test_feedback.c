/* links: src/http/feedback.c src/http/budget.c src/http/chars.c src/http/when.c src/http/message.c src/base/str.c src/base/mem.c src/base/must.c */
/* Every form in which third parties are known to say when, how long, and how much is left. */
#include "http/budget.h"
#include "http/feedback.h"
#include "http/when.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SECOND CLOCK_SECOND_US
#define MINUTE (60 * SECOND)
#define FOREVER WHEN_FOREVER_US
#define NOW INT64_C(1792567000) /* Wed, 21 Oct 2026 07:16:40 GMT */
enum { BAD = -1 };

struct row {
    const char *value;
    enum time_format format;
    int64_t left_us; /* BAD: no time */
};

static const struct row times[] = {
    {"30", TIME_AUTO, 30 * SECOND},
    {"30.0", TIME_AUTO, 30 * SECOND},
    {"2.0", TIME_SECONDS, 2 * SECOND},
    {"0.503", TIME_AUTO, 503000},
    {"0.5030009999", TIME_SECONDS, 503000},
    {"0", TIME_AUTO, 0},
    {"86400", TIME_AUTO, 86400 * SECOND},
    {"31536000", TIME_AUTO, 31536000 * SECOND},
    {"-1", TIME_AUTO, BAD},
    {"nan", TIME_AUTO, BAD},
    {"inf", TIME_SECONDS, BAD},
    {"1e3", TIME_SECONDS, BAD},
    {"0x10", TIME_SECONDS, BAD},
    {"+5", TIME_SECONDS, BAD},
    {".5", TIME_SECONDS, BAD},
    {"5.", TIME_SECONDS, BAD},
    {"5 s", TIME_AUTO, BAD},
    {"30, 60", TIME_AUTO, BAD},
    {"", TIME_AUTO, BAD},
    {"", TIME_GODUR, BAD},
    {"", TIME_ISO8601, BAD},
    {"soon", TIME_AUTO, BAD},
    {"1234567890123456789012345678901234567890", TIME_AUTO, FOREVER},
    {"1234567890123456789012345678901234567890", TIME_SECONDS, FOREVER},
    {"1234567890123456789012345678901234567890", TIME_MS, FOREVER},
    {"1234567890123456789012345678901234567890", TIME_UNIX, FOREVER},
    /* dates */
    {"Wed, 21 Oct 2026 07:17:40 GMT", TIME_AUTO, MINUTE},
    {"Wednesday, 21-Oct-26 07:17:40 GMT", TIME_AUTO, MINUTE},
    {"Wed Oct 21 07:17:40 2026", TIME_AUTO, MINUTE},
    {"Sun Nov  1 07:16:40 2026", TIME_AUTO, 11 * 86400 * SECOND},
    {"Wed, 21 Oct 2015 07:28:00 GMT", TIME_AUTO, 0},
    {"Sunday, 06-Nov-94 08:49:37 GMT", TIME_AUTO, 0},
    {"Wed, 21 Oct 2026 07:17:40 CET", TIME_AUTO, BAD},
    {"Wed, 21 Oct 2026 25:17:40 GMT", TIME_AUTO, BAD},
    {"Wed, 32 Oct 2026 07:17:40 GMT", TIME_AUTO, BAD},
    {"Wed, 21 Foo 2026 07:17:40 GMT", TIME_AUTO, BAD},
    {"Wed, 21 Oct 9999 07:17:40 GMT", TIME_AUTO, FOREVER},
    /* since 1970 */
    {"1792567060", TIME_UNIX, MINUTE},
    {"1792567060", TIME_AUTO, MINUTE},
    {"1792567000.123", TIME_UNIX, 123000},
    {"1792567060123", TIME_AUTO, MINUTE + 123000},
    {"1792567060123", TIME_UNIX, MINUTE + 123000},
    {"1470173023", TIME_UNIX, 0},
    {"41", TIME_UNIX, 0},
    /* left */
    {"41", TIME_AUTO, 41 * SECOND},
    {"10000", TIME_MS, 10 * SECOND},
    {"10000", TIME_SECONDS, 10000 * SECOND},
    /* ISO 8601 */
    {"2026-10-21T07:17:40Z", TIME_ISO8601, MINUTE},
    {"2026-10-21T07:18Z", TIME_ISO8601, 80 * SECOND},
    {"2026-10-21T07:17:40.250Z", TIME_AUTO, MINUTE + 250000},
    {"2026-10-21T09:17:40+02:00", TIME_AUTO, MINUTE},
    {"2026-10-21T05:17:40-0200", TIME_AUTO, MINUTE},
    {"2026-10-21T07:17:40", TIME_AUTO, MINUTE},
    {"2026-04-21T14:38:25Z", TIME_AUTO, 0},
    {"2026-10-21", TIME_ISO8601, BAD},
    {"2026-13-21T07:17:40Z", TIME_ISO8601, BAD},
    {"2026-10-21T07:17:40.Z", TIME_ISO8601, BAD},
    {"2026-10-21T07:17:40+99:00", TIME_ISO8601, BAD},
    {"2026-10-21T07:17:40Zz", TIME_ISO8601, BAD},
    {"41", TIME_ISO8601, BAD},
    /* Go durations */
    {"6m0s", TIME_GODUR, 6 * MINUTE},
    {"547ms", TIME_GODUR, 547000},
    {"1m12s", TIME_AUTO, 72 * SECOND},
    {"2m52.8s", TIME_GODUR, 2 * MINUTE + 52800000},
    {"1s", TIME_AUTO, SECOND},
    {"1h0m0.5s", TIME_GODUR, 3600 * SECOND + 500000},
    {"1500us", TIME_GODUR, 1500},
    {"1500\xc2\xb5s", TIME_GODUR, 1500},
    {"2500ns", TIME_GODUR, 2},
    {"0", TIME_GODUR, 0},
    {"5", TIME_GODUR, BAD},
    {"5m3", TIME_GODUR, BAD},
    {"m", TIME_GODUR, BAD},
    {"99999999999999999999h99999999999999999999h", TIME_GODUR, FOREVER},
    /* sets are not times */
    {"20:1,100:120", TIME_AUTO, BAD},
    {"32/40", TIME_AUTO, BAD},
};

START_TEST(every_known_form_of_a_time)
{
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        const struct row *row = &times[i];
        int64_t left = BAD;
        bool read = when_read(slice_of(row->value), row->format, (struct wall){NOW * SECOND}, &left);
        ck_assert_msg(read == (row->left_us != BAD), "\"%s\" as %d", row->value, row->format);
        ck_assert_msg(!read || left == row->left_us, "\"%s\" as %d: %lld", row->value, row->format, (long long)left);
    }
}
END_TEST

START_TEST(how_much_is_left)
{
    static const struct {
        const char *value;
        int64_t left; /* BAD: nothing */
    } rows[] = {{"7", 7},
                {"7.0", 7},
                {"0", 0},
                {"-3", 0},
                {"32/40", 8},
                {"50/40", 0},
                {"api-usage=18/5000", 4982},
                {"20:1,100:120", BAD},
                {"", BAD},
                {"-", BAD},
                {"a=7", BAD},
                {"/", BAD},
                {"3/", BAD},
                {"seven", BAD}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t left = BAD;
        bool read = budget_remaining(slice_of(rows[i].value), &left);
        ck_assert_msg(read == (rows[i].left != BAD) && left == rows[i].left, "\"%s\": %lld", rows[i].value,
                      (long long)left);
    }
}
END_TEST

START_TEST(both_generations_of_the_ietf_fields)
{
    static const struct {
        const char *value;
        unsigned count;
        int64_t remaining, reset_s; /* of the last */
    } rows[] = {
        {"\"default\";r=50;t=30", 1, 50, 30},
        {"\"burst\";r=9;t=1, \"day\"; r=0 ;t=3600", 2, 0, 3600},
        {"\"a,b;\\\"c\";pk=:cHsdsRa894==:;r=0;t=5", 1, 0, 5},
        {"limit=300, remaining=7, reset=12", 1, 7, 12},
        {"total=100; remaining=99; resets=41", 1, 99, 41},
        {"\"default\";r=-2;t=30", 1, 0, 30},
        {"\"default\";q=100;w=60", 0, 0, 0},
        {"\"default;r=50;t=30", 0, 0, 0},
        {"\"default\";r=;t=30", 0, 0, 0},
        {"\"default\" r=5", 0, 0, 0},
        {"20:1,100:120", 0, 0, 0},
        {"32/40", 0, 0, 0},
        {";;;", 0, 0, 0},
        {"", 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct budget_item items[4];
        unsigned count = budget_items(slice_of(rows[i].value), items, 4);
        ck_assert_msg(count == rows[i].count, "%s: %u", rows[i].value, count);
        if (count > 0) {
            ck_assert_int_eq(items[count - 1].remaining, rows[i].remaining);
            ck_assert_int_eq(items[count - 1].reset_us, rows[i].reset_s * SECOND);
        }
    }
}
END_TEST

/* ---- whole answers ---- */

static struct status_range throttle[] = {{429, 429}};
static struct status_range ban[] = {{418, 418}};
static struct status_range errors[] = {{400, 499}};
static struct answer_rule conditions[] = {{{503, 503}, "Retry-After", NULL},
                                          {{403, 403}, "X-RateLimit-Remaining", "0"}};
static struct answer_rule ban_if[] = {{{403, 403}, "X-Blocked", NULL}};
static struct time_field pauses[] = {
    {"RateLimit", TIME_IETF}, {"Retry-After", TIME_AUTO}, {"X-RateLimit-Reset", TIME_UNIX}};
static struct budget_field budgets[] = {{NULL, {"RateLimit", TIME_IETF}},
                                        {"X-RateLimit-Remaining", {"X-RateLimit-Reset", TIME_UNIX}}};
static struct feedback_conf conf;

static void setup(void)
{
    conf = (struct feedback_conf){.on = true,
                                  .throttle_status = throttle,
                                  .throttle_status_count = 1,
                                  .throttle_if = conditions,
                                  .throttle_if_count = 2,
                                  .pause_header = pauses,
                                  .pause_header_count = 3,
                                  .ban_status = ban,
                                  .ban_status_count = 1,
                                  .ban_if = ban_if,
                                  .ban_if_count = 1,
                                  .error_status = errors,
                                  .error_status_count = 1,
                                  .budget_header = budgets,
                                  .budget_header_count = 2};
}

/* `lines`: name, value, ..., NULL */
static struct feedback said(unsigned status, const char *const *lines)
{
    struct field fields[8];
    struct message m = {.status = status, .fields = fields};
    struct feedback out;

    for (; *lines != NULL; lines += 2) {
        fields[m.fields_count++] = (struct field){.name = slice_of(lines[0]), .value = slice_of(lines[1])};
    }
    feedback_read(&m, &conf, (struct wall){NOW * SECOND}, &out);
    return out;
}
#define SAID(status, ...) said(status, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(statuses_and_fields_that_mean_slow_down)
{
    ck_assert(SAID(429, "A", "b").throttled);
    ck_assert(!SAID(200, "Retry-After", "5").throttled);
    ck_assert(!SAID(503, "A", "b").throttled);
    ck_assert(SAID(503, "retry-after", "5").throttled);
    ck_assert(!SAID(403, "x-ratelimit-remaining", "4").throttled);
    ck_assert(SAID(403, "x-ratelimit-remaining", "0").throttled);
    ck_assert(SAID(418, "A", "b").banned && !SAID(418, "A", "b").throttled);
    ck_assert(SAID(403, "X-Blocked", "", "X-RateLimit-Remaining", "0").banned);
    ck_assert(SAID(404, "A", "b").counts_as_error && !SAID(500, "A", "b").counts_as_error);
}
END_TEST

START_TEST(dates_are_judged_by_the_clock_that_wrote_them)
{
    /* an hour ahead of us */
    struct feedback f =
        SAID(429, "Date", "Wed, 21 Oct 2026 08:16:40 GMT", "Retry-After", "Wed, 21 Oct 2026 08:17:40 GMT");
    ck_assert_int_eq(f.pause_us, MINUTE);
    f = SAID(429, "Date", "Wed, 21 Oct 2026 08:16:40 GMT", "X-RateLimit-Reset", "1792570605");
    ck_assert_int_eq(f.pause_us, 5 * SECOND);
    f = SAID(429, "Date", "yesterday", "Retry-After", "Wed, 21 Oct 2026 07:17:40 GMT");
    ck_assert_int_eq(f.pause_us, MINUTE);
    f = SAID(429, "Retry-After", "Wed, 21 Oct 2026 07:17:40 GMT");
    ck_assert_int_eq(f.pause_us, MINUTE);
}
END_TEST

START_TEST(the_longest_counts_but_retry_after_goes_before_the_draft)
{
    ck_assert_int_eq(SAID(429, "Retry-After", "5", "Retry-After", "7").pause_us, 7 * SECOND);
    ck_assert_int_eq(SAID(429, "Retry-After", "5", "X-RateLimit-Reset", "1792567009").pause_us, 9 * SECOND);
    ck_assert_int_eq(SAID(429, "RateLimit", "\"a\";r=0;t=30", "Retry-After", "5").pause_us, 5 * SECOND);
    ck_assert_int_eq(SAID(429, "RateLimit", "\"a\";r=0;t=30, \"b\";r=4;t=90").pause_us, 30 * SECOND);
    ck_assert_int_eq(SAID(429, "RateLimit", "\"a\";r=4;t=30").pause_us, 0);
}
END_TEST

START_TEST(a_reset_of_a_budget_that_has_something_left_is_not_waited_for)
{
    ck_assert_int_eq(SAID(429, "X-RateLimit-Reset", "1792570600", "X-RateLimit-Remaining", "4312").pause_us, 0);
    ck_assert_int_eq(SAID(429, "X-RateLimit-Reset", "1792567060", "X-RateLimit-Remaining", "0").pause_us, MINUTE);
}
END_TEST

START_TEST(what_is_malformed_is_counted_and_as_if_it_were_not_there)
{
    struct feedback f = SAID(429, "Retry-After", "nan", "RateLimit", "\"a\";r=0;t=30");
    ck_assert_uint_eq(f.garbage, 1);
    ck_assert(!f.retry_after);
    ck_assert_int_eq(f.pause_us, 30 * SECOND);
    f = SAID(429, "Retry-After", "", "RateLimit", "32/40", "X-RateLimit-Reset", "-1");
    ck_assert_uint_eq(f.garbage, 3);
    ck_assert(f.throttled);
    ck_assert_int_eq(f.pause_us, 0);
}
END_TEST

START_TEST(a_time_that_is_past_says_nothing)
{
    struct feedback f = SAID(429, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT");
    ck_assert_int_eq(f.pause_us, 0);
    ck_assert_uint_eq(f.garbage, 0);
    ck_assert_int_eq(SAID(429, "X-RateLimit-Reset", "1470173023").pause_us, 0);
}
END_TEST

START_TEST(budgets_are_read_where_they_are_asked_for_and_the_tightest_governs)
{
    ck_assert_int_eq(SAID(200, "RateLimit", "\"a\";r=5;t=30").remaining, 0);
    conf.adapt = true;
    struct feedback f = SAID(200, "RateLimit", "\"a\";r=5;t=30, \"b\";r=50;t=3600", "X-RateLimit-Remaining", "10",
                             "X-RateLimit-Reset", "1792567010");
    ck_assert_int_eq(f.remaining, 50);
    ck_assert_int_eq(f.reset_us, 3600 * SECOND);
    f = SAID(200, "RateLimit", "\"a\";r=0;t=30, \"b\";r=5;t=10", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset",
             "1792567010");
    ck_assert_int_eq(f.empty_us, 30 * SECOND);
    ck_assert_int_eq(f.remaining, 5);
    f = SAID(200, "X-RateLimit-Remaining", "lots", "X-RateLimit-Reset", "1792567010");
    ck_assert_int_eq(f.remaining, 0);
    ck_assert_int_eq(f.empty_us, 0);
    ck_assert_uint_eq(f.garbage, 1);
    ck_assert_uint_eq(SAID(200, "X-RateLimit-Remaining", "5").garbage, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feedback");
    TCase *tc = tcase_create("forms");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, every_known_form_of_a_time);
    tcase_add_test(tc, how_much_is_left);
    tcase_add_test(tc, both_generations_of_the_ietf_fields);
    tcase_add_test(tc, statuses_and_fields_that_mean_slow_down);
    tcase_add_test(tc, dates_are_judged_by_the_clock_that_wrote_them);
    tcase_add_test(tc, the_longest_counts_but_retry_after_goes_before_the_draft);
    tcase_add_test(tc, a_reset_of_a_budget_that_has_something_left_is_not_waited_for);
    tcase_add_test(tc, what_is_malformed_is_counted_and_as_if_it_were_not_there);
    tcase_add_test(tc, a_time_that_is_past_says_nothing);
    tcase_add_test(tc, budgets_are_read_where_they_are_asked_for_and_the_tightest_governs);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
