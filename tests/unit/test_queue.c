/* links: src/outbound/queue.c src/outbound/line.c src/outbound/meter.c src/outbound/fallback.c src/outbound/rtt.c src/base/mem.c src/base/must.c tests/sim/loop_virtual.c src/outbound/tally.c src/base/histogram.c */
/* The small pure parts around the pacer: the queue, the meter, the decision of what to do without Redis, round trips.
 */
#include "outbound/fallback.h"
#include "outbound/meter.h"
#include "outbound/queue.h"
#include "outbound/rtt.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

enum { WAITERS = 6 };

static const struct waiter_ops ops;
static struct queue queue;
static struct waiter waiters[WAITERS];
static struct bucket *const bucket = (struct bucket *)&queue; /* only compared */

static void setup(void)
{
    queue_init(&queue, WAITERS - 1);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.ops = &ops};
    }
    for (int i = 0; i < WAITERS - 1; i++) {
        queue_append(&queue, &waiters[i], bucket);
    }
}

START_TEST(waiters_keep_their_order)
{
    ck_assert_ptr_eq(queue_first(&queue), &waiters[0]);
    ck_assert_ptr_eq(queue_last(&queue), &waiters[4]);
    ck_assert_uint_eq(queue.count, 5);
    ck_assert(queue_is_full(&queue, &waiters[WAITERS - 1]));
}
END_TEST

START_TEST(one_leaves_from_anywhere)
{
    queue_remove(&queue, &waiters[2]);
    ck_assert_ptr_null(waiters[2].bucket);
    ck_assert_ptr_eq(line_next(&queue.lines[WAITER_HIGH], &waiters[1]), &waiters[3]);
    ck_assert(!queue_is_full(&queue, &waiters[WAITERS - 1]));
}
END_TEST

START_TEST(a_returned_waiter_is_first_and_starts_anew)
{
    waiters[0].near = waiters[0].ready = true;
    queue_remove(&queue, &waiters[0]);
    queue_remove(&queue, &waiters[1]);
    queue_prepend(&queue, &waiters[0], bucket);
    ck_assert_ptr_eq(queue_first(&queue), &waiters[0]);
    ck_assert(!waiters[0].near && !waiters[0].ready);
}
END_TEST

START_TEST(the_first_ready_one_is_found_among_the_first_few)
{
    waiters[3].ready = waiters[4].ready = true;
    ck_assert_ptr_eq(queue_first_ready(&queue, 5, 1), &waiters[3]);
    ck_assert_ptr_null(queue_first_ready(&queue, 3, 1));
    unsigned cost;
    ck_assert_uint_eq(queue_ready_run(&queue, 4, 0, &cost), 1);
    ck_assert_uint_eq(queue_ready_run(&queue, 99, 0, &cost), 2);
    ck_assert_uint_eq(queue_ready_run(&queue, 99, 1, &cost), 1);
    ck_assert_uint_eq(cost, 1);
}
END_TEST

START_TEST(the_first_far_one_is_found_with_its_position)
{
    unsigned position;

    waiters[0].near = waiters[1].near = true;
    ck_assert_ptr_eq(queue_first_far(&queue, 5, &position), &waiters[2]);
    ck_assert_uint_eq(position, 2);
    ck_assert_ptr_null(queue_first_far(&queue, 2, &position));
}
END_TEST

START_TEST(entering_twice_is_our_mistake)
{
    queue_append(&queue, &waiters[0], bucket);
}
END_TEST

START_TEST(a_meter_counts_half_open_periods)
{
    struct meter meter = {0};

    meter_init(&meter, 1000, 3);
    meter_add(&meter, (struct mono){0});
    meter_add(&meter, (struct mono){500});
    meter_add(&meter, (struct mono){999});
    ck_assert_uint_eq(meter.most, 3);
    meter_add(&meter, (struct mono){1000}); /* exactly a period after the first */
    ck_assert_uint_eq(meter.most, 3);
    meter_add(&meter, (struct mono){1400});
    ck_assert_uint_eq(meter.most, 4);
    meter_fini(&meter);
}
END_TEST

