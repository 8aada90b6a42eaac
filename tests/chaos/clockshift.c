/*
 * clockshift - preloaded into a redis-server under test, it moves that server's wall clock and nobody else's.
 *
 *   LD_PRELOAD=clockshift.so CLOCKSHIFT=FILE redis-server ...
 *
 * FILE holds three 64-bit integers that the test may change at any time: an offset in microseconds, a rate error in
 * parts per million, and the CLOCK_MONOTONIC microsecond from which that error counts. A step is a new offset; a clock
 * that runs 500 ppm fast has a rate of 500. The monotonic clocks, by which Redis times its own work, are left alone.
 * The three are read without a lock: a test that changes the rate sets the beginning first.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define US_PER_S INT64_C(1000000)
#define EXPORT __attribute__((visibility("default")))

struct shift {
    int64_t offset_us, ppm, since_us;
};

static const volatile struct shift *the_shift;

/* The C library's own clock_gettime is the one that is replaced here, so the kernel is asked. */
static int64_t kernel_us(clockid_t id)
{
    struct timespec now;
    syscall(SYS_clock_gettime, id, &now);
    return now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

/* Before main, so that no thread of Redis is there yet. */
__attribute__((constructor)) static void open_shift(void)
{
    const char *name = getenv("CLOCKSHIFT");
    int fd = name != NULL ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *page = fd >= 0 ? mmap(NULL, sizeof(struct shift), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (page == MAP_FAILED)
        abort();
    the_shift = page;
    close(fd);
}

static int64_t wall_us(void)
{
    int64_t wall = kernel_us(CLOCK_REALTIME);
    if (the_shift == NULL)
        return wall;
    int64_t slewed =
        the_shift->ppm != 0 ? (kernel_us(CLOCK_MONOTONIC) - the_shift->since_us) * the_shift->ppm / US_PER_S : 0;
    return wall + the_shift->offset_us + slewed;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *out)
{
    if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, id, out);
    int64_t now = wall_us();
    *out = (struct timespec){now / US_PER_S, now % US_PER_S * 1000};
    return 0;
}

EXPORT int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    int64_t now = wall_us();
    (void)zone;
    *out = (struct timeval){now / US_PER_S, now % US_PER_S};
    return 0;
}

EXPORT time_t time(time_t *out)
{
    time_t now = (time_t)(wall_us() / US_PER_S);
    if (out != NULL)
        *out = now;
    return now;
}
