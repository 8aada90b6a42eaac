#ifndef SLUICE_BASE_HISTOGRAM_H
#define SLUICE_BASE_HISTOGRAM_H
/* How often which time was seen: counts between fixed bounds, a sum, and what can be told from them. Microseconds. */
#include <stdint.h>

enum { HISTOGRAM_BOUNDS_MOST = 15 };

/* Upper bounds, each included in its own; what is above the last one is counted too. */
struct histogram_bounds {
    unsigned count;
    int64_t us[HISTOGRAM_BOUNDS_MOST];
};
extern const struct histogram_bounds histogram_waits;    /* 1 ms to 5 minutes */
extern const struct histogram_bounds histogram_answers;  /* 1 ms to 1 minute, of third parties */
extern const struct histogram_bounds histogram_lateness; /* 50 us to 50 ms */
extern const struct histogram_bounds histogram_trips;    /* 50 us to 500 ms, to Redis and back */

struct histogram {
    const struct histogram_bounds *bounds;
    uint64_t counts[HISTOGRAM_BOUNDS_MOST + 1]; /* not cumulative; the last one is above every bound */
    uint64_t total;
    int64_t sum_us;
};

void histogram_init(struct histogram *histogram, const struct histogram_bounds *bounds);
/* A time below zero counts as zero. */
void histogram_add(struct histogram *histogram, int64_t us);
/* What `share` (0 to 1) of all were at most, by a straight line between two bounds; the last bound where that is all
 * that is known, 0 when nothing was counted. */
int64_t histogram_quantile_us(const struct histogram *histogram, double share);

#endif
