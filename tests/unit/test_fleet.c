/* links: src/outbound/ src/lua/fleet.lua src/lua/word.lua src/lua/fly.lua src/lua/reserve.lua src/lua/settle.lua src/lua/pause.lua src/lua/members.lua src/conf/policy.c src/conf/feedback.c src/base/mem.c src/base/must.c src/base/str.c tests/sim/loop_virtual.c tests/sim/policy_fixed.c tests/sim/log_quiet.c tests/sim/link_virtual.c tests/sim/fake_redis.c tests/sim/fake_commands.c src/base/histogram.c */
/* Orders to a fleet of three replicas in virtual time, with the real script. */
#include "../sim/link_virtual.h"
#include "../sim/policy_fixed.h"
#include "base/mem.h"
#include "outbound/fleet.h"

#include <check.h>
#include <stdlib.h>

#define NAME "api.example.com"
enum { REPLICAS = 3 };

struct replica {
    struct loop *loop;
    struct link *link;
    struct outbound *outbound;
    struct fleet *fleet;
};

static struct world *world;
static struct server server;
static struct policy *policy;
static struct replica replicas[REPLICAS];
static int answers;
static enum fleet_done how;

static void start(int i)
{
    static const char *const names[] = {"one", "two", "three"};
    const struct link_conditions conditions = {.delay_us = 500};
    struct replica *r = &replicas[i];

    /* clocks that show something else each */
    r->loop = world_loop(world, 77000000 * (i + 1), 20 * i);
    r->link = link_virtual(r->loop, &server, &conditions);
    r->outbound = outbound_new(r->loop, r->link, "sluice", names[i]);
    r->fleet = fleet_new(r->loop, r->link, "sluice", names[i], r->outbound);
    outbound_warm(r->outbound, policy, NAME);
    link_start(r->link);
}

static void pass(int64_t us)
{
    world_run(world, us);
}

static void setup(void)
{
    world = world_new(1);
    server_init(&server, world);
    policy = policy_fixed(10, CLOCK_SECOND_US);
    answers = 0;
    for (int i = 0; i < REPLICAS; i++) {
        replicas[i] = (struct replica){NULL, NULL, NULL, NULL};
        if (i < 2) {
            start(i); /* the third comes later, or never */
        }
    }
    pass(2 * CLOCK_SECOND_US);
}

static void stop(struct replica *r)
{
    fleet_free(r->fleet);
    outbound_free(r->outbound);
    link_free(r->link);
    loop_kill(r->loop);
}

static void teardown(void)
{
    for (int i = 0; i < REPLICAS && replicas[i].loop != NULL; i++) {
        stop(&replicas[i]);
    }
    pass(60 * CLOCK_SECOND_US);
    policy_put(policy);
    for (int i = 0; i < REPLICAS && replicas[i].loop != NULL; i++) {
        loop_free(replicas[i].loop);
        mem_free(replicas[i].link);
    }
    server_fini(&server);
    world_free(world);
}

static void answered(void *arg, enum fleet_done done)
{
    (void)arg;
    answers++;
    how = done;
}

static void order(int i, enum order_verb verb, int64_t for_us, int64_t count)
{
    const struct order it = {.verb = verb, .name = NAME, .for_us = for_us, .rate = {count, CLOCK_SECOND_US}, .who = "ann"};

    fleet_order(replicas[i].fleet, &it, answered, NULL);
}

static struct bucket_stats stats(int i)
{
    struct bucket_stats out;
    bucket_stats(outbound_bucket(replicas[i].outbound, policy, NAME), &out);
    return out;
}

static unsigned alive(int i)
{
    struct fleet_stats out;
    fleet_stats(replicas[i].fleet, &out);
    return out.replicas;
}

static void count_orders(void *arg, const struct order *it, int64_t left_us)
{
    ck_assert_str_eq(it->who, "ann");
    ck_assert_int_gt(left_us, 0);
    ++*(int *)arg;
}

static int standing(int i)
{
    int count = 0;
    fleet_each_order(replicas[i].fleet, count_orders, &count);
    return count;
}

