/* links: src/http/parse.c src/http/section.c src/http/head.c src/http/grammar.c src/http/chunks.c src/http/trailers.c src/http/hop.c src/http/chars.c src/http/message.c src/base/buf.c src/base/mem.c src/base/must.c src/base/str.c */
#include "parse_run.h"

#include "parse_cases.h"

#include <check.h>
#include <stdio.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const struct parse_limits limits = {.max_head_bytes = 65536, .max_fields = 100};

static void expect(enum run_kind kind, const struct parse_limits *with, const char *in, size_t len, const char *said)
{
    char *whole = run_whole(kind, with, in, len);
    char *bytewise = run_bytewise(kind, with, in, len);

    ck_assert_ptr_nonnull(whole);
    ck_assert_ptr_nonnull(bytewise);
    ck_assert_str_eq(whole, said);
    ck_assert_str_eq(bytewise, said);
    mem_free(whole);
    mem_free(bytewise);
}

static void expect_case(enum run_kind kind, const struct parse_case *c)
{
    char *whole = run_whole(kind, &limits, c->in, c->len);
    char *bytewise = run_bytewise(kind, &limits, c->in, c->len);

    ck_assert_msg(whole != NULL && strcmp(whole, c->said) == 0, "%s: %s\nexpected %s\ngot %s", c->rule, c->in, c->said,
                  whole != NULL ? whole : "a broken promise");
    ck_assert_msg(bytewise != NULL && strcmp(bytewise, c->said) == 0, "%s, byte by byte: %s\nexpected %s\ngot %s",
                  c->rule, c->in, c->said, bytewise != NULL ? bytewise : "a broken promise");
    mem_free(whole);
    mem_free(bytewise);
}

static void expect_split(enum run_kind kind, const struct parse_case *c)
{
    for (size_t cut = 0; cut <= c->len; cut++) {
        char *said = run(kind, &limits, c->in, c->len, &cut, 1);
        ck_assert_msg(said != NULL && strcmp(said, c->said) == 0, "%s, cut at %zu: %s\nexpected %s\ngot %s", c->rule,
                      cut, c->in, c->said, said != NULL ? said : "a broken promise");
        mem_free(said);
    }
}

/* ---- the tables ---- */

START_TEST(requests_are_read_as_the_rfc_says)
{
    expect_case(RUN_REQUEST, &request_cases[_i]);
}
END_TEST

START_TEST(requests_read_the_same_wherever_they_are_cut)
{
    expect_split(RUN_REQUEST, &request_cases[_i]);
}
END_TEST

START_TEST(responses_are_read_as_the_rfc_says)
{
    expect_case(RUN_RESPONSE, &response_cases[_i]);
}
END_TEST

START_TEST(responses_read_the_same_wherever_they_are_cut)
{
    expect_split(RUN_RESPONSE, &response_cases[_i]);
}
END_TEST

START_TEST(answers_to_head_have_no_body)
{
    expect_case(RUN_RESPONSE_TO_HEAD, &head_answer_cases[_i]);
    expect_split(RUN_RESPONSE_TO_HEAD, &head_answer_cases[_i]);
}
END_TEST

/* ---- limits ---- */

/* `head`, `count` times `part`, `tail`. */
static char *repeat(const char *head, const char *part, size_t count, const char *tail)
{
    struct buf text = {0};
    char *out;

    buf_add_str(&text, head);
    for (size_t i = 0; i < count; i++) {
        buf_add_str(&text, part);
    }
    buf_add_str(&text, tail);
    out = mem_strndup(buf_ptr(&text), buf_len(&text));
    buf_fini(&text);
    return out;
}

static void expect_repeated(enum run_kind kind, const struct parse_limits *with, const char *head, const char *part,
                            size_t count, const char *tail, const char *said)
{
    char *in = repeat(head, part, count, tail);

    expect(kind, with, in, strlen(in), said);
    mem_free(in);
}

START_TEST(a_head_may_be_just_as_large_as_the_limit)
{
    const char *head = GET "X: ";
    struct parse_limits small = {.max_head_bytes = strlen(head) + 100 + 4, .max_fields = 10};

    expect_repeated(RUN_REQUEST, &small, head, "a", 100, END, "GET / none .");
    expect_repeated(RUN_REQUEST, &small, head, "a", 101, END, "!HEAD_TOO_LARGE");
    expect_repeated(RUN_REQUEST, &small, head, "a", 1000, END, "!HEAD_TOO_LARGE");
}
END_TEST

