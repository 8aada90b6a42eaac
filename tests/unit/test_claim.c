/* links: src/outbound/slot.c src/outbound/quota.c src/outbound/grant.c src/outbound/reserve_words.c src/base/str.c src/base/mem.c src/base/must.c src/lua/reserve.lua src/lua/settle.lua tests/sim/fake_redis.c tests/sim/fake_commands.c */
/* Slots that several limits bind at once: the arithmetic in C and the script say the same to any question, and what they say keeps
 * to every limit. */
#include "../sim/fake_redis.h"
#include "base/mem.h"
#include "outbound/slots_redis.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define T0 INT64_C(1700000000000000)
#define MS INT64_C(1000)
#define SECOND INT64_C(1000000)
enum { LATE = 10000, WANT_MOST = 8, GRANTS_MOST = 20000 };

extern const struct script script_reserve;

static struct fake_redis *redis;
static struct redis_asker asker;
static struct slot_book books[SLOT_LEVELS];
static struct quota quotas[SLOT_LEVELS][SLOT_QUOTAS];
static struct slot_limits limits[SLOT_LEVELS];
static int64_t now;

static struct granted {
    int64_t first, last, cost;
} grants[GRANTS_MOST];
static unsigned grants_count;

static void setup(void)
{
    static char names[SLOT_LEVELS][3][48];
    static char quota_names[SLOT_LEVELS][SLOT_QUOTAS][48];
    static char epoch[] = "s:{a}:e", id[] = "me";

    redis = fake_redis_new();
    now = T0;
    grants_count = 0;
    memset(&asker, 0, sizeof(asker));
    memset(quotas, 0, sizeof(quotas));
    memset(limits, 0, sizeof(limits));
    asker.id = id;
    asker.keys[ASKER_EPOCH] = epoch;
    asker.spec = (struct slots_spec){.tag = "a", .levels_count = 1, .cost_most = 10, .lease_us = 10 * SECOND};
    for (int level = 0; level < SLOT_LEVELS; level++) {
        memset(&books[level], 0, sizeof(books[level]));
        for (int i = 0; i < 3; i++) {
            snprintf(names[level][i], sizeof(names[level][i]), "s:{a}:%d:%c", level, "bwf"[i]);
        }
        asker.levels[level].bucket = names[level][0];
        asker.levels[level].tickets = names[level][1];
        asker.levels[level].flight = names[level][2];
        for (int i = 0; i < SLOT_QUOTAS; i++) {
            snprintf(quota_names[level][i], sizeof(quota_names[level][i]), "s:{a}:%d:q%d", level, i);
            asker.levels[level].quotas[i] = quota_names[level][i];
        }
    }
    asker.keys[ASKER_BUCKET] = asker.levels[0].bucket;
    asker.keys[ASKER_TICKETS] = asker.levels[0].tickets;
}

static void teardown(void)
{
    for (int level = 0; level < SLOT_LEVELS; level++) {
        for (int i = 0; i < SLOT_QUOTAS; i++) {
            quota_fini(&quotas[level][i]);
        }
    }
    fake_redis_free(redis);
}

static void pace(unsigned level, int64_t interval)
{
    asker.spec.levels[level].terms =
        (struct slots_terms){.interval_us = interval, .late_us = LATE, .horizon_us = SECOND, .per_step_us = 1};
    asker.spec.levels_count = level + 1 > asker.spec.levels_count ? level + 1 : asker.spec.levels_count;
}

static void add_quota(unsigned level, struct quota_terms terms)
{
    struct slot_limits *own = &asker.spec.levels[level].limits;

    own->terms[own->quotas_count++] = terms;
}

static struct quota_terms rolling(int64_t count, int64_t span)
{
    return (struct quota_terms){.kind = QUOTA_ROLLING, .count = count, .span_us = span};
}

static struct quota_terms coarse(int64_t count, int64_t span)
{
    return (struct quota_terms){
        .kind = QUOTA_COARSE, .count = count, .span_us = span, .slice_us = (span + SECOND) / QUOTA_SLICES + 1};
}

