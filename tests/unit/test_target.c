/* links: src/http/target.c src/http/message.c src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c */
#include "http/target.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct target target;

/* A request with that target and Host field (NULL: none). */
static enum target_error parse(const char *method, const char *text, const char *host)
{
    struct field fields[2] = {{slice_of("Accept"), slice_of("*/*")}, {slice_of("hOST"), slice_of(host)}};
    struct message request = {
        .method = slice_of(method),
        .target = slice_of(text),
        .minor = 1,
        .fields = fields,
        .fields_count = host != NULL ? 2 : 1,
    };

    return target_parse(&request, &target);
}

static enum target_error get(const char *text)
{
    return parse("GET", text, "ignored.example:1");
}

static void goes_to(const char *host, unsigned port)
{
    ck_assert_str_eq(target.host, host);
    ck_assert_uint_eq(target.port, port);
}

static void slice_eq(struct slice s, const char *expected)
{
    ck_assert_msg(slice_is(s, expected), "got %.*s, expected %s", (int)s.len, s.ptr, expected);
}

/* ---- forms ---- */

START_TEST(absolute_form_rules_over_host)
{
    ck_assert_int_eq(get("http://API.example/a/b?c=d"), TARGET_OK);
    ck_assert_int_eq(target.form, TARGET_ABSOLUTE);
    ck_assert(!target.tls);
    ck_assert(!target.host_is_ipv6);
    goes_to("api.example", 80);
    slice_eq(target.path, "/a/b?c=d");
    slice_eq(target.authority, "API.example");
}
END_TEST

START_TEST(absolute_form_needs_no_host_field)
{
    ck_assert_int_eq(parse("GET", "http://a.example/", NULL), TARGET_OK);
    ck_assert_int_eq(parse("GET", "http://a.example/", "b@d host"), TARGET_OK);
}
END_TEST

START_TEST(https_has_its_own_default_port)
{
    ck_assert_int_eq(get("https://a.example/"), TARGET_OK);
    ck_assert(target.tls);
    goes_to("a.example", 443);
    ck_assert_int_eq(get("HTTPS://a.example:80/"), TARGET_OK);
    ck_assert(target.tls);
    goes_to("a.example", 80);
}
END_TEST

START_TEST(the_path_is_kept_byte_for_byte)
{
    static const char *const paths[] = {
        "/",      "//", "/../a/./b//c", "/%2e%2E/%7euser/%zz", "/a;b=c,d?x=/y?z&q={|}\"<>\\^`", "/http://b.example/",
        "/a@b:c",
    };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "http://a.example:8080%s", paths[i]);
        ck_assert_int_eq(get(text), TARGET_OK);
        slice_eq(target.path, paths[i]);
        goes_to("a.example", 8080);
        ck_assert_int_eq(parse("GET", paths[i], "b.example"), TARGET_OK);
        ck_assert_int_eq(target.form, TARGET_ORIGIN);
        slice_eq(target.path, paths[i]);
        goes_to("b.example", 80);
    }
}
END_TEST

START_TEST(an_empty_path_is_a_slash_and_a_query_stays_alone)
{
    ck_assert_int_eq(get("http://h"), TARGET_OK);
    slice_eq(target.path, "/");
    goes_to("h", 80);
    ck_assert_int_eq(get("http://h?x"), TARGET_OK);
    slice_eq(target.path, "?x");
    slice_eq(target.authority, "h");
    ck_assert_int_eq(get("http://h:81?a@b:c/d"), TARGET_OK);
    slice_eq(target.path, "?a@b:c/d");
    goes_to("h", 81);
}
END_TEST

START_TEST(origin_form_takes_host_and_port_from_host)
{
    ck_assert_int_eq(parse("GET", "/x", "A.example:8080"), TARGET_OK);
    ck_assert_int_eq(target.form, TARGET_ORIGIN);
    ck_assert(!target.tls);
    goes_to("a.example", 8080);
    slice_eq(target.authority, "A.example:8080");
    slice_eq(target.path, "/x");
    ck_assert_int_eq(parse("GET", "/x", "[::1]:8080"), TARGET_OK);
    goes_to("::1", 8080);
}
END_TEST

