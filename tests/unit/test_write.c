/* links: src/http/write.c src/http/target.c src/http/parse.c src/http/section.c src/http/head.c src/http/grammar.c src/http/chunks.c src/http/trailers.c src/http/hop.c src/http/chars.c src/http/message.c src/base/addr.c src/base/buf.c src/base/mem.c src/base/must.c src/base/str.c */
#include "http/parse.h"
#include "http/write.h"

#include "base/mem.h"

#include <check.h>
#include <string.h>

static const struct parse_limits limits = {.max_head_bytes = 65536, .max_fields = 100};
static const struct via us = {"us.example"};

static struct message *read_head(struct parse *parse, const char *in)
{
    size_t used;
    struct slice data;
    struct message *m;

    ck_assert_msg(parse_next(parse, in, strlen(in), &used, &data) == PARSE_HEAD, "%s: %s", in,
                  parse_error_text(parse_error(parse)));
    m = parse_take_message(parse);
    parse_free(parse);
    return m;
}

static char *text_of(struct buf *out)
{
    char *text = mem_strndup(buf_ptr(out), buf_len(out));

    buf_fini(out);
    return text;
}

static void expect_request(const char *in, bool upgrade, const char *wanted)
{
    struct message *m = read_head(parse_new_request(&limits), in);
    struct target target;
    struct buf out = {0};
    char *text;

    ck_assert_int_eq(target_parse(m, &target), TARGET_OK);
    write_request_head(&out, m, &target, &us, upgrade);
    message_free(m);
    text = text_of(&out);
    ck_assert_str_eq(text, wanted);
    mem_free(text);
}

static void expect_response(const char *in, const char *to, const struct response_form *form, const char *wanted)
{
    struct parse *parse = parse_new_response(&limits);
    struct buf out = {0};
    struct message *m;
    char *text;

    parse_expect_response(parse, slice_of(to));
    m = read_head(parse, in);
    write_response_head(&out, m, &us, form);
    message_free(m);
    text = text_of(&out);
    ck_assert_str_eq(text, wanted);
    mem_free(text);
}

/* ---- requests ---- */

