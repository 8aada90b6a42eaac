#ifndef SLUICE_OUTBOUND_QUOTA_H
#define SLUICE_OUTBOUND_QUOTA_H
/* A limit beside the pace: so many units in a longer time. Pure arithmetic; the same as in src/lua/reserve.lua. */
#include "base/must.h"

#include <stdbool.h>
#include <stdint.h>

enum quota_kind {
    QUOTA_ROLLING, /* in any time of that length, exactly: every unit's time is kept */
    QUOTA_COARSE,  /* the same for large counts: kept by slices, of which the oldest counts whole */
    QUOTA_ALIGNED, /* in each window of the calendar */
};
enum { QUOTA_SLICES = 60, QUOTA_ROLLING_MOST = 10000 };

struct quota_terms {
    enum quota_kind kind;
    int64_t count;
    int64_t period_us; /* as configured */
    int64_t span_us;   /* rolling: the period and what a release can be displaced by; aligned: the period */
    int64_t slice_us;  /* coarse: such that QUOTA_SLICES reach from the oldest that counts to the newest that can be */
    int64_t offset_us; /* aligned: windows begin at multiples of the period less this */
    int64_t guard_us;  /* aligned: no slot's window comes closer to an edge */
};

/* What was taken. Zero-initialised memory is an empty one. */
struct quota {
    int64_t *times; /* rolling: a ring of units' times; owned */
    unsigned first, used, room;
    struct quota_slice {
        int64_t start, units;
    } *slices; /* by start; owned, of `slices_room` */
    unsigned slices_count, slices_room;
};

/* The earliest slot from `at` on that has room for `cost` units, or where it is less for all there are; the slot's window would
 * end at max(slot, least) + late_us. */
int64_t quota_earliest(const struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t least,
                       int64_t late_us, int64_t cost);
void quota_take(struct quota *quota, const struct quota_terms *terms, int64_t at, int64_t cost);
/* Units that nobody had reckoned with were spent by `now`. */
void quota_charge(struct quota *quota, const struct quota_terms *terms, int64_t now, int64_t units);
/* The third party says that a request `age_us` old found, or left, so many: what it lacks against what is known here was spent. */
void quota_believe(struct quota *quota, const struct quota_terms *terms, int64_t now, int64_t left, int64_t age_us);
/* Units left at that time. */
int64_t quota_left(const struct quota *quota, const struct quota_terms *terms, int64_t at);
void quota_fini(struct quota *quota);

#endif
