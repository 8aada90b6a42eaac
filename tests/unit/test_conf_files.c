/* links: tests/unit/conf_expect.c src/conf/ src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c */
#include "base/buf.h"
#include "base/mem.h"
#include "conf/keys.h"
#include "conf_expect.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- files ---- */

START_TEST(a_file_that_cannot_be_read_is_named)
{
    conf_clear();
    ck_assert_ptr_null(conf_load("/nonexistent/x.ini", &conf_errors, &conf_warnings));
    ck_assert_str_eq(conf_errors.lines[0], "/nonexistent/x.ini: cannot be opened: No such file or directory");
    conf_clear();
    ck_assert_ptr_null(conf_load("/", &conf_errors, &conf_warnings));
    ck_assert_str_eq(conf_errors.lines[0], "/: cannot be read: Is a directory");
    conf_clear();
    ck_assert_ptr_null(conf_load("/dev/zero", &conf_errors, &conf_warnings));
    ck_assert_str_eq(conf_errors.lines[0], "/dev/zero: larger than 64 MiB, is this a settings file?");
    conf_clear();
}
END_TEST

/* The test runs where make does, at the top of the tree. */
START_TEST(the_example_files_load_to_the_defaults)
{
    static const struct {
        const char *path, *same;
    } files[] = {{"conf/sluice.ini", ""}, {"conf/sluice-minimal.ini", "[admin]\n"}};

    for (size_t i = 0; i < 2; i++) {
        struct conf *defaults = conf_load_good(files[i].same);
        char *wanted = conf_printed(defaults, conf_dump);
        conf_clear();
        struct conf *conf = conf_load(files[i].path, &conf_errors, &conf_warnings);
        err_print(&conf_errors, "unexpected: ");
        ck_assert_ptr_nonnull(conf);
        ck_assert_uint_eq(conf_warnings.count, 0);
        char *got = conf_printed(conf, conf_dump);
        ck_assert_str_eq(got, wanted);
        free(got);
        conf_free(conf);
        free(wanted);
        conf_free(defaults);
    }
}
END_TEST

static char *slurp(const char *path)
{
    struct buf text = {0};
    FILE *file = fopen(path, "r");
    char chunk[4096];
    size_t got;

    ck_assert_ptr_nonnull(file);
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0) {
        buf_add(&text, chunk, got);
    }
    fclose(file);
    char *all = mem_strndup(buf_ptr(&text), buf_len(&text));
    buf_fini(&text);
    return all;
}

START_TEST(the_example_has_every_key_with_its_help)
{
    char *example = slurp("conf/sluice.ini");
    size_t count;
    const struct key *keys = keys_all(&count);

    for (size_t i = 0; i < count; i++) {
        char *active = mem_printf("\n%s = ", keys[i].name), *inactive = mem_printf("\n# %s = ", keys[i].name);
        char *help = mem_printf("\n# %s", keys[i].help);
        ck_assert_msg(strstr(example, active) != NULL || strstr(example, inactive) != NULL, "%s", keys[i].name);
        ck_assert_msg(strstr(example, help) != NULL, "%s", keys[i].help);
        mem_free(active);
        mem_free(inactive);
        mem_free(help);
    }
    mem_free(example);
}
END_TEST

/* ---- printing ---- */

static const char rich[] =
    "[proxy]\nlisten = 0.0.0.0:3128, [::1]:3129\nunlisted = deny\nconnect_ports = 443, 8000-8100\n"
    "auth = /etc/users\nallow_clients = 10.0.0.0/8, 192.168.1.1, fd00::/8\nprivate_upstreams = ::1/128, 10.0.0.0/8\n"
    "max_queued_bytes = 1000000\nserver_timing = on\nlog_level = debug\nlog_format = json\nlog_file = /var/log/x\n"
    "[redis]\nurl = rediss://us%3aer:hun%2fter2@[::1]:7000/3\nprefix = p\n"
    "[default]\nrate = 0.33/s\non_redis_down = reserve\noutage_permits = 1\nlate = 1500us\n"
    "[destination Mixed]\nhosts = *.a.com:80, b.com, [2606:4700::1], 10.9.9.9:1\nrate = 5000/1h\nstrict = gap\n"
    "[destination [2606:4700::2]:81]\non_redis_down = open\n[destination *.c.com]\nrate = 7/1m\n"
    "[admin]\nlisten = 10.0.0.1:3129, [::1]:3129\ntoken_file = /etc/token\n";

