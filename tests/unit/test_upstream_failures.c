/* links: src/upstream/attempt.c src/upstream/connection.c src/upstream/error.c src/upstream/multi.c src/upstream/pool.c src/upstream/resolve.c src/upstream/tls.c src/upstream/workers.c src/base/addr.c src/base/clock.c src/base/log.c src/base/log_line.c src/base/loop.c src/base/mem.c src/base/must.c src/base/err.c src/base/str.c */
#include "upstream_rig.h"

START_TEST(a_refused_connection_is_reported_as_refused)
{
    int listener = listen_on("127.0.0.1", 0, 1);
    struct origin origin = origin_of("127.0.0.1", listener);

    close(listener);
    begin();
    int before = open_descriptors();
    ck_assert_int_eq(get_error(&origin), UPSTREAM_BAD_REFUSED);
    run_for(CLOCK_MS_US);
    ck_assert_int_eq(open_descriptors(), before);
    ck_assert_uint_eq(pool_count(upstreams), 0);
}
END_TEST

START_TEST(a_third_party_that_says_nothing_is_given_up_after_connect_timeout)
{
    struct black_hole hole = black_hole_on("127.0.0.1", 0);
    struct origin origin = origin_of("127.0.0.1", hole.fd);

    policy.connect_timeout_us = 200 * CLOCK_MS_US;
    begin();
    struct mono began = clock_mono_now();
    ck_assert_int_eq(get_error(&origin), UPSTREAM_BAD_TIMEOUT);
    int64_t took_us = mono_diff(clock_mono_now(), began);
    ck_assert_int_ge(took_us, 195 * CLOCK_MS_US);
    ck_assert_int_lt(took_us, 1500 * CLOCK_MS_US);
    black_hole_close(&hole);
}
END_TEST

START_TEST(one_failed_attempt_speaks_for_all_who_waited_for_it)
{
    struct black_hole hole = black_hole_on("127.0.0.1", 0);
    struct origin origin = origin_of("127.0.0.1", hole.fd);
    struct wish wishes[5];

    policy.connect_timeout_us = 100 * CLOCK_MS_US;
    policy.max_connections = 1;
    begin();
    struct mono began = clock_mono_now();
    for (int i = 0; i < 5; i++) {
        want(&wishes[i], &origin);
    }
    run_for_calls(5);
    ck_assert_int_lt(mono_diff(clock_mono_now(), began), 400 * CLOCK_MS_US);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(wishes[i].error, UPSTREAM_BAD_TIMEOUT);
    }
    black_hole_close(&hole);
}
END_TEST

START_TEST(a_refused_address_leads_to_the_next_one_at_once)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("second.test", listener);

    begin();
    struct mono began = clock_mono_now();
    struct upstream *upstream = get(&origin);
    ck_assert_int_lt(mono_diff(clock_mono_now(), began), 150 * CLOCK_MS_US);
    upstream_close(upstream, false);
    close(listener);
}
END_TEST

START_TEST(a_silent_address_costs_its_share_once_and_the_good_one_is_remembered)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct black_hole hole = black_hole_on("127.0.0.3", port_of(listener));
    struct origin origin = origin_of("third.test", listener);

    policy.connect_timeout_us = 3 * CLOCK_SECOND_US;
    begin();
    struct mono began = clock_mono_now();
    struct upstream *first = get(&origin);
    int64_t took_us = mono_diff(clock_mono_now(), began);
    ck_assert_int_ge(took_us, 900 * CLOCK_MS_US);
    ck_assert_int_lt(took_us, 2 * CLOCK_SECOND_US);
    began = clock_mono_now();
    struct upstream *second = get(&origin);
    ck_assert_int_lt(mono_diff(clock_mono_now(), began), 150 * CLOCK_MS_US);
    upstream_close(first, false);
    upstream_close(second, false);
    black_hole_close(&hole);
    close(listener);
}
END_TEST

START_TEST(a_name_nobody_knows_and_a_host_that_is_none_are_dns_errors)
{
    struct origin unknown = {.host = "unknown.test", .port = 80};
    struct origin evil = {.host = "good.test/@127.0.0.1", .port = 80};
    struct origin empty = {.host = "", .port = 80};
    char long_name[400];
    struct origin endless = {.host = long_name, .port = 80};

    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    begin();
    ck_assert_int_eq(get_error(&unknown), UPSTREAM_BAD_DNS);
    ck_assert_int_eq(get_error(&unknown), UPSTREAM_BAD_DNS);
    ck_assert_int_eq(get_error(&evil), UPSTREAM_BAD_DNS);
    ck_assert_int_eq(get_error(&empty), UPSTREAM_BAD_DNS);
    ck_assert_int_eq(get_error(&endless), UPSTREAM_BAD_DNS);
}
END_TEST

START_TEST(a_name_that_takes_too_long_is_a_dns_timeout)
{
    struct origin origin = {.host = "hang.test", .port = 80};

    conf.dns_timeout_us = 30 * CLOCK_MS_US;
    begin();
    ck_assert_int_eq(get_error(&origin), UPSTREAM_BAD_DNS_TIMEOUT);
    sem_post(&let_go);
}
END_TEST

