/* links: src/upstream/resolve.c src/upstream/workers.c src/base/addr.c src/base/clock.c src/base/loop.c src/base/mem.c src/base/must.c src/base/str.c */
#include "upstream/resolve.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <check.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The resolver under test asks this one; names say what it does. */
static atomic_uint asked;
static sem_t hanging, let_go;

static struct addr literal(const char *text)
{
    struct addr addr;

    ck_assert(addr_parse_literal(slice_of(text), 0, &addr));
    return addr;
}

static int fake_resolve(const char *host, struct addr addrs[WORKERS_ADDRS], unsigned *count)
{
    static const char *const mixed[] = {"2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.1", "192.0.2.2"};

    atomic_fetch_add(&asked, 1);
    *count = 0;
    if (strcmp(host, "unknown.test") == 0) {
        return EAI_NONAME;
    }
    if (strncmp(host, "hang", 4) == 0) {
        sem_post(&hanging);
        sem_wait(&let_go);
    }
    if (strcmp(host, "mixed.test") == 0) {
        for (unsigned i = 0; i < 5; i++) {
            addrs[(*count)++] = literal(mixed[i]);
        }
    } else if (strcmp(host, "empty.test") != 0) {
        addrs[(*count)++] = literal("192.0.2.7");
    }
    return 0;
}

struct asker {
    struct lookup lookup;
    unsigned answers;
    enum upstream_error error;
    unsigned count;
    char first[ADDR_TEXT_BYTES];
};

static struct loop *loop;
static struct resolver *resolver;
static unsigned expected;

static void keep(struct asker *asker, const struct answer *answer)
{
    asker->answers++;
    asker->error = answer->error;
    asker->count = answer->count;
    if (answer->count > 0) {
        addr_format(&answer->addrs[0], true, asker->first);
    }
}

static void on_answer(struct lookup *lookup, const struct answer *answer)
{
    keep(container_of(lookup, struct asker, lookup), answer);
    if (expected > 0 && --expected == 0) {
        loop_stop(loop);
    }
}

/* True when the answer came at once. */
static bool ask(struct asker *asker, const char *host)
{
    struct answer answer;

    asker->lookup.done = on_answer;
    if (resolve_get(resolver, host, &asker->lookup, &answer)) {
        keep(asker, &answer);
        return true;
    }
    return false;
}

static void run_for_answers(unsigned count)
{
    expected = count;
    loop_run(loop);
}

static void stop_due(struct timer *timer, struct mono now)
{
    (void)timer;
    (void)now;
    loop_stop(loop);
}

static void run_for(int64_t us)
{
    struct timer timer = {0};

    timer_set(loop, &timer, mono_add(loop_now(loop), us), stop_due);
    loop_run(loop);
}

static void begin(int64_t ttl_us, int64_t timeout_us, unsigned threads)
{
    struct upstreams_conf conf = {.dns_ttl_us = ttl_us, .dns_timeout_us = timeout_us, .resolver_threads = threads};

    atomic_store(&asked, 0);
    sem_init(&hanging, 0, 0);
    sem_init(&let_go, 0, 0);
    loop = loop_new();
    resolver = resolve_new(loop, &conf, fake_resolve);
}

static void end(void)
{
    resolve_free(resolver);
    loop_free(loop);
}

START_TEST(a_literal_is_answered_at_once_and_nobody_is_asked)
{
    struct asker v4 = {0}, v6 = {0};

    begin(60 * CLOCK_SECOND_US, CLOCK_SECOND_US, 1);
    ck_assert(ask(&v4, "192.0.2.5"));
    ck_assert(ask(&v6, "2001:db8::5"));
    ck_assert_str_eq(v4.first, "192.0.2.5");
    ck_assert_str_eq(v6.first, "2001:db8::5");
    ck_assert_uint_eq(atomic_load(&asked), 0);
    end();
}
END_TEST

START_TEST(a_name_is_asked_once_for_all_who_wait_and_then_remembered)
{
    struct asker askers[5] = {0};
    struct asker later = {0};

    begin(60 * CLOCK_SECOND_US, CLOCK_SECOND_US, 4);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert(!ask(&askers[i], "one.test"));
    }
    run_for_answers(5);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_uint_eq(askers[i].answers, 1);
        ck_assert_int_eq(askers[i].error, UPSTREAM_OK);
        ck_assert_str_eq(askers[i].first, "192.0.2.7");
    }
    ck_assert(ask(&later, "one.test"));
    ck_assert_str_eq(later.first, "192.0.2.7");
    ck_assert_uint_eq(atomic_load(&asked), 1);
    end();
}
END_TEST

