#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H
/*
 * The log: one line per event, logfmt or JSON, written by a thread of its own so that a slow or full disk
 * never stalls the loop. Lines that do not fit the ring are dropped and counted; the loss is reported in the
 * log itself once writing works again. The process has one log (row 0 may have state of its own).
 *
 *   log_line(LOG_INFO, "listening", LOG_STR("address", text), LOG_INT("fd", fd), LOG_END);
 */
#include "base/must.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

enum log_kind { LOG_KIND_END, LOG_KIND_STR, LOG_KIND_SLICE, LOG_KIND_INT };
struct log_field {
    enum log_kind kind;
    const char *name;
    struct slice text;
    int64_t number;
};
#define LOG_STR(n, s) ((struct log_field){LOG_KIND_STR, (n), {(s), 0}, 0})
#define LOG_SLICE(n, s) ((struct log_field){LOG_KIND_SLICE, (n), (s), 0})
#define LOG_INT(n, i) ((struct log_field){LOG_KIND_INT, (n), {0, 0}, (int64_t)(i)})
#define LOG_END ((struct log_field){LOG_KIND_END, 0, {0, 0}, 0})

/* Opens the log: `path` NULL or "-" is standard error. Starts the writer. False when the file can't be opened. */
bool log_open(const char *path, enum log_format format, enum log_level least) MUST_CHECK;
/* Opens the path again, after a rotation. */
void log_reopen(void);
void log_set_level(enum log_level least);
/* Writes what is in the ring, waiting at most a second, then stops the writer. */
void log_close(void);
/* Lines dropped since the start because the ring was full or writing failed. */
uint64_t log_dropped(void);

/* `event` is a short fixed word, a literal (warnings that repeat are counted by its address); fields follow, LOG_END last.
 * Values are escaped, and cut at 512 bytes. */
#define log_line(level, event, ...) log_fields((level), (event), (const struct log_field[]){__VA_ARGS__})
void log_fields(enum log_level level, const char *event, const struct log_field *fields);

#endif
