/* links: tests/unit/conf_expect.c src/conf/ src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c */
/* Sections [inbound NAME] and [inbound-rule NAME]: what they fill, and what is refused. */
#include "conf/inbound.h"
#include "conf_expect.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A place that is in order, to which a test adds. */
#define PLACE "[inbound api]\nlisten = 127.0.0.1:8080\nupstream = http://127.0.0.1:3000\n"

/* The text is refused, and one of the lines is this. */
static void expect_among(const char *text, const char *line)
{
    bool found = false;

    ck_assert_ptr_null(conf_load_bytes(text, strlen(text)));
    for (size_t i = 0; i < conf_errors.count; i++) {
        found = found || strcmp(conf_errors.lines[i], line) == 0;
    }
    ck_assert_msg(found, "no \"%s\" but \"%s\"", line, conf_errors.count > 0 ? conf_errors.lines[0] : "nothing");
    conf_clear();
}

/* "key = value" in a place that is in order but for it is refused, and for a reason that starts so. */
static void expect_reason(const char *pair, const char *reason)
{
    char text[512], start[512];

    snprintf(text, sizeof(text), "[inbound api]\ncheck_listen = 127.0.0.1:9\n%s\n", pair);
    snprintf(start, sizeof(start), "f.ini:3: [inbound api] %.*s: %s", (int)strcspn(pair, " ="), pair, reason);
    ck_assert_ptr_null(conf_load_bytes(text, strlen(text)));
    ck_assert_uint_eq(conf_errors.count, 1);
    ck_assert_msg(strncmp(conf_errors.lines[0], start, strlen(start)) == 0, "wanted \"%s\", got \"%s\"", start,
                  conf_errors.lines[0]);
    conf_clear();
}

/* ---- what is filled ---- */

START_TEST(a_place_has_defaults_and_its_own_limit_first)
{
    struct conf *conf = conf_load_good(PLACE);
    const struct inbound_conf *api = conf->inbounds[0];
    const struct inbound_rule *own = api->rules[0];

    ck_assert_uint_eq(conf->inbounds_count, 1);
    ck_assert_str_eq(api->label, "api");
    ck_assert_uint_eq(api->listen_count, 1);
    ck_assert_str_eq(api->upstream_host, "127.0.0.1");
    ck_assert_uint_eq(api->upstream_port, 3000);
    ck_assert_int_eq(api->on_redis_down, INBOUND_DOWN_OPEN);
    ck_assert_int_eq(api->headers, INBOUND_HEADERS_IETF);
    ck_assert_int_eq(api->timeout_us, 20000);
    ck_assert_uint_eq(api->trusted_proxies_count, 2);
    ck_assert_uint_eq(api->ipv6_prefix_bits, 64);
    ck_assert_uint_eq(api->rules_count, 1);
    ck_assert_str_eq(own->label, INBOUND_OWN_RULE);
    ck_assert_int_eq(own->algorithm, ALGORITHM_TOKEN_BUCKET);
    ck_assert_int_eq(own->rate.count, 10);
    ck_assert_int_eq(own->capacity, 10); /* the COUNT of rate */
    ck_assert_int_eq(own->cost, 1);
    ck_assert_uint_eq(own->keys_count, 1);
    ck_assert_int_eq(own->keys[0].kind, KEY_CLIENT_IP);
    ck_assert_ptr_null(own->path);
    ck_assert(!own->dry_run);
    conf_free(conf);
}
END_TEST

START_TEST(every_kind_of_key_is_read_in_order)
{
    struct conf *conf = conf_load_good(
        PLACE "key = header:X-API-Key, bearer, basic_user, cookie:sid, query:k, path:2, client_ip\n");
    const struct inbound_rule *own = conf->inbounds[0]->rules[0];
    static const enum inbound_key_kind kinds[] = {KEY_HEADER, KEY_BEARER,  KEY_BASIC_USER, KEY_COOKIE,
                                                  KEY_QUERY,  KEY_SEGMENT, KEY_CLIENT_IP};

    ck_assert_uint_eq(own->keys_count, 7);
    for (unsigned i = 0; i < 7; i++) {
        ck_assert_int_eq(own->keys[i].kind, kinds[i]);
    }
    ck_assert_str_eq(own->keys[0].name, "X-API-Key");
    ck_assert_uint_eq(own->keys[5].index, 2);
    conf_free(conf);
}
END_TEST

