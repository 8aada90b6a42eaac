/* links: tests/unit/conf_expect.c src/conf/ src/base/str.c src/base/mem.c src/base/err.c src/base/addr.c src/base/buf.c src/base/must.c */
#include "base/mem.h"
#include "conf_expect.h"

#include <check.h>
#include <string.h>

/* ---- values ---- */

START_TEST(numbers_out_of_range_are_told_the_range)
{
    conf_expect_reason("proxy", "max_headers = 0", "0 is out of range, allowed is 1 to 1000");
    conf_expect_reason("proxy", "max_headers = 1001", "1001 is out of range, allowed is 1 to 1000");
    conf_expect_reason("proxy", "max_headers = 99999999999999999999999", "99999999999999999999999 is out of range");
    conf_expect_reason("proxy", "max_headers = -1", "-1 is not a whole number");
    conf_expect_reason("proxy", "max_headers = 1e2", "1e2 is not a whole number");
    conf_expect_reason("default", "late = 2s", "2s is out of range, allowed is 1ms to 1s");
    conf_expect_reason("default", "late = 10", "10 has no unit; write 10s, 10ms, 10m, ...");
    conf_expect_reason("default", "late = soon", "soon is not a duration such as 250ms");
    conf_expect_reason("proxy", "max_head_bytes = 1", "1 is out of range, allowed is 1k to 1m");
    conf_expect_reason("proxy", "max_head_bytes = 32kb", "32kb is not a size such as");
}
END_TEST

START_TEST(the_ends_of_a_range_are_allowed)
{
    struct conf *conf = conf_load_good("[proxy]\nmax_headers = 1000\nmax_head_bytes = 1k\n[default]\nlate = 1s\n");

    ck_assert_int_eq(conf->proxy.max_headers, 1000);
    ck_assert_int_eq(conf->proxy.max_head_bytes, 1024);
    ck_assert_int_eq(conf->fallback->late_us, 1000000);
    conf_free(conf);
}
END_TEST

START_TEST(rates_are_refused_with_advice)
{
    conf_expect_reason("default", "rate = 0/s", "a rate of 0 never sends anything");
    conf_expect_reason("default", "rate = 0.0/1m", "a rate of 0 never sends anything");
    conf_expect_reason("default", "rate = 0", "a rate of 0 never sends anything");
    conf_expect_reason("default", "rate = 10", "10 has no period; write COUNT/PERIOD");
    conf_expect_reason("default", "rate = 10/5", "the period of 10/5 has no unit");
    conf_expect_reason("default", "rate = 10/0", "the period of 10/0 has no unit");
    conf_expect_reason("default", "rate = 10/0s", "10/0s is not COUNT/PERIOD");
    conf_expect_reason("default", "rate = -1/s", "-1/s is not COUNT/PERIOD");
    conf_expect_reason("default", "rate = 2000000/s", "2000000/s is out of range");
    conf_expect_reason("default", "rate = 1/400d", "1/400d is out of range");
}
END_TEST

START_TEST(rates_keep_the_period_that_is_written)
{
    struct conf *conf = conf_load_good("[destination a.com]\nrate = 5000/1h\n[destination b.com]\nrate = 2.5/s\n"
                                       "[destination c.com]\nrate = 1/3s\n");

    ck_assert_int_eq(conf->policies[0]->rate.count, 5000);
    ck_assert_int_eq(conf->policies[0]->rate.period_us, INT64_C(3600000000));
    ck_assert_int_eq(conf->policies[1]->rate.count, 5);
    ck_assert_int_eq(conf->policies[1]->rate.period_us, 2000000);
    ck_assert_int_eq(conf->policies[2]->rate.count, 1);
    ck_assert_int_eq(conf->policies[2]->rate.period_us, 3000000);
    conf_free(conf);
}
END_TEST

