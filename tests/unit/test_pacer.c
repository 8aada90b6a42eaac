/* links: src/outbound/ src/lua/fleet.lua src/lua/word.lua src/lua/fly.lua src/lua/reserve.lua src/lua/settle.lua src/lua/pause.lua src/lua/members.lua src/base/mem.c src/base/must.c src/base/str.c tests/sim/loop_virtual.c tests/sim/policy_fixed.c tests/sim/log_quiet.c tests/sim/link_none.c src/conf/policy.c src/conf/feedback.c src/base/histogram.c */
/* Buckets of this process alone, in virtual time. */
#include "../sim/loop_virtual.h"
#include "../sim/policy_fixed.h"
#include "base/mem.h"
#include "outbound/ordered.h"
#include "outbound/outbound.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { GUESTS = 64 };

struct guest {
    struct waiter waiter;
    int64_t near_us, released_us, gave_up_us; /* -1 = not yet */
    int64_t ready_in_us;                      /* how long it dials; -1 = never */
    struct timer dialled;
    enum give_up why;
    struct guest *cancels; /* cancelled by its release */
};

static struct loop *loop;
static struct policy *policy;
static struct outbound *outbound;
static struct guest guests[GUESTS];
static int64_t zero_us;

static int64_t now_us(void)
{
    return loop_now(loop).us - zero_us;
}

static void dialled(struct timer *timer, struct mono now)
{
    struct guest *guest = container_of(timer, struct guest, dialled);
    (void)now;
    if (guest->waiter.bucket != NULL) {
        bucket_ready(&guest->waiter, true);
    }
}

static void on_near(struct waiter *waiter)
{
    struct guest *guest = container_of(waiter, struct guest, waiter);

    ck_assert_ptr_nonnull(waiter->bucket);
    guest->near_us = now_us();
    if (guest->ready_in_us == 0) {
        bucket_ready(waiter, true);
    } else if (guest->ready_in_us > 0) {
        timer_set(loop, &guest->dialled, mono_add(loop_now(loop), guest->ready_in_us), dialled);
    }
}

static void on_release(struct waiter *waiter, struct mono now)
{
    struct guest *guest = container_of(waiter, struct guest, waiter);

    ck_assert_ptr_null(waiter->bucket);
    ck_assert_int_eq(guest->released_us, -1);
    ck_assert_int_eq(now.us, loop_now(loop).us);
    guest->released_us = now_us();
    if (guest->cancels != NULL) {
        bucket_cancel(&guest->cancels->waiter);
    }
}

static void on_give_up(struct waiter *waiter, enum give_up why)
{
    struct guest *guest = container_of(waiter, struct guest, waiter);

    ck_assert_ptr_null(waiter->bucket);
    guest->gave_up_us = now_us();
    guest->why = why;
}

static const struct waiter_ops ops = {on_near, on_release, on_give_up};

static void setup(void)
{
    loop = loop_new();
    zero_us = loop_now(loop).us;
    policy = policy_fixed(10, CLOCK_SECOND_US);
    outbound = outbound_new(loop, NULL, "sluice", "one");
    for (int i = 0; i < GUESTS; i++) {
        guests[i] = (struct guest){.waiter.ops = &ops, .near_us = -1, .released_us = -1, .gave_up_us = -1};
    }
}

static void teardown(void)
{
    for (int i = 0; i < GUESTS; i++) {
        bucket_cancel(&guests[i].waiter);
        timer_clear(&guests[i].dialled);
    }
    outbound_free(outbound);
    policy_put(policy);
    loop_free(loop);
}

static void use_policy(int64_t count, int64_t period_us)
{
    policy_put(policy);
    policy = policy_fixed(count, period_us);
}

static struct bucket *bucket(void)
{
    return outbound_bucket(outbound, policy, "api.example.com");
}

static enum enqueue enter(int i, int64_t patience_us)
{
    struct forecast forecast;
    return bucket_enqueue(bucket(), &guests[i].waiter, patience_us, &forecast);
}

static void enter_many(int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(enter(i, 30 * CLOCK_SECOND_US), ENQUEUE_OK);
    }
}

