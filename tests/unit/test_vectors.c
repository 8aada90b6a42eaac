/* links: src/outbound/slot.c src/outbound/quota.c src/outbound/grant.c src/base/str.c src/base/mem.c src/base/must.c src/lua/reserve.lua src/lua/settle.lua src/lua/pause.lua src/lua/members.lua tests/sim/fake_redis.c tests/sim/fake_commands.c */
/* tests/vectors/slot.tsv to the arithmetic in C and to the scripts: the same answers, to the microsecond. And what only
 * the scripts do: turns between several askers, expiry, members. */
#include "../sim/fake_redis.h"
#include "base/str.h"
#include "outbound/grant.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0 INT64_C(1700000000000000)
#define I_US 101600
enum { COLUMNS = 14, SLOTS = 256 };

extern const struct script script_reserve, script_settle, script_pause, script_members;

static struct slot_book book;
static struct fake_redis *redis;
static const char *const keys[] = {"s:{a}:e", "s:{a}:b", "s:{a}:w", "s:{a}:m"};

static void setup(void)
{
    memset(&book, 0, sizeof(book));
    redis = fake_redis_new();
}

static void teardown(void)
{
    fake_redis_free(redis);
}

/* ---- the two that are asked ---- */

struct twin {
    void (*ask)(const char *who, const struct slot_ask *ask, int64_t now, struct slot_reply *reply, struct slot *slots);
    bool (*settle)(int64_t first, int64_t tat);
    int64_t (*pause)(int64_t now, int64_t for_us, int64_t most);
};

static void ask_c(const char *who, const struct slot_ask *ask, int64_t now, struct slot_reply *reply,
                  struct slot *slots)
{
    (void)who;
    slot_reserve(&book, ask, (struct rtime){now}, reply, slots);
}

static bool settle_c(int64_t first, int64_t tat)
{
    return slot_settle(&book, first, tat);
}

static int64_t pause_c(int64_t now, int64_t for_us, int64_t most)
{
    return slot_pause(&book, for_us, most, (struct rtime){now}).us;
}

static void ask_lua(const char *who, const struct slot_ask *ask, int64_t now, struct slot_reply *reply,
                    struct slot *slots)
{
    const int64_t numbers[] = {ask->interval_us, ask->late_us, ask->grace_us,
                               ask->horizon_us,  ask->want,    ask->floor_us};
    char text[6][24];
    const char *args[12] = {ask->rid, who};
    const struct grant_limits limits = {ask->rid,        ask->want, ask->interval_us, ask->late_us, ask->grace_us,
                                        ask->horizon_us, 1};

    for (int i = 0; i < 6; i++) {
        snprintf(text[i], sizeof(text[i]), "%" PRId64, numbers[i]);
        args[2 + i] = text[i];
    }
    args[8] = ask->suspect;
    args[9] = "60000";
    args[10] = args[11] = "1";
    fake_redis_set_time(redis, now);
    struct redisReply *got = fake_redis_eval(redis, &script_reserve, keys, 3, args, 12);
    ck_assert(grant_parse(got, &limits, reply, slots));
    ck_assert_int_eq(reply->now_us, now);
    fake_reply_free(got);
}

static int64_t eval_number(const struct script *script, int64_t first, int64_t second, size_t at)
{
    char text[2][24];
    const char *args[] = {text[0], text[1]};

    snprintf(text[0], sizeof(text[0]), "%" PRId64, first);
    snprintf(text[1], sizeof(text[1]), "%" PRId64, second);
    struct redisReply *reply = fake_redis_eval(redis, script, &keys[1], 1, args, 2);
    int64_t number = reply->type == REDIS_REPLY_ARRAY ? reply->element[at]->integer : reply->integer;
    fake_reply_free(reply);
    return number;
}

static bool settle_lua(int64_t first, int64_t tat)
{
    return eval_number(&script_settle, first, tat, 0) == 1;
}

static int64_t pause_lua(int64_t now, int64_t for_us, int64_t most)
{
    fake_redis_set_time(redis, now);
    return eval_number(&script_pause, for_us, most, 1);
}

