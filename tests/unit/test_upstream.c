/* links: src/upstream/attempt.c src/upstream/connection.c src/upstream/error.c src/upstream/multi.c src/upstream/pool.c src/upstream/resolve.c src/upstream/tls.c src/upstream/workers.c src/base/addr.c src/base/clock.c src/base/log.c src/base/log_line.c src/base/loop.c src/base/mem.c src/base/must.c src/base/err.c src/base/str.c */
#include "upstream_rig.h"

/* ---- plain connections ---- */

START_TEST(a_connection_carries_bytes_both_ways_and_is_used_again)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("good.test", listener);
    struct owner owner;
    char bytes[8] = "";

    begin();
    struct upstream *first = get(&origin);
    int peer = accept(listener, NULL, NULL);
    ck_assert(!upstream_was_used(first));
    ck_assert_int_ge(upstream_fd(first), 0);
    own(&owner, first);
    ck_assert_int_eq(upstream_send(first, "ping", 4), 4);
    ck_assert_int_eq(recv(peer, bytes, sizeof(bytes), 0), 4);
    ck_assert_int_eq(send(peer, "pong", 4, 0), 4);
    ck_assert_int_eq(receive(&owner, bytes, sizeof(bytes)), 4);
    ck_assert_mem_eq(bytes, "pong", 4);
    upstream_release(first);
    ck_assert_uint_eq(pool_idle_count(upstreams), 1);
    struct upstream *again = get(&origin);
    ck_assert_ptr_eq(again, first);
    ck_assert(upstream_was_used(again));
    upstream_close(again, false);
    ck_assert_int_eq(recv(peer, bytes, sizeof(bytes), 0), 0);
    close(peer);
    close(listener);
}
END_TEST

START_TEST(the_proxy_settings_of_our_own_environment_are_not_obeyed)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("good.test", listener);

    setenv("http_proxy", "http://127.0.0.1:1/", 1);
    setenv("all_proxy", "http://127.0.0.1:1/", 1);
    begin();
    upstream_close(get(&origin), false);
    close(listener);
}
END_TEST

static void mark_deferred(struct defer *defer)
{
    (void)defer;
    loop_stop(loop);
}

START_TEST(an_idle_connection_is_handed_out_in_the_same_turn)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);
    struct wish wish;
    struct defer last = {0};

    begin();
    upstream_release(get(&origin));
    run_for(CLOCK_MS_US);
    want(&wish, &origin);
    loop_defer(loop, &last, mark_deferred);
    loop_run(loop);
    ck_assert_uint_eq(wish.calls, 1);
    upstream_close(wish.upstream, false);
    close(listener);
}
END_TEST

START_TEST(the_connection_released_last_is_used_first_and_origins_are_kept_apart)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("good.test", listener), other = origin_of("second.test", listener);
    struct wish a, b;

    begin();
    want(&a, &origin);
    want(&b, &origin);
    run_for_calls(2);
    ck_assert_ptr_ne(a.upstream, b.upstream);
    upstream_release(a.upstream);
    upstream_release(b.upstream);
    struct upstream *foreign = get(&other);
    ck_assert(!upstream_was_used(foreign));
    ck_assert_uint_eq(pool_count(upstreams), 2);
    ck_assert_ptr_eq(get(&origin), b.upstream);
    ck_assert_ptr_eq(get(&origin), a.upstream);
    upstream_close(a.upstream, false);
    upstream_close(b.upstream, false);
    upstream_close(foreign, false);
    run_for(CLOCK_MS_US);
    ck_assert_msg(pool_count(upstreams) == 0, "empty pools are forgotten");
    close(listener);
}
END_TEST

START_TEST(an_idle_connection_is_dropped_when_the_third_party_closes_it)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);

    begin();
    int before = open_descriptors();
    upstream_release(get(&origin));
    run_for(2 * CLOCK_MS_US);
    int peer = accept(listener, NULL, NULL);
    ck_assert_uint_eq(pool_idle_count(upstreams), 1);
    close(peer);
    run_for(5 * CLOCK_MS_US);
    ck_assert_uint_eq(pool_idle_count(upstreams), 0);
    ck_assert_uint_eq(pool_count(upstreams), 0);
    ck_assert_int_eq(open_descriptors(), before);
    close(listener);
}
END_TEST

START_TEST(an_idle_connection_is_dropped_when_bytes_come_that_nobody_asked_for)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);
    char byte;

    begin();
    upstream_release(get(&origin));
    int peer = accept(listener, NULL, NULL);
    ck_assert_int_eq(send(peer, "HTTP/1.1 408", 12, 0), 12);
    run_for(5 * CLOCK_MS_US);
    ck_assert_uint_eq(pool_idle_count(upstreams), 0);
    ck_assert_int_le(recv(peer, &byte, 1, 0), 0);
    close(peer);
    close(listener);
}
END_TEST