static void pass(int64_t us)
{
    world_run(loop_world(loop), us);
}

static struct bucket_stats stats(void)
{
    struct bucket_stats out;
    bucket_stats(bucket(), &out);
    return out;
}

START_TEST(a_lone_request_leaves_without_any_time_passing)
{
    enter_many(1);
    pass(0);
    ck_assert_int_eq(guests[0].released_us, 0);
    ck_assert_uint_eq(stats().released, 1);
    ck_assert_uint_eq(stats().waiting, 0);
}
END_TEST

START_TEST(no_callback_is_made_from_inside_enqueue)
{
    enter_many(1);
    ck_assert_int_eq(guests[0].near_us, -1);
    pass(0);
    ck_assert_int_eq(guests[0].near_us, 0);
}
END_TEST

START_TEST(waiters_leave_in_order_one_interval_apart)
{
    int64_t interval = policy_interval_us(policy);

    enter_many(25);
    pass(3 * CLOCK_SECOND_US);
    for (int i = 0; i < 25; i++) {
        ck_assert_int_eq(guests[i].released_us, i * interval);
    }
    ck_assert_uint_le(stats().most_in_window, 10);
}
END_TEST

START_TEST(a_cancelled_waiter_costs_no_slot)
{
    int64_t interval = policy_interval_us(policy);

    enter_many(20);
    pass(interval / 2);
    for (int i = 2; i < 19; i++) {
        bucket_cancel(&guests[i].waiter);
    }
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(guests[1].released_us, interval);
    ck_assert_int_eq(guests[19].released_us, 2 * interval);
    ck_assert_uint_eq(stats().cancelled, 17);
}
END_TEST

START_TEST(cancelling_another_waiter_from_a_release_is_fine)
{
    enter_many(3);
    guests[0].cancels = &guests[1];
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(guests[1].released_us, -1);
    ck_assert_int_eq(guests[2].released_us, policy_interval_us(policy));
}
END_TEST

START_TEST(a_slot_nobody_is_left_for_is_given_back)
{
    int64_t interval = policy_interval_us(policy);

    enter_many(2);
    pass(interval / 2); /* the second one holds a window now */
    bucket_cancel(&guests[1].waiter);
    pass(0);
    ck_assert_uint_eq(stats().wasted_windows, 1);
    ck_assert_int_eq(enter(2, CLOCK_SECOND_US), ENQUEUE_OK);
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(guests[2].released_us, interval);
}
END_TEST

START_TEST(no_slot_is_spent_before_the_connection_is_ready)
{
    for (int i = 0; i < 5; i++) {
        guests[i].ready_in_us = 120 * CLOCK_MS_US;
    }
    enter_many(5);
    pass(2 * CLOCK_SECOND_US);
    ck_assert_int_eq(guests[0].released_us, 120 * CLOCK_MS_US);
    ck_assert_int_eq(guests[4].released_us, 120 * CLOCK_MS_US + 4 * policy_interval_us(policy));
    ck_assert_uint_eq(stats().late_windows, 0);
}
END_TEST

START_TEST(a_ready_waiter_overtakes_one_that_never_gets_ready)
{
    guests[0].ready_in_us = -1;
    enter_many(2);
    pass(0);
    ck_assert_int_eq(guests[1].released_us, 0);
    ck_assert_int_eq(guests[0].released_us, -1);
}
END_TEST

START_TEST(a_frozen_process_does_not_catch_up)
{
    int64_t interval = policy_interval_us(policy);

    enter_many(40);
    pass(interval + 1);
    loop_freeze(loop, 3 * CLOCK_SECOND_US);
    pass(4 * CLOCK_SECOND_US);
    int64_t thaw = interval + 1 + 3 * CLOCK_SECOND_US;
    ck_assert_int_eq(guests[2].released_us, thaw);
    ck_assert_int_eq(guests[3].released_us, thaw + interval);
    ck_assert_uint_eq(stats().late_windows, 1);
    ck_assert_uint_le(stats().most_in_window, 10);
}
END_TEST

