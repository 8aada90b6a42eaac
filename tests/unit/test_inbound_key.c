/* links: src/proxy/inbound_key.c src/http/parse.c src/http/head.c src/http/chars.c src/http/chunks.c src/http/section.c src/http/trailers.c src/http/hop.c src/http/grammar.c src/http/message.c src/base/str.c src/base/mem.c src/base/buf.c src/base/addr.c src/base/must.c */
#include "inbound_request.h"
#include "proxy/inbound_key.h"

static struct cidr trusted[2];
static struct inbound_conf place = {.trusted_proxies = trusted, .ipv6_prefix_bits = 64};

static void setup(void)
{
    place.ipv6_prefix_bits = 64;
    place.trusted_proxies_count = 2;
    ck_assert(cidr_parse(slice_of("10.0.0.0/8"), &trusted[0]));
    ck_assert(cidr_parse(slice_of("::1/128"), &trusted[1]));
}

static char *key_by(struct inbound_key *keys, unsigned count, const char *target, const char *peer, const char *lines)
{
    struct inbound_rule rule = {.keys = keys, .keys_count = count};
    struct sample *s = sample_new(&place, "GET", target, peer, lines);
    struct buf out = {0};

    inbound_key_add(&out, &place, &rule, &s->request);
    char *text = mem_strndup(buf_len(&out) > 0 ? buf_ptr(&out) : "", buf_len(&out));
    buf_fini(&out);
    sample_free(s);
    return text;
}

static void expect(struct inbound_key key, const char *target, const char *lines, const char *wanted)
{
    char *got = key_by(&key, 1, target, "192.0.2.1", lines);

    ck_assert_str_eq(got, wanted);
    mem_free(got);
}

static void expect_client(const char *peer, const char *lines, const char *wanted)
{
    struct inbound_key key = {.kind = KEY_CLIENT_IP};
    char *got = key_by(&key, 1, "/", peer, lines);
    char *full = mem_printf("client_ip=%s", wanted);

    ck_assert_str_eq(got, full);
    mem_free(full);
    mem_free(got);
}

/* ---- fields ---- */

START_TEST(a_header_is_a_key_whatever_its_case)
{
    struct inbound_key key = {.kind = KEY_HEADER, .name = "X-API-Key"};

    expect(key, "/", "x-api-key: abc\r\n", "header:X-API-Key=abc");
    expect(key, "/", "X-API-Key:\r\n", "");
    expect(key, "/", "", "");
}
END_TEST

START_TEST(a_bearer_token_is_read_from_authorization)
{
    struct inbound_key key = {.kind = KEY_BEARER};

    expect(key, "/", "Authorization: Bearer t.o-k\r\n", "bearer=t.o-k");
    expect(key, "/", "Authorization: bearer   t\r\n", "bearer=t");
    expect(key, "/", "Authorization: Bearer\r\n", "");
    expect(key, "/", "Authorization: Basic dTpw\r\n", "");
}
END_TEST

START_TEST(a_basic_user_is_the_same_with_every_password)
{
    struct inbound_key key = {.kind = KEY_BASIC_USER};

    expect(key, "/", "Authorization: Basic YW5uYTpvbmU=\r\n", "basic_user=anna"); /* anna:one */
    expect(key, "/", "Authorization: basic YW5uYTp0d28=\r\n", "basic_user=anna"); /* anna:two */
    expect(key, "/", "Authorization: Basic OnB3\r\n", "");                        /* :pw */
    expect(key, "/", "Authorization: Basic YW5uYQ==\r\n", "");                    /* no colon */
    expect(key, "/", "Authorization: Basic ***\r\n", "");
    expect(key, "/", "Authorization: Bearer YW5uYTpvbmU=\r\n", "");
}
END_TEST

START_TEST(credentials_of_any_length_are_read_without_harm)
{
    struct inbound_key key = {.kind = KEY_BASIC_USER};
    char *lines = mem_alloc(8192);

    memcpy(lines, "Authorization: Basic ", 21);
    memset(lines + 21, 'Q', 8000);
    memcpy(lines + 8021, "\r\n", 3);
    expect(key, "/", lines, "");
    mem_free(lines);
}
END_TEST

