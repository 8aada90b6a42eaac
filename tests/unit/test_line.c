/* links: src/outbound/line.c src/outbound/queue.c src/outbound/tally.c src/base/histogram.c src/base/mem.c src/base/must.c tests/sim/loop_virtual.c */
/* In which order waiters leave: by turns of their flows, by the shares of their classes. */
#include "outbound/queue.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4000 };

static const struct waiter_ops ops;
static struct queue queue;
static struct waiter waiters[MOST];
static unsigned used;
static struct bucket *const bucket = (struct bucket *)&queue; /* only compared */

static void setup(void)
{
    queue_init(&queue, MOST);
    queue_set_order(&queue, MOST, true, true, 10);
    memset(waiters, 0, sizeof(waiters));
    used = 0;
}

static void teardown(void)
{
    struct waiter *waiter;

    while ((waiter = queue_first(&queue)) != NULL) {
        queue_remove(&queue, waiter);
    }
    queue_fini(&queue);
}

static struct waiter *make(char flow, enum waiter_class class, unsigned weight, unsigned cost)
{
    struct waiter *waiter = &waiters[used++];

    *waiter = (struct waiter){.ops = &ops, .flow = (uint64_t)flow, .class = class, .weight = weight, .cost = cost};
    return waiter;
}

/* One waiter for each letter: small ones of class low, large ones of class normal, digits of class high. */
static void add(const char *flows)
{
    for (; *flows != '\0'; flows++) {
        char c = *flows;
        enum waiter_class class = c >= 'a' ? WAITER_LOW : c >= 'A' ? WAITER_NORMAL : WAITER_HIGH;
        queue_append(&queue, make(c, class, 0, 0), bucket);
    }
}

static struct waiter *leave(void)
{
    struct waiter *waiter = queue_first(&queue);

    queue_release(&queue, waiter);
    return waiter;
}

static const char *leaving(unsigned count)
{
    static char order[MOST + 1];
    unsigned i;

    for (i = 0; i < count && queue_first(&queue) != NULL; i++) {
        order[i] = (char)leave()->flow;
    }
    order[i] = '\0';
    return order;
}

START_TEST(flows_take_turns)
{
    add("AAAAABBC");
    ck_assert_str_eq(leaving(9), "ABCABAAA");
}
END_TEST

START_TEST(a_flow_that_comes_late_has_its_turn_in_the_round_that_is_leaving)
{
    add("AAAA");
    ck_assert_str_eq(leaving(1), "A");
    add("BB");
    ck_assert_str_eq(leaving(9), "ABABA");
}
END_TEST

START_TEST(one_request_at_a_time_gets_as_much_as_a_backlog)
{
    unsigned b = 0;

    add("AAAAAAAAAAAAAAAAAAAAB");
    for (int i = 0; i < 20; i++) {
        if ((char)leave()->flow == 'B') {
            b++;
            add("B");
        }
    }
    ck_assert_uint_eq(b, 10);
}
END_TEST

START_TEST(weights_are_so_many_in_a_round)
{
    for (int i = 0; i < 6; i++) {
        queue_append(&queue, make('A', WAITER_NORMAL, 2, 1), bucket);
        queue_append(&queue, make('B', WAITER_NORMAL, 1, 1), bucket);
    }
    ck_assert_str_eq(leaving(9), "ABABAABAA");
}
END_TEST

START_TEST(costs_count)
{
    unsigned spent[2] = {0};

    for (int i = 0; i < 400; i++) {
        queue_append(&queue, make('A', WAITER_NORMAL, 1, 4), bucket);
        queue_append(&queue, make('B', WAITER_NORMAL, 1, 1), bucket);
    }
    for (int i = 0; i < 300; i++) {
        struct waiter *waiter = leave();
        spent[waiter->flow - 'A'] += waiter->cost;
    }
    ck_assert_int_le(abs((int)spent[0] - (int)spent[1]), 8);
}
END_TEST

START_TEST(who_leaves_early_leaves_no_gap)
{
    add("AAAABBBB");
    for (int i = 1; i < 4; i++) {
        queue_remove(&queue, &waiters[i]);
    }
    ck_assert_str_eq(leaving(9), "ABBBB");
}
END_TEST

