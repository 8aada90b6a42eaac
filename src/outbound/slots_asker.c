/*
 * The asker of one bucket: asks reserve.lua, and uses an answer only when it is sure what it means.
 *
 *   ask -> reply -> bad? ------------------------------> later (in a moment, told to the log)
 *                   step found since, or still listening -> later; the grant is dropped
 *                   nothing granted -------------------> later (the script's word: a turn by ticket)
 *                   quick exchange --------------------> windows
 *                   slow exchange -> look (want = 0), up to three times -> a quick one, no step, same epoch -> windows
 *   lost (no reply) -> its slots are burnt: they may have been granted, nobody will use them
 *
 * A slow exchange proves nothing about the clock: a step could hide in its length, so its windows wait for a quick
 * look. They are made at once all the same, with the bounds of their own exchange, which a later step would spoil.
 *
 * What an epoch is and when it changes is the script's; this side only reports what it alone can see: that the clock
 * went forward
 * (`suspect`, with every call until a reply shows another epoch), and the latest tat (`floor`, should a key get lost).
 */
#include "outbound/slots_redis.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ASKER_MAGIC 0x61736b72u
#define GRACE_MOST_US (100 * CLOCK_MS_US)
#define AHEAD_LEAST_US (20 * CLOCK_MS_US)
#define AGAIN_SOON_US CLOCK_MS_US
#define AGAIN_BAD_US (100 * CLOCK_MS_US)
#define AGAIN_MOST_US CLOCK_SECOND_US /* another replica may have ended the pause that was told */
#define MEMBERS_TTL_US (3 * CLOCK_SECOND_US)
#define PAUSE_MOST_US (86400 * CLOCK_SECOND_US)
enum { LOOKS = 3 };

extern const struct script script_reserve, script_settle, script_pause, script_members, script_fly;

static const struct asker_ops redis_ops;
static void asker_up(struct redis_asker *self);
static void asker_tick(struct redis_asker *self);
static void redis_tell_flying(struct asker *asker);
static void asker_moved(struct redis_asker *self, struct slots_redis *to);

static struct redis_asker *self_of(const struct asker *asker)
{
    struct redis_asker *self = container_of(asker, struct redis_asker, base);
    must_be(self, ASKER_MAGIC);
    return self;
}

static char *key_of(const struct slots_redis *redis, const struct slots_spec *spec, unsigned level, const char *suffix)
{
    char *stem = slots_redis_stem(redis, spec->tag, spec->levels[level].part);
    char *key = mem_printf("%s:%s", stem, suffix);

    mem_free(stem);
    return key;
}

/* Named by what it counts, so that other settings (of another replica, or after a reload) never take one quota's memory for another's. */
static char *quota_key(const struct redis_asker *self, const struct slots_spec *spec, unsigned level,
                       const struct quota_terms *terms)
{
    static const char kinds[] = {[QUOTA_ROLLING] = 'r', [QUOTA_COARSE] = 'c', [QUOTA_ALIGNED] = 'a'};
    char suffix[32];

    snprintf(suffix, sizeof(suffix), "q%c%" PRId64, kinds[terms->kind], terms->period_us);
    return key_of(self->redis, spec, level, suffix);
}

static void make_limit_keys(struct redis_asker *self, const struct slots_spec *spec)
{
    for (unsigned level = 0; level < spec->levels_count; level++) {
        const struct slot_limits *limits = &spec->levels[level].limits;
        struct asker_level *keys = &self->levels[level];
        keys->flight = limits->in_flight_most > 0 ? key_of(self->redis, spec, level, "f") : NULL;
        for (unsigned i = 0; i < limits->quotas_count; i++) {
            keys->quotas[i] = quota_key(self, spec, level, &limits->terms[i]);
        }
    }
}

static void make_keys(struct redis_asker *self, const struct slots_spec *spec)
{
    for (unsigned level = 0; level < spec->levels_count; level++) {
        self->levels[level].bucket = key_of(self->redis, spec, level, "b");
        self->levels[level].tickets = key_of(self->redis, spec, level, "w");
    }
    self->keys[ASKER_EPOCH] = mem_printf("%s:{%s}:e", self->redis->prefix, spec->tag);
    self->keys[ASKER_BUCKET] = self->levels[0].bucket;
    self->keys[ASKER_TICKETS] = self->levels[0].tickets;
    self->keys[ASKER_MEMBERS] = key_of(self->redis, spec, 0, "m");
    make_limit_keys(self, spec);
}

