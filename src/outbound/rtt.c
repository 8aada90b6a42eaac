#include "outbound/rtt.h"

#include <stdlib.h>
#include <string.h>

void rtt_add(struct rtt *rtt, int64_t us)
{
    rtt->us[rtt->next] = us < 0 ? 0 : us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
    rtt->next = (rtt->next + 1) % RTT_KEPT;
    rtt->count += rtt->count < RTT_KEPT;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void rtt_sum_up(struct rtt *rtt)
{
    uint32_t sorted[RTT_KEPT];

    if (rtt->count == 0) {
        return;
    }
    memcpy(sorted, rtt->us, rtt->count * sizeof(sorted[0]));
    qsort(sorted, rtt->count, sizeof(sorted[0]), by_value);
    rtt->p90_us = sorted[rtt->count * 90 / 100];
    rtt->p99_us = sorted[rtt->count * 99 / 100];
    rtt->most_us = sorted[rtt->count - 1];
}