static struct quota_terms aligned(int64_t count, int64_t period, int64_t offset)
{
    return (struct quota_terms){.kind = QUOTA_ALIGNED,
                                .count = count,
                                .span_us = period,
                                .slice_us = period,
                                .offset_us = offset,
                                .guard_us = 15 * MS};
}

static struct grant_limits question(unsigned want, int64_t cost)
{
    return (struct grant_limits){.rid = "r1",
                                 .want = want,
                                 .interval_us = asker.spec.levels[0].terms.interval_us,
                                 .late_us = LATE,
                                 .grace_us = LATE,
                                 .horizon_us = SECOND,
                                 .cost = cost};
}

static void ask_lua(const struct grant_limits *asked, struct slot_reply *reply, struct slot *slots)
{
    struct reserve_words words;

    reserve_words(&words, &asker, asked);
    fake_redis_set_time(redis, now);
    struct redisReply *got =
        fake_redis_eval(redis, &script_reserve, words.keys, (int)words.keys_count, words.args, (int)words.args_count);
    ck_assert(grant_parse(got, asked, reply, slots));
    fake_reply_free(got);
}

static void ask_c(const struct grant_limits *asked, struct slot_reply *reply, struct slot *slots)
{
    struct slot_parent parent = {&books[1], asker.spec.levels[1].terms.interval_us, 0};
    struct slot_ask ask = {.rid = "r1",
                           .suspect = "",
                           .interval_us = asked->interval_us,
                           .late_us = LATE,
                           .grace_us = LATE,
                           .horizon_us = SECOND,
                           .want = asked->want,
                           .cost = asked->cost,
                           .cost_most = asker.spec.cost_most};

    for (unsigned level = 0; level < asker.spec.levels_count; level++) {
        limits[level] = asker.spec.levels[level].limits;
        limits[level].in_flight = asker.base.flying;
        for (unsigned i = 0; i < SLOT_QUOTAS; i++) {
            limits[level].quotas[i] = &quotas[level][i];
        }
        ask.limits[level] = &limits[level];
    }
    ask.parent = asker.spec.levels_count > 1 ? &parent : NULL;
    slot_reserve(&books[0], &ask, (struct rtime){now}, reply, slots);
}

/* Asks both, which must agree. */
static struct slot_reply ask(unsigned want, int64_t cost)
{
    struct grant_limits asked = question(want, cost);
    struct slot slots[2][WANT_MOST];
    struct slot_reply replies[2];

    ask_lua(&asked, &replies[0], slots[0]);
    ask_c(&asked, &replies[1], slots[1]);
    ck_assert_uint_eq(replies[0].count, replies[1].count);
    ck_assert_int_eq(replies[0].retry_us, replies[1].retry_us);
    ck_assert_int_eq(replies[0].reason, replies[1].reason);
    ck_assert_int_eq(replies[0].tat_us, replies[1].tat_us);
    ck_assert_int_eq(replies[0].parent_tat_us, replies[1].parent_tat_us);
    ck_assert_int_eq(replies[0].free_us, replies[1].free_us);
    for (unsigned i = 0; i < replies[0].count; i++) {
        ck_assert_int_eq(slots[0][i].first_us, slots[1][i].first_us);
        ck_assert_int_eq(slots[0][i].last_us, slots[1][i].last_us);
        ck_assert_int_eq(slots[0][i].tat_us, slots[1][i].tat_us);
        ck_assert_uint_lt(grants_count, GRANTS_MOST);
        grants[grants_count++] = (struct granted){slots[0][i].first_us, slots[0][i].last_us, cost};
    }
    return replies[0];
}

/* Most units that can be released within any time of that length, each release anywhere in its window. */
static int64_t most_in(int64_t length)
{
    int64_t most = 0;

    for (unsigned i = 0; i < grants_count; i++) {
        int64_t units = 0;
        for (unsigned j = i; j < grants_count && grants[j].first < grants[i].last + length; j++) {
            units += grants[j].cost;
        }
        most = units > most ? units : most;
    }
    return most;
}

