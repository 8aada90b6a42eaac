/*
 * The forms in which a third party says when. What is malformed is no time at all, never a guess at its half; a number
 * too large for us is a very large number.
 *
 * No floating point: 0.503 seconds are 503000 microseconds. No strptime(): it follows the locale and takes what isn't
 * there.
 */
#include "http/when.h"

#include <string.h>

#define UNIX_LEAST (INT64_C(1000) * 1000 * 1000) /* seconds since 1970 in 2001; as a number of seconds, 31 years */
#define UNIX_MS_LEAST (UNIX_LEAST * 1000)        /* the same in milliseconds */
#define DAY_SECONDS INT64_C(86400)

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t capped_mul(int64_t value, int64_t by)
{
    return value > INT64_MAX / by ? INT64_MAX : value * by;
}

/* "30", "30.0", "0.503" in millionths, saturated. */
bool when_decimal(struct slice text, int64_t *millionths)
{
    int64_t whole = 0, part = 0, scale = CLOCK_SECOND_US;
    size_t i = 0;

    for (; i < text.len && is_digit(text.ptr[i]); i++) {
        whole = whole > INT64_MAX / 20 ? INT64_MAX / 20 : whole * 10 + (text.ptr[i] - '0');
    }
    if (i == 0) {
        return false;
    }
    if (i < text.len) {
        if (text.ptr[i] != '.' || i + 1 == text.len) {
            return false;
        }
        for (i++; i < text.len && is_digit(text.ptr[i]); i++) {
            scale /= 10;
            part += scale * (text.ptr[i] - '0');
        }
    }
    int64_t all = capped_mul(whole, CLOCK_SECOND_US);
    *millionths = all > INT64_MAX - part ? INT64_MAX : all + part;
    return i == text.len;
}

/* Exactly `digits` of them. */
static bool take_number(struct slice *text, size_t digits, int64_t *out)
{
    int64_t value = 0;

    if (text->len < digits) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        if (!is_digit(text->ptr[i])) {
            return false;
        }
        value = value * 10 + (text->ptr[i] - '0');
    }
    text->ptr += digits;
    text->len -= digits;
    *out = value;
    return true;
}

static bool take(struct slice *text, const char *literal)
{
    size_t len = strlen(literal);

    if (text->len < len || memcmp(text->ptr, literal, len) != 0) {
        return false;
    }
    text->ptr += len;
    text->len -= len;
    return true;
}

/* ---- dates ---- */

struct date {
    int64_t year, month, day, hour, minute, second; /* month from 1 */
};

static bool date_to_us(const struct date *d, int64_t *out)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

    if (d->year < 1970 || d->month < 1 || d->month > 12 || d->day < 1 || d->day > 31 || d->hour > 23 ||
        d->minute > 59 || d->second > 60) {
        return false;
    }
    int64_t last = d->year - 1;
    bool leap = (d->year % 4 == 0 && d->year % 100 != 0) || d->year % 400 == 0;
    int64_t days =
        (d->year - 1970) * 365 + (last / 4 - 1969 / 4) - (last / 100 - 1969 / 100) + (last / 400 - 1969 / 400);
    days += before[d->month - 1] + (leap && d->month > 2) + d->day - 1;
    *out = ((days * 24 + d->hour) * 60 + d->minute) * 60 + d->second;
    *out *= CLOCK_SECOND_US;
    return true;
}

static bool take_month(struct slice *text, int64_t *month)
{
    static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (take(text, names[i])) {
            *month = (int64_t)i + 1;
            return true;
        }
    }
    return false;
}

static bool take_clock(struct slice *text, struct date *d)
{
    return take_number(text, 2, &d->hour) && take(text, ":") && take_number(text, 2, &d->minute) && take(text, ":") &&
           take_number(text, 2, &d->second);
}