START_TEST(a_cookie_is_found_among_others)
{
    struct inbound_key key = {.kind = KEY_COOKIE, .name = "sid"};

    expect(key, "/", "Cookie: a=1; sid=42; b=2\r\n", "cookie:sid=42");
    expect(key, "/", "Cookie: a=1\r\nCookie: sid=x=y\r\n", "cookie:sid=x=y");
    expect(key, "/", "Cookie: xsid=42; sidx=1; SID=3\r\n", "");
    expect(key, "/", "Cookie: sid; sid=\r\n", "");
    expect(key, "/", "Cookie: ;;=;\r\n", "");
}
END_TEST

/* ---- the target ---- */

START_TEST(a_query_value_is_one_key_in_every_spelling)
{
    struct inbound_key key = {.kind = KEY_QUERY, .name = "api_key"};

    expect(key, "/p?x=1&api_key=a+b", "", "query:api_key=a b");
    expect(key, "/p?api%5Fkey=a%20b", "", "query:api_key=a b");
    expect(key, "/p?%61pi_key=a%20b&api_key=z", "", "query:api_key=a b");
    expect(key, "/p?api_key=%4", "", "query:api_key=%4");
    expect(key, "/p?api_key=%zz%", "", "query:api_key=%zz%");
    expect(key, "/api_key=1", "", "");
    expect(key, "/p?api_key", "", "");
    expect(key, "/p?", "", "");
}
END_TEST

START_TEST(a_path_segment_is_counted_from_one_and_without_the_query)
{
    struct inbound_key first = {.kind = KEY_SEGMENT, .index = 1}, third = {.kind = KEY_SEGMENT, .index = 3};

    expect(first, "/tenants/7/x?a=/b", "", "path:1=tenants");
    expect(third, "/tenants/7/x?a=/b", "", "path:3=x");
    expect(third, "//tenants//7///%78", "", "path:3=x");
    expect(third, "/tenants/7?/x", "", "");
    expect(first, "/", "", "");
}
END_TEST

/* ---- addresses ---- */

START_TEST(an_untrusted_peer_is_itself_whatever_it_claims)
{
    expect_client("192.0.2.1", "X-Forwarded-For: 203.0.113.7\r\nX-Real-IP: 203.0.113.8\r\n", "192.0.2.1");
}
END_TEST

START_TEST(behind_trusted_proxies_the_last_untrusted_address_counts)
{
    expect_client("10.0.0.1", "X-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7");
    /* what the caller itself wrote lies to the left */
    expect_client("10.0.0.1", "X-Forwarded-For: 1.1.1.1, 203.0.113.7, 10.2.2.2\r\n", "203.0.113.7");
    expect_client("10.0.0.1", "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7");
    expect_client("::1", "X-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7");
}
END_TEST

START_TEST(when_all_hops_are_trusted_the_first_counts)
{
    expect_client("10.0.0.1", "X-Forwarded-For: 10.3.3.3, 10.2.2.2\r\n", "10.3.3.3");
}
END_TEST

START_TEST(what_is_no_address_ends_the_way_back)
{
    expect_client("10.0.0.1", "X-Forwarded-For: 203.0.113.7, unknown\r\n", "10.0.0.1");
    expect_client("10.0.0.1", "X-Forwarded-For: 203.0.113.7, _x, 10.2.2.2\r\n", "10.2.2.2");
    expect_client("10.0.0.1", "X-Forwarded-For: ,,\r\n", "10.0.0.1");
}
END_TEST

START_TEST(a_forwarded_address_may_have_a_port)
{
    expect_client("10.0.0.1", "X-Forwarded-For: 203.0.113.7:5000\r\n", "203.0.113.7");
    expect_client("10.0.0.1", "X-Forwarded-For: [2001:db8::7]:5000\r\n", "2001:db8::");
    expect_client("10.0.0.1", "X-Forwarded-For: [2001:db8::7]\r\n", "2001:db8::");
}
END_TEST

START_TEST(x_real_ip_is_read_where_nothing_else_is_said)
{
    expect_client("10.0.0.1", "X-Real-IP: 203.0.113.8\r\n", "203.0.113.8");
    expect_client("10.0.0.1", "X-Real-IP: 203.0.113.8\r\nX-Forwarded-For: 203.0.113.7\r\n", "203.0.113.7");
}
END_TEST

