/*
 * The pacer: asks for slots for the head of the queue, just in time, and lets waiters out inside the windows it is
 * granted.
 *
 *     queue        k+1 near: on_near -> connection -> ready          ready but no window: ask for one
 *   [w][w][w][w]----------------------------------------->[ready]-----------------------------------> asker (Redis |
 * this process) |   <--- windows in hand, at most k ------+
 *                                                            v
 *                                             now in [first, last] of the earliest: on_release
 *
 * Everything happens in run(), which is called by one timer (the next thing that is due) and by one deferred call
 * (something changed). Its order matters: windows that passed are dropped, then waiters leave, then others get near,
 * then questions are asked.
 *
 *   never early, never late  the clock is read for each release and compared with the window; a window that passed
 * (frozen process, stalled loop, late answer) is dropped and counted. There is no catching up, hence no burst. one
 * window, one release  a window is taken out of the hand before on_release is called. no slot without a user   only
 * waiters that are ready are asked for: a connection set up after the slot would make it late, and who cancels before
 * the slot costs nothing. Windows nobody is left for are given back. not too early either     connections kept idle for
 * seconds get closed by third parties, so a waiter becomes near only when its slot is predicted within NEAR_US, and
 * only as many as can leave while one of them is dialling.
 */
#include "outbound/pacer.h"

#include "base/log.h"

#include <limits.h>
#include <string.h>

#define PACER_MAGIC 0x70616365u
#define NEAR_US (2 * CLOCK_SECOND_US)
#define DIAL_FIRST_US (20 * CLOCK_MS_US)
#define DIAL_MOST_US (500 * CLOCK_MS_US)
#define DENIED_LEAST_US (20 * CLOCK_MS_US)
#define DOUBT_SHARED_US (20 * CLOCK_MS_US)
enum { EVEN = 1000, NEAR_MOST = 256, NEARS_PER_RUN = 4, REJECTS_PER_RUN = 64, FULL_STEPS = 8, FULL_MOST = 4 };

static void on_answer(void *arg, struct asker *asker, const struct slots_answer *answer);
static void run(struct pacer *pacer);

static void kicked(struct defer *defer)
{
    struct pacer *pacer = container_of(defer, struct pacer, kick);
    must_be(pacer, PACER_MAGIC);
    run(pacer);
}

static void timer_due(struct timer *timer, struct mono now)
{
    struct pacer *pacer = container_of(timer, struct pacer, timer);
    must_be(pacer, PACER_MAGIC);
    (void)now;
    run(pacer);
}

void pacer_kick(struct pacer *pacer)
{
    must_be(pacer, PACER_MAGIC);
    loop_defer(pacer->loop, &pacer->kick, kicked);
}

static void on_change(void *arg)
{
    struct pacer *pacer = arg;
    must_be(pacer, PACER_MAGIC);
    if (pacer->slots->up) {
        pacer->next_try.us = WINDOW_LONG_AGO_US;
    }
    pacer_kick(pacer);
}

void pacer_init(struct pacer *pacer, struct loop *loop, struct queue *queue, const struct policy *policy,
                const char *name, struct tally *tally)
{
    memset(pacer, 0, sizeof(*pacer));
    pacer->magic = PACER_MAGIC;
    pacer->name = name;
    pacer->loop = loop;
    pacer->queue = queue;
    pacer->tally = tally;
    pacer->policy = policy;
    pacer->next_try.us = WINDOW_LONG_AGO_US;
    pacer->quota_until.us = WINDOW_LONG_AGO_US;
    pacer->near_at.us = CLOCK_NEVER_US;
    pacer->dial_us = DIAL_FIRST_US;
    pacer->slow = EVEN;
    meter_init(&pacer->meter, policy->rate.period_us, policy->rate.count);
}

static void adopt(struct pacer *pacer, struct asker *asker)
{
    asker->arg = pacer;
    asker->on_answer = on_answer;
    asker->on_change = on_change;
}

void pacer_set_shared(struct pacer *pacer, const struct slots *slots, struct asker *shared)
{
    must_be(pacer, PACER_MAGIC);
    must(pacer->shared == NULL && shared != NULL);
    pacer->slots = slots;
    pacer->shared = shared;
    adopt(pacer, shared);
}

