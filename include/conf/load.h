#ifndef SLUICE_CONF_LOAD_H
#define SLUICE_CONF_LOAD_H
/* Reading settings from an INI file, checking them, and printing them back. */
#include "base/err.h"
#include "conf/policy.h"

#include <stdio.h>

/* Reads and checks the whole file; NULL and at least one line in `err` ("FILE:LINE: [section] key: reason") on any
 * mistake. Warnings (also lines) do not fail. The caller frees with conf_free(). */
struct conf *conf_load(const char *path, struct err *err, struct err *warnings) MUST_CHECK;
/* The same from memory; `name` stands for the file in messages. */
struct conf *conf_load_text(const char *name, const char *text, size_t len, struct err *err,
                            struct err *warnings) MUST_CHECK;
void conf_free(struct conf *conf);
/* Marks everything in it; later settings have a higher one. */
void conf_set_version(struct conf *conf, uint64_t version);

/* Every setting in force as an INI file that loads to the same settings; passwords masked. */
void conf_dump(const struct conf *conf, FILE *out);
/* Per destination: hosts, interval, limits, how HTTPS is seen, what happens without Redis; for --check and startup. */
void conf_describe(const struct conf *conf, FILE *out);
/* What is metered of a destination's HTTPS, in one sentence. */
const char *conf_https_text(const struct policy *policy);
/* Every key with type, default, range and help, from the key table. */
void conf_help(FILE *out);
/* The same as a manual page, sluice.ini(5). */
void conf_manual(FILE *out);

#endif
