/*
 * From an answer's head to what follows from it.
 *
 *   read (http/feedback.c) -> tell the bucket (outbound/word.c): pause, strike, budget, for the whole fleet
 *                          -> may the request be sent again by itself?
 *
 * Sent again is only what cannot do harm: idempotent methods (RFC 9110 section 9.2.2), or any method where the answer
 * itself proves that nothing was done: 429, or 503, with Retry-After; and only while the caller still waits, that is
 * within max_wait of its arrival. Each attempt takes a slot of its own at the head of the queue, so retries cost
 * throughput but never the rate. Of the final answer the caller has not seen a byte by then.
 */
#include "proxy/feedback.h"

#include "base/mem.h"
#include "http/feedback.h"
#include "proxy/exchange_state.h"

#include <time.h>

enum { GOOD_MOST = 499 }; /* the worst status that shows that the third party is well */

static int64_t tell(struct exchange *e, enum told what, int64_t asked_us, int64_t remaining)
{
    struct answer answer = {.told = what, .left = e->released, .asked_us = asked_us, .remaining = remaining};

    return bucket_told(exchange_bucket(e), &answer);
}

static int64_t tell_all(struct exchange *e, unsigned status, const struct feedback *said)
{
    struct destination_stats *stats = &e->counts->stats;
    int64_t pause_us = 0;

    stats->garbled += said->garbage;
    if (said->banned) {
        stats->banned++;
        pause_us = tell(e, TOLD_BANNED, said->pause_us, 0);
    } else if (said->throttled) {
        stats->throttled++;
        e->throttled++;
        pause_us = tell(e, TOLD_THROTTLED, said->pause_us, 0);
    } else if (status <= GOOD_MOST) {
        pause_us = tell(e, TOLD_WELL, 0, 0);
    }
    if (said->counts_as_error) {
        pause_us = tell(e, TOLD_ERROR, 0, 0);
    }
    if (said->remaining > 0) {
        pause_us = tell(e, TOLD_BUDGET, said->reset_us, said->remaining);
    }
    if (said->empty_us > 0) {
        pause_us = tell(e, TOLD_BUDGET, said->empty_us, 0);
    }
    return pause_us;
}

/* ---- sending again ---- */

static bool is_idempotent(struct slice method)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (slice_is(method, methods[i])) {
            return true;
        }
    }
    return false;
}

/* There is an attempt left, and the caller waits for longer than the pause. */
static bool has_time(const struct exchange *e, int64_t pause_us)
{
    struct mono deadline = mono_add(e->arrived, e->patience_us);

    return e->paced && e->retries < e->policy->feedback.retry_max && !e->env->draining &&
           mono_add(loop_now(e->env->loop), pause_us).us < deadline.us;
}

static bool retries(const struct exchange *e, unsigned status, const struct feedback *said, int64_t pause_us)
{
    enum retry_mode mode = e->policy->feedback.retry;
    bool untouched = (status == 429 || status == 503) && said->retry_after;
    bool idempotent = is_idempotent(e->request->method);

    if (mode == RETRY_NONE || said->banned || !transfer_can_repeat(&e->transfer) || !has_time(e, pause_us)) {
        return false;
    }
    if (said->throttled) {
        return idempotent || untouched;
    }
    return mode == RETRY_SAFE && idempotent && status >= 502 && status <= 504;
}

bool feedback_take(struct exchange *e, const struct message *response)
{
    const struct feedback_conf *conf = &e->policy->feedback;
    int64_t pause_us = 0;
    struct feedback said;

    if (!e->paced || (!conf->on && conf->retry == RETRY_NONE)) {
        return false;
    }
    feedback_read(response, conf, loop_wall(e->env->loop), &said);
    bool obeyed = feedback_conf_obeys(conf, e->target.host, e->target.port) ||
                  feedback_conf_obeys(conf, e->target.host, e->origin.port);
    if (conf->on && obeyed) {
        pause_us = tell_all(e, response->status, &said);
    }
    return retries(e, response->status, &said, pause_us);
}

bool feedback_retries_unanswered(const struct exchange *e)
{
    return e->policy->feedback.retry == RETRY_SAFE && is_idempotent(e->request->method) &&
           transfer_can_repeat(&e->transfer) && has_time(e, 0);
}

/* ---- refusals ---- */

void feedback_explain(struct exchange *e, struct refusal *refusal)
{
    static const enum verdict verdicts[] = {[STOP_THROTTLED] = VERDICT_PAUSED,
                                            [STOP_BANNED] = VERDICT_BANNED,
                                            [STOP_ERRORS] = VERDICT_ERROR_BUDGET,
                                            [STOP_BUDGET] = VERDICT_PAUSED};
    int64_t left_us;
    enum stop stop = bucket_stopped(exchange_bucket(e), &left_us);
    char until[32];
    struct tm utc;

    if (stop == STOP_NONE) {
        return;
    }
    time_t at = (time_t)((loop_wall(e->env->loop).us + left_us + CLOCK_SECOND_US - 1) / CLOCK_SECOND_US);
    must(gmtime_r(&at, &utc) != NULL && strftime(until, sizeof(until), "%Y-%m-%dT%H:%M:%SZ", &utc) > 0);
    mem_free(e->wanted);
    e->wanted = mem_printf("%s until %s", stop_text(stop), until);
    refusal->verdict = verdicts[stop];
    refusal->detail = e->wanted;
    if (refusal->retry_after_us < left_us && refusal->forecast == NULL) {
        refusal->retry_after_us = left_us;
    }
}
