/*
 * The third party's word on one bucket.
 *
 *   an answer -> strikes.c: what follows, at once and here          -> pause, slower rate, waiters that can't make it
 *             -> word.lua: the same for the whole fleet, in Redis   -> its reply is the truth, and replaces ours
 *   when slots are refused, or were in hand for a while, and once a second with adapt: a look, for what others were
 * told
 *
 * So this process stops without waiting for Redis, goes on without it, and still every replica ends up with the same.
 * What was said while Redis is gone is told to it when it is back as far as a pause goes (slots_asker.c); the rest is
 * forgotten, as it would be after a good answer.
 *
 * Good answers cost no call, unless there is something to forgive.
 */
#include "outbound/word_of.h"

#include "base/log.h"
#include "base/mem.h"
#include "outbound/shed.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>

#define WORD_MAGIC 0x776f7264u
#define LOOK_EVERY_US CLOCK_SECOND_US
#define RECENT_US (300 * CLOCK_MS_US)
#define DOUBT_MORE_US (4 * CLOCK_MS_US)
#define MOST_US (86400 * CLOCK_SECOND_US)
#define TIME_MOST_US (INT64_C(1) << 53)
enum { NUMBERS = 13, REPLY = 6, SLOW_MOST = 1000 * STRIKES_EVEN, CALLS_MOST = 64 };

extern const struct script script_word;

/* One question to the script; freed when it is answered. */
struct word_call {
    struct link_call call;
    struct word *word;
    TAILQ_ENTRY(word_call) link;
    enum told what;
};

void word_init(struct word *word, struct loop *loop, struct slots_redis *redis, const char *stem, const char *name,
               struct pacer *pacer)
{
    *word = (struct word){.magic = WORD_MAGIC, .loop = loop, .redis = redis, .name = name, .pacer = pacer};
    strikes_init(&word->strikes, loop_now(loop).us);
    word->looked.us = WINDOW_LONG_AGO_US;
    TAILQ_INIT(&word->calls);
    if (redis != NULL) {
        word->keys[0] = mem_printf("%s:v", stem);
        word->keys[1] = mem_printf("%s:b", stem);
    }
}

void word_fini(struct word *word)
{
    struct word_call *call;

    must_be(word, WORD_MAGIC);
    while ((call = TAILQ_FIRST(&word->calls)) != NULL) {
        TAILQ_REMOVE(&word->calls, call, link);
        link_forget(word->redis->server, &call->call);
        mem_free(call);
    }
    timer_clear(&word->tick);
    mem_free(word->keys[0]);
    mem_free(word->keys[1]);
    word->magic = 0;
}

bool word_is_idle(const struct word *word)
{
    return TAILQ_EMPTY(&word->calls) && !timer_is_set(&word->tick);
}

/* ---- what is asked ---- */

static int64_t at_least_1(int64_t value)
{
    return value > 1 ? value : 1;
}

static struct strikes_ask ask_for(const struct word *word, enum told what, struct mono left, int64_t asked_us)
{
    const struct feedback_conf *conf = &word->pacer->policy->feedback;
    int64_t age_us = mono_diff(loop_now(word->loop), left);

    return (struct strikes_ask){.what = what,
                                .age_us = age_us > 0 ? age_us : 0,
                                .asked_us = asked_us,
                                .usual_us = what == TOLD_BANNED ? conf->ban_pause_us : conf->pause_default_us,
                                .growth = at_least_1(conf->pause_growth),
                                .least_us = conf->pause_min_us,
                                .most_us = conf->pause_max_us,
                                .slow_to = STRIKES_EVEN,
                                .slowest =
                                    conf->adapt ? STRIKES_EVEN * 100 / at_least_1(conf->adapt_floor) : STRIKES_EVEN,
                                .step_us = at_least_1(conf->adapt_return_us / 8),
                                .errors = conf->error_rate.count,
                                .slice_us = at_least_1(conf->error_rate.period_us / STRIKES_SLICES),
                                .most_of_all_us = MOST_US};
}

/* ---- what follows ---- */

static void tell_log(const struct word *word, enum told what, const struct strikes_reply *reply)
{
    static const char *const events[] = {[TOLD_THROTTLED] = "throttled",
                                         [TOLD_BANNED] = "banned",
                                         [TOLD_ERROR] = "error_budget",
                                         [TOLD_BUDGET] = "budget_empty"};
    int64_t pause_ms = reply->pause_us > reply->now_us ? (reply->pause_us - reply->now_us) / CLOCK_MS_US : 0;

    log_line(what == TOLD_THROTTLED || what == TOLD_BUDGET ? LOG_WARN : LOG_ERROR, events[what],
             LOG_STR("destination", word->name), LOG_STR("why", stop_text(reply->why)), LOG_INT("pause_ms", pause_ms),
             LOG_INT("in_a_row", reply->count), LOG_INT("rate_percent", 100 * STRIKES_EVEN / reply->slow), LOG_END);
}

static void slow_to(struct word *word, int64_t slow)
{
    if (slow != word->pacer->slow) {
        pacer_set_slow(word->pacer, slow);
    }
}

