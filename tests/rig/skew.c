/*
 * Another wall clock for one process: preloaded (LD_PRELOAD) into a redis-server, it moves CLOCK_REALTIME by SKEW_US
 * microseconds, so that servers on one machine show different times, as servers on different machines do. Monotonic
 * clocks are left alone.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t skew_us(void)
{
    static int64_t skew;
    static int known;

    if (!known) {
        const char *text = getenv("SKEW_US");
        skew = text != NULL ? atoll(text) : 0;
        known = 1;
    }
    return skew;
}

static int64_t shifted_us(const struct timespec *ts)
{
    return (int64_t)ts->tv_sec * 1000000 + ts->tv_nsec / 1000 + skew_us();
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    int result = (int)syscall(SYS_clock_gettime, clock, ts);

    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t us = shifted_us(ts);
        *ts = (struct timespec){us / 1000000, us % 1000000 * 1000};
    }
    return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec ts;
    int result = clock_gettime(CLOCK_REALTIME, &ts);

    (void)tz;
    *tv = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
    return result;
}

time_t time(time_t *out)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    if (out != NULL) {
        *out = ts.tv_sec;
    }
    return ts.tv_sec;
}