START_TEST(only_the_last_hops_of_a_very_long_list_are_walked)
{
    struct buf lines = {0};

    buf_add_str(&lines, "X-Forwarded-For: 203.0.113.7");
    for (int i = 0; i < 200; i++) {
        buf_add_str(&lines, ", 10.1.1.1");
    }
    buf_add(&lines, "\r\n", 3);
    expect_client("10.0.0.1", buf_ptr(&lines), "10.1.1.1");
    buf_fini(&lines);
}
END_TEST

START_TEST(an_ipv6_caller_is_its_network)
{
    expect_client("2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::");
    place.ipv6_prefix_bits = 56;
    expect_client("2001:db8:1:2ff:3:4:5:6", "", "2001:db8:1:200::");
    place.ipv6_prefix_bits = 128;
    expect_client("2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2:3:4:5:6");
}
END_TEST

START_TEST(an_ipv4_address_in_ipv6_clothes_is_the_ipv4_one)
{
    expect_client("::ffff:192.0.2.1", "", "192.0.2.1");
}
END_TEST

/* ---- lists ---- */

START_TEST(the_first_key_that_is_present_counts)
{
    struct inbound_key keys[] = {{.kind = KEY_HEADER, .name = "X-API-Key"}, {.kind = KEY_BEARER}, {.kind = KEY_CLIENT_IP}};
    static const char *const cases[][2] = {
        {"X-API-Key: k\r\nAuthorization: Bearer t\r\n", "header:X-API-Key=k"},
        {"Authorization: Bearer t\r\n", "bearer=t"},
        {"", "client_ip=192.0.2.1"},
    };

    for (size_t i = 0; i < 3; i++) {
        char *got = key_by(keys, 3, "/", "192.0.2.1", cases[i][0]);
        ck_assert_str_eq(got, cases[i][1]);
        mem_free(got);
    }
}
END_TEST

START_TEST(keys_of_two_kinds_never_meet)
{
    struct inbound_key header = {.kind = KEY_HEADER, .name = "X"}, bearer = {.kind = KEY_BEARER};
    char *one = key_by(&header, 1, "/", "192.0.2.1", "X: same\r\n");
    char *other = key_by(&bearer, 1, "/", "192.0.2.1", "Authorization: Bearer same\r\n");

    ck_assert_str_ne(one, other);
    mem_free(one);
    mem_free(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inbound keys");
    TCase *fields = tcase_create("fields"), *target = tcase_create("target"), *addresses = tcase_create("addresses");
    TCase *lists = tcase_create("lists");
    TCase *cases[] = {fields, target, addresses, lists};

    tcase_add_test(fields, a_header_is_a_key_whatever_its_case);
    tcase_add_test(fields, a_bearer_token_is_read_from_authorization);
    tcase_add_test(fields, a_basic_user_is_the_same_with_every_password);
    tcase_add_test(fields, credentials_of_any_length_are_read_without_harm);
    tcase_add_test(fields, a_cookie_is_found_among_others);
    tcase_add_test(target, a_query_value_is_one_key_in_every_spelling);
    tcase_add_test(target, a_path_segment_is_counted_from_one_and_without_the_query);
    tcase_add_test(addresses, an_untrusted_peer_is_itself_whatever_it_claims);
    tcase_add_test(addresses, behind_trusted_proxies_the_last_untrusted_address_counts);
    tcase_add_test(addresses, when_all_hops_are_trusted_the_first_counts);
    tcase_add_test(addresses, what_is_no_address_ends_the_way_back);
    tcase_add_test(addresses, a_forwarded_address_may_have_a_port);
    tcase_add_test(addresses, x_real_ip_is_read_where_nothing_else_is_said);
    tcase_add_test(addresses, only_the_last_hops_of_a_very_long_list_are_walked);
    tcase_add_test(addresses, an_ipv6_caller_is_its_network);
    tcase_add_test(addresses, an_ipv4_address_in_ipv6_clothes_is_the_ipv4_one);
    tcase_add_test(lists, the_first_key_that_is_present_counts);
    tcase_add_test(lists, keys_of_two_kinds_never_meet);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tcase_add_checked_fixture(cases[i], setup, NULL);
        suite_add_tcase(suite, cases[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
