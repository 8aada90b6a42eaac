/* links: src/outbound/window.c src/outbound/hand.c src/base/mem.c src/base/must.c */
/* Bounds of another clock, windows on our own, and the hand that holds them. */
#include "outbound/hand.h"

#include <check.h>
#include <stdlib.h>

#define THETA INT64_C(1700000000000000)

static struct window_clock bounds;

static void setup(void)
{
    window_clock_init(&bounds);
}

/* An exchange sent at `sent`, whose script ran `there` later, answered `back` after that; Redis' clock is off by
 * `step`. */
static enum window_step exchange(int64_t sent, int64_t there, int64_t back, int64_t step)
{
    return window_exchange(&bounds, (struct mono){sent}, (struct mono){sent + there + back},
                           (struct rtime){THETA + step + sent + there});
}

START_TEST(the_first_exchange_bounds_the_clock)
{
    ck_assert_int_eq(exchange(1000, 300, 700, 0), WINDOW_STEADY);
    ck_assert_int_eq(bounds.low_us, THETA - 700);
    ck_assert_int_eq(bounds.high_us, THETA + 300);
    ck_assert_int_eq(bounds.born.us, 2000);
}
END_TEST

START_TEST(every_exchange_narrows_the_bounds_and_age_widens_them)
{
    exchange(0, 300, 700, 0);
    exchange(1000, 50, 900, 0);
    ck_assert_int_eq(bounds.high_us, THETA + 50);
    ck_assert_int_ge(bounds.low_us, THETA - 702);
    exchange(10000000, 3000, 9000, 0);
    ck_assert_int_ge(bounds.high_us, THETA + 3000);
    ck_assert_int_le(bounds.low_us, THETA - 9000);
}
END_TEST

START_TEST(the_truth_is_always_inside_whatever_the_delays)
{
    srandom(3);
    for (int64_t at = 0, theta = 0; at < 100000000; at += random() % 1000000) {
        theta += random() % 3 - 1; /* a clock that wanders within its drift */
        ck_assert_int_eq(exchange(at, random() % 5000, random() % 5000, theta), WINDOW_STEADY);
        ck_assert_int_le(bounds.low_us, THETA + theta);
        ck_assert_int_ge(bounds.high_us, THETA + theta);
        at += 10000;
    }
}
END_TEST

START_TEST(a_step_beyond_the_round_trip_is_seen_in_both_directions)
{
    exchange(0, 300, 300, 0);
    ck_assert_int_eq(exchange(500000, 300, 300, 3000), WINDOW_STEP_FORWARD);
    ck_assert_int_eq(bounds.step_at.us, 500600);
    ck_assert_int_eq(exchange(600000, 300, 300, 3000), WINDOW_STEADY);
    ck_assert_int_eq(exchange(700000, 300, 300, 0), WINDOW_STEP_BACKWARD);
    ck_assert_int_eq(bounds.step_at.us, 700600);
    ck_assert_int_eq(bounds.low_us, THETA - 300);
}
END_TEST

START_TEST(a_slow_exchange_hides_a_step)
{
    exchange(0, 300, 300, 0);
    ck_assert_int_eq(exchange(1000, 300, 50000, 20000), WINDOW_STEADY);
    ck_assert_int_eq(exchange(60000, 300, 300, 20000), WINDOW_STEP_FORWARD);
}
END_TEST

START_TEST(a_window_never_opens_early_nor_closes_late)
{
    srandom(4);
    for (int i = 0; i < 2000; i++) {
        int64_t there = random() % 4000, back = random() % 4000, ahead = random() % 1000000;
        setup();
        exchange(0, there, back, 0);
        struct rtime now = {THETA + there};
        struct slot slot = {now.us + ahead, now.us + ahead + 10000, 0};
        struct window window;
        if (window_map(&bounds, &slot, now, &window)) {
            /* Redis' clock may have run a mille fast or slow since */
            int64_t drift = ahead / 1000;
            ck_assert_int_ge(window.first.us + THETA - drift, slot.first_us);
            ck_assert_int_le(window.last.us + THETA + drift, slot.last_us);
        } else {
            ck_assert_int_gt(there + back + 2 * ahead / 1000 + 23, 10000);
        }
    }
}
END_TEST

START_TEST(nothing_is_left_when_the_doubt_exceeds_the_window)
{
    struct window window;

    exchange(0, 6000, 6000, 0);
    struct slot slot = {THETA + 6000, THETA + 16000, 0};
    ck_assert(!window_map(&bounds, &slot, (struct rtime){THETA + 6000}, &window));
}
END_TEST

static struct window made(int64_t first)
{
    return (struct window){{first}, {first + 10}, {first, first + 10, first + 100}, 1};
}

START_TEST(a_hand_keeps_windows_by_time)
{
    static const int64_t order[] = {500, 100, 300, 200, 400, 700, 600};
    struct hand hand = {0};

    for (int i = 0; i < 7; i++) {
        struct window window = made(order[i]);
        hand_add(&hand, &window, NULL);
    }
    for (int64_t first = 100; first <= 700; first += 100) {
        ck_assert_int_eq(hand_take(&hand).first.us, first);
    }
    ck_assert_uint_eq(hand.count, 0);
    hand_fini(&hand);
}
END_TEST

START_TEST(consecutive_slots_of_one_asker_are_a_run)
{
    struct hand hand = {0};
    struct asker one, other;
    const int64_t firsts[] = {100, 200, 350, 450};

    for (int i = 0; i < 4; i++) {
        struct window window = made(firsts[i]);
        hand_add(&hand, &window, &one);
    }
    ck_assert_uint_eq(hand_newest_run(&hand, 4), 2); /* somebody else has the slot before 350 */
    ck_assert_uint_eq(hand_newest_run(&hand, 1), 1);
    hand.held[3].from = &other;
    ck_assert_uint_eq(hand_newest_run(&hand, 4), 1);
    hand_fini(&hand);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("window");
    TCase *all = tcase_create("window");
    const TTest *const tests[] = {
        the_first_exchange_bounds_the_clock,
        every_exchange_narrows_the_bounds_and_age_widens_them,
        the_truth_is_always_inside_whatever_the_delays,
        a_step_beyond_the_round_trip_is_seen_in_both_directions,
        a_slow_exchange_hides_a_step,
        a_window_never_opens_early_nor_closes_late,
        nothing_is_left_when_the_doubt_exceeds_the_window,
        a_hand_keeps_windows_by_time,
        consecutive_slots_of_one_asker_are_a_run,
    };

    tcase_add_checked_fixture(all, setup, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(all, tests[i]);
    }
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