START_TEST(an_idle_connection_is_closed_after_upstream_idle)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);
    struct wish a, b;

    policy.upstream_idle_us = 40 * CLOCK_MS_US;
    begin();
    want(&a, &origin);
    want(&b, &origin);
    run_for_calls(2);
    upstream_release(a.upstream);
    run_for(25 * CLOCK_MS_US);
    upstream_release(b.upstream);
    run_for(20 * CLOCK_MS_US);
    ck_assert_msg(pool_idle_count(upstreams) == 1, "the first one has expired, the second not yet");
    run_for(40 * CLOCK_MS_US);
    ck_assert_uint_eq(pool_idle_count(upstreams), 0);
    close(listener);
}
END_TEST

START_TEST(the_owner_is_told_when_an_unused_connection_dies)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);
    struct owner owner;

    begin();
    own(&owner, get(&origin));
    int peer = accept(listener, NULL, NULL);
    upstream_watch_close(owner.upstream);
    run_for(3 * CLOCK_MS_US);
    ck_assert_uint_eq(owner.closed, 0);
    close(peer);
    loop_run(loop);
    run_for(3 * CLOCK_MS_US);
    ck_assert_msg(owner.closed == 1 && owner.readable == 0, "once, and nothing else");
    upstream_close(owner.upstream, false);
    close(listener);
}
END_TEST

START_TEST(bytes_wait_while_the_owner_does_not_watch)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);
    struct owner owner;
    char bytes[8];

    begin();
    own(&owner, get(&origin));
    int peer = accept(listener, NULL, NULL);
    upstream_watch(owner.upstream, false, false);
    ck_assert_int_eq(send(peer, "early", 5, 0), 5);
    run_for(5 * CLOCK_MS_US);
    ck_assert_uint_eq(owner.readable, 0);
    upstream_watch(owner.upstream, true, false);
    loop_run(loop);
    ck_assert_uint_eq(owner.readable, 1);
    ck_assert_int_eq(upstream_recv(owner.upstream, bytes, sizeof(bytes)), 5);
    ck_assert_int_eq(upstream_recv(owner.upstream, bytes, sizeof(bytes)), -1);
    ck_assert_int_eq(errno, EAGAIN);
    upstream_close(owner.upstream, false);
    close(peer);
    close(listener);
}
END_TEST

START_TEST(a_connection_may_be_closed_inside_its_own_callback)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);
    struct owner owner;

    begin();
    own(&owner, get(&origin));
    owner.close_when_readable = true;
    int peer = accept(listener, NULL, NULL);
    upstream_watch(owner.upstream, true, false);
    ck_assert_int_eq(send(peer, "x", 1, 0), 1);
    loop_run(loop);
    run_for(CLOCK_MS_US);
    ck_assert_uint_eq(pool_count(upstreams), 0);
    close(peer);
    close(listener);
}
END_TEST

START_TEST(a_reset_is_sent_on_request_and_sending_to_a_closed_peer_is_an_error_without_a_signal)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);
    struct linger at_once = {1, 0};
    char byte;

    begin();
    struct upstream *upstream = get(&origin);
    int peer = accept(listener, NULL, NULL);
    upstream_close(upstream, true);
    ck_assert_int_eq(recv(peer, &byte, 1, 0), -1);
    ck_assert_int_eq(errno, ECONNRESET);
    close(peer);
    upstream = get(&origin);
    peer = accept(listener, NULL, NULL);
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(peer);
    ck_assert_int_eq(upstream_recv(upstream, &byte, 1), -1);
    ck_assert_int_eq(errno, ECONNRESET);
    ck_assert_int_eq(upstream_send(upstream, "x", 1), -1);
    ck_assert_int_eq(errno, EPIPE);
    upstream_close(upstream, false);
    close(listener);
}
END_TEST

/* ---- limits and queues ---- */

START_TEST(acquires_beyond_max_connections_wait_their_turn)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener);
    struct wish wishes[4];

    policy.max_connections = 2;
    begin();
    calls_made = 0;
    for (int i = 0; i < 4; i++) {
        want(&wishes[i], &origin);
    }
    run_for_calls(2);
    run_for(5 * CLOCK_MS_US);
    ck_assert_uint_eq(calls_made, 2);
    ck_assert(wishes[0].calls == 1 && wishes[1].calls == 1);
    upstream_release(wishes[1].upstream);
    run_for_calls(1);
    ck_assert_msg(wishes[2].upstream == wishes[1].upstream, "a released one serves the next");
    upstream_close(wishes[0].upstream, false);
    run_for_calls(1);
    ck_assert_msg(wishes[3].upstream != NULL, "a closed one makes room for a new one");
    upstream_close(wishes[2].upstream, false);
    upstream_close(wishes[3].upstream, false);
    close(listener);
}
END_TEST

START_TEST(a_fresh_connection_is_never_pooled_and_not_counted)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener), fresh = origin;

    fresh.fresh = true;
    policy.max_connections = 1;
    begin();
    struct upstream *busy = get(&origin);
    struct upstream *tunnel = get(&fresh);
    ck_assert_ptr_ne(tunnel, busy);
    upstream_release(busy);
    struct upstream *second = get(&fresh);
    ck_assert_msg(second != busy && !upstream_was_used(second), "not from the pool");
    upstream_release(second);
    ck_assert_msg(pool_idle_count(upstreams) == 1, "nor into it");
    upstream_close(tunnel, false);
    close(listener);
}
END_TEST