START_TEST(a_late_loop_never_breaks_the_limit)
{
    use_policy(20, CLOCK_SECOND_US);
    loop_set_lateness(loop, 3000, 0.05, 60000);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < GUESTS; i++) {
            if (guests[i].waiter.bucket == NULL) {
                guests[i].released_us = guests[i].near_us = -1;
                ck_assert_int_eq(enter(i, 30 * CLOCK_SECOND_US), ENQUEUE_OK);
            }
        }
        pass(CLOCK_SECOND_US);
    }
    ck_assert_uint_le(stats().most_in_window, 20);
    ck_assert_uint_ge(stats().released, 40 * 20 * 80 / 100);
}
END_TEST

START_TEST(who_waits_too_long_is_given_up_at_its_deadline)
{
    guests[0].ready_in_us = -1;
    ck_assert_int_eq(enter(0, 300 * CLOCK_MS_US), ENQUEUE_OK);
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(guests[0].gave_up_us, 300 * CLOCK_MS_US);
    ck_assert_int_eq(guests[0].why, GIVE_UP_DEADLINE);
    ck_assert_uint_eq(stats().gave_up, 1);
}
END_TEST

START_TEST(who_would_wait_too_long_is_refused_with_a_true_retry_after)
{
    struct forecast forecast;

    enter_many(20);
    pass(0);
    ck_assert_int_eq(bucket_enqueue(bucket(), &guests[30].waiter, CLOCK_SECOND_US, &forecast), ENQUEUE_TOO_LONG);
    ck_assert_int_eq(forecast.wait_us, 20 * policy_interval_us(policy));
    ck_assert_uint_eq(forecast.position, 19);
    pass(forecast.retry_after_us);
    ck_assert_int_eq(enter(30, CLOCK_SECOND_US), ENQUEUE_OK);
    pass(2 * CLOCK_SECOND_US);
    ck_assert_int_ge(guests[30].released_us, 0);
}
END_TEST

START_TEST(a_full_queue_refuses_and_says_when_there_is_room)
{
    struct forecast forecast;

    policy->max_queue = 5;
    enter_many(5);
    ck_assert_int_eq(bucket_enqueue(bucket(), &guests[9].waiter, 30 * CLOCK_SECOND_US, &forecast), ENQUEUE_FULL);
    pass(0);
    ck_assert_int_eq(enter(5, 30 * CLOCK_SECOND_US), ENQUEUE_OK);
    ck_assert_int_eq(bucket_enqueue(bucket(), &guests[9].waiter, 30 * CLOCK_SECOND_US, &forecast), ENQUEUE_FULL);
    pass(forecast.retry_after_us);
    ck_assert_int_eq(enter(9, 30 * CLOCK_SECOND_US), ENQUEUE_OK);
    ck_assert_uint_eq(stats().refused, 2);
}
END_TEST

START_TEST(at_a_low_rate_connections_are_asked_for_two_seconds_ahead)
{
    use_policy(1, 10 * CLOCK_SECOND_US);
    int64_t interval = policy_interval_us(policy);

    enter_many(3);
    pass(30 * CLOCK_SECOND_US);
    ck_assert_int_eq(guests[0].released_us, 0);
    ck_assert_int_eq(guests[1].near_us, interval - 2 * CLOCK_SECOND_US);
    ck_assert_int_eq(guests[1].released_us, interval);
    ck_assert_int_eq(guests[2].released_us, 2 * interval);
}
END_TEST

START_TEST(an_unused_slot_is_used_again_while_its_window_is_open)
{
    int64_t interval = policy_interval_us(policy);

    enter_many(3);
    pass(interval);
    ck_assert_int_eq(guests[1].released_us, interval);
    pass(2 * CLOCK_MS_US);
    guests[1].released_us = -1;
    bucket_return(bucket(), &guests[1].waiter, mono_add(loop_now(loop), CLOCK_SECOND_US), true);
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(guests[2].released_us, interval + 2 * CLOCK_MS_US); /* it was ready */
    ck_assert_int_eq(guests[1].released_us, 2 * interval);
    ck_assert_uint_eq(stats().released, 3);
}
END_TEST