/* What strikes.c says follows from an answer that came here. */
static void obey(struct word *word, enum told what, const struct strikes_reply *before,
                 const struct strikes_reply *after)
{
    struct mono now = {after->now_us};
    bool stopped = after->why != STOP_NONE && after->why != before->why;

    slow_to(word, after->slow);
    if (after->pause_us > before->pause_us) {
        pacer_pause(word->pacer, after->pause_us - after->now_us);
        shed_hopeless(word->pacer, now);
    }
    if (after->fresh || (stopped && what != TOLD_THROTTLED)) {
        tell_log(word, what, after);
    }
}

/* ---- Redis ---- */

static bool number_at(const struct redisReply *reply, size_t index, int64_t least, int64_t most, int64_t *out)
{
    const struct redisReply *element = reply->element[index];

    if (element == NULL || element->type != REDIS_REPLY_INTEGER || element->integer < least ||
        element->integer > most) {
        return false;
    }
    *out = element->integer;
    return true;
}

static bool parse(const struct redisReply *reply, struct strikes_reply *out)
{
    int64_t why, fresh;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != REPLY ||
        !number_at(reply, 0, 1, TIME_MOST_US, &out->now_us) || !number_at(reply, 1, 0, TIME_MOST_US, &out->pause_us) ||
        !number_at(reply, 2, STOP_NONE, STOP_BUDGET, &why) || !number_at(reply, 3, 0, TIME_MOST_US, &out->count) ||
        !number_at(reply, 4, STRIKES_EVEN, SLOW_MOST, &out->slow) || !number_at(reply, 5, 0, 1, &fresh)) {
        return false;
    }
    out->why = (enum stop)why;
    out->fresh = fresh == 1;
    return out->pause_us == 0 || out->pause_us - out->now_us <= MOST_US;
}

/* The fleet's state on our clock: `answered` is after the script ran, so a pause never ends too early here. */
static void take_over(struct word *word, const struct link_call *call, const struct strikes_reply *reply)
{
    struct strikes *strikes = &word->strikes;
    enum stop before = strikes->until_us > call->answered.us ? strikes->why : STOP_NONE;
    struct mono until = {WINDOW_LONG_AGO_US};

    if (word->told.us > call->sent.us) {
        return; /* what was said here since is on its way, and newer */
    }
    strikes->count = reply->count;
    strikes->slow = reply->slow;
    strikes->moved_us = call->answered.us;
    if (reply->pause_us > 0) {
        until = mono_add(call->answered, reply->pause_us - reply->now_us);
    }
    strikes->pause_us = strikes->until_us = until.us;
    strikes->why = reply->why;
    slow_to(word, reply->slow);
    pacer_hear_pause(word->pacer, call->sent, until);
    if (reply->pause_us > 0) {
        shed_hopeless(word->pacer, call->answered);
    }
    if (reply->why == STOP_BANNED && before != STOP_BANNED) {
        tell_log(word, TOLD_BANNED, reply); /* another replica was told */
    }
}

static void call_done(struct link_call *call, const struct redisReply *reply)
{
    struct word_call *done = container_of(call, struct word_call, call);
    struct word *word = done->word;
    must_be(word, WORD_MAGIC);
    struct strikes_reply got;

    TAILQ_REMOVE(&word->calls, done, link);
    word->calls_count--;
    word->looking = word->looking && done->what != TOLD_NOTHING;
    if (reply != NULL && parse(reply, &got)) {
        take_over(word, call, &got);
    } else if (reply != NULL) {
        slots_redis_bad_reply(word->redis, "word");
    }
    mem_free(done);
}

static void tell_redis(struct word *word, const struct strikes_ask *ask)
{
    const int64_t numbers[NUMBERS] = {
        (int64_t)ask->what, ask->age_us,  ask->asked_us, ask->usual_us, ask->growth,   ask->least_us,      ask->most_us,
        ask->slow_to,       ask->slowest, ask->step_us,  ask->errors,   ask->slice_us, ask->most_of_all_us};
    char text[NUMBERS][24];
    const char *args[NUMBERS];

    if (word->redis == NULL || !word->redis->state.up || word->calls_count == CALLS_MOST) {
        return;
    }
    for (int i = 0; i < NUMBERS; i++) {
        snprintf(text[i], sizeof(text[i]), "%" PRId64, numbers[i]);
        args[i] = text[i];
    }
    struct word_call *call = mem_zalloc(sizeof(*call));
    call->word = word;
    call->what = ask->what;
    call->call.done = call_done;
    if (!link_eval(word->redis->server, &call->call, &script_word, (const char *const *)word->keys, 2, args, NUMBERS)) {
        mem_free(call);
        return;
    }
    word->pacer->shared->calls++;
    word->calls_count++;
    word->looking = word->looking || ask->what == TOLD_NOTHING;
    TAILQ_INSERT_TAIL(&word->calls, call, link);
}

/* ---- looking ---- */

static void look(struct word *word)
{
    struct mono now = loop_now(word->loop);
    struct strikes_ask ask = ask_for(word, TOLD_NOTHING, now, 0);

    word->looked = now;
    slow_to(word, strikes_take(&word->strikes, &ask, now.us).slow);
    if (!word->looking) {
        tell_redis(word, &ask);
    }
}