START_TEST(origin_form_with_a_bad_or_missing_host_is_refused)
{
    ck_assert_int_eq(parse("GET", "/x", NULL), TARGET_BAD_HOST);
    ck_assert_int_eq(parse("GET", "/x", ""), TARGET_BAD_HOST);
    ck_assert_int_eq(parse("GET", "/x", ":80"), TARGET_BAD_HOST);
    ck_assert_int_eq(parse("GET", "/x", "a.example/"), TARGET_BAD_HOST);
    ck_assert_int_eq(parse("GET", "/x", "a.example, b.example"), TARGET_BAD_HOST);
    ck_assert_int_eq(parse("GET", "/x", "http://a.example"), TARGET_BAD_PORT); /* host "http" */
    ck_assert_int_eq(parse("GET", "/x", "u@a.example"), TARGET_BAD_USERINFO);
    ck_assert_int_eq(parse("GET", "/x", "a.example:0"), TARGET_BAD_PORT);
}
END_TEST

START_TEST(asterisk_form_is_for_options_only)
{
    ck_assert_int_eq(parse("OPTIONS", "*", "a.example:81"), TARGET_OK);
    ck_assert_int_eq(target.form, TARGET_ASTERISK);
    goes_to("a.example", 81);
    slice_eq(target.path, "*");
    ck_assert_int_eq(parse("OPTIONS", "*", NULL), TARGET_BAD_HOST);
    ck_assert_int_eq(parse("GET", "*", "a.example"), TARGET_BAD_SYNTAX);
    ck_assert_int_eq(parse("options", "*", "a.example"), TARGET_BAD_SYNTAX);
    ck_assert_int_eq(parse("OPTIONS", "**", "a.example"), TARGET_BAD_SYNTAX);
}
END_TEST

START_TEST(options_without_a_path_is_for_the_server_as_a_whole)
{
    ck_assert_int_eq(parse("OPTIONS", "http://a.example:8001", NULL), TARGET_OK);
    ck_assert_int_eq(target.form, TARGET_ABSOLUTE);
    slice_eq(target.path, "*");
    goes_to("a.example", 8001);
    ck_assert_int_eq(parse("OPTIONS", "http://a.example/", NULL), TARGET_OK);
    slice_eq(target.path, "/");
    ck_assert_int_eq(parse("OPTIONS", "http://a.example?q", NULL), TARGET_OK);
    slice_eq(target.path, "?q");
}
END_TEST

START_TEST(connect_takes_host_and_port)
{
    ck_assert_int_eq(parse("CONNECT", "A.example.:443", "other.example"), TARGET_OK);
    ck_assert_int_eq(target.form, TARGET_AUTHORITY);
    goes_to("a.example", 443);
    slice_eq(target.authority, "A.example.:443");
    ck_assert_uint_eq(target.path.len, 0);
    ck_assert_int_eq(parse("CONNECT", "[2001:db8::1]:8443", NULL), TARGET_OK);
    ck_assert(target.host_is_ipv6);
    goes_to("2001:db8::1", 8443);
}
END_TEST

START_TEST(connect_to_anything_else_is_refused)
{
    ck_assert_int_eq(parse("CONNECT", "a.example", NULL), TARGET_BAD_PORT);
    ck_assert_int_eq(parse("CONNECT", "a.example:", NULL), TARGET_BAD_PORT);
    ck_assert_int_eq(parse("CONNECT", "a.example:0", NULL), TARGET_BAD_PORT);
    ck_assert_int_eq(parse("CONNECT", "a.example:65536", NULL), TARGET_BAD_PORT);
    ck_assert_int_eq(parse("CONNECT", "a.example:443/", NULL), TARGET_BAD_PORT);
    ck_assert_int_eq(parse("CONNECT", "[::1]", NULL), TARGET_BAD_PORT);
    ck_assert_int_eq(parse("CONNECT", ":443", NULL), TARGET_BAD_HOST);
    ck_assert_int_eq(parse("CONNECT", "::1:443", NULL), TARGET_BAD_HOST);
    ck_assert_int_eq(parse("CONNECT", "u@a.example:443", NULL), TARGET_BAD_USERINFO);
    ck_assert_int_ne(parse("CONNECT", "https://a.example:443", NULL), TARGET_OK);
    ck_assert_int_ne(parse("CONNECT", "/", "a.example:443"), TARGET_OK);
    ck_assert_int_ne(parse("CONNECT", "*", "a.example:443"), TARGET_OK);
}
END_TEST

