/* links: src/outbound/ src/lua/word.lua src/lua/fleet.lua src/lua/fly.lua src/lua/reserve.lua src/lua/settle.lua src/lua/pause.lua src/lua/members.lua src/base/mem.c src/base/must.c src/base/str.c tests/sim/loop_virtual.c tests/sim/policy_fixed.c tests/sim/log_quiet.c tests/sim/link_none.c src/conf/policy.c src/conf/feedback.c src/base/histogram.c */
/* Parts of destinations, by this process alone, in virtual time: how many there may be, and what limits several of them. */
#include "../sim/loop_virtual.h"
#include "../sim/policy_fixed.h"
#include "base/mem.h"
#include "outbound/outbound.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND CLOCK_SECOND_US
enum { GUESTS = 256, NEVER = -1 };

struct guest {
    struct waiter waiter;
    int64_t released_us;
    int gave_up;
};

static struct loop *loop;
static struct policy *policy, *route;
static struct outbound *outbound;
static struct guest guests[GUESTS];
static int64_t zero_us;

static void on_near(struct waiter *waiter)
{
    bucket_ready(waiter, true);
}

static void on_release(struct waiter *waiter, struct mono now)
{
    container_of(waiter, struct guest, waiter)->released_us = now.us - zero_us;
}

static void on_give_up(struct waiter *waiter, enum give_up why)
{
    container_of(waiter, struct guest, waiter)->gave_up = (int)why;
}

static const struct waiter_ops ops = {on_near, on_release, on_give_up};

static void setup(void)
{
    loop = loop_new();
    zero_us = loop_now(loop).us;
    policy = policy_fixed(10, SECOND);
    route = policy_fixed(10, SECOND);
    route->parent = policy_get(policy);
    outbound = outbound_new(loop, NULL, "sluice", "one");
    for (int i = 0; i < GUESTS; i++) {
        guests[i] = (struct guest){.waiter.ops = &ops, .released_us = NEVER, .gave_up = NEVER};
    }
}

static void teardown(void)
{
    for (int i = 0; i < GUESTS; i++) {
        bucket_cancel(&guests[i].waiter);
        bucket_finish(&guests[i].waiter, 0);
    }
    outbound_free(outbound);
    policy_put(route);
    policy_put(policy);
    loop_free(loop);
}

static void pass(int64_t us)
{
    world_run(loop_world(loop), us);
}

static struct bucket *part(const char *name, const char *parent)
{
    struct bucket_id id = {.destination = "api", .part = name, .parent = parent};
    return outbound_part(outbound, parent != NULL ? route : policy, &id);
}

static enum enqueue enter(int i, struct bucket *bucket)
{
    struct forecast forecast;
    ck_assert_ptr_nonnull(bucket);
    return bucket_enqueue(bucket, &guests[i].waiter, 60 * SECOND, &forecast);
}

static int released(int first, int count)
{
    int sum = 0;

    for (int i = first; i < first + count; i++) {
        sum += guests[i].released_us != NEVER;
    }
    return sum;
}

static void limit(struct policy *to, struct quota_limit quota)
{
    to->quotas = mem_realloc(to->quotas, (to->quotas_count + 1) * sizeof(quota));
    to->quotas[to->quotas_count++] = quota;
}

START_TEST(beyond_the_most_idle_ones_make_room_and_busy_ones_stay)
{
    char name[16];

    outbound_set_most(outbound, 10);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof(name), "k=%d", i);
        ck_assert_int_eq(enter(2 * i, part(name, NULL)), ENQUEUE_OK);
        ck_assert_int_eq(enter(2 * i + 1, part(name, NULL)), ENQUEUE_OK);
    }
    ck_assert_ptr_null(part("k=new", NULL));
    ck_assert_ptr_nonnull(part("k=3", NULL));
    pass(SECOND);
    ck_assert_int_eq(released(0, 20), 20);
    for (int i = 10; i < 1000; i++) { /* nobody waits any more */
        snprintf(name, sizeof(name), "k=%d", i);
        ck_assert_ptr_nonnull(part(name, NULL));
    }
    int count = 0;
    struct bucket_stats stats;
    ck_assert_int_eq(enter(30, part("k=busy", NULL)), ENQUEUE_OK);
    ck_assert_int_eq(enter(31, part("k=busy", NULL)), ENQUEUE_OK);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "n=%d", i);
        count += part(name, NULL) != NULL;
    }
    ck_assert_int_eq(count, 100);
    bucket_stats(part("k=busy", NULL), &stats);
    ck_assert_uint_eq(stats.waiting, 2);
}
END_TEST

START_TEST(who_returns_gets_its_bucket_even_where_there_are_too_many)
{
    struct bucket_id id = {.destination = "api", .part = "k=2", .again = true};

    outbound_set_most(outbound, 1);
    ck_assert_int_eq(enter(0, part("k=1", NULL)), ENQUEUE_OK);
    ck_assert_ptr_null(part("k=2", NULL));
    ck_assert_ptr_nonnull(outbound_part(outbound, policy, &id));
}
END_TEST

