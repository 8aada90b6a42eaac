/* links: src/upstream/attempt.c src/upstream/connection.c src/upstream/error.c src/upstream/multi.c src/upstream/pool.c src/upstream/resolve.c src/upstream/tls.c src/upstream/workers.c src/base/addr.c src/base/clock.c src/base/log.c src/base/log_line.c src/base/loop.c src/base/mem.c src/base/must.c src/base/err.c src/base/str.c */
#include "upstream_rig.h"
#include "upstream_tls_rig.h"

START_TEST(a_certificate_by_an_unknown_issuer_or_for_another_name_is_refused)
{
    struct tls_rig rig;

    tls_rig_start(&rig, "good.test", TLS_RIG_ECHO);
    struct origin origin = {.host = "good.test", .port = rig.port, .tls = true};
    struct origin wrong = {.host = "wrong.test", .port = rig.port, .tls = true};
    begin();
    ck_assert_int_eq(get_error(&origin), UPSTREAM_BAD_SELF_SIGNED);
    upstreams_free(upstreams);
    setenv("SSL_CERT_FILE", rig.certificate_path, 1);
    begin();
    ck_assert_int_eq(get_error(&wrong), UPSTREAM_BAD_WRONG_NAME);
    upstream_close(get(&origin), false);
    tls_rig_stop(&rig);
}
END_TEST

START_TEST(tls_carries_a_megabyte_both_ways_and_is_used_again)
{
    enum { BODY_BYTES = 1024 * 1024 };
    struct tls_rig rig;
    struct owner owner;
    char *out = mem_alloc(BODY_BYTES), *in = mem_alloc(BODY_BYTES);

    tls_rig_start(&rig, "good.test", TLS_RIG_SWALLOW_THEN_ECHO);
    rig.swallow_bytes = BODY_BYTES;
    setenv("SSL_CERT_FILE", rig.certificate_path, 1);
    struct origin origin = {.host = "good.test", .port = rig.port, .tls = true};
    for (size_t i = 0; i < BODY_BYTES; i++) {
        out[i] = (char)(i * 31 + i / 251);
    }
    begin();
    for (int round = 0; round < 2; round++) {
        own(&owner, get(&origin));
        ck_assert_int_eq(upstream_fd(owner.upstream), -1);
        ck_assert_int_eq(upstream_was_used(owner.upstream), round > 0);
        send_all(&owner, out, BODY_BYTES);
        for (size_t have = 0; have < BODY_BYTES;) {
            /* small pieces: what is decrypted already must be reported as readable */
            upstream_watch(owner.upstream, true, false);
            loop_run(loop);
            ssize_t n = upstream_recv(owner.upstream, in + have, have + 5000 < BODY_BYTES ? 5000 : BODY_BYTES - have);
            ck_assert(n > 0 || (n < 0 && errno == EAGAIN));
            have += n > 0 ? (size_t)n : 0;
        }
        ck_assert_mem_eq(in, out, BODY_BYTES);
        memset(in, 0, BODY_BYTES);
        upstream_release(owner.upstream);
        run_for(5 * CLOCK_MS_US);
        ck_assert_msg(pool_idle_count(upstreams) == 1, "session tickets are no reason to drop it");
    }
    upstreams_free(upstreams);
    upstreams = NULL;
    tls_rig_stop(&rig);
    mem_free(out);
    mem_free(in);
}
END_TEST

START_TEST(a_tls_session_is_resumed_by_the_next_connection)
{
    struct tls_rig rig;
    struct owner owner;
    char bytes[4];

    tls_rig_start(&rig, "good.test", TLS_RIG_ECHO);
    setenv("SSL_CERT_FILE", rig.certificate_path, 1);
    struct origin origin = {.host = "good.test", .port = rig.port, .tls = true};
    begin();
    for (int i = 0; i < 2; i++) {
        own(&owner, get(&origin));
        send_all(&owner, "ping", 4);
        ck_assert_int_eq(receive(&owner, bytes, sizeof(bytes)), 4);
        upstream_close(owner.upstream, false);
        run_for(CLOCK_MS_US);
    }
    tls_rig_stop(&rig);
    ck_assert_int_eq(rig.handshakes, 2);
    ck_assert_int_eq(rig.resumed, 1);
}
END_TEST