/* The name of the day says nothing that the date doesn't. */
static bool skip_day_name(struct slice *text, bool *is_long)
{
    size_t len = 0;

    while (len < text->len &&
           ((text->ptr[len] >= 'a' && text->ptr[len] <= 'z') || (text->ptr[len] >= 'A' && text->ptr[len] <= 'Z'))) {
        len++;
    }
    text->ptr += len;
    text->len -= len;
    *is_long = len > 3;
    return len >= 3 && len <= 9;
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool read_imf(struct slice text, struct date *d)
{
    return take(&text, ", ") && take_number(&text, 2, &d->day) && take(&text, " ") && take_month(&text, &d->month) &&
           take(&text, " ") && take_number(&text, 4, &d->year) && take(&text, " ") && take_clock(&text, d) &&
           take(&text, " GMT") && text.len == 0;
}

/* Sunday, 06-Nov-94 08:49:37 GMT: two digits that would be more than 50 years ahead are of the last century. */
static bool read_rfc850(struct slice text, int64_t this_year, struct date *d)
{
    if (!take(&text, ", ") || !take_number(&text, 2, &d->day) || !take(&text, "-") || !take_month(&text, &d->month) ||
        !take(&text, "-") || !take_number(&text, 2, &d->year) || !take(&text, " ") || !take_clock(&text, d) ||
        !take(&text, " GMT") || text.len != 0) {
        return false;
    }
    d->year += this_year / 100 * 100;
    d->year -= d->year > this_year + 50 ? 100 : 0;
    return true;
}

/* Sun Nov  6 08:49:37 1994 */
static bool read_asctime(struct slice text, struct date *d)
{
    if (!take(&text, " ") || !take_month(&text, &d->month) || !take(&text, " ")) {
        return false;
    }
    return (take(&text, " ") ? take_number(&text, 1, &d->day) : take_number(&text, 2, &d->day)) && take(&text, " ") &&
           take_clock(&text, d) && take(&text, " ") && take_number(&text, 4, &d->year) && text.len == 0;
}

bool when_date(struct slice value, struct wall now, struct wall *out)
{
    struct date d = {0};
    bool is_long;
    int64_t this_year = 1970 + now.us / CLOCK_SECOND_US / DAY_SECONDS * 400 / 146097;

    if (!skip_day_name(&value, &is_long)) {
        return false;
    }
    bool read = is_long                                ? read_rfc850(value, this_year, &d)
                : value.len > 0 && value.ptr[0] == ',' ? read_imf(value, &d)
                                                       : read_asctime(value, &d);
    return read && date_to_us(&d, &out->us);
}

/* 2026-04-21T14:38:25Z, without seconds, with a fraction, with an offset; without any, it is UTC (RFC 3339 section 5.6)
 */
static bool read_iso(struct slice text, int64_t *us)
{
    struct date d = {0};
    int64_t hours = 0, minutes = 0, part = 0, scale = CLOCK_SECOND_US;

    if (!take_number(&text, 4, &d.year) || !take(&text, "-") || !take_number(&text, 2, &d.month) || !take(&text, "-") ||
        !take_number(&text, 2, &d.day) || !(take(&text, "T") || take(&text, "t") || take(&text, " ")) ||
        !take_number(&text, 2, &d.hour) || !take(&text, ":") || !take_number(&text, 2, &d.minute)) {
        return false;
    }
    if (take(&text, ":") && !take_number(&text, 2, &d.second)) {
        return false;
    }
    if (take(&text, ".")) {
        size_t digits = 0;
        for (; text.len > 0 && is_digit(text.ptr[0]); text.ptr++, text.len--, digits++) {
            scale /= 10;
            part += scale * (text.ptr[0] - '0');
        }
        if (digits == 0) {
            return false;
        }
    }
    int64_t sign = take(&text, "+") ? -1 : take(&text, "-") ? 1 : 0;
    if (sign != 0) {
        if (!take_number(&text, 2, &hours) || (take(&text, ":"), !take_number(&text, 2, &minutes)) || hours > 23 ||
            minutes > 59) {
            return false;
        }
    } else if (!take(&text, "Z") && !take(&text, "z") && text.len > 0) {
        return false;
    }
    if (text.len > 0 || !date_to_us(&d, us)) {
        return false;
    }
    *us += part + sign * (hours * 60 + minutes) * 60 * CLOCK_SECOND_US;
    return true;
}

/* ---- durations ---- */

__extension__ typedef __int128 wide;

static const struct {
    const char *unit;
    int64_t ns;
} units[] = {{"ms", 1000000},      {"us", 1000},       {"\xc2\xb5s", 1000}, {"ns", 1},
             {"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000}};
enum { UNITS = sizeof(units) / sizeof(units[0]) };

/* One "2m" of "2m52.8s". */
static bool take_part(struct slice *text, int64_t *us)
{
    size_t len = 0, u = 0;
    int64_t millionths;

    while (len < text->len && (is_digit(text->ptr[len]) || text->ptr[len] == '.')) {
        len++;
    }
    if (!when_decimal((struct slice){text->ptr, len}, &millionths)) {
        return false;
    }
    text->ptr += len;
    text->len -= len;
    while (u < UNITS && !take(text, units[u].unit)) {
        u++;
    }
    if (u == UNITS) {
        return false;
    }
    wide all = (wide)millionths * units[u].ns / 1000000000;
    *us = all > WHEN_FOREVER_US ? WHEN_FOREVER_US : (int64_t)all;
    return true;
}

/* "6m0s", "547ms", "2m52.8s" (Go's time.Duration.String) */
static bool read_godur(struct slice text, int64_t *us)
{
    int64_t part;

    *us = 0;
    if (slice_is(text, "0")) {
        return true;
    }
    if (text.len == 0) {
        return false;
    }
    while (text.len > 0) {
        if (!take_part(&text, &part)) {
            return false;
        }
        *us = *us > WHEN_FOREVER_US ? *us : *us + part;
    }
    return true;
}

/* ---- one field that says when ---- */

static int64_t capped(int64_t us)
{
    return us < 0 ? 0 : us > WHEN_FOREVER_US ? WHEN_FOREVER_US : us;
}

static int64_t until(int64_t us, struct wall now)
{
    return us > now.us ? capped(us - now.us) : 0;
}

/* Of millionths. */
static int64_t from_unix(int64_t number, struct wall now)
{
    bool is_ms = number >= UNIX_MS_LEAST * CLOCK_SECOND_US && number < INT64_MAX;

    return until(is_ms ? number / 1000 : number, now);
}

static int64_t from_number(int64_t number, struct wall now)
{
    bool is_date = number >= UNIX_LEAST * CLOCK_SECOND_US && number < INT64_MAX;

    return is_date ? from_unix(number, now) : capped(number);
}

bool when_read(struct slice value, enum time_format format, struct wall now, int64_t *left_us)
{
    int64_t number;
    struct wall date;
    bool is_number =
        format != TIME_ISO8601 && format != TIME_GODUR && format != TIME_IETF && when_decimal(value, &number);

    if (is_number) {
        *left_us = format == TIME_SECONDS ? capped(number)
                   : format == TIME_MS    ? capped(number / 1000)
                   : format == TIME_UNIX  ? from_unix(number, now)
                                          : from_number(number, now);
        return true;
    }
    if (format == TIME_GODUR || format == TIME_AUTO) {
        if (read_godur(value, &number)) {
            *left_us = capped(number);
            return true;
        }
    }
    if ((format == TIME_ISO8601 || format == TIME_AUTO) && read_iso(value, &number)) {
        *left_us = until(number, now);
        return true;
    }
    if (format == TIME_AUTO && when_date(value, now, &date)) {
        *left_us = until(date.us, now);
        return true;
    }
    return false;
}