START_TEST(an_answer_older_than_its_ttl_is_asked_for_again)
{
    struct asker first = {0}, second = {0};

    begin(CLOCK_MS_US, CLOCK_SECOND_US, 1);
    ck_assert(!ask(&first, "one.test"));
    run_for_answers(1);
    run_for(5 * CLOCK_MS_US);
    ck_assert(!ask(&second, "one.test"));
    run_for_answers(1);
    ck_assert_uint_eq(atomic_load(&asked), 2);
    end();
}
END_TEST

START_TEST(a_bad_answer_is_remembered_for_a_second)
{
    struct asker first = {0}, second = {0}, third = {0};

    begin(60 * CLOCK_SECOND_US, 5 * CLOCK_SECOND_US, 1);
    ck_assert(!ask(&first, "unknown.test"));
    run_for_answers(1);
    ck_assert_int_eq(first.error, UPSTREAM_BAD_DNS);
    ck_assert(ask(&second, "unknown.test"));
    ck_assert_int_eq(second.error, UPSTREAM_BAD_DNS);
    run_for(1010 * CLOCK_MS_US);
    ck_assert(!ask(&third, "unknown.test"));
    run_for_answers(1);
    ck_assert_uint_eq(atomic_load(&asked), 2);
    end();
}
END_TEST

START_TEST(a_name_without_addresses_is_an_error)
{
    struct asker asker = {0};

    begin(60 * CLOCK_SECOND_US, CLOCK_SECOND_US, 1);
    ck_assert(!ask(&asker, "empty.test"));
    run_for_answers(1);
    ck_assert_int_eq(asker.error, UPSTREAM_BAD_DNS);
    ck_assert_uint_eq(asker.count, 0);
    end();
}
END_TEST

static void get_texts(const char *host, char texts[][ADDR_TEXT_BYTES], unsigned count)
{
    struct lookup lookup = {.done = on_answer};
    struct answer answer;

    ck_assert(resolve_get(resolver, host, &lookup, &answer));
    ck_assert_uint_eq(answer.count, count);
    for (unsigned i = 0; i < count; i++) {
        addr_format(&answer.addrs[i], true, texts[i]);
    }
}

START_TEST(the_families_take_turns_and_the_preferred_address_goes_first)
{
    struct asker asker = {0};
    char texts[5][ADDR_TEXT_BYTES];
    struct addr good = literal("192.0.2.1");

    begin(60 * CLOCK_SECOND_US, CLOCK_SECOND_US, 1);
    ck_assert(!ask(&asker, "mixed.test"));
    run_for_answers(1);
    get_texts("mixed.test", texts, 5);
    ck_assert_str_eq(texts[0], "2001:db8::1");
    ck_assert_str_eq(texts[1], "192.0.2.1");
    ck_assert_str_eq(texts[2], "2001:db8::2");
    ck_assert_str_eq(texts[3], "192.0.2.2");
    ck_assert_str_eq(texts[4], "2001:db8::3");
    good.v4.sin_port = htons(443);
    resolve_prefer(resolver, "mixed.test", &good);
    get_texts("mixed.test", texts, 5);
    ck_assert_str_eq(texts[0], "192.0.2.1");
    ck_assert_str_eq(texts[1], "2001:db8::1");
    ck_assert_str_eq(texts[4], "2001:db8::3");
    end();
}
END_TEST

START_TEST(a_lookup_that_hangs_is_given_up_in_time_and_holds_up_neither_others_nor_the_end)
{
    struct asker stuck = {0}, other = {0};
    struct mono began, ended;

    begin(60 * CLOCK_SECOND_US, 50 * CLOCK_MS_US, 2);
    ck_assert(!ask(&stuck, "hang.test"));
    sem_wait(&hanging);
    ck_assert(!ask(&other, "one.test"));
    run_for_answers(1);
    ck_assert_int_eq(other.error, UPSTREAM_OK);
    ck_assert_uint_eq(stuck.answers, 0);
    run_for_answers(1);
    ck_assert_int_eq(stuck.error, UPSTREAM_BAD_DNS_TIMEOUT);
    began = clock_mono_now();
    end();
    ended = clock_mono_now();
    ck_assert_int_lt(mono_diff(ended, began), CLOCK_SECOND_US);
    sem_post(&let_go);
}
END_TEST