START_TEST(a_rule_joins_its_place_wherever_it_stands)
{
    struct conf *conf = conf_load_good(
        "[inbound-rule login]\ninbound = api\npath = /login\nmethods = POST, PUT\nrate = 5/1m\n" PLACE);
    const struct inbound_rule *login = conf->inbounds[0]->rules[1];

    ck_assert_uint_eq(conf->inbounds[0]->rules_count, 2);
    ck_assert_str_eq(login->label, "login");
    ck_assert_str_eq(login->path, "/login");
    ck_assert_uint_eq(login->methods_count, 2);
    ck_assert_str_eq(login->methods[1], "PUT");
    ck_assert_int_eq(login->capacity, 5);
    conf_free(conf);
}
END_TEST

START_TEST(with_one_place_a_rule_need_not_name_it)
{
    struct conf *conf = conf_load_good(PLACE "[inbound-rule x]\npath = /x\n");

    ck_assert_uint_eq(conf->inbounds[0]->rules_count, 2);
    conf_free(conf);
}
END_TEST

START_TEST(an_upstream_may_be_a_name_or_ipv6_and_has_port_80)
{
    struct conf *conf = conf_load_good("[inbound a]\nlisten = 127.0.0.1:8080\nupstream = http://App.internal/\n"
                                       "[inbound b]\nlisten = 127.0.0.1:8081\nupstream = http://[::1]:9000\n");

    ck_assert_str_eq(conf->inbounds[0]->upstream_host, "app.internal");
    ck_assert_uint_eq(conf->inbounds[0]->upstream_port, 80);
    ck_assert_str_eq(conf->inbounds[1]->upstream_host, "::1");
    ck_assert_uint_eq(conf->inbounds[1]->upstream_port, 9000);
    conf_free(conf);
}
END_TEST

START_TEST(what_is_dumped_loads_to_the_same_places)
{
    struct conf *conf = conf_load_good(
        PLACE "check_listen = [::1]:8081\nmatch = /api/*\nmethods = GET\nalgorithm = fixed_window\nrate = 100/1m\n"
              "key = cookie:sid, path:3, client_ip\ncost = 2\ncost_header = X-Cost\ndry_run = on\nheaders = legacy\n"
              "trusted_proxies = 10.0.0.0/8\nipv6_prefix = 56\n"
              "[inbound-rule login]\ninbound = api\npath = /login\ncapacity = 7\n[inbound b]\ncheck_listen = 127.0.0.1:8082\n");
    char *first = conf_printed(conf, conf_dump);
    conf_free(conf);
    conf = conf_load_good(first);
    char *second = conf_printed(conf, conf_dump);

    ck_assert_str_eq(first, second);
    ck_assert_ptr_nonnull(strstr(first, "\nupstream = http://127.0.0.1:3000\n"));
    ck_assert_ptr_nonnull(strstr(first, "\nkey = cookie:sid, path:3, client_ip\n"));
    ck_assert_ptr_nonnull(strstr(first, "\n[inbound-rule login]\ninbound = api\n"));
    free(first);
    free(second);
    conf_free(conf);
}
END_TEST

START_TEST(check_describes_each_limit)
{
    struct conf *conf = conf_load_good(PLACE "[inbound-rule login]\npath = /login\nmethods = POST\nrate = 5/1m\n"
                                             "algorithm = sliding_window_log\ndry_run = on\n");
    char *text = conf_printed(conf, conf_describe);

    ck_assert_ptr_nonnull(strstr(text, "inbound api\n"));
    ck_assert_ptr_nonnull(strstr(text, "admitted requests go to http://127.0.0.1:3000\n"));
    ck_assert_ptr_nonnull(strstr(text, "token_bucket 10/s, at most 10 at once, by client_ip; every method"));
    ck_assert_ptr_nonnull(strstr(text, "sliding_window_log 5/1m, by client_ip; POST /login; dry run\n"));
    free(text);
    conf_free(conf);
}
END_TEST

/* ---- values ---- */