static int64_t most_in_calendar(int64_t period, int64_t offset)
{
    int64_t most = 0;

    for (unsigned i = 0; i < grants_count; i++) {
        int64_t window = (grants[i].first + offset) / period, units = 0;
        ck_assert_int_eq(window, (grants[i].last + offset) / period);
        for (unsigned j = i; j < grants_count; j++) {
            units += (grants[j].first + offset) / period == window ? grants[j].cost : 0;
        }
        most = units > most ? units : most;
    }
    return most;
}

/* Asks for everything there is, all the time. */
static void drain(int64_t length, unsigned want, int64_t cost)
{
    int64_t until = now + length;

    while (now < until) {
        struct slot_reply reply = ask(want, cost);
        now += reply.retry_us > 0 ? reply.retry_us : 1000;
    }
}

START_TEST(a_rolling_quota_is_never_exceeded)
{
    pace(0, 10 * MS);
    add_quota(0, rolling(20, 515 * MS));
    drain(20 * SECOND, 3, 1);
    ck_assert_int_le(most_in(500 * MS), 20);
    ck_assert_uint_ge(grants_count, 18 * 20 * 2);
}
END_TEST

START_TEST(a_coarse_quota_is_never_exceeded_and_mostly_used)
{
    pace(0, 1 * MS);
    add_quota(0, coarse(600, 3 * SECOND));
    drain(30 * SECOND, 8, 1);
    ck_assert_int_le(most_in(3 * SECOND - LATE), 600);
    ck_assert_uint_ge(grants_count, 600 * 9);
}
END_TEST

START_TEST(an_aligned_quota_holds_in_each_window_of_the_calendar)
{
    pace(0, 10 * MS);
    add_quota(0, aligned(30, SECOND, 250 * MS));
    drain(20 * SECOND, 4, 1);
    ck_assert_int_eq(most_in_calendar(SECOND, 250 * MS), 30);
    ck_assert_uint_ge(grants_count, 30 * 17);
}
END_TEST

START_TEST(costs_count_against_pace_and_quotas)
{
    pace(0, 10 * MS);
    add_quota(0, rolling(50, 2 * SECOND));
    now += 5 * SECOND;
    (void)ask(0, 1);
    now += 5 * SECOND;
    struct slot_reply reply = ask(1, 8);
    ck_assert_uint_eq(reply.count, 1);
    int64_t first = grants[0].first;
    reply = ask(1, 1);
    ck_assert_uint_eq(reply.count, 1);
    ck_assert_int_eq(grants[1].first - first, 80 * MS);
    drain(20 * SECOND, 1, 7);
    ck_assert_int_le(most_in(2 * SECOND - LATE), 50);
}
END_TEST

START_TEST(a_slow_route_does_not_hold_the_slots_of_its_destination)
{
    asker.spec.cost_most = 1;
    pace(0, SECOND);
    pace(1, 10 * MS);
    drain(6 * SECOND, 1, 1);
    ck_assert_int_le(books[1].tat_us - now, 20 * MS);
    ck_assert_uint_ge(grants_count, 3);
}
END_TEST

static struct slot_reply ask_as(char *id, unsigned first_level, unsigned levels)
{
    struct redis_asker kept = asker;
    struct slot slots[WANT_MOST];
    struct slot_reply reply;

    asker.id = id;
    asker.spec.levels_count = levels;
    asker.spec.levels[0] = kept.spec.levels[first_level];
    asker.levels[0] = kept.levels[first_level];
    asker.keys[ASKER_BUCKET] = asker.levels[0].bucket;
    asker.keys[ASKER_TICKETS] = asker.levels[0].tickets;
    struct grant_limits asked = question(1, 1);
    ask_lua(&asked, &reply, slots);
    asker = kept;
    return reply;
}

