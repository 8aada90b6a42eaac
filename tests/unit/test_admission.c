/* links: src/inbound/admission.c src/inbound/admission_redis.c src/inbound/health.c src/inbound/local.c src/inbound/limit.c src/inbound/drain.c src/inbound/windows.c src/inbound/sliding_log.c src/inbound/key_hash.c src/lua/admit.lua src/lua/members.lua tests/sim/fake_redis.c tests/sim/fake_commands.c tests/sim/link_virtual.c tests/sim/loop_virtual.c src/base/mem.c src/base/must.c src/base/str.c */
/* Checks from start to answer, in virtual time: with a Redis, without one, with one that is slow, cut off, stopped or
 * odd. */
#include "../sim/link_virtual.h"
#include "base/log.h"
#include "base/mem.h"
#include "inbound/admission.h"
#include "inbound/local.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_US (20 * CLOCK_MS_US)
enum { REPLICAS = 3, CALLS = 64 };

struct replica {
    struct loop *loop;
    struct link *server;
    struct admission *admission;
};

struct asked {
    struct admission_check check;
    int done;
    int64_t took_us;
};

static struct world *world;
static struct server server;
static struct replica replicas[REPLICAS];
static struct asked calls[CALLS];
static char api[] = "api", own[] = "own", login[] = "login";
static struct inbound_rule bucket, trial;
static struct inbound_conf inbound;
static unsigned said_without, said_again, said_skips, said_odd;

/* ---- in place of the log ---- */

void log_fields(enum log_level level, const char *event, const struct log_field *fields)
{
    if (strcmp(event, "admission_without_redis") == 0) {
        ck_assert_int_eq(level, LOG_ERROR);
        said_without++;
    }
    said_again += strcmp(event, "admission_checked_again") == 0;
    said_skips += strcmp(event, "admission_skips_redis") == 0;
    said_odd += strcmp(event, "admission_odd") == 0;
    (void)fields;
}

/* ---- a small fleet ---- */

static void setup(void)
{
    bucket = (struct inbound_rule){.label = own, .rate = {1, CLOCK_SECOND_US}, .capacity = 10, .cost = 1};
    trial = (struct inbound_rule){
        .label = login, .algorithm = ALGORITHM_SLIDING_WINDOW_LOG, .rate = {2, CLOCK_SECOND_US}, .cost = 1};
    inbound = (struct inbound_conf){.label = api, .timeout_us = TIMEOUT_US};
    said_without = said_again = said_skips = said_odd = 0;
    memset(replicas, 0, sizeof(replicas));
    world = world_new(1);
    server_init(&server, world);
}

static void start_replica(struct replica *replica, bool with_redis)
{
    struct link_conditions quick = {.delay_us = 100};
    char name[8];

    snprintf(name, sizeof(name), "r%d", (int)(replica - replicas));
    replica->loop = world_loop(world, 0, 0);
    if (with_redis) {
        replica->server = link_virtual(replica->loop, &server, &quick);
    }
    replica->admission = admission_new(replica->loop, replica->server, "sluice", name, "secret", 6);
    if (with_redis) {
        link_start(replica->server);
        world_run(world, CLOCK_MS_US);
    }
}

static void teardown(void)
{
    for (unsigned i = 0; i < REPLICAS; i++) {
        if (replicas[i].loop == NULL) {
            continue;
        }
        admission_free(replicas[i].admission);
        if (replicas[i].server != NULL) {
            link_free(replicas[i].server);
        }
    }
    world_run(world, 10 * CLOCK_SECOND_US); /* messages on their way arrive, and find nobody */
    for (unsigned i = 0; i < REPLICAS; i++) {
        if (replicas[i].loop != NULL) {
            loop_free(replicas[i].loop);
        }
    }
    server_fini(&server);
    world_free(world);
    for (unsigned i = 0; i < REPLICAS; i++) {
        mem_free(replicas[i].server); /* a virtual link's memory is its user's from here on */
    }
}

