/* links: tests/unit/conf_expect.c src/conf/ src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c */
#include "base/buf.h"
#include "conf_expect.h"

#include <check.h>
#include <string.h>

/* ---- defaults ---- */

START_TEST(an_empty_file_has_all_defaults)
{
    struct conf *conf = conf_load_good("");
    const struct proxy_conf *proxy = &conf->proxy;
    char listen[ADDR_TEXT_BYTES];

    addr_format(&proxy->listen[0], false, listen);
    ck_assert_str_eq(listen, "127.0.0.1:3128");
    ck_assert_uint_eq(proxy->listen_count, 1);
    ck_assert_int_eq(proxy->unlisted, UNLISTED_PACE);
    ck_assert_uint_eq(proxy->connect_ports_count, 1);
    ck_assert_uint_eq(proxy->connect_ports[0].first, 443);
    ck_assert_uint_eq(proxy->connect_ports[0].last, 443);
    ck_assert_ptr_null(proxy->auth);
    ck_assert_uint_eq(proxy->allow_clients_count, 0);
    ck_assert_int_eq(proxy->private_mode, PRIVATE_DENY);
    ck_assert_int_eq(proxy->max_connections, 16000);
    ck_assert_int_eq(proxy->max_queued_bytes, 256 << 20);
    ck_assert_int_eq(proxy->max_head_bytes, 32 << 10);
    ck_assert_int_eq(proxy->max_headers, 100);
    ck_assert_int_eq(proxy->head_timeout_us, 30000000);
    ck_assert_int_eq(proxy->keepalive_timeout_us, 75000000);
    ck_assert_int_eq(proxy->drain_timeout_us, 30000000);
    ck_assert_int_eq(proxy->dns_ttl_us, 30000000);
    ck_assert_int_eq(proxy->resolver_threads, 4);
    ck_assert(!proxy->server_timing);
    ck_assert_int_eq(proxy->log_level, LOG_INFO);
    ck_assert_int_eq(proxy->log_format, LOG_LOGFMT);
    ck_assert_ptr_null(proxy->log_file);
    conf_free(conf);
}
END_TEST

START_TEST(the_default_policy_has_all_defaults)
{
    struct conf *conf = conf_load_good("");
    const struct policy *policy = conf->fallback;

    ck_assert_str_eq(policy->label, "default");
    ck_assert_int_eq(policy->rate.count, 10);
    ck_assert_int_eq(policy->rate.period_us, 1000000);
    ck_assert_int_eq(policy->strict, STRICT_WINDOW);
    ck_assert_int_eq(policy->max_queue, 1000);
    ck_assert_int_eq(policy->max_wait_us, 30000000);
    ck_assert_int_eq(policy->on_redis_down, REDIS_DOWN_HOLD);
    ck_assert_int_eq(policy->outage_permits, 0);
    ck_assert_int_eq(policy->replicas_max, 4);
    ck_assert_int_eq(policy->late_us, 10000);
    ck_assert_int_eq(policy->path_jitter_us, 2000);
    ck_assert_int_eq(policy->horizon_us, 1000000);
    ck_assert_int_eq(policy->connect_timeout_us, 10000000);
    ck_assert_int_eq(policy->response_timeout_us, 600000000);
    ck_assert_int_eq(policy->body_timeout_us, 300000000);
    ck_assert_int_eq(policy->upstream_idle_us, 4000000);
    ck_assert_int_eq(policy->tunnel_idle_us, 600000000);
    ck_assert_int_eq(policy->max_connections, 256);
    ck_assert_ptr_null(conf->redis.url);
    ck_assert_str_eq(conf->redis.prefix, "sluice");
    ck_assert_int_eq(conf->redis.timeout_us, 500000);
    ck_assert_int_eq(conf->redis.connect_timeout_us, 2000000);
    conf_free(conf);
}
END_TEST

START_TEST(a_destination_inherits_default_wherever_it_stands)
{
    struct conf *conf = conf_load_good("[destination a.com]\nmax_queue = 7\n[default]\nrate = 3/s\nmax_queue = 9\n");

    ck_assert_uint_eq(conf->policies_count, 1);
    ck_assert_int_eq(conf->policies[0]->rate.count, 3);
    ck_assert_int_eq(conf->policies[0]->max_queue, 7);
    ck_assert_int_eq(conf->fallback->max_queue, 9);
    ck_assert_uint_eq(conf->policies[0]->line, 1);
    conf_free(conf);
}
END_TEST

/* ---- form of the file ---- */