START_TEST(methods_are_case_sensitive)
{
    /* "connect" is some method of its own (RFC 9110 section 9.1), hence not in authority form */
    ck_assert_int_eq(parse("connect", "a.example:443", "a.example"), TARGET_BAD_SCHEME);
}
END_TEST

/* ---- syntax ---- */

START_TEST(other_schemes_are_refused)
{
    static const char *const bad[] = {
        "ftp://a.example/", "file:///etc/passwd", "httpx://a.example/", "ws://a.example/", "a.example:80",
        "javascript:x",     "://a.example/",      "http+unix://a/",     "localhost:80/x",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(get(bad[i]) == TARGET_BAD_SCHEME, "%s", bad[i]);
    }
}
END_TEST

START_TEST(what_has_none_of_the_forms_is_refused)
{
    static const char *const bad[] = {
        "",
        "a.example",
        "a.example/x",
        "?x",
        "http",
        "http:",
        "http:/",
        "http:a.example",
        "http:/a.example/",
        "https:\\\\a.example",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(get(bad[i]) == TARGET_BAD_SYNTAX, "%s", bad[i]);
    }
}
END_TEST

START_TEST(fragments_are_refused)
{
    ck_assert_int_eq(get("http://a.example/x#y"), TARGET_BAD_SYNTAX);
    ck_assert_int_eq(get("http://a.example#y"), TARGET_BAD_SYNTAX);
    ck_assert_int_eq(parse("GET", "/#", "a.example"), TARGET_BAD_SYNTAX);
    ck_assert_int_eq(parse("CONNECT", "a.example:443#x", NULL), TARGET_BAD_SYNTAX);
}
END_TEST

START_TEST(bytes_that_no_uri_has_are_refused_wherever_they_stand)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[] = "http://a.example/x_y";
        struct message request = {.method = slice_of("GET"), .target = {text, sizeof(text) - 1}};
        text[18] = (char)byte;
        bool visible = byte > 0x20 && byte < 0x7f && byte != '#';
        ck_assert_msg((target_parse(&request, &target) == TARGET_OK) == visible, "byte %u in the path", byte);
    }
}
END_TEST

START_TEST(userinfo_is_refused)
{
    ck_assert_int_eq(get("http://user@a.example/"), TARGET_BAD_USERINFO);
    ck_assert_int_eq(get("http://user:pw@a.example/"), TARGET_BAD_USERINFO);
    ck_assert_int_eq(get("http://@a.example/"), TARGET_BAD_USERINFO);
    ck_assert_int_eq(get("http://good.example@evil.example"), TARGET_BAD_USERINFO);
    ck_assert_int_eq(get("http://a@b@c/"), TARGET_BAD_USERINFO);
    ck_assert_int_eq(get("http://u@[::1]/"), TARGET_BAD_USERINFO);
    ck_assert_int_eq(get("http://a.example/@"), TARGET_OK);
}
END_TEST

/* ---- hosts ---- */

START_TEST(hosts_come_out_in_one_spelling)
{
    ck_assert_int_eq(get("http://WWW.Example.COM./"), TARGET_OK);
    goes_to("www.example.com", 80);
    slice_eq(target.authority, "WWW.Example.COM.");
    ck_assert_int_eq(get("http://a-b_c.9.example/"), TARGET_OK);
    goes_to("a-b_c.9.example", 80);
    ck_assert_int_eq(get("http://xn--bcher-kva.example/"), TARGET_OK);
    ck_assert_int_eq(get("http://localhost/"), TARGET_OK);
    ck_assert_int_eq(get("http://10.0.0.1./"), TARGET_OK);
    goes_to("10.0.0.1", 80);
}
END_TEST

START_TEST(numbers_that_are_no_plain_address_stay_names)
{
    static const char *const names[] = {"2130706433", "0x7f.1", "017700000001", "127.1", "0177.0.0.1", "1.2.3.256"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "http://%s/", names[i]);
        ck_assert_int_eq(get(text), TARGET_OK);
        goes_to(names[i], 80);
    }
}
END_TEST