static void done(struct admission_check *check)
{
    struct asked *asked = container_of(check, struct asked, check);

    asked->done++;
    asked->took_us = world_now(world) - asked->took_us;
}

static struct asked *ask_of(unsigned replica, unsigned call, const char *key)
{
    struct asked *asked = &calls[call];

    *asked = (struct asked){.took_us = world_now(world)};
    asked->check = (struct admission_check){.inbound = &inbound, .count = 1, .done = done};
    asked->check.rules[0] = &bucket;
    asked->check.keys[0] = slice_of(key);
    asked->check.costs[0] = 1;
    admission_start(replicas[replica].admission, &asked->check);
    ck_assert_int_eq(asked->done, 0); /* never from inside */
    return asked;
}

static struct asked *ask(unsigned call)
{
    return ask_of(0, call, "somebody");
}

static unsigned admitted_of(unsigned count)
{
    unsigned admitted = 0;

    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(calls[i].done, 1);
        admitted += calls[i].check.admitted;
    }
    return admitted;
}

static struct admission_counters counters(void)
{
    struct admission_counters out;
    admission_counters(replicas[0].admission, &out);
    return out;
}

static void slow_down(int64_t delay_us)
{
    struct link_conditions slow = {.delay_us = (double)delay_us};
    link_set_conditions(replicas[0].server, &slow);
}

/* ---- with and without ---- */

START_TEST(of_twenty_at_once_ten_are_admitted)
{
    start_replica(&replicas[0], _i == 1);
    for (unsigned i = 0; i < 20; i++) {
        ask(i);
    }
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(admitted_of(20), 10);
    ck_assert_uint_eq(counters().admitted, 10);
    ck_assert_uint_eq(counters().refused, 10);
    ck_assert_uint_eq(counters().redis_calls, _i == 1 ? 20 : 0);
    ck_assert_int_eq(calls[0].check.results[0].limit, 10);
    ck_assert_int_eq(calls[0].check.results[0].remaining, 9);
    ck_assert_int_eq(calls[19].check.results[0].retry_after_us, CLOCK_SECOND_US);
    ck_assert_uint_eq(said_without, 0);
}
END_TEST

START_TEST(three_replicas_count_as_one)
{
    for (unsigned i = 0; i < REPLICAS; i++) {
        start_replica(&replicas[i], true);
    }
    for (unsigned i = 0; i < 30; i++) {
        ask_of(i % REPLICAS, i, "somebody");
    }
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(admitted_of(30), 10);
}
END_TEST

START_TEST(callers_have_counts_of_their_own)
{
    start_replica(&replicas[0], _i == 1);
    for (unsigned i = 0; i < 10; i++) {
        ask_of(0, i, "one");
        ask_of(0, 10 + i, "another");
    }
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(admitted_of(20), 20);
}
END_TEST

START_TEST(a_request_without_limits_passes)
{
    start_replica(&replicas[0], _i == 1);
    calls[0].check = (struct admission_check){.inbound = &inbound, .done = done};
    admission_start(replicas[0].admission, &calls[0].check);
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(admitted_of(1), 1);
    ck_assert(!calls[0].check.unchecked);
}
END_TEST

static struct asked *ask_two(unsigned call)
{
    struct asked *asked = &calls[call];

    *asked = (struct asked){.check = {.inbound = &inbound, .count = 2, .done = done}};
    asked->check.rules[0] = &bucket;
    asked->check.rules[1] = &trial;
    for (unsigned i = 0; i < 2; i++) {
        asked->check.keys[i] = slice_of("somebody");
        asked->check.costs[i] = 1;
    }
    admission_start(replicas[0].admission, &asked->check);
    return asked;
}

