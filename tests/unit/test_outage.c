/* links: src/outbound/ src/lua/fleet.lua src/lua/word.lua src/lua/fly.lua src/lua/reserve.lua src/lua/settle.lua src/lua/pause.lua src/lua/members.lua src/conf/policy.c src/conf/feedback.c src/base/mem.c src/base/must.c src/base/str.c tests/sim/loop_virtual.c tests/sim/policy_fixed.c tests/sim/log_quiet.c tests/sim/link_virtual.c tests/sim/fake_redis.c tests/sim/fake_commands.c src/base/histogram.c */
/* One replica and a Redis that comes, goes, and answers nonsense, in virtual time. */
#include "../sim/link_virtual.h"
#include "../sim/log_quiet.h"
#include "../sim/policy_fixed.h"
#include "base/mem.h"
#include "outbound/grant.h"
#include "outbound/outbound.h"

#include <check.h>
#include <stdlib.h>

#define NAME "api.example.com"
enum { GUESTS = 48 };

struct guest {
    struct waiter waiter;
    int64_t released_us, gave_up_us; /* -1 = not yet */
    enum give_up why;
};

static struct world *world;
static struct loop *loop;
static struct server server;
static struct link *link;
static struct policy *policy;
static struct outbound *outbound;
static struct guest guests[GUESTS];

static void on_near(struct waiter *waiter)
{
    bucket_ready(waiter, true);
}

static void on_release(struct waiter *waiter, struct mono now)
{
    (void)now;
    container_of(waiter, struct guest, waiter)->released_us = world_now(world);
}

static void on_give_up(struct waiter *waiter, enum give_up why)
{
    struct guest *guest = container_of(waiter, struct guest, waiter);
    guest->gave_up_us = world_now(world);
    guest->why = why;
}

static const struct waiter_ops ops = {on_near, on_release, on_give_up};

static void setup(void)
{
    const struct link_conditions conditions = {.delay_us = 500};

    world = world_new(1);
    server_init(&server, world);
    loop = world_loop(world, 77000000, 20);
    link = link_virtual(loop, &server, &conditions);
    policy = policy_fixed(10, CLOCK_SECOND_US);
    for (int i = 0; i < GUESTS; i++) {
        guests[i] = (struct guest){.waiter.ops = &ops, .released_us = -1, .gave_up_us = -1};
    }
}

/* The policy is as it shall be. */
static void begin(void)
{
    outbound = outbound_new(loop, link, "sluice", "one");
    outbound_warm(outbound, policy, NAME);
    link_start(link);
}

static void pass(int64_t us)
{
    world_run(world, us);
}

static void begin_and_settle(void)
{
    begin();
    pass(3 * CLOCK_SECOND_US);
}

static void teardown(void)
{
    for (int i = 0; i < GUESTS; i++) {
        bucket_cancel(&guests[i].waiter);
    }
    if (outbound != NULL) {
        outbound_free(outbound);
    }
    link_free(link);
    loop_kill(loop);
    pass(60 * CLOCK_SECOND_US);
    policy_put(policy);
    loop_free(loop);
    mem_free(link);
    server_fini(&server);
    world_free(world);
}

static struct bucket *bucket(void)
{
    return outbound_bucket(outbound, policy, NAME);
}

static enum enqueue enter(int i, int64_t patience_us)
{
    struct forecast forecast;
    return bucket_enqueue(bucket(), &guests[i].waiter, patience_us, &forecast);
}

static void enter_many(int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(enter(i, 20 * CLOCK_SECOND_US), ENQUEUE_OK);
    }
}

static unsigned released(void)
{
    unsigned count = 0;
    for (int i = 0; i < GUESTS; i++) {
        count += guests[i].released_us >= 0;
    }
    return count;
}

static struct bucket_stats stats(void)
{
    struct bucket_stats out;
    bucket_stats(bucket(), &out);
    return out;
}

START_TEST(a_lone_request_waits_for_one_round_trip_only)
{
    begin_and_settle();
    uint64_t calls = stats().redis_calls;
    enter_many(1);
    pass(50 * CLOCK_MS_US);
    ck_assert_int_ge(guests[0].released_us, 3 * CLOCK_SECOND_US);
    ck_assert_int_le(guests[0].released_us, 3 * CLOCK_SECOND_US + 2 * CLOCK_MS_US);
    ck_assert_uint_eq(stats().redis_calls - calls, 1);
}
END_TEST

