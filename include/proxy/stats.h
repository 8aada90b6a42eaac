#ifndef SLUICE_PROXY_STATS_H
#define SLUICE_PROXY_STATS_H
/* What the forward proxy did and has under way, for looking at only. */
#include "base/histogram.h"
#include "proxy/proxy.h"

struct proxy_stats {
    unsigned callers; /* connections */
    int64_t max_callers;
    int64_t queued_bytes, max_queued_bytes;
    uint64_t starved; /* accepting failed for want of descriptors or memory */
    bool draining;
};
void proxy_stats(const struct proxy *proxy, struct proxy_stats *out);

/* Of one destination; hosts without a section are all "default". What was refused before it was known where it would go
 * is "-". */
struct destination_stats {
    const char *label;
    struct histogram wait;     /* from arrival to the slot, of those that got there */
    struct histogram upstream; /* from there to the first byte of the answer */
    uint64_t bytes_in, bytes_out;
    uint64_t turns;     /* paced ones inside tunnels */
    uint64_t throttled; /* answers of the third party that said to slow down */
    uint64_t banned;    /* that said to go away */
    uint64_t garbled;   /* fields about the rate that meant nothing */
    uint64_t retries;   /* requests sent again */
    uint64_t h2;        /* tunnels whose callers offered HTTP/2 and were let through */
    int64_t in_flight;  /* requests with the third party */
    int64_t connections; /* to the third party in use: of requests near their turn or under way, and of tunnels */
    int64_t tunnels;    /* open */
    int64_t held_bytes; /* in memory for those that wait */
};
void proxy_each_destination(const struct proxy *proxy, void (*each)(void *arg, const struct destination_stats *stats),
                            void *arg);
/* Who sent most lately, users by name and others by address: the present and the last minute, the busiest first. Returns how long
 * that is. */
int64_t proxy_each_busiest(const struct proxy *proxy, unsigned most,
                           void (*each)(void *arg, const char *name, uint64_t count), void *arg);
/* NULL: none of that label. */
const struct destination_stats *proxy_destination(const struct proxy *proxy, const char *label);
/* Every verdict and class of status ("2xx", "none") there was, and how often. */
void destination_each_verdict(const struct destination_stats *stats,
                              void (*each)(void *arg, const char *verdict, const char *class, uint64_t count),
                              void *arg);

#endif