START_TEST(byte_order_mark_crlf_blanks_and_indentation_are_harmless)
{
    struct conf *conf =
        conf_load_good("\xef\xbb\xbf[proxy]\r\n\r\n  ; a comment\r\n\t# another = one\r\n"
                       "\tmax_headers\t=  50  \r\n   listen=127.0.0.1:80\r\n[ destination   a.com ]\r\nrate = 1/s");

    ck_assert_int_eq(conf->proxy.max_headers, 50);
    ck_assert_uint_eq(addr_port(&conf->proxy.listen[0]), 80);
    ck_assert_str_eq(conf->policies[0]->label, "a.com");
    ck_assert_int_eq(conf->policies[0]->rate.count, 1);
    conf_free(conf);
}
END_TEST

START_TEST(bytes_that_are_no_text_are_named)
{
    static const char nul[] = "[proxy]\nmax_headers\0 = 50\n";

    conf_expect_bytes(nul, sizeof nul - 1, "f.ini:2: a NUL byte; is this a text file?");
    conf_expect("[proxy]\n# x\x1b[31m\n", "f.ini:2: a control character");
    conf_expect("[proxy]\n# x\ry\n", "f.ini:2: a carriage return inside the line; lines end in LF or CR LF");
    conf_expect("[proxy]\n# \xe9t\xe9\n", "f.ini:2: bytes that are not UTF-8");
    conf_expect("[proxy]\n# \xc0\xaf\n", "f.ini:2: bytes that are not UTF-8");
    conf_expect("[proxy]\n# \xed\xa0\x80\n", "f.ini:2: bytes that are not UTF-8");
    conf_expect("[proxy]\n# \xf4\x90\x80\x80\n", "f.ini:2: bytes that are not UTF-8");
    conf_expect("[proxy]\n# \xe2\x82", "f.ini:2: bytes that are not UTF-8");
    conf_expect("\xff\xfe[", "f.ini: the file is UTF-16; save it as UTF-8");
    conf_free(conf_load_good("# \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n"));
}
END_TEST

START_TEST(lines_that_are_neither_section_nor_pair_are_named)
{
    conf_expect("[proxy\n", "f.ini:1: the section's closing ] is missing");
    conf_expect("[proxy] junk\n", "f.ini:1: nothing may follow a section's closing ]");
    conf_expect("[proxy] ; junk\n", "f.ini:1: comments go on lines of their own");
    conf_expect("[proxy] # see [1]\n", "f.ini:1: comments go on lines of their own");
    conf_expect("[proxy]\nlisten\n", "f.ini:2: neither a [section] nor key = value");
    conf_expect("[proxy]\nlisten: 127.0.0.1:80\n", "f.ini:2: neither a [section] nor key = value");
    conf_expect("[proxy]\nhttp://x=1\n",
                "f.ini:2: what stands before = is not a key; keys are letters, digits and underscores");
    conf_expect("[proxy]\n= 1\n",
                "f.ini:2: what stands before = is not a key; keys are letters, digits and underscores");
    conf_expect("[proxy]\nauth =\n",
                "f.ini:2: [proxy] auth: the value is empty; leave the line out to keep the default");
    conf_expect("[proxy]\nauth = \"x\"\n", "f.ini:2: [proxy] auth: values are written without quotes");
    conf_expect("unlisted = pass\n",
                "f.ini:1: unlisted: a key outside any section; [proxy] or another header has to come first");
}
END_TEST

START_TEST(a_comment_behind_a_value_is_refused)
{
    conf_expect("[default]\nrate = 10/s ; x\n", "f.ini:2: [default] rate: comments go on lines of their own");
    conf_expect("[default]\nrate = 10/s # x\n", "f.ini:2: [default] rate: comments go on lines of their own");
    conf_expect("[default]\nrate = 10/s\t#x\n", "f.ini:2: [default] rate: comments go on lines of their own");
    conf_expect("[default]\nrate = ; x\n", "f.ini:2: [default] rate: comments go on lines of their own");
}
END_TEST

START_TEST(keys_under_a_refused_header_are_not_mistakes_of_their_own)
{
    conf_expect("[proxy]\nmax_headers = 5\n[redis\nmax_headers = 6\nwhatever = 7\n",
                "f.ini:3: the section's closing ] is missing");
    conf_expect(
        "[nonsense-of-a-name]\nwhatever = 7\n",
        "f.ini:1: [nonsense-of-a-name]: unknown section; there are [proxy], [redis], [default], [destination NAME], [route NAME], [inbound NAME], [inbound-rule NAME] and [admin]");
}
END_TEST