START_TEST(a_process_that_just_started_listens_before_it_sends)
{
    begin();
    enter_many(1);
    pass(3 * CLOCK_SECOND_US);
    ck_assert_int_ge(guests[0].released_us, policy->horizon_us + policy_interval_us(policy));
    ck_assert_int_le(guests[0].released_us, 1300 * CLOCK_MS_US);
}
END_TEST

START_TEST(a_slot_nobody_is_left_for_goes_back_to_redis)
{
    begin_and_settle();
    enter_many(3);
    pass(20 * CLOCK_MS_US); /* one left, the second has a window 80 ms ahead */
    ck_assert_uint_eq(released(), 1);
    bucket_cancel(&guests[1].waiter);
    bucket_cancel(&guests[2].waiter);
    pass(20 * CLOCK_MS_US);
    ck_assert_uint_eq(stats().wasted_windows, 1);
    ck_assert_int_eq(enter(4, CLOCK_SECOND_US), ENQUEUE_OK);
    pass(CLOCK_SECOND_US);
    ck_assert_int_le(guests[4].released_us - guests[0].released_us, policy_interval_us(policy) + 2 * CLOCK_MS_US);
}
END_TEST

START_TEST(holding_sends_nothing_but_windows_in_hand_until_redis_is_back)
{
    begin_and_settle();
    enter_many(30);
    pass(CLOCK_SECOND_US);
    unsigned before = released();
    server_stop(&server);
    pass(5 * CLOCK_SECOND_US);
    ck_assert_uint_le(released(), before + 2);
    server_start(&server, NULL);
    pass(5 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), 30);
    ck_assert_uint_le(stats().most_in_window, 10);
}
END_TEST

START_TEST(whose_deadline_comes_while_redis_is_gone_is_given_up)
{
    begin_and_settle();
    server_stop(&server);
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(enter(0, 2 * CLOCK_SECOND_US), ENQUEUE_OK);
    pass(4 * CLOCK_SECOND_US);
    ck_assert_int_le(labs(guests[0].gave_up_us - 6 * CLOCK_SECOND_US), CLOCK_MS_US); /* by a clock that drifts */
    ck_assert_int_eq(guests[0].why, GIVE_UP_DEADLINE);
}
END_TEST

START_TEST(rejecting_turns_waiters_and_newcomers_away)
{
    struct forecast forecast;

    policy->on_redis_down = REDIS_DOWN_REJECT;
    begin_and_settle();
    enter_many(30);
    pass(500 * CLOCK_MS_US);
    unsigned before = released();
    server_stop(&server);
    pass(2 * CLOCK_SECOND_US);
    ck_assert_uint_eq(stats().waiting, 0);
    ck_assert_uint_eq(stats().gave_up, 30 - released());
    ck_assert_uint_le(released(), before + 2);
    ck_assert_int_eq(guests[29].why, GIVE_UP_REDIS_DOWN);
    ck_assert_int_eq(bucket_enqueue(bucket(), &guests[40].waiter, CLOCK_SECOND_US, &forecast), ENQUEUE_REDIS_DOWN);
    ck_assert_int_gt(forecast.retry_after_us, 0);
    server_start(&server, NULL);
    pass(2 * CLOCK_SECOND_US);
    ck_assert_int_eq(enter(40, CLOCK_SECOND_US), ENQUEUE_OK);
}
END_TEST

START_TEST(a_reconnect_turns_nobody_away)
{
    policy->on_redis_down = REDIS_DOWN_REJECT;
    begin_and_settle();
    enter_many(20);
    server_stop(&server);
    pass(50 * CLOCK_MS_US);
    server_start(&server, NULL);
    pass(6 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), 20);
}
END_TEST

START_TEST(open_lets_everybody_out_and_says_so_loudly)
{
    policy->on_redis_down = REDIS_DOWN_OPEN;
    begin_and_settle();
    enter_many(30);
    unsigned loud = log_quiet_count(LOG_ERROR);
    server_stop(&server);
    pass(2 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), 30);
    ck_assert_uint_eq(log_quiet_count(LOG_ERROR) - loud, 1);
    ck_assert_int_eq(enter(40, CLOCK_SECOND_US), ENQUEUE_OK);
    pass(0);
    ck_assert_int_eq(guests[40].released_us, world_now(world));
    ck_assert_uint_eq(log_quiet_count(LOG_ERROR) - loud, 1);
}
END_TEST

