/* links: src/proxy/inbound_answer.c src/proxy/verdict.c src/http/write.c src/http/hop.c src/http/target.c src/http/message.c src/http/chars.c src/base/addr.c src/base/clock.c src/base/str.c src/base/mem.c src/base/buf.c src/base/must.c */
#include "base/mem.h"
#include "proxy/inbound_answer.h"

#include <check.h>
#include <jansson.h>
#include <string.h>

static struct inbound_conf place;
static struct inbound_rule own, login;
static struct admission_check check;

/* A place with its own limit of 10 per second and one of 5 per minute for logins, seen and admitted. */
static void setup(void)
{
    place = (struct inbound_conf){.headers = INBOUND_HEADERS_IETF};
    own = (struct inbound_rule){.label = "default", .rate = {10, 1000000}, .capacity = 10};
    login = (struct inbound_rule){.label = "login", .rate = {5, 60000000}};
    memset(&check, 0, sizeof(check));
    check.inbound = &place;
    check.rules[0] = &own;
    check.rules[1] = &login;
    check.count = 1;
    check.admitted = true;
    check.results[0] = (struct admission_result){true, 10, 1000000, 3, 0, 700000};
    check.results[1] = (struct admission_result){true, 5, 60000000, 4, 0, 12000000};
}

static void refuse(unsigned i, int64_t retry_after_us)
{
    check.admitted = check.rules[i]->dry_run;
    check.results[i].admitted = false;
    check.results[i].remaining = 0;
    check.results[i].retry_after_us = retry_after_us;
}

static void expect_fields(const char *wanted)
{
    struct buf out = {0};

    inbound_fields(&out, &check);
    char *got = mem_strndup(buf_len(&out) > 0 ? buf_ptr(&out) : "", buf_len(&out));
    ck_assert_str_eq(got, wanted);
    mem_free(got);
    buf_fini(&out);
}

static char *refusal_text(bool close, bool head_only, unsigned status)
{
    struct buf out = {0};

    ck_assert_uint_eq(inbound_refuse(&out, &check, close, head_only), status);
    char *got = mem_strndup(buf_ptr(&out), buf_len(&out));
    buf_fini(&out);
    return got;
}

START_TEST(the_fields_have_the_form_of_the_ietf_draft)
{
    expect_fields("RateLimit-Policy: \"default\";q=10;w=1\r\nRateLimit: \"default\";r=3;t=1\r\n");
}
END_TEST

START_TEST(several_limits_are_one_list)
{
    check.count = 2;
    expect_fields("RateLimit-Policy: \"default\";q=10;w=1, \"login\";q=5;w=60\r\n"
                  "RateLimit: \"default\";r=3;t=1, \"login\";r=4;t=12\r\n");
}
END_TEST

START_TEST(the_window_of_a_bucket_is_the_time_that_filling_it_takes)
{
    own.rate = (struct rate){1, 1000000};
    check.results[0].window_us = 1000000;
    expect_fields("RateLimit-Policy: \"default\";q=10;w=10\r\nRateLimit: \"default\";r=3;t=1\r\n");
    own.rate = (struct rate){3, 1000000}; /* 3.33 s */
    expect_fields("RateLimit-Policy: \"default\";q=10;w=4\r\nRateLimit: \"default\";r=3;t=1\r\n");
}
END_TEST

START_TEST(a_huge_window_overflows_nothing)
{
    own.rate = (struct rate){1, INT64_C(366) * 86400 * 1000000};
    check.results[0] = (struct admission_result){true, INT64_C(1) << 26, own.rate.period_us, 3, 0, INT64_MAX};
    struct buf out = {0};
    inbound_fields(&out, &check);
    buf_add(&out, "", 1);
    ck_assert_ptr_null(strstr(buf_ptr(&out), "=-"));
    buf_fini(&out);
}
END_TEST

START_TEST(refused_t_is_when_there_is_more)
{
    refuse(0, 1000001);
    expect_fields("RateLimit-Policy: \"default\";q=10;w=1\r\nRateLimit: \"default\";r=0;t=2\r\n");
}
END_TEST

START_TEST(nothing_is_claimed_without_having_looked)
{
    check.unchecked = true;
    expect_fields("");
    check.unchecked = false;
    place.headers = INBOUND_HEADERS_OFF;
    expect_fields("");
    place.headers = INBOUND_HEADERS_IETF;
    check.count = 0;
    expect_fields("");
}
END_TEST

START_TEST(the_old_trio_tells_about_the_limit_nearest_to_refusing)
{
    place.headers = INBOUND_HEADERS_LEGACY;
    check.count = 2;
    expect_fields("RateLimit-Policy: \"default\";q=10;w=1, \"login\";q=5;w=60\r\n"
                  "RateLimit: \"default\";r=3;t=1, \"login\";r=4;t=12\r\n"
                  "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 3\r\nX-RateLimit-Reset: 1\r\n");
    refuse(1, 9500000);
    expect_fields("RateLimit-Policy: \"default\";q=10;w=1, \"login\";q=5;w=60\r\n"
                  "RateLimit: \"default\";r=3;t=1, \"login\";r=0;t=10\r\n"
                  "X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 12\r\n");
}
END_TEST

