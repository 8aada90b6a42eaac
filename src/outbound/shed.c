/*
 * A pause of an hour is no use to a caller that waits for thirty seconds: it had better know now. A waiter's turn comes
 * no earlier than the end of the pause and one interval for each one ahead that stays; if its deadline is before that,
 * nothing can save it.
 *
 * They are given up by their own deadline timers, moved forward, so that nothing is called back from here and no loop
 * runs over a list that changes under it; and a few per millisecond, since telling a thousand callers at once would
 * make other buckets' slots late.
 */
#include "outbound/shed.h"

enum { PER_MS = 8 };

static void hopeless_due(struct timer *timer, struct mono now)
{
    struct waiter *waiter = container_of(timer, struct waiter, deadline);
    must_be(waiter, WAITER_MAGIC);
    struct pacer *pacer = waiter->shed_by;

    (void)now;
    queue_remove(pacer->queue, waiter);
    tally_count(pacer->tally, TALLY_GAVE_UP, 1);
    pacer_kick(pacer);
    waiter->ops->on_give_up(waiter, GIVE_UP_PAUSED);
}

void shed_hopeless(struct pacer *pacer, struct mono now)
{
    struct mono until = pacer_paused_until(pacer, now);
    int64_t interval_us = pacer->shared->terms.interval_us;
    struct waiter *waiter;
    int64_t ahead = 0, gone = 0;

    if (until.us <= now.us) {
        return;
    }
    struct queue_walk walk = queue_walk(pacer->queue);
    while ((waiter = queue_next(&walk)) != NULL) {
        if (waiter->deadline.due == hopeless_due) {
            continue; /* found before */
        }
        if (waiter->deadline.at.us >= mono_add(until, ahead * interval_us).us) {
            ahead++;
            continue;
        }
        struct mono soon = mono_add(now, gone++ / PER_MS * CLOCK_MS_US);
        waiter->shed_by = pacer;
        timer_set(pacer->loop, &waiter->deadline, soon.us < waiter->deadline.at.us ? soon : waiter->deadline.at,
                  hopeless_due);
    }
}