START_TEST(first_in_first_out_does_not_look_at_flows)
{
    queue_set_order(&queue, MOST, false, false, 10);
    add("AABAC");
    ck_assert_str_eq(leaving(9), "AABAC");
}
END_TEST

START_TEST(a_change_of_order_leaves_who_waits_in_place)
{
    add("AAB");
    queue_set_order(&queue, MOST, false, false, 10);
    add("CC");
    ck_assert_str_eq(leaving(2), "AB");
    queue_set_order(&queue, MOST, true, false, 10);
    ck_assert_str_eq(leaving(9), "ACC");
}
END_TEST

START_TEST(one_of_a_higher_class_goes_next)
{
    add("AAAAAA");
    ck_assert_str_eq(leaving(2), "AA");
    add("1");
    ck_assert_str_eq(leaving(2), "1A");
}
END_TEST

static unsigned count_in(const char *order, char c)
{
    unsigned count = 0;

    for (; *order != '\0'; order++) {
        count += *order == c;
    }
    return count;
}

START_TEST(a_lower_class_keeps_its_share)
{
    for (int i = 0; i < 1000; i++) {
        add("1Aa");
    }
    const char *order = leaving(1000);
    ck_assert_uint_ge(count_in(order, '1'), 880);
    ck_assert_uint_ge(count_in(order, 'A'), 90);
    ck_assert_uint_ge(count_in(order, 'a'), 9);
}
END_TEST

START_TEST(a_class_that_comes_one_by_one_does_not_starve_the_lower_one)
{
    char order[1001] = "";

    for (int i = 0; i < 1000; i++) {
        add("1A");
        order[i] = (char)leave()->flow;
    }
    ck_assert_uint_ge(count_in(order, 'A'), 95);
    ck_assert_uint_ge(count_in(order, '1'), 890);
}
END_TEST

START_TEST(a_class_that_was_idle_has_no_credit)
{
    for (int i = 0; i < 500; i++) {
        add("A");
        leave();
    }
    for (int i = 0; i < 100; i++) {
        add("aA");
    }
    ck_assert_uint_le(count_in(leaving(50), 'a'), 6);
}
END_TEST

START_TEST(a_returned_one_goes_before_all)
{
    add("AB1");
    struct waiter *first = leave();
    ck_assert_int_eq((char)first->flow, '1');
    queue_prepend(&queue, first, bucket);
    add("2");
    ck_assert_str_eq(leaving(9), "12AB");
}
END_TEST

START_TEST(the_walk_is_the_order_of_leaving)
{
    struct waiter *walked[64];
    unsigned position, count = 0;

    add("AAAaB1aaB2BaA3333bcD");
    while ((walked[count] = queue_first_far(&queue, 64, &position)) != NULL) {
        ck_assert_uint_eq(position, count);
        walked[count++]->near = true;
    }
    ck_assert_uint_eq(count, queue.count);
    for (unsigned i = 0; i < count; i++) {
        ck_assert_ptr_eq(leave(), walked[i]);
    }
}
END_TEST

START_TEST(the_place_that_was_told_is_the_place_that_is_got)
{
    uint32_t random = 1;

    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 40; i++) {
            random = random * 1664525 + 1013904223;
            add((char[]){"112AABCabc"[random >> 16 & 7], '\0'});
        }
        struct waiter *late = make("1ABCabZz"[random >> 20 & 7], (enum waiter_class)(random >> 24 & 1), 0, 1);
        late->weight = 1;
        unsigned ahead = queue_ahead(&queue, late);
        queue_append(&queue, late, bucket);
        for (unsigned i = 0; i < ahead; i++) {
            ck_assert_ptr_ne(leave(), late);
        }
        ck_assert_ptr_eq(leave(), late);
        teardown();
        used = 0;
    }
}
END_TEST