START_TEST(a_second_attempt_goes_first_and_needs_a_slot_of_its_own)
{
    int64_t interval = policy_interval_us(policy);

    enter_many(3);
    pass(interval + 1);
    guests[0].released_us = -1;
    bucket_return(bucket(), &guests[0].waiter, mono_add(loop_now(loop), CLOCK_SECOND_US), false);
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(guests[0].released_us, 2 * interval);
    ck_assert_int_eq(guests[2].released_us, 3 * interval);
    ck_assert_uint_eq(stats().released, 4);
}
END_TEST

START_TEST(a_pause_stops_everybody_and_no_burst_follows)
{
    int64_t interval = policy_interval_us(policy);

    enter_many(20);
    pass(interval + 1);
    bucket_pause(bucket(), 5 * CLOCK_SECOND_US);
    pass(8 * CLOCK_SECOND_US);
    ck_assert_int_eq(guests[2].released_us, interval + 1 + 5 * CLOCK_SECOND_US);
    ck_assert_int_eq(guests[3].released_us, 2 * interval + 1 + 5 * CLOCK_SECOND_US);
    ck_assert_uint_le(stats().most_in_window, 10);
}
END_TEST

static unsigned obey(enum order_verb verb, const char *name, int64_t for_us)
{
    return outbound_obey(outbound, &(struct order){.verb = verb, .name = name, .for_us = for_us, .who = "test"});
}

START_TEST(a_pause_can_be_ended_and_no_burst_follows)
{
    enter_many(20);
    pass(1);
    ck_assert_uint_eq(obey(ORDER_PAUSE, "api.example.com", 600 * CLOCK_SECOND_US), 1);
    pass(5 * CLOCK_SECOND_US);
    ck_assert_int_eq(guests[1].released_us, -1);
    ck_assert_int_eq(stats().paused_us, 595 * CLOCK_SECOND_US);
    ck_assert_int_ge(stats().wait_us, 595 * CLOCK_SECOND_US);
    ck_assert_int_eq(stats().oldest_us, 5 * CLOCK_SECOND_US + 1);
    ck_assert_uint_eq(obey(ORDER_RESUME, "api.example.com", 0), 1);
    pass(1);
    ck_assert_int_eq(guests[1].released_us, 5 * CLOCK_SECOND_US + 1);
    ck_assert_int_eq(guests[2].released_us, -1);
    ck_assert_int_eq(stats().paused_us, 0);
    pass(3 * CLOCK_SECOND_US);
    ck_assert_uint_le(stats().most_in_window, 10);
    ck_assert_uint_eq(stats().released, 20);
}
END_TEST

START_TEST(nothing_is_paused_under_a_name_that_nobody_has)
{
    enter_many(1);
    ck_assert_uint_eq(obey(ORDER_PAUSE, "api.example.org", CLOCK_SECOND_US), 0);
    ck_assert_uint_eq(obey(ORDER_RESUME, "", 0), 0);
}
END_TEST

/* What fleet.c does with an order that stands. */
static void order_rate(int64_t count, int64_t period_us)
{
    const struct order order = {.verb = ORDER_RATE, .name = "api.example.com", .rate = {count, period_us}, .who = "test"};

    orders_put(outbound_orders(outbound), &order, (struct mono){CLOCK_NEVER_US});
    outbound_obey(outbound, &order);
}

START_TEST(an_ordered_rate_retimes_who_waits_and_ends_as_it_came)
{
    int64_t interval = policy_interval_us(policy);

    enter_many(20);
    pass(1);
    order_rate(policy->rate.count, 10 * policy->rate.period_us);
    ck_assert_int_eq(stats().policy->rate.period_us, 10 * policy->rate.period_us);
    ck_assert_int_gt(stats().interval_us, 9 * interval);
    ck_assert_uint_eq(stats().waiting, 19);
    pass(3 * interval);
    uint64_t in_hand = stats().released; /* slots that had been given before */
    ck_assert_uint_le(in_hand, 4);
    pass(5 * interval);
    ck_assert_uint_le(stats().released, in_hand + 1);
    orders_drop(outbound_orders(outbound), ORDER_RATE, "api.example.com");
    ck_assert_uint_eq(obey(ORDER_UNRATE, "api.example.com", 0), 1);
    ck_assert_int_eq(stats().interval_us, interval);
    pass(40 * interval);
    ck_assert_uint_eq(stats().released, 20);
    ck_assert_uint_le(stats().most_in_window, 10);
}
END_TEST