START_TEST(a_limit_on_trial_is_counted_and_refuses_nobody)
{
    trial.dry_run = true;
    start_replica(&replicas[0], _i == 1);
    for (unsigned i = 0; i < 12; i++) {
        ask_two(i);
    }
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(admitted_of(12), 10);
    ck_assert(!calls[5].check.results[1].admitted);
    ck_assert(calls[5].check.results[0].admitted);
    ck_assert_uint_eq(counters().dry_refused, 10);
}
END_TEST

START_TEST(what_one_limit_refuses_costs_nothing_in_the_other)
{
    start_replica(&replicas[0], _i == 1);
    for (unsigned i = 0; i < 12; i++) {
        ask_two(i);
    }
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(admitted_of(12), 2);
    ck_assert_int_eq(calls[11].check.results[0].remaining, 8);
}
END_TEST

START_TEST(a_cancelled_check_is_never_answered)
{
    start_replica(&replicas[0], _i == 1);
    struct asked *asked = ask(0);
    admission_cancel(&asked->check);
    admission_cancel(&asked->check);
    ask(1);
    world_run(world, CLOCK_SECOND_US);
    ck_assert_int_eq(calls[0].done, 0);
    ck_assert_int_eq(calls[1].done, 1);
    admission_cancel(&calls[1].check);
}
END_TEST

/* ---- Redis out of reach ---- */

START_TEST(open_admits_unseen_and_says_so_at_once_and_every_second)
{
    start_replica(&replicas[0], true);
    link_cut(replicas[0].server, true);
    server_stop(&server);
    ask(0); /* nobody knows yet that it is gone */
    world_run(world, CLOCK_SECOND_US);
    ck_assert_int_le(calls[0].took_us, TIMEOUT_US);
    unsigned before = said_without;
    for (unsigned i = 1; i < 31; i++) {
        ask(i);
        world_run(world, 100 * CLOCK_MS_US);
    }
    ck_assert_uint_eq(admitted_of(31), 31);
    ck_assert(calls[30].check.unchecked);
    ck_assert_int_eq(calls[30].took_us, 0);
    ck_assert_uint_eq(counters().unchecked, 31);
    ck_assert_uint_ge(before, 1);
    ck_assert_uint_eq(said_without - before, 3);
    ck_assert_uint_eq(said_again, 0);
    ck_assert(counters().without_redis);
}
END_TEST

START_TEST(closed_refuses_unseen)
{
    inbound.on_redis_down = INBOUND_DOWN_CLOSED;
    start_replica(&replicas[0], true);
    server_stop(&server);
    for (unsigned i = 0; i < 5; i++) {
        ask(i);
        world_run(world, 100 * CLOCK_MS_US);
    }
    ck_assert_uint_eq(admitted_of(5), 0);
    ck_assert(calls[4].check.unchecked);
    ck_assert_int_gt(calls[4].check.results[0].retry_after_us, 0);
    ck_assert_uint_eq(counters().refused, 5);
}
END_TEST

START_TEST(local_decides_by_a_share_of_the_rate)
{
    inbound.on_redis_down = INBOUND_DOWN_LOCAL;
    for (unsigned i = 0; i < REPLICAS; i++) {
        start_replica(&replicas[i], true);
    }
    world_run(world, 3 * CLOCK_SECOND_US); /* they have counted each other */
    ck_assert_int_eq(counters().replicas, REPLICAS);
    server_stop(&server);
    for (unsigned i = 0; i < 30; i++) {
        ask_of(i % REPLICAS, i, "somebody");
        world_run(world, CLOCK_MS_US);
    }
    ck_assert_uint_eq(admitted_of(30), 9); /* 10 / 3 each */
    ck_assert(!calls[29].check.unchecked);
    ck_assert_int_eq(calls[29].check.results[0].limit, 3);
    world_run(world, 3 * CLOCK_SECOND_US);
    ask(0);
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(admitted_of(1), 1); /* one in three seconds */
}
END_TEST