START_TEST(reserve_sends_its_own_permits_and_no_more)
{
    policy->on_redis_down = REDIS_DOWN_RESERVE;
    policy->outage_permits = 2;
    policy->replicas_max = 3;
    begin_and_settle();
    enter_many(40);
    pass(CLOCK_SECOND_US);
    ck_assert_uint_le(released(), 5); /* 4 of 10 are shared */
    server_stop(&server);
    pass(CLOCK_SECOND_US);
    unsigned before = released();
    pass(4 * CLOCK_SECOND_US);
    ck_assert_uint_ge(released() - before, 7);
    ck_assert_uint_le(released() - before, 8);
    ck_assert_uint_le(stats().most_in_window, 6);
}
END_TEST

START_TEST(a_new_policy_may_bring_permits)
{
    begin_and_settle();
    struct policy *with = policy_fixed(10, CLOCK_SECOND_US);
    with->on_redis_down = REDIS_DOWN_RESERVE;
    with->outage_permits = 1;
    with->replicas_max = 3;
    policy_put(policy);
    policy = with;
    enter_many(10);
    server_stop(&server);
    pass(4 * CLOCK_SECOND_US);
    ck_assert_uint_ge(released(), 3);
    ck_assert_uint_le(released(), 5);
}
END_TEST

START_TEST(a_pause_while_redis_is_gone_is_told_when_it_is_back)
{
    begin_and_settle();
    server_stop(&server);
    enter_many(1);
    pass(CLOCK_SECOND_US);
    bucket_pause(bucket(), 6 * CLOCK_SECOND_US);
    server_start(&server, NULL);
    pass(10 * CLOCK_SECOND_US);
    ck_assert_int_ge(guests[0].released_us, 10 * CLOCK_SECOND_US);
    ck_assert_int_le(guests[0].released_us, 10200 * CLOCK_MS_US);
}
END_TEST

START_TEST(a_replica_that_is_cut_off_notices_and_comes_back)
{
    begin_and_settle();
    enter_many(40);
    pass(CLOCK_SECOND_US);
    link_cut(link, true);
    pass(CLOCK_SECOND_US);
    unsigned before = released();
    pass(3 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), before);
    link_cut(link, false);
    pass(5 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), 40);
    ck_assert_uint_le(stats().most_in_window, 10);
}
END_TEST

START_TEST(a_slow_link_is_used_with_wider_spacing)
{
    const struct link_conditions slow = {.delay_us = 4000};

    link_set_conditions(link, &slow);
    begin_and_settle();
    enter_many(40);
    pass(6 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), 40);
    ck_assert_int_gt(stats().interval_us, policy_interval_us(policy));
    ck_assert_int_lt(stats().interval_us, policy_interval_us(policy) + 1500);
    ck_assert_uint_le(stats().most_in_window, 10);
}
END_TEST

/* ---- another server of a cluster ---- */

/* Ten waiters a second; the bucket goes to a server whose clock is `skew_us` off, with its keys, and back. */
static void move_to_another_clock(int64_t skew_us)
{
    const struct link_conditions conditions = {.delay_us = 500};
    const int64_t quarantine_us = policy->horizon_us + policy_interval_us(policy);
    struct server other;

    server_init(&other, world);
    other.run_id[0] = 'f';
    other.clock_us += skew_us;
    struct link *away = link_virtual(loop, &other, &conditions);
    link_start(away);
    begin_and_settle();
    enter_many(40);
    for (int i = 0; i < 2; i++) {
        pass(CLOCK_SECOND_US);
        unsigned before = released();
        struct server *from = i == 0 ? &server : &other, *to = i == 0 ? &other : &server;
        fake_redis_load(to->redis, fake_redis_copy(from->redis));
        link_move(link, i == 0 ? away : NULL);
        pass(quarantine_us - 10 * CLOCK_MS_US);
        ck_assert_uint_le(released() - before, 2); /* what was in hand */
        pass(CLOCK_SECOND_US);
        ck_assert_uint_ge(released() - before, 9);
    }
    pass(5 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), 40);
    ck_assert_uint_le(stats().most_in_window, 10);
    outbound_free(outbound);
    outbound = NULL;
    link_free(away);
    pass(60 * CLOCK_SECOND_US);
    mem_free(away);
    server_fini(&other);
}