START_TEST(a_purge_gives_up_who_waits_and_nobody_who_comes_later)
{
    enter_many(20);
    pass(1);
    ck_assert_uint_eq(obey(ORDER_PURGE, "api.example.com", 0), 1);
    pass(1);
    ck_assert_uint_eq(stats().waiting, 0);
    ck_assert_uint_eq(stats().tally->counts[TALLY_PURGED], 19);
    ck_assert_int_eq(enter(20, 60 * CLOCK_SECOND_US), ENQUEUE_OK);
    pass(2 * policy_interval_us(policy));
    ck_assert_uint_eq(stats().released, 2);
}
END_TEST

static struct bucket *part(const char *name)
{
    return outbound_part(outbound, policy, &(struct bucket_id){.destination = "api.example.com", .part = name, .parent = NULL});
}

START_TEST(parts_of_a_configured_destination_are_paused_with_it_also_new_ones)
{
    struct bucket_stats seen;
    const struct order order = {.verb = ORDER_PAUSE, .name = "api.example.com", .for_us = CLOCK_SECOND_US, .who = "test"};

    outbound_warm(outbound, policy, "api.example.com");
    part("k=1");
    orders_put(outbound_orders(outbound), &order, mono_add(loop_now(loop), CLOCK_SECOND_US));
    ck_assert_uint_eq(outbound_obey(outbound, &order), 2);
    bucket_stats(part("k=1"), &seen);
    ck_assert_int_eq(seen.paused_us, CLOCK_SECOND_US);
    bucket_stats(part("k=2"), &seen);
    ck_assert_int_eq(seen.paused_us, CLOCK_SECOND_US);
    ck_assert_str_eq(seen.destination, "api.example.com");
    ck_assert_uint_eq(obey(ORDER_PURGE, "api.example.com k=2", 0), 1);
}
END_TEST

static void count_visits(void *arg, const struct bucket_stats *seen)
{
    ck_assert_ptr_nonnull(seen->policy);
    ++*(int *)arg;
}

START_TEST(what_forgotten_buckets_did_stays_counted_and_a_configured_one_counts_for_itself)
{
    const struct tally *unlisted = outbound_unlisted(outbound);
    int kept = 0, busy = 0;

    outbound_warm(outbound, policy, "listed");
    enter_many(3);
    outbound_each_kept(outbound, count_visits, &kept);
    outbound_each_busy(outbound, 10, count_visits, &busy);
    ck_assert_int_eq(kept, 1);
    ck_assert_int_eq(busy, 1);
    ck_assert_uint_eq(unlisted->waiting, 3);
    pass(CLOCK_SECOND_US);
    ck_assert_uint_eq(unlisted->waiting, 0);
    pass(200 * CLOCK_SECOND_US);
    ck_assert_uint_eq(stats().released, 0); /* a new one */
    ck_assert_uint_eq(unlisted->counts[TALLY_RELEASED], 3);
    ck_assert_uint_eq(unlisted->counts[TALLY_ARRIVED], 3);
    ck_assert_uint_eq(unlisted->lateness.total, 3);
    struct forecast forecast;
    struct bucket *listed = outbound_bucket(outbound, policy, "listed");
    ck_assert_int_eq(bucket_enqueue(listed, &guests[9].waiter, CLOCK_SECOND_US, &forecast), ENQUEUE_OK);
    ck_assert_uint_eq(unlisted->counts[TALLY_ARRIVED], 3);
    pass(CLOCK_SECOND_US);
}
END_TEST

