/* links: src/base/buf.c src/base/mem.c src/base/must.c */
#include "base/buf.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void holds(const struct buf *b, const char *expected)
{
    ck_assert_uint_eq(buf_len(b), strlen(expected));
    ck_assert_mem_eq(buf_ptr(b), expected, strlen(expected));
}

START_TEST(zeroed_memory_is_an_empty_buf)
{
    struct buf b = {0};

    ck_assert_uint_eq(buf_len(&b), 0);
    buf_add(&b, "", 0);
    buf_add(&b, NULL, 0);
    buf_consume(&b, 0);
    ck_assert_ptr_null(b.data);
    buf_fini(&b);
}
END_TEST

START_TEST(bytes_come_out_in_the_order_they_went_in)
{
    struct buf b = {0};

    buf_add_str(&b, "one ");
    buf_add(&b, "two", 3);
    buf_printf(&b, " %s %d", "three", 4);
    holds(&b, "one two three 4");
    buf_consume(&b, 4);
    holds(&b, "two three 4");
    buf_add_str(&b, "!");
    holds(&b, "two three 4!");
    buf_fini(&b);
    ck_assert_uint_eq(buf_len(&b), 0);
    ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(zero_bytes_are_bytes_like_others)
{
    struct buf b = {0};

    buf_add(&b, "a\0b", 3);
    buf_add(&b, "\0", 1);
    ck_assert_uint_eq(buf_len(&b), 4);
    ck_assert_mem_eq(buf_ptr(&b), "a\0b\0", 4);
    buf_fini(&b);
}
END_TEST

START_TEST(the_memory_goes_with_the_last_byte)
{
    struct buf b = {0};

    buf_add_str(&b, "abc");
    buf_consume(&b, 2);
    ck_assert_ptr_nonnull(b.data);
    buf_consume(&b, 1);
    ck_assert_ptr_null(b.data);
    buf_add_str(&b, "again");
    holds(&b, "again");
    buf_fini(&b);
}
END_TEST

START_TEST(reserved_room_is_written_in_place)
{
    struct buf b = {0};

    buf_add_str(&b, "head ");
    char *room = buf_reserve(&b, 5000);
    memset(room, 'x', 5000);
    buf_grew(&b, 4000);
    ck_assert_uint_eq(buf_len(&b), 4005);
    ck_assert_mem_eq(buf_ptr(&b), "head x", 6);
    ck_assert_int_eq(buf_ptr(&b)[4004], 'x');
    buf_add_str(&b, "end");
    ck_assert_mem_eq(buf_ptr(&b) + 4005, "end", 3);
    buf_fini(&b);
}
END_TEST

START_TEST(room_that_is_not_used_stays_free)
{
    struct buf b = {0};

    ck_assert_ptr_nonnull(buf_reserve(&b, 100));
    buf_grew(&b, 0);
    ck_assert_uint_eq(buf_len(&b), 0);
    buf_add_str(&b, "x");
    holds(&b, "x");
    buf_fini(&b);
}
END_TEST

START_TEST(printing_may_be_long_or_empty)
{
    struct buf b = {0};

    buf_printf(&b, "%s", "");
    ck_assert_uint_eq(buf_len(&b), 0);
    buf_printf(&b, "%5000d|", 7);
    ck_assert_uint_eq(buf_len(&b), 5001);
    ck_assert_mem_eq(buf_ptr(&b) + 4999, "7|", 2);
    buf_fini(&b);
}
END_TEST

START_TEST(a_stream_through_a_buf_does_not_make_it_grow)
{
    struct buf b = {0};
    char piece[100];

    memset(piece, 'p', sizeof(piece));
    buf_add(&b, piece, sizeof(piece));
    for (int i = 0; i < 100000; i++) {
        buf_add(&b, piece, sizeof(piece));
        buf_consume(&b, sizeof(piece));
    }
    ck_assert_uint_eq(buf_len(&b), sizeof(piece));
    ck_assert_uint_le(b.cap, 4096);
    buf_fini(&b);
}
END_TEST

/* Every byte is its place in the stream, so any that is lost, doubled or moved shows. */
START_TEST(any_mixture_of_adding_and_consuming_keeps_the_stream)
{
    struct buf b = {0};
    size_t added = 0, consumed = 0;
    unsigned seed = 1;

    for (int i = 0; i < 20000; i++) {
        size_t len = (size_t)rand_r(&seed) % 700;
        if (rand_r(&seed) % 2 == 0) {
            char *room = buf_reserve(&b, len);
            for (size_t j = 0; j < len; j++) {
                room[j] = (char)((added + j) % 251);
            }
            buf_grew(&b, len);
            added += len;
        } else {
            len = len < buf_len(&b) ? len : buf_len(&b);
            for (size_t j = 0; j < len; j++) {
                ck_assert_int_eq(buf_ptr(&b)[j], (char)((consumed + j) % 251));
            }
            buf_consume(&b, len);
            consumed += len;
        }
        ck_assert_uint_eq(buf_len(&b), added - consumed);
    }
    buf_fini(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("buf");
    TCase *tc = tcase_create("buf");

    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, zeroed_memory_is_an_empty_buf);
    tcase_add_test(tc, bytes_come_out_in_the_order_they_went_in);
    tcase_add_test(tc, zero_bytes_are_bytes_like_others);
    tcase_add_test(tc, the_memory_goes_with_the_last_byte);
    tcase_add_test(tc, reserved_room_is_written_in_place);
    tcase_add_test(tc, room_that_is_not_used_stays_free);
    tcase_add_test(tc, printing_may_be_long_or_empty);
    tcase_add_test(tc, a_stream_through_a_buf_does_not_make_it_grow);
    tcase_add_test(tc, any_mixture_of_adding_and_consuming_keeps_the_stream);
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
