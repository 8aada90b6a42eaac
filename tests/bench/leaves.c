/* links: src/server/authority.c src/server/certificate.c src/base/buf.c src/base/err.c src/base/mem.c src/base/must.c src/base/str.c */
/*
 * What https = intercept costs where callers ask for very many hosts: time to make a certificate, to find one again,
 * and memory of the process, which must not grow any more once the cache is full (exit 1 otherwise).
 *
 *   build/bench/leaves [HOSTS]
 */
#include "server/authority.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 10000, GROWTH_MOST_KB = 2048 };

static double cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static long resident_kb(void)
{
    long pages = 0, total;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &total, &pages) != 2) {
            pages = 0;
        }
        (void)fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A connection to each of these hosts; microseconds for each. */
static double connect_all(struct authority *authority, int from, int to)
{
    double begun = cpu_us();
    char host[64];

    for (int i = from; i < to; i++) {
        snprintf(host, sizeof(host), "host-number-%d.some.domain.example", i);
        SSL_free(authority_server_side(authority, host));
    }
    return (cpu_us() - begun) / (to - from);
}

static void line(const char *what, const struct authority *authority, double each_us, long before_kb)
{
    printf("%-34s %8u %10" PRIu64 " %10.1f %12ld\n", what, authority_leaves(authority), authority_made(authority),
           each_us, resident_kb() - before_kb);
}

int main(int argc, char **argv)
{
    int hosts = argc > 1 ? atoi(argv[1]) : HOSTS;
    char dir[] = "/tmp/leaves-XXXXXX", file[64];
    struct err err = {0};

    if (mkdtemp(dir) == NULL || hosts < 2 * AUTHORITY_LEAVES_MOST || !authority_create(dir, NULL, &err)) {
        fprintf(stderr, "leaves: no directory, less than %d hosts, or no CA\n", 2 * AUTHORITY_LEAVES_MOST);
        return 2;
    }
    struct authority *authority = authority_load(dir, &err);
    SSL_free(authority_server_side(authority, "first.example")); /* what OpenSSL keeps for itself */
    long before_kb = resident_kb();
    printf("%-34s %8s %10s %10s %12s\n", "certificates for intercepted hosts", "kept", "made", "us each", "more, kB");
    line("the cache full", authority, connect_all(authority, 0, AUTHORITY_LEAVES_MOST), before_kb);
    double again_us = connect_all(authority, 0, AUTHORITY_LEAVES_MOST);
    line("the same hosts again", authority, again_us, before_kb);
    long full_kb = resident_kb();
    snprintf(file, sizeof(file), "%d hosts", hosts);
    line(file, authority, connect_all(authority, AUTHORITY_LEAVES_MOST, hosts), before_kb);
    bool bounded = resident_kb() - full_kb < GROWTH_MOST_KB && authority_leaves(authority) <= AUTHORITY_LEAVES_MOST;
    printf("memory is bounded: %s\n", bounded ? "yes" : "NO");
    authority_free(authority);
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof(file), "%s/%s", dir, i == 0 ? "ca.pem" : "ca-key.pem");
        unlink(file);
    }
    rmdir(dir);
    return bounded ? 0 : 1;
}
