/*
 * A bucket: what callers of outbound.h see of one destination. It puts the queue and the pacer together and refuses who
 * can't be served in time; it decides nothing about slots.
 *
 * Waiters are embedded in exchanges, which may be freed as soon as they are off the queue, so every way off ends with
 * the callback or inside bucket_cancel(), and nothing is touched after it. The calls of this file never call back: they
 * change the queue and kick the pacer, which acts from a deferred call.
 */
#include "outbound/bucket.h"

#include "base/mem.h"

#include <string.h>

#define BUCKET_MAGIC 0x6275636bu
#define REDIS_DOWN_RETRY_US (2 * CLOCK_SECOND_US) /* longest back-off of the link */

static struct slots_spec spec_of(const struct bucket *bucket, const struct policy *policy)
{
    return slots_spec_of(policy, bucket->tag, bucket->part, bucket->parent, bucket->redis != NULL);
}

static struct slots_spec outage_spec(const struct bucket *bucket, const struct policy *policy)
{
    struct slots_spec spec = {.tag = bucket->name, .levels_count = 1, .cost_most = policy->cost_most};

    spec.levels[0].part = "outage";
    spec.levels[0].terms = slots_terms_of(policy, fallback_permits(policy));
    return spec;
}

/* Permits are each replica's own and never handed out by anybody, so they are no part of any quota. */
static struct asker *outage_asker(struct bucket *bucket, const struct policy *policy)
{
    int64_t permits = fallback_permits(policy);

    if (permits == 0) {
        return NULL;
    }
    struct slots_spec spec = outage_spec(bucket, policy);
    /* A process that died and came back can't know what it sent just before. */
    return slots_local_asker(bucket->local, &spec, mono_add(bucket->born, spec.levels[0].terms.interval_us));
}

static void follow_policy(struct queue *queue, const struct policy *policy)
{
    queue_set_order(queue, (unsigned)policy->max_queue, policy->order == ORDER_FAIR,
                    policy->priority_high.count + policy->priority_low.count > 0, (unsigned)policy->low_share);
}

struct bucket *bucket_new(const struct bucket_env *env, struct policy *policy, const struct bucket_id *id, struct bucket *whole,
                          struct tally *sum)
{
    struct bucket *bucket = mem_zalloc(sizeof(*bucket));

    bucket->magic = BUCKET_MAGIC;
    bucket->name = mem_printf("%s%s%s", id->destination, id->part[0] != '\0' ? " " : "", id->part);
    bucket->tag = mem_strdup(id->destination);
    bucket->part = mem_strdup(id->part);
    bucket->parent = mem_strdup(id->parent != NULL ? id->parent : "");
    bucket->configured = policy_get(policy);
    bucket->policy = policy_get(policy);
    bucket->loop = env->loop;
    bucket->redis = env->redis;
    bucket->local = env->local;
    bucket->born = env->born;
    bucket->used = loop_now(env->loop);
    bucket->whole = whole;
    if (whole != NULL) {
        whole->parts++;
    }
    tally_init(&bucket->tally, whole != NULL ? &whole->tally : sum);
    queue_init(&bucket->queue, (unsigned)policy->max_queue);
    follow_policy(&bucket->queue, policy);
    bucket->queue.tally = &bucket->tally;
    pacer_init(&bucket->pacer, env->loop, &bucket->queue, policy, bucket->name, &bucket->tally);
    struct slots_spec spec = spec_of(bucket, policy);
    pacer_take_spec(&bucket->pacer, &spec);
    if (env->redis != NULL) {
        struct asker *asker = slots_redis_asker(env->redis, &spec);
        pacer_set_shared(&bucket->pacer, slots_redis_state(asker), asker);
        pacer_set_outage(&bucket->pacer, outage_asker(bucket, policy));
    } else {
        pacer_set_shared(&bucket->pacer, NULL,
                         slots_local_asker(env->local, &spec, (struct mono){WINDOW_LONG_AGO_US}));
    }
    char *stem = env->redis != NULL ? slots_redis_stem(env->redis, bucket->tag, bucket->part) : NULL;
    word_init(&bucket->word, env->loop, env->redis, stem, bucket->name, &bucket->pacer);
    mem_free(stem);
    pacer_on_doubt(&bucket->pacer, word_doubted, &bucket->word);
    return bucket;
}

void bucket_free(struct bucket *bucket)
{
    must_be(bucket, BUCKET_MAGIC);
    must(bucket->queue.count == 0 && bucket->parts == 0);
    if (bucket->whole != NULL) {
        bucket->whole->parts--;
    }
    word_fini(&bucket->word);
    pacer_fini(&bucket->pacer);
    queue_fini(&bucket->queue);
    policy_put(bucket->policy);
    policy_put(bucket->configured);
    mem_free(bucket->tag);
    mem_free(bucket->part);
    mem_free(bucket->parent);
    mem_free(bucket->name);
    bucket->magic = 0;
    mem_free(bucket);
}