START_TEST(empty_lines_before_do_not_count_towards_the_head)
{
    struct parse_limits small = {.max_head_bytes = strlen(GET "\r\n"), .max_fields = 10};

    expect_repeated(RUN_REQUEST, &small, "", "\r\n", 4, GET "\r\n", "GET / none .");
}
END_TEST

START_TEST(a_request_line_beyond_the_limit_is_a_target_too_long)
{
    struct parse_limits small = {.max_head_bytes = 200, .max_fields = 10};

    expect_repeated(RUN_REQUEST, &small, "GET /", "a", 300, " HTTP/1.1\r\nHost: a" END, "!TARGET_TOO_LONG");
    ck_assert_uint_eq(parse_error_status(PARSE_BAD_TARGET_TOO_LONG), 414);
    ck_assert_uint_eq(parse_error_status(PARSE_BAD_HEAD_TOO_LARGE), 431);
}
END_TEST

START_TEST(fields_are_counted)
{
    struct parse_limits small = {.max_head_bytes = 65536, .max_fields = 10};

    expect_repeated(RUN_REQUEST, &small, GET, "X: y\r\n", 9, "\r\n", "GET / none .");
    expect_repeated(RUN_REQUEST, &small, GET, "X: y\r\n", 10, "\r\n", "!TOO_MANY_FIELDS");
    expect_repeated(RUN_RESPONSE, &small, "HTTP/1.1 204 No\r\n", "X: y\r\n", 10, "\r\n", "204 none .");
    expect_repeated(RUN_RESPONSE, &small, "HTTP/1.1 204 No\r\n", "X: y\r\n", 11, "\r\n", "!TOO_MANY_FIELDS");
}
END_TEST

START_TEST(trailers_are_limited_like_a_head)
{
    struct parse_limits small = {.max_head_bytes = 200, .max_fields = 3};

    expect_repeated(RUN_REQUEST, &small, CHUNKS "0\r\n", "X: y\r\n", 3, "\r\n",
                    "POST / chunked {X: y\r\nX: y\r\nX: y\r\n} .");
    expect_repeated(RUN_REQUEST, &small, CHUNKS "0\r\n", "X: y\r\n", 4, "\r\n", "POST / chunked !TRAILER");
    expect_repeated(RUN_REQUEST, &small, CHUNKS "0\r\nX: ", "y", 300, END, "POST / chunked !TRAILER");
}
END_TEST

START_TEST(the_extensions_of_one_chunk_are_limited)
{
    expect_repeated(RUN_REQUEST, &limits, CHUNKS "1;", "e", 255, "\r\na\r\n0" END, "POST / chunked 'a' .");
    expect_repeated(RUN_REQUEST, &limits, CHUNKS "1;", "e", 256, "\r\na\r\n0" END, "POST / chunked !CHUNK_EXTENSIONS");
}
END_TEST

START_TEST(the_extensions_of_all_chunks_are_limited)
{
    char *chunk = repeat("1;", "e", 127, "\r\na\r\n");
    char *data = repeat("POST / chunked '", "a", 128, "'");
    char *good = repeat(data, " .", 1, "");
    char *bad = repeat(data, " !CHUNK_EXTENSIONS", 1, "");

    expect_repeated(RUN_REQUEST, &limits, CHUNKS, chunk, 128, "0" END, good);
    expect_repeated(RUN_REQUEST, &limits, CHUNKS, chunk, 129, "0" END, bad);
    mem_free(chunk);
    mem_free(data);
    mem_free(good);
    mem_free(bad);
}
END_TEST

START_TEST(options_in_connection_are_limited)
{
    expect_repeated(RUN_REQUEST, &limits, GET "Connection: ", "a,", 64, END, "GET / none .");
    expect_repeated(RUN_REQUEST, &limits, GET "Connection: ", "a,", 65, END, "!FIELD");
}
END_TEST

START_TEST(interim_responses_are_limited)
{
    const char *interim = "HTTP/1.1 102 x\r\n\r\n";
    char *said = repeat("", "102 none . ", 32, "204 none .");
    char *bad = repeat("", "102 none . ", 32, "!SYNTAX");

    expect_repeated(RUN_RESPONSE, &limits, "", interim, 32, "HTTP/1.1 204 x\r\n\r\n", said);
    expect_repeated(RUN_RESPONSE, &limits, "", interim, 33, "", bad);
    mem_free(said);
    mem_free(bad);
}
END_TEST

/* ---- events one by one ---- */

