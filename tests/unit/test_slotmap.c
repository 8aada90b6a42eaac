/* links: src/redis/slotmap.c src/redis/resp.c src/base/str.c src/base/mem.c src/base/must.c */
#include "redis/slotmap.h"

#include "redis/resp.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a real server answers to CLUSTER KEYSLOT. */
START_TEST(keys_are_in_the_slots_that_redis_says)
{
    static const struct {
        const char *key;
        unsigned slot;
    } cases[] = {
        {"", 0},
        {"foo", 12182},
        {"123456789", 12739},
        {"{foo}bar", 12182},
        {"sluice:{foo}:b", 12182},
        {"a{foo}b{bar}", 12182},
        {"{}foo", 9500},
        {"{foo", 13308},
        {"foo}", 15679},
        {"{{foo}", 13308},
        {"foo{}{bar}", 8363},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(slotmap_slot(cases[i].key) == cases[i].slot, "%s: %u", cases[i].key, slotmap_slot(cases[i].key));
    }
}
END_TEST

/* ---- replies ---- */

static struct redisReply *reply_of(const char *bytes)
{
    struct resp *resp = resp_new();
    struct redisReply *reply;
    const char *why;

    resp_feed(resp, bytes, strlen(bytes));
    ck_assert_int_eq(resp_next(resp, &reply, &why), RESP_REPLY);
    resp_free(resp);
    return reply;
}

static char ranges[512];

static void note(void *arg, const struct slotmap_range *range)
{
    (void)arg;
    size_t used = strlen(ranges);
    snprintf(ranges + used, sizeof(ranges) - used, "%u-%u %s:%u;", range->first, range->last, range->host, range->port);
}

static bool read_map(const char *bytes)
{
    struct redisReply *reply = reply_of(bytes);
    ranges[0] = '\0';
    bool good = slotmap_read(reply, note, NULL);
    freeReplyObject(reply);
    return good;
}

#define SERVER(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"
#define RANGE(first, last, count, servers) "*" count "\r\n:" first "\r\n:" last "\r\n" servers

START_TEST(a_map_names_the_primary_of_every_range)
{
    ck_assert(read_map("*0\r\n"));
    ck_assert_str_eq(ranges, "");
    ck_assert(read_map("*2\r\n" RANGE("0", "5460", "4", SERVER("$2\r\n::\r\n", "7000") SERVER("$1\r\nb\r\n", "7001"))
                           RANGE("5461", "16383", "3", SERVER("$-1\r\n", "7002"))));
    ck_assert_str_eq(ranges, "0-5460 :::7000;5461-16383 :7002;");
}
END_TEST

START_TEST(a_range_without_a_server_that_can_be_used_is_left_out)
{
    ck_assert(read_map("*3\r\n" RANGE("0", "1", "2", "") RANGE("2", "3", "3", SERVER("$1\r\n?\r\n", "7000"))
                           RANGE("4", "5", "3", SERVER("$1\r\na\r\n", "0"))));
    ck_assert_str_eq(ranges, "");
}
END_TEST

START_TEST(what_is_no_map_is_refused)
{
    static const char *const cases[] = {
        "+OK\r\n",
        ":1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*1\r\n:1\r\n",
        "*1\r\n" RANGE("0", "16384", "3", SERVER("$1\r\na\r\n", "1")),
        "*1\r\n" RANGE("-1", "5", "3", SERVER("$1\r\na\r\n", "1")),
        "*1\r\n" RANGE("5", "4", "3", SERVER("$1\r\na\r\n", "1")),
        "*1\r\n*3\r\n$1\r\n0\r\n:5\r\n" SERVER("$1\r\na\r\n", "1"),
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(!read_map(cases[i]), "%s", cases[i]);
    }
}
END_TEST

START_TEST(redirections_are_read_and_odd_ones_refused)
{
    static const struct {
        const char *bytes, *range;
    } cases[] = {
        {"-MOVED 3999 127.0.0.1:6381\r\n", "3999-3999 127.0.0.1:6381;"},
        {"-ASK 0 redis.example:1\r\n", "0-0 redis.example:1;"},
        {"-MOVED 16383 ::1:7000\r\n", "16383-16383 ::1:7000;"},
        {"-MOVED 5 :7000\r\n", "5-5 :7000;"},
        {"-MOVED 5 h:7000 more words\r\n", "5-5 h:7000;"},
        {"-MOVED 16384 h:1\r\n", NULL},
        {"-MOVED -1 h:1\r\n", NULL},
        {"-MOVED 5 h:0\r\n", NULL},
        {"-MOVED 5 h:65536\r\n", NULL},
        {"-MOVED 5 h:\r\n", NULL},
        {"-MOVED 5 ?:1\r\n", NULL},
        {"-MOVED 5 h\r\n", NULL},
        {"-MOVED 5\r\n", NULL},
        {"-MOVED\r\n", NULL},
        {"+MOVED 5 h:1\r\n", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct redisReply *reply = reply_of(cases[i].bytes);
        struct slotmap_range range;
        bool good = slotmap_read_redirection(reply, &range);
        freeReplyObject(reply);
        ck_assert_msg(good == (cases[i].range != NULL), "%s", cases[i].bytes);
        if (good) {
            ranges[0] = '\0';
            note(NULL, &range);
            ck_assert_str_eq(ranges, cases[i].range);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slotmap");
    TCase *tcase = tcase_create("slotmap");

    tcase_add_test(tcase, keys_are_in_the_slots_that_redis_says);
    tcase_add_test(tcase, a_map_names_the_primary_of_every_range);
    tcase_add_test(tcase, a_range_without_a_server_that_can_be_used_is_left_out);
    tcase_add_test(tcase, what_is_no_map_is_refused);
    tcase_add_test(tcase, redirections_are_read_and_odd_ones_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
