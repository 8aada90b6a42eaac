/*
 * Three ways to count units over a longer time.
 *
 *   rolling   the times of the last `count` units. One more fits when the unit that would then be count + 1 back is a
 *             span ago. Exact, 8 bytes a unit.
 *   coarse    units by slices of span / 60. A slice counts until all of it is a span ago, so never above count in any
 *             span, and 98.4 % of it can be used.
 *   aligned   units by windows of the calendar. A slot's window keeps clear of the edges, so that a release that is
 *             displaced still falls where it was counted.
 *
 * Slots go forward only, so a rolling ring is sorted by itself.
 */
#include "outbound/quota.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

/* A unit may be taken so far ahead of now: the longest horizon and some. */
#define AHEAD_MOST_US (120 * CLOCK_SECOND_US)

void quota_fini(struct quota *quota)
{
    mem_free(quota->times);
    mem_free(quota->slices);
    *quota = (struct quota){.times = NULL};
}

static int64_t max2(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min2(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- rolling ---- */

static int64_t time_at(const struct quota *quota, unsigned index)
{
    return quota->times[(quota->first + index) % quota->room];
}

static int64_t rolling_earliest(const struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t cost)
{
    int64_t excess = (int64_t)quota->used + cost - terms->count;

    return excess <= 0 ? at : max2(at, time_at(quota, (unsigned)(excess - 1)) + terms->span_us);
}

static void make_room(struct quota *quota, unsigned room)
{
    int64_t *times = mem_alloc(room * sizeof(times[0]));

    for (unsigned i = 0; i < quota->used; i++) {
        times[i] = time_at(quota, i);
    }
    mem_free(quota->times);
    quota->times = times;
    quota->first = 0;
    quota->room = room;
}

static void rolling_take(struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t cost)
{
    while (quota->used > 0 && (quota->used + cost > terms->count || time_at(quota, 0) + terms->span_us <= at - AHEAD_MOST_US)) {
        quota->first = (quota->first + 1) % quota->room;
        quota->used--;
    }
    if (quota->used + cost > quota->room) {
        int64_t room = max2(8, 2 * (quota->used + cost));
        make_room(quota, (unsigned)(room < terms->count ? room : terms->count));
    }
    for (int64_t i = 0; i < cost; i++) {
        quota->times[(quota->first + quota->used++) % quota->room] = at;
    }
}

/* ---- slices ---- */

static int64_t slice_start(const struct quota_terms *terms, int64_t at)
{
    int64_t into = (at + terms->offset_us) % terms->slice_us;

    return at - (into < 0 ? into + terms->slice_us : into);
}

static int64_t units_of(const struct quota *quota, int64_t start)
{
    for (unsigned i = 0; i < quota->slices_count; i++) {
        if (quota->slices[i].start == start) {
            return quota->slices[i].units;
        }
    }
    return 0;
}

/* Until when a slice counts. */
static int64_t slice_end(const struct quota_terms *terms, const struct quota_slice *slice)
{
    return slice->start + terms->slice_us + (terms->kind == QUOTA_COARSE ? terms->span_us : 0);
}

static void slices_take(struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t cost)
{
    int64_t start = slice_start(terms, at);
    unsigned i, gone = 0;

    while (gone < quota->slices_count && slice_end(terms, &quota->slices[gone]) <= at - AHEAD_MOST_US) {
        gone++;
    }
    quota->slices_count -= gone;
    if (gone > 0) {
        memmove(quota->slices, quota->slices + gone, quota->slices_count * sizeof(quota->slices[0]));
    }
    for (i = quota->slices_count; i > 0 && quota->slices[i - 1].start >= start; i--) {
        if (quota->slices[i - 1].start == start) {
            quota->slices[i - 1].units += cost;
            return;
        }
    }
    if (quota->slices_count == quota->slices_room) {
        quota->slices_room = 2 * quota->slices_room + 4;
        quota->slices = mem_realloc(quota->slices, quota->slices_room * sizeof(quota->slices[0]));
    }
    memmove(quota->slices + i + 1, quota->slices + i, (quota->slices_count - i) * sizeof(quota->slices[0]));
    quota->slices[i] = (struct quota_slice){start, cost};
    quota->slices_count++;
}

static int64_t coarse_earliest(const struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t cost)
{
    int64_t units = 0;

    for (unsigned i = 0; i < quota->slices_count; i++) {
        units += slice_end(terms, &quota->slices[i]) > at ? quota->slices[i].units : 0;
    }
    for (unsigned i = 0; i < quota->slices_count && units + cost > terms->count; i++) {
        if (slice_end(terms, &quota->slices[i]) > at) {
            at = slice_end(terms, &quota->slices[i]);
            units -= quota->slices[i].units;
        }
    }
    return at;
}

static int64_t aligned_earliest(const struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t least,
                                int64_t late_us, int64_t cost)
{
    int64_t guard_us = max2(0, min2(terms->guard_us, (terms->span_us - late_us) / 3)); /* some way is always left */

    for (;;) {
        int64_t start = slice_start(terms, at);
        int64_t next = start + terms->span_us;

        at = max2(at, start + guard_us);
        if (max2(at, least) + late_us + guard_us <= next && units_of(quota, start) + cost <= terms->count) {
            return at;
        }
        at = next + guard_us;
    }
}

/* ---- all ---- */

int64_t quota_earliest(const struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t least,
                       int64_t late_us, int64_t cost)
{
    cost = min2(cost, terms->count); /* settings may have changed under a request that waits */
    switch (terms->kind) {
    case QUOTA_ROLLING:
        return rolling_earliest(quota, terms, at, cost);
    case QUOTA_COARSE:
        return coarse_earliest(quota, terms, at, cost);
    case QUOTA_ALIGNED:
        return aligned_earliest(quota, terms, at, least, late_us, cost);
    }
    wrong("no such kind of quota");
}

void quota_take(struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t cost)
{
    (terms->kind == QUOTA_ROLLING ? rolling_take : slices_take)(quota, terms, at, min2(cost, terms->count));
}

static int64_t used_at(const struct quota *quota, const struct quota_terms *terms, int64_t at)
{
    int64_t used = 0;

    if (terms->kind == QUOTA_ROLLING) {
        for (unsigned i = quota->used; i > 0 && time_at(quota, i - 1) + terms->span_us > at; i--) {
            used++;
        }
    }
    for (unsigned i = 0; i < quota->slices_count; i++) {
        bool counts = quota->slices[i].start <= at && slice_end(terms, &quota->slices[i]) > at;
        used += counts ? quota->slices[i].units : 0;
    }
    return used;
}

int64_t quota_left(const struct quota *quota, const struct quota_terms *terms, int64_t at)
{
    return max2(0, terms->count - used_at(quota, terms, at));
}

void quota_charge(struct quota *quota, const struct quota_terms *terms, int64_t now, int64_t units)
{
    /* behind all that is in a ring already */
    int64_t at = quota->used > 0 ? max2(now, time_at(quota, quota->used - 1)) : now;

    if (units > 0) {
        quota_take(quota, terms, at, units);
    }
}

void quota_believe(struct quota *quota, const struct quota_terms *terms, int64_t now, int64_t left, int64_t age_us)
{
    /* what was said of the window before says nothing of this one */
    if (terms->kind != QUOTA_ALIGNED || slice_start(terms, now - age_us) == slice_start(terms, now)) {
        quota_charge(quota, terms, now, terms->count - left - used_at(quota, terms, now));
    }
}
