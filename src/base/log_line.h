#ifndef SLUICE_BASE_LOG_LINE_H
#define SLUICE_BASE_LOG_LINE_H
/* Putting one line of the log together. Private to log.c and its test. */
#include "base/clock.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>

#define LOG_LINE_BYTES (8 << 10)

struct log_line {
    enum log_format format;
    size_t len;
    bool full; /* something did not fit */
    char text[LOG_LINE_BYTES];
};

/* A whole line with its newline; fields that do not fit are left out. Not NUL-terminated. */
void log_line_compose(struct log_line *line, enum log_format format, struct wall now, enum log_level level,
                      const char *event, const struct log_field *fields);

#endif