START_TEST(an_idle_bucket_is_forgotten_and_starts_where_it_left_off)
{
    enter_many(1);
    pass(10 * CLOCK_SECOND_US);
    ck_assert_uint_eq(stats().released, 1);
    pass(200 * CLOCK_SECOND_US);
    ck_assert_uint_eq(stats().released, 0); /* a new one */
}
END_TEST

START_TEST(a_configured_bucket_is_kept)
{
    outbound_warm(outbound, policy, "api.example.com");
    enter_many(1);
    pass(300 * CLOCK_SECOND_US);
    ck_assert_uint_eq(stats().released, 1);
}
END_TEST

START_TEST(a_new_policy_spaces_the_next_slots)
{
    struct policy *faster = policy_fixed(20, CLOCK_SECOND_US);

    enter_many(10);
    pass(1);
    outbound_bucket(outbound, faster, "api.example.com");
    pass(2 * CLOCK_SECOND_US);
    ck_assert_int_eq(guests[9].released_us - guests[8].released_us, policy_interval_us(faster));
    outbound_bucket(outbound, policy, "api.example.com");
    policy_put(faster);
}
END_TEST

START_TEST(the_gap_mode_keeps_requests_apart)
{
    policy->strict = STRICT_GAP;
    loop_set_lateness(loop, 2000, 0, 0);
    enter_many(40);
    pass(10 * CLOCK_SECOND_US);
    for (int i = 1; i < 40; i++) {
        ck_assert_int_ge(guests[i].released_us - guests[i - 1].released_us, CLOCK_SECOND_US / 10);
    }
}
END_TEST

/* ---- other settings ---- */

static struct policy *policy_of(const char *label, int64_t count, int64_t period_us, uint64_t version)
{
    struct policy *made = policy_fixed(count, period_us);

    mem_free(made->label);
    made->label = mem_strdup(label);
    made->version = version;
    return made;
}

static void enter_patiently(int count)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(enter(i, 86400 * CLOCK_SECOND_US), ENQUEUE_OK);
    }
}

START_TEST(who_waits_is_let_out_at_a_higher_rate_at_once)
{
    use_policy(1, 3600 * CLOCK_SECOND_US);
    enter_patiently(3);
    pass(CLOCK_SECOND_US);
    ck_assert_int_eq(guests[0].released_us, 0);
    ck_assert_int_eq(guests[1].released_us, -1);
    struct policy *fast = policy_of("fixed", 10, CLOCK_SECOND_US, 1);
    struct conf conf = {.version = 1, .fallback = fast};
    outbound_adopt(outbound, &conf);
    pass(CLOCK_SECOND_US);
    ck_assert_int_ge(guests[1].released_us, CLOCK_SECOND_US);
    ck_assert_int_ge(guests[2].released_us - guests[1].released_us, policy_interval_us(fast));
    ck_assert_int_lt(guests[2].released_us, 3 * CLOCK_SECOND_US / 2);
    policy_put(fast);
}
END_TEST

START_TEST(a_rate_that_is_raised_twice_never_lets_two_out_too_close)
{
    int64_t last = 0;

    use_policy(1, 10 * CLOCK_SECOND_US);
    enter_patiently(20);
    pass(CLOCK_SECOND_US);
    for (unsigned step = 1; step <= 5; step++) {
        struct policy *faster = policy_of("fixed", 2 * step, CLOCK_SECOND_US, step);
        struct conf conf = {.version = step, .fallback = faster};
        outbound_adopt(outbound, &conf);
        pass(CLOCK_SECOND_US);
        for (int i = 0; i < 20 && guests[i].released_us >= 0; i++) {
            if (guests[i].released_us > last && last > 0 && i > 0) {
                ck_assert_int_ge(guests[i].released_us - guests[i - 1].released_us, policy_interval_us(faster));
            }
            last = guests[i].released_us > last ? guests[i].released_us : last;
        }
        policy_put(faster); /* the bucket has it */
    }
}
END_TEST

START_TEST(an_earlier_policy_does_not_come_back)
{
    struct policy *newer = policy_of("fixed", 20, CLOCK_SECOND_US, 2);

    ck_assert_ptr_nonnull(bucket());
    ck_assert_ptr_nonnull(outbound_bucket(outbound, newer, "api.example.com"));
    ck_assert_ptr_eq(stats().policy, newer); /* though stats() asks for it under the earlier one */
    policy_put(newer);
}
END_TEST

