/*
 * Slots by this process alone: no Redis configured, or the permits kept for when it is gone.
 *
 * The same book and arithmetic as in Redis, on our own monotonic clock: label and window are the same thing, nothing
 * travels, so answers come at once, grace is just the late tolerance, and a slot never needs to be asked for ahead. The
 * memory of slots dies with the process; with Redis it does not.
 */
#include "base/mem.h"
#include "outbound/slots.h"

#define LOCAL_MAGIC 0x6c6f6361u
#define LOCAL_RID "local"
#define PAUSE_MOST_US (86400 * CLOCK_SECOND_US)

struct local_asker {
    struct asker base;
    uint32_t magic;
    struct loop *loop;
    struct slot_book book;
};

static struct local_asker *self_of(const struct asker *asker)
{
    struct local_asker *self = container_of(asker, struct local_asker, base);
    must_be(self, LOCAL_MAGIC);
    return self;
}

static bool local_ask(struct asker *asker, unsigned want)
{
    struct local_asker *self = self_of(asker);
    struct mono now = loop_now(self->loop);
    struct slot_ask ask = {.rid = LOCAL_RID,
                           .suspect = "",
                           .interval_us = asker->terms.interval_us,
                           .late_us = asker->terms.late_us,
                           .grace_us = asker->terms.late_us,
                           .horizon_us = asker->terms.horizon_us,
                           .want = want};
    struct slot slots[SLOTS_WANT_MAX];
    struct window windows[SLOTS_WANT_MAX];
    struct slot_reply reply;

    must(want > 0 && want <= SLOTS_WANT_MAX);
    slot_reserve(&self->book, &ask, (struct rtime){now.us}, &reply, slots);
    for (unsigned i = 0; i < reply.count; i++) {
        must(slots[i].first_us >= now.us && slots[i].first_us - now.us <= ask.horizon_us);
        windows[i] = (struct window){{slots[i].first_us}, {slots[i].last_us}, slots[i]};
    }
    struct slots_answer answer = {.outcome = reply.count > 0 ? SLOTS_GRANTED : SLOTS_LATER,
                                  .windows = windows,
                                  .count = reply.count,
                                  .again = mono_add(now, reply.retry_us)};
    asker->on_answer(asker->arg, asker, &answer);
    return true;
}

static bool local_give_back(struct asker *asker, const struct window *oldest, const struct window *newest)
{
    return slot_settle(&self_of(asker)->book, oldest->slot.first_us, newest->slot.tat_us);
}

static void local_pause(struct asker *asker, int64_t for_us)
{
    struct local_asker *self = self_of(asker);
    slot_pause(&self->book, for_us, PAUSE_MOST_US, (struct rtime){loop_now(self->loop).us});
}

static struct mono local_paused_until(const struct asker *asker)
{
    return (struct mono){self_of(asker)->book.pause_us};
}

/* Only this process alone says anything here, or, as a reserve, what is said of the shared slots. */
static void local_heard(struct asker *asker, struct mono sent, struct mono until)
{
    (void)sent;
    self_of(asker)->book.pause_us = until.us > 0 ? until.us : 0;
}

static struct mono local_next_free(const struct asker *asker, struct mono now)
{
    const struct slot_book *book = &self_of(asker)->book;
    int64_t at = book->tat_us > book->pause_us ? book->tat_us : book->pause_us;
    return at > now.us ? (struct mono){at} : now;
}

static int64_t local_lookahead_us(const struct asker *asker)
{
    (void)asker;
    return 0;
}

static void local_set_terms(struct asker *asker, const struct slots_terms *terms)
{
    asker->terms = *terms;
}

static bool local_is_idle(const struct asker *asker, struct mono now)
{
    return local_next_free(asker, now).us <= now.us;
}

static void local_free(struct asker *asker)
{
    struct local_asker *self = self_of(asker);
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
                                           .set_terms = local_set_terms,
                                           .is_idle = local_is_idle,
                                           .free = local_free};

struct asker *slots_local_asker(struct loop *loop, const struct slots_terms *terms, struct mono not_before)
{
    struct local_asker *self = mem_zalloc(sizeof(*self));

    self->magic = LOCAL_MAGIC;
    self->loop = loop;
    self->base.ops = &local_ops;
    self->base.terms = *terms;
    slot_book_open(&self->book, LOCAL_RID);
    self->book.tat_us = not_before.us;
    return &self->base;
}
