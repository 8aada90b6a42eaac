/*
 * Slots by this process alone: no Redis configured, or the permits kept for when it is gone.
 *
 * The same books and arithmetic as in Redis, on our own monotonic clock: label and window are the same thing, nothing
 * travels, so answers come at once, grace is just the late tolerance, and a slot never needs to be asked for ahead. The
 * memory of slots dies with the process; with Redis it does not.
 */
#include "base/mem.h"
#include "outbound/slots.h"

#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#include <string.h>
#include <uthash.h>

#define LOCAL_MAGIC 0x6c6f6361u
#define LOCAL_RID "local"
#define CALENDAR_SLACK_US (2 * CLOCK_MS_US)
#define PAUSE_MOST_US (86400 * CLOCK_SECOND_US)

/* One level, shared by all buckets that it limits. */
struct local_level {
    char *name;
    unsigned refs;
    struct slot_book book;
    struct slot_limits limits;
    struct quota quotas[SLOT_QUOTAS];
    int64_t wall_us; /* the calendar's clock - ours */
    UT_hash_handle by_name;
};

struct slots_local {
    uint32_t magic;
    struct loop *loop;
    struct local_level *levels;
};

struct local_asker {
    struct asker base;
    uint32_t magic;
    struct slots_local *local;
    struct slots_spec spec;
    struct local_level *levels[SLOT_LEVELS];
    unsigned told; /* of base.flying, that the levels know of */
    struct mono free; /* the next slot, when it is a quota's */
};

static struct local_asker *self_of(const struct asker *asker)
{
    struct local_asker *self = container_of(asker, struct local_asker, base);
    must_be(self, LOCAL_MAGIC);
    return self;
}

/* ---- levels ---- */

static struct local_level *level_get(struct slots_local *local, const struct slots_spec *spec, unsigned index)
{
    char *name = mem_printf("%s %s", spec->tag, spec->levels[index].part);
    struct local_level *level;

    HASH_FIND(by_name, local->levels, name, strlen(name), level);
    if (level == NULL) {
        level = mem_zalloc(sizeof(*level));
        level->name = name;
        slot_book_open(&level->book, LOCAL_RID);
        HASH_ADD_KEYPTR(by_name, local->levels, level->name, strlen(level->name), level);
    } else {
        mem_free(name);
    }
    level->refs++;
    return level;
}

static void level_put(struct slots_local *local, struct local_level *level)
{
    if (--level->refs > 0) {
        return;
    }
    HASH_DELETE(by_name, local->levels, level);
    for (unsigned i = 0; i < SLOT_QUOTAS; i++) {
        quota_fini(&level->quotas[i]);
    }
    mem_free(level->name);
    mem_free(level);
}

/* What was counted stays counted when only the number changes. */
static struct quota take_quota(struct local_level *level, const struct quota_terms *terms)
{
    struct quota found = {.times = NULL};

    for (unsigned i = 0; i < level->limits.quotas_count; i++) {
        const struct quota_terms *old = &level->limits.terms[i];
        if (old->kind == terms->kind && old->period_us == terms->period_us) {
            found = level->quotas[i];
            level->quotas[i] = (struct quota){.times = NULL};
            break;
        }
    }
    return found;
}

static void follow_limits(struct local_level *level, const struct slot_limits *limits)
{
    int64_t in_flight = level->limits.in_flight;
    struct quota quotas[SLOT_QUOTAS] = {{.times = NULL}};

    for (unsigned i = 0; i < limits->quotas_count; i++) {
        quotas[i] = take_quota(level, &limits->terms[i]);
    }
    for (unsigned i = 0; i < SLOT_QUOTAS; i++) {
        quota_fini(&level->quotas[i]);
        level->quotas[i] = quotas[i];
    }
    level->limits = *limits;
    level->limits.in_flight = in_flight;
    for (unsigned i = 0; i < limits->quotas_count; i++) {
        level->limits.terms[i].offset_us += level->wall_us;
        level->limits.quotas[i] = &level->quotas[i];
    }
}

/* Windows of the calendar follow its clock, with what was counted in them. Not every microsecond of slewing. */
static void follow_calendar(struct slots_local *local, struct local_level *level, const struct slot_limits *limits)
{
    int64_t wall_us = loop_wall(local->loop).us - loop_now(local->loop).us, moved_us = wall_us - level->wall_us;

    if (moved_us < CALENDAR_SLACK_US && moved_us > -CALENDAR_SLACK_US) {
        return;
    }
    level->wall_us = wall_us;
    for (unsigned i = 0; i < limits->quotas_count; i++) {
        struct quota *quota = &level->quotas[i];
        level->limits.terms[i].offset_us = limits->terms[i].offset_us + wall_us;
        for (unsigned s = 0; s < quota->slices_count && limits->terms[i].kind == QUOTA_ALIGNED; s++) {
            quota->slices[s].start -= moved_us;
        }
    }
}

