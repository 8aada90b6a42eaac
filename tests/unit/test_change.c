/* links: src/conf/ src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c */
/* What differs between two settings, and what stays as it is until a restart. */
#include "conf/change.h"
#include "conf/load.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char told[4096];

static void note(void *arg, const struct change *change)
{
    size_t len = strlen(told);
    unsigned *count = arg;

    (*count)++;
    snprintf(told + len, sizeof(told) - len, "[%s] %s: %s -> %s%s\n", change->section,
             change->key != NULL ? change->key : "*", change->from, change->to, change->live ? "" : " (restart)");
}

static struct conf *load(const char *text)
{
    struct err err = {0};
    struct conf *conf = conf_load_text("s.ini", text, strlen(text), &err, NULL);

    err_print(&err, "");
    ck_assert_ptr_nonnull(conf);
    err_fini(&err);
    return conf;
}

static unsigned compare(const char *from, const char *to)
{
    struct conf *old = load(from), *new = load(to);
    unsigned count = 0;

    told[0] = '\0';
    change_each(old, new, note, &count);
    conf_free(old);
    conf_free(new);
    return count;
}

START_TEST(another_spelling_is_no_difference)
{
    ck_assert_uint_eq(compare("[proxy]\nhead_timeout = 1s\n[destination a.example]\nrate = 1/s\n",
                              "# so\n[destination A.example]\nrate = 1/s\n[proxy]\nhead_timeout = 1000ms\n"),
                      0);
}
END_TEST

START_TEST(what_is_inherited_is_told_once)
{
    ck_assert_uint_eq(compare("[default]\nrate = 10/s\n[destination a]\n[destination b]\nrate = 3/s\n",
                              "[default]\nrate = 20/s\n[destination a]\n[destination b]\nrate = 4/s\n"),
                      2);
    ck_assert_str_eq(told, "[default] rate: 10/s -> 20/s\n[destination b] rate: 3/s -> 4/s\n");
}
END_TEST

START_TEST(sections_come_and_go)
{
    ck_assert_uint_eq(compare("[destination a]\n", "[destination b]\n"), 2);
    ck_assert_str_eq(told, "[destination b] *:  -> there\n[destination a] *: there -> \n");
}
END_TEST

START_TEST(a_route_tells_only_what_is_its_own)
{
    static const char from[] = "[destination a]\nrate = 5/s\n[route r]\ndestination = a\nmatch = /x/*\nrate = 2/s\n";
    static const char to[] = "[destination a]\nrate = 5/s\nmax_wait = 9s\n[route r]\ndestination = a\nmatch = /y/*\nrate = 3/s\n"
                             "[route s]\ndestination = a\nmatch = /z\n";

    unsigned count = compare(from, to);
    ck_assert_str_eq(told, "[destination a] max_wait: 30s -> 9s\n[route r] rate: 2/s -> 3/s\n"
                           "[route r] match: /x/* -> /y/*\n[route s] *:  -> there\n");
    ck_assert_uint_eq(count, 4);
}
END_TEST

START_TEST(hosts_and_lists_are_compared_as_they_are_written)
{
    ck_assert_uint_eq(compare("[proxy]\nconnect_ports = 443\n[destination a]\nhosts = x.example\n",
                              "[proxy]\nconnect_ports = 443, 8443\n[destination a]\nhosts = x.example, *.y.example:81\n"),
                      2);
    ck_assert_str_eq(told, "[proxy] connect_ports: 443 -> 443, 8443\n"
                           "[destination a] hosts: x.example -> x.example, *.y.example:81\n");
}
END_TEST

START_TEST(places_and_their_limits_are_compared_by_name)
{
    static const char place[] = "[inbound api]\nlisten = 127.0.0.1:8080\nupstream = http://127.0.0.1:9000\nrate = ";
    char from[512], to[512];

    snprintf(from, sizeof(from), "%s5/s\n[inbound-rule x]\nrate = 1/s\n", place);
    snprintf(to, sizeof(to), "%s6/s\n[inbound-rule x]\nrate = 2/s\n[inbound-rule y]\n", place);
    unsigned count = compare(from, to);
    ck_assert_str_eq(told, "[inbound api] rate: 5/s -> 6/s\n[inbound api] capacity: 5 -> 6\n"
                           "[inbound-rule x] rate: 1/s -> 2/s\n[inbound-rule x] capacity: 1 -> 2\n"
                           "[inbound-rule y] *:  -> there\n");
    ck_assert_uint_eq(count, 5);
}
END_TEST

START_TEST(a_password_is_compared_but_not_shown)
{
    ck_assert_uint_eq(compare("[redis]\nurl = redis://u:one@h\n", "[redis]\nurl = redis://u:two@h\n"), 1);
    ck_assert_ptr_null(strstr(told, "one"));
    ck_assert_ptr_null(strstr(told, "two"));
    ck_assert_ptr_nonnull(strstr(told, "(restart)"));
}
END_TEST

START_TEST(what_cant_be_changed_live_stays_as_it_is)
{
    struct conf *running = load("[proxy]\nlog_file = /a\nresolver_threads = 3\nhead_timeout = 1s\n"
                                "[redis]\nurl = redis://h\n");
    struct conf *next = load("[proxy]\nlog_file = /b\nresolver_threads = 5\nhead_timeout = 2s\n[admin]\n");

    change_keep_fixed(running, next);
    ck_assert_str_eq(next->proxy.log_file, "/a");
    ck_assert_int_eq(next->proxy.resolver_threads, 3);
    ck_assert_int_eq(next->proxy.head_timeout_us, 2000000);
    ck_assert_str_eq(next->redis.host, "h");
    ck_assert_uint_eq(next->admin.listen_count, 0);
    conf_free(running);
    conf_free(next);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("change");
    TCase *all = tcase_create("all");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(all, another_spelling_is_no_difference);
    tcase_add_test(all, what_is_inherited_is_told_once);
    tcase_add_test(all, sections_come_and_go);
    tcase_add_test(all, a_route_tells_only_what_is_its_own);
    tcase_add_test(all, hosts_and_lists_are_compared_as_they_are_written);
    tcase_add_test(all, places_and_their_limits_are_compared_by_name);
    tcase_add_test(all, a_password_is_compared_but_not_shown);
    tcase_add_test(all, what_cant_be_changed_live_stays_as_it_is);
    suite_add_tcase(suite, all);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
