/*
 * Structure is checked while the file is read and values afterwards, so mistakes are not found in the order of the
 * file; here they get it back, because a reader works through a file from the top.
 */
#include "conf/report.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SHOWN_BYTES 60

static char *describe_place(const struct place *place)
{
    const char *name = place->report->name;
    char *at = place->line > 0 ? mem_printf("%s:%u:", name, place->line) : mem_printf("%s:", name);
    char *full;

    if (place->section == NULL) {
        return at;
    }
    if (place->key == NULL) {
        full = mem_printf("%s [%s]:", at, place->section);
    } else {
        full = mem_printf("%s [%s] %s:", at, place->section, place->key);
    }
    mem_free(at);
    return full;
}

static void add(struct remarks *remarks, const struct place *place, const char *format, va_list args)
{
    char reason[1024];
    char *where = describe_place(place);

    (void)vsnprintf(reason, sizeof reason, format, args);
    if (remarks->count == remarks->cap) {
        remarks->cap = remarks->cap * 2 + 8;
        remarks->list = mem_realloc(remarks->list, remarks->cap * sizeof *remarks->list);
    }
    remarks->list[remarks->count++] = (struct remark){place->line, mem_printf("%s %s", where, reason)};
    mem_free(where);
}

void report_error(const struct place *place, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(&place->report->errors, place, format, args);
    va_end(args);
}

void report_warning(const struct place *place, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(&place->report->warnings, place, format, args);
    va_end(args);
}

struct order {
    unsigned line;
    size_t found; /* keeps the sort stable */
};

static int by_line(const void *left, const void *right)
{
    const struct order *a = left, *b = right;

    if (a->line != b->line) {
        return a->line < b->line ? -1 : 1;
    }
    return a->found < b->found ? -1 : 1;
}

static void hand_out(struct remarks *remarks, struct err *err)
{
    struct order *order = mem_alloc(remarks->count * sizeof *order);

    for (size_t i = 0; i < remarks->count; i++) {
        order[i] = (struct order){remarks->list[i].line, i};
    }
    qsort(order, remarks->count, sizeof *order, by_line);
    for (size_t i = 0; i < remarks->count && err != NULL; i++) {
        err_add(err, "%s", remarks->list[order[i].found].text);
    }
    for (size_t i = 0; i < remarks->count; i++) {
        mem_free(remarks->list[i].text);
    }
    mem_free(order);
    mem_free(remarks->list);
    *remarks = (struct remarks){NULL, 0, 0};
}

void report_finish(struct report *report, struct err *err, struct err *warnings)
{
    hand_out(&report->errors, err);
    hand_out(&report->warnings, warnings);
}

int report_shown_bytes(struct slice text)
{
    size_t len = text.len;

    if (len > SHOWN_BYTES) {
        len = SHOWN_BYTES;
        while (len > 0 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80) {
            len--; /* not through the middle of a character */
        }
    }
    return (int)len;
}
