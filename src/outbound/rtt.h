#ifndef SLUICE_OUTBOUND_RTT_H
#define SLUICE_OUTBOUND_RTT_H
/* How long answers of Redis take: percentiles of the latest RTT_KEPT exchanges. Pure. */
#include <stdint.h>

enum { RTT_KEPT = 256 };

/* Zero-initialised memory knows nothing and answers 0. */
struct rtt {
    uint32_t us[RTT_KEPT];
    unsigned next, count;
    int64_t p90_us, p99_us, most_us; /* as of rtt_sum_up() */
};

void rtt_add(struct rtt *rtt, int64_t us);
void rtt_sum_up(struct rtt *rtt);

#endif