START_TEST(replicas_know_how_many_are_alive)
{
    ck_assert_uint_eq(alive(0), 2);
    start(2);
    pass(CLOCK_SECOND_US);
    ck_assert_uint_eq(alive(0), 3);
    loop_freeze(replicas[2].loop, 10 * CLOCK_SECOND_US);
    pass(5 * CLOCK_SECOND_US);
    ck_assert_uint_eq(alive(1), 2);
    pass(8 * CLOCK_SECOND_US);
    ck_assert_uint_eq(alive(1), 3);
    server_stop(&server);
    pass(5 * CLOCK_SECOND_US);
    ck_assert_uint_eq(alive(1), 0); /* nobody knows */
}
END_TEST

START_TEST(a_pause_is_everywhere_within_a_second_and_ends_by_itself)
{
    order(0, ORDER_PAUSE, 60 * CLOCK_SECOND_US, 0);
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(answers, 1);
    ck_assert_int_eq(how, FLEET_TOLD);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_gt(stats(i).paused_us, 58 * CLOCK_SECOND_US);
        ck_assert_int_eq(standing(i), 1);
    }
    pass(60 * CLOCK_SECOND_US);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(stats(i).paused_us, 0);
        ck_assert_int_eq(standing(i), 0);
    }
}
END_TEST

START_TEST(a_resume_ends_it_everywhere_within_a_second)
{
    order(0, ORDER_PAUSE, 600 * CLOCK_SECOND_US, 0);
    pass(2 * CLOCK_SECOND_US);
    order(1, ORDER_RESUME, 0, 0);
    pass(CLOCK_SECOND_US);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(stats(i).paused_us, 0);
        ck_assert_int_eq(standing(i), 0);
    }
    order(0, ORDER_PAUSE, 600 * CLOCK_SECOND_US, 0); /* and again: the resume before it is over */
    pass(CLOCK_SECOND_US);
    ck_assert_int_gt(stats(0).paused_us, 0);
    ck_assert_int_gt(stats(1).paused_us, 0);
    pass(20 * CLOCK_SECOND_US);
    ck_assert_int_gt(stats(1).paused_us, 0);
}
END_TEST

START_TEST(a_rate_is_followed_by_all_also_by_one_that_comes_later_until_its_time)
{
    order(0, ORDER_RATE, 60 * CLOCK_SECOND_US, 3);
    pass(CLOCK_SECOND_US);
    start(2);
    pass(CLOCK_SECOND_US);
    for (int i = 0; i < REPLICAS; i++) {
        ck_assert_int_eq(stats(i).policy->rate.count, 3);
    }
    order(1, ORDER_RATE, 60 * CLOCK_SECOND_US, 5); /* another takes its place */
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(stats(2).policy->rate.count, 5);
    ck_assert_int_eq(standing(2), 1);
    pass(61 * CLOCK_SECOND_US);
    for (int i = 0; i < REPLICAS; i++) {
        ck_assert_ptr_eq(stats(i).policy, policy);
    }
}
END_TEST

static void be_ready(struct waiter *waiter)
{
    bucket_ready(waiter, true);
}

static void leave(struct waiter *waiter, struct mono now)
{
    (void)waiter;
    (void)now;
}

static void give_up(struct waiter *waiter, enum give_up why)
{
    (void)waiter;
    (void)why;
}

enum { WAITERS = 300 };

static void enter_many(int replica, struct waiter waiters[WAITERS])
{
    static const struct waiter_ops ops = {be_ready, leave, give_up};
    struct forecast forecast;

    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.ops = &ops};
        struct bucket *bucket = outbound_bucket(replicas[replica].outbound, policy, NAME);
        ck_assert_int_eq(bucket_enqueue(bucket, &waiters[i], 600 * CLOCK_SECOND_US, &forecast), ENQUEUE_OK);
    }
}

START_TEST(rates_that_change_one_replica_after_the_other_are_no_difference_between_them)
{
    struct waiter waiters[2][WAITERS];

    enter_many(0, waiters[0]);
    enter_many(1, waiters[1]);
    order(0, ORDER_RATE, 600 * CLOCK_SECOND_US, 1);
    pass(4 * CLOCK_SECOND_US); /* all have said so to each other */
    for (int i = 0; i < 7; i++) {
        order(i % 2, ORDER_RATE, 600 * CLOCK_SECOND_US, 5 + i);
        pass(4 * CLOCK_SECOND_US + 300 * CLOCK_MS_US * i);
        for (int r = 0; r < 2; r++) {
            ck_assert_int_lt(stats(r).interval_us, CLOCK_SECOND_US / 4);
            ck_assert_uint_eq(stats(r).limits_differ, 0);
        }
    }
    for (int i = 0; i < WAITERS; i++) {
        bucket_cancel(&waiters[0][i]);
        bucket_cancel(&waiters[1][i]);
    }
}
END_TEST