static const int64_t skews[] = {
    0, 3 * CLOCK_MS_US, 400 * CLOCK_MS_US, -400 * CLOCK_MS_US, 7 * CLOCK_SECOND_US, -30 * CLOCK_SECOND_US};

START_TEST(a_bucket_that_moves_to_another_server_waits_out_what_the_old_one_granted)
{
    move_to_another_clock(skews[_i]);
}
END_TEST

START_TEST(a_call_under_way_when_its_bucket_moves_is_lost_and_asked_anew)
{
    const struct link_conditions conditions = {.delay_us = 500}, slow = {.delay_us = 20000};
    struct server other;

    server_init(&other, world);
    other.run_id[0] = 'f';
    struct link *away = link_virtual(loop, &other, &conditions);
    link_start(away);
    link_set_conditions(link, &slow);
    begin_and_settle();
    enter_many(1);
    pass(10 * CLOCK_MS_US); /* asked, on its way */
    link_move(link, away);
    pass(2 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), 1);
    ck_assert_int_ge(guests[0].released_us, 4 * CLOCK_SECOND_US);
    outbound_free(outbound);
    outbound = NULL;
    link_free(away);
    pass(60 * CLOCK_SECOND_US);
    mem_free(away);
    server_fini(&other);
}
END_TEST

/* ---- replies nobody should send ---- */

static struct redisReply numbers[11], *elements[11], reply_of_numbers;

static struct redisReply *reply_with(const int64_t *values, size_t count, char *eid)
{
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (struct redisReply){.type = REDIS_REPLY_INTEGER, .integer = values[i]};
        elements[i] = &numbers[i];
    }
    numbers[1] = (struct redisReply){.type = REDIS_REPLY_STRING, .str = eid, .len = strlen(eid)};
    reply_of_numbers = (struct redisReply){.type = REDIS_REPLY_ARRAY, .elements = count, .element = elements};
    return &reply_of_numbers;
}

static bool parses(const int64_t *values, size_t count, char *eid)
{
    static const struct grant_limits limits = {"abc", 2, 100, 10, 30, 1000, 1};
    struct slot_reply out;
    struct slot slots[2];
    return grant_parse(reply_with(values, count, eid), &limits, &out, slots);
}

START_TEST(only_an_answer_to_the_question_is_taken)
{
    static char eid[] = "abc:7", other[] = "abd:7", bare[] = "abc:";
    const int64_t good[] = {5000, 0, 0, 0, 5200, 0, 5200, 5000, 5010, 5100, 5110};
    const int64_t later[] = {5000, 0, 300, 1, 5200, 0, 5200};
    ck_assert(parses(good, 11, eid));
    ck_assert(parses(good, 9, eid));
    ck_assert(parses(later, 7, eid));
    ck_assert(!parses(good, 11, other)); /* another server's epoch */
    ck_assert(!parses(good, 11, bare));
    ck_assert(!parses(good, 10, eid));
    ck_assert(!parses(good, 6, eid));
    ck_assert(!parses(good, 7, eid));                                               /* neither slots nor a time */
    ck_assert(!parses((const int64_t[]){5000, 0, 0, 0, 5200, 0, 5200, 6001, 6011}, 9, eid)); /* beyond the horizon */
    ck_assert(!parses((const int64_t[]){5000, 0, 0, 0, 5200, 0, 5200, 4999, 5009}, 9, eid)); /* in the past */
    ck_assert(!parses((const int64_t[]){5000, 0, 0, 0, 5200, 0, 5200, 5000, 5031}, 9, eid)); /* too long a window */
    ck_assert(!parses((const int64_t[]){5000, 0, 0, 0, 5200, 0, 5200, 5000, 5009}, 9, eid)); /* too short a window */
    ck_assert(!parses((const int64_t[]){5000, 0, 0, 0, 5200, 0, 5200, 5000, 5010, 5099, 5109}, 11, eid)); /* too close */
    ck_assert(!parses((const int64_t[]){-1, 0, 300, 1, 5200, 0, 5200}, 7, eid));
    ck_assert(!parses((const int64_t[]){5000, 0, -300, 1, 5200, 0, 5200}, 7, eid));
    ck_assert(!parses((const int64_t[]){5000, 0, 300, 1, INT64_MAX, 0, 5200}, 7, eid));
    ck_assert(!parses((const int64_t[]){5000, 0, 300, 4, 5200, 0, 5200}, 7, eid)); /* no such reason */
    ck_assert(!parses((const int64_t[]){5000, 0, 300, 1, 5200, -1, 5200}, 7, eid));
    ck_assert(!parses((const int64_t[]){5000, 0, 300, 1, 5200, 0, -1}, 7, eid));
    struct redisReply error = {.type = REDIS_REPLY_ERROR, .str = eid, .len = 5};
    static const struct grant_limits limits = {"abc", 0, 100, 10, 30, 1000, 1};
    struct slot_reply out;
    ck_assert(!grant_parse(&error, &limits, &out, NULL));
    ck_assert(!grant_parse(NULL, &limits, &out, NULL));
}
END_TEST