START_TEST(before_the_first_connection_nothing_waits)
{
    start_replica(&replicas[0], false);
    struct link_conditions quick = {.delay_us = 100};
    replicas[1].loop = world_loop(world, 0, 0);
    replicas[1].server = link_virtual(replicas[1].loop, &server, &quick);
    replicas[1].admission = admission_new(replicas[1].loop, replicas[1].server, "sluice", "r1", "secret", 6);
    ask_of(1, 0, "somebody");
    world_run(world, 0);
    ck_assert_uint_eq(admitted_of(1), 1);
    ck_assert(calls[0].check.unchecked);
}
END_TEST

START_TEST(a_redis_that_comes_back_is_believed_within_a_second_and_quietly)
{
    start_replica(&replicas[0], true);
    server.stalled_until_us = world_now(world) + 5 * CLOCK_SECOND_US; /* as SIGSTOP does */
    for (unsigned i = 0; i < 50; i++) {
        ask_of(0, i, "others");
        world_run(world, 100 * CLOCK_MS_US);
        ck_assert_int_le(calls[i].took_us, TIMEOUT_US);
    }
    ck_assert_uint_eq(admitted_of(50), 50);
    world_run(world, CLOCK_SECOND_US);
    for (unsigned i = 0; i < 20; i++) {
        ask(i);
    }
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(admitted_of(20), 10);
    ck_assert_uint_eq(said_again, 1);
    ck_assert(!counters().without_redis);
    unsigned before = said_without;
    world_run(world, 5 * CLOCK_SECOND_US);
    ck_assert_uint_eq(said_without, before);
}
END_TEST

/* ---- slow ---- */

START_TEST(a_decision_never_waits_longer_than_the_timeout)
{
    start_replica(&replicas[0], true);
    slow_down(15 * CLOCK_MS_US); /* each way */
    ask(0);
    world_run(world, CLOCK_SECOND_US);
    ck_assert_int_eq(calls[0].took_us, TIMEOUT_US);
    ck_assert_int_eq(calls[0].done, 1); /* the late reply found nobody */
    ck_assert(calls[0].check.unchecked && calls[0].check.admitted);
}
END_TEST

START_TEST(after_three_failures_redis_is_left_alone_until_a_probe_is_answered)
{
    start_replica(&replicas[0], true);
    slow_down(15 * CLOCK_MS_US);
    for (unsigned i = 0; i < 10; i++) {
        ask(i);
        world_run(world, 25 * CLOCK_MS_US);
    }
    ck_assert_uint_eq(counters().redis_calls, 3);
    ck_assert_int_eq(calls[9].took_us, 0);
    ck_assert_uint_eq(said_skips, 1);
    world_run(world, 2 * CLOCK_SECOND_US); /* probes, all of them late */
    ask(10);
    world_run(world, 25 * CLOCK_MS_US);
    ck_assert_uint_eq(counters().redis_calls, 3);
    slow_down(100);
    world_run(world, CLOCK_SECOND_US + 50 * CLOCK_MS_US);
    ask(11);
    world_run(world, CLOCK_MS_US);
    ck_assert_uint_eq(counters().redis_calls, 4);
    ck_assert(!calls[11].check.unchecked);
    ck_assert_uint_eq(said_again, 1);
}
END_TEST

START_TEST(two_failures_with_a_success_between_are_not_three)
{
    start_replica(&replicas[0], true);
    for (unsigned i = 0; i < 9; i++) {
        slow_down(i % 3 == 2 ? 100 : 15 * CLOCK_MS_US);
        ask(i);
        world_run(world, 100 * CLOCK_MS_US);
    }
    ck_assert_uint_eq(counters().redis_calls, 9);
    ck_assert_uint_eq(counters().unchecked, 6);
}
END_TEST

START_TEST(a_process_that_was_stopped_reads_what_came_before_it_gives_up)
{
    start_replica(&replicas[0], true);
    ask(0);
    loop_freeze(replicas[0].loop, 300 * CLOCK_MS_US);
    world_run(world, CLOCK_SECOND_US);
    ck_assert_int_eq(calls[0].done, 1);
    ck_assert(!calls[0].check.unchecked);
}
END_TEST

