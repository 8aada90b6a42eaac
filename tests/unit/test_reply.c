/* links: src/redis/reply.c src/redis/resp.c src/base/mem.c src/base/must.c */
#include "redis/resp.h"
#include "redis/reply.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

/* The one reply that `bytes` are. */
static redisReply *parse(const char *bytes)
{
    struct resp *resp = resp_new();
    redisReply *reply = NULL, *more = NULL;
    const char *why;

    resp_feed(resp, bytes, strlen(bytes));
    ck_assert_int_eq(resp_next(resp, &reply, &why), RESP_REPLY);
    ck_assert_int_eq(resp_next(resp, &more, &why), RESP_MORE);
    resp_free(resp);
    return reply;
}

static const struct {
    const char *bytes;
    enum reply_kind kind;
    const char *code;
} cases[] = {
    {"+OK\r\n", REPLY_FINE, ""},
    {":1\r\n", REPLY_FINE, ""},
    {"$-1\r\n", REPLY_FINE, ""},
    {"*-1\r\n", REPLY_FINE, ""},
    {"+READONLY\r\n", REPLY_FINE, ""},
    {"$8\r\nREADONLY\r\n", REPLY_FINE, ""},
    {"-\r\n", REPLY_ERROR, ""},
    {"-err lower case\r\n", REPLY_ERROR, ""},
    {"-ERR unknown command\r\n", REPLY_ERROR, "ERR"},
    {"-WRONGTYPE Operation against a key\r\n", REPLY_ERROR, "WRONGTYPE"},
    {"-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n", REPLY_ERROR, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
    {"-NOSCRIPT No matching script\r\n", REPLY_NOSCRIPT, "NOSCRIPT"},
    {"-READONLY\r\n", REPLY_CANT_SERVE, "READONLY"},
    {"-NOREPLICAS Not enough good replicas to write.\r\n", REPLY_CANT_SERVE, "NOREPLICAS"},
    {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", REPLY_CANT_SERVE, "OOM"},
    {"-LOADING Redis is loading\r\n", REPLY_CANT_SERVE, "LOADING"},
    {"-BUSY Redis is busy running a script.\r\n", REPLY_CANT_SERVE, "BUSY"},
    {"-BUSYGROUP Consumer Group name already exists\r\n", REPLY_ERROR, "BUSYGROUP"},
    {"-MASTERDOWN Link with MASTER is down\r\n", REPLY_CANT_SERVE, "MASTERDOWN"},
    {"-CLUSTERDOWN Hash slot not served\r\n", REPLY_CANT_SERVE, "CLUSTERDOWN"},
    {"-MISCONF Redis is configured to save RDB snapshots\r\n", REPLY_CANT_SERVE, "MISCONF"},
    {"-NOAUTH Authentication required.\r\n", REPLY_CANT_SERVE, "NOAUTH"},
    {"-NOPERM this user has no permissions\r\n", REPLY_CANT_SERVE, "NOPERM"},
    {"-ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed\r\n", REPLY_CANT_SERVE, "OOM"},
    {"-ERR Error running script (call to f_1): @user_script:1: user_script:1: bug\r\n", REPLY_ERROR, "ERR"},
    {"-ERR Error running script (call to f_1): @user_script:1: -NOSCRIPT inner\r\n", REPLY_ERROR, "NOSCRIPT"},
    {"-ERR said: -OOM\r\n", REPLY_ERROR, "ERR"},
};

START_TEST(a_reply_is_judged_by_its_code)
{
    char code[REPLY_CODE_BYTES];
    redisReply *reply = parse(cases[_i].bytes);

    ck_assert_int_eq(reply_judge(reply, code), cases[_i].kind);
    ck_assert_str_eq(code, cases[_i].code);
    freeReplyObject(reply);
}
END_TEST

static void assert_text(const char *bytes, const char *text, bool is)
{
    redisReply *reply = parse(bytes);
    ck_assert_int_eq(reply_is_text(reply, text), is);
    freeReplyObject(reply);
}

START_TEST(text_is_a_status_or_a_string_and_all_of_it)
{
    assert_text("+OK\r\n", "OK", true);
    assert_text("$2\r\nOK\r\n", "OK", true);
    assert_text("-OK\r\n", "OK", false);
    assert_text(":0\r\n", "", false);
    assert_text("$-1\r\n", "", false);
    assert_text("$0\r\n\r\n", "", true);
    assert_text("+OKAY\r\n", "OK", false);
    assert_text("+O\r\n", "OK", false);
}
END_TEST

START_TEST(a_reply_of_exactly_the_greatest_size_is_taken_and_one_byte_more_is_not)
{
    for (int extra = 0; extra < 2; extra++) {
        struct resp *resp = resp_new();
        redisReply *reply = NULL;
        const char *why = NULL;
        /* "$1048564" CRLF, the bytes, CRLF: 12 bytes around them */
        size_t len = RESP_REPLY_BYTES_MAX - 12 + (size_t)extra;
        char head[16], block[1024];
        memset(block, 'x', sizeof(block));
        snprintf(head, sizeof(head), "$%zu\r\n", len);
        ck_assert_uint_eq(strlen(head), 10);
        resp_feed(resp, head, 10);
        for (size_t left = len; left > 0;) {
            size_t part = left < sizeof(block) ? left : sizeof(block);
            resp_feed(resp, block, part);
            ck_assert_int_eq(resp_next(resp, &reply, &why), RESP_MORE);
            left -= part;
        }
        resp_feed(resp, "\r\n:1\r\n", 6); /* the one that follows doesn't count */
        ck_assert_int_eq(resp_next(resp, &reply, &why), extra == 0 ? RESP_REPLY : RESP_BROKEN);
        if (extra == 0) {
            ck_assert_uint_eq((size_t)reply->len, len);
            freeReplyObject(reply);
            ck_assert_int_eq(resp_next(resp, &reply, &why), RESP_REPLY);
            freeReplyObject(reply);
        } else {
            ck_assert_str_eq(why, "reply too large");
        }
        resp_free(resp);
    }
}
END_TEST

START_TEST(many_small_replies_are_no_large_one)
{
    struct resp *resp = resp_new();
    redisReply *reply = NULL;
    const char *why;

    for (int i = 0; i < 300000; i++) {
        resp_feed(resp, "*2\r\n:1\r\n:2\r\n", 12);
        ck_assert_int_eq(resp_next(resp, &reply, &why), RESP_REPLY);
        freeReplyObject(reply);
    }
    resp_free(resp);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reply");
    TCase *tc = tcase_create("reply");

    tcase_set_timeout(tc, 20);
    tcase_add_loop_test(tc, a_reply_is_judged_by_its_code, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tc, text_is_a_status_or_a_string_and_all_of_it);
    tcase_add_test(tc, a_reply_of_exactly_the_greatest_size_is_taken_and_one_byte_more_is_not);
    tcase_add_test(tc, many_small_replies_are_no_large_one);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
