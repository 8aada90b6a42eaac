/*
 * Text into numbers, without doubles anywhere: "0.33/s" has to mean 33 per 100 s, not 0.330000000000000015543.
 *
 * A decimal is read as mantissa and scale, "2.50" as 25 and 1 (25 / 10^1); trailing zeros of the fraction are dropped,
 * so that equal values give equal numbers. A duration must come out as a whole number of microseconds, otherwise it is
 * refused, never rounded: whoever writes a setting learns that it cannot be kept.
 *
 * A rate keeps its period as written. 5000/1h is not 25/18s: both have the same mean, but the first allows more within
 * a short while, and it is the number within the period that third parties publish and count. Only fractions in the
 * count move into the period, by the smallest factor that makes the count whole.
 */
#include "base/str.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Not tolower(): that one follows the locale, and protocol text doesn't. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* ---- slices ---- */

struct slice slice_of(const char *text)
{
    return (struct slice){text, text != NULL ? strlen(text) : 0};
}

bool slice_is(struct slice s, const char *text)
{
    return s.len == strlen(text) && (s.len == 0 || memcmp(s.ptr, text, s.len) == 0);
}

bool slice_is_nocase(struct slice s, const char *text)
{
    return slice_equal_nocase(s, slice_of(text));
}

bool slice_equal_nocase(struct slice a, struct slice b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.ptr[i]) != lower(b.ptr[i])) {
            return false;
        }
    }
    return true;
}

static struct slice slice_from(struct slice s, size_t start)
{
    return start > 0 ? (struct slice){s.ptr + start, s.len - start} : s;
}

struct slice slice_trim(struct slice s)
{
    size_t start = 0;

    while (start < s.len && is_blank(s.ptr[start])) {
        start++;
    }
    s = slice_from(s, start);
    while (s.len > 0 && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

/* Up to the next comma outside quotes. A backslash hides the byte after it only inside quotes (RFC 9110 section 5.6.4);
 * quotes that never close take the rest, so that no part of a broken value passes for an element of its own. */
static size_t element_len(struct slice list)
{
    bool quoted = false;
    size_t i = 0;

    for (; i < list.len && (quoted || list.ptr[i] != ','); i++) {
        if (list.ptr[i] == '"') {
            quoted = !quoted;
        } else if (quoted && list.ptr[i] == '\\' && i + 1 < list.len) {
            i++;
        }
    }
    return i;
}

bool slice_next_element(struct slice *list, struct slice *element)
{
    while (list->len > 0) {
        size_t len = element_len(*list);
        struct slice found = slice_trim((struct slice){list->ptr, len});
        *list = slice_from(*list, len < list->len ? len + 1 : len);
        if (found.len > 0) {
            *element = found;
            return true;
        }
    }
    return false;
}

/* ---- whole numbers ---- */

static bool push_digit(uint64_t *value, char digit)
{
    return !__builtin_mul_overflow(*value, UINT64_C(10), value) &&
           !__builtin_add_overflow(*value, (uint64_t)(digit - '0'), value);
}

bool str_parse_u64(struct slice s, uint64_t *out)
{
    uint64_t value = 0;

    if (s.len == 0) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i]) || !push_digit(&value, s.ptr[i])) {
            return false;
        }
    }
    *out = value;
    return true;
}

bool str_parse_port(struct slice s, uint16_t *out)
{
    uint64_t value;

    if (!str_parse_u64(s, &value) || value == 0 || value > UINT16_MAX) {
        return false;
    }
    *out = (uint16_t)value;
    return true;
}

static bool to_i64(uint64_t value, int64_t *out)
{
    if (value > INT64_MAX) {
        return false;
    }
    *out = (int64_t)value;
    return true;
}

bool str_parse_size_bytes(struct slice s, int64_t *out)
{
    static const char units[] = "kmg";
    uint64_t value, unit = 1;

    if (s.len > 0 && !is_digit(s.ptr[s.len - 1])) {
        const char *at = memchr(units, lower(s.ptr[s.len - 1]), sizeof(units) - 1);
        if (at == NULL) {
            return false;
        }
        unit = UINT64_C(1) << 10 * (at - units + 1);
        s.len--;
    }
    return str_parse_u64(s, &value) && !__builtin_mul_overflow(value, unit, &value) && to_i64(value, out);
}

/* ---- decimals, durations, rates ---- */

/* numerator / denominator in lowest terms. */
struct ratio {
    uint64_t over, under;
};

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Digits, or digits '.' digits. */
static bool parse_decimal(struct slice s, struct ratio *out)
{
    const char *dot = s.len > 0 ? memchr(s.ptr, '.', s.len) : NULL;
    struct slice whole = {s.ptr, dot != NULL ? (size_t)(dot - s.ptr) : s.len};
    struct ratio ratio = {0, 1};

    if (!str_parse_u64(whole, &ratio.over)) {
        return false;
    }
    if (dot != NULL) {
        struct slice part = slice_from(s, whole.len + 1);
        if (part.len == 0) {
            return false;
        }
        for (; part.len > 1 && part.ptr[part.len - 1] == '0'; part.len--) {
        }
        for (size_t i = 0; i < part.len; i++) {
            if (!is_digit(part.ptr[i]) || !push_digit(&ratio.over, part.ptr[i]) ||
                __builtin_mul_overflow(ratio.under, UINT64_C(10), &ratio.under)) {
                return false;
            }
        }
    }
    uint64_t divisor = common_divisor(ratio.over, ratio.under);
    *out = (struct ratio){ratio.over / divisor, ratio.under / divisor};
    return true;
}