void pacer_set_outage(struct pacer *pacer, struct asker *outage)
{
    must_be(pacer, PACER_MAGIC);
    must(pacer->outage == NULL);
    pacer->outage = outage;
    if (outage != NULL) {
        adopt(pacer, outage);
    }
}

void pacer_fini(struct pacer *pacer)
{
    must_be(pacer, PACER_MAGIC);
    timer_clear(&pacer->timer);
    loop_defer_cancel(&pacer->kick);
    pacer->shared->ops->free(pacer->shared);
    if (pacer->outage != NULL) {
        pacer->outage->ops->free(pacer->outage);
    }
    meter_fini(&pacer->meter);
    hand_fini(&pacer->hand);
    pacer->magic = 0;
}

/* Slots are now closer: the next one need not wait for as long as the latest one was given to stand for. That is told by
 * giving back the end of the latest slot; if anybody has asked since, here or in another replica, it has no effect and
 * the next slot comes when it would have come. Where a destination limits its route as well, the longer of the two spacings
 * counts. */
static void bring_forward(struct pacer *pacer, int64_t before_us)
{
    const struct held *latest = &pacer->latest;
    struct asker *asker = pacer->shared;
    struct mono now = loop_now(pacer->loop);
    int64_t spacing_us = asker->terms.interval_us;
    int64_t soonest_us = mono_diff(now, latest->window.first) + 2 * asker->ops->lookahead_us(asker) + CLOCK_MS_US;

    if (spacing_us >= before_us) {
        return;
    }
    pacer->next_try.us = WINDOW_LONG_AGO_US; /* what "later" meant was said of the old rate */
    if (latest->from != asker) {
        return;
    }
    if (pacer->spec.levels_count > 1) { /* what a slow link costs, and the word of the third party, on top */
        int64_t more_us = spacing_us - pacer->spec.levels[0].terms.interval_us;
        int64_t parents_us = pacer->spec.levels[1].terms.interval_us + more_us;
        spacing_us = parents_us > spacing_us ? parents_us : spacing_us;
    }
    int64_t shift_us = latest->window.cost * spacing_us;
    shift_us = shift_us > soonest_us ? shift_us : soonest_us;
    struct window end = latest->window;
    end.first = mono_add(end.first, shift_us);
    end.slot.first_us += shift_us;
    if (end.slot.first_us < end.slot.tat_us && asker->ops->give_back(asker, &end, &latest->window)) {
        pacer->latest.window.slot.tat_us = end.slot.first_us;
    }
}

/* The spacing as configured, or wider while the third party asks for less. */
static void set_spec(struct pacer *pacer)
{
    struct slots_spec spec = pacer->spec;
    int64_t *interval_us = &spec.levels[0].terms.interval_us;

    *interval_us = *interval_us > INT64_MAX / pacer->slow ? INT64_MAX : *interval_us * pacer->slow / EVEN;
    pacer->shared->ops->set_spec(pacer->shared, &spec);
}

int64_t pacer_even_interval_us(const struct pacer *pacer)
{
    return pacer->spec.levels[0].terms.interval_us;
}

void pacer_set_slow(struct pacer *pacer, int64_t permille)
{
    must_be(pacer, PACER_MAGIC);
    must(permille >= EVEN);
    pacer->slow = permille;
    set_spec(pacer);
    pacer_kick(pacer);
}

void pacer_on_doubt(struct pacer *pacer, void (*on_doubt)(void *arg, bool denied), void *arg)
{
    pacer->on_doubt = on_doubt;
    pacer->doubt_arg = arg;
}

void pacer_take_spec(struct pacer *pacer, const struct slots_spec *spec)
{
    pacer->spec = *spec;
    pacer->counts_flight = slots_spec_counts_flight(spec);
}

void pacer_set_policy(struct pacer *pacer, const struct policy *policy, const struct slots_spec *spec)
{
    must_be(pacer, PACER_MAGIC);
    bool same_rate =
        policy->rate.count == pacer->policy->rate.count && policy->rate.period_us == pacer->policy->rate.period_us;

    int64_t before_us = pacer->shared->terms.interval_us;

    pacer->policy = policy;
    pacer_take_spec(pacer, spec);
    set_spec(pacer);
    bring_forward(pacer, before_us);
    pacer->quota_until.us = WINDOW_LONG_AGO_US;
    pacer->next_try.us = WINDOW_LONG_AGO_US; /* what was in the way may be gone */
    pacer->judge_costs = true;
    if (!same_rate) {
        meter_fini(&pacer->meter);
        meter_init(&pacer->meter, policy->rate.period_us, policy->rate.count);
        tally_new_limit(pacer->tally);
    }
    pacer_kick(pacer);
}

