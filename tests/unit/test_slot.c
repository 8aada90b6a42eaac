/* links: src/outbound/slot.c src/outbound/quota.c src/base/mem.c src/base/must.c */
/* The properties that the proof of the spacing needs, for whatever is asked. */
#include "outbound/slot.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define I_US 101600
#define L_US 10000
#define H_US 1000000
enum { SLOTS = 64 };

static struct slot_book book;
static struct slot slots[SLOTS];
static struct slot_reply reply;

static void setup(void)
{
    slot_book_open(&book, "r1");
}

static void ask(int64_t now, unsigned want, int64_t grace)
{
    const struct slot_ask it = {.rid = "r1", .interval_us = I_US, .late_us = L_US, .grace_us = grace, .horizon_us = H_US, .want = want, .suspect = ""};
    slot_reserve(&book, &it, (struct rtime){now}, &reply, slots);
}

START_TEST(an_open_book_grants_at_once)
{
    ask(5, 1, L_US);
    ck_assert_uint_eq(reply.count, 1);
    ck_assert_int_eq(slots[0].first_us, 5);
    ck_assert_int_eq(slots[0].last_us, 5 + L_US);
    ck_assert_int_eq(reply.tat_us, 5 + I_US);
}
END_TEST

START_TEST(labels_are_an_interval_apart_and_within_the_horizon)
{
    int64_t last_label = INT64_MIN / 2;

    srandom(1);
    for (int64_t now = 0; now < 200 * H_US; now += random() % 300000) {
        ask(now, (unsigned)(random() % 6), L_US + random() % 90000);
        for (unsigned i = 0; i < reply.count; i++) {
            ck_assert_int_ge(slots[i].first_us - last_label, I_US);
            ck_assert_int_ge(slots[i].first_us, now);
            ck_assert_int_le(slots[i].first_us - now, H_US);
            last_label = slots[i].last_us - L_US; /* the latest label a release in this window can have */
        }
        ck_assert(reply.count > 0 || reply.retry_us > 0 || reply.tat_us >= 0);
    }
}
END_TEST

START_TEST(the_retry_time_works)
{
    ask(0, SLOTS, L_US);
    ask(1, 1, L_US);
    ck_assert_uint_eq(reply.count, 0);
    ask(1 + reply.retry_us, 1, L_US);
    ck_assert_uint_eq(reply.count, 1);
}
END_TEST

START_TEST(looking_grants_nothing_and_moves_nothing)
{
    ask(0, 2, L_US);
    int64_t tat = reply.tat_us;
    ask(1, 0, L_US);
    ck_assert_uint_eq(reply.count, 0);
    ck_assert_int_eq(reply.retry_us, 0);
    ck_assert_int_eq(reply.tat_us, tat);
}
END_TEST

START_TEST(an_empty_book_waits_as_after_a_loss)
{
    memset(&book, 0, sizeof(book));
    ask(7, 1, L_US);
    ck_assert_uint_eq(reply.count, 0);
    ck_assert_int_eq(reply.tat_us, 7 + H_US + I_US);
    ck_assert_str_eq(reply.eid, "r1:1");
}
END_TEST

START_TEST(a_settled_slot_is_granted_again)
{
    ask(0, 3, L_US);
    struct slot third = slots[2];
    ck_assert(slot_settle(&book, third.first_us, third.tat_us));
    ck_assert(!slot_settle(&book, third.first_us, third.tat_us));
    ask(1, 1, L_US);
    ck_assert_int_eq(slots[0].first_us, third.first_us);
}
END_TEST

START_TEST(a_pause_is_never_shortened)
{
    ck_assert_int_eq(slot_pause(&book, 500, 1000, (struct rtime){100}).us, 600);
    ck_assert_int_eq(slot_pause(&book, 100, 1000, (struct rtime){200}).us, 600);
    ck_assert_int_eq(slot_pause(&book, 5000, 1000, (struct rtime){200}).us, 1200);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slot");
    TCase *all = tcase_create("slot");
    const TTest *const tests[] = {
        an_open_book_grants_at_once,
        labels_are_an_interval_apart_and_within_the_horizon,
        the_retry_time_works,
        looking_grants_nothing_and_moves_nothing,
        an_empty_book_waits_as_after_a_loss,
        a_settled_slot_is_granted_again,
        a_pause_is_never_shortened,
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
