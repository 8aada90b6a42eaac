#include "base/histogram.h"

#include "base/must.h"

#include <string.h>

const struct histogram_bounds histogram_waits = {15,
                                                 {1000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000,
                                                  5000000, 10000000, 30000000, 60000000, 120000000, 300000000}};
const struct histogram_bounds histogram_answers = {
    13, {1000, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 60000000}};
const struct histogram_bounds histogram_lateness = {10, {50, 100, 250, 500, 1000, 2000, 5000, 10000, 20000, 50000}};
const struct histogram_bounds histogram_trips = {
    12, {50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 500000}};

void histogram_init(struct histogram *histogram, const struct histogram_bounds *bounds)
{
    must(bounds->count > 0 && bounds->count <= HISTOGRAM_BOUNDS_MOST);
    memset(histogram, 0, sizeof(*histogram));
    histogram->bounds = bounds;
}

void histogram_add(struct histogram *histogram, int64_t us)
{
    unsigned i = 0;

    us = us > 0 ? us : 0;
    while (i < histogram->bounds->count && us > histogram->bounds->us[i]) {
        i++;
    }
    histogram->counts[i]++;
    histogram->total++;
    histogram->sum_us = us > INT64_MAX - histogram->sum_us ? INT64_MAX : histogram->sum_us + us;
}

int64_t histogram_quantile_us(const struct histogram *histogram, double share)
{
    const struct histogram_bounds *bounds = histogram->bounds;
    double rank = share * (double)histogram->total;
    double before = 0;

    if (histogram->total == 0) {
        return 0;
    }
    for (unsigned i = 0; i < bounds->count; i++) {
        double here = (double)histogram->counts[i];
        if (here > 0 && before + here >= rank) {
            int64_t low = i > 0 ? bounds->us[i - 1] : 0;
            double part = rank > before ? (rank - before) / here : 0;
            return low + (int64_t)((double)(bounds->us[i] - low) * part);
        }
        before += here;
    }
    return bounds->us[bounds->count - 1];
}
