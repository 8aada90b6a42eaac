#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static int64_t read_clock_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t monotonic_ns(void)
{
    return read_clock_ns(CLOCK_MONOTONIC);
}

int64_t realtime_ns(void)
{
    return read_clock_ns(CLOCK_REALTIME);
}

struct sockaddr_in parse_addr(const char *text)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    char host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof(host))
        die("'%s' is not ADDRESS:PORT", text);
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    if (inet_pton(AF_INET, host, &addr.sin_addr) != 1)
        die("'%s' is no IPv4 address", host);
    addr.sin_port = htons((uint16_t)parse_count(colon + 1, 0, 65535));
    return addr;
}

long parse_count(const char *text, long min, long max)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || value < min || value > max)
        die("'%s' is not a number from %ld to %ld", text, min, max);
    return value;
}

void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}