static const struct twin twin_c = {ask_c, settle_c, pause_c}, twin_lua = {ask_lua, settle_lua, pause_lua};

/* ---- the file ---- */

static int64_t number(const char *text, unsigned line)
{
    uint64_t value;
    ck_assert_msg(str_parse_u64(slice_of(text), &value), "line %u: %s is no number", line, text);
    return (int64_t)value;
}

static void check_ask(const struct twin *twin, char **column, unsigned line)
{
    struct slot slots[SLOTS];
    struct slot_reply reply;
    char said[2048];
    size_t len = 0;
    const struct slot_ask ask = {.rid = column[2],
                                 .interval_us = number(column[3], line),
                                 .late_us = number(column[4], line),
                                 .grace_us = number(column[5], line),
                                 .horizon_us = number(column[6], line),
                                 .want = (unsigned)number(column[7], line),
                                 .floor_us = column[8][0] == '-' ? 0 : T0 + number(column[8], line),
                                 .suspect = column[9][0] == '-' ? "" : column[9]};

    twin->ask("me", &ask, T0 + number(column[1], line), &reply, slots);
    len += (size_t)snprintf(said, sizeof(said), "%s\t%" PRId64 "\t%" PRId64 "\t%s", reply.eid, reply.retry_us,
                            reply.tat_us - T0, reply.count > 0 ? "" : "-");
    for (unsigned i = 0; i < reply.count; i++) {
        len += (size_t)snprintf(said + len, sizeof(said) - len, "%s%" PRId64 "..%" PRId64, i > 0 ? " " : "",
                                slots[i].first_us - T0, slots[i].last_us - T0);
    }
    char wanted[2048];
    snprintf(wanted, sizeof(wanted), "%s\t%s\t%s\t%s", column[10], column[11], column[12], column[13]);
    ck_assert_msg(strcmp(said, wanted) == 0, "line %u: said %s, not %s", line, said, wanted);
}

static void check_line(const struct twin *twin, char **column, unsigned count, unsigned line)
{
    if (strcmp(column[0], "case") == 0) {
        teardown();
        setup();
    } else if (strcmp(column[0], "ask") == 0) {
        ck_assert_uint_eq(count, COLUMNS);
        check_ask(twin, column, line);
    } else if (strcmp(column[0], "settle") == 0) {
        bool back = twin->settle(T0 + number(column[1], line), T0 + number(column[2], line));
        ck_assert_msg(back == (column[3][0] == '1'), "line %u: settle said %d", line, back);
    } else {
        ck_assert_str_eq(column[0], "pause");
        int64_t now = T0 + number(column[1], line);
        int64_t until = twin->pause(now, number(column[2], line), number(column[3], line));
        ck_assert_msg(until == T0 + number(column[4], line), "line %u: pause until %" PRId64, line, until - T0);
    }
}

static unsigned play(const struct twin *twin)
{
    FILE *file = fopen("tests/vectors/slot.tsv", "r");
    char text[4096];
    unsigned line = 0, checked = 0;

    ck_assert_msg(file != NULL, "to be run at the top of the sources");
    while (fgets(text, sizeof(text), file) != NULL) {
        char *column[COLUMNS] = {0}, *rest = text, *piece;
        unsigned count = 0;
        line++;
        text[strcspn(text, "\n")] = '\0';
        if (text[0] == '#' || text[0] == '\0') {
            continue;
        }
        while (count < COLUMNS && (piece = strsep(&rest, "\t")) != NULL) {
            column[count++] = piece;
        }
        check_line(twin, column, count, line);
        checked++;
    }
    fclose(file);
    return checked;
}

START_TEST(the_arithmetic_in_c_says_what_the_vectors_say)
{
    ck_assert_uint_gt(play(&twin_c), 350);
}
END_TEST

START_TEST(the_scripts_say_what_the_vectors_say)
{
    ck_assert_uint_gt(play(&twin_lua), 350);
}
END_TEST

/* ---- both, asked at random ---- */

static uint64_t state;

static int64_t dice(int64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((state >> 33) % (uint64_t)below);
}

