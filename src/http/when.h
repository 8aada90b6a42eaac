#ifndef SLUICE_HTTP_WHEN_H
#define SLUICE_HTTP_WHEN_H
/* Points in time and spans of it, as header fields write them. Pure. */
#include "base/clock.h"
#include "conf/feedback.h"

#define WHEN_FOREVER_US (INT64_C(366) * 86400 * CLOCK_SECOND_US) /* nothing is taken for longer */

/* The time left until what `value` says, counted from `now`, 0 when it is past. False for what is no time. */
bool when_read(struct slice value, enum time_format format, struct wall now, int64_t *left_us) MUST_CHECK;
/* Any of the three forms of an HTTP-date (RFC 9110 section 5.6.7); `now` tells the century of two digits. */
bool when_date(struct slice value, struct wall now, struct wall *out) MUST_CHECK;
/* "30", "30.0", "0.503" in millionths, saturated. */
bool when_decimal(struct slice text, int64_t *millionths) MUST_CHECK;

#endif
