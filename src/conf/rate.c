/* COUNT/PERIOD, read and written. */
#include "conf/value.h"

#include <inttypes.h>
#include <string.h>

#define PERIOD_DAYS_MAX INT64_C(366)

static bool is_all_digits(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
    }
    return text.len > 0;
}

/* "0/s", "0.0/1m" */
static bool is_zero_rate(struct slice text)
{
    size_t i = 0;

    while (i < text.len && (text.ptr[i] == '0' || text.ptr[i] == '.')) {
        i++;
    }
    return i > 0 && (i == text.len || text.ptr[i] == '/');
}

static void refuse_rate(const struct place *place, struct slice text)
{
    const char *slash = memchr(text.ptr, '/', text.len);

    if (is_zero_rate(text)) {
        report_error(place, "a rate of 0 never sends anything; to refuse hosts leave them out and set unlisted = deny");
    } else if (slash == NULL) {
        report_error(place, "%.*s has no period; write COUNT/PERIOD, as in 10/s, 100/1m or 5000/1h",
                     REPORT_SHOWN(text));
    } else if (is_all_digits((struct slice){slash + 1, text.len - (size_t)(slash - text.ptr) - 1})) {
        report_error(place, "the period of %.*s has no unit; write 10/s, 100/1m or 5000/1h", REPORT_SHOWN(text));
    } else {
        report_error(place, "%.*s is not COUNT/PERIOD such as 10/s, 2.5/s, 100/1m or 5000/1h", REPORT_SHOWN(text));
    }
}

bool rate_parse(const struct place *place, struct slice text, struct rate *field)
{
    struct rate rate;

    if (!str_parse_rate(text, &rate)) {
        refuse_rate(place, text);
        return false;
    }
    if (rate.count > rate.period_us || rate.period_us > PERIOD_DAYS_MAX * 86400 * CLOCK_SECOND_US) {
        report_error(place,
                     "%.*s is out of range, allowed is 1/%" PRId64 "d to 1000000/s, the period at most %" PRId64 "d",
                     REPORT_SHOWN(text), PERIOD_DAYS_MAX, PERIOD_DAYS_MAX);
        return false;
    }
    *field = rate;
    return true;
}

void rate_print(const struct rate *rate, struct buf *out)
{
    char period[32];

    str_format_duration(rate->period_us, period);
    /* "10/s" reads better than "10/1s" */
    buf_printf(out, "%" PRId64 "/%s", rate->count, strcmp(period, "1s") == 0 ? "s" : period);
}
