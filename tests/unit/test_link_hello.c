/* links: tests/unit/fake_redis.c src/redis/link.c src/redis/node.c src/redis/cluster.c src/redis/slotmap.c src/redis/sentinel.c src/redis/inquiry.c src/conf/redis_conf.c src/redis/flight.c src/redis/backoff.c src/redis/hello.c src/redis/resp.c src/redis/reply.c src/redis/script.c src/redis/command.c src/redis/transport.c src/redis/lookup.c src/redis/secure.c src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c src/base/loop.c src/base/clock.c src/base/histogram.c src/base/err.c */
/* The link's handshake and the servers that it must refuse. */
#include "fake_redis.h"

#include "base/mem.h"

#include <stdlib.h>

static struct fake *fake;

static void setup(void)
{
    fake = fake_new();
}
static void teardown(void)
{
    fake_free(fake);
}

static void assert_refused(const char *why)
{
    fake_start(fake);
    fake_until(fake, fake->accepted == 3);
    ck_assert_str_eq(fake->logged_why, why);
    ck_assert_int_eq(fake->logged_down, 1); /* not once per retry */
    ck_assert_int_eq(fake->ups, 0);
    ck_assert_int_eq(fake->downs, 0);
}

#define REFUSAL(name, which, answer, why)                                                                              \
    START_TEST(name)                                                                                                   \
    {                                                                                                                  \
        fake->which = answer;                                                                                          \
        assert_refused(why);                                                                                           \
    }                                                                                                                  \
    END_TEST

REFUSAL(a_replica_is_refused, role, "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$9\r\nconnected\r\n:0\r\n",
        "not the primary")
REFUSAL(a_sentinel_is_refused, role, "*2\r\n$8\r\nsentinel\r\n*0\r\n", "not the primary")
REFUSAL(an_empty_role_is_refused, role, "*0\r\n", "not the primary")
REFUSAL(a_role_that_is_no_list_is_refused, role, "+master\r\n", "not the primary")
REFUSAL(a_role_of_a_number_is_refused, role, "*1\r\n:1\r\n", "not the primary")
REFUSAL(a_missing_password_is_named, name, "-NOAUTH Authentication required.\r\n", "a password is required (NOAUTH)")
REFUSAL(a_server_that_loads_its_data_is_named, select, "-LOADING Redis is loading the dataset in memory\r\n",
        "SELECT refused: LOADING")
REFUSAL(a_database_out_of_range_is_named, select, "-ERR DB index is out of range\r\n", "SELECT refused: ERR")
REFUSAL(a_select_answered_by_something_else_is_refused, select, ":1\r\n", "unexpected answer to the handshake")
REFUSAL(a_right_that_is_missing_is_named, info, "-NOPERM this user has no permissions\r\n", "INFO refused: NOPERM")
REFUSAL(an_error_without_a_code_is_refused, info, "-\r\n", "INFO refused: error")
REFUSAL(info_without_a_run_id_is_refused, info, "$8\r\n# Server\r\n", "no run_id in INFO")
REFUSAL(info_of_another_type_is_refused, info, "*0\r\n", "no run_id in INFO")
REFUSAL(a_short_run_id_is_refused, info, "$14\r\nrun_id:0123abc\r\n", "no run_id in INFO")
REFUSAL(a_long_run_id_is_refused, info, "$48\r\nrun_id:" FAKE_RUN_ID "0\r\n", "no run_id in INFO")
REFUSAL(a_run_id_that_is_not_hexadecimal_is_refused, info, "$47\r\nrun_id:0123456789abcdef0123456789abcdef0123456g\r\n",
        "no run_id in INFO")
REFUSAL(a_script_that_does_not_compile_is_named, load, "-ERR Error compiling script\r\n", "SCRIPT LOAD refused: ERR")
REFUSAL(a_server_busy_with_a_script_is_named, load, "-BUSY Redis is busy running a script\r\n",
        "SCRIPT LOAD refused: BUSY")
REFUSAL(a_server_that_speaks_something_else_is_refused, name, "HTTP/1.1 400 Bad Request\r\n\r\n",
        "bytes that are not RESP")
REFUSAL(a_server_in_protected_mode_is_named, name, "-DENIED Redis is running in protected mode\r\n",
        "CLIENT SETNAME refused: DENIED")

START_TEST(a_wrong_password_is_named)
{
    fake->conf.password = mem_strdup("x");
    fake->auth = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_refused("wrong user or password (WRONGPASS)");
}
END_TEST

START_TEST(a_server_without_password_is_named_without_quoting_ours)
{
    fake->conf.password = mem_strdup("hush");
    fake->auth = "-ERR unknown command `AUTH`, with args beginning with: `hush`\r\n";
    assert_refused("AUTH refused: ERR");
}
END_TEST

START_TEST(a_new_reason_is_logged_again)
{
    fake->role = "+x\r\n";
    fake_start(fake);
    fake_until(fake, fake->logged_down == 1);
    fake->role = NULL;
    fake->info = "*0\r\n";
    fake_until(fake, fake->logged_down == 2);
    ck_assert_str_eq(fake->logged_why, "no run_id in INFO");
    fake->info = NULL;
    fake_until(fake, fake->ups == 1);
}
END_TEST

START_TEST(an_answer_too_many_in_the_handshake_drops_the_link)
{
    fake->load =
        "$40\r\n9216e5ee9cc0a828c4eb1ca4c725e3091dd17740\r\n$40\r\nb7ac6454df41a85df39e338f3e08cce31719ab72\r\n";
    fake_start(fake);
    fake_until(fake, fake->downs == 1);
    ck_assert_int_eq(fake->ups, 1);
    ck_assert_str_eq(fake->why, "a reply to nothing that was asked");
}
END_TEST

#define ADD(name) tcase_add_test(tc, name)

static void add_refusals(TCase *tc)
{
    ADD(a_replica_is_refused);
    ADD(a_sentinel_is_refused);
    ADD(an_empty_role_is_refused);
    ADD(a_role_that_is_no_list_is_refused);
    ADD(a_role_of_a_number_is_refused);
    ADD(a_missing_password_is_named);
    ADD(a_server_that_loads_its_data_is_named);
    ADD(a_database_out_of_range_is_named);
    ADD(a_select_answered_by_something_else_is_refused);
    ADD(a_right_that_is_missing_is_named);
    ADD(an_error_without_a_code_is_refused);
    ADD(info_without_a_run_id_is_refused);
    ADD(info_of_another_type_is_refused);
    ADD(a_short_run_id_is_refused);
    ADD(a_long_run_id_is_refused);
    ADD(a_run_id_that_is_not_hexadecimal_is_refused);
    ADD(a_script_that_does_not_compile_is_named);
    ADD(a_server_busy_with_a_script_is_named);
    ADD(a_server_that_speaks_something_else_is_refused);
    ADD(a_server_in_protected_mode_is_named);
    ADD(a_wrong_password_is_named);
    ADD(a_server_without_password_is_named_without_quoting_ours);
    ADD(a_new_reason_is_logged_again);
    ADD(an_answer_too_many_in_the_handshake_drops_the_link);
}

int main(void)
{
    Suite *suite = suite_create("link_hello");
    TCase *tc = tcase_create("hello");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 20);
    add_refusals(tc);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