START_TEST(a_value_that_matches_nothing_is_refused)
{
    static const char *const cases[][2] = {
        {"upstream = https://a", "https://a is not http://HOST[:PORT]"},
        {"upstream = a:80", "a:80 is not http://HOST[:PORT]"},
        {"upstream = http://*.a", "the upstream is one host"},
        {"upstream = http://a,http://b", "http://b: a host is written without"},
        {"match = api", "api matches no path; a path begins with /"},
        {"match = /a?b", "/a?b matches no path; the query does not belong to it"},
        {"match = GET /a", "GET /a matches no path"},
        {"methods = get", "get: methods are written in capitals"},
        {"methods = G(T", "G(T is not a method"},
        {"methods = ,", "the list is empty"},
        {"key = beerer", "beerer: did you mean bearer?"},
        {"key = nonsense", "nonsense is not header:NAME, bearer, basic_user, cookie:NAME"},
        {"key = header", "header lacks a name behind the colon"},
        {"key = header:", "header: lacks a name behind the colon"},
        {"key = header:a b", "header:a b lacks a name"},
        {"key = bearer:x", "bearer:x: bearer takes nothing behind a colon"},
        {"key = path:0", "path:0 is not path:N"},
        {"key = path:x", "path:x is not path:N"},
        {"key = client_ip, bearer", "every request has a client_ip, nothing behind it is reached"},
        {"key = ,", "the list is empty"},
        {"algorithm = token-bucket", "token-bucket is not token_bucket, fixed_window"},
        {"capacity = 0", "0 is out of range, allowed is 1 to 67108864"},
        {"cost = 0", "0 is out of range, allowed is 1 to 67108864"},
        {"cost_header = a:b", "a:b is not the name of a header field"},
        {"on_redis_down = hold", "hold is not open, local or closed"},
        {"headers = no", "no is not ietf, legacy or off"},
        {"timeout = 20", "20 has no unit"},
        {"trusted_proxies = gateway", "gateway is not a range"},
        {"ipv6_prefix = 129", "129 is out of range, allowed is 16 to 128"},
        {"listen = 8080", "8080 is a port alone"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_reason(cases[i][0], cases[i][1]);
    }
}
END_TEST

START_TEST(a_name_is_part_of_paths_and_keys)
{
    conf_expect("[inbound]\n", "f.ini:1: [inbound]: a name is missing: [inbound my-api]");
    conf_expect("[inbound a/b]\n", "f.ini:1: [inbound a/b]: a name is up to 64 letters, digits and .-_");
    conf_expect("[inbound-rule default]\n",
                "f.ini:1: [inbound-rule default]: a rule cannot be named default, that is the name of the [inbound]'s own limit");
    conf_expect("[inbond a]\n", "f.ini:1: [inbond a]: unknown section; did you mean [inbound NAME]?");
    conf_expect(PLACE PLACE, "f.ini:4: [inbound api]: this section is there twice, first on line 1");
}
END_TEST

/* ---- contradictions ---- */

START_TEST(capacity_belongs_to_the_token_bucket)
{
    conf_expect(PLACE "algorithm = fixed_window\ncapacity = 5\n",
                "f.ini:5: [inbound api] capacity: capacity belongs to algorithm = token_bucket; every other one admits what "
                "rate says");
}
END_TEST

START_TEST(a_cost_above_the_quota_would_admit_nothing)
{
    conf_expect(PLACE "capacity = 20\ncost = 21\n",
                "f.ini:5: [inbound api] cost: a cost of 21 is above the capacity of 20: nothing would ever be admitted");
    conf_expect(PLACE "algorithm = sliding_window_log\nrate = 3/s\ncost = 4\n",
                "f.ini:6: [inbound api] cost: a cost of 4 is above the COUNT of rate of 3: nothing would ever be admitted");
    conf_free(conf_load_good(PLACE "capacity = 20\ncost = 20\n"));
}
END_TEST

START_TEST(a_rule_of_no_place_is_refused_with_the_nearest_name)
{
    conf_expect(PLACE "[inbound-rule x]\ninbound = apj\n",
                "f.ini:5: [inbound-rule x] inbound: there is no [inbound apj]; did you mean api?");
    conf_expect("[inbound-rule x]\npath = /x\n",
                "f.ini:1: [inbound-rule x]: there is no [inbound NAME]: nothing can reach this");
    conf_expect(PLACE "[inbound b]\ncheck_listen = 127.0.0.1:9\n[inbound-rule x]\npath = /x\n",
                "f.ini:6: [inbound-rule x]: inbound is missing: which [inbound] does this belong to?");
}
END_TEST

START_TEST(a_place_that_nothing_reaches_is_refused)
{
    conf_expect("[inbound api]\nrate = 1/s\n",
                "f.ini:1: [inbound api]: nothing can reach this: set listen and upstream, or check_listen for gateways that ask");
    conf_expect("[inbound api]\nupstream = http://a\n",
                "f.ini:2: [inbound api] upstream: without listen nothing can reach this upstream");
    /* another place's check endpoint serves it */
    conf_free(conf_load_good("[inbound api]\nrate = 1/s\n[inbound b]\ncheck_listen = 127.0.0.1:9\n"));
}
END_TEST

START_TEST(a_mistake_in_an_address_is_told_once)
{
    conf_expect("[inbound api]\ncheck_listen = 8080\n",
                "f.ini:2: [inbound api] check_listen: 8080 is a port alone; write 127.0.0.1:8080");
    conf_expect("[inbound api]\nlisten = 8080\nupstream = http://a\n",
                "f.ini:2: [inbound api] listen: 8080 is a port alone; write 127.0.0.1:8080");
}
END_TEST

START_TEST(two_cannot_listen_at_one_address)
{
    conf_expect("[inbound api]\nlisten = 127.0.0.1:3128\n",
                "f.ini:2: [inbound api] listen: 127.0.0.1:3128 is where [proxy] listens");
    expect_among(PLACE "check_listen = 127.0.0.1:8080\n",
                 "f.ini:4: [inbound api] check_listen: 127.0.0.1:8080 is where its own listen listens");
    expect_among(PLACE "[inbound b]\nlisten = 127.0.0.1:8080\n",
                 "f.ini:5: [inbound b] listen: 127.0.0.1:8080 is where inbound api listens");
    conf_expect("[inbound api]\nlisten = 127.0.0.1:8080\nupstream = http://127.0.0.1:8080\n",
                "f.ini:3: [inbound api] upstream: this is where the section itself listens: requests would go round in a circle");
}
END_TEST

START_TEST(there_are_at_most_sixteen_limits_in_a_place)
{
    char text[4096] = PLACE;

    for (int i = 1; i <= INBOUND_RULES_MOST; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof(text) - len, "[inbound-rule r%d]\npath = /x\n", i);
    }
    conf_expect(text, "f.ini:34: [inbound-rule r16]: [inbound api] has 16 limits already, the most there can be");
}
END_TEST

