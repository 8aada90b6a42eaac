/* links: tests/unit/redis_server.c tests/unit/admission_vectors.c src/inbound/admission.c src/inbound/admission_redis.c src/inbound/health.c src/inbound/local.c src/inbound/limit.c src/inbound/drain.c src/inbound/windows.c src/inbound/sliding_log.c src/inbound/key_hash.c src/lua/members.lua src/redis/link.c src/redis/node.c src/redis/cluster.c src/redis/slotmap.c src/redis/sentinel.c src/redis/inquiry.c src/conf/redis_conf.c src/redis/flight.c src/redis/backoff.c src/redis/hello.c src/redis/resp.c src/redis/reply.c src/redis/script.c src/redis/command.c src/redis/transport.c src/redis/lookup.c src/redis/secure.c src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c src/base/loop.c src/base/clock.c src/base/histogram.c src/base/err.c */
/*
 * Admission with a real redis-server, a child of each test. Skipped where there is none.
 *
 * The vectors need a clock that they set, so for them the script reads one from a key instead of TIME, and its keys,
 * which live in real time, live an hour longer. Nothing else about it is changed.
 */
#include "admission_vectors.h"
#include "base/log.h"
#include "base/mem.h"
#include "inbound/admission.h"
#include "inbound/admission_redis.h"
#include "redis_server.h"

#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 64 };
extern const struct script script_members;
extern struct script script_admit; /* here, so that its clock can be changed */
struct script script_admit = {"admit", NULL, 0};

struct asked {
    struct admission_check check;
    int done;
};

static struct redis_server server;
static struct admission *admission;
static struct asked calls[CALLS];
static char api[] = "api", own[] = "own";
static struct inbound_rule rule;
static struct inbound_conf inbound;

void log_fields(enum log_level level, const char *event, const struct log_field *fields)
{
    (void)level, (void)event, (void)fields;
}

/* ---- the script ---- */

static char *read_script(void)
{
    FILE *file = fopen("src/lua/admit.lua", "r");
    char *text = mem_zalloc(65536);

    ck_assert_msg(file != NULL, "run from the top of the source tree");
    ck_assert_uint_gt(fread(text, 1, 65535, file), 0);
    ck_assert(fclose(file) == 0);
    return text;
}

/* `text` with its only `from` changed to `to`. */
static char *with(char *text, const char *from, const char *to)
{
    char *at = strstr(text, from);

    ck_assert_ptr_nonnull(at);
    ck_assert_ptr_null(strstr(at + 1, from));
    char *changed = mem_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    mem_free(text);
    return changed;
}

/* ---- set up ---- */

static void start(char *script)
{
    const struct script *const scripts[] = {&script_admit, &script_members};

    rule = (struct inbound_rule){.label = own, .rate = {1, CLOCK_SECOND_US}, .capacity = 10, .cost = 1};
    inbound = (struct inbound_conf){.label = api, .timeout_us = 200 * CLOCK_MS_US};
    script_admit.text = script;
    redis_server_open(&server, scripts, 2);
    admission = admission_new(server.loop, server.link, "sluice", "me", "secret", 6);
}

static void setup(void)
{
    start(read_script());
}

static void teardown(void)
{
    admission_free(admission);
    redis_server_close(&server);
    mem_free((char *)(uintptr_t)script_admit.text);
}

static void done(struct admission_check *check)
{
    container_of(check, struct asked, check)->done++;
}

static void ask(unsigned call, const char *key)
{
    struct asked *asked = &calls[call];

    *asked = (struct asked){.check = {.inbound = &inbound, .count = 1, .done = done}};
    asked->check.rules[0] = &rule;
    asked->check.keys[0] = slice_of(key);
    asked->check.costs[0] = 1;
    admission_start(admission, &asked->check);
}

static unsigned admitted_of(unsigned count)
{
    unsigned admitted = 0;

    for (unsigned i = 0; i < count; i++) {
        redis_server_until(&server, calls[i].done == 1);
        admitted += calls[i].check.admitted;
    }
    return admitted;
}

static unsigned burst(const char *key)
{
    for (unsigned i = 0; i < 20; i++) {
        ask(i, key);
    }
    return admitted_of(20);
}

/* ---- tests ---- */

START_TEST(of_twenty_at_once_ten_are_admitted_every_time)
{
    for (unsigned i = 0; i < 50; i++) {
        char key[16];
        snprintf(key, sizeof(key), "caller%u", i);
        ck_assert_uint_eq(burst(key), 10);
        ck_assert(!calls[0].check.unchecked);
    }
}
END_TEST