void bucket_set_policy(struct bucket *bucket, struct policy *policy)
{
    struct policy *old = bucket->policy;

    must_be(bucket, BUCKET_MAGIC);
    if (old != policy) {
        bucket->policy = policy_get(policy);
        follow_policy(&bucket->queue, policy);
        struct slots_spec spec = spec_of(bucket, policy);
        if (bucket->redis != NULL && bucket->pacer.outage == NULL) {
            pacer_set_outage(&bucket->pacer, outage_asker(bucket, policy));
        }
        pacer_set_policy(&bucket->pacer, policy, &spec);
        if (bucket->pacer.outage != NULL && fallback_permits(policy) > 0) {
            spec = outage_spec(bucket, policy);
            bucket->pacer.outage->ops->set_spec(bucket->pacer.outage, &spec);
        }
        policy_put(old);
    }
}

bool bucket_is_idle(const struct bucket *bucket, struct mono now)
{
    must_be(bucket, BUCKET_MAGIC);
    return !bucket->is_kept && bucket->parts == 0 && bucket->queue.count == 0 && word_is_idle(&bucket->word) &&
           pacer_is_idle(&bucket->pacer, now);
}

static void deadline_due(struct timer *timer, struct mono now)
{
    struct waiter *waiter = container_of(timer, struct waiter, deadline);
    must_be(waiter, WAITER_MAGIC);
    struct bucket *bucket = waiter->bucket;
    must_be(bucket, BUCKET_MAGIC);

    (void)now;
    queue_remove(&bucket->queue, waiter);
    tally_count(&bucket->tally, TALLY_GAVE_UP, 1);
    pacer_kick(&bucket->pacer);
    waiter->ops->on_give_up(waiter, GIVE_UP_DEADLINE);
}

static enum enqueue judge(const struct bucket *bucket, const struct waiter *waiter, struct mono now,
                          int64_t patience_us, struct forecast *forecast)
{
    const struct pacer *pacer = &bucket->pacer;
    int64_t first_us = pacer_wait_us(pacer, 0, now);

    *forecast = (struct forecast){.position = queue_ahead(&bucket->queue, waiter)};
    forecast->wait_us = pacer_wait_us(pacer, forecast->position, now);
    int64_t excess_us = forecast->wait_us > patience_us ? forecast->wait_us - patience_us : 0;
    if (pacer_mode(pacer, now) == FALLBACK_REJECT) {
        forecast->retry_after_us = REDIS_DOWN_RETRY_US;
        return ENQUEUE_REDIS_DOWN;
    }
    if (waiter->cost > pacer_cost_most(bucket->policy)) {
        return ENQUEUE_COST;
    }
    if (pacer_quota_rejects(pacer, now)) {
        forecast->retry_after_us = mono_diff(pacer->quota_until, now);
        return ENQUEUE_QUOTA;
    }
    if (queue_is_full(&bucket->queue, waiter)) {
        forecast->retry_after_us = first_us > excess_us ? first_us : excess_us;
        return ENQUEUE_FULL;
    }
    forecast->retry_after_us = excess_us;
    return excess_us > 0 ? ENQUEUE_TOO_LONG : ENQUEUE_OK;
}

enum enqueue bucket_enqueue(struct bucket *bucket, struct waiter *waiter, int64_t patience_us,
                            struct forecast *forecast)
{
    must_be(bucket, BUCKET_MAGIC);
    struct mono now = loop_now(bucket->loop);
    enum enqueue verdict = judge(bucket, waiter, now, patience_us, forecast);

    bucket->used = now;
    word_used(&bucket->word);
    tally_count(&bucket->tally, TALLY_ARRIVED, 1);
    if (verdict != ENQUEUE_OK) {
        tally_count(&bucket->tally, TALLY_REFUSED, 1);
        return verdict;
    }
    queue_append(&bucket->queue, waiter, bucket);
    waiter->enqueued = now;
    timer_set(bucket->loop, &waiter->deadline, mono_add(now, patience_us), deadline_due);
    pacer_kick(&bucket->pacer);
    return ENQUEUE_OK;
}

void bucket_return(struct bucket *bucket, struct waiter *waiter, struct mono deadline, bool slot_unused)
{
    must_be(bucket, BUCKET_MAGIC);
    must_be(waiter, WAITER_MAGIC);
    bucket_finish(waiter, 0); /* it has not begun */
    if (slot_unused) {
        pacer_unused(&bucket->pacer, waiter, loop_now(bucket->loop));
    }
    queue_prepend(&bucket->queue, waiter, bucket);
    timer_set(bucket->loop, &waiter->deadline, deadline, deadline_due);
    pacer_kick(&bucket->pacer);
}

