#ifndef SLUICE_HTTP_FEEDBACK_H
#define SLUICE_HTTP_FEEDBACK_H
/* What the head of an answer says about the rate of its requests. Pure: bytes from outside and the time in, numbers
 * out. */
#include "base/clock.h"
#include "conf/feedback.h"
#include "http/message.h"

struct feedback {
    bool throttled, banned, counts_as_error;
    bool retry_after;  /* it has a Retry-After that means something */
    int64_t pause_us;  /* how long it asks us to wait; 0 = it doesn't say, or the time is past */
    int64_t remaining; /* of the budget that has to last the longest for what is left of it; 0 = none */
    int64_t reset_us;  /* until that is full again */
    int64_t empty_us;  /* until the last of the budgets of which nothing is left is full again; 0 = none */
    unsigned garbage;  /* fields that were looked at and mean nothing */
};

/* `now` is used only where the answer has no Date of its own: another machine's dates are judged by its own clock. */
void feedback_read(const struct message *response, const struct feedback_conf *conf, struct wall now,
                   struct feedback *out);

#endif
