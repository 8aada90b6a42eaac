/* links: src/outbound/ src/lua/fleet.lua src/lua/word.lua src/lua/reserve.lua src/lua/settle.lua src/lua/pause.lua src/lua/members.lua src/conf/policy.c src/conf/feedback.c src/base/mem.c src/base/must.c src/base/str.c tests/sim/loop_virtual.c tests/sim/policy_fixed.c tests/sim/log_quiet.c tests/sim/link_virtual.c tests/sim/fake_redis.c tests/sim/fake_commands.c src/base/histogram.c src/lua/fly.lua */
/* Two replicas, a Redis, and a third party that says something to one of them, in virtual time. */
#include "../sim/link_virtual.h"
#include "../sim/policy_fixed.h"
#include "base/mem.h"
#include "outbound/outbound.h"

#include <check.h>
#include <stdlib.h>

#define NAME "api.example.com"
#define SECOND CLOCK_SECOND_US
#define MS CLOCK_MS_US
enum { GUESTS = 60, REPLICAS = 2 };

struct guest {
    struct waiter waiter;
    int64_t released_us, gave_up_us; /* -1 = not yet */
    enum give_up why;
};

struct replica {
    struct loop *loop;
    struct link *link;
    struct outbound *outbound;
    struct guest guests[GUESTS];
    int used;
};

static struct world *world;
static struct server server;
static struct policy *policy;
static struct replica replicas[REPLICAS];
static struct replica *const a = &replicas[0], *const b = &replicas[1];

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

static void pass(int64_t us)
{
    world_run(world, us);
}

static struct bucket *bucket(struct replica *r)
{
    return outbound_bucket(r->outbound, policy, NAME);
}

static void setup(void)
{
    const struct link_conditions conditions = {.delay_us = 500};

    world = world_new(1);
    server_init(&server, world);
    policy = policy_fixed(10, SECOND);
    policy->feedback = (struct feedback_conf){.on = true,
                                              .pause_default_us = SECOND,
                                              .pause_growth = 2,
                                              .pause_max_us = 60 * SECOND,
                                              .ban_pause_us = 10 * SECOND,
                                              .adapt = true,
                                              .adapt_floor = 10,
                                              .adapt_return_us = 8 * SECOND};
    for (int i = 0; i < REPLICAS; i++) {
        struct replica *r = &replicas[i];
        *r = (struct replica){.loop = world_loop(world, 77000000 * (i + 1), 20)};
        r->link = link_virtual(r->loop, &server, &conditions);
        r->outbound = outbound_new(r->loop, r->link, "sluice", i == 0 ? "a" : "b");
        link_start(r->link);
        outbound_warm(r->outbound, policy, NAME);
    }
    pass(3 * SECOND);
}

static void teardown(void)
{
    for (int i = 0; i < REPLICAS; i++) {
        struct replica *r = &replicas[i];
        for (int g = 0; g < r->used; g++) {
            bucket_cancel(&r->guests[g].waiter);
        }
        outbound_free(r->outbound);
        link_free(r->link);
        loop_kill(r->loop);
    }
    pass(60 * SECOND); /* until what is under way has arrived */
    for (int i = 0; i < REPLICAS; i++) {
        loop_free(replicas[i].loop);
        mem_free(replicas[i].link);
    }
    policy_put(policy);
    server_fini(&server);
    world_free(world);
}

static void enter(struct replica *r, int count, int64_t patience_us)
{
    struct forecast forecast;

    for (int i = 0; i < count; i++) {
        struct guest *guest = &r->guests[r->used++];
        *guest = (struct guest){.waiter.ops = &ops, .released_us = -1, .gave_up_us = -1};
        ck_assert_int_eq(bucket_enqueue(bucket(r), &guest->waiter, patience_us, &forecast), ENQUEUE_OK);
    }
}

static int64_t tell(struct replica *r, enum told told, int64_t asked_us, int64_t remaining)
{
    struct answer answer = {told, loop_now(r->loop), asked_us, remaining};
    return bucket_told(bucket(r), &answer);
}

static int released_between(int64_t from_us, int64_t to_us)
{
    int count = 0;

    for (int i = 0; i < REPLICAS; i++) {
        for (int g = 0; g < replicas[i].used; g++) {
            count += replicas[i].guests[g].released_us > from_us && replicas[i].guests[g].released_us < to_us;
        }
    }
    return count;
}

static struct bucket_stats stats(struct replica *r)
{
    struct bucket_stats out;
    bucket_stats(bucket(r), &out);
    return out;
}

START_TEST(a_word_to_one_stops_both_within_a_round_trip_and_then_the_rate_is_kept)
{
    enter(a, 20, 60 * SECOND);
    enter(b, 20, 60 * SECOND);
    pass(2 * SECOND);
    int64_t told_us = world_now(world);
    ck_assert_int_eq(tell(a, TOLD_THROTTLED, 2 * SECOND, 0), 2 * SECOND);
    pass(4 * SECOND);
    ck_assert_int_eq(released_between(told_us + 10 * MS, told_us + 2 * SECOND), 0);
    ck_assert_int_le(released_between(told_us, told_us + 10 * MS), 1);
    ck_assert_int_ge(released_between(told_us + 2 * SECOND, told_us + 2 * SECOND + 150 * MS), 1);
    ck_assert_int_le(released_between(told_us + 2 * SECOND, told_us + 3 * SECOND), 10);
    ck_assert_int_ge(released_between(told_us + 3 * SECOND, told_us + 4 * SECOND), 9);
}
END_TEST