START_TEST(a_tls_connection_cut_without_close_notify_is_a_reset_and_a_proper_end_is_an_end)
{
    struct tls_rig rig;
    struct owner owner;
    char bytes[8];

    for (int proper = 0; proper < 2; proper++) {
        tls_rig_start(&rig, "good.test", proper ? TLS_RIG_SAY_BYE : TLS_RIG_CUT);
        setenv("SSL_CERT_FILE", rig.certificate_path, 1);
        struct origin origin = {.host = "good.test", .port = rig.port, .tls = true};
        begin();
        own(&owner, get(&origin));
        send_all(&owner, "ping", 4);
        ck_assert_int_eq(receive(&owner, bytes, sizeof(bytes)), 4);
        errno = 0;
        ck_assert_int_eq(receive(&owner, bytes, sizeof(bytes)), proper ? 0 : -1);
        ck_assert(proper || errno == ECONNRESET);
        upstream_close(owner.upstream, false);
        upstreams_free(upstreams);
        upstreams = NULL;
        tls_rig_stop(&rig);
    }
}
END_TEST

START_TEST(an_idle_tls_connection_is_dropped_when_the_third_party_closes_it)
{
    struct tls_rig rig;
    struct owner owner;
    char bytes[8];

    tls_rig_start(&rig, "good.test", TLS_RIG_SAY_BYE);
    setenv("SSL_CERT_FILE", rig.certificate_path, 1);
    struct origin origin = {.host = "good.test", .port = rig.port, .tls = true};
    begin();
    own(&owner, get(&origin));
    send_all(&owner, "ping", 4);
    ck_assert_int_eq(receive(&owner, bytes, sizeof(bytes)), 4);
    upstream_release(owner.upstream);
    for (int i = 0; i < 100 && pool_idle_count(upstreams) > 0; i++) {
        run_for(5 * CLOCK_MS_US);
    }
    ck_assert_uint_eq(pool_idle_count(upstreams), 0);
    tls_rig_stop(&rig);
}
END_TEST

START_TEST(a_server_that_speaks_no_tls_or_only_an_old_one_is_a_tls_error)
{
    struct tls_rig rig;

    tls_rig_start(&rig, "good.test", TLS_RIG_OLD);
    setenv("SSL_CERT_FILE", rig.certificate_path, 1);
    struct origin old = {.host = "good.test", .port = rig.port, .tls = true};
    begin();
    ck_assert_int_eq(get_error(&old), UPSTREAM_BAD_TLS);
    tls_rig_stop(&rig);
    tls_rig_start(&rig, "good.test", TLS_RIG_PLAIN);
    struct origin plain = {.host = "good.test", .port = rig.port, .tls = true};
    ck_assert_int_eq(get_error(&plain), UPSTREAM_BAD_TLS);
    tls_rig_stop(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("upstream_tls");
    TCase *tc = add_case(suite, "tls");

    tcase_add_test(tc, a_certificate_by_an_unknown_issuer_or_for_another_name_is_refused);
    tcase_add_test(tc, tls_carries_a_megabyte_both_ways_and_is_used_again);
    tcase_add_test(tc, a_tls_session_is_resumed_by_the_next_connection);
    tcase_add_test(tc, a_tls_connection_cut_without_close_notify_is_a_reset_and_a_proper_end_is_an_end);
    tcase_add_test(tc, an_idle_tls_connection_is_dropped_when_the_third_party_closes_it);
    tcase_add_test(tc, a_server_that_speaks_no_tls_or_only_an_old_one_is_a_tls_error);
    return run_suite(suite);
}