static void free_limit_keys(struct redis_asker *self)
{
    for (unsigned level = 0; level < SLOT_LEVELS; level++) {
        struct asker_level *keys = &self->levels[level];
        mem_free(keys->flight);
        keys->flight = NULL;
        for (unsigned i = 0; i < SLOT_QUOTAS; i++) {
            mem_free(keys->quotas[i]);
            keys->quotas[i] = NULL;
        }
    }
}

static void free_keys(struct redis_asker *self)
{
    free_limit_keys(self);
    for (unsigned level = 0; level < SLOT_LEVELS; level++) {
        mem_free(self->levels[level].bucket);
        mem_free(self->levels[level].tickets);
    }
    mem_free(self->keys[ASKER_EPOCH]);
    mem_free(self->keys[ASKER_MEMBERS]);
}

static void nobody_listens(void *arg)
{
    (void)arg;
}

struct asker *slots_redis_asker(struct slots_redis *redis, const struct slots_spec *spec)
{
    struct redis_asker *self = mem_zalloc(sizeof(*self));
    const char *part = spec->levels[0].part;

    self->magic = ASKER_MAGIC;
    self->base.ops = &redis_ops;
    self->base.terms = spec->levels[0].terms;
    self->spec = *spec;
    self->redis = redis;
    self->id = mem_printf("%s%s%s", redis->me, part[0] != '\0' ? " " : "", part);
    self->on_up = asker_up;
    self->on_tick = asker_tick;
    self->on_moved = asker_moved;
    self->ask_call.pinned = self->look_call.pinned = self->members_call.pinned = true; /* about this server's clock */
    self->grace_us = self->base.terms.late_us;
    self->listen_until.us = self->pause_until.us = self->kept_until.us = WINDOW_LONG_AGO_US;
    differ_init(&self->differ);
    make_keys(self, spec);
    self->base.on_change = nobody_listens; /* until a pacer does */
    self->state = redis->state;
    slots_redis_join(redis, self);
    slots_redis_place(self);
    return &self->base;
}

const struct slots *slots_redis_state(const struct asker *asker)
{
    return &self_of(asker)->state;
}

static void forget_calls(struct redis_asker *self)
{
    link_forget(self->redis->server, &self->ask_call);
    link_forget(self->redis->server, &self->look_call);
    link_forget(self->redis->server, &self->members_call);
}

static void redis_free(struct asker *asker)
{
    struct redis_asker *self = self_of(asker);

    forget_calls(self);
    slots_redis_leave(self);
    free_keys(self);
    mem_free(self->id);
    mem_free(self->windows);
    self->magic = 0;
    mem_free(self);
}

/* ---- questions ---- */

/* Ours, or that of a replica that was told to be slower. */
static int64_t strictest_us(const struct redis_asker *self)
{
    int64_t own_us = self->spec.levels[0].terms.interval_us;

    return self->differ.interval_us > own_us ? self->differ.interval_us : own_us;
}

/* A slow link can hide larger clock steps, so its slots are further apart. */
static void follow_speed(struct redis_asker *self)
{
    const struct slots_terms *terms = &self->spec.levels[0].terms;
    int64_t excess = slots_redis_unnoticed_us(self->redis, terms) - terms->unnoticed_us;

    self->slowness_us = excess > 0 ? excess + excess / 1000 + 1 : 0;
    self->base.terms.interval_us = asker_interval_us(self, 0) + strictest_us(self) - terms->interval_us;
}

static int64_t grace_base_us(const struct redis_asker *self)
{
    int64_t grace = 3 * self->redis->rtt.p99_us;
    grace = grace < GRACE_MOST_US ? grace : GRACE_MOST_US;
    return grace > self->spec.levels[0].terms.late_us ? grace : self->spec.levels[0].terms.late_us;
}

static bool reserve(struct redis_asker *self, struct link_call *call, const struct grant_limits *limits)
{
    struct reserve_words words;

    reserve_words(&words, self, limits);
    self->base.calls++;
    return link_eval(self->redis->server, call, &script_reserve, words.keys, words.keys_count, words.args,
                     words.args_count);
}

