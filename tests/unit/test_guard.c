/* links: src/admin/guard.c src/base/addr.c src/base/str.c src/base/err.c src/base/mem.c src/base/must.c */
/* Who may look and act. */
#include "admin/guard.h"

#include "base/mem.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char token[] = "0123456789abcdef";

START_TEST(only_the_whole_token_is_known)
{
    ck_assert(guard_knows_token("Bearer 0123456789abcdef", token));
    ck_assert(guard_knows_token("bearer 0123456789abcdef", token));
    ck_assert(!guard_knows_token(NULL, token));
    ck_assert(!guard_knows_token("", token));
    ck_assert(!guard_knows_token("Bearer ", token));
    ck_assert(!guard_knows_token("Bearer 0123456789abcde", token));
    ck_assert(!guard_knows_token("Bearer 0123456789abcdeff", token));
    ck_assert(!guard_knows_token("Bearer  0123456789abcdef", token));
    ck_assert(!guard_knows_token("Basic 0123456789abcdef", token));
    ck_assert(!guard_knows_token("0123456789abcdef", token));
}
END_TEST

START_TEST(a_name_that_a_web_site_could_have_is_not_our_host)
{
    ck_assert(guard_is_own_host(NULL));
    ck_assert(guard_is_own_host("127.0.0.1"));
    ck_assert(guard_is_own_host("127.0.0.1:3129"));
    ck_assert(guard_is_own_host("[::1]:3129"));
    ck_assert(guard_is_own_host("localhost"));
    ck_assert(guard_is_own_host("LocalHost:3129"));
    ck_assert(!guard_is_own_host(""));
    ck_assert(!guard_is_own_host("rebound.example"));
    ck_assert(!guard_is_own_host("rebound.example:3129"));
    ck_assert(!guard_is_own_host("localhost.example:3129"));
    ck_assert(!guard_is_own_host("127.0.0.1.example"));
}
END_TEST

static bool may(const char *type, const char *origin, const char *host, const char *site)
{
    return guard_is_own_post(&(struct guard_post){type, origin, host, site});
}

START_TEST(a_post_must_say_that_it_is_json)
{
    ck_assert(may("application/json", NULL, "127.0.0.1:3129", NULL));
    ck_assert(may("application/json; charset=utf-8", NULL, "127.0.0.1:3129", NULL));
    ck_assert(!may(NULL, NULL, "127.0.0.1:3129", NULL));
    ck_assert(!may("text/plain", NULL, "127.0.0.1:3129", NULL));
    ck_assert(!may("application/jsonp", NULL, "127.0.0.1:3129", NULL));
    ck_assert(!may("text/plain; application/json", NULL, "127.0.0.1:3129", NULL));
    ck_assert(!may("application/x-www-form-urlencoded", NULL, "127.0.0.1:3129", NULL));
}
END_TEST

START_TEST(another_sites_page_may_not_post)
{
    static const char json[] = "application/json";

    ck_assert(may(json, "http://127.0.0.1:3129", "127.0.0.1:3129", "same-origin"));
    ck_assert(may(json, "https://ops.example", "ops.example", NULL));
    ck_assert(!may(json, "http://evil.example", "127.0.0.1:3129", NULL));
    ck_assert(!may(json, "http://127.0.0.1:8080", "127.0.0.1:3129", NULL));
    ck_assert(!may(json, "null", "127.0.0.1:3129", NULL));
    ck_assert(!may(json, "http://127.0.0.1:3129", NULL, NULL));
    ck_assert(!may(json, NULL, "127.0.0.1:3129", "cross-site"));
    ck_assert(!may(json, NULL, "127.0.0.1:3129", "same-site"));
    ck_assert(may(json, NULL, "127.0.0.1:3129", "none"));
}
END_TEST

/* What is read from a file with these bytes; NULL and one line of error where it is no token. */
static char *read_back(const char *bytes, size_t len)
{
    char path[] = "/tmp/sluice-token-XXXXXX";
    int fd = mkstemp(path);
    struct err err = {0};

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    close(fd);
    char *found = guard_read_token(path, &err);
    unlink(path);
    ck_assert_uint_eq(err.count, found == NULL ? 1 : 0);
    err_fini(&err);
    return found;
}

static void expect_token(const char *bytes, const char *wanted)
{
    char *found = read_back(bytes, strlen(bytes));

    if (wanted == NULL) {
        ck_assert_ptr_null(found);
    } else {
        ck_assert_ptr_nonnull(found);
        ck_assert_str_eq(found, wanted);
    }
    mem_free(found);
}

START_TEST(the_token_is_the_first_line_of_its_file)
{
    expect_token("0123456789abcdef", token);
    expect_token("0123456789abcdef\n", token);
    expect_token("  0123456789abcdef \r\nsecond line\n", token);
}
END_TEST

START_TEST(a_token_that_is_short_or_no_text_is_refused)
{
    struct err err = {0};

    expect_token("", NULL);
    expect_token("\n0123456789abcdef\n", NULL);
    expect_token("0123456789abcde\n", NULL);
    expect_token("0123456789 abcdef\n", NULL);
    ck_assert_ptr_null(read_back("0123456789abcde\0f", 17));
    ck_assert_ptr_null(guard_read_token("/nonexistent/token", &err));
    ck_assert_uint_eq(err.count, 1);
    ck_assert_ptr_nonnull(strstr(err.lines[0], "/nonexistent/token"));
    err_fini(&err);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("guard");
    TCase *tcase = tcase_create("who");

    tcase_add_test(tcase, only_the_whole_token_is_known);
    tcase_add_test(tcase, a_name_that_a_web_site_could_have_is_not_our_host);
    tcase_add_test(tcase, a_post_must_say_that_it_is_json);
    tcase_add_test(tcase, another_sites_page_may_not_post);
    tcase_add_test(tcase, the_token_is_the_first_line_of_its_file);
    tcase_add_test(tcase, a_token_that_is_short_or_no_text_is_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
