#ifndef SLUICE_OUTBOUND_PACER_H
#define SLUICE_OUTBOUND_PACER_H
/* Holds one bucket's queue to its slots. */
#include "outbound/fallback.h"
#include "outbound/hand.h"
#include "outbound/meter.h"
#include "outbound/queue.h"

struct pacer {
    uint32_t magic;
    const char *name; /* of the bucket */
    struct loop *loop;
    const struct policy *policy; /* borrowed from the bucket */
    struct queue *queue;
    const struct slots *slots; /* NULL: slots by this process alone */
    struct asker *shared;
    struct asker *outage; /* permits for when Redis is gone; NULL without */

    struct hand hand;     /* windows */
    struct held latest;   /* the latest window granted, used or not; `from` NULL: none yet */
    struct asker *asking; /* who was asked and has not answered */
    unsigned asked;
    struct mono next_try; /* no question before */
    struct mono quota_until; /* a quota is used up until then */
    struct slots_spec spec; /* as configured */
    bool counts_flight;
    bool judge_costs; /* the policy is new: some that wait may cost more than there ever is */
    unsigned full;    /* answers in a row that as many are in flight as may be */
    unsigned flying; /* released and not finished */
    unsigned told_flying; /* what the asker knows of, windows in hand included */
    struct mono near_at;  /* when the next waiter gets near */
    int64_t dial_us;      /* how long waiters took to get ready lately */
    unsigned to_purge;    /* of the first in the queue */
    bool is_open;         /* on_redis_down = open is in force, and was told to the log */
    int64_t slow;         /* permille of the configured interval that is kept */
    void (*on_doubt)(void *arg, bool denied); /* somebody else may have been told of a pause */
    void *doubt_arg;
    int64_t doubt_us; /* how long before its use a window that was held for a while is doubted */

    struct timer timer;
    struct defer kick;
    struct meter meter;
    struct meter *wholes_meter; /* of a destination whose rate limits this one too; NULL = none */
    struct tally *tally; /* the bucket's */
};

void pacer_init(struct pacer *pacer, struct loop *loop, struct queue *queue, const struct policy *policy,
                const char *name, struct tally *tally);
/* Takes over the asker; once, before anything else. `slots` NULL: this process alone. */
void pacer_set_shared(struct pacer *pacer, const struct slots *slots, struct asker *shared);
/* The permits for when Redis is gone; NULL = none. */
void pacer_set_outage(struct pacer *pacer, struct asker *outage);
void pacer_fini(struct pacer *pacer);
/* Something changed: looks at everything again before the loop polls. */
void pacer_kick(struct pacer *pacer);
/* A new policy for the slots asked for from now on. Windows in hand stay. */
void pacer_set_policy(struct pacer *pacer, const struct policy *policy, const struct slots_spec *spec);
/* What the shared asker was made with. */
void pacer_take_spec(struct pacer *pacer, const struct slots_spec *spec);
/* One that was released is over; what was learned of it, if anything was. */
void pacer_finish(struct pacer *pacer, const struct slots_bill *bill);
enum fallback pacer_mode(const struct pacer *pacer, struct mono now);
/* A quota has nothing left for longer than slots are handed out ahead, and quota_action = reject. */
bool pacer_quota_rejects(const struct pacer *pacer, struct mono now);
/* The smallest of all quotas that bind; INT64_MAX without any. */
int64_t pacer_cost_most(const struct policy *policy);
/* Predicted wait of whoever has `position` waiters ahead of it. */
int64_t pacer_wait_us(const struct pacer *pacer, unsigned position, struct mono now);
/* The waiter left in a window but nothing was sent: the window is in hand again if it is still open. */
void pacer_unused(struct pacer *pacer, const struct waiter *waiter, struct mono now);
void pacer_became_ready(struct pacer *pacer, const struct waiter *waiter, struct mono now);
/* Whoever waits now is given up, a few at a time. */
void pacer_purge(struct pacer *pacer);
void pacer_pause(struct pacer *pacer, int64_t for_us);
/* Ends a pause, whoever asked for it. */
void pacer_resume(struct pacer *pacer);
/* Another replica began a pause, or ended it; as of `sent`. */
void pacer_hear_pause(struct pacer *pacer, struct mono sent, struct mono until);
/* Slots `permille` / 1000 as far apart as configured. */
void pacer_set_slow(struct pacer *pacer, int64_t permille);
int64_t pacer_even_interval_us(const struct pacer *pacer);
/* Called when slots were refused for longer than a moment (`denied`), and `doubt_us` before the use of a slot that was
 * in hand for so long that another replica may have been told of a pause since. */
void pacer_on_doubt(struct pacer *pacer, void (*on_doubt)(void *arg, bool denied), void *arg);
/* Until when nothing leaves, in the past when it may. */
struct mono pacer_paused_until(const struct pacer *pacer, struct mono now);
/* Nothing in hand, nothing asked, nothing to remember. */
bool pacer_is_idle(const struct pacer *pacer, struct mono now);

#endif
