#ifndef SLUICE_BASE_STR_H
#define SLUICE_BASE_STR_H
/*
 * Strings and the numbers in them. The only place where text becomes a number: no strtol elsewhere.
 * Parsers return false on anything but a whole, in-range value, and then leave *out alone.
 */
#include "base/must.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of somebody else's memory; not NUL-terminated. */
struct slice {
    const char *ptr;
    size_t len;
};

struct slice slice_of(const char *text);
bool slice_is(struct slice s, const char *text);        /* exactly equal */
bool slice_is_nocase(struct slice s, const char *text); /* ASCII case-blind */
bool slice_equal_nocase(struct slice a, struct slice b);
/* Without spaces and tabs at both ends. */
struct slice slice_trim(struct slice s);
/* Cuts the next element off a comma-separated list, trimmed; empty elements are skipped. False at the end.
 * Commas inside "quoted strings" do not separate (RFC 9110 section 5.6.1). */
bool slice_next_element(struct slice *list, struct slice *element);

/* Decimal digits only: no sign, no space. */
bool str_parse_u64(struct slice s, uint64_t *out) MUST_CHECK;
bool str_parse_port(struct slice s, uint16_t *out) MUST_CHECK; /* 1 to 65535 */
/* "250ms", "1s", "5m", "1h", "1d", fractions as "1.5s"; a unit is required except for 0. */
bool str_parse_duration_us(struct slice s, int64_t *out) MUST_CHECK;
/* "512", "64k", "10m", "1g": powers of 1024. */
bool str_parse_size_bytes(struct slice s, int64_t *out) MUST_CHECK;

/* "2.5/s", "5000/1h", "1/3s", "0.33/s" as whole numbers in lowest terms: 5 per 2 s, 5000 per 1 h, ... */
struct rate {
    int64_t count;
    int64_t period_us;
};
bool str_parse_rate(struct slice s, struct rate *out) MUST_CHECK;

/* Formats into `out` of at least 32 bytes, in the largest unit that is exact: "1h", "1500ms", "0s". */
void str_format_duration(int64_t us, char out[32]);

/* How many single-character edits (insert, delete, change, swap of neighbours) make `b` of `a`. */
size_t str_distance(const char *a, const char *b);
/* The nearest of `names` (NULL-terminated), or NULL when none is near enough to be meant. */
const char *str_nearest(const char *name, const char *const *names);

#endif