static enum parse_event next(struct parse *p, const char *in, size_t len, size_t used_wanted)
{
    size_t used;
    struct slice data;
    enum parse_event event = parse_next(p, in, len, &used, &data);

    ck_assert_uint_eq(used, used_wanted);
    return event;
}

START_TEST(a_head_without_body_ends_without_another_byte)
{
    struct parse *p = parse_new_request(&limits);
    const char *in = GET "\r\n";

    ck_assert_int_eq(next(p, in, strlen(in), strlen(in)), PARSE_HEAD);
    ck_assert(parse_in_message(p));
    ck_assert_int_eq(next(p, NULL, 0, 0), PARSE_END);
    ck_assert(!parse_in_message(p));
    parse_free(p);
}
END_TEST

START_TEST(a_loop_over_the_input_finds_the_end_of_a_body)
{
    struct parse *p = parse_new_request(&limits);
    const char *head = POST "Content-Length: 3" END;
    size_t used;
    struct slice data;

    ck_assert_int_eq(next(p, head, strlen(head), strlen(head)), PARSE_HEAD);
    ck_assert_int_eq(parse_next(p, "abc", 3, &used, &data), PARSE_DATA);
    ck_assert_uint_eq(data.len, 3);
    ck_assert_uint_eq(used, 2);
    ck_assert_int_eq(next(p, "c", 0, 0), PARSE_MORE);
    ck_assert_int_eq(next(p, "cGET", 4, 1), PARSE_END);
    parse_free(p);
}
END_TEST

START_TEST(data_lies_within_the_input_and_is_not_copied)
{
    struct parse *p = parse_new_request(&limits);
    const char *in = POST "Content-Length: 1000000" END "abcdef";
    size_t head = strlen(in) - 6, used;
    struct slice data;

    ck_assert_int_eq(next(p, in, strlen(in), head), PARSE_HEAD);
    ck_assert_int_eq(parse_next(p, in + head, 6, &used, &data), PARSE_DATA);
    ck_assert_ptr_eq(data.ptr, in + head);
    ck_assert_uint_eq(data.len, 6);
    ck_assert_uint_eq(used, 6);
    parse_free(p);
}
END_TEST

START_TEST(the_message_outlives_the_parser_and_the_input)
{
    struct parse *p = parse_new_request(&limits);
    char in[] = "GET /x HTTP/1.1\r\nHost:  a \r\nX-Empty:\r\nAccept: b\r\n\r\n";
    struct message *m;

    ck_assert_int_eq(next(p, in, strlen(in), strlen(in)), PARSE_HEAD);
    m = parse_take_message(p);
    ck_assert_ptr_null(parse_take_message(p));
    parse_free(p);
    memset(in, 'z', sizeof(in));
    ck_assert_uint_eq(m->head_bytes, sizeof(in) - 1);
    ck_assert_uint_eq(m->fields_count, 3);
    ck_assert(slice_is(m->method, "GET"));
    ck_assert(slice_is(m->target, "/x"));
    ck_assert(slice_is(m->fields[0].name, "Host"));
    ck_assert(slice_is(m->fields[0].value, "a"));
    ck_assert(slice_is(m->fields[1].name, "X-Empty"));
    ck_assert(slice_is(m->fields[1].value, ""));
    ck_assert(slice_is(m->fields[2].value, "b"));
    message_free(m);
}
END_TEST

START_TEST(a_status_line_gives_code_and_reason)
{
    struct parse *p = parse_new_response(&limits);
    const char *in = "HTTP/1.1 404 Not  Found \r\nContent-Length: 7\r\n\r\n";
    struct message *m;

    parse_expect_response(p, slice_of("HEAD"));
    ck_assert_int_eq(next(p, in, strlen(in), strlen(in)), PARSE_HEAD);
    m = parse_take_message(p);
    ck_assert_uint_eq(m->status, 404);
    ck_assert(slice_is(m->reason, "Not  Found "));
    ck_assert_int_eq(m->framing, FRAMING_NONE);
    ck_assert_uint_eq(m->content_length, 7);
    message_free(m);
    parse_free(p);
}
END_TEST

START_TEST(empty_lines_do_not_begin_a_message)
{
    struct parse *p = parse_new_request(&limits);

    ck_assert_int_eq(next(p, "\r\n\r", 3, 3), PARSE_MORE);
    ck_assert(!parse_in_message(p));
    ck_assert_int_eq(next(p, "\nG", 2, 2), PARSE_MORE);
    ck_assert(parse_in_message(p));
    parse_free(p);
}
END_TEST

