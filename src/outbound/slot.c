/*
 * Slots of one bucket, spaced by the interval I.
 *
 *        tat          the earliest label the next slot may have: last label + I
 *   ------|-----------------------> Redis' clock (or this process' own, with slots_local)
 *      s = max(now, tat, pause)    the slot, never further than H ahead of now
 *      [s, eff + L]                its window, eff = max(s, now + g - L); the next slot counts from eff
 *
 * A slot that is due at once gets a window long enough for the answer to travel: a release at any t in it has a legal
 * label max(s, t - L) <= eff, at least I after the slot before and I before the slot after. Under backlog (s >= now + g
 * - L) the window is [s, s + L] and nothing is lost by it.
 *
 * H makes recovery simple. Whatever state was lost (another server, an empty one, a stepped clock: all of them a new
 * epoch), no label of the old epoch lies beyond the new epoch's start + H, so tat = start + H + I is enough. The same
 * number tells an impossible tat: more than H + I ahead means that the clock went back.
 *
 * Tickets, by which several askers take turns, exist in the script only: a book in this process has one asker.
 */
#include "outbound/slot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t max2(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void format_eid(const struct slot_book *book, char out[SLOT_EID_BYTES])
{
    snprintf(out, SLOT_EID_BYTES, "%s:%" PRId64, book->rid, book->epoch);
}

void slot_book_open(struct slot_book *book, const char *rid)
{
    must(strlen(rid) < SLOT_RID_BYTES);
    memset(book, 0, sizeof(*book));
    snprintf(book->rid, sizeof(book->rid), "%s", rid);
    book->epoch = 1;
    book->since_us = INT64_MIN / 4;
    book->tat_us = book->pause_us = INT64_MIN / 4;
    format_eid(book, book->eid);
}

/* A new epoch when another server answers, when the marker is gone, when the clock stepped in either direction. */
static void follow_epoch(struct slot_book *book, const struct slot_ask *ask, int64_t now)
{
    char eid[SLOT_EID_BYTES];

    format_eid(book, eid);
    if (strcmp(book->rid, ask->rid) == 0 && book->since_us <= now &&
        (ask->suspect[0] == '\0' || strcmp(ask->suspect, eid) != 0)) {
        return;
    }
    must(strlen(ask->rid) < SLOT_RID_BYTES);
    snprintf(book->rid, sizeof(book->rid), "%s", ask->rid);
    book->epoch++;
    book->since_us = now;
}

/* Beyond this no tat can be: the last slot is within the horizon, and its cost no more than the most. */
static int64_t carry_tat(const struct slot_book *book, const struct slot_ask *ask, const char *eid, int64_t since,
                         int64_t now)
{
    int64_t beyond_us = ask->horizon_us + max2(1, ask->cost_most) * ask->interval_us;
    int64_t tat = book->tat_us;

    if (strcmp(book->eid, eid) != 0) {
        tat = max2(tat, since + beyond_us);
    }
    if (ask->cost_most <= 1 || strcmp(book->eid, eid) != 0) { /* where costs are corrected it may have gone back */
        tat = ask->floor_us != 0 ? max2(tat, ask->floor_us) : tat;
    }
    return tat > now + beyond_us ? now + beyond_us : tat;
}

/* ---- one slot of everything ---- */

/* A question being answered. */
struct claim {
    const struct slot_ask *ask;
    int64_t now, cost;
    int64_t tat[SLOT_LEVELS], pause[SLOT_LEVELS], interval[SLOT_LEVELS];
    unsigned levels;
    enum slot_reason reason;
    int64_t retry_us;
};

/* The earliest slot from `at` on that all quotas of a level have room for. */
static int64_t after_quotas(struct claim *claim, unsigned level, int64_t at)
{
    const struct slot_limits *limits = claim->ask->limits[level];
    int64_t least = claim->now + claim->ask->grace_us - claim->ask->late_us;

    for (unsigned i = 0; limits != NULL && i < limits->quotas_count; i++) {
        int64_t then = quota_earliest(limits->quotas[i], &limits->terms[i], at, least, claim->ask->late_us, claim->cost);
        if (then > at) {
            at = then;
            claim->reason = SLOT_QUOTA;
        }
    }
    return at;
}

static int64_t earliest_of(struct claim *claim, unsigned level)
{
    return after_quotas(claim, level, max2(claim->now, max2(claim->tat[level], claim->pause[level])));
}

/* What one limit puts off another may have to put off again. */
static int64_t settle_on(struct claim *claim, int64_t at)
{
    int64_t before;

    do {
        before = at;
        for (unsigned level = 0; level < claim->levels; level++) {
            at = after_quotas(claim, level, at);
        }
    } while (at != before);
    return at;
}

/* When the next slot is. False when it can't be taken yet: `retry_us` is when to ask again. What lies between the parent's
 * next slot and the bucket's own is lost to everybody, so it must be a small part of the parent's interval. */
