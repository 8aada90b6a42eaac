#include "base/err.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

/* A setting's value is quoted in its error; one with a line break or an escape sequence in it must not draw on the
 * reader's terminal or pass for a line of its own. */
static void blank_controls(char *line)
{
    for (; *line != '\0'; line++) {
        if ((unsigned char)*line < ' ' || *line == 0x7f) {
            *line = '?';
        }
    }
}

void err_add(struct err *err, const char *format, ...)
{
    va_list args;
    char *line = NULL;

    va_start(args, format);
    int len = vasprintf(&line, format, args);
    va_end(args);
    must(len >= 0);
    blank_controls(line);
    err->lines = mem_realloc(err->lines, (err->count + 1) * sizeof(err->lines[0]));
    err->lines[err->count++] = line;
}

void err_print(const struct err *err, const char *prefix)
{
    for (size_t i = 0; i < err->count; i++) {
        fprintf(stderr, "%s%s\n", prefix, err->lines[i]);
    }
}

void err_fini(struct err *err)
{
    for (size_t i = 0; i < err->count; i++) {
        mem_free(err->lines[i]);
    }
    mem_free(err->lines);
    *err = (struct err){0};
}
