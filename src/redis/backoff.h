#ifndef SLUICE_SRC_REDIS_BACKOFF_H
#define SLUICE_SRC_REDIS_BACKOFF_H
/* How long to wait before dialling again: 50 ms, doubling to the most, each 25 % more or less by chance. */
#include <stdint.h>

#define BACKOFF_MIN_US INT64_C(50000)
#define BACKOFF_MAX_US INT64_C(2000000)
#define BACKOFF_SEARCH_MAX_US INT64_C(400000) /* where another server takes over */

/* Zero-initialised memory begins at the least. */
struct backoff {
    int64_t last_us; /* before chance; 0: none yet */
};

int64_t backoff_next_us(struct backoff *backoff, int64_t most_us);
void backoff_reset(struct backoff *backoff);

#endif