void bucket_ready(struct waiter *waiter, bool ready)
{
    must_be(waiter, WAITER_MAGIC);
    must_be(waiter->bucket, BUCKET_MAGIC);
    must(waiter->near);
    struct bucket *bucket = waiter->bucket;

    if (ready && !waiter->ready) {
        pacer_became_ready(&bucket->pacer, waiter, loop_now(bucket->loop));
    } else if (!ready) {
        waiter->near_since = loop_now(bucket->loop);
    }
    waiter->ready = ready;
    pacer_kick(&bucket->pacer);
}

void bucket_cancel(struct waiter *waiter)
{
    if (waiter->bucket == NULL) {
        return;
    }
    struct bucket *bucket = waiter->bucket;
    must_be(bucket, BUCKET_MAGIC);
    queue_remove(&bucket->queue, waiter);
    tally_count(&bucket->tally, TALLY_CANCELLED, 1);
    pacer_kick(&bucket->pacer);
}

void bucket_finish(struct waiter *waiter, int64_t more)
{
    bucket_finish_left(waiter, more, -1);
}

void bucket_finish_left(struct waiter *waiter, int64_t more, int64_t left)
{
    struct bucket *bucket = waiter->flies_in;

    if (bucket == NULL) {
        return;
    }
    must_be(bucket, BUCKET_MAGIC);
    waiter->flies_in = NULL;
    struct slots_bill bill = {more, left, mono_diff(loop_now(bucket->loop), waiter->released)};
    pacer_finish(&bucket->pacer, &bill);
}

void bucket_pause(struct bucket *bucket, int64_t for_us)
{
    must_be(bucket, BUCKET_MAGIC);
    tally_count(&bucket->tally, TALLY_PAUSED, 1);
    pacer_pause(&bucket->pacer, for_us);
}

void bucket_resume(struct bucket *bucket)
{
    must_be(bucket, BUCKET_MAGIC);
    word_resumed(&bucket->word);
    pacer_resume(&bucket->pacer);
}

int64_t bucket_told(struct bucket *bucket, const struct answer *answer)
{
    must_be(bucket, BUCKET_MAGIC);
    return word_tell(&bucket->word, answer);
}

enum stop bucket_stopped(const struct bucket *bucket, int64_t *left_us)
{
    must_be(bucket, BUCKET_MAGIC);
    return word_stopped(&bucket->word, left_us);
}

void bucket_purge(struct bucket *bucket)
{
    must_be(bucket, BUCKET_MAGIC);
    pacer_purge(&bucket->pacer);
}

static const char *mode_word(enum fallback mode)
{
    static const char *const words[] = {[FALLBACK_SHARED] = "paced",
                                        [FALLBACK_HOLD] = "hold",
                                        [FALLBACK_RESERVE] = "reserve",
                                        [FALLBACK_REJECT] = "reject",
                                        [FALLBACK_OPEN] = "open"};
    return words[mode];
}

static int64_t at_least_0(int64_t us)
{
    return us > 0 ? us : 0;
}

void bucket_stats(const struct bucket *bucket, struct bucket_stats *out)
{
    must_be(bucket, BUCKET_MAGIC);
    const struct pacer *pacer = &bucket->pacer;
    const struct tally *tally = &bucket->tally;
    const struct waiter *first = queue_first(&bucket->queue);
    struct mono now = loop_now(bucket->loop);
    int64_t left_us;

    *out = (struct bucket_stats){.name = bucket->name,
                                 .destination = bucket->tag,
                                 .policy = bucket->policy,
                                 .tally = tally,
                                 .mode = mode_word(pacer_mode(pacer, now)),
                                 .waiting = tally->waiting,
                                 .parts = bucket->parts,
                                 .others = pacer->shared->others,
                                 .others_waiting = pacer->shared->others_queued,
                                 .in_flight = pacer->flying,
                                 .interval_us = pacer->shared->terms.interval_us,
                                 .wait_us = pacer_wait_us(pacer, bucket->queue.count, now),
                                 .oldest_us = first != NULL ? mono_diff(now, first->enqueued) : 0,
                                 .paused_us = at_least_0(mono_diff(pacer_paused_until(pacer, now), now)),
                                 .stopped = word_stopped(&bucket->word, &left_us),
                                 .slow = pacer->slow,
                                 .released = tally->counts[TALLY_RELEASED] - tally->counts[TALLY_RETURNED],
                                 .late_windows = tally->counts[TALLY_LATE],
                                 .wasted_windows = tally->counts[TALLY_WASTED],
                                 .cancelled = tally->counts[TALLY_CANCELLED],
                                 .gave_up = tally->counts[TALLY_GAVE_UP],
                                 .refused = tally->counts[TALLY_REFUSED],
                                 .redis_calls = pacer->shared->calls,
                                 .limits_differ = pacer->shared->differs,
                                 .most_in_window = tally->most_in_window};
}
