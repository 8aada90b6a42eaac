#include "outbound/tally.h"

#include <string.h>

void tally_init(struct tally *tally, struct tally *sum)
{
    memset(tally, 0, sizeof(*tally));
    tally->sum = sum;
    histogram_init(&tally->lateness, &histogram_lateness);
}

void tally_count(struct tally *tally, enum tally_kind kind, uint64_t more)
{
    for (; tally != NULL; tally = tally->sum) {
        tally->counts[kind] += more;
    }
}

void tally_waiting(struct tally *tally, int more)
{
    for (; tally != NULL; tally = tally->sum) {
        tally->waiting += (unsigned)more;
    }
}

void tally_release(struct tally *tally, unsigned in_window, unsigned in_sums_window)
{
    for (; tally != NULL; tally = tally->sum, in_window = in_sums_window) {
        tally->counts[TALLY_RELEASED]++;
        if (in_window > tally->most_in_window) {
            tally->most_in_window = in_window;
        }
    }
}

void tally_new_limit(struct tally *tally)
{
    for (; tally != NULL; tally = tally->sum) {
        tally->most_in_window = 0;
    }
}

void tally_lateness(struct tally *tally, int64_t us)
{
    for (; tally != NULL; tally = tally->sum) {
        histogram_add(&tally->lateness, us);
    }
}
