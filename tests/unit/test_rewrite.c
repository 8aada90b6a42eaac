/* links: src/http/rewrite.c src/http/target.c src/http/message.c src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c */
#include "base/mem.h"
#include "http/rewrite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static bool is_api(void *arg, const char *host, uint16_t port)
{
    (*(int *)arg)++;
    return (strcmp(host, "api.test") == 0 && (port == 443 || port == 8443)) || strcmp(host, "::1") == 0;
}

/* What becomes of one field, alone in its head. */
static char *rewritten(const char *name, const char *value)
{
    int asked = 0;
    struct rewrite rewrite = {is_api, &asked};
    struct message m = {.head = mem_strdup(value), .status = 302};
    struct field field = {slice_of(name), {m.head, strlen(value)}};

    m.head_bytes = strlen(value);
    m.fields = &field;
    m.fields_count = 1;
    rewrite_response(&m, &rewrite);
    char *out = mem_strndup(field.value.ptr, field.value.len);
    mem_free(m.head);
    return out;
}

static void check_all(const char *name, const char *const pairs[][2])
{
    for (size_t i = 0; pairs[i][0] != NULL; i++) {
        char *out = rewritten(name, pairs[i][0]);
        ck_assert_msg(strcmp(out, pairs[i][1]) == 0, "%s: %s became %s", name, pairs[i][0], out);
        mem_free(out);
    }
}

START_TEST(a_redirect_to_a_host_we_serve_stays_here)
{
    static const char *const pairs[][2] = {
        {"https://api.test/a?b=https://api.test/", "http://api.test/a?b=https://api.test/"},
        {"HTTPS://API.test:443/x", "http://API.test/x"},
        {"https://api.test:8443/x", "http://api.test:8443/x"},
        {"https://api.test", "http://api.test"},
        {"https://api.test?q", "http://api.test?q"},
        {"https://api.test#f", "http://api.test#f"},
        {"https://api.test:443", "http://api.test"},
        {"https://[::1]:443/x", "http://[::1]/x"},
        {NULL, NULL},
    };

    check_all("Location", pairs);
    check_all("content-location", pairs);
}
END_TEST

START_TEST(any_other_redirect_is_left_alone)
{
    static const char *const pairs[][2] = {
        {"https://other.test/", "https://other.test/"},
        {"http://api.test/", "http://api.test/"},
        {"/relative", "/relative"},
        {"//api.test/x", "//api.test/x"},
        {"https://api.test.evil.test/", "https://api.test.evil.test/"},
        {"https://user@api.test/", "https://user@api.test/"},
        {"https://", "https://"},
        {"https:///x", "https:///x"},
        {"https://api.test:0/", "https://api.test:0/"},
        {"https://api.test:99999/", "https://api.test:99999/"},
        {"", ""},
        {NULL, NULL},
    };

    check_all("Location", pairs);
}
END_TEST

START_TEST(a_cookie_loses_secure_and_nothing_else)
{
    static const char *const pairs[][2] = {
        {"a=b; Secure", "a=b"},
        {"a=b; Path=/; secure; HttpOnly", "a=b; Path=/; HttpOnly"},
        {"a=b;SECURE;Secure ; Path=/", "a=b; Path=/"},
        {"Secure", "Secure"},
        {"secure=1; Path=/secure", "secure=1; Path=/secure"},
        {"a=Secure; Securely", "a=Secure; Securely"},
        {"a=b;", "a=b;"},
        {"a=b; ;Secure;", "a=b; ;"},
        {"", ""},
        {NULL, NULL},
    };

    check_all("Set-Cookie", pairs);
}
END_TEST

START_TEST(other_fields_are_not_looked_at)
{
    static const char *const pairs[][2] = {{"https://api.test/; Secure", "https://api.test/; Secure"}, {NULL, NULL}};

    check_all("Link", pairs);
    check_all("X-Location", pairs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rewrite");
    TCase *tcase = tcase_create("fields");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, a_redirect_to_a_host_we_serve_stays_here);
    tcase_add_test(tcase, any_other_redirect_is_left_alone);
    tcase_add_test(tcase, a_cookie_loses_secure_and_nothing_else);
    tcase_add_test(tcase, other_fields_are_not_looked_at);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