START_TEST(odd_hosts_are_refused)
{
    static const char *const bad[] = {
        "http:///x",    "http://",       "http://:80/", "http://./",   "http://../",   "http://a../",    "http://.a/",
        "http://a..b/", "http://a%2eb/", "http://%61/", "http://a%/",  "http://a\\b/", "http://a\\@b/x", "http://a~b/",
        "http://a!b/",  "http://a$b/",   "http://a&b/", "http://a'b/", "http://(a)/",  "http://a*b/",    "http://*.a/",
        "http://a+b/",  "http://a,b/",   "http://a;b/", "http://a=b/", "http://a\"b/", "http://a<b>/",   "http://a^b/",
        "http://a`b/",  "http://{a}/",   "http://a|b/", "http://]/",   "http://a]/",   "http://a[::1]/",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        enum target_error error = get(bad[i]);
        bool userinfo = strchr(bad[i], '@') != NULL;
        ck_assert_msg(error == (userinfo ? TARGET_BAD_USERINFO : TARGET_BAD_HOST) ||
                          (error == TARGET_BAD_PORT && strchr(bad[i], '[') != NULL),
                      "%s: %d", bad[i], error);
    }
}
END_TEST

START_TEST(a_host_field_is_held_to_the_same_bytes)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char host[] = "a_b.example";
        struct field field = {slice_of("Host"), {host, sizeof(host) - 1}};
        struct message request = {
            .method = slice_of("GET"), .target = slice_of("/"), .fields = &field, .fields_count = 1};
        host[1] = (char)byte;
        bool in_names = (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z' && byte < 0x80) ||
                        byte == '-' || byte == '.' || byte == '_';
        ck_assert_msg((target_parse(&request, &target) == TARGET_OK) == in_names, "byte %u", byte);
    }
}
END_TEST

static enum target_error get_labels(unsigned labels, unsigned label_bytes, const char *end)
{
    char text[1024] = "http://";

    for (unsigned i = 0; i < labels; i++) {
        size_t len = strlen(text);
        memset(text + len, 'a', label_bytes);
        snprintf(text + len + label_bytes, sizeof(text) - len - label_bytes, "%s", i + 1 < labels ? "." : end);
    }
    return get(text);
}

START_TEST(names_longer_than_dns_allows_are_refused)
{
    ck_assert_int_eq(get_labels(1, 63, "/"), TARGET_OK);
    ck_assert_int_eq(get_labels(1, 64, "/"), TARGET_BAD_HOST);
    ck_assert_int_eq(get_labels(127, 1, "/"), TARGET_OK); /* 253 bytes */
    ck_assert_uint_eq(strlen(target.host), 253);
    ck_assert_int_eq(get_labels(127, 1, "./"), TARGET_OK);
    ck_assert_int_eq(get_labels(127, 1, "a/"), TARGET_BAD_HOST);
    ck_assert_int_eq(get_labels(200, 1, "/"), TARGET_BAD_HOST);
}
END_TEST

START_TEST(ipv6_literals_come_out_in_canonical_text)
{
    ck_assert_int_eq(get("http://[2001:DB8:0:0:0:0:0:1]/x"), TARGET_OK);
    ck_assert(target.host_is_ipv6);
    goes_to("2001:db8::1", 80);
    slice_eq(target.authority, "[2001:DB8:0:0:0:0:0:1]");
    slice_eq(target.path, "/x");
    ck_assert_int_eq(get("https://[::]:8443?x"), TARGET_OK);
    goes_to("::", 8443);
    ck_assert_int_eq(get("http://[::ffff:127.0.0.1]"), TARGET_OK);
    goes_to("::ffff:127.0.0.1", 80);
    ck_assert_int_eq(get("http://[::1]:/"), TARGET_OK);
    goes_to("::1", 80);
    slice_eq(target.authority, "[::1]");
}
END_TEST

START_TEST(broken_ipv6_literals_are_refused)
{
    static const char *const bad[] = {
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[v1.x]/",
        "http://[127.0.0.1]/",
        "http://[]/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[::1]80/",
        "http://[[::1]]/",
        "http://[::1].a/",
        "http://[1:2:3]/",
        "http://[::1",
        "http://[",
        "http://[a.example]/",
        "http://[::g]/",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(get(bad[i]) == TARGET_BAD_HOST, "%s", bad[i]);
    }
    ck_assert_int_eq(get("http://::1/"), TARGET_BAD_HOST);
    ck_assert_int_eq(get("http://2001:db8::1/"), TARGET_BAD_PORT); /* looks like a host and an odd port */
}
END_TEST

