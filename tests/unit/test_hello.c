/* links: src/upstream/hello.c src/base/buf.c src/base/mem.c src/base/must.c */
#include "tls_records.h"
#include "upstream/hello.h"

#include <check.h>
#include <stdlib.h>

static enum hello read_client(const struct buf *b, size_t len, struct client_hello *out)
{
    return hello_read_client((const uint8_t *)buf_ptr(b), len, out);
}

START_TEST(name_alpn_and_early_data_are_read)
{
    struct client_hello hello;
    struct buf b = {0};

    add_client_hello(&b, "API.Example.test.", true, true, 16384);
    ck_assert_int_eq(read_client(&b, buf_len(&b), &hello), HELLO_DONE);
    ck_assert(hello.has_sni && !hello.bad_sni && hello.offers_h2 && hello.early_data);
    ck_assert_str_eq(hello.sni, "api.example.test");
    buf_fini(&b);
    add_client_hello(&b, NULL, false, false, 16384);
    ck_assert_int_eq(read_client(&b, buf_len(&b), &hello), HELLO_DONE);
    ck_assert(!hello.has_sni && !hello.offers_h2 && !hello.early_data);
    buf_fini(&b);
}
END_TEST

START_TEST(it_is_complete_at_its_last_byte_and_not_before)
{
    static const size_t pieces[] = {16384, 64, 5, 1};
    struct client_hello hello;

    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct buf b = {0};
        add_client_hello(&b, "api.test", true, false, pieces[i]);
        for (size_t len = 0; len < buf_len(&b); len++) {
            /* memory of just that size, so that the sanitizers see one byte too many */
            uint8_t *copy = malloc(len + 1);
            memcpy(copy, buf_ptr(&b), len);
            uint8_t *exact = realloc(copy, len > 0 ? len : 1);
            ck_assert_int_eq(hello_read_client(exact, len, &hello), HELLO_MORE);
            free(exact);
        }
        ck_assert_int_eq(read_client(&b, buf_len(&b), &hello), HELLO_DONE);
        ck_assert_str_eq(hello.sni, "api.test");
        buf_fini(&b);
    }
}
END_TEST

START_TEST(odd_names_are_bad_names)
{
    static const struct {
        const char *name;
        size_t len;
    } names[] = {{"", 0}, {".", 1}, {"a b", 3}, {"a\0b", 3}, {"\xc3\xa9", 2}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct buf extensions = {0}, message = {0}, b = {0};
        struct client_hello hello;
        add_sni(&extensions, names[i].name, names[i].len);
        add_hello_message(&message, 1, &extensions);
        add_in_records(&b, &message, 16384);
        ck_assert_int_eq(read_client(&b, buf_len(&b), &hello), HELLO_DONE);
        ck_assert(hello.has_sni && hello.bad_sni);
        ck_assert_str_eq(hello.sni, "");
        buf_fini(&extensions);
        buf_fini(&message);
        buf_fini(&b);
    }
}
END_TEST

START_TEST(two_names_are_a_bad_name)
{
    static const char *const seconds[] = {"api.test", "other.test", ""};

    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        struct buf extensions = {0}, message = {0}, b = {0};
        struct client_hello hello;
        add_sni(&extensions, "api.test", 8);
        add_sni(&extensions, seconds[i], strlen(seconds[i]));
        add_hello_message(&message, 1, &extensions);
        add_in_records(&b, &message, 16384);
        ck_assert_int_eq(read_client(&b, buf_len(&b), &hello), HELLO_DONE);
        ck_assert(hello.has_sni && hello.bad_sni);
        ck_assert_str_eq(hello.sni, "");
        buf_fini(&extensions);
        buf_fini(&message);
        buf_fini(&b);
    }
}
END_TEST

START_TEST(a_hello_of_several_records_and_many_bytes_is_read)
{
    struct buf extensions = {0}, message = {0}, b = {0};
    struct client_hello hello;
    static const char padding[20000];

    add_extension(&extensions, 21, padding, sizeof(padding));
    add_sni(&extensions, "api.test", 8);
    add_hello_message(&message, 1, &extensions);
    add_in_records(&b, &message, 16384);
    ck_assert_int_eq(read_client(&b, buf_len(&b), &hello), HELLO_DONE);
    ck_assert_str_eq(hello.sni, "api.test");
    buf_fini(&extensions);
    buf_fini(&message);
    buf_fini(&b);
}
END_TEST

START_TEST(what_can_be_no_hello_is_said_early)
{
    static const struct {
        const char *bytes;
        size_t len;
    } others[] = {
        {"\x16x", 2},                                     /* no version */
        {"\x16\x03\x01\x00\x00", 5},                      /* an empty record */
        {"\x16\x03\x01\xff\xff", 5},                      /* too long */
        {"\x16\x03\x01\x00\x05\x02", 6},                  /* a ServerHello */
        {"\x16\x03\x01\x00\x05\x01\xff\xff\xff", 9},      /* 16 MiB */
        {"\x16\x03\x01\x00\x01\x01\x17\x03\x03\0\1", 11}, /* data in its middle */
    };
    struct client_hello hello;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        ck_assert_msg(hello_read_client((const uint8_t *)others[i].bytes, others[i].len, &hello) == HELLO_BAD,
                      "case %zu", i);
    }
}
END_TEST

START_TEST(a_server_hello_tells_the_version)
{
    for (int tls13 = 0; tls13 < 2; tls13++) {
        struct buf b = {0};
        bool found;
        add_server_hello(&b, tls13);
        const uint8_t *message = (const uint8_t *)buf_ptr(&b) + 5;
        for (size_t len = 0; len < buf_len(&b) - 5; len++) {
            ck_assert_int_eq(hello_read_server(message, len, &found), HELLO_MORE);
        }
        ck_assert_int_eq(hello_read_server(message, buf_len(&b) - 5, &found), HELLO_DONE);
        ck_assert_int_eq(found, tls13);
        buf_fini(&b);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hello");
    TCase *tcase = tcase_create("reading");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, name_alpn_and_early_data_are_read);
    tcase_add_test(tcase, it_is_complete_at_its_last_byte_and_not_before);
    tcase_add_test(tcase, odd_names_are_bad_names);
    tcase_add_test(tcase, two_names_are_a_bad_name);
    tcase_add_test(tcase, a_hello_of_several_records_and_many_bytes_is_read);
    tcase_add_test(tcase, what_can_be_no_hello_is_said_early);
    tcase_add_test(tcase, a_server_hello_tells_the_version);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