START_TEST(a_request_goes_out_in_origin_form_with_its_fields_as_they_came)
{
    expect_request("GET http://Example.com:8080/a%20b?q=%2f|x HTTP/1.1\r\nHost: other\r\nACCEPT: */*\r\n"
                   "x-dup:  1 \r\nX-Dup: 2\r\nX-Empty:\r\nx-dup: 1, \t2\r\n\r\n",
                   false,
                   "GET /a%20b?q=%2f|x HTTP/1.1\r\nHost: Example.com:8080\r\nACCEPT: */*\r\nx-dup: 1\r\nX-Dup: 2\r\n"
                   "X-Empty: \r\nx-dup: 1, \t2\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(host_stays_where_it_stood)
{
    expect_request("GET http://a/ HTTP/1.1\r\nA: 1\r\nhOST: b\r\nB: 2\r\n\r\n", false,
                   "GET / HTTP/1.1\r\nA: 1\r\nhOST: a\r\nB: 2\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(a_missing_host_comes_first)
{
    expect_request("GET http://a/ HTTP/1.0\r\nA: 1\r\n\r\n", false,
                   "GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\nVia: 1.0 us.example\r\n\r\n");
}
END_TEST

START_TEST(a_target_without_path_gets_one)
{
    expect_request("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", false,
                   "GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 us.example\r\n\r\n");
    expect_request("GET http://a?b=/c HTTP/1.1\r\nHost: a\r\n\r\n", false,
                   "GET /?b=/c HTTP/1.1\r\nHost: a\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(options_without_path_asks_the_server_itself)
{
    expect_request("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n", false,
                   "OPTIONS * HTTP/1.1\r\nHost: a\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(hop_by_hop_fields_of_a_request_stay_behind)
{
    expect_request("GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-One,x-two\r\nKeep-Alive: 5\r\n"
                   "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nX-ONE: 1\r\nX-Two: 2\r\n"
                   "X-Three: 3\r\nTE: gzip\r\nUpgrade: h2c\r\nAuthorization: Bearer y\r\nTrailer: X\r\n\r\n",
                   false,
                   "GET / HTTP/1.1\r\nHost: a\r\nX-Three: 3\r\nAuthorization: Bearer y\r\nTrailer: X\r\n"
                   "Via: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(connection_cannot_name_away_what_the_message_needs)
{
    expect_request("POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nMax-Forwards: 3\r\nVia: 1.1 b\r\n"
                   "Date: x\r\nContent-Type: t\r\n"
                   "Connection: host, content-length, via, max-forwards, date, content-type\r\n\r\n",
                   false,
                   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nMax-Forwards: 3\r\nVia: 1.1 b\r\n"
                   "Via: 1.1 us.example\r\nDate: x\r\nContent-Type: t\r\n\r\n");
}
END_TEST

START_TEST(via_follows_the_last_one_there_is)
{
    expect_request("GET http://a/ HTTP/1.1\r\nHost: a\r\nVia: 1.0 b\r\nA: 1\r\nvia: 1.1 c, 1.1 d\r\nB: 2\r\n\r\n",
                   false,
                   "GET / HTTP/1.1\r\nHost: a\r\nVia: 1.0 b\r\nA: 1\r\nvia: 1.1 c, 1.1 d\r\nVia: 1.1 us.example\r\n"
                   "B: 2\r\n\r\n");
}
END_TEST

START_TEST(a_content_length_is_written_plainly_where_it_stood)
{
    expect_request("POST http://a/ HTTP/1.1\r\nHost: a\r\ncontent-length: 0042\r\nA: 1\r\n\r\n", false,
                   "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 42\r\nA: 1\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(a_length_of_nothing_is_kept_and_none_is_invented)
{
    expect_request("POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 00\r\n\r\n", false,
                   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nVia: 1.1 us.example\r\n\r\n");
    expect_request("POST http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", false,
                   "POST / HTTP/1.1\r\nHost: a\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(a_chunked_request_stays_chunked)
{
    expect_request("POST http://a/ HTTP/1.1\r\nHost: a\r\ntransfer-encoding: Chunked\r\nA: 1\r\n\r\n", false,
                   "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\nA: 1\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(a_framing_of_our_own_comes_at_the_end)
{
    struct message *m = read_head(parse_new_request(&limits), "POST http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
    struct target target;
    struct buf out = {0};
    char *text;

    ck_assert_int_eq(target_parse(m, &target), TARGET_OK);
    m->framing = FRAMING_LENGTH;
    m->content_length = 7;
    write_request_head(&out, m, &target, &us, false);
    text = text_of(&out);
    ck_assert_str_eq(text, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\nVia: 1.1 us.example\r\n\r\n");
    mem_free(text);
    m->framing = FRAMING_CHUNKED;
    write_request_head(&out, m, &target, &us, false);
    text = text_of(&out);
    ck_assert_str_eq(text, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nVia: 1.1 us.example\r\n\r\n");
    mem_free(text);
    message_free(m);
}
END_TEST

START_TEST(a_wish_for_trailers_is_made_our_own)
{
    expect_request("GET http://a/ HTTP/1.1\r\nHost: a\r\nTE: gzip;q=0.5, trailers\r\nConnection: TE\r\n\r\n", false,
                   "GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 us.example\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
}
END_TEST

START_TEST(an_upgrade_is_kept_only_if_wanted)
{
    const char *in = "GET http://a/ HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Version: 13\r\n\r\n";

    expect_request(in, true,
                   "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                   "Via: 1.1 us.example\r\nConnection: Upgrade\r\n\r\n");
    expect_request(in, false, "GET / HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Version: 13\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(max_forwards_is_counted_down_for_trace_and_options_only)
{
    expect_request("TRACE http://a/ HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\n\r\n", false,
                   "TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 9\r\nVia: 1.1 us.example\r\n\r\n");
    expect_request("OPTIONS http://a/x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 1\r\n\r\n", false,
                   "OPTIONS /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nVia: 1.1 us.example\r\n\r\n");
    expect_request("OPTIONS http://a/x HTTP/1.1\r\nHost: a\r\nMax-Forwards: many\r\n\r\n", false,
                   "OPTIONS /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: many\r\nVia: 1.1 us.example\r\n\r\n");
    expect_request("GET http://a/ HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\n\r\n", false,
                   "GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(an_expectation_goes_on_unless_the_caller_could_not_take_its_answer)
{
    expect_request(
        "PUT http://a/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", false,
        "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\nVia: 1.1 us.example\r\n\r\n");
    expect_request("PUT http://a/ HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", false,
                   "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nVia: 1.0 us.example\r\n\r\n");
}
END_TEST

/* ---- responses ---- */

START_TEST(a_response_is_passed_on_as_it_came_with_our_framing)
{
    expect_response(
        "HTTP/1.1 200 Very \351 OK\r\nserver: x\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 007\r\n"
        "ETag: \"c\"\r\n\r\n",
        "GET", &(struct response_form){.framing = FRAMING_LENGTH},
        "HTTP/1.1 200 Very \351 OK\r\nserver: x\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 7\r\n"
        "ETag: \"c\"\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(an_old_response_is_passed_on_as_http_1_1)
{
    expect_response("HTTP/1.0 404\r\nA: b\r\n\r\n", "GET", &(struct response_form){.framing = FRAMING_CHUNKED},
                    "HTTP/1.1 404 \r\nA: b\r\nTransfer-Encoding: chunked\r\nVia: 1.0 us.example\r\n\r\n");
}
END_TEST

START_TEST(hop_by_hop_fields_of_a_response_stay_behind)
{
    expect_response(
        "HTTP/1.1 200 OK\r\nConnection: close, X-One\r\nKeep-Alive: timeout=5\r\nX-One: 1\r\nUpgrade: h2\r\n"
        "Proxy-Authenticate: Basic\r\nProxy-Authentication-Info: x\r\nContent-Length: 0\r\n\r\n",
        "GET", &(struct response_form){.framing = FRAMING_LENGTH},
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(a_chunked_response_can_end_with_the_connection)
{
    expect_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "GET",
                    &(struct response_form){.framing = FRAMING_UNTIL_CLOSE, .close = true},
                    "HTTP/1.1 200 OK\r\nVia: 1.1 us.example\r\nConnection: close\r\n\r\n");
}
END_TEST

START_TEST(an_answer_to_head_keeps_its_length_but_no_coding)
{
    expect_response("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", "HEAD",
                    &(struct response_form){.framing = FRAMING_NONE},
                    "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nVia: 1.1 us.example\r\n\r\n");
    expect_response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HEAD",
                    &(struct response_form){.framing = FRAMING_NONE}, "HTTP/1.1 200 OK\r\nVia: 1.1 us.example\r\n\r\n");
    expect_response("HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n", "GET",
                    &(struct response_form){.framing = FRAMING_NONE},
                    "HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(interim_and_empty_responses_have_no_length)
{
    expect_response("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nA: b\r\n\r\n", "GET",
                    &(struct response_form){.framing = FRAMING_NONE},
                    "HTTP/1.1 204 No Content\r\nA: b\r\nVia: 1.1 us.example\r\n\r\n");
    expect_response("HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\nLink: x\r\n\r\n", "GET",
                    &(struct response_form){.framing = FRAMING_NONE},
                    "HTTP/1.1 103 Early Hints\r\nLink: x\r\nVia: 1.1 us.example\r\n\r\n");
}
END_TEST

START_TEST(a_response_says_what_becomes_of_the_connection)
{
    const char *in = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";

    expect_response(in, "GET", &(struct response_form){.framing = FRAMING_LENGTH, .keep_alive_10 = true},
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nVia: 1.1 us.example\r\nConnection: keep-alive\r\n\r\n");
    expect_response(in, "GET", &(struct response_form){.framing = FRAMING_LENGTH, .close = true, .keep_alive_10 = true},
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nVia: 1.1 us.example\r\nConnection: close\r\n\r\n");
}
END_TEST

START_TEST(a_switch_of_protocols_keeps_its_upgrade)
{
    expect_response("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nA: b\r\n\r\n",
                    "GET", &(struct response_form){.framing = FRAMING_NONE, .upgrade = true},
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nA: b\r\nVia: 1.1 us.example\r\n"
                    "Connection: Upgrade\r\n\r\n");
}
END_TEST

START_TEST(lines_of_our_own_come_last)
{
    expect_response("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", "GET",
                    &(struct response_form){.framing = FRAMING_LENGTH, .extra = "Server-Timing: a\r\nX: y\r\n"},
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nVia: 1.1 us.example\r\nServer-Timing: a\r\nX: y\r\n\r\n");
}
END_TEST

/* ---- chunks and loops ---- */

START_TEST(chunks_are_framed)
{
    struct buf out = {0};
    char *text;

    write_chunk_head(&out, 0x1f);
    write_chunk_tail(&out);
    write_chunk_head(&out, 65536);
    write_last_chunk(&out, slice_of("X: y\r\n"));
    write_last_chunk(&out, slice_of(""));
    text = text_of(&out);
    ck_assert_str_eq(text, "1f\r\n\r\n10000\r\n0\r\nX: y\r\n\r\n0\r\n\r\n");
    mem_free(text);
}
END_TEST

static bool loops(const char *fields)
{
    char *in = mem_printf("GET http://a/ HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    struct message *m = read_head(parse_new_request(&limits), in);
    bool loop = via_has_loop(m, &us);

    message_free(m);
    mem_free(in);
    return loop;
}

START_TEST(a_loop_shows_in_any_via)
{
    ck_assert(loops("Via: 1.1 us.example\r\n"));
    ck_assert(loops("Via: 1.1 a\r\nVia: 1.0 b, HTTP/1.1 \t US.example (comment)\r\n"));
    ck_assert(!loops("Via: 1.1 us.example.org, 1.1 xus.example, us.example, us.example 1.1\r\n"));
    ck_assert(!loops("Via: 1.1 a (us.example)\r\nX-Via: 1.1 us.example\r\n"));
    ck_assert(!loops("Via:\r\n"));
    ck_assert(!loops(""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("write");
    TCase *tc = tcase_create("write");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, a_request_goes_out_in_origin_form_with_its_fields_as_they_came);
    tcase_add_test(tc, host_stays_where_it_stood);
    tcase_add_test(tc, a_missing_host_comes_first);
    tcase_add_test(tc, a_target_without_path_gets_one);
    tcase_add_test(tc, options_without_path_asks_the_server_itself);
    tcase_add_test(tc, hop_by_hop_fields_of_a_request_stay_behind);
    tcase_add_test(tc, connection_cannot_name_away_what_the_message_needs);
    tcase_add_test(tc, via_follows_the_last_one_there_is);
    tcase_add_test(tc, a_content_length_is_written_plainly_where_it_stood);
    tcase_add_test(tc, a_length_of_nothing_is_kept_and_none_is_invented);
    tcase_add_test(tc, a_chunked_request_stays_chunked);
    tcase_add_test(tc, a_framing_of_our_own_comes_at_the_end);
    tcase_add_test(tc, a_wish_for_trailers_is_made_our_own);
    tcase_add_test(tc, an_upgrade_is_kept_only_if_wanted);
    tcase_add_test(tc, max_forwards_is_counted_down_for_trace_and_options_only);
    tcase_add_test(tc, an_expectation_goes_on_unless_the_caller_could_not_take_its_answer);
    tcase_add_test(tc, a_response_is_passed_on_as_it_came_with_our_framing);
    tcase_add_test(tc, an_old_response_is_passed_on_as_http_1_1);
    tcase_add_test(tc, hop_by_hop_fields_of_a_response_stay_behind);
    tcase_add_test(tc, a_chunked_response_can_end_with_the_connection);
    tcase_add_test(tc, an_answer_to_head_keeps_its_length_but_no_coding);
    tcase_add_test(tc, interim_and_empty_responses_have_no_length);
    tcase_add_test(tc, a_response_says_what_becomes_of_the_connection);
    tcase_add_test(tc, a_switch_of_protocols_keeps_its_upgrade);
    tcase_add_test(tc, lines_of_our_own_come_last);
    tcase_add_test(tc, chunks_are_framed);
    tcase_add_test(tc, a_loop_shows_in_any_via);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