START_TEST(private_addresses_are_denied_in_every_disguise)
{
    static const char *const hosts[] = {"127.0.0.1",       "::1",       "::ffff:127.0.0.1", "169.254.169.254",
                                        "64:ff9b::7f00:1", "good.test", "metadata.test",    "0.0.0.0"};
    int listener = listen_on("127.0.0.1", 0, 16);

    conf.private_mode = PRIVATE_DENY;
    begin();
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct origin origin = origin_of(hosts[i], listener);
        ck_assert_msg(get_error(&origin) == UPSTREAM_BAD_PRIVATE, "%s", hosts[i]);
    }
    fcntl(listener, F_SETFL, O_NONBLOCK);
    ck_assert_int_eq(accept(listener, NULL, NULL), -1);
    close(listener);
}
END_TEST

START_TEST(of_several_addresses_only_the_allowed_ones_are_tried)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    int other = listen_on("127.0.0.2", port_of(listener), 16);
    struct origin origin = origin_of("second.test", listener);
    struct cidr range;

    ck_assert(cidr_parse(slice_of("127.0.0.1/32"), &range));
    conf.private_mode = PRIVATE_LIST;
    conf.private_upstreams = &range;
    conf.private_upstreams_count = 1;
    begin();
    struct upstream *upstream = get(&origin);
    fcntl(other, F_SETFL, O_NONBLOCK);
    ck_assert_msg(accept(other, NULL, NULL) == -1, "127.0.0.2 comes first but is not allowed");
    upstream_close(upstream, false);
    close(listener);
    close(other);
}
END_TEST

static enum upstream_error made_error;
static void on_made(struct upstream *upstream, enum upstream_error error, const char *detail)
{
    (void)upstream;
    (void)detail;
    made_error = error;
    loop_stop(loop);
}

START_TEST(the_address_is_checked_again_where_the_socket_is_opened)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("good.test", listener);
    struct connection_env env = {.loop = loop, .conf = &conf};
    struct multi *multi = multi_new(loop);
    struct addr addr;

    conf.private_mode = PRIVATE_DENY;
    TAILQ_INIT(&env.closed);
    ck_assert(addr_parse_literal(slice_of("127.0.0.1"), origin.port, &addr));
    struct upstream *upstream = connection_start(&env, multi, &origin, &addr, CLOCK_SECOND_US, on_made);
    loop_run(loop);
    ck_assert_int_eq(made_error, UPSTREAM_BAD_PRIVATE);
    connection_close(upstream, false);
    connection_free_closed(&env);
    multi_free(multi);
    close(listener);
}
END_TEST

START_TEST(running_out_of_descriptors_is_an_error_of_ours)
{
    int listener = listen_on("127.0.0.1", 0, 16);
    struct origin origin = origin_of("127.0.0.1", listener), other = origin_of("localhost", listener);
    struct rlimit limit;
    int fillers[256], count = 0;

    begin();
    struct upstream *upstream = get(&origin);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 200;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (count < 256 && (fillers[count] = dup(listener)) >= 0) {
        count++;
    }
    ck_assert_int_eq(get_error(&origin), UPSTREAM_BAD_RESOURCES);
    other.host = "127.0.0.2";
    ck_assert_msg(get_error(&other) == UPSTREAM_BAD_RESOURCES, "no multi handle either");
    while (count > 0) {
        close(fillers[--count]);
    }
    struct upstream *second = get(&origin);
    upstream_close(upstream, false);
    upstream_close(second, false);
    close(listener);
}
END_TEST

START_TEST(every_error_has_a_status_a_type_and_a_text)
{
    for (int error = UPSTREAM_BAD_DNS; error <= UPSTREAM_BAD_RESOURCES; error++) {
        unsigned status = upstream_error_status((enum upstream_error)error);
        ck_assert(status == 403 || (status >= 502 && status <= 504));
        ck_assert_uint_gt(strlen(upstream_error_type((enum upstream_error)error)), 0);
        ck_assert_uint_gt(strlen(upstream_error_text((enum upstream_error)error)), 0);
    }
    ck_assert_uint_eq(upstream_error_status(UPSTREAM_BAD_TIMEOUT), 504);
    ck_assert_str_eq(upstream_error_type(UPSTREAM_BAD_PRIVATE), "destination_ip_prohibited");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("upstream_failures");
    TCase *tc = add_case(suite, "failures");

    tcase_add_test(tc, a_refused_connection_is_reported_as_refused);
    tcase_add_test(tc, a_third_party_that_says_nothing_is_given_up_after_connect_timeout);
    tcase_add_test(tc, one_failed_attempt_speaks_for_all_who_waited_for_it);
    tcase_add_test(tc, a_refused_address_leads_to_the_next_one_at_once);
    tcase_add_test(tc, a_silent_address_costs_its_share_once_and_the_good_one_is_remembered);
    tcase_add_test(tc, a_name_nobody_knows_and_a_host_that_is_none_are_dns_errors);
    tcase_add_test(tc, a_name_that_takes_too_long_is_a_dns_timeout);
    tcase_add_test(tc, private_addresses_are_denied_in_every_disguise);
    tcase_add_test(tc, of_several_addresses_only_the_allowed_ones_are_tried);
    tcase_add_test(tc, the_address_is_checked_again_where_the_socket_is_opened);
    tcase_add_test(tc, running_out_of_descriptors_is_an_error_of_ours);
    tcase_add_test(tc, every_error_has_a_status_a_type_and_a_text);
    return run_suite(suite);
}
