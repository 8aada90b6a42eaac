/* links: src/upstream/turns.c src/upstream/hello.c src/base/buf.c src/base/mem.c src/base/must.c */
#include "tls_records.h"
#include "upstream/turns.h"

#include <check.h>
#include <stdlib.h>

enum { ALERT = 21, CCS = 20, HANDSHAKE = 22, DATA = 23 };
enum { STEPS = 64 };

/* Who says what, in order. */
struct script {
    struct {
        bool caller;
        struct buf bytes;
    } steps[STEPS];
    unsigned count;
};

static struct buf *says(struct script *s, bool caller)
{
    must(s->count < STEPS);
    s->steps[s->count].caller = caller;
    return &s->steps[s->count++].bytes;
}

static void record(struct script *s, bool caller, unsigned type, size_t len)
{
    add_record(says(s, caller), type, len);
}

static void script_fini(struct script *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        buf_fini(&s->steps[i].bytes);
    }
    *s = (struct script){.count = 0};
}

/* The caller's bytes as a relay handles them, each turn granted at once. What passed must be what came. */
static void caller_says(struct turns *t, struct buf *held, size_t *passed)
{
    enum turns_want want = TURNS_PASSED;

    while (buf_len(held) > 0 && want != TURNS_MORE) {
        size_t n = turns_caller(t, buf_ptr(held), buf_len(held), &want);
        ck_assert_uint_le(n, buf_len(held));
        buf_consume(held, n);
        *passed += n;
        if (want == TURNS_TURN) {
            turns_grant(t);
        }
    }
}

/* Every step in pieces of `piece` bytes. */
static uint64_t count_in_pieces(const struct script *s, size_t piece)
{
    struct turns t;
    struct buf held = {0};
    size_t passed = 0, said = 0;

    turns_init(&t);
    for (unsigned i = 0; i < s->count; i++) {
        const struct buf *bytes = &s->steps[i].bytes;
        for (size_t at = 0; at < buf_len(bytes); at += piece) {
            size_t len = buf_len(bytes) - at < piece ? buf_len(bytes) - at : piece;
            if (s->steps[i].caller) {
                said += len;
                buf_add(&held, buf_ptr(bytes) + at, len);
                caller_says(&t, &held, &passed);
            } else {
                turns_server(&t, buf_ptr(bytes) + at, len);
            }
        }
    }
    ck_assert_uint_eq(passed + buf_len(&held), said);
    buf_fini(&held);
    uint64_t count = t.count;
    turns_fini(&t);
    return count;
}

/* However it is cut, the count is the same. */
static void check_count(struct script *s, uint64_t wanted)
{
    size_t longest = 0;

    for (unsigned i = 0; i < s->count; i++) {
        longest = buf_len(&s->steps[i].bytes) > longest ? buf_len(&s->steps[i].bytes) : longest;
    }
    for (size_t piece = 1; piece <= longest; piece++) {
        uint64_t count = count_in_pieces(s, piece);
        ck_assert_msg(count == wanted, "%lu turns in pieces of %zu", (unsigned long)count, piece);
    }
    script_fini(s);
}

static void handshake13(struct script *s, size_t finished)
{
    add_client_hello(says(s, true), "api.test", false, false, 16384);
    add_server_hello(says(s, false), true);
    record(s, false, CCS, 1);
    record(s, false, DATA, 900);
    record(s, true, CCS, 1);
    record(s, true, DATA, finished);
}

static void handshake12(struct script *s)
{
    add_client_hello(says(s, true), "api.test", false, false, 16384);
    add_server_hello(says(s, false), false);
    record(s, false, HANDSHAKE, 700);
    record(s, true, HANDSHAKE, 37);
    record(s, true, CCS, 1);
    record(s, true, HANDSHAKE, 40);
    record(s, false, CCS, 1);
    record(s, false, HANDSHAKE, 40);
}

static void calls(struct script *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        record(s, true, DATA, 200);
        record(s, false, DATA, 300);
        record(s, false, DATA, 20);
    }
}