static void ask_both(int64_t now, int64_t interval, int64_t *first, int64_t *tat)
{
    struct slot one[SLOTS], other[SLOTS];
    struct slot_reply c, lua;
    char eid[SLOT_EID_BYTES];
    memcpy(eid, book.eid, sizeof(eid)); /* asking changes it */
    const struct slot_ask ask = {.rid = dice(40) == 0 ? "r2" : "r1",
                                 .interval_us = interval,
                                 .late_us = 10000,
                                 .grace_us = 10000 + dice(3) * 30000,
                                 .horizon_us = 1000000,
                                 .want = (unsigned)dice(8),
                                 .floor_us = dice(2) == 0 ? *tat : 0,
                                 .suspect = dice(30) == 0 ? eid : ""};

    ask_c("me", &ask, now, &c, one);
    ask_lua("me", &ask, now, &lua, other);
    ck_assert_str_eq(c.eid, lua.eid);
    ck_assert_int_eq(c.tat_us, lua.tat_us);
    ck_assert_int_eq(c.retry_us, lua.retry_us);
    ck_assert_uint_eq(c.count, lua.count);
    for (unsigned i = 0; i < c.count; i++) {
        ck_assert_mem_eq(&one[i], &other[i], sizeof(one[i]));
        ck_assert_int_le(one[i].first_us - now, ask.horizon_us);
    }
    *first = c.count > 0 ? one[0].first_us : 0;
    *tat = c.tat_us;
}

START_TEST(c_and_the_script_agree_whatever_is_asked)
{
    int64_t now = T0, first = 0, tat = 0;

    state = 20240229;
    for (int i = 0; i < 20000; i++) {
        int64_t interval = dice(10) == 0 ? 1016 + dice(2000000) : I_US;
        now += dice(4) == 0 ? dice(3000000) : dice(100000);
        now += dice(50) == 0 ? dice(10000000) - 5000000 : 0;
        ask_both(now, interval, &first, &tat);
        if (first != 0 && dice(5) == 0) {
            ck_assert_int_eq(settle_c(first, tat), settle_lua(first, tat));
        }
        if (dice(60) == 0) {
            int64_t for_us = dice(4000000);
            ck_assert_int_eq(pause_c(now, for_us, 3000000), pause_lua(now, for_us, 3000000));
        }
    }
}
END_TEST

/* ---- only the scripts ---- */

static struct slot_reply ask_as(const char *who, int64_t now, unsigned want, int64_t interval, struct slot *slots)
{
    const struct slot_ask ask = {.rid = "r1",
                                 .interval_us = interval,
                                 .late_us = 10000,
                                 .grace_us = 10000,
                                 .horizon_us = 1000000,
                                 .want = want,
                                 .suspect = ""};
    struct slot_reply reply;

    ask_lua(who, &ask, T0 + now, &reply, slots);
    return reply;
}

START_TEST(who_was_denied_first_is_served_first)
{
    struct slot slots[SLOTS];

    ask_as("a", 0, 0, 1016000, slots);
    ck_assert_uint_eq(ask_as("a", 3000000, 1, 1016000, slots).count, 1);
    ck_assert_int_eq(ask_as("b", 3000000, 1, 1016000, slots).retry_us, 16000);
    ck_assert_int_eq(ask_as("c", 3000000, 1, 1016000, slots).retry_us, 16000 + 1016000);
    ck_assert_uint_eq(ask_as("a", 3020000, 1, 1016000, slots).count, 0); /* though there is a slot: it is b's turn */
    ck_assert_uint_eq(ask_as("b", 3020000, 1, 1016000, slots).count, 1);
    ck_assert_uint_eq(ask_as("a", 4033000, 1, 1016000, slots).count, 0);
    ck_assert_uint_eq(ask_as("c", 4033000, 1, 1016000, slots).count, 1);
    ck_assert_uint_eq(ask_as("a", 5050000, 1, 1016000, slots).count, 1);
}
END_TEST