static struct grant_limits limits_now(const struct redis_asker *self, const char *rid, unsigned want)
{
    return (struct grant_limits){.rid = rid,
                                 .want = want,
                                 .interval_us = self->base.terms.interval_us,
                                 .late_us = self->spec.levels[0].terms.late_us,
                                 .grace_us = self->grace_us,
                                 .horizon_us = self->spec.levels[0].terms.horizon_us};
}

/* ---- answers ---- */

static void answer(struct redis_asker *self, enum slots_outcome outcome, struct mono again)
{
    struct slots_answer it = {.outcome = outcome, .again = again, .reason = self->reason};

    if (outcome == SLOTS_GRANTED) {
        it.windows = self->windows;
        it.count = self->windows_count;
        it.spoilt = self->spoilt;
    } else {
        it.spoilt = self->windows_count + self->spoilt;
    }
    self->windows_count = self->spoilt = 0;
    if (slots_spec_counts_flight(&self->spec)) {
        self->base.flying += it.count; /* as the script counts them: the lease is renewed with that number */
    }
    if (self->told_while_asking) {
        self->told_while_asking = false;
        redis_tell_flying(&self->base);
    }
    self->base.on_answer(self->base.arg, &self->base, &it);
}

static void answer_later(struct redis_asker *self, struct mono now, int64_t in_us)
{
    struct mono again = mono_add(now, in_us);
    answer(self, SLOTS_LATER, again.us > self->listen_until.us ? again : self->listen_until);
}

/* What every reply of reserve.lua says, whatever it was asked for. Replies to this connection's server only get here.
 */
static void take_in(struct redis_asker *self, const struct link_call *call, const struct slot_reply *reply)
{
    bool is_new = strcmp(self->eid, reply->eid) != 0;
    const struct window_clock *clock = &self->redis->clock;

    /* Before the epoch is taken over: a step that is found now makes the one that was known suspect. A new one most
     * likely began because another replica found the same step; were it suspected too, a fleet of n would make n epochs
     * of one step. Should it be older than the step after all, what follows below is enough: nothing is used for H + I.
     */
    slots_redis_exchange(self->redis, call, (struct rtime){reply->now_us});
    memcpy(self->eid, reply->eid, sizeof(self->eid));
    self->floor_us = reply->tat_us;
    self->parent_floor_us = reply->parent_tat_us;
    self->free_us = reply->free_us;
    self->reason = reply->reason;
    if (self->suspect[0] != '\0' && strcmp(self->suspect, self->eid) != 0) {
        self->suspect[0] = '\0';
    }
    if (is_new) {
        /* An epoch we did not know: it may have begun before a step we saw, or before we could see any. What others
         * hold from then is over after H + I; usually that is long past, or what the script makes us wait for anyway.
         */
        int64_t from = clock->born.us > clock->step_at.us ? clock->born.us : clock->step_at.us;
        int64_t until = from + self->spec.levels[0].terms.horizon_us + self->base.terms.interval_us;
        if (until > self->listen_until.us) {
            self->listen_from.us = from;
            self->listen_until.us = until;
        }
    }
}

static bool is_stale(const struct redis_asker *self, struct mono sent)
{
    return sent.us < self->redis->clock.step_at.us;
}

static bool is_quick(const struct redis_asker *self, const struct link_call *call)
{
    return mono_diff(call->answered, call->sent) <= slots_redis_unnoticed_us(self->redis, &self->spec.levels[0].terms);
}

static void ask_done(struct link_call *call, const struct redisReply *reply);

static bool parse(struct redis_asker *self, const struct redisReply *reply, struct slot_reply *out, struct slot *slots)
{
    if (grant_parse(reply, &self->asked, out, slots)) {
        return true;
    }
    if (!grant_is_moving(reply)) {
        slots_redis_bad_reply(self->redis, "reserve");
    }
    return false;
}

static void use(struct redis_asker *self, const struct link_call *call)
{
    bool too_late = self->windows_count == 0 || self->windows[0].last.us < call->answered.us;
    int64_t base = grace_base_us(self);

    if (too_late) {
        self->grace_us = self->grace_us * 2 < GRACE_MOST_US ? self->grace_us * 2 : GRACE_MOST_US;
        self->grace_us =
            self->grace_us > self->spec.levels[0].terms.late_us ? self->grace_us : self->spec.levels[0].terms.late_us;
    } else {
        self->grace_us = self->grace_us * 19 / 20 > base ? self->grace_us * 19 / 20 : base;
    }
    answer(self, SLOTS_GRANTED, call->answered);
}