START_TEST(what_is_dumped_loads_to_the_same_settings)
{
    struct conf *conf = conf_load_good(rich);
    char *first = conf_printed(conf, conf_dump);
    conf_free(conf);
    conf = conf_load_good(first);
    char *second = conf_printed(conf, conf_dump);

    ck_assert_str_eq(first, second);
    ck_assert_ptr_null(strstr(first, "ter2"));
    ck_assert_ptr_nonnull(strstr(first, "\nurl = rediss://us%3Aer:***@[::1]:7000/3\n"));
    ck_assert_ptr_nonnull(strstr(first, "\nallow_clients = 10.0.0.0/8, 192.168.1.1/32, fd00::/8\n"));
    ck_assert_ptr_nonnull(strstr(first, "\nrate = 33/100s\n"));
    ck_assert_ptr_nonnull(
        strstr(first, "\n[destination Mixed]\nhosts = *.a.com:80, b.com, [2606:4700::1], 10.9.9.9:1\n"));
    ck_assert_str_eq(conf->redis.user, "us:er");
    ck_assert_int_eq(conf->fallback->late_us, 1500);
    ck_assert_int_eq(conf->proxy.max_queued_bytes, 1000000);
    free(first);
    free(second);
    conf_free(conf);
}
END_TEST

START_TEST(a_description_says_what_is_paced_and_what_is_not)
{
    struct conf *conf = conf_load_good(
        "[destination edgar]\nhosts = www.sec.gov, *.sec.gov\nrate = 8/s\nmax_queue = 5\nmax_wait = 10s\n");
    char *text = conf_printed(conf, conf_describe);
    static const char *const parts[] = {
        "destination edgar\n",
        "www.sec.gov, *.sec.gov\n",
        "8/s, one slot every 127.002 ms\n",
        "never more than 8 in any 1s\n",
        "at most 5 waiting, each at most 10s",
        "tunnel: each request inside a tunnel takes a slot",
        "no [redis]: this process alone keeps the rate\n",
        "hosts without a section (unlisted = pace): each host by itself, by [default]\n",
        "10/s, one slot every 101.602 ms\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ck_assert_msg(strstr(text, parts[i]) != NULL, "no \"%s\" in:\n%s", parts[i], text);
    }
    free(text);
    conf_free(conf);
}
END_TEST

START_TEST(a_description_says_how_https_is_counted)
{
    struct conf *conf =
        conf_load_good("[default]\nclient_cert = c.pem\n[destination a.com]\nhttps = originate\nca_file = a.pem\n"
                       "tunnel_h2 = refuse\n[destination b.com]\nhttps = originate\n");
    char *text = conf_printed(conf, conf_describe);

    ck_assert_str_eq(conf->policies[0]->ca_file, "a.pem");
    ck_assert_str_eq(conf->policies[1]->client_cert, "c.pem");
    ck_assert_ptr_null(conf->policies[1]->ca_file);
    ck_assert_ptr_nonnull(strstr(text, "originate: each request for http:// takes a slot and leaves over TLS"));
    ck_assert_ptr_nonnull(strstr(text, "tunnels that offer HTTP/2 are ended"));
    ck_assert_ptr_nonnull(strstr(text, "of HTTP/2 in a tunnel and of pipelined requests only the turns are counted"));
    ck_assert_ptr_nonnull(strstr(text, "a.pem\n"));
    ck_assert_ptr_nonnull(strstr(text, "the system's certificates\n"));
    free(text);
    conf_free(conf);
    conf = conf_load_good("[proxy]\nca_dir = /etc/ca\n[destination a.com]\nhttps = intercept\n");
    text = conf_printed(conf, conf_describe);
    ck_assert_str_eq(conf->proxy.ca_dir, "/etc/ca");
    ck_assert_ptr_nonnull(strstr(text, "intercept: each request inside a CONNECT takes a slot"));
    free(text);
    conf_free(conf);
    conf_expect("[destination a.com]\nhttps = intercept\n",
                "f.ini:2: [destination a.com] https: intercept needs ca_dir in [proxy]; make a CA with: sluice ca init "
                "--dir DIR");
    conf_expect_warning("[destination a.com]\nca_file = a.pem\n", "has no effect with https = tunnel");
    conf_expect("[destination a.com]\nhttps = originate\nclient_key = k.pem\n",
                "f.ini:3: [destination a.com] client_key: a key without client_cert");
}
END_TEST

