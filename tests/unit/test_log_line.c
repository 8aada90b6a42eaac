/* links: src/base/log_line.c src/base/str.c src/base/mem.c src/base/must.c */
#include "base/log_line.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static const struct wall instant = {INT64_C(1709251199987654)}; /* 2024-02-29T23:59:59.987654Z */

#define FIELDS(...) ((const struct log_field[]){__VA_ARGS__, LOG_END})

static const char *composed(enum log_format format, const struct log_field *fields)
{
    static char text[LOG_LINE_BYTES + 1];
    static struct log_line line;

    log_line_compose(&line, format, instant, LOG_WARN, "test", fields);
    ck_assert_uint_le(line.len, LOG_LINE_BYTES);
    ck_assert_int_eq(line.text[line.len - 1], '\n');
    ck_assert_ptr_eq(memchr(line.text, '\n', line.len), line.text + line.len - 1);
    memcpy(text, line.text, line.len - 1);
    text[line.len - 1] = '\0';
    return text;
}

/* What stands after the event. */
static const char *as_logfmt(const struct log_field *fields)
{
    const char *text = composed(LOG_LOGFMT, fields), *event = strstr(text, "event=test");

    ck_assert_ptr_nonnull(event);
    return event + strlen("event=test");
}

static const char *as_json(const struct log_field *fields)
{
    const char *text = composed(LOG_JSON, fields), *event = strstr(text, "\"event\":\"test\"");

    ck_assert_ptr_nonnull(event);
    return event + strlen("\"event\":\"test\"");
}

START_TEST(a_logfmt_line_has_time_level_event_and_fields)
{
    ck_assert_str_eq(composed(LOG_LOGFMT, FIELDS(LOG_STR("host", "a.example"), LOG_INT("fd", -3))),
                     "time=2024-02-29T23:59:59.987Z level=warn event=test host=a.example fd=-3");
}
END_TEST

START_TEST(a_json_line_is_one_object)
{
    ck_assert_str_eq(composed(LOG_JSON, FIELDS(LOG_STR("host", "a.example"), LOG_INT("fd", INT64_MIN))),
                     "{\"time\":\"2024-02-29T23:59:59.987Z\",\"level\":\"warn\",\"event\":\"test\","
                     "\"host\":\"a.example\",\"fd\":-9223372036854775808}");
}
END_TEST

START_TEST(logfmt_quotes_only_what_needs_it)
{
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", "plain-1.2/3?x:[]"))), " v=plain-1.2/3?x:[]");
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", ""))), " v=\"\"");
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", "two words"))), " v=\"two words\"");
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", "a=b"))), " v=\"a=b\"");
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", "say \"hi\""))), " v=\"say \\\"hi\\\"\"");
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", "c:\\d"))), " v=\"c:\\\\d\"");
}
END_TEST

START_TEST(control_characters_are_escaped_in_both_formats)
{
    struct slice nasty = {"\0\n\r\t\x1b[31m\x7f\xc2\x9b", 12};

    ck_assert_str_eq(as_logfmt(FIELDS(LOG_SLICE("v", nasty))), " v=\"\\u0000\\n\\r\\t\\u001b[31m\\u007f\\u009b\"");
    ck_assert_str_eq(as_json(FIELDS(LOG_SLICE("v", nasty))), ",\"v\":\"\\u0000\\n\\r\\t\\u001b[31m\\u007f\\u009b\"}");
}
END_TEST

START_TEST(a_value_cannot_forge_a_line_or_a_field)
{
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", "x\nlevel=error event=fake"))), " v=\"x\\nlevel=error event=fake\"");
    ck_assert_str_eq(as_json(FIELDS(LOG_STR("v", "\",\"event\":\"fake"))), ",\"v\":\"\\\",\\\"event\\\":\\\"fake\"}");
}
END_TEST

START_TEST(utf8_passes_and_anything_else_is_replaced)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xe2\x82\xac\xf0\x9f\x90\x8c", "\xe2\x82\xac\xf0\x9f\x90\x8c"},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"a\xff", "a\\ufffd"},
        {"\xc3", "\\ufffd"},
        {"\xc3(", "\\ufffd("},
        {"\xc0\xaf", "\\ufffd\\ufffd"},                       /* an overlong '/' */
        {"\xe0\x80\xaf", "\\ufffd\\ufffd\\ufffd"},            /* a longer one */
        {"\xf0\x80\x80\xaf", "\\ufffd\\ufffd\\ufffd\\ufffd"}, /* the longest */
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},            /* half a surrogate pair */
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"}, /* beyond U+10FFFF */
        {"\xe2\x82", "\\ufffd\\ufffd"},                       /* ends too early */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[64];
        snprintf(expected, sizeof(expected), ",\"v\":\"%s\"}", cases[i].out);
        ck_assert_str_eq(as_json(FIELDS(LOG_STR("v", cases[i].in))), expected);
    }
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", "gr\xc3\xbc\xc3\x9f"))), " v=gr\xc3\xbc\xc3\x9f");
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", "a\xff"))), " v=\"a\\ufffd\"");
}
END_TEST

START_TEST(a_string_that_is_not_there_is_left_out)
{
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("no", NULL), LOG_INT("n", 1))), " n=1");
    ck_assert_str_eq(as_json(FIELDS(LOG_STR("no", NULL), LOG_INT("n", 1))), ",\"n\":1}");
    ck_assert_str_eq(as_json(FIELDS(LOG_SLICE("v", ((struct slice){NULL, 0})))), ",\"v\":\"\"}");
}
END_TEST

START_TEST(long_values_are_cut_between_characters)
{
    char value[600], expected[700];

    memset(value, 'x', sizeof(value));
    value[512] = '\0';
    snprintf(expected, sizeof(expected), " v=%s", value);
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", value))), expected);
    memcpy(value + 511, "\xc3\xbc", 3); /* the 512th byte is half of it */
    snprintf(expected, sizeof(expected), " v=\"%.511s...\"", value);
    ck_assert_str_eq(as_logfmt(FIELDS(LOG_STR("v", value))), expected);
}
END_TEST

START_TEST(a_field_that_does_not_fit_is_left_out_whole)
{
    char value[513];

    memset(value, '\x01', 512); /* "\u0001": six bytes each */
    value[512] = '\0';
    const char *text = as_json(FIELDS(LOG_STR("a", value), LOG_STR("b", value), LOG_STR("c", value), LOG_INT("d", 4)));
    ck_assert_ptr_nonnull(strstr(text, "\"a\":\""));
    ck_assert_ptr_nonnull(strstr(text, ",\"b\":\""));
    ck_assert_ptr_null(strstr(text, "\"c\""));
    ck_assert_str_eq(text + strlen(text) - 9, "1\",\"d\":4}");
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("log_line");
    TCase *tc = tcase_create("log_line");

    tcase_add_test(tc, a_logfmt_line_has_time_level_event_and_fields);
    tcase_add_test(tc, a_json_line_is_one_object);
    tcase_add_test(tc, logfmt_quotes_only_what_needs_it);
    tcase_add_test(tc, control_characters_are_escaped_in_both_formats);
    tcase_add_test(tc, a_value_cannot_forge_a_line_or_a_field);
    tcase_add_test(tc, utf8_passes_and_anything_else_is_replaced);
    tcase_add_test(tc, a_string_that_is_not_there_is_left_out);
    tcase_add_test(tc, long_values_are_cut_between_characters);
    tcase_add_test(tc, a_field_that_does_not_fit_is_left_out_whole);
    suite_add_tcase(all, tc);
    return all;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());

    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