START_TEST(a_turn_that_is_not_taken_is_soon_over)
{
    struct slot slots[SLOTS];

    ask_as("a", 0, 0, 1016000, slots);
    ask_as("a", 3000000, 1, 1016000, slots);
    ck_assert_uint_eq(ask_as("b", 3000000, 1, 1016000, slots).count, 0);
    ck_assert_uint_eq(ask_as("a", 3265999, 1, 1016000, slots).count, 0);
    ck_assert_uint_eq(ask_as("a", 3266001, 1, 1016000, slots).count, 1);
}
END_TEST

START_TEST(nonsense_in_the_tickets_is_removed)
{
    struct slot slots[SLOTS];

    ask_as("a", 0, 0, I_US, slots);
    fake_redis_set(redis, keys[2], "x", "no ticket");
    fake_redis_set(redis, keys[2], "y", "1:99999999999999999");
    ck_assert_uint_eq(ask_as("a", 3000000, 1, I_US, slots).count, 1);
    ck_assert_ptr_null(fake_redis_field(redis, keys[2], "x"));
    ck_assert_ptr_null(fake_redis_field(redis, keys[2], "y"));
}
END_TEST

START_TEST(every_key_expires_and_the_marker_last)
{
    struct slot slots[SLOTS];
    int64_t week_ms = INT64_C(7) * 86400 * 1000;

    ask_as("a", 0, 1, I_US, slots);
    ck_assert_int_eq(fake_redis_ttl_ms(redis, keys[0]), week_ms);
    ck_assert_int_eq(fake_redis_ttl_ms(redis, keys[1]), 60000 + 1102);
    ck_assert_int_eq(fake_redis_ttl_ms(redis, keys[2]), 60000 + 102);
    pause_lua(T0 + 10, 500000000, 3600000000);
    ck_assert_int_eq(fake_redis_ttl_ms(redis, keys[1]), 500000 + 60000);
    ask_as("a", 20, 0, I_US, slots);
    ck_assert_int_ge(fake_redis_ttl_ms(redis, keys[1]), 500000 + 60000 - 1);
}
END_TEST

START_TEST(a_bucket_that_expired_is_not_taken_for_a_loss)
{
    struct slot slots[SLOTS];

    ask_as("a", 0, 0, I_US, slots);
    ask_as("a", 3000000, 1, I_US, slots);
    struct slot_reply reply = ask_as("a", 3600000000, 1, I_US, slots);
    ck_assert_str_eq(reply.eid, "r1:1");
    ck_assert_int_eq(slots[0].first_us, T0 + 3600000000);
}
END_TEST

START_TEST(a_marker_that_is_gone_makes_a_new_epoch_wait)
{
    struct slot slots[SLOTS];

    ask_as("a", 0, 0, I_US, slots);
    ask_as("a", 3000000, 10, I_US, slots);
    fake_redis_load(redis, NULL);
    struct slot_reply reply = ask_as("a", 3000001, 1, I_US, slots);
    ck_assert_uint_eq(reply.count, 0);
    ck_assert_int_eq(reply.tat_us, T0 + 3000001 + 1000000 + I_US);
}
END_TEST

static void member(const char *who, const char *queued, int64_t now, unsigned *members, unsigned *total)
{
    const char *args[] = {who, queued, "3000000"};
    const char *of_bucket[] = {keys[3], keys[1]};
    struct rtime said, pause;

    fake_redis_set_time(redis, T0 + now);
    struct redisReply *reply = fake_redis_eval(redis, &script_members, of_bucket, 2, args, 3);
    ck_assert(grant_parse_members(reply, &said, members, total, &pause));
    ck_assert_int_eq(said.us, T0 + now);
    fake_reply_free(reply);
}

START_TEST(members_are_counted_until_they_leave_or_fall_silent)
{
    unsigned members, total;

    member("a", "5", 0, &members, &total);
    ck_assert_uint_eq(members, 1);
    member("b", "7", 1000000, &members, &total);
    ck_assert_uint_eq(members, 2);
    ck_assert_uint_eq(total, 12);
    member("b", "1", 3000001, &members, &total); /* nothing of a for more than 3 s */
    ck_assert_uint_eq(members, 1);
    ck_assert_uint_eq(total, 1);
    member("b", "-1", 3100000, &members, &total);
    ck_assert_uint_eq(members, 0);
}
END_TEST