/* inih by itself cuts names at 49 bytes and lines at 200, and takes the rest for new lines. */
START_TEST(long_names_lines_and_comments_are_read_whole)
{
    struct buf text = {0};
    char stem[150];

    memset(stem, 'a', sizeof stem);
    for (size_t i = 49; i < sizeof stem; i += 50) {
        stem[i] = '.';
    }
    stem[sizeof stem - 1] = '\0';
    buf_printf(&text, "[destination %s.one.com]\nrate = 1/s\n[destination %s.two.com]\nrate = 2/s\n", stem, stem);
    buf_printf(&text, "# %s%s rate = 3/s\n[destination many]\nhosts = x0.com", stem, stem);
    for (int i = 1; i < 500; i++) {
        buf_printf(&text, ", x%d.com", i);
    }
    struct conf *conf = conf_load_bytes(buf_ptr(&text), buf_len(&text));
    buf_fini(&text);
    ck_assert_ptr_nonnull(conf);
    ck_assert_uint_eq(conf->policies_count, 3);
    ck_assert_int_eq(conf->policies[0]->rate.count, 1);
    ck_assert_int_eq(conf->policies[1]->rate.count, 2);
    ck_assert_uint_eq(conf->policies[2]->hosts_count, 500);
    ck_assert_ptr_eq(conf_route(conf, "x499.com", 80), conf->policies[2]);
    conf_free(conf);
}
END_TEST

START_TEST(a_line_beyond_all_measure_is_refused_with_its_number)
{
    struct buf text = {0};

    buf_add_str(&text, "[proxy]\nmax_headers = 5\n#");
    for (int i = 0; i < 2000; i++) {
        buf_add_str(&text, "0123456789");
    }
    buf_add_str(&text, "\nmax_headers = 6\n");
    ck_assert_ptr_null(conf_load_bytes(buf_ptr(&text), buf_len(&text)));
    ck_assert_uint_eq(conf_errors.count, 2);
    ck_assert_str_eq(conf_errors.lines[0], "f.ini:3: the line is longer than 16384 bytes");
    ck_assert_str_eq(conf_errors.lines[1], "f.ini:4: [proxy] max_headers: this key is there twice, first on line 2");
    buf_fini(&text);
    conf_clear();
}
END_TEST

/* ---- names ---- */

START_TEST(unknown_names_come_with_the_nearest_right_one)
{
    conf_expect("[proxy]\nlistn = 127.0.0.1:80\n", "f.ini:2: [proxy] listn: unknown key; did you mean listen?");
    conf_expect("[proxy]\nmax-headers = 5\n", "f.ini:2: [proxy] max-headers: unknown key; did you mean max_headers?");
    conf_expect("[proxy]\nxyzzy = 5\n", "f.ini:2: [proxy] xyzzy: unknown key; sluice --help-config lists all");
    conf_expect("[porxy]\n", "f.ini:1: [porxy]: unknown section; did you mean [proxy]?");
    conf_expect("[destinations a.com]\n",
                "f.ini:1: [destinations a.com]: unknown section; did you mean [destination NAME]?");
    conf_expect("[api.github.com]\n",
                "f.ini:1: [api.github.com]: unknown section; a host's section is [destination api.github.com]");
    conf_expect("[proxy]\nrate = 5/s\n", "f.ini:2: [proxy] rate: this key belongs in [default] or [destination NAME]");
    conf_expect("[default]\nhosts = a.com\n", "f.ini:2: [default] hosts: this key belongs in [destination NAME]");
    conf_expect("[default]\nlisten = a.com\n", "f.ini:2: [default] listen: this key belongs in [proxy]");
}
END_TEST

START_TEST(nothing_may_be_there_twice)
{
    conf_expect("[proxy]\n[default]\n[proxy]\n", "f.ini:3: [proxy]: this section is there twice, first on line 1");
    conf_expect("[destination a.com]\n[destination  A.com]\n",
                "f.ini:2: [destination A.com]: this section is there twice, first on line 1");
    conf_expect("[proxy]\nunlisted = pass\nunlisted = pass\n",
                "f.ini:3: [proxy] unlisted: this key is there twice, first on line 2");
    conf_expect("[destination one]\nhosts = a.com, b.com:80\n[destination two]\nrate = 1/s\nhosts = B.com:80, c.com\n",
                "f.ini:5: [destination two] hosts: b.com:80 is already in [destination one] of line 1");
    conf_expect("[destination one]\nhosts = *.a.com\n[destination *.A.com.]\n",
                "f.ini:3: [destination *.A.com.]: *.a.com is already in [destination one] of line 1");
    conf_expect("[destination one]\nhosts = a.com, b.com, A.com.\n",
                "f.ini:2: [destination one] hosts: A.com.: this host is there twice");
    conf_expect("[proxy]\nlisten = 127.0.0.1:80, [::1]:80, 127.0.0.1:80\n",
                "f.ini:2: [proxy] listen: 127.0.0.1:80 is there twice");
}
END_TEST