START_TEST(a_slow_route_that_waits_takes_no_turn_from_the_rest_of_its_destination)
{
    static char names[6][8] = {"slow1", "slow2", "slow3", "slow4", "rest1", "rest2"};
    unsigned slow = 0, rest = 0;
    int64_t at[6] = {0}, until = now + 100 * SECOND;

    asker.spec.cost_most = 1;
    pace(0, 10 * SECOND);
    pace(1, SECOND);
    for (; now < until; now += MS) {
        for (unsigned i = 0; i < 6; i++) {
            if (now >= at[i]) {
                struct slot_reply reply = i < 4 ? ask_as(names[i], 0, 2) : ask_as(names[i], 1, 1);
                *(i < 4 ? &slow : &rest) += reply.count;
                at[i] = now + (reply.retry_us == 0 ? MS : reply.retry_us < 370 * MS ? reply.retry_us : 370 * MS);
            }
        }
    }
    ck_assert_uint_ge(slow, 8);
    ck_assert_uint_ge(rest, 85);
}
END_TEST

START_TEST(what_the_destination_has_used_its_route_waits_for)
{
    pace(0, 10 * MS);
    pace(1, 100 * MS);
    drain(10 * SECOND, 2, 1);
    ck_assert_int_le(most_in(SECOND - 100 * MS - LATE), 10);
    ck_assert_uint_ge(grants_count, 85);
}
END_TEST

START_TEST(no_slot_is_spent_while_as_many_are_in_flight_as_may_be)
{
    pace(0, 10 * MS);
    asker.spec.levels[0].limits.in_flight_most = 4;
    now += 5 * SECOND;
    (void)ask(0, 1);
    now += 5 * SECOND;
    struct slot_reply reply = ask(8, 1);
    ck_assert_uint_eq(reply.count, 4);
    asker.base.flying = 4;
    int64_t tat = reply.tat_us;
    now += SECOND;
    reply = ask(8, 1);
    ck_assert_uint_eq(reply.count, 0);
    ck_assert_int_eq(reply.reason, SLOT_IN_FLIGHT);
    ck_assert_int_eq(reply.retry_us, SLOT_IN_FLIGHT_RETRY_US);
    ck_assert_int_eq(reply.tat_us, tat);
    asker.base.flying = 3;
    ck_assert_uint_eq(ask(8, 1).count, 1);
}
END_TEST

START_TEST(in_a_new_epoch_nobody_is_let_out_until_all_have_said_what_is_in_flight)
{
    pace(0, 10 * MS);
    asker.spec.levels[0].limits.in_flight_most = 4;
    int64_t begun = now;
    struct slot_reply reply = ask(1, 1);
    ck_assert_uint_eq(reply.count, 0);
    now = begun + 2 * SECOND;
    reply = ask(1, 1);
    ck_assert_uint_eq(reply.count, 0);
    ck_assert_int_eq(reply.reason, SLOT_IN_FLIGHT);
    ck_assert_int_eq(reply.retry_us, SECOND);
    now += reply.retry_us;
    ck_assert_uint_eq(ask(1, 1).count, 1);
}
END_TEST

START_TEST(what_costs_more_than_a_quota_has_takes_all_of_it)
{
    pace(0, 10 * MS);
    add_quota(0, rolling(5, 2 * SECOND));
    add_quota(0, aligned(4, 2 * SECOND, 0));
    add_quota(0, coarse(3, 2 * SECOND));
    now += 5 * SECOND;
    (void)ask(0, 1);
    now += 5 * SECOND;
    ck_assert_uint_eq(ask(1, 10).count, 1);
    int64_t first = now;
    struct slot_reply reply = ask(1, 10);
    ck_assert_uint_eq(reply.count, 0);
    now += reply.retry_us;
    reply = ask(1, 10);
    ck_assert_uint_eq(reply.count, 1);
    ck_assert_int_ge(now - first, SECOND);
    ck_assert_int_le(now - first, 3 * SECOND);
}
END_TEST

START_TEST(there_is_a_way_between_two_edges_however_wide_they_are)
{
    struct quota_terms terms = aligned(5, 100 * MS, 0);

    terms.guard_us = SECOND;
    pace(0, 10 * MS);
    add_quota(0, terms);
    drain(3 * SECOND, 2, 1);
    ck_assert_uint_ge(grants_count, 5);
}
END_TEST