/* What `who` hears of others when it says its limits. */
static bool other_of(const char *who, const char *limits, const char *interval, int64_t now, struct grant_other *other)
{
    static char kept[2][64];
    const char *args[] = {who, "-1", "3000000", interval, who, limits};
    const char *of_bucket[] = {keys[3], keys[1]};

    fake_redis_set_time(redis, T0 + now);
    struct redisReply *reply = fake_redis_eval(redis, &script_members, of_bucket, 2, args, 6);
    bool differs = grant_parse_other(reply, other);
    if (differs) {
        snprintf(kept[0], sizeof(kept[0]), "%.*s", (int)other->name.len, other->name.ptr);
        snprintf(kept[1], sizeof(kept[1]), "%.*s", (int)other->limits.len, other->limits.ptr);
        other->name.ptr = kept[0];
        other->limits.ptr = kept[1];
    }
    fake_reply_free(reply);
    return differs;
}

START_TEST(who_has_other_limits_is_named_with_them_and_the_strictest_first)
{
    struct grant_other other;

    ck_assert(!other_of("host/1", "rate 10/s late 1ms", "100", 0, &other));
    ck_assert(!other_of("host/2", "rate 10/s late 1ms", "100", 1000, &other));
    ck_assert(!other_of("host/3", "rate 20/s", "50", 2000, &other)); /* nobody has spoken since it came */
    ck_assert(other_of("host/1", "rate 10/s late 1ms", "100", 3000, &other));
    ck_assert_int_eq(other.interval_us, 50);
    ck_assert_str_eq(other.name.ptr, "host/3");
    ck_assert_str_eq(other.limits.ptr, "rate 20/s");
    ck_assert(other_of("host/3", "rate 20/s", "50", 4000, &other));
    ck_assert_int_eq(other.interval_us, 100);
    ck_assert(!other_of("host/4", "rate 5/s", "200", 5000, &other));
    ck_assert(other_of("host/3", "rate 20/s", "50", 6000, &other));
    ck_assert_int_eq(other.interval_us, 200);
}
END_TEST

START_TEST(limits_that_were_changed_or_not_said_for_a_while_are_no_difference)
{
    struct grant_other other;

    ck_assert(!other_of("old", "rate 10/s", "100", 0, &other));
    ck_assert(!other_of("new", "rate 20/s", "50", 1000, &other));     /* may stand in for the old one */
    ck_assert(!other_of("new", "rate 20/s", "50", 30000000, &other)); /* which does not speak */
    ck_assert(other_of("old", "rate 10/s", "100", 31000000, &other)); /* or does it? */
    ck_assert(!other_of("old", "rate 20/s", "50", 32000000, &other)); /* it was told the same now */
    ck_assert(!other_of("new", "rate 20/s", "50", 33000000, &other));
    ck_assert(!other_of("odd", "rate 30/s", "30", 34000000, &other));
    ck_assert(other_of("new", "rate 20/s", "50", 35000000, &other));
    ck_assert(!other_of("new", "rate 20/s", "50", 104000001, &other)); /* not heard of for 70 s */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vectors");
    TCase *slots = tcase_create("slots");
    const TTest *const tests[] = {
        the_arithmetic_in_c_says_what_the_vectors_say,
        the_scripts_say_what_the_vectors_say,
        c_and_the_script_agree_whatever_is_asked,
        who_was_denied_first_is_served_first,
        a_turn_that_is_not_taken_is_soon_over,
        nonsense_in_the_tickets_is_removed,
        every_key_expires_and_the_marker_last,
        a_bucket_that_expired_is_not_taken_for_a_loss,
        a_marker_that_is_gone_makes_a_new_epoch_wait,
        members_are_counted_until_they_leave_or_fall_silent,
        who_has_other_limits_is_named_with_them_and_the_strictest_first,
        limits_that_were_changed_or_not_said_for_a_while_are_no_difference,
    };

    tcase_add_checked_fixture(slots, setup, teardown);
    tcase_set_timeout(slots, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(slots, tests[i]);
    }
    suite_add_tcase(suite, slots);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
