#include "conf_expect.h"

#include "base/mem.h"

#include <check.h>
#include <string.h>

struct err conf_errors, conf_warnings;

void conf_clear(void)
{
    err_fini(&conf_errors);
    err_fini(&conf_warnings);
}

struct conf *conf_load_bytes(const char *text, size_t len)
{
    conf_clear();
    return conf_load_text("f.ini", text, len, &conf_errors, &conf_warnings);
}

/* Loads text that has no mistakes. */
struct conf *conf_load_good(const char *text)
{
    struct conf *conf = conf_load_bytes(text, strlen(text));

    err_print(&conf_errors, "unexpected: ");
    ck_assert_ptr_nonnull(conf);
    ck_assert(!err_any(&conf_errors));
    return conf;
}

/* The text is refused with exactly this one line. */
void conf_expect_bytes(const char *text, size_t len, const char *line)
{
    ck_assert_ptr_null(conf_load_bytes(text, len));
    if (conf_errors.count != 1 || strcmp(conf_errors.lines[0], line) != 0) {
        err_print(&conf_errors, "got: ");
    }
    ck_assert_uint_eq(conf_errors.count, 1);
    ck_assert_str_eq(conf_errors.lines[0], line);
    conf_clear();
}

void conf_expect(const char *text, const char *line)
{
    conf_expect_bytes(text, strlen(text), line);
}

/* "key = value" in a section is refused for a reason that starts so. */
void conf_expect_reason(const char *section, const char *pair, const char *reason)
{
    char *text = mem_printf("[%s]\n%s\n", section, pair);
    char *start = mem_printf("f.ini:2: [%s] %.*s: %s", section, (int)strcspn(pair, " ="), pair, reason);

    ck_assert_ptr_null(conf_load_bytes(text, strlen(text)));
    ck_assert_uint_ge(conf_errors.count, 1);
    if (strncmp(conf_errors.lines[0], start, strlen(start)) != 0) {
        ck_abort_msg("wanted \"%s\", got \"%s\"", start, conf_errors.lines[0]);
    }
    mem_free(text);
    mem_free(start);
    conf_clear();
}

void conf_expect_warning(const char *text, const char *part)
{
    struct conf *conf = conf_load_good(text);

    ck_assert_uint_eq(conf_warnings.count, 1);
    ck_assert_msg(strstr(conf_warnings.lines[0], part) != NULL, "\"%s\" lacks \"%s\"", conf_warnings.lines[0], part);
    conf_free(conf);
    conf_clear();
}

char *conf_printed(const struct conf *conf, void (*print)(const struct conf *, FILE *))
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    print(conf, out);
    fclose(out);
    return text;
}
