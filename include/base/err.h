#ifndef SLUICE_BASE_ERR_H
#define SLUICE_BASE_ERR_H
/* Mistakes found while reading settings: all of them are collected, one line each, then shown together. */
#include "base/must.h"

#include <stdbool.h>
#include <stddef.h>

struct err {
    char **lines; /* owned, NUL-terminated, without newline */
    size_t count;
};

/* Adds one formatted line. */
void err_add(struct err *err, const char *format, ...) PRINTF_LIKE(2, 3);
static inline bool err_any(const struct err *err)
{
    return err->count > 0;
}
/* Writes every line to standard error after `prefix`. */
void err_print(const struct err *err, const char *prefix);
void err_fini(struct err *err);

#endif