START_TEST(who_cannot_make_it_hears_so_at_once_and_the_others_stay)
{
    enter(a, 5, 20 * SECOND);
    enter(a, 10, 5 * SECOND);
    enter(b, 5, 5 * SECOND);
    pass(200 * MS);
    int64_t told_us = world_now(world);
    tell(a, TOLD_THROTTLED, 10 * SECOND, 0);
    pass(1100 * MS);
    int gone = 0;
    for (int g = 0; g < 15; g++) {
        const struct guest *guest = &a->guests[g];
        gone += guest->gave_up_us >= 0;
        ck_assert(guest->gave_up_us < 0 ||
                  (g >= 5 && guest->why == GIVE_UP_PAUSED && guest->gave_up_us <= told_us + 5 * MS));
    }
    ck_assert_int_ge(gone, 8);
    for (int g = 0; g < 5; g++) { /* the other replica learns it when it next asks for a slot */
        ck_assert(b->guests[g].released_us >= 0 || b->guests[g].why == GIVE_UP_PAUSED);
    }
    ck_assert_uint_eq(stats(b).waiting, 0);
    int64_t left_us;
    ck_assert_int_eq(bucket_stopped(bucket(b), &left_us), STOP_THROTTLED);
    pass(12 * SECOND);
    for (int g = 0; g < 5; g++) {
        ck_assert_int_ge(a->guests[g].released_us, 0);
    }
}
END_TEST

START_TEST(an_operator_may_end_it_and_the_next_word_counts_again)
{
    tell(a, TOLD_BANNED, 0, 0);
    pass(100 * MS);
    int64_t left_us;
    ck_assert_int_eq(bucket_stopped(bucket(a), &left_us), STOP_BANNED);
    bucket_resume(bucket(a));
    pass(100 * MS);
    ck_assert_int_eq(bucket_stopped(bucket(a), &left_us), STOP_NONE);
    enter(a, 1, SECOND);
    pass(300 * MS);
    ck_assert_int_ge(a->guests[0].released_us, 0);
    ck_assert_int_eq(tell(a, TOLD_THROTTLED, 3 * SECOND, 0), 3 * SECOND);
    enter(a, 1, 10 * SECOND);
    pass(2 * SECOND);
    ck_assert_int_lt(a->guests[1].released_us, 0);
    pass(2 * SECOND);
    ck_assert_int_ge(a->guests[1].released_us, 0);
}
END_TEST

START_TEST(without_redis_it_holds_here_and_is_told_to_the_others_later)
{
    server_stop(&server);
    pass(SECOND);
    tell(a, TOLD_THROTTLED, 6 * SECOND, 0);
    server_start(&server, NULL);
    pass(2 * SECOND);
    int64_t now_us = world_now(world);
    enter(b, 1, 30 * SECOND);
    pass(8 * SECOND);
    ck_assert_int_ge(b->guests[0].released_us, now_us + 2900 * MS);
}
END_TEST

START_TEST(open_without_redis_does_not_mean_against_the_third_partys_word)
{
    policy->on_redis_down = REDIS_DOWN_OPEN;
    server_stop(&server);
    enter(a, 1, 30 * SECOND);
    pass(3 * SECOND);
    ck_assert_int_ge(a->guests[0].released_us, 0);
    tell(a, TOLD_THROTTLED, 2 * SECOND, 0);
    int64_t told_us = world_now(world);
    enter(a, 3, 30 * SECOND);
    pass(5 * SECOND);
    for (int g = 1; g < 4; g++) {
        ck_assert_int_ge(a->guests[g].released_us, told_us + 2 * SECOND - MS); /* its clock runs a little fast */
    }
}
END_TEST

START_TEST(a_low_budget_slows_both_and_half_of_it_comes_back_in_time)
{
    int64_t even_us = stats(a).interval_us;

    enter(a, 40, 600 * SECOND);
    enter(b, 10, 600 * SECOND);
    tell(a, TOLD_BUDGET, 10 * SECOND, 20); /* one each half second */
    ck_assert_int_ge(stats(a).interval_us, 490 * MS);
    pass(1200 * MS);
    ck_assert_int_ge(stats(b).interval_us, 400 * MS);
    pass(8 * SECOND);
    ck_assert_int_le(stats(a).interval_us, 320 * MS);
    ck_assert_int_ge(stats(a).interval_us, 2 * even_us);
    pass(200 * SECOND);
    ck_assert_int_eq(stats(a).interval_us, even_us);
}
END_TEST

START_TEST(good_answers_cost_no_call)
{
    uint64_t before = stats(a).redis_calls;

    for (int i = 0; i < 100; i++) {
        tell(a, TOLD_WELL, 0, 0);
        tell(a, TOLD_BUDGET, SECOND, 100);
    }
    ck_assert_uint_eq(stats(a).redis_calls, before);
    tell(a, TOLD_THROTTLED, 0, 0);
    pass(1500 * MS);
    before = stats(a).redis_calls;
    tell(a, TOLD_WELL, 0, 0);
    tell(a, TOLD_WELL, 0, 0);
    ck_assert_uint_eq(stats(a).redis_calls, before + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("word");
    TCase *tc = tcase_create("word");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_word_to_one_stops_both_within_a_round_trip_and_then_the_rate_is_kept);
    tcase_add_test(tc, who_cannot_make_it_hears_so_at_once_and_the_others_stay);
    tcase_add_test(tc, an_operator_may_end_it_and_the_next_word_counts_again);
    tcase_add_test(tc, without_redis_it_holds_here_and_is_told_to_the_others_later);
    tcase_add_test(tc, open_without_redis_does_not_mean_against_the_third_partys_word);
    tcase_add_test(tc, a_low_budget_slows_both_and_half_of_it_comes_back_in_time);
    tcase_add_test(tc, good_answers_cost_no_call);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