START_TEST(an_answer_nobody_asked_for_is_an_error)
{
    struct parse *p = parse_new_response(&limits);
    const char *in = "HTTP/1.1 204 x\r\n\r\n";

    ck_assert_int_eq(next(p, in, strlen(in), strlen(in)), PARSE_HEAD);
    ck_assert_int_eq(next(p, NULL, 0, 0), PARSE_END);
    ck_assert_int_eq(next(p, in, strlen(in), 0), PARSE_ERROR);
    ck_assert_int_eq(parse_error(p), PARSE_BAD_SYNTAX);
    parse_expect_response(p, slice_of("GET"));
    ck_assert_int_eq(next(p, in, strlen(in), strlen(in)), PARSE_HEAD);
    parse_free(p);
}
END_TEST

START_TEST(after_an_error_there_is_nothing_but_the_error)
{
    struct parse *p = parse_new_request(&limits);

    ck_assert_int_eq(next(p, "\001", 1, 0), PARSE_ERROR);
    ck_assert_int_eq(next(p, "GET", 3, 0), PARSE_ERROR);
    ck_assert_int_eq(parse_eof(p), PARSE_ERROR);
    ck_assert_int_eq(parse_error(p), PARSE_BAD_REQUEST_LINE);
    parse_reset(p);
    ck_assert_int_eq(parse_error(p), PARSE_OK);
    parse_free(p);
}
END_TEST

START_TEST(a_request_line_is_refused_before_the_head_is_whole)
{
    struct parse *p = parse_new_request(&limits);

    ck_assert_int_eq(next(p, "GET /\r\n", 7, 7), PARSE_ERROR);
    ck_assert_int_eq(parse_error(p), PARSE_BAD_VERSION);
    parse_free(p);
}
END_TEST

START_TEST(every_error_has_a_status_and_says_what_is_wrong)
{
    for (int error = PARSE_OK + 1; error <= PARSE_BAD_STATUS_LINE; error++) {
        ck_assert_uint_ge(parse_error_status((enum parse_error)error), 400);
        ck_assert_uint_lt(parse_error_status((enum parse_error)error), 600);
        ck_assert_uint_gt(strlen(parse_error_text((enum parse_error)error)), 10);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parse");
    TCase *tables = tcase_create("tables"), *bounds = tcase_create("limits"), *events = tcase_create("events");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tables, requests_are_read_as_the_rfc_says, 0, COUNT(request_cases));
    tcase_add_loop_test(tables, requests_read_the_same_wherever_they_are_cut, 0, COUNT(request_cases));
    tcase_add_loop_test(tables, responses_are_read_as_the_rfc_says, 0, COUNT(response_cases));
    tcase_add_loop_test(tables, responses_read_the_same_wherever_they_are_cut, 0, COUNT(response_cases));
    tcase_add_loop_test(tables, answers_to_head_have_no_body, 0, COUNT(head_answer_cases));
    tcase_add_test(bounds, a_head_may_be_just_as_large_as_the_limit);
    tcase_add_test(bounds, empty_lines_before_do_not_count_towards_the_head);
    tcase_add_test(bounds, a_request_line_beyond_the_limit_is_a_target_too_long);
    tcase_add_test(bounds, fields_are_counted);
    tcase_add_test(bounds, trailers_are_limited_like_a_head);
    tcase_add_test(bounds, the_extensions_of_one_chunk_are_limited);
    tcase_add_test(bounds, the_extensions_of_all_chunks_are_limited);
    tcase_add_test(bounds, options_in_connection_are_limited);
    tcase_add_test(bounds, interim_responses_are_limited);
    tcase_add_test(events, a_head_without_body_ends_without_another_byte);
    tcase_add_test(events, a_loop_over_the_input_finds_the_end_of_a_body);
    tcase_add_test(events, data_lies_within_the_input_and_is_not_copied);
    tcase_add_test(events, the_message_outlives_the_parser_and_the_input);
    tcase_add_test(events, a_status_line_gives_code_and_reason);
    tcase_add_test(events, empty_lines_do_not_begin_a_message);
    tcase_add_test(events, an_answer_nobody_asked_for_is_an_error);
    tcase_add_test(events, after_an_error_there_is_nothing_but_the_error);
    tcase_add_test(events, a_request_line_is_refused_before_the_head_is_whole);
    tcase_add_test(events, every_error_has_a_status_and_says_what_is_wrong);
    suite_add_tcase(suite, tables);
    suite_add_tcase(suite, bounds);
    suite_add_tcase(suite, events);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