START_TEST(one_flow_cannot_fill_a_fair_queue)
{
    queue_set_order(&queue, 100, true, false, 10);
    struct waiter *waiter;

    while (!queue_is_full(&queue, waiter = make('A', WAITER_NORMAL, 0, 0))) {
        queue_append(&queue, waiter, bucket);
    }
    ck_assert_uint_eq(queue.count, 50);
    while (!queue_is_full(&queue, waiter = make('B', WAITER_NORMAL, 0, 0))) {
        queue_append(&queue, waiter, bucket);
    }
    ck_assert_uint_eq(queue.count, 75);
    ck_assert(!queue_is_full(&queue, make('C', WAITER_NORMAL, 0, 0)));
}
END_TEST

START_TEST(lower_classes_leave_room)
{
    unsigned counts[WAITER_CLASSES] = {0};

    queue_set_order(&queue, 100, false, true, 10);
    for (int class = WAITER_LOW; class >= WAITER_HIGH; class --) {
        struct waiter *waiter;
        while (!queue_is_full(&queue, waiter = make('A', (enum waiter_class)class, 0, 0))) {
            queue_append(&queue, waiter, bucket);
            counts[class]++;
        }
    }
    ck_assert_uint_eq(counts[WAITER_LOW], 80);
    ck_assert_uint_eq(counts[WAITER_NORMAL], 10);
    ck_assert_uint_eq(counts[WAITER_HIGH], 10);
    ck_assert_int_eq(queue_last(&queue)->class, WAITER_LOW);
}
END_TEST

/* Whatever comes and goes, nobody is lost and the books agree. */
START_TEST(random_comings_and_goings)
{
    uint32_t random = (uint32_t)_i + 7;
    struct waiter *waiting[MOST];
    unsigned count = 0;

    for (unsigned i = 0; i < 3 * MOST && used < MOST; i++) {
        random = random * 1664525 + 1013904223;
        unsigned what = random >> 16 & 15, pick = count > 0 ? (random >> 8) % count : 0;
        if (what < 8 || count == 0) {
            waiting[count] = make((char)('A' + (random >> 20 & 7)), (enum waiter_class)((random >> 24) % 3),
                                  random >> 26 & 3, random >> 28 & 3);
            queue_append(&queue, waiting[count++], bucket);
            continue;
        }
        if (what < 13) {
            struct waiter *first = queue_first(&queue);
            for (pick = 0; waiting[pick] != first; pick++) {
                ck_assert_uint_lt(pick, count);
            }
            queue_release(&queue, first);
            if (what == 12) {
                queue_prepend(&queue, first, bucket);
                continue;
            }
        } else {
            queue_remove(&queue, waiting[pick]);
        }
        waiting[pick] = waiting[--count];
        ck_assert_uint_eq(queue.count, count);
    }
    ck_assert_uint_eq(strlen(leaving(MOST)), count);
    ck_assert_uint_eq(queue.count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("line");
    TCase *order = tcase_create("order");

    tcase_add_checked_fixture(order, setup, teardown);
    tcase_add_test(order, flows_take_turns);
    tcase_add_test(order, a_flow_that_comes_late_has_its_turn_in_the_round_that_is_leaving);
    tcase_add_test(order, one_request_at_a_time_gets_as_much_as_a_backlog);
    tcase_add_test(order, weights_are_so_many_in_a_round);
    tcase_add_test(order, costs_count);
    tcase_add_test(order, who_leaves_early_leaves_no_gap);
    tcase_add_test(order, first_in_first_out_does_not_look_at_flows);
    tcase_add_test(order, a_change_of_order_leaves_who_waits_in_place);
    tcase_add_test(order, one_of_a_higher_class_goes_next);
    tcase_add_test(order, a_lower_class_keeps_its_share);
    tcase_add_test(order, a_class_that_comes_one_by_one_does_not_starve_the_lower_one);
    tcase_add_test(order, a_class_that_was_idle_has_no_credit);
    tcase_add_test(order, a_returned_one_goes_before_all);
    tcase_add_test(order, the_walk_is_the_order_of_leaving);
    tcase_add_test(order, the_place_that_was_told_is_the_place_that_is_got);
    tcase_add_test(order, one_flow_cannot_fill_a_fair_queue);
    tcase_add_test(order, lower_classes_leave_room);
    tcase_add_loop_test(order, random_comings_and_goings, 0, 20);
    suite_add_tcase(suite, order);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