enum fallback pacer_mode(const struct pacer *pacer, struct mono now)
{
    if (pacer->slots == NULL) {
        return FALLBACK_SHARED;
    }
    enum fallback mode = fallback_decide(pacer->policy, pacer->slots->up, mono_diff(now, pacer->slots->down_since));
    return mode == FALLBACK_RESERVE && pacer->outage == NULL ? FALLBACK_HOLD : mode;
}

/* Who would be asked now, NULL = nobody. */
static struct asker *source_of(const struct pacer *pacer, enum fallback mode)
{
    return mode == FALLBACK_SHARED ? pacer->shared : mode == FALLBACK_RESERVE ? pacer->outage : NULL;
}

/* ---- predictions ---- */

/* Replicas take turns, so each waiter ahead lets one of every other replica go first, as long as they have any. */
static int64_t turns_of_others(const struct asker *asker, int64_t ahead)
{
    int64_t most = ahead * asker->others;
    return most < asker->others_queued ? most : asker->others_queued;
}

int64_t pacer_wait_us(const struct pacer *pacer, unsigned position, struct mono now)
{
    enum fallback mode = pacer_mode(pacer, now);
    const struct asker *source = source_of(pacer, mode);

    if (mode == FALLBACK_OPEN) {
        return 0;
    }
    if (position < pacer->hand.count) {
        int64_t wait = mono_diff(pacer->hand.held[position].window.first, now);
        return wait > 0 ? wait : 0;
    }
    source = source != NULL ? source : pacer->shared;
    int64_t ahead = position - pacer->hand.count;
    int64_t start = mono_diff(source->ops->next_free(source, now), now);
    if (mono_diff(pacer->next_try, now) > start) {
        start = mono_diff(pacer->next_try, now);
    }
    int64_t units = (int64_t)pacer->queue->units, count = pacer->queue->count;
    int64_t slots_us = (ahead + turns_of_others(source, ahead)) * source->terms.interval_us;
    return (start > 0 ? start : 0) + (units > count ? slots_us / count * units : slots_us);
}

/* ---- windows in hand ---- */

static void drop_passed(struct pacer *pacer, struct mono now)
{
    while (pacer->hand.count > 0 && pacer->hand.held[0].window.last.us < now.us) {
        hand_take(&pacer->hand);
        if (pacer->queue->count > 0) {
            tally_count(pacer->tally, TALLY_LATE, 1);
        } else {
            tally_count(pacer->tally, TALLY_WASTED, 1);
        }
    }
}

/* Windows that nobody is left for. What can't be given back is kept: somebody may come yet. */
static void give_surplus_back(struct pacer *pacer)
{
    while (pacer->hand.count > pacer->queue->count) {
        unsigned run = hand_newest_run(&pacer->hand, pacer->hand.count - pacer->queue->count);
        const struct held *oldest = &pacer->hand.held[pacer->hand.count - run];
        const struct held *newest = &pacer->hand.held[pacer->hand.count - 1];

        if (newest->from == NULL || !newest->from->ops->give_back(newest->from, &oldest->window, &newest->window)) {
            return;
        }
        pacer->hand.count -= run;
        tally_count(pacer->tally, TALLY_WASTED, run);
    }
}