static bool next_slot(struct claim *claim, int64_t *at)
{
    claim->reason = SLOT_PACE;
    int64_t own = earliest_of(claim, 0);
    int64_t parents = claim->levels > 1 ? earliest_of(claim, 1) : own;

    *at = settle_on(claim, max2(own, parents));
    int64_t hold_us = claim->levels > 1 ? claim->interval[1] / 4 : 0;
    if (claim->levels > 1 && own > parents + hold_us) {
        /* the parent's next slot may move on by others' doing, and surely does with time */
        claim->retry_us = max2(own - (parents + hold_us), (own - hold_us - claim->now) / 2);
        return false;
    }
    claim->retry_us = *at - claim->ask->horizon_us - claim->now;
    return claim->retry_us <= 0;
}

static void take_slot(struct claim *claim, int64_t first, struct slot *slot)
{
    int64_t eff = max2(first, claim->now + claim->ask->grace_us - claim->ask->late_us);

    for (unsigned level = 0; level < claim->levels; level++) {
        const struct slot_limits *limits = claim->ask->limits[level];
        claim->tat[level] = eff + claim->cost * claim->interval[level];
        for (unsigned i = 0; limits != NULL && i < limits->quotas_count; i++) {
            quota_take(limits->quotas[i], &limits->terms[i], eff, claim->cost);
        }
    }
    *slot = (struct slot){first, eff + claim->ask->late_us, claim->tat[0]};
}

static unsigned room_in_flight(const struct slot_ask *ask, unsigned levels, int64_t quiet_us)
{
    int64_t room = ask->want;

    for (unsigned level = 0; level < levels; level++) {
        const struct slot_limits *limits = ask->limits[level];
        if (limits != NULL && limits->in_flight_most > 0 && limits->in_flight_most - limits->in_flight < room) {
            room = max2(0, limits->in_flight_most - limits->in_flight);
        }
        if (limits != NULL && limits->in_flight_most > 0 && quiet_us > 0) {
            room = 0;
        }
    }
    return (unsigned)room;
}

static void take(struct claim *claim, int64_t quiet_us, struct slot_reply *reply, struct slot *slots)
{
    const struct slot_ask *ask = claim->ask;
    unsigned room = room_in_flight(ask, claim->levels, quiet_us);
    int64_t at = claim->now;
    bool is_there = next_slot(claim, &at);

    while (is_there && reply->count < room) {
        take_slot(claim, at, &slots[reply->count++]);
        is_there = next_slot(claim, &at);
    }
    reply->free_us = at;
    reply->reason = claim->reason;
    if (ask->want == 0 || reply->count > 0) {
        return;
    }
    reply->reason = is_there ? SLOT_IN_FLIGHT : claim->reason;
    reply->retry_us = max2(1000, is_there ? max2(SLOT_IN_FLIGHT_RETRY_US, quiet_us) : claim->retry_us);
}

void slot_reserve(struct slot_book *book, const struct slot_ask *ask, struct rtime now, struct slot_reply *reply,
                  struct slot *slots)
{
    must(ask->interval_us > 0 && ask->late_us >= 0 && ask->grace_us >= ask->late_us && ask->horizon_us >= 0);
    follow_epoch(book, ask, now.us);
    *reply = (struct slot_reply){.now_us = now.us};
    format_eid(book, reply->eid);

    struct claim claim = {.ask = ask, .now = now.us, .cost = max2(1, ask->cost), .levels = ask->parent != NULL ? 2 : 1};
    claim.tat[0] = carry_tat(book, ask, reply->eid, book->since_us, now.us);
    claim.pause[0] = book->pause_us;
    claim.interval[0] = ask->interval_us;
    if (ask->parent != NULL) {
        struct slot_ask parents = *ask;
        parents.interval_us = claim.interval[1] = ask->parent->interval_us;
        parents.floor_us = ask->parent->floor_us;
        claim.tat[1] = carry_tat(ask->parent->book, &parents, reply->eid, book->since_us, now.us);
        claim.pause[1] = ask->parent->book->pause_us;
    }
    take(&claim, book->since_us + SLOT_IN_FLIGHT_QUIET_US - now.us, reply, slots);
    book->tat_us = reply->tat_us = claim.tat[0];
    memcpy(book->eid, reply->eid, sizeof(book->eid));
    if (ask->parent != NULL) {
        ask->parent->book->tat_us = reply->parent_tat_us = claim.tat[1];
        memcpy(ask->parent->book->eid, reply->eid, sizeof(book->eid));
    }
}

void slot_charge(struct slot_book *book, int64_t units, int64_t interval_us, struct rtime now)
{
    if (units != 0) {
        book->tat_us = max2(now.us, max2(book->tat_us, now.us) + units * interval_us);
    }
}

bool slot_settle(struct slot_book *book, int64_t first_us, int64_t tat_us)
{
    if (book->tat_us != tat_us) {
        return false;
    }
    book->tat_us = first_us;
    return true;
}

struct rtime slot_pause(struct slot_book *book, int64_t for_us, int64_t most_us, struct rtime now)
{
    int64_t until = for_us < 0 || book->pause_us > now.us + most_us ? 0 : book->pause_us; /* that far ahead: the clock stepped back */

    book->pause_us = for_us < 0 ? 0 : max2(until, now.us + (for_us < most_us ? for_us : most_us));
    return (struct rtime){book->pause_us};
}
