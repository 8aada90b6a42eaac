/* links: src/proxy/inbound_match.c src/proxy/inbound_key.c src/http/parse.c src/http/head.c src/http/chars.c src/http/chunks.c src/http/section.c src/http/trailers.c src/http/hop.c src/http/grammar.c src/http/message.c src/base/str.c src/base/mem.c src/base/buf.c src/base/addr.c src/base/must.c */
#include "inbound_request.h"
#include "proxy/inbound_match.h"

#include <stdlib.h>

START_TEST(a_star_stands_for_anything_also_for_slashes_and_nothing)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } cases[] = {
        {"/login", "/login", true},      {"/login", "/login/", false},   {"/login", "/logi", false},  {"/login", "", false},
        {"/api/*", "/api/", true},       {"/api/*", "/api/a/b", true},   {"/api/*", "/api", false},   {"*", "", true},
        {"*", "/any/thing", true},       {"*.php", "/a/b.php", true},    {"*.php", "/a.phpx", false}, {"/a*b*c", "/abxbc", true},
        {"/a*b*c", "/abxb", false},      {"/*/x", "/a/b/x", true},       {"/*/x", "/x", false},       {"/a**", "/a", true},
        {"*a*a*a*b", "/aaaaaaaa", false}, {"/api/*/edit", "/api/1/edit", true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(inbound_glob(cases[i].pattern, slice_of(cases[i].path)) == cases[i].matches, "%s on %s",
                      cases[i].pattern, cases[i].path);
    }
}
END_TEST

START_TEST(a_pattern_of_many_stars_takes_no_exponential_time)
{
    char path[4001];

    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    ck_assert(!inbound_glob("*a*a*a*a*a*a*a*a*a*a*a*a*b", slice_of(path)));
}
END_TEST

START_TEST(every_spelling_of_a_path_has_one_plain_form)
{
    static const char *const cases[][2] = {
        {"/login", "/login"},       {"//login", "/login"},     {"/./login", "/login"}, {"/x/../login", "/login"},
        {"/%6cogin", "/login"},     {"/login?x=/y", "/login"}, {"/a/", "/a/"},         {"/a//b///", "/a/b/"},
        {"/../../login", "/login"}, {"/%2e%2E/login", "/login"}, {"/a%2fb", "/a/b"},   {"", "/"},
        {"?q", "/"},                {"/", "/"},                {"*", "/*"},            {"/a/..", "/"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf out = {0};
        inbound_plain_path(&out, slice_of(cases[i][0]));
        char *text = mem_strndup(buf_ptr(&out), buf_len(&out));
        ck_assert_str_eq(text, cases[i][1]);
        mem_free(text);
        buf_fini(&out);
    }
}
END_TEST

/* ---- rules ---- */

static struct inbound_key by_key = {.kind = KEY_HEADER, .name = "K"}, by_ip = {.kind = KEY_CLIENT_IP};
static char *post[] = {"POST"};
static struct inbound_rule own = {.label = "default", .cost = 1, .keys = &by_key, .keys_count = 1};
static struct inbound_rule login = {.label = "login",
                                    .cost = 2,
                                    .path = "/login*",
                                    .methods = post,
                                    .methods_count = 1,
                                    .keys = &by_ip,
                                    .keys_count = 1,
                                    .cost_header = "X-Cost"};
static struct inbound_rule *rules[] = {&own, &login};
static struct cidr loopback[1];
static struct inbound_conf place = {
    .rules = rules, .rules_count = 2, .trusted_proxies = loopback, .trusted_proxies_count = 1, .ipv6_prefix_bits = 64};

static void setup(void)
{
    ck_assert(cidr_parse(slice_of("127.0.0.0/8"), &loopback[0]));
}

struct matched {
    struct admission_check check;
    struct buf keys;
    struct sample *sample;
};

static struct matched *match(const char *method, const char *target, const char *peer, const char *lines)
{
    struct matched *m = mem_zalloc(sizeof(*m));

    m->sample = sample_new(&place, method, target, peer, lines);
    inbound_match(&place, &m->sample->request, &m->keys, &m->check);
    return m;
}

static void done(struct matched *m)
{
    sample_free(m->sample);
    buf_fini(&m->keys);
    mem_free(m);
}

START_TEST(a_request_meets_every_rule_that_is_for_it)
{
    struct matched *m = match("POST", "/login", "192.0.2.1", "K: k\r\n");

    ck_assert_uint_eq(m->check.count, 2);
    ck_assert_ptr_eq(m->check.rules[0], &own);
    ck_assert_ptr_eq(m->check.rules[1], &login);
    ck_assert(slice_is(m->check.keys[0], "header:K=k"));
    ck_assert(slice_is(m->check.keys[1], "client_ip=192.0.2.1"));
    ck_assert_int_eq(m->check.costs[0], 1);
    ck_assert_int_eq(m->check.costs[1], 2);
    done(m);
}
END_TEST

START_TEST(another_method_or_path_meets_fewer)
{
    struct matched *m = match("GET", "/login", "192.0.2.1", "K: k\r\n");
    ck_assert_uint_eq(m->check.count, 1);
    done(m);
    m = match("POST", "/logout", "192.0.2.1", "K: k\r\n");
    ck_assert_uint_eq(m->check.count, 1);
    done(m);
}
END_TEST

START_TEST(no_spelling_goes_past_a_rule)
{
    static const char *const spellings[] = {"/%6Cogin", "//login", "/x/../login", "/login?a=b", "/./login", "/login/"};

    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        struct matched *m = match("POST", spellings[i], "192.0.2.1", "");
        ck_assert_msg(m->check.count == 2, "%s", spellings[i]);
        done(m);
    }
}
END_TEST