static bool look_again(struct redis_asker *self);

static void confirm_done(struct link_call *call, const struct redisReply *reply)
{
    struct redis_asker *self = container_of(call, struct redis_asker, ask_call);
    must_be(self, ASKER_MAGIC);
    struct slot_reply got;

    if (reply == NULL) {
        answer(self, SLOTS_LOST, call->answered);
        return;
    }
    if (!parse(self, reply, &got, NULL)) {
        answer_later(self, call->answered, AGAIN_BAD_US);
        return;
    }
    take_in(self, call, &got);
    if (is_stale(self, self->granted_sent) || strcmp(got.eid, self->granted_eid) != 0) {
        answer_later(self, call->answered, AGAIN_SOON_US);
    } else if (is_quick(self, call)) {
        use(self, call);
    } else if (--self->looks_left == 0) {
        slots_redis_too_slow(self->redis, &self->spec.levels[0].terms, mono_diff(call->answered, call->sent));
        answer_later(self, call->answered, AGAIN_SOON_US);
    } else if (!look_again(self)) {
        answer(self, SLOTS_LOST, call->answered);
    }
}

static bool look_again(struct redis_asker *self)
{
    self->asked.want = 0;
    self->ask_call.done = confirm_done;
    return reserve(self, &self->ask_call, &self->asked);
}

static void map_windows(struct redis_asker *self, const struct slot *slots, unsigned count, struct rtime now)
{
    self->windows = mem_realloc(self->windows, count * sizeof(self->windows[0]));
    self->windows_count = self->spoilt = 0;
    for (unsigned i = 0; i < count; i++) {
        struct window *window = &self->windows[self->windows_count];
        if (window_map(&self->redis->clock, &slots[i], now, window)) {
            window->cost = self->asked.cost;
            self->windows_count++;
        } else {
            self->spoilt++;
        }
    }
}

static void ask_done(struct link_call *call, const struct redisReply *reply)
{
    struct redis_asker *self = container_of(call, struct redis_asker, ask_call);
    must_be(self, ASKER_MAGIC);
    struct slot slots[SLOTS_WANT_MAX];
    struct slot_reply got;

    if (reply == NULL) {
        answer(self, SLOTS_LOST, call->answered);
        return;
    }
    if (!parse(self, reply, &got, slots)) {
        answer_later(self, call->answered, AGAIN_BAD_US);
        return;
    }
    take_in(self, call, &got);
    if (is_stale(self, call->sent) || call->answered.us < self->listen_until.us) {
        self->spoilt = got.count;
        answer_later(self, call->answered, AGAIN_SOON_US);
    } else if (got.count == 0) {
        answer_later(self, call->answered, got.retry_us < AGAIN_MOST_US ? got.retry_us : AGAIN_MOST_US);
    } else {
        map_windows(self, slots, got.count, (struct rtime){got.now_us});
        self->granted_sent = call->sent;
        memcpy(self->granted_eid, got.eid, sizeof(got.eid));
        self->looks_left = LOOKS;
        if (is_quick(self, call)) {
            use(self, call);
        } else if (!look_again(self)) {
            answer(self, SLOTS_LOST, call->answered);
        }
    }
}

/* Who can make up key values must not fill Redis with their quotas: as long as one is kept there, so is the bucket here, and of
 * those there are only so many. */
static int64_t quotas_live_us(const struct redis_asker *self)
{
    const struct slot_limits *limits = &self->spec.levels[0].limits;
    int64_t longest_us = 0;

    for (unsigned i = 0; i < limits->quotas_count && self->spec.levels[0].part[0] != '\0'; i++) {
        longest_us = limits->terms[i].span_us > longest_us ? limits->terms[i].span_us : longest_us;
    }
    return longest_us;
}

