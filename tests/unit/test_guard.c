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

static bool knows(const char *authorization)
{
    struct guard_tokens tokens = {.list = {{(char *)"ann", (char *)"another-token-of-ours"}, {(char *)"bob", (char *)token}}, .count = 2};
    const char *name = guard_find_token(authorization, &tokens);

    ck_assert(name == NULL || strcmp(name, "bob") == 0);
    return name != NULL;
}

START_TEST(only_the_whole_token_is_known)
{
    ck_assert(knows("Bearer 0123456789abcdef"));
    ck_assert(knows("bearer 0123456789abcdef"));
    ck_assert(!knows(NULL));
    ck_assert(!knows(""));
    ck_assert(!knows("Bearer "));
    ck_assert(!knows("Bearer 0123456789abcde"));
    ck_assert(!knows("Bearer 0123456789abcdeff"));
    ck_assert(!knows("Bearer  0123456789abcdef"));
    ck_assert(!knows("Basic 0123456789abcdef"));
    ck_assert(!knows("0123456789abcdef"));
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

/* "NAME=TOKEN ..." of what is read from a file with these bytes; "" and one line of error where it is refused. */
static void expect_tokens(const char *bytes, size_t len, const char *wanted)
{
    char path[] = "/tmp/sluice-token-XXXXXX", text[1024] = "";
    int fd = mkstemp(path);
    struct guard_tokens tokens;
    struct err err = {0};

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    close(fd);
    bool good = guard_read_tokens(path, &tokens, &err);
    unlink(path);
    ck_assert_uint_eq(err.count, good ? 0 : 1);
    for (unsigned i = 0; good && i < tokens.count; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "%s%s=%s", i > 0 ? " " : "", tokens.list[i].name, tokens.list[i].token);
    }
    ck_assert_str_eq(text, wanted);
    err_fini(&err);
    if (good) {
        guard_free_tokens(&tokens);
    }
}

START_TEST(a_file_has_a_token_on_each_line_with_a_name_or_without)
{
    static const char *const same[] = {"0123456789abcdef", "0123456789abcdef\n", "# for the page\n\n  0123456789abcdef \r\n"};

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        expect_tokens(same[i], strlen(same[i]), "token=0123456789abcdef");
    }
    expect_tokens("ann 0123456789abcdef\nbob\t0123456789ABCDEF\n", 42, "ann=0123456789abcdef bob=0123456789ABCDEF");
}
END_TEST

START_TEST(a_token_that_is_short_or_no_text_is_refused)
{
    static const char *const bad[] = {"", "# nothing\n", "0123456789abcde\n", "ann bob 0123456789abcdef\n",
                                      "0123456789abcdef\nshort\n", "0123456789abcde\xc3\xa4\n"};
    struct guard_tokens tokens;
    struct err err = {0};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_tokens(bad[i], strlen(bad[i]), "");
    }
    expect_tokens("0123456789abcde\0f", 17, "");
    ck_assert(!guard_read_tokens("/nonexistent/token", &tokens, &err));
    ck_assert_uint_eq(err.count, 1);
    ck_assert_ptr_nonnull(strstr(err.lines[0], "/nonexistent/token"));
    err_fini(&err);
}
END_TEST

START_TEST(more_tokens_than_there_is_room_for_are_refused)
{
    char text[33 * 17 + 1] = "";

    for (int i = 0; i < 33; i++) {
        memcpy(text + 17 * i, "0123456789abcdef\n", 17);
    }
    expect_tokens(text, sizeof(text) - 1, "");
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
    tcase_add_test(tcase, a_file_has_a_token_on_each_line_with_a_name_or_without);
    tcase_add_test(tcase, more_tokens_than_there_is_room_for_are_refused);
    tcase_add_test(tcase, a_token_that_is_short_or_no_text_is_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