START_TEST(the_lease_of_another_one_ends_with_its_time)
{
    static char other[] = "other", me[] = "me";

    pace(0, 10 * MS);
    asker.spec.levels[0].limits.in_flight_most = 4;
    now += 5 * SECOND;
    struct grant_limits asked = question(8, 1);
    struct slot slots[WANT_MOST];
    struct slot_reply reply;
    ask_lua(&asked, &reply, slots); /* begins the epoch */
    now += 5 * SECOND;
    asker.id = other;
    ask_lua(&asked, &reply, slots);
    ck_assert_uint_eq(reply.count, 4);
    asker.id = me;
    now += 9 * SECOND;
    ask_lua(&asked, &reply, slots);
    ck_assert_uint_eq(reply.count, 0);
    ck_assert_int_eq(reply.reason, SLOT_IN_FLIGHT);
    now += 1 * SECOND + 1;
    ask_lua(&asked, &reply, slots);
    ck_assert_uint_eq(reply.count, 4);
}
END_TEST

static uint32_t random_state;
static int64_t pick(int64_t least, int64_t most)
{
    random_state = random_state * 1664525 + 1013904223;
    return least + (int64_t)(random_state >> 8) % (most - least + 1);
}

/* Tells both what was learned of slots that were used. */
static void learn(int64_t more, int64_t left, int64_t age)
{
    struct grant_limits asked = question(0, 1);
    struct slots_bill bill = {more, left, age};
    struct reserve_words words;
    struct slot_reply reply;
    bool said = left < 0;

    reserve_words(&words, &asker, &asked);
    reserve_words_bill(&words, &bill);
    fake_redis_set_time(redis, now);
    struct redisReply *got =
        fake_redis_eval(redis, &script_reserve, words.keys, (int)words.keys_count, words.args, (int)words.args_count);
    ck_assert(grant_parse(got, &asked, &reply, NULL));
    fake_reply_free(got);
    ask_c(&asked, &reply, NULL);
    for (unsigned level = 0; level < asker.spec.levels_count; level++) {
        const struct slot_limits *own = &asker.spec.levels[level].limits;
        slot_charge(&books[level], more, asker.spec.levels[level].terms.interval_us, (struct rtime){now});
        for (unsigned i = 0; i < own->quotas_count; i++) {
            quota_charge(&quotas[level][i], &own->terms[i], now, more);
        }
        if (!said && own->quotas_count > 0) {
            quota_believe(&quotas[level][0], &own->terms[0], now, left, age);
            said = true;
        }
    }
}

START_TEST(what_slots_really_cost_moves_the_next_one)
{
    pace(0, 10 * MS);
    now += 5 * SECOND;
    (void)ask(0, 1);
    now += 5 * SECOND;
    (void)ask(1, 1);
    learn(7, -1, 0);
    ck_assert_uint_eq(ask(1, 1).count, 1);
    ck_assert_int_eq(grants[1].first - grants[0].first, 80 * MS);
    (void)ask(1, 10);
    learn(-9, -1, 0);
    ck_assert_uint_eq(ask(1, 1).count, 1);
    ck_assert_int_eq(grants[3].first - grants[2].first, 10 * MS);
}
END_TEST

START_TEST(what_others_spent_is_missing_from_the_quota)
{
    pace(0, 10 * MS);
    add_quota(0, rolling(50, 10 * SECOND));
    now += 5 * SECOND;
    (void)ask(0, 1);
    now += 5 * SECOND;
    (void)ask(8, 1);
    learn(0, 42, 0); /* as it should be */
    ck_assert_int_eq(quota_left(&quotas[0][0], &asker.spec.levels[0].limits.terms[0], now + SECOND), 42);
    learn(0, 3, 0);
    ck_assert_int_eq(quota_left(&quotas[0][0], &asker.spec.levels[0].limits.terms[0], now + SECOND), 3);
    ck_assert_uint_eq(ask(8, 1).count, 3);
}
END_TEST