static bool redis_ask(struct asker *asker, unsigned want, int64_t cost)
{
    struct redis_asker *self = self_of(asker);
    struct mono now = loop_now(self->redis->loop);

    must(want > 0 && want <= SLOTS_WANT_MAX && !self->ask_call.in_flight);
    slots_redis_place(self);
    if (!self->redis->state.up) {
        return false;
    }
    if (mono_before(now, self->listen_until)) {
        answer(self, SLOTS_LATER, self->listen_until);
        return true;
    }
    self->kept_until = mono_add(now, quotas_live_us(self));
    follow_speed(self);
    snprintf(self->asked_rid, sizeof(self->asked_rid), "%s", link_run_id(self->redis->server));
    self->asked = limits_now(self, self->asked_rid, want);
    self->asked.cost = cost;
    self->ask_call.done = ask_done;
    return reserve(self, &self->ask_call, &self->asked);
}

/* ---- looking, telling ---- */

static void look_done(struct link_call *call, const struct redisReply *reply)
{
    struct redis_asker *self = container_of(call, struct redis_asker, look_call);
    must_be(self, ASKER_MAGIC);
    char rid[SLOT_RID_BYTES];
    struct slot_reply got;

    snprintf(rid, sizeof(rid), "%s", link_run_id(self->redis->server));
    struct grant_limits limits = limits_now(self, rid, 0);
    if (reply == NULL) {
        return;
    }
    if (grant_parse(reply, &limits, &got, NULL)) {
        take_in(self, call, &got);
    } else if (!grant_is_moving(reply)) {
        slots_redis_bad_reply(self->redis, "look");
    }
}

static void look(struct redis_asker *self)
{
    struct grant_limits limits = limits_now(self, link_run_id(self->redis->server), 0);

    self->look_call.done = look_done;
    if (!self->look_call.in_flight && !reserve(self, &self->look_call, &limits)) {
        return; /* going down */
    }
}

void slots_redis_warm(struct asker *asker)
{
    struct redis_asker *self = self_of(asker);

    self->is_warm = true;
    if (self->redis->state.up && self->eid[0] == '\0') {
        look(self);
    }
}

static void asker_up(struct redis_asker *self)
{
    int64_t pause_us = mono_diff(self->pause_until, loop_now(self->redis->loop));

    if (pause_us > 0) {
        slots_redis_tell(self->redis, &script_pause, self->keys[ASKER_BUCKET], pause_us, PAUSE_MOST_US);
    }
    if (self->base.flying > 0) {
        redis_tell_flying(&self->base); /* before anybody is let out there: slot.h, SLOT_IN_FLIGHT_QUIET_US */
    }
    if (self->is_warm) {
        look(self);
    }
}

/* What was asked of the other server is lost, and what it said means nothing on this one's clock. */
static void asker_moved(struct redis_asker *self, struct slots_redis *to)
{
    bool asking = self->ask_call.in_flight;

    forget_calls(self);
    self->redis = to;
    self->eid[0] = self->suspect[0] = '\0';
    self->floor_us = self->parent_floor_us = self->free_us = 0;
    if (asking) {
        answer(self, SLOTS_LOST, loop_now(to->loop));
    }
}

/* Any replica may have begun or ended a pause; what was said here after the question was asked is newer. */
static void take_pause(struct redis_asker *self, const struct link_call *call, struct rtime now, struct rtime pause)
{
    if (self->pause_told.us < call->sent.us) {
        bool is_paused = pause.us > now.us && pause.us - now.us <= PAUSE_MOST_US;
        self->pause_until = is_paused ? mono_add(call->answered, pause.us - now.us) : (struct mono){WINDOW_LONG_AGO_US};
    }
}

static void members_done(struct link_call *call, const struct redisReply *reply)
{
    struct redis_asker *self = container_of(call, struct redis_asker, members_call);
    must_be(self, ASKER_MAGIC);
    struct rtime now;
    struct rtime pause;
    unsigned members, queued;

    if (reply == NULL) {
        return;
    }
    if (!grant_parse_members(reply, &now, &members, &queued, &pause)) {
        if (!grant_is_moving(reply)) {
            slots_redis_bad_reply(self->redis, "members");
        }
        return;
    }
    slots_redis_exchange(self->redis, call, now);
    take_pause(self, call, now, pause);
    differ_take(&self->differ, reply, &self->spec, self->redis->name, call->answered);
    self->base.differs = self->differ.count;
    self->base.others = members > 0 ? members - 1 : 0;
    self->base.others_queued = queued > self->base.queued ? queued - self->base.queued : 0;
}