static void vectors_anew(void *arg)
{
    (void)arg;
    redis_server_say(&server, "FLUSHALL");
}

struct vector_call {
    struct admission_check check;
    bool admitted, answered;
    struct admission_result *out;
};

static void vector_done(struct link_call *call, const struct redisReply *reply)
{
    struct vector_call *vector = container_of(call, struct vector_call, check.call);
    enum admission_note note;

    ck_assert(admission_redis_read(reply, &vector->check, &note));
    vector->answered = true;
}

static bool vectors_ask(void *arg, const struct inbound_rule *const *rules, const int64_t *costs, unsigned count,
                        int64_t now_us, struct admission_result *out)
{
    struct vector_call vector = {.check = {.inbound = &inbound, .count = count}};
    char command[96];

    for (unsigned i = 0; i < count; i++) {
        vector.check.rules[i] = rules[i];
        vector.check.costs[i] = costs[i];
        vector.check.keys[i] = slice_of("somebody");
    }
    snprintf(command, sizeof(command), "SET clock %" PRId64 ":%" PRId64, now_us / CLOCK_SECOND_US,
             now_us % CLOCK_SECOND_US);
    redis_server_say(&server, command);
    vector.check.call.done = vector_done;
    ck_assert(admission_redis_ask(server.link, &vector.check, "sluice", arg));
    redis_server_until(&server, vector.answered);
    memcpy(out, vector.check.results, count * sizeof(out[0]));
    return vector.check.admitted;
}

START_TEST(a_real_server_says_what_the_vectors_say)
{
    struct key_hasher *hasher = key_hasher_new("secret", 6);
    char *script =
        with(read_script(), "redis.call('TIME')", "{string.match(redis.call('GET', 'clock'), '(%d+):(%d+)')}");

    start(with(script, "ceil(max(us, 0) / 1000) + 1)", "ceil(max(us, 0) / 1000) + 3600000)"));
    ck_assert_uint_gt(vectors_play(vectors_anew, vectors_ask, hasher), 500);
    key_hasher_free(hasher);
    teardown();
}
END_TEST

static const enum inbound_algorithm algorithms[] = {ALGORITHM_TOKEN_BUCKET,          ALGORITHM_FIXED_WINDOW,
                                                    ALGORITHM_SLIDING_WINDOW_LOG,    ALGORITHM_SLIDING_WINDOW_COUNTER,
                                                    ALGORITHM_SLIDING_WINDOW_STRICT, ALGORITHM_LEAKY_BUCKET};
enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

static const char *the_key(char out[128])
{
    snprintf(out, 128, "%s", redis_server_say(&server, "KEYS sluice:in:{api}:*"));
    out[strcspn(out, "\n")] = '\0';
    return out;
}

START_TEST(every_key_has_a_life_and_is_gone_after_it)
{
    char key[128], command[160];

    rule.algorithm = algorithms[_i];
    rule.rate = (struct rate){10, 200 * CLOCK_MS_US};
    for (unsigned i = 0; i < 20; i++) {
        ask(0, "somebody");
        admitted_of(1);
        snprintf(command, sizeof(command), "PTTL %s", the_key(key));
        int ttl = (int)strtol(redis_server_say(&server, command), NULL, 10);
        ck_assert_int_ne(ttl, -1); /* no end; -2: over already, on a busy machine */
        ck_assert_int_le(ttl, 402);
    }
    redis_server_until(&server, the_key(key)[0] == '\0');
}
END_TEST

START_TEST(a_key_of_another_type_or_without_an_end_is_put_right)
{
    char key[128], command[160];

    rule.algorithm = algorithms[_i];
    ask(0, "somebody");
    admitted_of(1);
    the_key(key);
    snprintf(command, sizeof(command), "DEL %s", key);
    redis_server_say(&server, command);
    snprintf(command, sizeof(command), "SADD %s odd", key);
    redis_server_say(&server, command);
    ask(0, "somebody");
    ck_assert_uint_eq(admitted_of(1), 1);
    ck_assert(!calls[0].check.unchecked);
    snprintf(command, sizeof(command), "PTTL %s", key);
    ck_assert_int_gt(strtol(redis_server_say(&server, command), NULL, 10), 0);
}
END_TEST