START_TEST(a_description_says_what_happens_without_redis)
{
    struct conf *conf =
        conf_load_good("[redis]\nurl = redis://h\n[proxy]\nunlisted = pass\n[destination a.com]\n"
                       "[destination b.com]\non_redis_down = reject\n[destination c.com]\non_redis_down = open\n"
                       "[destination d.com]\non_redis_down = reserve\noutage_permits = 2\nstrict = gap\n");
    char *text = conf_printed(conf, conf_describe);
    static const char *const parts[] = {
        "hold: nothing is sent until it is back",
        "reject: requests are refused at once with 503",
        "open: everything leaves at once, unpaced",
        "reserve: each of at most 4 replicas sends 2 per 1s",
        "10/s less 8 in reserve, one slot every 515.515 ms",
        "never two closer than 100ms",
        "(unlisted = pass): sent at once, no rate is kept\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ck_assert_msg(strstr(text, parts[i]) != NULL, "no \"%s\" in:\n%s", parts[i], text);
    }
    free(text);
    conf_free(conf);
}
END_TEST

START_TEST(the_help_has_every_key_with_default_range_and_choices)
{
    char *text = NULL;
    size_t len = 0, count, found = 0;
    FILE *out = open_memstream(&text, &len);

    conf_help(out);
    fclose(out);
    (void)keys_all(&count);
    for (const char *at = text; (at = strstr(at, "\n[")) != NULL; at++) {
        found++;
    }
    ck_assert_uint_eq(found, count);
    ck_assert_ptr_nonnull(strstr(text, "\n[proxy] listen = 127.0.0.1:3128\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n[proxy] auth =\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n[destination] hosts =\n"));
    ck_assert_ptr_nonnull(strstr(text, "    duration, 1ms to 1s\n"));
    ck_assert_ptr_nonnull(strstr(text, "    one of: hold | reserve | reject | open\n"));
    free(text);
}
END_TEST

/* ---- much of it ---- */

static int64_t cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec * INT64_C(1000000) + usage.ru_utime.tv_usec;
}

START_TEST(ten_thousand_destinations_load_in_a_fifth_of_a_second)
{
    struct buf text = {0};

    for (int i = 0; i < 10000; i++) {
        buf_printf(&text, "[destination api%d.example.com]\nrate = %d/s\nmax_queue = 50\nmax_wait = 5s\n", i,
                   i % 50 + 1);
    }
    int64_t before = cpu_us();
    struct conf *conf = conf_load_bytes(buf_ptr(&text), buf_len(&text));
    int64_t spent = cpu_us() - before;
    buf_fini(&text);
    ck_assert_ptr_nonnull(conf);
    ck_assert_uint_eq(conf->policies_count, 10000);
    ck_assert_ptr_eq(conf_route(conf, "api9999.example.com", 443), conf->policies[9999]);
    ck_assert_int_eq(conf->policies[9999]->rate.count, 50);
    ck_assert_ptr_null(conf_route(conf, "api10000.example.com", 443));
#if !defined(__SANITIZE_ADDRESS__)
    ck_assert_int_lt(spent, 200000);
#endif
    (void)spent;
    conf_free(conf);
}
END_TEST

/* Every way of cutting or damaging a file ends in settings or in conf_errors, nothing else (the sanitizers watch). */
START_TEST(damaged_files_do_no_harm)
{
    static const char bytes[] = "\0\xff[]=\n\r #;:,/*%@.9";
    size_t len = sizeof rich - 1;
    char copy[sizeof rich];

    for (size_t i = 0; i < len; i += 3) {
        conf_free(conf_load_bytes(rich, i));
        for (size_t j = i % 7; j < sizeof bytes - 1; j += 7) {
            memcpy(copy, rich, len);
            copy[i] = bytes[j];
            struct conf *conf = conf_load_bytes(copy, len);
            ck_assert((conf != NULL) == !err_any(&conf_errors));
            conf_free(conf);
        }
    }
    conf_clear();
}
END_TEST

static TCase *whole_case(void)
{
    TCase *whole = tcase_create("whole files");

    tcase_set_timeout(whole, 60);
    tcase_add_test(whole, a_file_that_cannot_be_read_is_named);
    tcase_add_test(whole, the_example_files_load_to_the_defaults);
    tcase_add_test(whole, the_example_has_every_key_with_its_help);
    tcase_add_test(whole, what_is_dumped_loads_to_the_same_settings);
    tcase_add_test(whole, a_description_says_what_is_paced_and_what_is_not);
    tcase_add_test(whole, a_description_says_how_https_is_counted);
    tcase_add_test(whole, a_description_says_what_happens_without_redis);
    tcase_add_test(whole, the_help_has_every_key_with_default_range_and_choices);
    tcase_add_test(whole, ten_thousand_destinations_load_in_a_fifth_of_a_second);
    tcase_add_test(whole, damaged_files_do_no_harm);
    return whole;
}

int main(void)
{
    Suite *suite = suite_create("conf files");

    suite_add_tcase(suite, whole_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