START_TEST(a_lost_reply_is_answered_at_once_by_the_mode)
{
    struct link_conditions lossy = {.delay_us = 100, .lost_p = 1};

    start_replica(&replicas[0], true);
    link_set_conditions(replicas[0].server, &lossy);
    ask(0);
    world_run(world, CLOCK_SECOND_US);
    ck_assert_uint_eq(admitted_of(1), 1);
    ck_assert(calls[0].check.unchecked);
    ck_assert_int_lt(calls[0].took_us, CLOCK_MS_US);
}
END_TEST

/* ---- keys ---- */

START_TEST(neither_redis_nor_its_keys_see_what_callers_sent)
{
    struct key_hasher *hasher = key_hasher_new("secret", 6), *other = key_hasher_new("Secret", 6);
    struct key_hash hash = key_hash(hasher, &inbound, &bucket, slice_of("somebody"));
    struct key_hash again = key_hash(hasher, &inbound, &bucket, slice_of("somebody"));
    struct key_hash elsewhere = key_hash(hasher, &inbound, &trial, slice_of("somebody"));
    struct key_hash under_other = key_hash(other, &inbound, &bucket, slice_of("somebody"));
    char text[KEY_HASH_TEXT_BYTES];

    ck_assert_mem_eq(&hash, &again, sizeof(hash));
    ck_assert_mem_ne(&hash, &elsewhere, sizeof(hash));
    ck_assert_mem_ne(&hash, &under_other, sizeof(hash));
    key_hash_text(&hash, text);
    ck_assert_uint_eq(strlen(text), 16);
    ck_assert_uint_eq(strspn(text, "0123456789abcdef"), 16);
    start_replica(&replicas[0], true);
    ask(0);
    world_run(world, CLOCK_MS_US);
    char *key = mem_printf("sluice:in:{api}:own:%s", text);
    ck_assert_int_gt(fake_redis_ttl_ms(server.redis, key), 0);
    mem_free(key);
    key_hasher_free(hasher);
    key_hasher_free(other);
}
END_TEST

START_TEST(a_key_that_is_not_ours_is_reset_and_told_once_a_second)
{
    struct key_hasher *hasher = key_hasher_new("secret", 6);
    struct key_hash hash = key_hash(hasher, &inbound, &bucket, slice_of("somebody"));
    char text[KEY_HASH_TEXT_BYTES];

    key_hash_text(&hash, text);
    char *key = mem_printf("sluice:in:{api}:own:%s", text);
    start_replica(&replicas[0], true);
    for (unsigned i = 0; i < 5; i++) {
        fake_redis_set_text(server.redis, key, i % 2 == 0, "nonsense");
        ask(i);
        world_run(world, CLOCK_MS_US);
    }
    ck_assert_uint_eq(admitted_of(5), 5);
    ck_assert(!calls[4].check.unchecked);
    ck_assert_uint_eq(said_odd, 1);
    mem_free(key);
    key_hasher_free(hasher);
}
END_TEST

/* ---- the table of this process ---- */

static void use(struct local *local, unsigned caller, const struct limit *limit, int64_t now_us)
{
    struct key_hash hash = {{0}};

    memcpy(hash.bytes, &caller, sizeof(caller));
    local_sweep(local, now_us);
    struct local_key *key = local_get(local, &hash, limit);
    struct limit_try try = {*limit, local_state(key), 1, false, {0}};
    ck_assert(limit_decide(&try, 1, now_us));
    local_put(key, limit);
}

START_TEST(idle_callers_are_forgotten_while_others_come)
{
    struct local *local = local_new(100000, 1 << 20);
    struct limit limit = limit_of(_i == 0 ? &bucket : &trial);

    for (unsigned i = 0; i < 5000; i++) {
        use(local, i, &limit, i * 10000); /* idle after a second: a hundred calls later */
    }
    ck_assert_uint_lt(local_count(local), 250);
    ck_assert_uint_ge(local_count(local), 100);
    ck_assert_uint_eq(local_forgotten(local), 0);
    local_free(local);
}
END_TEST