/* ---- ports ---- */

START_TEST(ports_are_taken_and_the_empty_one_is_the_default)
{
    ck_assert_int_eq(get("http://a.example:1/"), TARGET_OK);
    goes_to("a.example", 1);
    ck_assert_int_eq(get("http://a.example:65535/"), TARGET_OK);
    goes_to("a.example", 65535);
    ck_assert_int_eq(get("http://a.example:0080/"), TARGET_OK);
    goes_to("a.example", 80);
    ck_assert_int_eq(get("http://a.example:/x"), TARGET_OK);
    goes_to("a.example", 80);
    slice_eq(target.authority, "a.example");
    ck_assert_int_eq(get("https://a.example:"), TARGET_OK);
    goes_to("a.example", 443);
    ck_assert_int_eq(parse("GET", "/", "a.example:"), TARGET_OK);
    goes_to("a.example", 80);
}
END_TEST

START_TEST(ports_out_of_range_or_odd_are_refused)
{
    static const char *const bad[] = {"0",     "65536", "65616", "99999999999999999999", "-1", "+80", "8o",
                                      "80:80", "0x50",  "%38"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "http://a.example:%s/", bad[i]);
        ck_assert_msg(get(text) == TARGET_BAD_PORT, "%s", text);
    }
}
END_TEST

START_TEST(every_error_has_a_text_of_its_own)
{
    for (int i = TARGET_OK; i <= TARGET_BAD_PORT; i++) {
        ck_assert_uint_gt(strlen(target_error_text((enum target_error)i)), 10);
        for (int j = TARGET_OK; j < i; j++) {
            ck_assert_str_ne(target_error_text((enum target_error)i), target_error_text((enum target_error)j));
        }
    }
}
END_TEST

/* ---- for logs ---- */

static const char *logged(const char *method, const char *text)
{
    static char out[256];

    ck_assert_int_eq(parse(method, text, "h.example"), TARGET_OK);
    target_for_log(&target, out, sizeof(out));
    return out;
}

START_TEST(logs_show_scheme_host_and_path)
{
    ck_assert_str_eq(logged("GET", "HTTP://A.example:80/b/c"), "http://a.example/b/c");
    ck_assert_str_eq(logged("GET", "https://a.example:444"), "https://a.example:444/");
    ck_assert_str_eq(logged("GET", "http://[0::1]:81/"), "http://[::1]:81/");
    ck_assert_str_eq(logged("GET", "/x"), "http://h.example/x");
    ck_assert_str_eq(logged("OPTIONS", "*"), "http://h.example");
    ck_assert_str_eq(logged("CONNECT", "a.example:443"), "a.example:443");
    ck_assert_str_eq(logged("CONNECT", "[::1]:80"), "[::1]:80");
}
END_TEST

START_TEST(logs_hide_what_a_path_may_hide)
{
    ck_assert_str_eq(logged("GET", "/a%3Fk=VALUE"), "http://h.example/a%3Fk=...");
    ck_assert_str_eq(logged("GET", "/a%3fk%3DVALUE&b=V"), "http://h.example/a%3f...&b=...");
    ck_assert_str_eq(logged("GET", "/a%25253Fk=VALUE"), "http://h.example/a%25253Fk=...");
    ck_assert_str_eq(logged("GET", "/a;jsessionid=VALUE/b"), "http://h.example/a;jsessionid=...");
    ck_assert_str_eq(logged("GET", "/token=VALUE/list"), "http://h.example/token=.../list");
    ck_assert_str_eq(logged("GET", "/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe"), "http://h.example/.../getMe");
    ck_assert_str_eq(logged("GET", "/services/T0000/B0000/XxXxXxXxXxXxXxXxXxXxXx01"),
                     "http://h.example/services/T0000/B0000/...");
    /* what is worth seeing stays */
    ck_assert_str_eq(logged("GET", "/orders/123e4567-e89b-12d3-a456-426614174000/items"),
                     "http://h.example/orders/123e4567-e89b-12d3-a456-426614174000/items");
    ck_assert_str_eq(logged("GET", "/v1/chat/completions"), "http://h.example/v1/chat/completions");
    ck_assert_str_eq(logged("GET", "/100%25/x%2"), "http://h.example/100%25/x%2");
}
END_TEST

