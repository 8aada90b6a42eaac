/*
 * Two clocks, and only inequalities between them.
 *
 * An exchange sent at m0 and answered at m1, whose script read `now`, proves m0 <= (that instant) <= m1, hence
 * theta = now - instant lies in [now - m1, now - m0]. Exchanges are intersected; what is old is widened by the drift
 * two clocks can have (rho, one per mille: twice what a disciplined clock may slew).
 *
 *   never early  a slot [s, e] is used in [s - low, e - high], shortened by the drift until then: Redis' clock then
 * shows a time in [s, e] whatever the delays were. Uncertainty larger than the window leaves nothing, and the slot is
 * given up. steps        an exchange whose interval misses the bounds altogether is impossible without a step of one of
 * the clocks. The bounds start anew, and nothing asked before the discovery is used: nobody knows on which side of the
 * step it was granted. Windows already made are on our clock; a step cannot move them.
 */
#include "outbound/window.h"

enum { DRIFT_DIVISOR = 1000 };

/* Rounded up, so that it never claims more than is known. */
static int64_t drift_us(int64_t span_us)
{
    return span_us <= 0 ? 0 : span_us / DRIFT_DIVISOR + 1;
}

void window_clock_init(struct window_clock *clock)
{
    *clock = (struct window_clock){.step_at = {WINDOW_LONG_AGO_US}};
}

static void restart(struct window_clock *clock, int64_t low, int64_t high)
{
    clock->low_us = low;
    clock->high_us = high;
}

enum window_step window_exchange(struct window_clock *clock, struct mono sent, struct mono answered, struct rtime now)
{
    must(sent.us <= answered.us);
    int64_t low = now.us - answered.us, high = now.us - sent.us;
    int64_t wide = drift_us(mono_diff(answered, clock->at));
    enum window_step step = WINDOW_STEADY;

    if (!clock->known) {
        clock->known = true;
        clock->born = answered;
        restart(clock, low, high);
    } else if (low > clock->high_us + wide) {
        step = WINDOW_STEP_FORWARD;
    } else if (high < clock->low_us - wide) {
        step = WINDOW_STEP_BACKWARD;
    } else {
        clock->low_us = low > clock->low_us - wide ? low : clock->low_us - wide;
        clock->high_us = high < clock->high_us + wide ? high : clock->high_us + wide;
    }
    if (step != WINDOW_STEADY) {
        restart(clock, low, high);
        clock->step_at = answered;
    }
    clock->at = answered;
    must(clock->low_us <= clock->high_us);
    return step;
}

bool window_map(const struct window_clock *clock, const struct slot *slot, struct rtime now, struct window *out)
{
    must(clock->known);
    out->slot = *slot;
    out->first.us = slot->first_us - clock->low_us + drift_us(slot->first_us - now.us);
    out->last.us = slot->last_us - clock->high_us - drift_us(slot->last_us - now.us);
    return out->first.us <= out->last.us;
}

struct mono window_guess(const struct window_clock *clock, struct rtime at)
{
    return (struct mono){at.us - (clock->low_us + (clock->high_us - clock->low_us) / 2)};
}
