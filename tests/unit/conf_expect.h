#ifndef SLUICE_TESTS_CONF_EXPECT_H
#define SLUICE_TESTS_CONF_EXPECT_H
/* What the tests of settings have in common: text in, settings or exact messages out. The file is called f.ini. */
#include "conf/load.h"

#include <stdio.h>

/* Of the last text that was loaded. */
extern struct err conf_errors, conf_warnings;

void conf_clear(void);
struct conf *conf_load_bytes(const char *text, size_t len);
/* Loads text that has no mistakes. */
struct conf *conf_load_good(const char *text);
/* The text is refused with exactly this one line. */
void conf_expect_bytes(const char *text, size_t len, const char *line);
void conf_expect(const char *text, const char *line);
/* "key = value" in a section is refused for a reason that starts so. */
void conf_expect_reason(const char *section, const char *pair, const char *reason);
/* The text loads with one warning that has this in it. */
void conf_expect_warning(const char *text, const char *part);
/* What conf_dump or conf_describe writes; free with free(). */
char *conf_printed(const struct conf *conf, void (*print)(const struct conf *, FILE *));

#endif