START_TEST(a_rate_that_is_taken_back_is_the_configured_one_at_once)
{
    order(0, ORDER_RATE, 600 * CLOCK_SECOND_US, 3);
    pass(CLOCK_SECOND_US);
    order(1, ORDER_UNRATE, 0, 0);
    pass(CLOCK_SECOND_US);
    ck_assert_ptr_eq(stats(0).policy, policy);
    ck_assert_ptr_eq(stats(1).policy, policy);
}
END_TEST

START_TEST(a_rate_ends_in_its_time_while_redis_is_gone)
{
    order(0, ORDER_RATE, 10 * CLOCK_SECOND_US, 3);
    pass(CLOCK_SECOND_US);
    server_stop(&server);
    pass(5 * CLOCK_SECOND_US);
    ck_assert_int_eq(stats(1).policy->rate.count, 3);
    pass(6 * CLOCK_SECOND_US);
    ck_assert_ptr_eq(stats(0).policy, policy);
    ck_assert_ptr_eq(stats(1).policy, policy);
}
END_TEST

START_TEST(without_redis_a_pause_is_done_here_and_a_rate_is_not)
{
    server_stop(&server);
    pass(5 * CLOCK_SECOND_US);
    order(0, ORDER_PAUSE, 60 * CLOCK_SECOND_US, 0);
    ck_assert_int_eq(answers, 1);
    ck_assert_int_eq(how, FLEET_ALONE);
    ck_assert_int_gt(stats(0).paused_us, 0);
    ck_assert_int_eq(stats(1).paused_us, 0);
    order(0, ORDER_RATE, 60 * CLOCK_SECOND_US, 3);
    ck_assert_int_eq(answers, 2);
    ck_assert_int_eq(how, FLEET_NOT);
    ck_assert_ptr_eq(stats(0).policy, policy);
}
END_TEST

START_TEST(an_order_whose_answer_is_lost_is_told_to_be_in_doubt)
{
    link_cut(replicas[0].link, true);
    order(0, ORDER_PAUSE, 60 * CLOCK_SECOND_US, 0);
    pass(10 * CLOCK_SECOND_US);
    ck_assert_int_eq(answers, 1);
    ck_assert_int_eq(how, FLEET_LOST);
    ck_assert_int_eq(stats(0).paused_us, 0);
    link_cut(replicas[0].link, false);
}
END_TEST

START_TEST(what_was_done_once_is_not_done_again_by_who_comes_later)
{
    order(0, ORDER_PAUSE, 600 * CLOCK_SECOND_US, 0);
    pass(CLOCK_SECOND_US);
    order(0, ORDER_RESUME, 0, 0);
    pass(CLOCK_SECOND_US);
    bucket_pause(outbound_bucket(replicas[0].outbound, policy, NAME), 60 * CLOCK_SECOND_US); /* the third party asks for it */
    start(2);
    pass(3 * CLOCK_SECOND_US);
    ck_assert_int_gt(stats(0).paused_us, 0); /* the resume is still shown, but older than the newcomer */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fleet");
    TCase *tcase = tcase_create("orders");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, replicas_know_how_many_are_alive);
    tcase_add_test(tcase, a_pause_is_everywhere_within_a_second_and_ends_by_itself);
    tcase_add_test(tcase, a_resume_ends_it_everywhere_within_a_second);
    tcase_add_test(tcase, a_rate_is_followed_by_all_also_by_one_that_comes_later_until_its_time);
    tcase_add_test(tcase, rates_that_change_one_replica_after_the_other_are_no_difference_between_them);
    tcase_add_test(tcase, a_rate_that_is_taken_back_is_the_configured_one_at_once);
    tcase_add_test(tcase, a_rate_ends_in_its_time_while_redis_is_gone);
    tcase_add_test(tcase, without_redis_a_pause_is_done_here_and_a_rate_is_not);
    tcase_add_test(tcase, an_order_whose_answer_is_lost_is_told_to_be_in_doubt);
    tcase_add_test(tcase, what_was_done_once_is_not_done_again_by_who_comes_later);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
