#ifndef SLUICE_OUTBOUND_SLOT_H
#define SLUICE_OUTBOUND_SLOT_H
/*
 * Where the slot is computed. Pure arithmetic on microseconds; reads no clock. The same rules as src/lua/reserve.lua,
 * settle.lua and pause.lua for one asker; both run the rows of tests/vectors/slot.tsv.
 */
#include "base/clock.h"
#include "base/must.h"
#include "outbound/quota.h"

#define SLOT_RID_BYTES 64
#define SLOT_EID_BYTES 96 /* "RID:NUMBER" */

/* What is remembered of a bucket: the epoch marker (key e) and the bucket itself (key b). */
struct slot_book {
    char rid[SLOT_RID_BYTES]; /* "" = no marker */
    int64_t epoch;
    int64_t since_us;
    char eid[SLOT_EID_BYTES]; /* "" = no bucket */
    int64_t tat_us;           /* no slot before this */
    int64_t pause_us;         /* nor before this */
};

enum { SLOT_LEVELS = 2, SLOT_QUOTAS = 4 };
#define SLOT_IN_FLIGHT_RETRY_US (20 * CLOCK_MS_US)
#define SLOT_IN_FLIGHT_QUIET_US (3 * CLOCK_SECOND_US) /* from an epoch's beginning: what was in flight is unknown */

/* The limits of a bucket beside its pace, and where what they count is kept. */
struct slot_limits {
    struct quota_terms terms[SLOT_QUOTAS];
    struct quota *quotas[SLOT_QUOTAS]; /* NULL in a question to Redis */
    unsigned quotas_count;
    int64_t in_flight_most; /* 0 = any number */
    int64_t in_flight;      /* now, of all who ask */
};

/* Another bucket that a slot is taken from as well: the destination's, for a slot of one of its routes. */
struct slot_parent {
    struct slot_book *book;
    int64_t interval_us;
    int64_t floor_us;
};

struct slot_ask {
    const char *rid;     /* the server that is asked */
    int64_t interval_us; /* I */
    int64_t late_us;     /* L: how late a release may be */
    int64_t grace_us;    /* g, at least L: how late the answer may be when the slot is due at once */
    int64_t horizon_us;  /* H: no slot further ahead */
    unsigned want;       /* 0 = look only */
    int64_t floor_us;    /* latest tat the asker has seen, 0 = none */
    const char *suspect; /* an epoch whose clock the asker saw step forward, "" = none */
    int64_t cost;        /* of each slot, in units; 0 = 1 */
    int64_t cost_most;   /* of any slot of this destination; 0 = 1 */
    const struct slot_parent *parent;              /* NULL = none */
    const struct slot_limits *limits[SLOT_LEVELS]; /* own, the parent's; NULL = none */
};

/* One slot: the request may leave from `first` to `last`; `tat_us` is what the slot made of the bucket's tat. */
struct slot {
    int64_t first_us, last_us, tat_us;
};

/* Why nothing was granted, or the next one is not due yet. */
enum slot_reason { SLOT_NONE, SLOT_PACE, SLOT_QUOTA, SLOT_IN_FLIGHT };

struct slot_reply {
    int64_t now_us;
    enum slot_reason reason;
    int64_t free_us;       /* when the next one would be */
    int64_t parent_tat_us; /* with a parent */
    char eid[SLOT_EID_BYTES];
    int64_t retry_us; /* > 0: ask again after that much; nothing granted */
    int64_t tat_us;
    unsigned count;
};

/* A book whose epoch is open since ever, so that its first slot is due at once. */
void slot_book_open(struct slot_book *book, const char *rid);
/* `slots` has room for ask->want. */
void slot_reserve(struct slot_book *book, const struct slot_ask *ask, struct rtime now, struct slot_reply *reply,
                  struct slot *slots);
/* Charges so many units more (or fewer) than a slot was asked with: the next one comes so much later. */
void slot_charge(struct slot_book *book, int64_t units, int64_t interval_us, struct rtime now);
/* Gives slots back: everything from `first_us` on, whose last one made the tat `tat_us`. False when others came after
 * it. */
bool slot_settle(struct slot_book *book, int64_t first_us, int64_t tat_us);
/* No slot for `for_us` from now, at most `most_us`; never shortens. Below zero: the pause is
 * over. Returns the end of the pause. */
struct rtime slot_pause(struct slot_book *book, int64_t for_us, int64_t most_us, struct rtime now);

#endif