static void note_name(void *arg, const struct bucket_stats *seen)
{
    strcat(arg, seen->name);
}

START_TEST(configured_buckets_come_and_go_and_keep_the_order_of_the_file)
{
    char names[64] = "";
    struct policy *old[] = {policy_of("a", 1, CLOCK_SECOND_US, 0), policy_of("b", 1, CLOCK_SECOND_US, 0)};
    struct policy *new[] = {policy_of("c", 2, CLOCK_SECOND_US, 1), policy_of("b", 2, CLOCK_SECOND_US, 1)};
    struct conf conf = {.version = 1, .fallback = policy, .policies = new, .policies_count = 2};
    struct forecast forecast;

    outbound_warm(outbound, old[0], "a");
    outbound_warm(outbound, old[1], "b");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(bucket_enqueue(outbound_bucket(outbound, old[0], "a"), &guests[i].waiter, 30 * CLOCK_SECOND_US,
                                        &forecast),
                         ENQUEUE_OK);
    }
    outbound_adopt(outbound, &conf);
    pass(100 * CLOCK_MS_US);
    outbound_each_kept(outbound, note_name, names);
    ck_assert_str_eq(names, "cb");
    pass(10 * CLOCK_SECOND_US);
    ck_assert_int_ge(guests[2].released_us, 2 * CLOCK_SECOND_US); /* worked off at the rate it had */
    pass(120 * CLOCK_SECOND_US);
    names[0] = '\0';
    outbound_each(outbound, note_name, names);
    ck_assert_ptr_null(strchr(names, 'a')); /* then forgotten */
    for (int i = 0; i < 2; i++) {
        policy_put(old[i]);
        policy_put(new[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pacer");
    TCase *alone = tcase_create("this process alone");
    const TTest *const tests[] = {
        a_lone_request_leaves_without_any_time_passing,
        no_callback_is_made_from_inside_enqueue,
        waiters_leave_in_order_one_interval_apart,
        a_cancelled_waiter_costs_no_slot,
        cancelling_another_waiter_from_a_release_is_fine,
        a_slot_nobody_is_left_for_is_given_back,
        no_slot_is_spent_before_the_connection_is_ready,
        a_ready_waiter_overtakes_one_that_never_gets_ready,
        a_frozen_process_does_not_catch_up,
        a_late_loop_never_breaks_the_limit,
        who_waits_too_long_is_given_up_at_its_deadline,
        who_would_wait_too_long_is_refused_with_a_true_retry_after,
        a_full_queue_refuses_and_says_when_there_is_room,
        at_a_low_rate_connections_are_asked_for_two_seconds_ahead,
        an_unused_slot_is_used_again_while_its_window_is_open,
        a_second_attempt_goes_first_and_needs_a_slot_of_its_own,
        a_pause_stops_everybody_and_no_burst_follows,
        a_pause_can_be_ended_and_no_burst_follows,
        nothing_is_paused_under_a_name_that_nobody_has,
        an_ordered_rate_retimes_who_waits_and_ends_as_it_came,
        a_purge_gives_up_who_waits_and_nobody_who_comes_later,
        parts_of_a_configured_destination_are_paused_with_it_also_new_ones,
        what_forgotten_buckets_did_stays_counted_and_a_configured_one_counts_for_itself,
        an_idle_bucket_is_forgotten_and_starts_where_it_left_off,
        a_configured_bucket_is_kept,
        a_new_policy_spaces_the_next_slots,
        the_gap_mode_keeps_requests_apart,
        who_waits_is_let_out_at_a_higher_rate_at_once,
        a_rate_that_is_raised_twice_never_lets_two_out_too_close,
        an_earlier_policy_does_not_come_back,
        configured_buckets_come_and_go_and_keep_the_order_of_the_file,
    };

    tcase_add_checked_fixture(alone, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(alone, tests[i]);
    }
    suite_add_tcase(suite, alone);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