START_TEST(configured_ones_do_not_count_and_sum_up_their_parts)
{
    struct bucket_stats stats;

    outbound_warm(outbound, policy, "api");
    outbound_set_most(outbound, 2);
    ck_assert_int_eq(enter(0, part("k=1", NULL)), ENQUEUE_OK);
    ck_assert_int_eq(enter(1, part("k=2", NULL)), ENQUEUE_OK);
    ck_assert_ptr_null(part("k=3", NULL));
    bucket_stats(outbound_bucket(outbound, policy, "api"), &stats);
    ck_assert_uint_eq(stats.parts, 2);
    ck_assert_uint_eq(stats.waiting, 2);
    pass(SECOND);
    bucket_stats(outbound_bucket(outbound, policy, "api"), &stats);
    ck_assert_uint_eq(stats.waiting, 0);
    ck_assert_uint_eq(stats.tally->counts[TALLY_RELEASED], 2);
    ck_assert_uint_eq(outbound_unlisted(outbound)->counts[TALLY_ARRIVED], 0);
    pass(200 * SECOND);
    bucket_stats(outbound_bucket(outbound, policy, "api"), &stats);
    ck_assert_uint_eq(stats.parts, 0);
}
END_TEST

START_TEST(what_a_quota_remembers_keeps_its_bucket)
{
    limit(policy, (struct quota_limit){.count = 2, .period_us = 3600 * SECOND});
    outbound_set_most(outbound, 1);
    ck_assert_int_eq(enter(0, part("k=1", NULL)), ENQUEUE_OK);
    ck_assert_int_eq(enter(1, part("k=1", NULL)), ENQUEUE_OK);
    ck_assert_int_eq(enter(2, part("k=1", NULL)), ENQUEUE_OK);
    pass(30 * SECOND);
    ck_assert_int_eq(released(0, 3), 2);
    bucket_cancel(&guests[2].waiter);
    pass(300 * SECOND);
    ck_assert_ptr_null(part("k=2", NULL));
    pass(3600 * SECOND);
    ck_assert_ptr_nonnull(part("k=2", NULL));
}
END_TEST

START_TEST(parts_of_a_destination_share_what_limits_the_whole)
{
    policy->max_in_flight = 3;
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(enter(i, part(i % 2 ? "r=a" : "r=b", "")), ENQUEUE_OK);
    }
    pass(5 * SECOND);
    ck_assert_int_eq(released(0, 6), 3);
    for (int i = 0; i < 6; i++) {
        if (guests[i].released_us != NEVER) {
            bucket_finish(&guests[i].waiter, 0);
            break;
        }
    }
    pass(SECOND);
    ck_assert_int_eq(released(0, 6), 4);
}
END_TEST

START_TEST(a_slow_part_does_not_hold_up_a_fast_one)
{
    route->rate = (struct rate){1, 10 * SECOND};
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(enter(i, part("r=slow", "")), ENQUEUE_OK);
    }
    for (int i = 10; i < 210; i++) {
        ck_assert_int_eq(enter(i, part("", NULL)), ENQUEUE_OK);
    }
    pass(20 * SECOND);
    ck_assert_int_ge(released(10, 200), 190);
    ck_assert_int_ge(released(0, 5), 2);
    ck_assert_int_le(released(0, 5), 3);
}
END_TEST

START_TEST(new_settings_give_up_who_costs_more_than_there_ever_is)
{
    struct policy *smaller = policy_fixed(10, SECOND);

    limit(policy, (struct quota_limit){.count = 50, .period_us = 10 * SECOND});
    limit(smaller, (struct quota_limit){.count = 5, .period_us = 10 * SECOND});
    for (int i = 0; i < 100; i++) {
        guests[i].waiter.cost = i % 2 ? 8 : 1;
        ck_assert_int_eq(enter(i, part("", NULL)), ENQUEUE_OK);
    }
    outbound_bucket(outbound, smaller, "api");
    pass(SECOND / 10);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(guests[i].gave_up, i % 2 && guests[i].released_us == NEVER ? (int)GIVE_UP_COST : NEVER);
    }
    pass(35 * SECOND);
    ck_assert_int_ge(released(0, 100), 10);
    outbound_bucket(outbound, policy, "api");
    policy_put(smaller);
}
END_TEST

START_TEST(what_was_counted_stays_counted_when_only_the_number_changes)
{
    struct policy *larger = policy_fixed(10, SECOND);

    limit(policy, (struct quota_limit){.count = 5, .period_us = 60 * SECOND});
    limit(larger, (struct quota_limit){.count = 1000, .period_us = 3600 * SECOND});
    limit(larger, (struct quota_limit){.count = 7, .period_us = 60 * SECOND});
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(enter(i, part("", NULL)), ENQUEUE_OK);
    }
    pass(10 * SECOND);
    ck_assert_int_eq(released(0, 20), 5);
    outbound_bucket(outbound, larger, "api");
    pass(10 * SECOND);
    ck_assert_int_eq(released(0, 20), 7);
    outbound_bucket(outbound, policy, "api");
    policy_put(larger);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parts of destinations");
    TCase *one = tcase_create("one process");

    tcase_add_checked_fixture(one, setup, teardown);
    tcase_add_test(one, beyond_the_most_idle_ones_make_room_and_busy_ones_stay);
    tcase_add_test(one, who_returns_gets_its_bucket_even_where_there_are_too_many);
    tcase_add_test(one, configured_ones_do_not_count_and_sum_up_their_parts);
    tcase_add_test(one, what_a_quota_remembers_keeps_its_bucket);
    tcase_add_test(one, parts_of_a_destination_share_what_limits_the_whole);
    tcase_add_test(one, a_slow_part_does_not_hold_up_a_fast_one);
    tcase_add_test(one, new_settings_give_up_who_costs_more_than_there_ever_is);
    tcase_add_test(one, what_was_counted_stays_counted_when_only_the_number_changes);
    suite_add_tcase(suite, one);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