static void fly(struct local_asker *self, unsigned flying)
{
    for (unsigned i = 0; i < self->spec.levels_count; i++) {
        self->levels[i]->limits.in_flight += (int64_t)flying - self->told;
        must(self->levels[i]->limits.in_flight >= 0);
    }
    self->told = flying;
}

/* ---- asking ---- */

static struct slot_ask question(const struct local_asker *self, unsigned want, int64_t cost)
{
    const struct slots_terms *terms = &self->spec.levels[0].terms;

    return (struct slot_ask){.rid = LOCAL_RID,
                             .suspect = "",
                             .interval_us = terms->interval_us,
                             .late_us = terms->late_us,
                             .grace_us = terms->late_us,
                             .horizon_us = terms->horizon_us,
                             .want = want,
                             .cost = cost,
                             .cost_most = self->spec.cost_most,
                             .limits = {&self->levels[0]->limits, NULL}};
}

static bool local_ask(struct asker *asker, unsigned want, int64_t cost)
{
    struct local_asker *self = self_of(asker);
    struct mono now = loop_now(self->local->loop);
    struct slot_ask ask = question(self, want, cost);
    struct slot_parent parent;
    struct slot slots[SLOTS_WANT_MAX];
    struct window windows[SLOTS_WANT_MAX];
    struct slot_reply reply;

    must(want > 0 && want <= SLOTS_WANT_MAX);
    if (self->spec.levels_count > 1) {
        parent = (struct slot_parent){&self->levels[1]->book, self->spec.levels[1].terms.interval_us, 0};
        ask.parent = &parent;
        ask.limits[1] = &self->levels[1]->limits;
    }
    for (unsigned i = 0; i < self->spec.levels_count; i++) {
        follow_calendar(self->local, self->levels[i], &self->spec.levels[i].limits);
    }
    fly(self, asker->flying);
    slot_reserve(&self->levels[0]->book, &ask, (struct rtime){now.us}, &reply, slots);
    fly(self, asker->flying + reply.count);
    self->free.us = reply.free_us;
    for (unsigned i = 0; i < reply.count; i++) {
        must(slots[i].first_us >= now.us && slots[i].first_us - now.us <= ask.horizon_us);
        windows[i] = (struct window){{slots[i].first_us}, {slots[i].last_us}, slots[i], cost};
    }
    struct slots_answer answer = {.outcome = reply.count > 0 ? SLOTS_GRANTED : SLOTS_LATER,
                                  .windows = windows,
                                  .count = reply.count,
                                  .reason = reply.reason,
                                  .again = mono_add(now, reply.retry_us)};
    asker->on_answer(asker->arg, asker, &answer);
    return true;
}

static bool local_give_back(struct asker *asker, const struct window *oldest, const struct window *newest)
{
    struct local_asker *self = self_of(asker);
    bool given = slot_settle(&self->levels[0]->book, oldest->slot.first_us, newest->slot.tat_us);

    if (given && self->spec.levels_count > 1) {
        int64_t tat_us = newest->slot.tat_us + newest->cost * (self->spec.levels[1].terms.interval_us -
                                                               self->spec.levels[0].terms.interval_us);
        /* too late when another bucket's slot came after it */
        bool parents = slot_settle(&self->levels[1]->book, oldest->slot.first_us, tat_us);
        (void)parents;
    }
    if (given) {
        self->free.us = oldest->slot.first_us;
    }
    return given;
}

static void local_tell_flying(struct asker *asker)
{
    fly(self_of(asker), asker->flying);
}

static void local_charge(struct asker *asker, const struct slots_bill *bill)
{
    struct local_asker *self = self_of(asker);
    struct rtime now = {loop_now(self->local->loop).us};
    bool said = bill->left < 0;

    for (unsigned i = 0; i < self->spec.levels_count; i++) {
        struct local_level *level = self->levels[i];
        slot_charge(&level->book, bill->more, self->spec.levels[i].terms.interval_us, now);
        for (unsigned q = 0; q < level->limits.quotas_count; q++) {
            quota_charge(&level->quotas[q], &level->limits.terms[q], now.us, bill->more);
        }
        if (!said && level->limits.quotas_count > 0) {
            quota_believe(&level->quotas[0], &level->limits.terms[0], now.us, bill->left, bill->age_us);
            said = true;
        }
    }
}