START_TEST(a_full_table_forgets_who_has_not_come_for_longest)
{
    struct local *local = local_new(64, 1 << 20);
    struct limit limit = limit_of(&bucket);

    for (unsigned i = 0; i < 1000; i++) {
        use(local, i, &limit, 1);
        if (i % 8 == 0 && i < 72) {
            use(local, 5000, &limit, 1); /* keeps coming */
        }
    }
    ck_assert_uint_eq(local_count(local), 64);
    ck_assert_uint_eq(local_forgotten(local), 1001 - 64);
    local_free(local);
}
END_TEST

START_TEST(logs_of_all_callers_together_are_bounded)
{
    struct local *local = local_new(100000, 100 * 16 * 8); /* a hundred of the smallest */
    struct limit limit = limit_of(&trial);

    for (unsigned i = 0; i < 1000; i++) {
        use(local, i, &limit, 1);
    }
    ck_assert_uint_le(local_count(local), 101);
    ck_assert_uint_ge(local_forgotten(local), 899);
    local_free(local);
}
END_TEST

START_TEST(a_log_grows_with_its_caller)
{
    struct local *local = local_new(100, 1 << 20);
    struct inbound_rule rule = trial;

    rule.rate.count = 1000;
    struct limit limit = limit_of(&rule);
    for (unsigned i = 0; i < 3000; i++) {
        use(local, 1, &limit, (int64_t)i * 1000);
    }
    ck_assert_uint_eq(local_count(local), 1);
    local_free(local);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admission");
    TCase *tcase = tcase_create("admission");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, of_twenty_at_once_ten_are_admitted, 0, 2);
    tcase_add_test(tcase, three_replicas_count_as_one);
    tcase_add_loop_test(tcase, callers_have_counts_of_their_own, 0, 2);
    tcase_add_loop_test(tcase, a_request_without_limits_passes, 0, 2);
    tcase_add_loop_test(tcase, a_limit_on_trial_is_counted_and_refuses_nobody, 0, 2);
    tcase_add_loop_test(tcase, what_one_limit_refuses_costs_nothing_in_the_other, 0, 2);
    tcase_add_loop_test(tcase, a_cancelled_check_is_never_answered, 0, 2);
    tcase_add_test(tcase, open_admits_unseen_and_says_so_at_once_and_every_second);
    tcase_add_test(tcase, closed_refuses_unseen);
    tcase_add_test(tcase, local_decides_by_a_share_of_the_rate);
    tcase_add_test(tcase, before_the_first_connection_nothing_waits);
    tcase_add_test(tcase, a_redis_that_comes_back_is_believed_within_a_second_and_quietly);
    tcase_add_test(tcase, a_decision_never_waits_longer_than_the_timeout);
    tcase_add_test(tcase, after_three_failures_redis_is_left_alone_until_a_probe_is_answered);
    tcase_add_test(tcase, two_failures_with_a_success_between_are_not_three);
    tcase_add_test(tcase, a_process_that_was_stopped_reads_what_came_before_it_gives_up);
    tcase_add_test(tcase, a_lost_reply_is_answered_at_once_by_the_mode);
    tcase_add_test(tcase, neither_redis_nor_its_keys_see_what_callers_sent);
    tcase_add_test(tcase, a_key_that_is_not_ours_is_reset_and_told_once_a_second);
    tcase_add_loop_test(tcase, idle_callers_are_forgotten_while_others_come, 0, 2);
    tcase_add_test(tcase, a_full_table_forgets_who_has_not_come_for_longest);
    tcase_add_test(tcase, logs_of_all_callers_together_are_bounded);
    tcase_add_test(tcase, a_log_grows_with_its_caller);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