START_TEST(a_word_on_the_window_before_says_nothing_of_this_one)
{
    pace(0, 10 * MS);
    add_quota(0, aligned(50, 10 * SECOND, 0));
    (void)ask(0, 1);
    now = (now / (10 * SECOND) + 2) * 10 * SECOND + SECOND;
    learn(0, 0, 2 * SECOND);
    ck_assert_uint_eq(ask(8, 1).count, 8);
    learn(0, 0, SECOND / 2);
    ck_assert_uint_eq(ask(8, 1).count, 0);
}
END_TEST

static void random_limits(unsigned level)
{
    pace(level, pick(1, 300) * MS);
    for (int64_t i = pick(0, 3); i > 0; i--) {
        int64_t count = pick(10, 80);
        switch (pick(0, 2)) {
        case 0:
            add_quota(level, rolling(count, pick(100, 5000) * MS));
            break;
        case 1:
            add_quota(level, coarse(count, pick(100, 5000) * MS));
            break;
        default:
            add_quota(level, aligned(count, pick(100, 5000) * MS, pick(0, 100) * MS));
        }
    }
    asker.spec.levels[level].limits.in_flight_most = pick(0, 2) == 0 ? pick(1, 6) : 0;
}

START_TEST(both_say_the_same_to_any_question)
{
    random_state = (uint32_t)_i * 7919 + 1;
    random_limits(0);
    if (pick(0, 1) == 1) {
        random_limits(1);
    }
    for (int i = 0; i < 400; i++) {
        asker.base.flying = (unsigned)pick(0, 5);
        struct slot_reply reply = ask((unsigned)pick(0, WANT_MOST), pick(0, 3) == 0 ? pick(1, 10) : 1);
        if (pick(0, 5) == 0) {
            learn(pick(-10, 10), pick(0, 1) == 0 ? pick(0, 80) : -1, pick(0, 500) * MS);
        }
        now += pick(0, 4) == 0 ? pick(0, 3000) * MS : reply.retry_us > 0 && pick(0, 1) == 0 ? reply.retry_us : pick(0, 50 * MS);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("claim");
    TCase *limits_case = tcase_create("limits");

    tcase_set_timeout(limits_case, 60);
    tcase_add_checked_fixture(limits_case, setup, teardown);
    tcase_add_test(limits_case, a_rolling_quota_is_never_exceeded);
    tcase_add_test(limits_case, a_coarse_quota_is_never_exceeded_and_mostly_used);
    tcase_add_test(limits_case, an_aligned_quota_holds_in_each_window_of_the_calendar);
    tcase_add_test(limits_case, costs_count_against_pace_and_quotas);
    tcase_add_test(limits_case, a_slow_route_does_not_hold_the_slots_of_its_destination);
    tcase_add_test(limits_case, what_the_destination_has_used_its_route_waits_for);
    tcase_add_test(limits_case, no_slot_is_spent_while_as_many_are_in_flight_as_may_be);
    tcase_add_test(limits_case, a_slow_route_that_waits_takes_no_turn_from_the_rest_of_its_destination);
    tcase_add_test(limits_case, in_a_new_epoch_nobody_is_let_out_until_all_have_said_what_is_in_flight);
    tcase_add_test(limits_case, what_costs_more_than_a_quota_has_takes_all_of_it);
    tcase_add_test(limits_case, there_is_a_way_between_two_edges_however_wide_they_are);
    tcase_add_test(limits_case, the_lease_of_another_one_ends_with_its_time);
    tcase_add_test(limits_case, what_slots_really_cost_moves_the_next_one);
    tcase_add_test(limits_case, what_others_spent_is_missing_from_the_quota);
    tcase_add_test(limits_case, a_word_on_the_window_before_says_nothing_of_this_one);
    tcase_add_loop_test(limits_case, both_say_the_same_to_any_question, 0, 60);
    suite_add_tcase(suite, limits_case);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