START_TEST(choices_list_what_is_allowed)
{
    conf_expect_reason("proxy", "unlisted = passs", "passs is not pace, pass or deny; did you mean pass?");
    conf_expect_reason("proxy", "log_level = verbose", "verbose is not debug, info, warn or error");
    conf_expect_reason("proxy", "server_timing = yes", "yes is not off or on");
    conf_expect_reason("proxy", "unlisted = Pass", "Pass is not pace, pass or deny");
    struct conf *conf = conf_load_good(
        "[proxy]\nunlisted = deny\nlog_level = error\nlog_format = json\nserver_timing = on\n"
        "[default]\nstrict = gap\n[redis]\nurl = unix:/r\n[destination a.com]\non_redis_down = reject\n");
    ck_assert_int_eq(conf->proxy.unlisted, UNLISTED_DENY);
    ck_assert_int_eq(conf->proxy.log_level, LOG_ERROR);
    ck_assert_int_eq(conf->proxy.log_format, LOG_JSON);
    ck_assert(conf->proxy.server_timing);
    ck_assert_int_eq(conf->fallback->strict, STRICT_GAP);
    ck_assert_int_eq(conf->policies[0]->on_redis_down, REDIS_DOWN_REJECT);
    conf_free(conf);
}
END_TEST

START_TEST(addresses_to_listen_on_are_refused_with_advice)
{
    conf_expect_reason("proxy", "listen = 3128", "3128 is a port alone; write 127.0.0.1:3128");
    conf_expect_reason("proxy", "listen = *:3128", "*:3128 is not an address; every address is 0.0.0.0:PORT");
    conf_expect_reason("proxy", "listen = 127.0.0.1:0", "127.0.0.1:0 has no valid port");
    conf_expect_reason("proxy", "listen = localhost:3128", "localhost:3128 is not ADDRESS:PORT");
    conf_expect_reason("proxy", "listen = ,", "the list is empty");
}
END_TEST

START_TEST(port_and_address_lists_are_read)
{
    struct conf *conf = conf_load_good("[proxy]\nconnect_ports = 443, 8000 - 8100\nallow_clients = 10.0.0.0/8, ::1\n"
                                       "private_upstreams = 192.168.0.0/16\n");

    ck_assert_uint_eq(conf->proxy.connect_ports_count, 2);
    ck_assert_uint_eq(conf->proxy.connect_ports[1].first, 8000);
    ck_assert_uint_eq(conf->proxy.connect_ports[1].last, 8100);
    ck_assert_uint_eq(conf->proxy.allow_clients_count, 2);
    ck_assert_uint_eq(conf->proxy.allow_clients[0].bits, 104);
    ck_assert_int_eq(conf->proxy.private_mode, PRIVATE_LIST);
    ck_assert_uint_eq(conf->proxy.private_upstreams_count, 1);
    conf_free(conf);
    conf_expect_reason("proxy", "connect_ports = 0", "0 is not a port from 1 to 65535");
    conf_expect_reason("proxy", "connect_ports = 90-80", "90-80 is backwards; write 80-90");
    conf_expect_reason("proxy", "connect_ports = 1-2-3", "1-2-3 is not a port");
    conf_expect_reason("proxy", "allow_clients = 10.0.0.1/8", "10.0.0.1/8 is not a range");
    conf_expect_reason("proxy", "private_upstreams = alow", "alow is not deny, allow or a list of ranges");
    conf_expect_reason("proxy", "private_upstreams = deny, 10.0.0.0/8", "deny is not a range");
}
END_TEST

/* ---- hosts ---- */

START_TEST(hosts_are_brought_into_one_form)
{
    struct conf *conf = conf_load_good(
        "[destination x]\nhosts = WWW.Example.COM., *.Sec.GOV:8080, [2606:4700:0:0::1]:443, 1.1.1.1, a_b-c.d\n"
        "[destination API.github.com:443]\n[destination [2606:4700::2]:8080]\n");
    const struct host_pattern *hosts = conf->policies[0]->hosts;

    ck_assert_uint_eq(conf->policies[0]->hosts_count, 5);
    ck_assert_str_eq(hosts[0].host, "www.example.com");
    ck_assert(!hosts[0].wildcard);
    ck_assert_uint_eq(hosts[0].port, 0);
    ck_assert_str_eq(hosts[1].host, "sec.gov");
    ck_assert(hosts[1].wildcard);
    ck_assert_uint_eq(hosts[1].port, 8080);
    ck_assert_str_eq(hosts[2].host, "2606:4700::1");
    ck_assert_uint_eq(hosts[2].port, 443);
    ck_assert_str_eq(hosts[3].host, "1.1.1.1");
    ck_assert_str_eq(hosts[4].host, "a_b-c.d");
    ck_assert_str_eq(conf->policies[1]->label, "api.github.com:443");
    ck_assert_str_eq(conf->policies[1]->hosts[0].host, "api.github.com");
    ck_assert_uint_eq(conf->policies[1]->hosts[0].port, 443);
    ck_assert_str_eq(conf->policies[2]->label, "[2606:4700::2]:8080");
    ck_assert_str_eq(conf->policies[2]->hosts[0].host, "2606:4700::2");
    ck_assert_uint_eq(conf->policies[2]->hosts[0].port, 8080);
    conf_free(conf);
}
END_TEST