START_TEST(names_that_hang_hold_up_others_for_a_second_and_not_for_good)
{
    struct asker stuck[4], others[3];
    static const char *const names[] = {"hang1.test", "hang2.test", "hang3.test", "hang4.test"};

    memset(stuck, 0, sizeof(stuck));
    memset(others, 0, sizeof(others));

    begin(60 * CLOCK_SECOND_US, 20 * CLOCK_SECOND_US, 2);
    for (int i = 0; i < 4; i++) { /* twice as many as threads: one thread for each is lost after the other */
        ck_assert(!ask(&stuck[i], names[i]));
    }
    ck_assert(!ask(&others[0], "one.test"));
    ck_assert(!ask(&others[1], "two.test"));
    run_for_answers(2);
    ck_assert_int_eq(others[0].error, UPSTREAM_OK);
    ck_assert_int_eq(others[1].error, UPSTREAM_OK);
    for (int i = 0; i < 4; i++) {
        sem_wait(&hanging);
        ck_assert_uint_eq(stuck[i].answers, 0);
    }
    for (int i = 0; i < 4; i++) {
        sem_post(&let_go);
    }
    run_for_answers(4);
    ck_assert_int_eq(stuck[3].error, UPSTREAM_OK);
    ck_assert(!ask(&others[2], "three.test"));
    run_for_answers(1);
    ck_assert_int_eq(others[2].error, UPSTREAM_OK);
    end();
}
END_TEST

static void submit(struct workers *workers, const char *host)
{
    ck_assert(workers_submit(workers, job_new(host, NULL)));
}

static void take(struct workers *workers, unsigned count)
{
    struct job *job;

    while (count > 0) {
        if ((job = workers_take(workers)) != NULL) {
            job_free(job);
            count--;
        }
        sched_yield();
    }
}

START_TEST(stand_ins_are_bounded_and_leave_when_those_who_were_stuck_come_back)
{
    struct workers *workers;
    struct mono later;

    sem_init(&hanging, 0, 0);
    sem_init(&let_go, 0, 0);
    workers = workers_new(2, fake_resolve);
    for (int i = 0; i < WORKERS_THREADS_MOST + 10; i++) {
        submit(workers, "hang.test");
        later = mono_add(clock_mono_now(), WORKERS_STUCK_US); /* all that are in a lookup now are stuck by then */
        workers_relieve(workers, later);
        if (i < WORKERS_THREADS_MOST) {
            sem_wait(&hanging);
        }
        ck_assert_uint_le(workers_threads(workers), WORKERS_THREADS_MOST);
    }
    ck_assert_uint_eq(workers_threads(workers), WORKERS_THREADS_MOST);
    ck_assert(workers_relieve(workers, later));
    for (int i = 0; i < WORKERS_THREADS_MOST + 10; i++) {
        sem_post(&let_go);
    }
    take(workers, WORKERS_THREADS_MOST + 10);
    while (workers_threads(workers) > 2) {
        sched_yield();
    }
    submit(workers, "one.test");
    take(workers, 1);
    workers_free(workers);
}
END_TEST

START_TEST(a_late_answer_is_remembered_though_nobody_waited_for_it)
{
    struct asker stuck = {0}, later = {0};

    begin(60 * CLOCK_SECOND_US, 20 * CLOCK_MS_US, 1);
    ck_assert(!ask(&stuck, "hang.test"));
    sem_wait(&hanging);
    run_for_answers(1);
    ck_assert_int_eq(stuck.error, UPSTREAM_BAD_DNS_TIMEOUT);
    sem_post(&let_go);
    ck_assert(!ask(&later, "hang.test"));
    run_for_answers(1);
    ck_assert_int_eq(later.error, UPSTREAM_OK);
    ck_assert_uint_eq(atomic_load(&asked), 1);
    end();
}
END_TEST