struct unit {
    const char *name;
    int64_t us;
};

/* From the largest down: str_format_duration takes the first that fits. */
static const struct unit time_units[] = {
    {"d", 86400 * CLOCK_SECOND_US}, {"h", 3600 * CLOCK_SECOND_US}, {"m", 60 * CLOCK_SECOND_US},
    {"s", CLOCK_SECOND_US},         {"ms", CLOCK_MS_US},           {"us", 1},
};
enum { TIME_UNITS = sizeof(time_units) / sizeof(time_units[0]) };

static const struct unit *find_unit(struct slice name)
{
    for (size_t i = 0; i < TIME_UNITS; i++) {
        if (slice_is(name, time_units[i].name)) {
            return &time_units[i];
        }
    }
    return NULL;
}

/* Cuts the number off the front; the unit stays. */
static struct slice cut_number(struct slice *s)
{
    size_t len = 0;

    while (len < s->len && (is_digit(s->ptr[len]) || s->ptr[len] == '.')) {
        len++;
    }
    struct slice number = {s->ptr, len};
    *s = slice_from(*s, len);
    return number;
}

bool str_parse_duration_us(struct slice s, int64_t *out)
{
    struct ratio value;

    if (!parse_decimal(cut_number(&s), &value)) {
        return false;
    }
    const struct unit *unit = find_unit(s);
    if (value.over == 0 && s.len == 0) {
        *out = 0;
        return true;
    }
    if (unit == NULL || (uint64_t)unit->us % value.under != 0) {
        return false;
    }
    uint64_t us;
    return !__builtin_mul_overflow(value.over, (uint64_t)unit->us / value.under, &us) && to_i64(us, out);
}

bool str_parse_rate(struct slice s, struct rate *out)
{
    const char *slash = s.len > 0 ? memchr(s.ptr, '/', s.len) : NULL;
    struct ratio count;
    struct rate rate;

    if (slash == NULL || !parse_decimal((struct slice){s.ptr, (size_t)(slash - s.ptr)}, &count)) {
        return false;
    }
    struct slice period = slice_from(s, (size_t)(slash - s.ptr) + 1);
    const struct unit *unit = find_unit(period);
    if (unit != NULL) {
        rate.period_us = unit->us; /* "10/s" */
    } else if (!str_parse_duration_us(period, &rate.period_us)) {
        return false;
    }
    int64_t factor;
    if (!to_i64(count.over, &rate.count) || !to_i64(count.under, &factor) ||
        __builtin_mul_overflow(rate.period_us, factor, &rate.period_us) || rate.count == 0 || rate.period_us == 0) {
        return false;
    }
    *out = rate;
    return true;
}

void str_format_duration(int64_t us, char out[32])
{
    uint64_t size = us < 0 ? -(uint64_t)us : (uint64_t)us;
    const struct unit *unit = find_unit(slice_of("s"));

    for (size_t i = 0; i < TIME_UNITS && size > 0; i++) {
        unit = &time_units[i];
        if (size % (uint64_t)unit->us == 0) {
            break;
        }
    }
    snprintf(out, 32, "%s%" PRIu64 "%s", us < 0 ? "-" : "", size / (uint64_t)unit->us, unit->name);
}

/* ---- what was meant ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One more row of the table of optimal string alignment: `row[j]` edits make the first j bytes of `b` of `a` up to `i`.
 */
static void distance_row(const char *a, const char *b, size_t i, const size_t *before, const size_t *last, size_t *row)
{
    row[0] = i;
    for (size_t j = 1; b[j - 1] != '\0'; j++) {
        row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
            row[j] = least(row[j], before[j - 2] + 1);
        }
    }
}

size_t str_distance(const char *a, const char *b)
{
    size_t width = strlen(b) + 1;
    size_t *rows = mem_zalloc(3 * width * sizeof(*rows));
    size_t *before = rows, *last = rows + width, *row = rows + 2 * width;

    for (size_t j = 0; j < width; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
        distance_row(a, b, i, before, last, row);
    }
    size_t distance = row[width - 1];
    mem_free(rows);
    return distance;
}

const char *str_nearest(const char *name, const char *const *names)
{
    const char *nearest = NULL;
    size_t len = strlen(name), nearest_distance = SIZE_MAX;

    for (; *names != NULL; names++) {
        size_t other = strlen(*names), longer = len > other ? len : other;
        size_t distance = str_distance(name, *names);
        /* a third of the letters wrong is still a slip, more is another word */
        if (distance <= longer / 3 && distance < nearest_distance) {
            nearest = *names;
            nearest_distance = distance;
        }
    }
    return nearest;
}