static void on_answer(void *arg, struct asker *asker, const struct slots_answer *answer)
{
    struct pacer *pacer = arg;
    must_be(pacer, PACER_MAGIC);
    must(pacer->asking == asker);
    must(answer->count + answer->spoilt <= pacer->asked);

    struct mono now = loop_now(pacer->loop);
    struct mono paused = asker->ops->paused_until(asker);

    pacer->asking = NULL;
    tally_count(pacer->tally, TALLY_LATE, answer->spoilt);
    for (unsigned i = 0; i < answer->count; i++) {
        if (answer->windows[i].first.us < paused.us) { /* asked for before the pause was known */
            tally_count(pacer->tally, TALLY_WASTED, 1);
        } else {
            hand_add(&pacer->hand, &answer->windows[i], asker);
            pacer->latest = (struct held){.window = answer->windows[i], .from = asker};
        }
    }
    pacer->told_flying += answer->count + answer->spoilt;
    pacer->full = answer->reason == SLOT_IN_FLIGHT && answer->count == 0 ? pacer->full + 1 : 0;
    if (answer->outcome == SLOTS_LATER) {
        /* long answers are asked after more and more rarely; the end of one here is asked after at once */
        unsigned slow = pacer->full / FULL_STEPS < FULL_MOST ? pacer->full / FULL_STEPS : FULL_MOST;
        pacer->next_try = mono_add(answer->again, slow * SLOT_IN_FLIGHT_RETRY_US);
        if (pacer->on_doubt != NULL && mono_diff(answer->again, now) > DENIED_LEAST_US) {
            pacer->on_doubt(pacer->doubt_arg, true);
        }
    }
    pacer->quota_until.us = WINDOW_LONG_AGO_US;
    if (answer->reason == SLOT_QUOTA) {
        pacer->quota_until = asker->ops->next_free(asker, loop_now(pacer->loop));
    }
    pacer_kick(pacer);
}

/* ---- the steps of a run ---- */

static unsigned lookahead(const struct asker *source)
{
    int64_t interval = source->terms.interval_us;
    int64_t k = (source->ops->lookahead_us(source) + interval - 1) / interval;
    return k < 1 ? 1 : k > SLOTS_WANT_MAX ? SLOTS_WANT_MAX : (unsigned)k;
}

/* The first k + 1, and as many as leave while one gets its connection. */
static unsigned near_limit(const struct pacer *pacer)
{
    const struct asker *source =
        pacer->slots != NULL && !pacer->slots->up && pacer->outage ? pacer->outage : pacer->shared;
    int64_t dialling = (pacer->dial_us + source->terms.interval_us - 1) / source->terms.interval_us;
    int64_t limit = 1 + (dialling > lookahead(source) ? dialling : lookahead(source));

    if (pacer->is_open || limit > NEAR_MOST) {
        return NEAR_MOST;
    }
    return (unsigned)limit;
}

static void let_out(struct pacer *pacer, struct waiter *waiter, struct mono last, struct mono now)
{
    must(waiter->near && waiter->ready);
    struct bucket *bucket = waiter->bucket;

    queue_release(pacer->queue, waiter);
    waiter->released = now;
    waiter->window_last = last;
    if (pacer->counts_flight || pacer->policy->cost_answer != NULL) {
        pacer->flying++;
        waiter->flies_in = bucket;
    }
    meter_add(&pacer->meter, now);
    if (pacer->wholes_meter != NULL) {
        meter_add(pacer->wholes_meter, now);
    }
    tally_release(pacer->tally, pacer->meter.count,
                  pacer->wholes_meter != NULL ? pacer->wholes_meter->count : pacer->meter.count);
    waiter->ops->on_release(waiter, now);
}

static void release_due(struct pacer *pacer)
{
    for (;;) {
        struct mono now = loop_now(pacer->loop);
        drop_passed(pacer, now);
        if (pacer->hand.count == 0 || mono_before(now, pacer->hand.held[0].window.first)) {
            return;
        }
        struct waiter *waiter =
            queue_first_ready(pacer->queue, near_limit(pacer), (unsigned)pacer->hand.held[0].window.cost);
        if (waiter == NULL) {
            return; /* somebody may get ready before the window closes */
        }
        struct window window = hand_take(&pacer->hand);
        must(now.us >= window.first.us && now.us <= window.last.us);
        tally_lateness(pacer->tally, mono_diff(now, window.first));
        let_out(pacer, waiter, window.last, now);
    }
}

static void release_all(struct pacer *pacer)
{
    struct waiter *waiter;

    while ((waiter = queue_first_ready(pacer->queue, NEAR_MOST, UINT_MAX)) != NULL) {
        struct mono now = loop_now(pacer->loop);
        let_out(pacer, waiter, now, now);
    }
}

static void reject_all(struct pacer *pacer, enum give_up why)
{
    for (unsigned i = 0; pacer->queue->count > pacer->hand.count; i++) {
        struct waiter *waiter = queue_last(pacer->queue);
        if (i == REJECTS_PER_RUN) {
            pacer_kick(pacer);
            return;
        }
        queue_remove(pacer->queue, waiter);
        tally_count(pacer->tally, TALLY_GAVE_UP, 1);
        waiter->ops->on_give_up(waiter, why);
    }
}