START_TEST(a_release_that_was_none_is_not_counted)
{
    struct meter meter = {0};

    meter_init(&meter, 1000, 100);
    for (int64_t at = 0; at < 40; at++) {
        meter_add(&meter, (struct mono){at});
    }
    meter_undo(&meter, (struct mono){20});
    meter_undo(&meter, (struct mono){20}); /* there is none left */
    meter_add(&meter, (struct mono){40});
    ck_assert_uint_eq(meter.most, 40);
    meter_fini(&meter);
}
END_TEST

START_TEST(what_happens_without_redis)
{
    static const struct {
        enum on_redis_down on;
        int64_t down_us;
        enum fallback then;
    } rows[] = {
        {REDIS_DOWN_HOLD, 0, FALLBACK_HOLD},
        {REDIS_DOWN_HOLD, 3600 * CLOCK_SECOND_US, FALLBACK_HOLD},
        {REDIS_DOWN_RESERVE, 0, FALLBACK_RESERVE},
        {REDIS_DOWN_RESERVE, 3600 * CLOCK_SECOND_US, FALLBACK_RESERVE},
        {REDIS_DOWN_REJECT, 0, FALLBACK_HOLD},
        {REDIS_DOWN_REJECT, FALLBACK_GRACE_US - 1, FALLBACK_HOLD},
        {REDIS_DOWN_REJECT, FALLBACK_GRACE_US, FALLBACK_REJECT},
        {REDIS_DOWN_OPEN, FALLBACK_GRACE_US - 1, FALLBACK_HOLD},
        {REDIS_DOWN_OPEN, FALLBACK_GRACE_US, FALLBACK_OPEN},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct policy policy = {
            .rate = {10, CLOCK_SECOND_US}, .on_redis_down = rows[i].on, .outage_permits = 1, .replicas_max = 4};
        ck_assert_int_eq(fallback_decide(&policy, false, rows[i].down_us), rows[i].then);
        ck_assert_int_eq(fallback_decide(&policy, true, rows[i].down_us), FALLBACK_SHARED);
    }
}
END_TEST

START_TEST(permits_come_off_the_shared_rate)
{
    struct policy policy = {
        .rate = {10, CLOCK_SECOND_US}, .on_redis_down = REDIS_DOWN_RESERVE, .outage_permits = 2, .replicas_max = 4};

    ck_assert_int_eq(fallback_permits(&policy), 2);
    ck_assert_int_eq(fallback_shared_count(&policy), 2);
    policy.replicas_max = 5; /* nothing would be left */
    ck_assert_int_eq(fallback_permits(&policy), 0);
    ck_assert_int_eq(fallback_shared_count(&policy), 10);
    ck_assert_int_eq(fallback_decide(&policy, false, 0), FALLBACK_HOLD);
}
END_TEST

START_TEST(round_trips_are_summed_up)
{
    static struct rtt rtt;

    rtt_sum_up(&rtt);
    ck_assert_int_eq(rtt.most_us, 0);
    for (int i = 1; i <= 1000; i++) {
        rtt_add(&rtt, i);
    }
    rtt_sum_up(&rtt); /* the latest 256: 745 to 1000 */
    ck_assert_int_eq(rtt.most_us, 1000);
    ck_assert_int_eq(rtt.p90_us, 745 + 230);
    ck_assert_int_eq(rtt.p99_us, 745 + 253);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *all = tcase_create("queue");
    const TTest *const tests[] = {
        waiters_keep_their_order,
        one_leaves_from_anywhere,
        a_returned_waiter_is_first_and_starts_anew,
        the_first_ready_one_is_found_among_the_first_few,
        the_first_far_one_is_found_with_its_position,
        a_meter_counts_half_open_periods,
        a_release_that_was_none_is_not_counted,
        what_happens_without_redis,
        permits_come_off_the_shared_rate,
        round_trips_are_summed_up,
    };

    tcase_add_checked_fixture(all, setup, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(all, tests[i]);
    }
    tcase_add_test_raise_signal(all, entering_twice_is_our_mistake, SIGABRT);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