START_TEST(scripts_that_were_flushed_are_loaded_again)
{
    ck_assert_uint_eq(burst("one"), 10);
    redis_server_say(&server, "SCRIPT FLUSH");
    ck_assert_uint_eq(burst("another"), 10);
    ck_assert(!calls[0].check.unchecked);
    ck_assert_uint_eq(burst("one"), 0);
}
END_TEST

START_TEST(a_server_that_was_killed_comes_back_empty_and_counts_anew)
{
    ck_assert_uint_eq(burst("somebody"), 10);
    redis_server_kill(&server);
    redis_server_until(&server, server.downs == 1);
    ck_assert_uint_eq(burst("somebody"), 20); /* open */
    ck_assert(calls[0].check.unchecked);
    redis_server_start(&server);
    redis_server_until(&server, server.ups == 2);
    ck_assert_uint_eq(burst("somebody"), 10);
    ck_assert(!calls[0].check.unchecked);
}
END_TEST

START_TEST(a_stopped_server_holds_nobody_up_longer_than_the_timeout)
{
    inbound.timeout_us = 20 * CLOCK_MS_US;
    ck_assert_uint_eq(burst("somebody"), 10);
    kill(server.pid, SIGSTOP);
    struct mono before = loop_now(server.loop);
    ck_assert_uint_eq(burst("somebody"), 20);
    ck_assert_int_lt(mono_diff(loop_now(server.loop), before), 500 * CLOCK_MS_US);
    before = loop_now(server.loop);
    ck_assert_uint_eq(burst("somebody"), 20); /* not even asked */
    ck_assert_int_lt(mono_diff(loop_now(server.loop), before), 15 * CLOCK_MS_US);
    kill(server.pid, SIGCONT);
    do {
        ask(0, "another");
        admitted_of(1);
        redis_server_turn(&server, before);
    } while (calls[0].check.unchecked);
    ck_assert(calls[0].check.admitted);
}
END_TEST

/* Busy, or stopped by somebody: the timer is due before the socket has been looked at. On a busy machine the server may not
 * have answered yet, so this may take a few tries; were the reply never read, no number of them would do. */
START_TEST(a_process_that_was_held_up_reads_what_came_before_it_gives_up)
{
    bool looked = false;

    inbound.timeout_us = 20 * CLOCK_MS_US;
    for (unsigned tries = 0; tries < 8 && !looked; tries++) {
        ask(0, "somebody");
        redis_server_turn(&server, loop_now(server.loop)); /* sends it */
        while (mono_diff(loop_now(server.loop), calls[0].check.started) < 80 * CLOCK_MS_US) {
            continue;
        }
        ck_assert_uint_eq(admitted_of(1), 1);
        looked = !calls[0].check.unchecked;
    }
    ck_assert(looked);
}
END_TEST

START_TEST(a_clock_of_the_server_set_by_nobody_is_a_time_of_this_century)
{
    char key[128], command[160];

    ask(0, "somebody");
    admitted_of(1);
    snprintf(command, sizeof(command), "GET %s", the_key(key));
    ck_assert_uint_eq(strlen(redis_server_say(&server, command)), 16); /* every microsecond of it */
}
END_TEST

int main(void)
{
    if (!redis_server_is_there()) {
        printf("test_admission_redis: skipped, there is no redis-server here\n");
        return EXIT_SUCCESS;
    }
    Suite *suite = suite_create("admission_redis");
    TCase *tcase = tcase_create("redis"), *vectors = tcase_create("vectors");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 30);
    tcase_set_timeout(vectors, 30);
    tcase_add_test(tcase, of_twenty_at_once_ten_are_admitted_every_time);
    tcase_add_test(vectors, a_real_server_says_what_the_vectors_say);
    tcase_add_loop_test(tcase, every_key_has_a_life_and_is_gone_after_it, 0, ALGORITHMS);
    tcase_add_loop_test(tcase, a_key_of_another_type_or_without_an_end_is_put_right, 0, ALGORITHMS);
    tcase_add_test(tcase, scripts_that_were_flushed_are_loaded_again);
    tcase_add_test(tcase, a_server_that_was_killed_comes_back_empty_and_counts_anew);
    tcase_add_test(tcase, a_stopped_server_holds_nobody_up_longer_than_the_timeout);
    tcase_add_test(tcase, a_process_that_was_held_up_reads_what_came_before_it_gives_up);
    tcase_add_test(tcase, a_clock_of_the_server_set_by_nobody_is_a_time_of_this_century);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, vectors);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