START_TEST(a_dry_run_is_told_apart_from_limits_in_force)
{
    check.count = 2;
    login.dry_run = true;
    refuse(1, 9500000);
    expect_fields("RateLimit-Policy: \"default\";q=10;w=1\r\nRateLimit: \"default\";r=3;t=1\r\n"
                  "Sluice-Dry-Run: \"login\";r=0;t=10;refused\r\n");
    own.dry_run = true;
    expect_fields("Sluice-Dry-Run: \"default\";r=3;t=1, \"login\";r=0;t=10;refused\r\n");
}
END_TEST

/* ---- refusals ---- */

START_TEST(retry_after_is_rounded_up_and_the_longest)
{
    check.count = 2;
    refuse(0, 1);
    ck_assert_int_eq(inbound_retry_after_s(&check), 1);
    refuse(0, 1000000);
    ck_assert_int_eq(inbound_retry_after_s(&check), 1);
    refuse(0, 1000001);
    ck_assert_int_eq(inbound_retry_after_s(&check), 2);
    refuse(1, 9000001);
    ck_assert_int_eq(inbound_retry_after_s(&check), 10);
    login.dry_run = true; /* which refuses nobody, so it makes nobody wait */
    ck_assert_int_eq(inbound_retry_after_s(&check), 2);
}
END_TEST

START_TEST(a_refusal_is_429_with_the_problem_of_the_draft)
{
    check.count = 2;
    refuse(1, 9500000);
    char *text = refusal_text(false, false, 429);
    const char *body = strstr(text, "\r\n\r\n");

    ck_assert(strncmp(text, "HTTP/1.1 429 Too Many Requests\r\n", 32) == 0);
    ck_assert_ptr_nonnull(strstr(text, "\r\nRetry-After: 10\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "\r\nContent-Type: application/problem+json\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "\r\nRateLimit: \"default\";r=3;t=1, \"login\";r=0;t=10\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "\r\nConnection: keep-alive\r\n"));
    ck_assert_ptr_nonnull(body);
    json_t *problem = json_loads(body + 4, 0, NULL);
    json_t *violated = json_object_get(problem, "violated-policies");
    ck_assert_str_eq(json_string_value(json_object_get(problem, "type")),
                     "https://iana.org/assignments/http-problem-types#quota-exceeded");
    ck_assert_int_eq(json_integer_value(json_object_get(problem, "status")), 429);
    ck_assert_uint_eq(json_array_size(violated), 1);
    ck_assert_str_eq(json_string_value(json_array_get(violated, 0)), "login");
    json_decref(problem);
    mem_free(text);
}
END_TEST

START_TEST(the_length_told_is_the_length_sent)
{
    char told[64];

    refuse(0, 1500000);
    char *text = refusal_text(true, false, 429), *head = refusal_text(true, true, 429);
    const char *body = strstr(text, "\r\n\r\n") + 4;
    snprintf(told, sizeof(told), "\r\nContent-Length: %zu\r\n", strlen(body));
    ck_assert_ptr_nonnull(strstr(text, told));
    ck_assert_ptr_nonnull(strstr(head, told)); /* also for HEAD, which has no body */
    ck_assert_str_eq(strstr(head, "\r\n\r\n"), "\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(text, "\r\nConnection: close\r\n"));
    mem_free(text);
    mem_free(head);
}
END_TEST

START_TEST(what_will_never_be_admitted_is_not_told_to_come_again)
{
    refuse(0, CLOCK_NEVER_US);
    char *text = refusal_text(false, false, 429);

    ck_assert_ptr_null(strstr(text, "Retry-After"));
    ck_assert_ptr_nonnull(strstr(text, "\r\nRateLimit: \"default\";r=0\r\n"));
    mem_free(text);
}
END_TEST

START_TEST(closed_without_redis_is_503_and_claims_no_limit)
{
    refuse(0, 1000000);
    check.unchecked = true;
    char *text = refusal_text(false, false, 503);

    ck_assert(strncmp(text, "HTTP/1.1 503 ", 13) == 0);
    ck_assert_ptr_nonnull(strstr(text, "\r\nRetry-After: 1\r\n"));
    ck_assert_ptr_null(strstr(text, "RateLimit"));
    mem_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inbound answers");
    TCase *fields = tcase_create("fields"), *refusals = tcase_create("refusals");

    tcase_add_checked_fixture(fields, setup, NULL);
    tcase_add_test(fields, the_fields_have_the_form_of_the_ietf_draft);
    tcase_add_test(fields, several_limits_are_one_list);
    tcase_add_test(fields, the_window_of_a_bucket_is_the_time_that_filling_it_takes);
    tcase_add_test(fields, a_huge_window_overflows_nothing);
    tcase_add_test(fields, refused_t_is_when_there_is_more);
    tcase_add_test(fields, nothing_is_claimed_without_having_looked);
    tcase_add_test(fields, the_old_trio_tells_about_the_limit_nearest_to_refusing);
    tcase_add_test(fields, a_dry_run_is_told_apart_from_limits_in_force);
    tcase_add_checked_fixture(refusals, setup, NULL);
    tcase_add_test(refusals, retry_after_is_rounded_up_and_the_longest);
    tcase_add_test(refusals, a_refusal_is_429_with_the_problem_of_the_draft);
    tcase_add_test(refusals, the_length_told_is_the_length_sent);
    tcase_add_test(refusals, what_will_never_be_admitted_is_not_told_to_come_again);
    tcase_add_test(refusals, closed_without_redis_is_503_and_claims_no_limit);
    suite_add_tcase(suite, fields);
    suite_add_tcase(suite, refusals);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
