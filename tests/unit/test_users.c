/* links: src/proxy/users.c src/base/err.c src/base/mem.c src/base/must.c src/base/str.c */
#include "proxy/users.h"

#include <check.h>
#include <crypt.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/sluice-users-XXXXXX";

static void write_file(const char *text)
{
    strcpy(path + sizeof(path) - 7, "XXXXXX");
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static struct users *load(const char *text, struct err *err)
{
    write_file(text);
    struct users *users = users_load(path, err);
    unlink(path);
    return users;
}

static struct users *load_one(const char *name, const char *password)
{
    char line[512];
    struct err err = {0};

    snprintf(line, sizeof(line), "# people\n%s:%s\n", name, crypt(password, "$5$rounds=1000$somesalt$"));
    struct users *users = load(line, &err);
    ck_assert_ptr_nonnull(users);
    return users;
}

static bool allow(struct users *users, const char *pair)
{
    char header[512] = "Basic ";

    EVP_EncodeBlock((unsigned char *)header + 6, (const unsigned char *)pair, (int)strlen(pair));
    return users_allow(users, slice_of(header));
}

START_TEST(the_right_password_opens_and_no_other_does)
{
    struct users *users = load_one("ali", "open sesame");

    ck_assert(allow(users, "ali:open sesame"));
    ck_assert(allow(users, "ali:open sesame")); /* remembered */
    ck_assert(!allow(users, "ali:open sesam"));
    ck_assert(!allow(users, "ali:open sesam"));
    ck_assert(!allow(users, "ali:"));
    ck_assert(!allow(users, "baba:open sesame"));
    users_free(users);
}
END_TEST

START_TEST(what_is_not_basic_credentials_is_refused)
{
    struct users *users = load_one("ali", "x");
    static const char *const bad[] = {"",           "Basic",      "Basic ",     "Bearer YWxpOng=", "Basic YWxpOng",
                                      "Basic !!!!", "Basic ====", "Basic AAAA", "Basic YWxp"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!users_allow(users, slice_of(bad[i])), "%s", bad[i]);
    }
    users_free(users);
}
END_TEST

START_TEST(mistakes_in_the_file_are_named_with_their_line)
{
    struct err err = {0};

    ck_assert_ptr_null(load("ali\nbaba:plain\n:x\n", &err));
    ck_assert_uint_eq(err.count, 3);
    ck_assert_ptr_nonnull(strstr(err.lines[0], ":1: "));
    ck_assert_ptr_nonnull(strstr(err.lines[1], ":2: "));
    ck_assert_ptr_nonnull(strstr(err.lines[1], "bcrypt"));
    err_fini(&err);
}
END_TEST

START_TEST(a_file_that_names_nobody_or_is_not_there_is_refused)
{
    struct err err = {0};

    ck_assert_ptr_null(load("# nobody\n", &err));
    ck_assert_ptr_null(users_load("/nonexistent/users", &err));
    ck_assert_uint_eq(err.count, 2);
    err_fini(&err);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("users");
    TCase *tcase = tcase_create("htpasswd");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(tcase, the_right_password_opens_and_no_other_does);
    tcase_add_test(tcase, what_is_not_basic_credentials_is_refused);
    tcase_add_test(tcase, mistakes_in_the_file_are_named_with_their_line);
    tcase_add_test(tcase, a_file_that_names_nobody_or_is_not_there_is_refused);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
