#ifndef SLUICE_UPSTREAM_RESOLVE_H
#define SLUICE_UPSTREAM_RESOLVE_H
/* Names to addresses: one lookup per name at a time, answers kept for a while, nothing ever waits in the loop. */
#include "base/loop.h"
#include "upstream/upstream.h"
#include "workers.h"

enum { RESOLVE_ENTRIES = 4096 };

struct answer {
    enum upstream_error error;
    const char *detail;       /* for the log, when it is an error */
    const struct addr *addrs; /* IPv6 and IPv4 in turns; ports 0 */
    unsigned count;
};

/* A wish for an answer, embedded in its owner. Zero-initialised memory is idle. */
struct lookup {
    TAILQ_ENTRY(lookup) link;
    void (*done)(struct lookup *lookup, const struct answer *answer); /* the answer is valid during the call */
    struct resolver *resolver;
    struct resolve_entry *entry; /* non-NULL while waiting */
    struct timer deadline;
};

/* `resolve` NULL: the system's way. */
struct resolver *resolve_new(struct loop *loop, const struct upstreams_conf *conf, workers_resolve resolve);
/* dns_ttl and dns_timeout of lookups from now on. */
void resolve_set_times(struct resolver *resolver, const struct upstreams_conf *conf);
/* No lookup may be waiting. */
void resolve_free(struct resolver *resolver);

/* True: *out is known now (a literal, from memory, or no room to ask) and valid until the next call. False: done() will
 * be called from the loop, within dns_timeout. */
bool resolve_get(struct resolver *resolver, const char *host, struct lookup *lookup, struct answer *out) MUST_CHECK;
/* No effect when not waiting. */
void resolve_cancel(struct lookup *lookup);
/* This address answered when others did not: it goes first as long as the answer is remembered. */
void resolve_prefer(struct resolver *resolver, const char *host, const struct addr *addr);

#endif
