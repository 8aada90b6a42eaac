#include "base/clock.h"

#include "base/must.h"

#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec ts;

    must(clock_gettime(id, &ts) == 0);
    return (int64_t)ts.tv_sec * CLOCK_SECOND_US + ts.tv_nsec / 1000;
}

struct mono clock_mono_now(void)
{
    return (struct mono){read_us(CLOCK_MONOTONIC)};
}

struct wall clock_wall_now(void)
{
    return (struct wall){read_us(CLOCK_REALTIME)};
}