int64_t pacer_cost_most(const struct policy *policy)
{
    int64_t most = INT64_MAX;

    for (; policy != NULL; policy = policy->parent) {
        for (unsigned i = 0; i < policy->quotas_count; i++) {
            most = policy->quotas[i].count < most ? policy->quotas[i].count : most;
        }
    }
    return most;
}

static struct waiter *first_above(const struct queue *queue, int64_t cost)
{
    struct queue_walk walk = queue_walk(queue);
    struct waiter *waiter;

    do {
        waiter = queue_next(&walk);
    } while (waiter != NULL && waiter->cost <= cost);
    return waiter;
}

static void reject_costly(struct pacer *pacer)
{
    int64_t most = pacer_cost_most(pacer->policy);
    struct waiter *waiter;

    for (unsigned i = 0; (waiter = first_above(pacer->queue, most)) != NULL; i++) {
        if (i == REJECTS_PER_RUN) {
            pacer_kick(pacer);
            return;
        }
        queue_remove(pacer->queue, waiter);
        tally_count(pacer->tally, TALLY_GAVE_UP, 1);
        waiter->ops->on_give_up(waiter, GIVE_UP_COST);
    }
    pacer->judge_costs = false;
}

static void purge_some(struct pacer *pacer)
{
    for (unsigned i = 0; pacer->to_purge > 0 && pacer->queue->count > 0; i++) {
        struct waiter *waiter = queue_first(pacer->queue);
        if (i == REJECTS_PER_RUN) {
            pacer_kick(pacer);
            return;
        }
        pacer->to_purge--;
        queue_remove(pacer->queue, waiter);
        tally_count(pacer->tally, TALLY_PURGED, 1);
        waiter->ops->on_give_up(waiter, GIVE_UP_PURGED);
    }
    pacer->to_purge = 0;
}

static void follow_redis(struct pacer *pacer, enum fallback mode)
{
    if (mode == FALLBACK_REJECT) {
        reject_all(pacer, GIVE_UP_REDIS_DOWN);
    }
    if (pacer->is_open != (mode == FALLBACK_OPEN)) {
        pacer->is_open = mode == FALLBACK_OPEN;
        log_line(pacer->is_open ? LOG_ERROR : LOG_WARN, pacer->is_open ? "pacing_off" : "pacing_on",
                 LOG_STR("destination", pacer->name),
                 LOG_STR("why", pacer->is_open ? "Redis is unreachable and on_redis_down = open: requests leave UNPACED"
                                               : "Redis is reachable again"),
                 LOG_END);
    }
    /* unpaced, but not against the third party's word */
    if (pacer->is_open && pacer_paused_until(pacer, loop_now(pacer->loop)).us <= loop_now(pacer->loop).us) {
        release_all(pacer);
    }
}

/* The callback may do anything to the queue, so each turn starts at its head again. Connecting takes the processor a
 * while, so only a few begin before the clock is looked at again. */
static void call_near(struct pacer *pacer)
{
    struct waiter *waiter;
    unsigned position;

    pacer->near_at.us = CLOCK_NEVER_US;
    for (int i = 0; (waiter = queue_first_far(pacer->queue, near_limit(pacer), &position)) != NULL; i++) {
        struct mono now = loop_now(pacer->loop);
        if (i == NEARS_PER_RUN) {
            pacer->near_at = now;
            return;
        }
        enum fallback mode = pacer_mode(pacer, now);
        bool may_leave = source_of(pacer, mode) != NULL || mode == FALLBACK_OPEN || position < pacer->hand.count;
        int64_t wait_us = pacer_wait_us(pacer, position, now);

        if (!may_leave) {
            return;
        }
        if (wait_us > NEAR_US) {
            pacer->near_at = mono_add(now, wait_us - NEAR_US);
            return;
        }
        waiter->near = true;
        waiter->near_since = now;
        waiter->ops->on_near(waiter);
    }
}

/* Windows in hand count: what leaves in them was granted a place. */
static unsigned in_flight(const struct pacer *pacer)
{
    return pacer->counts_flight ? pacer->flying + pacer->hand.count : 0;
}

