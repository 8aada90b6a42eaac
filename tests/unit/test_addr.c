/* links: src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c */
#include "base/addr.h"

#include <check.h>
#include <string.h>
#include <sys/un.h>

static struct slice s(const char *text)
{
    return slice_of(text);
}

static struct addr ip(const char *text)
{
    struct addr addr;

    ck_assert_msg(addr_parse_literal(s(text), 80, &addr), "%s", text);
    return addr;
}

static const char *shown(const struct addr *addr, bool ip_only)
{
    static char text[ADDR_TEXT_BYTES];

    addr_format(addr, ip_only, text);
    return text;
}

/* ---- text ---- */

START_TEST(literals_parse_and_show_in_canonical_text)
{
    struct addr addr = ip("127.0.0.1");

    ck_assert_uint_eq(addr.len, sizeof(struct sockaddr_in));
    ck_assert_uint_eq(addr_port(&addr), 80);
    ck_assert_str_eq(shown(&addr, true), "127.0.0.1");
    ck_assert_str_eq(shown(&addr, false), "127.0.0.1:80");
    addr = ip("2001:DB8:0:0::1");
    ck_assert_uint_eq(addr.len, sizeof(struct sockaddr_in6));
    ck_assert_str_eq(shown(&addr, true), "2001:db8::1");
    ck_assert_str_eq(shown(&addr, false), "[2001:db8::1]:80");
    addr = ip("[::1]");
    ck_assert_str_eq(shown(&addr, true), "::1");
}
END_TEST

START_TEST(what_is_not_a_plain_literal_is_refused)
{
    static const char *const bad[] = {
        "",
        "localhost",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "0177.0.0.1",
        "127.0.0.1.",
        " 127.0.0.1",
        "1.2.3.256",
        "[127.0.0.1]",
        "[::1",
        "::1]",
        "[]",
        "fe80::1%1",
        "fe80::1%eth0",
        "::1/128",
        ":",
        "1:2:3",
        "::12345",
        "1::2::3",
        "1.2.3.4:80",
        "1:2:3:4:5:6:7:8:9",
        "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000",
    };
    struct addr addr;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!addr_parse_literal(s(bad[i]), 80, &addr), "%s", bad[i]);
    }
    ck_assert(!addr_parse_literal((struct slice){"1.2.3.4\0x", 9}, 80, &addr));
}
END_TEST

START_TEST(an_address_with_port_needs_both)
{
    struct addr addr;

    ck_assert(addr_parse_with_port(s("127.0.0.1:3128"), &addr));
    ck_assert_str_eq(shown(&addr, false), "127.0.0.1:3128");
    ck_assert(addr_parse_with_port(s("[::1]:65535"), &addr));
    ck_assert_str_eq(shown(&addr, false), "[::1]:65535");
}
END_TEST

START_TEST(an_address_with_a_missing_or_odd_port_is_refused)
{
    static const char *const bad[] = {
        "",
        ":",
        ":80",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:8o",
        "[::1]",
        "[::1]:",
        "::1:80",
        "::1",
        "[127.0.0.1]:80",
        "[::1]80",
        "[::1]:80:80",
        "[fe80::1%1]:80",
        "localhost:80",
        "1.2.3.4 :80",
    };
    struct addr addr;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!addr_parse_with_port(s(bad[i]), &addr), "%s", bad[i]);
    }
}
END_TEST

START_TEST(another_family_is_shown_without_harm)
{
    struct addr addr;

    memset(&addr, 0, sizeof(addr));
    addr.sa.sa_family = AF_UNIX;
    addr.len = sizeof(struct sockaddr_un);
    ck_assert_str_eq(shown(&addr, false), "unknown");
    ck_assert_uint_eq(addr_port(&addr), 0);
    ck_assert(addr_is_private(&addr));
}
END_TEST

/* ---- ranges ---- */

static bool contains(const char *range, const char *address)
{
    struct cidr cidr;
    struct addr addr = ip(address);

    ck_assert_msg(cidr_parse(s(range), &cidr), "%s", range);
    return cidr_contains(&cidr, &addr);
}