START_TEST(a_fresh_connection_keeps_the_first_bytes_of_a_third_party_that_speaks_first)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin fresh = origin_of("127.0.0.1", listener);
    struct owner owner;
    char bytes[16];

    fresh.fresh = true;
    begin();
    own(&owner, get(&fresh));
    int peer = accept(listener, NULL, NULL);
    ck_assert_int_eq(send(peer, "220 hello", 9, 0), 9);
    ck_assert_int_eq(receive(&owner, bytes, sizeof(bytes)), 9);
    ck_assert_mem_eq(bytes, "220 hello", 9);
    upstream_close(owner.upstream, false);
    close(peer);
    close(listener);
}
END_TEST

START_TEST(a_cancelled_acquire_is_never_called)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener), fresh = origin;
    struct black_hole hole = black_hole_on("127.0.0.1", 0);
    struct origin silent = origin_of("127.0.0.1", hole.fd), silent_fresh = silent;
    struct wish wishes[4];

    fresh.fresh = silent_fresh.fresh = true;
    begin();
    want(&wishes[0], &origin);
    want(&wishes[1], &fresh);
    upstream_acquire_cancel(&wishes[0].acquire);
    upstream_acquire_cancel(&wishes[1].acquire);
    want(&wishes[2], &silent);
    want(&wishes[3], &silent_fresh);
    run_for(10 * CLOCK_MS_US);
    upstream_acquire_cancel(&wishes[2].acquire);
    upstream_acquire_cancel(&wishes[3].acquire);
    upstream_acquire_cancel(&wishes[3].acquire);
    run_for(10 * CLOCK_MS_US);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(wishes[i].calls, 0);
    }
    black_hole_close(&hole);
    close(listener);
}
END_TEST

START_TEST(an_acquire_may_be_cancelled_while_its_name_is_being_resolved)
{
    struct origin origin = {.host = "hang.test", .port = 80}, fresh = {.host = "hang.test", .port = 80, .fresh = true};
    struct wish a, b;

    begin();
    want(&a, &origin);
    want(&b, &fresh);
    run_for(5 * CLOCK_MS_US);
    sem_wait(&hanging);
    upstream_acquire_cancel(&a.acquire);
    upstream_acquire_cancel(&b.acquire);
    run_for(5 * CLOCK_MS_US);
    ck_assert(a.calls == 0 && b.calls == 0);
    struct mono began = clock_mono_now();
    upstreams_free(upstreams);
    upstreams = NULL;
    ck_assert_int_lt(mono_diff(clock_mono_now(), began), CLOCK_SECOND_US);
    sem_post(&let_go);
}
END_TEST

START_TEST(an_attempt_given_up_by_its_acquirer_serves_the_next_one)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("good.test", listener);
    struct wish wish;

    begin();
    want(&wish, &origin);
    run_for(CLOCK_MS_US / 10);
    upstream_acquire_cancel(&wish.acquire);
    struct upstream *upstream = get(&origin);
    run_for(5 * CLOCK_MS_US);
    upstream_close(upstream, false);
    close(listener);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("upstream");
    TCase *tc = add_case(suite, "plain");

    tcase_add_test(tc, a_connection_carries_bytes_both_ways_and_is_used_again);
    tcase_add_test(tc, the_proxy_settings_of_our_own_environment_are_not_obeyed);
    tcase_add_test(tc, an_idle_connection_is_handed_out_in_the_same_turn);
    tcase_add_test(tc, the_connection_released_last_is_used_first_and_origins_are_kept_apart);
    tcase_add_test(tc, an_idle_connection_is_dropped_when_the_third_party_closes_it);
    tcase_add_test(tc, an_idle_connection_is_dropped_when_bytes_come_that_nobody_asked_for);
    tcase_add_test(tc, an_idle_connection_is_closed_after_upstream_idle);
    tcase_add_test(tc, the_owner_is_told_when_an_unused_connection_dies);
    tcase_add_test(tc, bytes_wait_while_the_owner_does_not_watch);
    tcase_add_test(tc, a_connection_may_be_closed_inside_its_own_callback);
    tcase_add_test(tc, a_reset_is_sent_on_request_and_sending_to_a_closed_peer_is_an_error_without_a_signal);
    tc = add_case(suite, "queue");
    tcase_add_test(tc, acquires_beyond_max_connections_wait_their_turn);
    tcase_add_test(tc, a_fresh_connection_is_never_pooled_and_not_counted);
    tcase_add_test(tc, a_fresh_connection_keeps_the_first_bytes_of_a_third_party_that_speaks_first);
    tcase_add_test(tc, a_cancelled_acquire_is_never_called);
    tcase_add_test(tc, an_acquire_may_be_cancelled_while_its_name_is_being_resolved);
    tcase_add_test(tc, an_attempt_given_up_by_its_acquirer_serves_the_next_one);
    return run_suite(suite);
}