static void count_buckets(void *arg, const struct bucket_stats *seen)
{
    (void)seen;
    ++*(int *)arg;
}

START_TEST(an_idle_bucket_is_forgotten_here_though_redis_remembers_it)
{
    int before = 0, after = 0;
    struct forecast forecast;

    begin_and_settle();
    for (int i = 0; i < 6; i++) {
        struct bucket *other = outbound_bucket(outbound, policy, i % 2 ? "b" : "c");
        ck_assert_int_eq(bucket_enqueue(other, &guests[i].waiter, 20 * CLOCK_SECOND_US, &forecast), ENQUEUE_OK);
    }
    pass(2 * CLOCK_SECOND_US);
    outbound_each(outbound, count_buckets, &before);
    ck_assert_int_eq(before, 3);
    ck_assert_uint_eq(released(), 6);
    pass(100 * CLOCK_SECOND_US);
    outbound_each(outbound, count_buckets, &after);
    ck_assert_int_eq(after, 1);
}
END_TEST

START_TEST(a_bucket_spoilt_by_hand_stops_nothing_but_itself_for_a_moment)
{
    begin_and_settle();
    enter_many(30);
    pass(500 * CLOCK_MS_US);
    fake_redis_set(server.redis, "sluice:{" NAME "}:b", "tat", "9999999999999999");
    pass(5 * CLOCK_SECOND_US);
    ck_assert_uint_eq(released(), 30);
    ck_assert_uint_le(stats().most_in_window, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outage");
    TCase *fleet = tcase_create("one replica and Redis"), *replies = tcase_create("replies");
    const TTest *const tests[] = {
        a_lone_request_waits_for_one_round_trip_only,
        a_process_that_just_started_listens_before_it_sends,
        a_slot_nobody_is_left_for_goes_back_to_redis,
        holding_sends_nothing_but_windows_in_hand_until_redis_is_back,
        whose_deadline_comes_while_redis_is_gone_is_given_up,
        rejecting_turns_waiters_and_newcomers_away,
        a_reconnect_turns_nobody_away,
        open_lets_everybody_out_and_says_so_loudly,
        reserve_sends_its_own_permits_and_no_more,
        a_new_policy_may_bring_permits,
        a_pause_while_redis_is_gone_is_told_when_it_is_back,
        a_replica_that_is_cut_off_notices_and_comes_back,
        a_slow_link_is_used_with_wider_spacing,
        a_bucket_spoilt_by_hand_stops_nothing_but_itself_for_a_moment,
        an_idle_bucket_is_forgotten_here_though_redis_remembers_it,
        a_call_under_way_when_its_bucket_moves_is_lost_and_asked_anew,
    };

    tcase_add_checked_fixture(fleet, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(fleet, tests[i]);
    }
    tcase_add_loop_test(fleet, a_bucket_that_moves_to_another_server_waits_out_what_the_old_one_granted, 0,
                        sizeof(skews) / sizeof(skews[0]));
    tcase_add_test(replies, only_an_answer_to_the_question_is_taken);
    suite_add_tcase(suite, fleet);
    suite_add_tcase(suite, replies);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
