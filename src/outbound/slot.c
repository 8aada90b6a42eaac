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

static int64_t carry_tat(struct slot_book *book, const struct slot_ask *ask, const char *eid, int64_t now)
{
    int64_t beyond_us = ask->horizon_us + ask->interval_us;
    int64_t tat = book->tat_us;

    if (strcmp(book->eid, eid) != 0) {
        tat = max2(tat, book->since_us + beyond_us);
    }
    tat = ask->floor_us != 0 ? max2(tat, ask->floor_us) : tat;
    return tat > now + beyond_us ? now + beyond_us : tat;
}

static unsigned take(const struct slot_ask *ask, int64_t now, int64_t pause, int64_t *tat, struct slot *slots)
{
    unsigned count = 0;

    while (count < ask->want) {
        int64_t first = max2(now, max2(*tat, pause));
        if (first - now > ask->horizon_us) {
            break;
        }
        int64_t eff = max2(first, now + ask->grace_us - ask->late_us);
        *tat = eff + ask->interval_us;
        slots[count++] = (struct slot){first, eff + ask->late_us, *tat};
    }
    return count;
}

void slot_reserve(struct slot_book *book, const struct slot_ask *ask, struct rtime now, struct slot_reply *reply,
                  struct slot *slots)
{
    must(ask->interval_us > 0 && ask->late_us >= 0 && ask->grace_us >= ask->late_us && ask->horizon_us >= 0);
    follow_epoch(book, ask, now.us);
    *reply = (struct slot_reply){.now_us = now.us};
    format_eid(book, reply->eid);

    int64_t tat = carry_tat(book, ask, reply->eid, now.us);
    reply->count = take(ask, now.us, book->pause_us, &tat, slots);
    if (ask->want > 0 && reply->count == 0) {
        int64_t first = max2(now.us, max2(tat, book->pause_us));
        reply->retry_us = max2(1000, first - ask->horizon_us - now.us);
    }
    book->tat_us = reply->tat_us = tat;
    memcpy(book->eid, reply->eid, sizeof(book->eid));
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