static void local_pause(struct asker *asker, int64_t for_us)
{
    struct local_asker *self = self_of(asker);
    slot_pause(&self->levels[0]->book, for_us, PAUSE_MOST_US, (struct rtime){loop_now(self->local->loop).us});
}

static struct mono local_paused_until(const struct asker *asker)
{
    return (struct mono){self_of(asker)->levels[0]->book.pause_us};
}

/* Only this process alone says anything here, or, as a reserve, what is said of the shared slots. */
static void local_heard(struct asker *asker, struct mono sent, struct mono until)
{
    (void)sent;
    self_of(asker)->levels[0]->book.pause_us = until.us > 0 ? until.us : 0;
}

static struct mono local_next_free(const struct asker *asker, struct mono now)
{
    const struct local_asker *self = self_of(asker);
    int64_t at = self->free.us;

    for (unsigned i = 0; i < self->spec.levels_count; i++) {
        const struct slot_book *book = &self->levels[i]->book;
        at = book->tat_us > at ? book->tat_us : at;
        at = book->pause_us > at ? book->pause_us : at;
    }
    return at > now.us ? (struct mono){at} : now;
}

static int64_t local_lookahead_us(const struct asker *asker)
{
    (void)asker;
    return 0;
}

static void local_set_spec(struct asker *asker, const struct slots_spec *spec)
{
    struct local_asker *self = self_of(asker);

    must(spec->levels_count == self->spec.levels_count);
    self->spec = *spec;
    asker->terms = spec->levels[0].terms;
    for (unsigned i = 0; i < spec->levels_count; i++) {
        follow_limits(self->levels[i], &spec->levels[i].limits);
    }
}

static bool local_is_idle(const struct asker *asker, struct mono now)
{
    const struct local_asker *self = self_of(asker);
    bool idle = local_next_free(asker, now).us <= now.us && asker->flying == 0;

    /* what a quota remembers is lost with the last bucket that it limits */
    for (unsigned i = 0; i < self->spec.levels_count && idle; i++) {
        for (unsigned q = 0; q < self->levels[i]->limits.quotas_count; q++) {
            const struct quota_terms *terms = &self->levels[i]->limits.terms[q];
            idle = idle && quota_left(&self->levels[i]->quotas[q], terms, now.us) == terms->count;
        }
    }
    return idle;
}

static void local_free(struct asker *asker)
{
    struct local_asker *self = self_of(asker);

    fly(self, 0);
    for (unsigned i = 0; i < self->spec.levels_count; i++) {
        level_put(self->local, self->levels[i]);
    }
    self->magic = 0;
    mem_free(self);
}

static const struct asker_ops local_ops = {.ask = local_ask,
                                           .give_back = local_give_back,
                                           .pause = local_pause,
                                           .paused_until = local_paused_until,
                                           .heard = local_heard,
                                           .next_free = local_next_free,
                                           .lookahead_us = local_lookahead_us,
                                           .set_spec = local_set_spec,
                                           .tell_flying = local_tell_flying,
                                           .charge = local_charge,
                                           .is_idle = local_is_idle,
                                           .free = local_free};

struct slots_local *slots_local_new(struct loop *loop)
{
    struct slots_local *local = mem_zalloc(sizeof(*local));

    local->magic = LOCAL_MAGIC;
    local->loop = loop;
    return local;
}

void slots_local_free(struct slots_local *local)
{
    must_be(local, LOCAL_MAGIC);
    must(local->levels == NULL);
    local->magic = 0;
    mem_free(local);
}

struct asker *slots_local_asker(struct slots_local *local, const struct slots_spec *spec, struct mono not_before)
{
    struct local_asker *self = mem_zalloc(sizeof(*self));

    must_be(local, LOCAL_MAGIC);
    self->magic = LOCAL_MAGIC;
    self->local = local;
    self->base.ops = &local_ops;
    self->spec.levels_count = spec->levels_count;
    for (unsigned i = 0; i < spec->levels_count; i++) {
        self->levels[i] = level_get(local, spec, i);
    }
    local_set_spec(&self->base, spec);
    if (self->levels[0]->book.tat_us < not_before.us) {
        self->levels[0]->book.tat_us = not_before.us;
    }
    return &self->base;
}