START_TEST(sections_have_a_name_only_where_one_belongs)
{
    conf_expect("[destination]\n", "f.ini:1: [destination]: a name is missing: [destination api.example.com]");
    conf_expect("[proxy x]\n", "f.ini:1: [proxy x]: this section takes no name");
    conf_expect("[destination default]\nhosts = a.com\n",
                "f.ini:1: [destination default]: a destination cannot be named default, that is the name of [default]");
    conf_expect("[destination a b]\nhosts = a.com\n",
                "f.ini:1: [destination a b]: a name is up to 255 letters, digits and .-_:*[]");
    conf_expect("[destination a.com, b.com]\n",
                "f.ini:1: [destination a.com, b.com]: several hosts go into hosts =, the section has one name");
}
END_TEST

START_TEST(all_mistakes_are_shown_in_the_order_of_the_file)
{
    static const char text[] = "[destination a.com]\nrate = 0/s\nlate = 5\n[proxy]\nlisten = 1, 2\nfoo = 1\n[redis]\n";

    ck_assert_ptr_null(conf_load_bytes(text, sizeof text - 1));
    ck_assert_uint_eq(conf_errors.count, 6);
    static const char *const starts[] = {"f.ini:2: ", "f.ini:3: ", "f.ini:5: ", "f.ini:5: ", "f.ini:6: ", "f.ini:7: "};
    for (size_t i = 0; i < 6; i++) {
        ck_assert_msg(strncmp(conf_errors.lines[i], starts[i], strlen(starts[i])) == 0, "%s", conf_errors.lines[i]);
    }
    conf_clear();
}
END_TEST

START_TEST(operators_have_a_listener_only_where_a_section_says_so)
{
    char text[ADDR_TEXT_BYTES];
    struct conf *conf = conf_load_good("");

    ck_assert_uint_eq(conf->admin.listen_count, 0);
    conf_free(conf);
    conf = conf_load_good("[admin]\n");
    ck_assert_uint_eq(conf->admin.listen_count, 1);
    addr_format(&conf->admin.listen[0], false, text);
    ck_assert_str_eq(text, "127.0.0.1:3129");
    ck_assert_ptr_null(conf->admin.token_file);
    conf_free(conf);
}
END_TEST

START_TEST(whoever_comes_from_outside_to_operate_must_show_a_token)
{
    conf_expect("[admin]\nlisten = 127.0.0.1:1, 10.0.0.1:3129\n",
                "f.ini:2: [admin] listen: 10.0.0.1:3129 can be reached from outside: set token_file");
    conf_expect("[admin]\nlisten = [::]:3129\n",
                "f.ini:2: [admin] listen: [::]:3129 can be reached from outside: set token_file");
    struct conf *conf = conf_load_good("[admin]\nlisten = 0.0.0.0:3129\ntoken_file = /etc/sluice/token\n");
    ck_assert_str_eq(conf->admin.token_file, "/etc/sluice/token");
    conf_free(conf);
}
END_TEST

static TCase *reading_case(void)
{
    TCase *reading = tcase_create("reading");

    tcase_add_test(reading, an_empty_file_has_all_defaults);
    tcase_add_test(reading, the_default_policy_has_all_defaults);
    tcase_add_test(reading, a_destination_inherits_default_wherever_it_stands);
    tcase_add_test(reading, byte_order_mark_crlf_blanks_and_indentation_are_harmless);
    tcase_add_test(reading, bytes_that_are_no_text_are_named);
    tcase_add_test(reading, lines_that_are_neither_section_nor_pair_are_named);
    tcase_add_test(reading, a_comment_behind_a_value_is_refused);
    tcase_add_test(reading, keys_under_a_refused_header_are_not_mistakes_of_their_own);
    tcase_add_test(reading, long_names_lines_and_comments_are_read_whole);
    tcase_add_test(reading, a_line_beyond_all_measure_is_refused_with_its_number);
    tcase_add_test(reading, unknown_names_come_with_the_nearest_right_one);
    tcase_add_test(reading, nothing_may_be_there_twice);
    tcase_add_test(reading, sections_have_a_name_only_where_one_belongs);
    tcase_add_test(reading, all_mistakes_are_shown_in_the_order_of_the_file);
    tcase_add_test(reading, operators_have_a_listener_only_where_a_section_says_so);
    tcase_add_test(reading, whoever_comes_from_outside_to_operate_must_show_a_token);
    return reading;
}

int main(void)
{
    Suite *suite = suite_create("conf");

    suite_add_tcase(suite, reading_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