static void tell_flying(struct pacer *pacer)
{
    if (in_flight(pacer) != pacer->told_flying && pacer->counts_flight) {
        pacer->shared->flying = pacer->told_flying = in_flight(pacer);
        pacer->shared->ops->tell_flying(pacer->shared);
    }
}

static void ask(struct pacer *pacer, struct mono now)
{
    struct asker *source = source_of(pacer, pacer_mode(pacer, now));

    pacer->shared->queued = pacer->queue->count;
    if (source == NULL || pacer->asking != NULL || mono_before(now, pacer->next_try)) {
        return;
    }
    unsigned k = lookahead(source), cost;
    if (pacer->hand.count >= k) {
        return;
    }
    unsigned want = queue_ready_run(pacer->queue, near_limit(pacer), pacer->hand.count, &cost);
    want = want < k - pacer->hand.count ? want : k - pacer->hand.count;
    if (want == 0 || (pacer->hand.count > 0 && want < k / 2)) {
        return; /* at high rates, in batches */
    }
    source->flying = pacer->told_flying = in_flight(pacer);
    pacer->asking = source;
    pacer->asked = want;
    if (!source->ops->ask(source, want, cost)) {
        pacer->asking = NULL;
    }
}

static void sooner(struct mono *next, struct mono at, struct mono now)
{
    if (at.us > now.us && at.us < next->us) {
        *next = at;
    }
}

/* When the first window in hand is to be doubted, never if not. One that was granted just before its use has been
 * checked against pauses by that. */
static struct mono doubt_at(const struct pacer *pacer)
{
    const struct held *held = &pacer->hand.held[0];

    if (pacer->hand.count == 0 || held->checked || pacer->doubt_us == 0 || held->from != pacer->shared ||
        pacer->shared->others == 0) {
        return (struct mono){CLOCK_NEVER_US};
    }
    return mono_add(held->window.first, -pacer->doubt_us);
}

/* One look is for all windows that are used soon: at a thousand a second one for each would double the calls to Redis
 * many times over. */
static void doubt(struct pacer *pacer, struct mono now)
{
    if (doubt_at(pacer).us > now.us) {
        return;
    }
    struct mono soon = mono_add(pacer->hand.held[0].window.first, DOUBT_SHARED_US);
    for (unsigned i = 0; i < pacer->hand.count && mono_before(pacer->hand.held[i].window.first, soon); i++) {
        pacer->hand.held[i].checked = true;
    }
    pacer->on_doubt(pacer->doubt_arg, false);
}

/* The next thing that happens by itself. */
static void arm(struct pacer *pacer, struct mono now)
{
    struct mono next = {CLOCK_NEVER_US};

    if (pacer->hand.count > 0) {
        const struct window *window = &pacer->hand.held[0].window;
        bool is_open = window->first.us <= now.us;
        struct mono at = is_open ? mono_add(window->last, 1) : window->first;
        sooner(&next, at.us > now.us ? at : mono_add(now, 1), now);
        sooner(&next, doubt_at(pacer), now);
    }
    if (pacer->queue->count > 0) {
        sooner(&next, pacer->near_at.us > now.us ? pacer->near_at : mono_add(now, 1), now);
        sooner(&next, pacer->next_try, now);
        if (pacer->is_open) {
            sooner(&next, pacer_paused_until(pacer, now), now);
        }
        if (pacer->slots != NULL && !pacer->slots->up) {
            sooner(&next, mono_add(pacer->slots->down_since, FALLBACK_GRACE_US), now);
        }
    }
    if (next.us == CLOCK_NEVER_US) {
        timer_clear(&pacer->timer);
    } else {
        timer_set(pacer->loop, &pacer->timer, next, timer_due);
    }
}

bool pacer_quota_rejects(const struct pacer *pacer, struct mono now)
{
    return pacer->policy->quota_reject && mono_diff(pacer->quota_until, now) > pacer->policy->horizon_us;
}

static void run(struct pacer *pacer)
{
    struct mono now = loop_now(pacer->loop);

    follow_redis(pacer, pacer_mode(pacer, now));
    if (pacer->judge_costs) {
        reject_costly(pacer);
    }
    if (pacer_quota_rejects(pacer, now)) {
        reject_all(pacer, GIVE_UP_QUOTA);
    }
    purge_some(pacer);
    release_due(pacer);
    give_surplus_back(pacer);
    call_near(pacer);
    ask(pacer, loop_now(pacer->loop));
    tell_flying(pacer);
    doubt(pacer, loop_now(pacer->loop));
    arm(pacer, loop_now(pacer->loop));
}