/* Pauses are learned of where they hurt, when slots are refused; a slower rate has to be asked for. */
static bool is_worth_a_look(const struct word *word, struct mono now)
{
    bool busy = word->pacer->queue->count > 0;

    return word->pacer->slow > STRIKES_EVEN || word->strikes.pause_us > now.us ||
           (busy && (word->pacer->policy->feedback.adapt || word->strikes.count > 0));
}

static void tick_due(struct timer *timer, struct mono now)
{
    struct word *word = container_of(timer, struct word, tick);
    must_be(word, WORD_MAGIC);

    if (is_worth_a_look(word, now)) {
        if (mono_diff(now, word->looked) >= RECENT_US) {
            look(word);
        }
        timer_set(word->loop, &word->tick, mono_add(now, LOOK_EVERY_US), tick_due);
    }
}

void word_used(struct word *word)
{
    const struct feedback_conf *conf = &word->pacer->policy->feedback;
    struct mono now = loop_now(word->loop);

    word->pacer->doubt_us = conf->on && word->redis != NULL ? word->redis->rtt.p99_us + DOUBT_MORE_US : 0;
    if (!conf->on || timer_is_set(&word->tick)) {
        return;
    }
    if (conf->adapt && word->redis != NULL && mono_diff(now, word->looked) >= LOOK_EVERY_US) {
        look(word);
    }
    timer_set(word->loop, &word->tick, mono_add(now, LOOK_EVERY_US), tick_due);
}

/* Slots that are scarce are refused again and again, which is news only once in a while. */
void word_doubted(void *arg, bool denied)
{
    struct word *word = arg;
    must_be(word, WORD_MAGIC);
    bool recent = mono_diff(loop_now(word->loop), word->looked) < RECENT_US;

    if (word->pacer->policy->feedback.on && word->redis != NULL && !word->looking && !(denied && recent)) {
        look(word);
    }
}

/* ---- being told ---- */

/* A budget: the interval that makes it last, against the configured one. False when there is nothing new in it. */
static bool stretch(const struct word *word, const struct answer *answer, struct strikes_ask *ask)
{
    int64_t even_us = at_least_1(pacer_even_interval_us(word->pacer));

    if (answer->remaining <= 0) {
        ask->asked_us = answer->asked_us;
        return answer->asked_us > 0 &&
               mono_add(loop_now(word->loop), answer->asked_us).us > word->strikes.pause_us + CLOCK_SECOND_US;
    }
    int64_t need_us = answer->asked_us / answer->remaining;
    int64_t most_us = INT64_MAX / STRIKES_EVEN;
    ask->asked_us = 0;
    ask->slow_to = (need_us < most_us ? need_us : most_us) * STRIKES_EVEN / even_us;
    ask->slow_to = ask->slow_to < ask->slowest ? ask->slow_to : ask->slowest;
    return ask->slow_to > word->pacer->slow + word->pacer->slow / 20;
}

static void follow(struct word *word, const struct answer *answer, struct mono now)
{
    struct strikes_ask look_only = ask_for(word, TOLD_NOTHING, now, 0);
    struct strikes_ask ask = ask_for(word, answer->told, answer->left, answer->asked_us);

    if (answer->told == TOLD_BUDGET && !stretch(word, answer, &ask)) {
        return;
    }
    struct strikes_reply before = strikes_take(&word->strikes, &look_only, now.us);
    struct strikes_reply after = strikes_take(&word->strikes, &ask, now.us);
    if (answer->told != TOLD_WELL) {
        word->told = now;
    }
    obey(word, answer->told, &before, &after);
    tell_redis(word, &ask);
    word_used(word);
}

int64_t word_tell(struct word *word, const struct answer *answer)
{
    must_be(word, WORD_MAGIC);
    struct mono now = loop_now(word->loop);

    if (answer->told != TOLD_WELL || word->strikes.count > 0) { /* else there is nothing to forgive */
        follow(word, answer, now);
    }
    int64_t left_us = word->strikes.pause_us - now.us;
    return left_us > 0 ? left_us : 0;
}

void word_resumed(struct word *word)
{
    word->strikes.pause_us = word->strikes.until_us = 0;
    word->told = loop_now(word->loop);
}

enum stop word_stopped(const struct word *word, int64_t *left_us)
{
    int64_t now_us = loop_now(word->loop).us;
    bool paused =
        pacer_paused_until(word->pacer, (struct mono){now_us}).us > now_us; /* an operator may have ended it */

    *left_us = word->strikes.until_us - now_us;
    return paused && *left_us > 0 ? word->strikes.why : STOP_NONE;
}

const char *stop_text(enum stop stop)
{
    static const char *const texts[] = {
        [STOP_NONE] = "nothing",
        [STOP_THROTTLED] = "the third party asked for a pause",
        [STOP_BANNED] = "banned by the third party",
        [STOP_ERRORS] = "too many errors of the third party, see error_budget",
        [STOP_BUDGET] = "the third party says that nothing is left of its budget",
    };
    return texts[stop];
}