START_TEST(a_range_holds_its_first_and_last_address_and_no_other)
{
    ck_assert(contains("10.0.0.0/8", "10.0.0.0"));
    ck_assert(contains("10.0.0.0/8", "10.255.255.255"));
    ck_assert(!contains("10.0.0.0/8", "11.0.0.0"));
    ck_assert(!contains("10.0.0.0/8", "9.255.255.255"));
    ck_assert(contains("172.16.0.0/12", "172.31.255.255"));
    ck_assert(!contains("172.16.0.0/12", "172.32.0.0"));
    ck_assert(contains("0.0.0.0/0", "255.255.255.255"));
    ck_assert(contains("fc00::/7", "fdff::1"));
    ck_assert(!contains("fc00::/7", "fe00::1"));
    ck_assert(contains("::1/128", "::1"));
    ck_assert(!contains("::1", "::2"));
    ck_assert(contains("192.0.2.1", "192.0.2.1"));
    ck_assert(!contains("192.0.2.1", "192.0.2.0"));
}
END_TEST

START_TEST(mapped_addresses_are_the_ipv4_addresses_they_map)
{
    ck_assert(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
    ck_assert(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
    ck_assert(!contains("0.0.0.0/0", "2001:db8::1"));
    ck_assert(!contains("10.0.0.0/8", "::10.1.2.3"));
}
END_TEST

START_TEST(ranges_that_are_malformed_or_have_host_bits_are_refused)
{
    static const char *const bad[] = {
        "",     "/8",     "10.0.0.0/", "10.0.0.0/33", "::/129",      "10.0.0.1/8",  "10.0.0.0/-1", "10.0.0.0/8/8",
        "10/8", "host/8", "::1/127",   "10.0.0.0/0",  "10.0.0.0/8 ", "10.0.0.0 /8", "fe80::%1/64", "1.2.3.4/31x",
    };
    struct cidr cidr;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!cidr_parse(s(bad[i]), &cidr), "%s", bad[i]);
    }
}
END_TEST

/* ---- private or public ---- */

static const char *const private_ones[] = {
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.0.0",
    "169.254.169.254",
    "169.254.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.255",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.0",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::10.0.0.1",
    "::8.8.8.8",
    "100::1",
    "100:0:0:1::1",
    "64:ff9b:1::1",
    "5f00::1",
    "fc00::1",
    "fdff:ffff::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "4000::1",
    "1fff::1",
    "2001:2::1",
    "2001:10::1",
    "2001:1ff::1",
    "2001:db8::1",
    "2001:db8:ffff::1",
    "3fff::1",
    "3fff:fff::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b::127.0.0.1",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    /* Teredo: the client's address with every bit turned over; 10.0.0.1 and 127.0.0.1; then a server at 10.0.0.1 */
    "2001:0:4136:e378:8000:63bf:f5ff:fffe",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2001:0:a00:1:8000:63bf:f7f7:f7f7",
};

static const char *const public_ones[] = {
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.1",
    "192.88.100.1",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.1",
    "203.0.114.0",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2001:db7::1",
    "2001:db9::1",
    "2606:4700::1111",
    "2a00::1",
    "3ffe::1",
    "3fff:1000::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
    "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
};

START_TEST(private_addresses_are_known)
{
    struct addr addr = ip(private_ones[_i]);

    ck_assert_msg(addr_is_private(&addr), "%s", private_ones[_i]);
}
END_TEST

START_TEST(public_addresses_are_let_through)
{
    struct addr addr = ip(public_ones[_i]);

    ck_assert_msg(!addr_is_private(&addr), "%s", public_ones[_i]);
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("addr");
    TCase *tc = tcase_create("addr");

    tcase_add_test(tc, literals_parse_and_show_in_canonical_text);
    tcase_add_test(tc, what_is_not_a_plain_literal_is_refused);
    tcase_add_test(tc, an_address_with_port_needs_both);
    tcase_add_test(tc, an_address_with_a_missing_or_odd_port_is_refused);
    tcase_add_test(tc, another_family_is_shown_without_harm);
    tcase_add_test(tc, a_range_holds_its_first_and_last_address_and_no_other);
    tcase_add_test(tc, mapped_addresses_are_the_ipv4_addresses_they_map);
    tcase_add_test(tc, ranges_that_are_malformed_or_have_host_bits_are_refused);
    tcase_add_loop_test(tc, private_addresses_are_known, 0, (int)(sizeof(private_ones) / sizeof(private_ones[0])));
    tcase_add_loop_test(tc, public_addresses_are_let_through, 0, (int)(sizeof(public_ones) / sizeof(public_ones[0])));
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