START_TEST(who_has_no_key_shares_the_empty_one)
{
    struct matched *m = match("POST", "/login", "192.0.2.1", "");

    ck_assert_uint_eq(m->check.keys[0].len, 0);
    ck_assert(slice_is(m->check.keys[1], "client_ip=192.0.2.1"));
    done(m);
    m = match("GET", "/", "192.0.2.1", "");
    ck_assert_uint_eq(m->check.keys[0].len, 0);
    ck_assert_ptr_nonnull(m->check.keys[0].ptr);
    done(m);
}
END_TEST

START_TEST(a_cost_is_believed_from_trusted_addresses_alone)
{
    static const struct {
        const char *peer, *lines;
        int64_t cost;
    } cases[] = {
        {"127.0.0.1", "X-Cost: 7\r\n", 7},  {"192.0.2.1", "X-Cost: 7\r\n", 2},  {"127.0.0.1", "", 2},
        {"127.0.0.1", "X-Cost: 0\r\n", 2},  {"127.0.0.1", "X-Cost: -1\r\n", 2}, {"127.0.0.1", "X-Cost: 1e3\r\n", 2},
        {"127.0.0.1", "X-Cost: 99999999999\r\n", INT32_MAX},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct matched *m = match("POST", "/login", cases[i].peer, cases[i].lines);
        ck_assert_int_eq(m->check.costs[1], cases[i].cost);
        done(m);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inbound match");
    TCase *paths = tcase_create("paths"), *limits = tcase_create("rules");

    tcase_add_test(paths, a_star_stands_for_anything_also_for_slashes_and_nothing);
    tcase_add_test(paths, a_pattern_of_many_stars_takes_no_exponential_time);
    tcase_add_test(paths, every_spelling_of_a_path_has_one_plain_form);
    tcase_add_checked_fixture(limits, setup, NULL);
    tcase_add_test(limits, a_request_meets_every_rule_that_is_for_it);
    tcase_add_test(limits, another_method_or_path_meets_fewer);
    tcase_add_test(limits, no_spelling_goes_past_a_rule);
    tcase_add_test(limits, who_has_no_key_shares_the_empty_one);
    tcase_add_test(limits, a_cost_is_believed_from_trusted_addresses_alone);
    suite_add_tcase(suite, paths);
    suite_add_tcase(suite, limits);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