static void asker_tick(struct redis_asker *self)
{
    char queued[16], ttl[24], interval[24];
    const char *args[] = {self->redis->me, queued, ttl, interval, self->redis->name, self->spec.says, self->id};
    const char *keys[] = {self->keys[ASKER_MEMBERS], self->keys[ASKER_BUCKET], self->levels[0].tickets,
                          self->levels[1].tickets};
    bool is_queued = self->base.queued > 0;

    if (self->base.flying > 0) {
        redis_tell_flying(&self->base); /* renews the lease */
    }
    struct mono now = loop_now(self->redis->loop);
    bool is_due = is_queued || self->was_queued || (self->is_warm && differ_is_due(&self->differ, now));
    if (!is_due || self->members_call.in_flight) {
        return;
    }
    snprintf(queued, sizeof(queued), "%d", is_queued ? (int)self->base.queued : -1);
    snprintf(ttl, sizeof(ttl), "%" PRId64, MEMBERS_TTL_US);
    snprintf(interval, sizeof(interval), "%" PRId64, self->spec.even_us);
    self->differ.said = now;
    self->was_queued = is_queued;
    self->members_call.done = members_done;
    self->base.calls++;
    if (!link_eval(self->redis->server, &self->members_call, &script_members, keys, 2 + self->spec.levels_count, args,
                   7)) {
        self->was_queued = false;
    }
}

/* What a slot made of the parent's tat. */
static int64_t parents_tat_us(const struct redis_asker *self, const struct window *window)
{
    return window->slot.tat_us + window->cost * (asker_interval_us(self, 1) - self->base.terms.interval_us);
}

static bool redis_give_back(struct asker *asker, const struct window *oldest, const struct window *newest)
{
    struct redis_asker *self = self_of(asker);
    struct mono now = loop_now(self->redis->loop);

    if (!self->redis->state.up || mono_diff(oldest->first, now) <= 2 * self->redis->rtt.most_us) {
        return false;
    }
    int64_t first_us = oldest->slot.first_us;
    if (self->floor_us == newest->slot.tat_us) {
        self->floor_us = self->free_us = first_us; /* or it would take them back with the next question */
    }
    self->base.calls++;
    slots_redis_tell(self->redis, &script_settle, self->keys[ASKER_BUCKET], first_us, newest->slot.tat_us);
    if (self->spec.levels_count > 1) {
        int64_t parent_tat_us = parents_tat_us(self, newest);
        self->parent_floor_us = self->parent_floor_us == parent_tat_us ? first_us : self->parent_floor_us;
        slots_redis_tell(self->redis, &script_settle, self->levels[1].bucket, first_us, parent_tat_us);
    }
    return true;
}

static void redis_pause(struct asker *asker, int64_t for_us)
{
    struct redis_asker *self = self_of(asker);
    struct mono until = mono_add(loop_now(self->redis->loop), for_us < PAUSE_MOST_US ? for_us : PAUSE_MOST_US);

    self->pause_told = loop_now(self->redis->loop);
    self->pause_until = until.us > self->pause_until.us ? until : self->pause_until;
    if (for_us == SLOTS_RESUME) {
        self->pause_until.us = WINDOW_LONG_AGO_US;
    }
    self->base.calls++;
    slots_redis_tell(self->redis, &script_pause, self->keys[ASKER_BUCKET], for_us, PAUSE_MOST_US);
}

static struct mono redis_paused_until(const struct asker *asker)
{
    return self_of(asker)->pause_until;
}

static void redis_heard(struct asker *asker, struct mono sent, struct mono until)
{
    struct redis_asker *self = self_of(asker);

    if (self->pause_told.us <= sent.us) {
        self->pause_until = until;
    }
}

static struct mono redis_next_free(const struct asker *asker, struct mono now)
{
    const struct redis_asker *self = self_of(asker);
    struct mono at = now;

    if (self->eid[0] != '\0') {
        struct mono tat = window_guess(&self->redis->clock, (struct rtime){self->free_us});
        at = tat.us > at.us ? tat : at;
    }
    at = self->pause_until.us > at.us ? self->pause_until : at;
    return self->listen_until.us > at.us ? self->listen_until : at;
}

