#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H
/*
 * Time. Three clocks, three types, so that mixing them does not compile:
 *   struct mono   this machine's CLOCK_MONOTONIC, for everything that waits
 *   struct rtime  the clock of the Redis server, which labels slots
 *   struct wall   CLOCK_REALTIME, for logs and dates only
 * All are microseconds. Only clock.c and loop.c read a clock; every deciding function takes `now`.
 */
#include <stdbool.h>
#include <stdint.h>

struct mono {
    int64_t us;
};
struct rtime {
    int64_t us;
};
struct wall {
    int64_t us;
};

#define CLOCK_NEVER_US INT64_MAX
#define CLOCK_SECOND_US INT64_C(1000000)
#define CLOCK_MS_US INT64_C(1000)

struct mono clock_mono_now(void);
struct wall clock_wall_now(void);

static inline struct mono mono_add(struct mono t, int64_t us)
{
    return (struct mono){us > 0 && t.us > CLOCK_NEVER_US - us ? CLOCK_NEVER_US : t.us + us};
}
/* a - b in microseconds. */
static inline int64_t mono_diff(struct mono a, struct mono b)
{
    return a.us - b.us;
}
static inline bool mono_before(struct mono a, struct mono b)
{
    return a.us < b.us;
}

#endif