START_TEST(logs_hide_the_values_of_a_query)
{
    ck_assert_str_eq(logged("GET", "/x?key=secret"), "http://h.example/x?key=...");
    ck_assert_str_eq(logged("GET", "/x?a=1&b=&c=x=y"), "http://h.example/x?a=...&b=...&c=...");
    ck_assert_str_eq(logged("GET", "/x?secret"), "http://h.example/x?...");
    ck_assert_str_eq(logged("GET", "/x?a=1;key=secret&&d"), "http://h.example/x?a=...&&...");
    ck_assert_str_eq(logged("GET", "/x?"), "http://h.example/x?");
    ck_assert_str_eq(logged("GET", "/x?u=/y?key=secret"), "http://h.example/x?u=...");
    ck_assert_str_eq(logged("GET", "http://a.example?key=secret"), "http://a.example/?key=...");
}
END_TEST

START_TEST(logs_end_where_their_memory_ends)
{
    static const char whole[] = "http://a.example/path?key=...";
    char out[64];

    ck_assert_int_eq(get("http://a.example/path?key=secret"), TARGET_OK);
    for (size_t bytes = 1; bytes < sizeof(out); bytes++) {
        memset(out, '#', sizeof(out));
        target_for_log(&target, out, bytes);
        size_t len = bytes - 1 < strlen(whole) ? bytes - 1 : strlen(whole);
        ck_assert_uint_eq(strlen(out), len);
        ck_assert_mem_eq(out, whole, len);
        ck_assert_int_eq(out[bytes], '#');
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("target");
    TCase *tc = tcase_create("target");

    tcase_add_test(tc, absolute_form_rules_over_host);
    tcase_add_test(tc, absolute_form_needs_no_host_field);
    tcase_add_test(tc, https_has_its_own_default_port);
    tcase_add_test(tc, the_path_is_kept_byte_for_byte);
    tcase_add_test(tc, an_empty_path_is_a_slash_and_a_query_stays_alone);
    tcase_add_test(tc, origin_form_takes_host_and_port_from_host);
    tcase_add_test(tc, origin_form_with_a_bad_or_missing_host_is_refused);
    tcase_add_test(tc, asterisk_form_is_for_options_only);
    tcase_add_test(tc, options_without_a_path_is_for_the_server_as_a_whole);
    tcase_add_test(tc, connect_takes_host_and_port);
    tcase_add_test(tc, logs_hide_what_a_path_may_hide);
    tcase_add_test(tc, connect_to_anything_else_is_refused);
    tcase_add_test(tc, methods_are_case_sensitive);
    tcase_add_test(tc, other_schemes_are_refused);
    tcase_add_test(tc, what_has_none_of_the_forms_is_refused);
    tcase_add_test(tc, fragments_are_refused);
    tcase_add_test(tc, bytes_that_no_uri_has_are_refused_wherever_they_stand);
    tcase_add_test(tc, userinfo_is_refused);
    tcase_add_test(tc, hosts_come_out_in_one_spelling);
    tcase_add_test(tc, numbers_that_are_no_plain_address_stay_names);
    tcase_add_test(tc, odd_hosts_are_refused);
    tcase_add_test(tc, a_host_field_is_held_to_the_same_bytes);
    tcase_add_test(tc, names_longer_than_dns_allows_are_refused);
    tcase_add_test(tc, ipv6_literals_come_out_in_canonical_text);
    tcase_add_test(tc, broken_ipv6_literals_are_refused);
    tcase_add_test(tc, ports_are_taken_and_the_empty_one_is_the_default);
    tcase_add_test(tc, ports_out_of_range_or_odd_are_refused);
    tcase_add_test(tc, every_error_has_a_text_of_its_own);
    tcase_add_test(tc, logs_show_scheme_host_and_path);
    tcase_add_test(tc, logs_hide_the_values_of_a_query);
    tcase_add_test(tc, logs_end_where_their_memory_ends);
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
