#ifndef SLUICE_ADMIN_TABLE_H
#define SLUICE_ADMIN_TABLE_H
/* The status as lines of text, for `sluice status` and `sluice top`. What is missing in the JSON shows as nothing. */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_COLUMNS = 10, TABLE_CELL_BYTES = 48, TABLE_NAME = 0, TABLE_STATE = 1 };
struct table_line {
    char cell[TABLE_COLUMNS][TABLE_CELL_BYTES];
};

/* Fits 80 columns and grows with its content. */
extern const char *const table_heads[TABLE_COLUMNS];
/* Of one element of "destinations". `before`: the same a second earlier, NULL = none; the speeds are from the
 * difference. */
void table_row(const json_t *row, const json_t *before, struct table_line *out);
/* The lines above the table: the process, Redis, the fleet. */
enum { TABLE_TOP_LINES = 3, TABLE_TOP_BYTES = 200 };
void table_top(const json_t *status, char out[TABLE_TOP_LINES][TABLE_TOP_BYTES]);
/* "1.5 s", "3 min 20 s" */
void table_span(int64_t us, char *out, size_t out_bytes);
/* All of it; `only` NULL: every destination. How many were shown. */
unsigned table_print(const json_t *status, const char *only, FILE *out);

#endif
