#ifndef SLUICE_OUTBOUND_METER_H
#define SLUICE_OUTBOUND_METER_H
/* Counts releases in the latest half-open period, and remembers the most there ever were. */
#include "base/clock.h"
#include "base/must.h"

/* Zero-initialised memory, then meter_init(). */
struct meter {
    int64_t period_us;
    unsigned cap_max; /* more than this in a period are not told apart */
    int64_t *ring;    /* times, oldest at `start` */
    unsigned start, count, cap;
    unsigned most;
};

void meter_init(struct meter *meter, int64_t period_us, int64_t expected);
void meter_fini(struct meter *meter);
void meter_add(struct meter *meter, struct mono at);
/* The release at that time did not happen after all. */
void meter_undo(struct meter *meter, struct mono at);

#endif