static int64_t redis_lookahead_us(const struct asker *asker)
{
    const struct redis_asker *self = self_of(asker);
    int64_t ahead = 2 * self->redis->rtt.most_us;

    ahead = ahead > AHEAD_LEAST_US ? ahead : AHEAD_LEAST_US;
    ahead += self->grace_us - self->spec.levels[0].terms.late_us;
    return ahead < self->spec.levels[0].terms.horizon_us ? ahead : self->spec.levels[0].terms.horizon_us;
}

static void redis_set_spec(struct asker *asker, const struct slots_spec *spec)
{
    struct redis_asker *self = self_of(asker);
    int64_t late_us = spec->levels[0].terms.late_us;

    must(spec->levels_count == self->spec.levels_count);
    int64_t until = self->listen_from.us + spec->levels[0].terms.horizon_us + spec->levels[0].terms.interval_us;

    if (strcmp(self->spec.says, spec->says) != 0) {
        differ_changed(&self->differ);
    }
    self->spec = *spec;
    asker->terms = spec->levels[0].terms;
    free_limit_keys(self);
    make_limit_keys(self, spec);
    follow_speed(self);
    if (until < self->listen_until.us) {
        self->listen_until.us = until; /* the interval that is kept free after it has become shorter */
    }
    self->grace_us = self->grace_us > late_us ? self->grace_us : late_us;
}

/* Slots that are being asked for may be granted, and granted ones may yet be used: they count until it is known. */
static unsigned being_asked(const struct redis_asker *self)
{
    if (!self->ask_call.in_flight) {
        return 0;
    }
    return self->asked.want > 0 ? self->asked.want : self->windows_count;
}

static void redis_tell_flying(struct asker *asker)
{
    struct redis_asker *self = self_of(asker);
    char count[16], lease[24];
    const char *keys[SLOT_LEVELS], *args[] = {self->id, count, lease};
    unsigned keys_count = 0;

    for (unsigned level = 0; level < self->spec.levels_count; level++) {
        if (self->spec.levels[level].limits.in_flight_most > 0) {
            keys[keys_count++] = self->levels[level].flight;
        }
    }
    if (keys_count == 0 || !self->redis->state.up) {
        return;
    }
    snprintf(count, sizeof(count), "%u", asker->flying + being_asked(self));
    snprintf(lease, sizeof(lease), "%" PRId64, self->spec.lease_us);
    self->told_while_asking = self->ask_call.in_flight;
    asker->calls++;
    slots_redis_run(self->redis, &script_fly, keys, keys_count, args, 3);
}

static void redis_charge(struct asker *asker, const struct slots_bill *bill)
{
    struct redis_asker *self = self_of(asker);
    struct grant_limits limits = limits_now(self, link_run_id(self->redis->server), 0);
    struct reserve_words words;

    if (!self->redis->state.up) {
        return;
    }
    reserve_words(&words, self, &limits);
    reserve_words_bill(&words, bill);
    asker->calls++;
    slots_redis_run(self->redis, &script_reserve, words.keys, words.keys_count, words.args, words.args_count);
}

static bool redis_is_idle(const struct asker *asker, struct mono now)
{
    const struct redis_asker *self = self_of(asker);

    /* a step that was not reported is no danger any more when nothing is left from before it */
    int64_t safe_us = self->redis->clock.step_at.us + self->spec.levels[0].terms.horizon_us + asker->terms.interval_us;

    return !self->ask_call.in_flight && !self->look_call.in_flight && !self->members_call.in_flight &&
           (self->suspect[0] == '\0' || now.us > safe_us) && !self->was_queued && asker->flying == 0 &&
           now.us > self->kept_until.us && redis_next_free(asker, now).us <= now.us;
}

static const struct asker_ops redis_ops = {.ask = redis_ask,
                                           .give_back = redis_give_back,
                                           .pause = redis_pause,
                                           .paused_until = redis_paused_until,
                                           .heard = redis_heard,
                                           .next_free = redis_next_free,
                                           .lookahead_us = redis_lookahead_us,
                                           .set_spec = redis_set_spec,
                                           .tell_flying = redis_tell_flying,
                                           .charge = redis_charge,
                                           .is_idle = redis_is_idle,
                                           .free = redis_free};