START_TEST(what_is_legal_but_hardly_meant_is_told)
{
    conf_expect_warning(PLACE "trusted_proxies = 0.0.0.0/0\n", "every caller is believed");
    conf_expect_warning(PLACE "on_redis_down = closed\n", "has no effect without [redis]");
    conf_expect_warning(PLACE "algorithm = sliding_window_log\nrate = 20000/1h\n", "remembers each of 20000 requests");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conf inbound");
    TCase *filled = tcase_create("filled"), *values = tcase_create("values"), *together = tcase_create("contradictions");

    tcase_add_test(filled, a_place_has_defaults_and_its_own_limit_first);
    tcase_add_test(filled, every_kind_of_key_is_read_in_order);
    tcase_add_test(filled, a_rule_joins_its_place_wherever_it_stands);
    tcase_add_test(filled, with_one_place_a_rule_need_not_name_it);
    tcase_add_test(filled, an_upstream_may_be_a_name_or_ipv6_and_has_port_80);
    tcase_add_test(filled, what_is_dumped_loads_to_the_same_places);
    tcase_add_test(filled, check_describes_each_limit);
    tcase_add_test(values, a_value_that_matches_nothing_is_refused);
    tcase_add_test(values, a_name_is_part_of_paths_and_keys);
    tcase_add_test(together, capacity_belongs_to_the_token_bucket);
    tcase_add_test(together, a_cost_above_the_quota_would_admit_nothing);
    tcase_add_test(together, a_rule_of_no_place_is_refused_with_the_nearest_name);
    tcase_add_test(together, a_place_that_nothing_reaches_is_refused);
    tcase_add_test(together, a_mistake_in_an_address_is_told_once);
    tcase_add_test(together, two_cannot_listen_at_one_address);
    tcase_add_test(together, there_are_at_most_sixteen_limits_in_a_place);
    tcase_add_test(together, what_is_legal_but_hardly_meant_is_told);
    suite_add_tcase(suite, filled);
    suite_add_tcase(suite, values);
    suite_add_tcase(suite, together);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
