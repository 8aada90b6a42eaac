/* links: src/base/err.c src/base/mem.c src/base/must.c */
#include "base/err.h"

#include <check.h>
#include <string.h>
#include <unistd.h>

START_TEST(nothing_wrong_is_the_zero_value)
{
    struct err err = {0};

    ck_assert(!err_any(&err));
    err_fini(&err);
}
END_TEST

START_TEST(lines_are_kept_in_order)
{
    struct err err = {0};

    for (int i = 0; i < 100; i++) {
        err_add(&err, "line %d: %s", i, "wrong");
    }
    ck_assert(err_any(&err));
    ck_assert_uint_eq(err.count, 100);
    ck_assert_str_eq(err.lines[0], "line 0: wrong");
    ck_assert_str_eq(err.lines[99], "line 99: wrong");
    err_fini(&err);
    ck_assert_uint_eq(err.count, 0);
    ck_assert_ptr_null(err.lines);
}
END_TEST

START_TEST(a_quoted_value_cannot_break_its_line)
{
    struct err err = {0};

    err_add(&err, "value \"%s\"", "a\nb\r\033[31m\x7f\xc3\xa9");
    ck_assert_str_eq(err.lines[0], "value \"a?b??[31m?\xc3\xa9\"");
    err_fini(&err);
}
END_TEST

START_TEST(printing_puts_each_line_after_the_prefix_on_standard_error)
{
    struct err err = {0};
    int pipe_fds[2], saved = dup(STDERR_FILENO);
    char text[256] = "";

    ck_assert_int_eq(pipe(pipe_fds), 0);
    err_add(&err, "one");
    err_add(&err, "two");
    dup2(pipe_fds[1], STDERR_FILENO);
    err_print(&err, "sluice: ");
    dup2(saved, STDERR_FILENO);
    close(pipe_fds[1]);
    ck_assert_int_gt(read(pipe_fds[0], text, sizeof(text) - 1), 0);
    /* standard error is unbuffered: pieces may come in several writes, but all are in the pipe */
    for (size_t len = strlen(text); read(pipe_fds[0], text + len, sizeof(text) - 1 - len) > 0; len = strlen(text)) {
    }
    ck_assert_str_eq(text, "sluice: one\nsluice: two\n");
    close(pipe_fds[0]);
    close(saved);
    err_fini(&err);
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("err");
    TCase *tc = tcase_create("err");

    tcase_add_test(tc, nothing_wrong_is_the_zero_value);
    tcase_add_test(tc, lines_are_kept_in_order);
    tcase_add_test(tc, a_quoted_value_cannot_break_its_line);
    tcase_add_test(tc, printing_puts_each_line_after_the_prefix_on_standard_error);
    suite_add_tcase(all, tc);
    return all;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());

    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
