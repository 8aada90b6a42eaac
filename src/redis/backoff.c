#include "redis/backoff.h"

#include <sys/random.h>

/* 75 % to 125 % of it, so that a fleet doesn't come back in step. */
static int64_t jittered(int64_t us)
{
    uint32_t random;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
        random = UINT32_MAX / 2; /* no entropy yet, early in the boot */
    }
    return us * 3 / 4 + (int64_t)((uint64_t)us / 2 * random / UINT32_MAX);
}

int64_t backoff_next_us(struct backoff *backoff, int64_t most_us)
{
    int64_t us = backoff->last_us == 0 ? BACKOFF_MIN_US : backoff->last_us * 2;

    backoff->last_us = us < most_us ? us : most_us;
    return jittered(backoff->last_us);
}

void backoff_reset(struct backoff *backoff)
{
    backoff->last_us = 0;
}