/* ---- what others tell it ---- */

void pacer_became_ready(struct pacer *pacer, const struct waiter *waiter, struct mono now)
{
    int64_t took_us = mono_diff(now, waiter->near_since);

    took_us = took_us < DIAL_MOST_US ? took_us : DIAL_MOST_US;
    pacer->dial_us -= pacer->dial_us / 8;
    pacer->dial_us = took_us > pacer->dial_us ? took_us : pacer->dial_us;
}

void pacer_finish(struct pacer *pacer, const struct slots_bill *bill)
{
    must(pacer->flying > 0);
    pacer->flying--;
    if (bill->more != 0 || bill->left >= 0) {
        pacer->shared->ops->charge(pacer->shared, bill);
    }
    if (pacer->counts_flight) {
        pacer->full = 0;
        pacer->next_try.us = WINDOW_LONG_AGO_US; /* there may be a place now */
    }
    pacer_kick(pacer);
}

void pacer_unused(struct pacer *pacer, const struct waiter *waiter, struct mono now)
{
    struct window rest = {.first = now, .last = waiter->window_last, .slot = {0}, .cost = waiter->cost};

    tally_count(pacer->tally, TALLY_RETURNED, 1);
    meter_undo(&pacer->meter, waiter->released);
    if (pacer->wholes_meter != NULL) {
        meter_undo(pacer->wholes_meter, waiter->released);
    }
    if (rest.first.us <= rest.last.us) {
        hand_add(&pacer->hand, &rest, NULL);
    } else {
        tally_count(pacer->tally, TALLY_WASTED, 1);
    }
}

void pacer_purge(struct pacer *pacer)
{
    must_be(pacer, PACER_MAGIC);
    pacer->to_purge = pacer->queue->count;
    pacer_kick(pacer);
}

void pacer_pause(struct pacer *pacer, int64_t for_us)
{
    must_be(pacer, PACER_MAGIC);
    must(for_us >= 0);
    tally_count(pacer->tally, TALLY_WASTED, pacer->hand.count);
    pacer->hand.count = 0;
    pacer->shared->ops->pause(pacer->shared, for_us);
    if (pacer->outage != NULL) {
        pacer->outage->ops->pause(pacer->outage, for_us);
    }
    pacer_kick(pacer);
}

/* Windows in hand that lie in the pause are of no use any more. */
static void drop_until(struct pacer *pacer, struct mono until)
{
    while (pacer->hand.count > 0 && pacer->hand.held[0].window.first.us < until.us) {
        hand_take(&pacer->hand);
        tally_count(pacer->tally, TALLY_WASTED, 1);
    }
}

void pacer_hear_pause(struct pacer *pacer, struct mono sent, struct mono until)
{
    must_be(pacer, PACER_MAGIC);
    pacer->shared->ops->heard(pacer->shared, sent, until);
    if (pacer->outage != NULL) {
        pacer->outage->ops->heard(pacer->outage, sent, until);
    }
    drop_until(pacer, pacer->shared->ops->paused_until(pacer->shared));
    pacer_kick(pacer);
}

void pacer_resume(struct pacer *pacer)
{
    must_be(pacer, PACER_MAGIC);
    pacer->shared->ops->pause(pacer->shared, SLOTS_RESUME);
    if (pacer->outage != NULL) {
        pacer->outage->ops->pause(pacer->outage, SLOTS_RESUME);
    }
    pacer->next_try.us = WINDOW_LONG_AGO_US;
    pacer_kick(pacer);
}

struct mono pacer_paused_until(const struct pacer *pacer, struct mono now)
{
    const struct asker *source = source_of(pacer, pacer_mode(pacer, now));

    source = source != NULL ? source : pacer->shared;
    return source->ops->paused_until(source);
}

bool pacer_is_idle(const struct pacer *pacer, struct mono now)
{
    return pacer->hand.count == 0 && pacer->asking == NULL && pacer->flying == 0 &&
           pacer->shared->ops->is_idle(pacer->shared, now) &&
           (pacer->outage == NULL || pacer->outage->ops->is_idle(pacer->outage, now));
}