START_TEST(a_cancelled_lookup_is_not_answered_and_not_asked_for_when_it_had_not_begun)
{
    struct asker stuck = {0}, cancelled = {0};

    begin(60 * CLOCK_SECOND_US, 5 * CLOCK_SECOND_US, 1);
    ck_assert(!ask(&stuck, "hang.test"));
    sem_wait(&hanging);
    ck_assert(!ask(&cancelled, "one.test"));
    resolve_cancel(&cancelled.lookup);
    resolve_cancel(&cancelled.lookup);
    sem_post(&let_go);
    run_for_answers(1);
    run_for(20 * CLOCK_MS_US);
    ck_assert_uint_eq(cancelled.answers, 0);
    ck_assert_uint_eq(stuck.answers, 1);
    ck_assert_uint_eq(atomic_load(&asked), 1);
    end();
}
END_TEST

START_TEST(the_queue_of_names_to_ask_for_is_bounded)
{
    struct asker *askers = mem_zalloc((WORKERS_QUEUE + 2) * sizeof(*askers));
    char host[32];

    begin(60 * CLOCK_SECOND_US, 60 * CLOCK_SECOND_US, 1);
    ck_assert(!ask(&askers[0], "hang.test"));
    sem_wait(&hanging);
    for (int i = 1; i <= WORKERS_QUEUE; i++) {
        snprintf(host, sizeof(host), "n%d.test", i);
        ck_assert(!ask(&askers[i], host));
    }
    ck_assert(ask(&askers[WORKERS_QUEUE + 1], "surplus.test"));
    ck_assert_int_eq(askers[WORKERS_QUEUE + 1].error, UPSTREAM_BAD_RESOURCES);
    for (int i = 0; i <= WORKERS_QUEUE; i++) {
        resolve_cancel(&askers[i].lookup);
    }
    end();
    sem_post(&let_go);
    mem_free(askers);
}
END_TEST

START_TEST(the_memory_for_answers_is_bounded_and_the_oldest_goes_first)
{
    struct asker asker = {0};
    char host[32];

    begin(600 * CLOCK_SECOND_US, 60 * CLOCK_SECOND_US, 1);
    for (int i = 0; i <= RESOLVE_ENTRIES; i++) {
        snprintf(host, sizeof(host), "n%d.test", i);
        ck_assert(!ask(&asker, host));
        run_for_answers(1);
    }
    ck_assert_msg(ask(&asker, "n1.test"), "still remembered");
    ck_assert_msg(!ask(&asker, "n0.test"), "forgotten to make room");
    run_for_answers(1);
    ck_assert_msg(ask(&asker, "n1.test"), "used lately, so n2 went");
    end();
}
END_TEST

START_TEST(the_system_knows_localhost)
{
    struct upstreams_conf conf = {.dns_timeout_us = 5 * CLOCK_SECOND_US, .dns_ttl_us = 0, .resolver_threads = 1};
    struct asker asker = {0};

    loop = loop_new();
    resolver = resolve_new(loop, &conf, NULL);
    ck_assert(!ask(&asker, "localhost"));
    run_for_answers(1);
    ck_assert_int_eq(asker.error, UPSTREAM_OK);
    ck_assert(strcmp(asker.first, "127.0.0.1") == 0 || strcmp(asker.first, "::1") == 0);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resolve");
    TCase *tc = tcase_create("resolve");
    SRunner *runner;

    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, a_literal_is_answered_at_once_and_nobody_is_asked);
    tcase_add_test(tc, a_name_is_asked_once_for_all_who_wait_and_then_remembered);
    tcase_add_test(tc, an_answer_older_than_its_ttl_is_asked_for_again);
    tcase_add_test(tc, a_bad_answer_is_remembered_for_a_second);
    tcase_add_test(tc, a_name_without_addresses_is_an_error);
    tcase_add_test(tc, the_families_take_turns_and_the_preferred_address_goes_first);
    tcase_add_test(tc, a_lookup_that_hangs_is_given_up_in_time_and_holds_up_neither_others_nor_the_end);
    tcase_add_test(tc, names_that_hang_hold_up_others_for_a_second_and_not_for_good);
    tcase_add_test(tc, stand_ins_are_bounded_and_leave_when_those_who_were_stuck_come_back);
    tcase_add_test(tc, a_late_answer_is_remembered_though_nobody_waited_for_it);
    tcase_add_test(tc, a_cancelled_lookup_is_not_answered_and_not_asked_for_when_it_had_not_begun);
    tcase_add_test(tc, the_queue_of_names_to_ask_for_is_bounded);
    tcase_add_test(tc, the_memory_for_answers_is_bounded_and_the_oldest_goes_first);
    tcase_add_test(tc, the_system_knows_localhost);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
