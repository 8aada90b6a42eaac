/* links: src/http/message.c src/base/mem.c src/base/must.c src/base/str.c */
#include "http/message.h"

#include "base/mem.h"

#include <check.h>
#include <string.h>

static struct message *message_of(const char *const *lines, unsigned count)
{
    struct message *m = mem_zalloc(sizeof(*m));

    m->head = mem_strdup("");
    m->fields = mem_zalloc((count + 1) * sizeof(*m->fields));
    m->fields_count = count;
    for (unsigned i = 0; i < count; i++) {
        m->fields[i].name = slice_of(lines[i * 2]);
        m->fields[i].value = slice_of(lines[i * 2 + 1]);
    }
    return m;
}

static const char *const lines[] = {"Accept", "a", "X-List", "one, \"two, three\" ,, four",
                                    "ACCEPT", "b", "x-list", "five"};

START_TEST(the_first_field_of_a_name_is_found_whatever_its_case)
{
    struct message *m = message_of(lines, 4);

    ck_assert_ptr_eq(message_field(m, "accept"), &m->fields[0]);
    ck_assert_ptr_eq(message_field(m, "X-LIST"), &m->fields[1]);
    ck_assert_ptr_null(message_field(m, "X-Lis"));
    ck_assert_ptr_null(message_field(m, "X-Lists"));
    ck_assert_ptr_null(message_field(m, ""));
    message_free(m);
}
END_TEST

START_TEST(tokens_are_looked_for_in_all_fields_of_the_name)
{
    struct message *m = message_of(lines, 4);

    ck_assert(message_has_token(m, "X-List", "ONE"));
    ck_assert(message_has_token(m, "x-list", "four"));
    ck_assert(message_has_token(m, "x-list", "five"));
    ck_assert(!message_has_token(m, "x-list", "fiv"));
    ck_assert(!message_has_token(m, "Accept", "five"));
    message_free(m);
}
END_TEST

START_TEST(a_comma_in_quotes_separates_nothing)
{
    struct message *m = message_of(lines, 4);

    ck_assert(!message_has_token(m, "X-List", "two"));
    ck_assert(!message_has_token(m, "X-List", "three"));
    ck_assert(message_has_token(m, "X-List", "\"two, three\""));
    message_free(m);
}
END_TEST

START_TEST(a_message_without_fields_has_none)
{
    struct message *m = message_of(lines, 0);

    ck_assert_ptr_null(message_field(m, "Accept"));
    ck_assert(!message_has_token(m, "Accept", "a"));
    message_free(m);
    message_free(NULL);
}
END_TEST

START_TEST(a_field_is_set_in_the_place_of_the_first_or_at_the_end)
{
    struct message *m = message_of(lines, 4);

    message_set_field(m, "x-LIST", "six");
    ck_assert_uint_eq(m->fields_count, 3);
    ck_assert(slice_is(m->fields[1].name, "x-LIST") && slice_is(m->fields[1].value, "six"));
    ck_assert(slice_is(m->fields[2].value, "b"));
    message_set_field(m, "New", "7");
    ck_assert_uint_eq(m->fields_count, 4);
    ck_assert(slice_is(m->fields[3].value, "7"));
    message_free(m);
}
END_TEST

START_TEST(a_field_that_was_set_is_told_from_those_that_came)
{
    struct message *m = message_of(lines, 1);

    mem_free(m->head);
    m->head = mem_strdup("Accept: a");
    m->head_bytes = 9;
    m->fields[0] = (struct field){{m->head, 6}, {NULL, 0}};
    message_set_field(m, "B", "b");
    ck_assert(!message_is_ours(m, &m->fields[0]));
    ck_assert(message_is_ours(m, &m->fields[1]));
    message_free(m);
}
END_TEST

START_TEST(every_field_of_a_dropped_name_goes)
{
    struct message *m = message_of(lines, 4);

    message_drop_field(m, "accept");
    ck_assert_uint_eq(m->fields_count, 2);
    ck_assert(slice_is(m->fields[1].value, "five"));
    message_drop_field(m, "none");
    ck_assert_uint_eq(m->fields_count, 2);
    message_free(m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tc = tcase_create("message");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, the_first_field_of_a_name_is_found_whatever_its_case);
    tcase_add_test(tc, tokens_are_looked_for_in_all_fields_of_the_name);
    tcase_add_test(tc, a_comma_in_quotes_separates_nothing);
    tcase_add_test(tc, a_message_without_fields_has_none);
    tcase_add_test(tc, a_field_is_set_in_the_place_of_the_first_or_at_the_end);
    tcase_add_test(tc, a_field_that_was_set_is_told_from_those_that_came);
    tcase_add_test(tc, every_field_of_a_dropped_name_goes);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
