/* links: src/proxy/forwarded.c src/proxy/inbound_key.c src/http/write.c src/http/parse.c src/http/head.c src/http/chars.c src/http/chunks.c src/http/section.c src/http/trailers.c src/http/hop.c src/http/grammar.c src/http/message.c src/http/target.c src/base/str.c src/base/mem.c src/base/buf.c src/base/addr.c src/base/must.c */
#include "http/write.h"
#include "inbound_request.h"
#include "proxy/forwarded.h"

static struct cidr trusted[1];
static struct inbound_conf place = {.trusted_proxies = trusted, .trusted_proxies_count = 1};

static void setup(void)
{
    ck_assert(cidr_parse(slice_of("10.0.0.0/8"), &trusted[0]));
}

/* The head as the API gets it. */
static char *sent(const char *peer, const char *lines)
{
    struct sample *s = sample_new(&place, "GET", "/x?y", peer, lines);
    const struct via via = {"me"};
    struct forwarded forwarded = {0};
    struct target target;
    struct buf out = {0};

    ck_assert_int_eq(target_parse(s->message, &target), TARGET_OK);
    forwarded_init(&forwarded, &s->request, target.authority);
    write_request_head(&out, &forwarded.message, &target, &via, false);
    char *text = mem_strndup(buf_ptr(&out), buf_len(&out));
    buf_fini(&out);
    forwarded_fini(&forwarded);
    sample_free(s);
    return text;
}

static void expect(const char *peer, const char *lines, const char *wanted)
{
    char *got = sent(peer, lines);

    ck_assert_str_eq(got, wanted);
    mem_free(got);
}

START_TEST(the_api_learns_who_asked_and_by_which_host)
{
    expect("192.0.2.1", "A: b\r\n",
           "GET /x?y HTTP/1.1\r\nHost: api.example\r\nA: b\r\nX-Forwarded-For: 192.0.2.1\r\n"
           "X-Forwarded-Host: api.example\r\nX-Forwarded-Proto: http\r\n"
           "Forwarded: for=192.0.2.1;host=api.example;proto=http\r\nVia: 1.1 me\r\n\r\n");
}
END_TEST

START_TEST(what_an_untrusted_caller_claims_is_left_out)
{
    expect("192.0.2.1",
           "X-Forwarded-For: 127.0.0.1\r\nx-forwarded-host: admin\r\nX-Forwarded-Proto: https\r\n"
           "Forwarded: for=127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\n",
           "GET /x?y HTTP/1.1\r\nHost: api.example\r\nX-Forwarded-For: 192.0.2.1\r\n"
           "X-Forwarded-Host: api.example\r\nX-Forwarded-Proto: http\r\n"
           "Forwarded: for=192.0.2.1;host=api.example;proto=http\r\nVia: 1.1 me\r\n\r\n");
}
END_TEST

START_TEST(what_a_trusted_proxy_says_is_continued)
{
    expect("10.0.0.1",
           "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Host: www.example\r\nX-Forwarded-Proto: https\r\n"
           "X-Forwarded-For: 10.0.0.9\r\nForwarded: for=203.0.113.7;proto=https\r\n",
           "GET /x?y HTTP/1.1\r\nHost: api.example\r\nX-Forwarded-Host: www.example\r\nX-Forwarded-Proto: https\r\n"
           "X-Forwarded-For: 203.0.113.7, 10.0.0.9, 10.0.0.1\r\n"
           "Forwarded: for=203.0.113.7;proto=https, for=10.0.0.1;host=api.example;proto=http\r\nVia: 1.1 me\r\n\r\n");
}
END_TEST

START_TEST(an_ipv6_address_is_quoted)
{
    char *got = sent("2001:db8::1", "");

    ck_assert_ptr_nonnull(strstr(got, "\r\nX-Forwarded-For: 2001:db8::1\r\n"));
    ck_assert_ptr_nonnull(strstr(got, "\r\nForwarded: for=\"[2001:db8::1]\";host=api.example;proto=http\r\n"));
    mem_free(got);
}
END_TEST

START_TEST(a_caller_cannot_name_the_fields_away)
{
    char *got = sent("192.0.2.1", "Connection: close, X-Forwarded-For, Forwarded, X-Forwarded-Host, X-Forwarded-Proto\r\n");

    ck_assert_ptr_nonnull(strstr(got, "\r\nX-Forwarded-For: 192.0.2.1\r\n"));
    ck_assert_ptr_nonnull(strstr(got, "\r\nForwarded: for=192.0.2.1;"));
    ck_assert_ptr_nonnull(strstr(got, "\r\nX-Forwarded-Host: api.example\r\n"));
    ck_assert_ptr_nonnull(strstr(got, "\r\nX-Forwarded-Proto: http\r\n"));
    mem_free(got);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forwarded");
    TCase *all = tcase_create("fields");

    tcase_add_checked_fixture(all, setup, NULL);
    tcase_add_test(all, the_api_learns_who_asked_and_by_which_host);
    tcase_add_test(all, what_an_untrusted_caller_claims_is_left_out);
    tcase_add_test(all, what_a_trusted_proxy_says_is_continued);
    tcase_add_test(all, an_ipv6_address_is_quoted);
    tcase_add_test(all, a_caller_cannot_name_the_fields_away);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
