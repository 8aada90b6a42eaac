/* links: src/proxy/tunnels.c src/base/mem.c src/base/must.c src/base/buf.c */
#include "proxy/tunnels.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

START_TEST(no_more_than_the_limit_may_be_open_per_destination)
{
    struct tunnels *tunnels = tunnels_new();
    struct tunnels_of *a = tunnels_enter(tunnels, "a", 2);

    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_eq(tunnels_enter(tunnels, "a", 2), a);
    ck_assert_ptr_null(tunnels_enter(tunnels, "a", 2));
    ck_assert_ptr_nonnull(tunnels_enter(tunnels, "b", 1));
    tunnels_leave(tunnels, a);
    ck_assert_ptr_eq(tunnels_enter(tunnels, "a", 2), a);
    tunnels_free(tunnels);
}
END_TEST

START_TEST(what_is_said_once_is_said_once_though_all_tunnels_closed)
{
    struct tunnels *tunnels = tunnels_new();
    struct tunnels_of *of = tunnels_enter(tunnels, "a", 1);

    ck_assert(tunnels_first_h2(of));
    tunnels_leave(tunnels, of);
    ck_assert(!tunnels_first_h2(tunnels_enter(tunnels, "a", 1)));
    tunnels_free(tunnels);
}
END_TEST

START_TEST(very_many_destinations_are_forgotten_again)
{
    struct tunnels *tunnels = tunnels_new();
    char name[32];
    int first = 0;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20000; i++) {
            snprintf(name, sizeof(name), "host%d", i);
            struct tunnels_of *of = tunnels_enter(tunnels, name, 1);
            ck_assert_ptr_nonnull(of);
            first += tunnels_first_h2(of);
            tunnels_leave(tunnels, of);
        }
    }
    ck_assert_int_gt(first, 20000);
    tunnels_free(tunnels);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tunnels");
    TCase *tcase = tcase_create("counting");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, no_more_than_the_limit_may_be_open_per_destination);
    tcase_add_test(tcase, what_is_said_once_is_said_once_though_all_tunnels_closed);
    tcase_add_test(tcase, very_many_destinations_are_forgotten_again);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