START_TEST(a_handshake_alone_is_no_turn)
{
    struct script s = {.count = 0};

    handshake13(&s, 53);
    record(&s, true, DATA, 19);
    check_count(&s, 0);
    handshake13(&s, 69);
    check_count(&s, 0);
    handshake12(&s);
    record(&s, true, ALERT, 26);
    check_count(&s, 0);
}
END_TEST

START_TEST(each_request_after_an_answer_is_a_turn)
{
    struct script s = {.count = 0};

    handshake13(&s, 53);
    calls(&s, 5);
    check_count(&s, 5);
    handshake13(&s, 69);
    record(&s, false, DATA, 250); /* tickets */
    record(&s, false, DATA, 250);
    calls(&s, 5);
    check_count(&s, 5);
    handshake12(&s);
    calls(&s, 5);
    check_count(&s, 5);
}
END_TEST

START_TEST(a_request_of_several_records_is_one_turn)
{
    struct script s = {.count = 0};

    handshake13(&s, 53);
    for (int i = 0; i < 3; i++) {
        record(&s, true, DATA, 200);
        record(&s, true, DATA, 1500);
        record(&s, true, DATA, 10);
        record(&s, true, DATA, 10);
        record(&s, true, DATA, 53);
        record(&s, false, DATA, 100);
    }
    check_count(&s, 3);
}
END_TEST

START_TEST(a_request_of_the_size_of_a_finished_is_a_turn)
{
    struct script s = {.count = 0};

    handshake13(&s, 53);
    record(&s, true, DATA, 53);
    record(&s, false, DATA, 100);
    record(&s, true, DATA, 69);
    check_count(&s, 2);
}
END_TEST

START_TEST(key_updates_and_alerts_are_no_turns_but_a_request_cut_small_is)
{
    struct script s = {.count = 0};

    handshake13(&s, 53);
    calls(&s, 1);
    record(&s, true, DATA, 22);
    check_count(&s, 1);
    handshake13(&s, 53);
    calls(&s, 1);
    for (int i = 0; i < 8; i++) {
        record(&s, true, DATA, 20);
    }
    check_count(&s, 2);
}
END_TEST

START_TEST(an_upload_that_the_server_interrupts_counts_once_more)
{
    struct script s = {.count = 0};

    handshake12(&s);
    record(&s, true, DATA, 200);
    record(&s, false, DATA, 49); /* 100 Continue */
    record(&s, true, DATA, 9000);
    record(&s, false, DATA, 100);
    check_count(&s, 2);
}
END_TEST

START_TEST(early_data_is_a_turn_and_hides_no_other)
{
    struct script s = {.count = 0};

    add_client_hello(says(&s, true), "api.test", false, true, 16384);
    record(&s, true, DATA, 53); /* a request of just that size */
    add_server_hello(says(&s, false), true);
    record(&s, false, DATA, 900);
    record(&s, true, DATA, 21); /* end of early data */
    record(&s, true, DATA, 53); /* Finished: taken for a turn */
    record(&s, false, DATA, 300);
    record(&s, true, DATA, 200);
    check_count(&s, 3);
}
END_TEST

static void hellos13(struct script *s)
{
    add_client_hello(says(s, true), "api.test", false, false, 16384);
    add_server_hello(says(s, false), true);
    record(s, false, DATA, 900);
}

START_TEST(a_client_certificate_counts_and_makes_no_request_free)
{
    struct script s = {.count = 0};

    hellos13(&s); /* certificate, proof, Finished; tickets */
    record(&s, true, DATA, 1200);
    record(&s, true, DATA, 130);
    record(&s, true, DATA, 53);
    record(&s, false, DATA, 500);
    calls(&s, 2);
    check_count(&s, 4);
    hellos13(&s); /* no tickets: nothing of the server's sets the request apart */
    record(&s, true, DATA, 1200);
    record(&s, true, DATA, 130);
    record(&s, true, DATA, 69);
    calls(&s, 2);
    check_count(&s, 4);
    hellos13(&s); /* all in one record */
    record(&s, true, DATA, 1400);
    calls(&s, 2);
    check_count(&s, 3);
    hellos13(&s); /* no certificate, when asked for one */
    record(&s, true, DATA, 25);
    record(&s, true, DATA, 53);
    calls(&s, 2);
    check_count(&s, 3);
    hellos13(&s); /* and an upload behind it counts no more for being long */
    record(&s, true, DATA, 1400);
    for (int i = 0; i < 20; i++) {
        record(&s, true, DATA, 5000);
    }
    record(&s, false, DATA, 300);
    calls(&s, 1);
    check_count(&s, 4);
}
END_TEST