START_TEST(hosts_that_nothing_can_reach_are_refused)
{
    static const struct {
        const char *host, *reason;
    } cases[] = {
        {"http://a.com", "a host is written without http:// or https://"},
        {"a.com/x", "a host is written without a path"},
        {"me@a.com", "a host is written without a user"},
        {"a .com", "a space inside a host"},
        {"*", "every other host is what [default] is for"},
        {"a.*.com", "* may only stand at the beginning"},
        {"*a.com", "* may only stand at the beginning"},
        {"a..com", "two dots in a row"},
        {".a.com", "two dots in a row, or one at the beginning"},
        {"b\xc3\xbc"
         "cher.de",
         "names outside ASCII are written in their xn-- form"},
        {"a.com:0", "the port is not a number from 1 to 65535"},
        {"a.com:99999", "the port is not a number from 1 to 65535"},
        {"a.com:", "the port is not a number from 1 to 65535"},
        {":80", "the host is missing"},
        {"::1", "an IPv6 address stands in brackets"},
        {"[::1", "not an IPv6 address in brackets"},
        {"[1.2.3.4]", "not an IPv6 address in brackets"},
        {"1.2.3", "an IPv4 address has four numbers"},
        {"127.0.0.01", "an IPv4 address has four numbers"},
        {"0x7f.1", "an IPv4 address has four numbers"},
        {"*.1.2.3.4", "nothing is below an address"},
        {"a!b.com", "a character that a host cannot have"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *pair = mem_printf("hosts = %s", cases[i].host),
             *reason = mem_printf("%s: %s", cases[i].host, cases[i].reason);
        conf_expect_reason("destination x", pair, reason);
        mem_free(pair);
        mem_free(reason);
    }
}
END_TEST

START_TEST(names_too_long_for_dns_are_refused)
{
    char host[400];
    char *pair;

    memset(host, 'a', sizeof host);
    host[64] = '\0';
    pair = mem_printf("hosts = %s.com", host);
    char *text = mem_printf("[destination x]\n%s\n", pair);
    ck_assert_ptr_null(conf_load_bytes(text, strlen(text)));
    ck_assert_ptr_nonnull(strstr(conf_errors.lines[0], "longer than 63 characters"));
    mem_free(text);
    mem_free(pair);
    memset(host, 'a', sizeof host);
    for (size_t i = 1; i < sizeof host; i += 2) {
        host[i] = '.';
    }
    host[255] = '\0';
    text = mem_printf("[destination x]\nhosts = %s\n", host);
    ck_assert_ptr_null(conf_load_bytes(text, strlen(text)));
    ck_assert_ptr_nonnull(strstr(conf_errors.lines[0], "longer than 253 characters"));
    mem_free(text);
    conf_clear();
}
END_TEST

START_TEST(a_private_address_is_a_rule_only_where_it_may_be_connected_to)
{
    conf_expect("[destination 127.0.0.1:8080]\n",
                "f.ini:1: [destination 127.0.0.1:8080]: 127.0.0.1: a private address, "
                "which private_upstreams in [proxy] refuses: "
                "nothing can reach this");
    conf_expect(
        "[proxy]\nprivate_upstreams = 10.0.0.0/8\n[destination x]\nhosts = 10.1.1.1, 192.168.0.1\n",
        "f.ini:4: [destination x] hosts: 192.168.0.1: a private address, which private_upstreams in [proxy] refuses: "
        "nothing can reach this");
    conf_free(conf_load_good("[destination 127.0.0.1:8080]\n[proxy]\nprivate_upstreams = allow\n"));
    conf_free(conf_load_good("[destination 10.0.0.1]\n[proxy]\nprivate_upstreams = 10.0.0.0/8\n"));
    conf_expect_warning("[destination localhost:80]\n",
                        "f.ini:1: [destination localhost:80]: localhost: usually a loopback address");
}
END_TEST

/* ---- Redis ---- */

static struct conf *load_url(const char *url)
{
    char *text = mem_printf("[redis]\nurl = %s\n", url);
    struct conf *conf = conf_load_good(text);

    mem_free(text);
    return conf;
}

START_TEST(redis_urls_are_taken_apart)
{
    struct conf *conf = load_url("redis://us%20er:p%40ss%25@r.example.com:7000/3");
    ck_assert_str_eq(conf->redis.user, "us er");
    ck_assert_str_eq(conf->redis.password, "p@ss%");
    ck_assert_str_eq(conf->redis.host, "r.example.com");
    ck_assert_uint_eq(conf->redis.port, 7000);
    ck_assert_int_eq(conf->redis.database, 3);
    ck_assert(!conf->redis.tls);
    ck_assert_str_eq(conf->redis.url, "redis://us%20er:***@r.example.com:7000/3");
    ck_assert_str_eq(conf->redis.prefix, "sluice");
    conf_free(conf);

    conf = load_url("rediss://:secret@[::1]");
    ck_assert_ptr_null(conf->redis.user);
    ck_assert_str_eq(conf->redis.password, "secret");
    ck_assert_str_eq(conf->redis.host, "::1");
    ck_assert_uint_eq(conf->redis.port, 6379);
    ck_assert(conf->redis.tls);
    conf_free(conf);

    conf = load_url("redis://127.0.0.1/");
    ck_assert_ptr_null(conf->redis.password);
    ck_assert_str_eq(conf->redis.url, "redis://127.0.0.1:6379/0");
    conf_free(conf);

    conf = load_url("unix:///run/redis.sock");
    ck_assert(conf->redis.unix_socket);
    ck_assert_str_eq(conf->redis.host, "/run/redis.sock");
    ck_assert_str_eq(conf->redis.url, "unix:/run/redis.sock");
    conf_free(conf);
}
END_TEST

START_TEST(redis_urls_of_several_servers_are_taken_apart)
{
    struct conf *conf = load_url("sentinel://u:p@s1,s2:5000,[::1]:5001/my-master_1/3");
    ck_assert_int_eq(conf->redis.kind, REDIS_SENTINEL);
    ck_assert_uint_eq(conf->redis.hosts_count, 3);
    ck_assert_str_eq(conf->redis.hosts[0].host, "s1");
    ck_assert_uint_eq(conf->redis.hosts[0].port, 26379);
    ck_assert_uint_eq(conf->redis.hosts[1].port, 5000);
    ck_assert_str_eq(conf->redis.hosts[2].host, "::1");
    ck_assert_str_eq(conf->redis.master, "my-master_1");
    ck_assert_int_eq(conf->redis.database, 3);
    ck_assert(!conf->redis.tls);
    ck_assert_str_eq(conf->redis.url, "sentinel://u:***@s1:26379,s2:5000,[::1]:5001/my-master_1/3");
    conf_free(conf);

    conf = load_url("clusters://:p@a,b:7001");
    ck_assert_int_eq(conf->redis.kind, REDIS_CLUSTER);
    ck_assert(conf->redis.tls);
    ck_assert_uint_eq(conf->redis.hosts[0].port, 6379);
    ck_assert_uint_eq(conf->redis.hosts[1].port, 7001);
    ck_assert_str_eq(conf->redis.url, "clusters://:***@a:6379,b:7001");
    conf_free(conf);

    conf = load_url("sentinels://h/m");
    ck_assert(conf->redis.tls);
    ck_assert_str_eq(conf->redis.url, "sentinels://h:26379/m/0");
    conf_free(conf);
}
END_TEST

START_TEST(a_copy_of_redis_settings_has_everything_of_its_own)
{
    struct conf *conf = conf_load_good("[redis]\nurl = sentinels://u:p@s1,s2/m\nca_file = /ca\nclient_cert = /c\n");
    struct redis_conf copy;

    redis_conf_copy(&copy, &conf->redis);
    conf_free(conf);
    ck_assert_str_eq(copy.hosts[1].host, "s2");
    ck_assert_str_eq(copy.master, "m");
    ck_assert_str_eq(copy.password, "p");
    ck_assert_str_eq(copy.ca_file, "/ca");
    ck_assert_str_eq(copy.client_cert, "/c");
    ck_assert_ptr_null(copy.sentinel_password);
    redis_conf_fini(&copy);
    ck_assert_ptr_null(copy.password);
}
END_TEST

START_TEST(settings_of_redis_before_its_url_are_kept)
{
    struct conf *conf = conf_load_good("[redis]\nprefix = p\ntimeout = 50ms\nurl = redis://h\nconnect_timeout = 3s\n");

    ck_assert_str_eq(conf->redis.prefix, "p");
    ck_assert_int_eq(conf->redis.timeout_us, 50000);
    ck_assert_int_eq(conf->redis.connect_timeout_us, 3000000);
    conf_free(conf);
}
END_TEST

START_TEST(redis_urls_that_are_wrong_are_refused_without_showing_them)
{
    static const struct {
        const char *url, *reason;
    } cases[] = {
        {"http://h",
         "neither redis://HOST, rediss://HOST, unix:/PATH, sentinel://HOST,HOST/NAME nor cluster://HOST,HOST"},
        {"${REDIS_URL}", "variables of the environment are not filled in here"},
        {"redis://", "the host is missing"},
        {"redis://:6379", "the host is missing or not a name or address"},
        {"redis://secret@h", "what stands before @ is user:password or :password"},
        {"redis://user:@h", "what stands before @ is user:password or :password"},
        {"redis://u:secret%4@h", "a % in user or password is not followed by two hexadecimal digits"},
        {"redis://u:secret%00@h", "a % in user or password is not followed by two hexadecimal digits"},
        {"redis://u:sec/ret@h", "a / in user or password is written %2F"},
        {"redis://h:0", "the port is not a number from 1 to 65535"},
        {"redis://h:", "the port is not a number from 1 to 65535"},
        {"redis://[::1]x", "the host is not an IPv6 address in brackets"},
        {"redis://[::1", "the host is not an IPv6 address in brackets"},
        {"redis://[", "the host is not an IPv6 address in brackets"},
        {"redis://h/x", "what follows the / is not a database from 0 to 65535"},
        {"redis://h/0?x=1", "what follows the / is not a database from 0 to 65535"},
        {"redis://a,b", "several hosts: write sentinel://HOST,HOST/NAME or cluster://HOST,HOST"},
        {"sentinel://", "the host is missing"},
        {"sentinel://a,b", "the primary's name, as the sentinels know it, is missing"},
        {"sentinel://a,b/na me", "the primary's name, as the sentinels know it, is missing"},
        {"sentinel://a,b/m/x", "what follows the / is not a database from 0 to 65535"},
        {"sentinel://secret@a/m", "what stands before @ is user:password or :password"},
        {"sentinel://a,,b/m", "the host is missing or not a name or address"},
        {"cluster://a/1", "a cluster has no databases: nothing follows the hosts"},
        {"cluster://1,2,3,4,5,6,7,8,9,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y", "more than 32 hosts"},
        {"sentinel:/a/m", "neither redis://HOST, rediss://HOST, unix:/PATH, sentinel://HOST,HOST/NAME nor "
                          "cluster://HOST,HOST; did you mean sentinel?"},
        {"unix:relative", "unix: is followed by an absolute path"},
        {"unix:/", "unix: is followed by an absolute path"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = mem_printf("[redis]\nurl = %s\n", cases[i].url);
        char *start = mem_printf("f.ini:2: [redis] url: %s", cases[i].reason);
        ck_assert_ptr_null(conf_load_bytes(text, strlen(text)));
        ck_assert_uint_eq(conf_errors.count, 1);
        ck_assert_msg(strncmp(conf_errors.lines[0], start, strlen(start)) == 0, "%s: %s", cases[i].url,
                      conf_errors.lines[0]);
        ck_assert_ptr_null(strstr(conf_errors.lines[0], "secret"));
        mem_free(text);
        mem_free(start);
    }
    conf_clear();
    conf_expect("[redis]\ntimeout = 1s\n",
                "f.ini:1: [redis]: url is missing; leave the section out to do without Redis");
    conf_expect("[redis]\nurl = redis://h\nprefix = a b\n",
                "f.ini:3: [redis] prefix: a prefix is at most 64 printable ASCII "
                "characters without spaces and braces");
    conf_expect("[redis]\nurl = redis://h\nprefix = {a}\n",
                "f.ini:3: [redis] prefix: a prefix is at most 64 printable ASCII "
                "characters without spaces and braces");
}
END_TEST

/* ---- settings that contradict each other ---- */

START_TEST(contradictions_are_refused_where_they_are_written)
{
    conf_expect("[default]\nlate = 500ms\nhorizon = 100ms\n",
                "f.ini:3: [default] horizon: the horizon of 100ms is shorter than late, 500ms: make it at least that "
                "long");
    conf_expect(
        "[destination a.com]\nlate = 1s\n[default]\nhorizon = 1s\n[destination b.com]\nhorizon = 10ms\nlate = 11ms\n",
        "f.ini:7: [destination b.com] late: the horizon of 10ms is shorter than late, 11ms: make it at least that long");
    conf_expect("[redis]\nurl = redis://h\n[default]\non_redis_down = reserve\n",
                "f.ini:4: [default] on_redis_down: on_redis_down = reserve needs outage_permits of at least 1");
    conf_expect(
        "[redis]\nurl = redis://h\n[default]\nrate = 10/s\non_redis_down = reserve\noutage_permits = "
        "3\n[destination a.com]\n",
        "f.ini:6: [default] outage_permits: 3 outage_permits for each of 4 replicas_max are 12, more than the 10 of "
        "rate: lower one of the two");
    conf_expect(
        "[redis]\nurl = redis://h\n[default]\non_redis_down = reserve\noutage_permits = 1\n[destination "
        "a.com]\nrate = 4/s\n",
        "f.ini:7: [destination a.com] rate: 1 outage_permits for each of 4 replicas_max are all of rate, nothing is "
        "left while Redis is there: lower one of the two");
}
END_TEST

START_TEST(choices_with_surprises_are_warned_of)
{
    conf_expect_warning("[proxy]\nlisten = 0.0.0.0:3128\n",
                        "f.ini:2: [proxy] listen: whoever can reach 0.0.0.0:3128 can use this proxy");
    conf_expect_warning("[default]\non_redis_down = reject\n",
                        "f.ini:2: [default] on_redis_down: has no effect without [redis]");
    conf_expect_warning("[redis]\nurl = redis://h\n[default]\non_redis_down = open\n",
                        "everything leaves at once, unpaced");
    conf_expect_warning("[default]\noutage_permits = 1\n", "has no effect without on_redis_down = reserve");
    conf_expect_warning("[default]\nrate = 1/1h\n", "max_wait of 30s is shorter than the 3603615.015 ms between slots");
    conf_expect_warning("[default]\nrate = 1/20ms\n", "which uses 57% of the rate");
    conf_expect_warning("[default]\nrate = 100/s\nstrict = gap\n", "strict = window costs less");
    conf_expect_warning(
        "[redis]\nurl = redis://h\n[default]\nstrict = gap\non_redis_down = reserve\noutage_permits = 1\n",
        "keeps the rate but not the gaps");
    struct conf *conf =
        conf_load_good("[proxy]\nlisten = 0.0.0.0:1\nallow_clients = 10.0.0.0/8\n[default]\non_redis_down = hold\n");
    ck_assert_uint_eq(conf_warnings.count, 0);
    conf_free(conf);
}
END_TEST

static TCase *values_case(void)
{
    TCase *values = tcase_create("values");

    tcase_add_test(values, numbers_out_of_range_are_told_the_range);
    tcase_add_test(values, the_ends_of_a_range_are_allowed);
    tcase_add_test(values, rates_are_refused_with_advice);
    tcase_add_test(values, rates_keep_the_period_that_is_written);
    tcase_add_test(values, choices_list_what_is_allowed);
    tcase_add_test(values, addresses_to_listen_on_are_refused_with_advice);
    tcase_add_test(values, port_and_address_lists_are_read);
    tcase_add_test(values, hosts_are_brought_into_one_form);
    tcase_add_test(values, hosts_that_nothing_can_reach_are_refused);
    tcase_add_test(values, names_too_long_for_dns_are_refused);
    tcase_add_test(values, a_private_address_is_a_rule_only_where_it_may_be_connected_to);
    tcase_add_test(values, redis_urls_are_taken_apart);
    tcase_add_test(values, redis_urls_of_several_servers_are_taken_apart);
    tcase_add_test(values, a_copy_of_redis_settings_has_everything_of_its_own);
    tcase_add_test(values, settings_of_redis_before_its_url_are_kept);
    tcase_add_test(values, redis_urls_that_are_wrong_are_refused_without_showing_them);
    tcase_add_test(values, contradictions_are_refused_where_they_are_written);
    tcase_add_test(values, choices_with_surprises_are_warned_of);
    return values;
}

int main(void)
{
    Suite *suite = suite_create("conf values");

    suite_add_tcase(suite, values_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
