/* links: src/proxy/verdict.c src/http/write.c src/http/hop.c src/http/target.c src/http/message.c src/http/chars.c src/base/addr.c src/base/clock.c src/base/buf.c src/base/mem.c src/base/must.c src/base/str.c */
#include "proxy/verdict.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *written(const struct refusal *refusal, bool close, bool head_only)
{
    struct buf out = {0};

    refusal_write(&out, refusal, close, head_only);
    char *text = strndup(buf_ptr(&out), buf_len(&out));
    buf_fini(&out);
    return text;
}

static json_t *body_of(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n");

    ck_assert_ptr_nonnull(body);
    return json_loads(body + 4, 0, NULL);
}

START_TEST(a_full_queue_is_429_with_everything_a_caller_needs)
{
    struct forecast forecast = {.wait_us = 2500000, .retry_after_us = 1200001, .position = 7};
    struct refusal refusal = {.verdict = VERDICT_QUEUE_FULL,
                              .destination = "api",
                              .forecast = &forecast,
                              .retry_after_us = forecast.retry_after_us};
    char *text = written(&refusal, false, false);
    json_t *problem = body_of(text);

    ck_assert(strncmp(text, "HTTP/1.1 429 Too Many Requests\r\n", 32) == 0);
    ck_assert_ptr_nonnull(strstr(text, "\r\nRetry-After: 2\r\n")); /* rounded up: earlier would be refused again */
    ck_assert_ptr_nonnull(
        strstr(text, "\r\nProxy-Status: sluice; error=http_request_denied; details=\"queue_full\"\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "\r\nContent-Type: application/problem+json\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "\r\nConnection: keep-alive\r\n"));
    ck_assert_int_eq(json_integer_value(json_object_get(problem, "status")), 429);
    ck_assert_str_eq(json_string_value(json_object_get(problem, "reason")), "queue_full");
    ck_assert_str_eq(json_string_value(json_object_get(problem, "destination")), "api");
    ck_assert_int_eq(json_integer_value(json_object_get(problem, "predicted_wait_ms")), 2500);
    ck_assert_int_eq(json_integer_value(json_object_get(problem, "position")), 7);
    json_decref(problem);
    free(text);
}
END_TEST

START_TEST(the_length_told_is_the_length_sent)
{
    for (int verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        struct refusal refusal = {.verdict = (enum verdict)verdict, .status = 503, .detail = "say \"what\" to do"};
        char *text = written(&refusal, true, false);
        size_t told = 0;
        ck_assert_int_eq(sscanf(strstr(text, "Content-Length: "), "Content-Length: %zu", &told), 1);
        ck_assert_uint_eq(told, strlen(strstr(text, "\r\n\r\n") + 4));
        ck_assert_ptr_nonnull(strstr(text, "\r\nConnection: close\r\n"));
        free(text);
    }
}
END_TEST

START_TEST(the_answer_to_head_has_no_body)
{
    struct refusal refusal = {.verdict = VERDICT_DENIED};
    char *text = written(&refusal, false, true);

    ck_assert_uint_eq(strlen(strstr(text, "\r\n\r\n")), 4);
    ck_assert_ptr_nonnull(strstr(text, "Content-Length: "));
    free(text);
}
END_TEST

START_TEST(missing_credentials_are_asked_for)
{
    struct refusal refusal = {.verdict = VERDICT_AUTH};
    char *text = written(&refusal, false, false);

    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 407 "));
    ck_assert_ptr_nonnull(strstr(text, "\r\nProxy-Authenticate: Basic realm=\"sluice\""));
    free(text);
}
END_TEST

START_TEST(odd_bytes_can_not_leave_the_quoted_details)
{
    struct refusal refusal = {.verdict = VERDICT_UPSTREAM, .word = "a\"b\\c\r\nX: y\x80"};
    char *text = written(&refusal, false, true);

    ck_assert_ptr_nonnull(strstr(text, "details=\"a\\\"b\\\\c??X: y?\"\r\n"));
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verdict");
    TCase *tcase = tcase_create("refusal");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(tcase, a_full_queue_is_429_with_everything_a_caller_needs);
    tcase_add_test(tcase, the_length_told_is_the_length_sent);
    tcase_add_test(tcase, the_answer_to_head_has_no_body);
    tcase_add_test(tcase, missing_credentials_are_asked_for);
    tcase_add_test(tcase, odd_bytes_can_not_leave_the_quoted_details);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