START_TEST(an_unreadable_server_hello_counts_rather_more)
{
    struct script s = {.count = 0};

    add_client_hello(says(&s, true), "api.test", false, false, 16384);
    record(&s, false, HANDSHAKE, 100);
    record(&s, true, DATA, 53);
    record(&s, false, DATA, 100);
    calls(&s, 2);
    check_count(&s, 3);
}
END_TEST

START_TEST(what_is_no_tls_is_counted_by_direction)
{
    struct script s = {.count = 0};

    for (int i = 0; i < 3; i++) {
        buf_add_str(says(&s, true), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        buf_add_str(says(&s, false), "HTTP/1.1 204 No Content\r\n\r\n");
    }
    check_count(&s, 3);
    buf_add_str(says(&s, false), "220 welcome\r\n");
    buf_add_str(says(&s, true), "QUIT\r\n");
    check_count(&s, 1);
}
END_TEST

START_TEST(records_that_stop_being_records_are_counted_by_direction)
{
    struct script s = {.count = 0};

    handshake12(&s);
    calls(&s, 1);
    buf_add_str(says(&s, true), "this is no record");
    buf_add_str(says(&s, false), "nor is this");
    buf_add_str(says(&s, true), "!");
    check_count(&s, 3);
}
END_TEST

START_TEST(a_turn_is_held_from_its_first_byte_until_it_is_granted)
{
    struct script s = {.count = 0};
    struct turns t;
    enum turns_want want;
    struct buf request = {0};

    turns_init(&t);
    handshake12(&s);
    for (unsigned i = 0; i < s.count; i++) {
        const struct buf *bytes = &s.steps[i].bytes;
        if (!s.steps[i].caller) {
            turns_server(&t, buf_ptr(bytes), buf_len(bytes));
            continue;
        }
        size_t passed = turns_caller(&t, buf_ptr(bytes), buf_len(bytes), &want);
        if (want == TURNS_HELLO) {
            ck_assert_uint_eq(passed, 0);
            passed = turns_caller(&t, buf_ptr(bytes), buf_len(bytes), &want);
        }
        ck_assert_uint_eq(passed, buf_len(bytes));
    }
    add_record(&request, DATA, 100);
    for (int i = 0; i < 3; i++) { /* asking changes nothing */
        ck_assert_uint_eq(turns_caller(&t, buf_ptr(&request), buf_len(&request), &want), 0);
        ck_assert_int_eq(want, TURNS_TURN);
        turns_server(&t, buf_ptr(&request), buf_len(&request));
    }
    turns_grant(&t);
    ck_assert_uint_eq(turns_caller(&t, buf_ptr(&request), buf_len(&request), &want), buf_len(&request));
    ck_assert_int_eq(want, TURNS_PASSED);
    buf_fini(&request);
    turns_fini(&t);
    script_fini(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("turns");
    TCase *tcase = tcase_create("counting");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_handshake_alone_is_no_turn);
    tcase_add_test(tcase, each_request_after_an_answer_is_a_turn);
    tcase_add_test(tcase, a_request_of_several_records_is_one_turn);
    tcase_add_test(tcase, a_request_of_the_size_of_a_finished_is_a_turn);
    tcase_add_test(tcase, key_updates_and_alerts_are_no_turns_but_a_request_cut_small_is);
    tcase_add_test(tcase, an_upload_that_the_server_interrupts_counts_once_more);
    tcase_add_test(tcase, early_data_is_a_turn_and_hides_no_other);
    tcase_add_test(tcase, a_client_certificate_counts_and_makes_no_request_free);
    tcase_add_test(tcase, an_unreadable_server_hello_counts_rather_more);
    tcase_add_test(tcase, what_is_no_tls_is_counted_by_direction);
    tcase_add_test(tcase, records_that_stop_being_records_are_counted_by_direction);
    tcase_add_test(tcase, a_turn_is_held_from_its_first_byte_until_it_is_granted);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
