#ifndef SLUICE_INBOUND_ADMISSION_H
#define SLUICE_INBOUND_ADMISSION_H
/*
 * Yes or no, at once: whether a request may pass every limit that applies to it. One atomic script for all of its limits, on Redis' own clock, or the C twin
 * of the same arithmetic when no Redis is configured. A refusal by one limit consumes from none.
 */
#include "base/loop.h"
#include "conf/inbound.h"
#include "redis/link.h"

struct admission;

struct admission_result {
    bool admitted;
    int64_t limit;          /* rate.count, or the capacity */
    int64_t window_us;      /* rate.period_us */
    int64_t remaining;      /* requests of this cost that would be admitted now */
    int64_t retry_after_us; /* refused: when one of this cost would be admitted, if nothing else comes */
    int64_t reset_us;       /* until all of the quota is there again */
};

/* Embedded in its owner. */
struct admission_check {
    TAILQ_ENTRY(admission_check) link;
    const struct inbound_conf *inbound;
    const struct inbound_rule *rules[INBOUND_RULES_MOST]; /* those that match the request */
    struct slice keys[INBOUND_RULES_MOST];                /* the caller's key for each, as it came: hashed before it goes anywhere */
    int64_t costs[INBOUND_RULES_MOST];
    unsigned count;
    void (*done)(struct admission_check *check); /* from the loop, once */
    /* the answer */
    bool admitted;
    bool unchecked; /* Redis is out of reach: admitted (open) or refused (closed) without looking */
    struct admission_result results[INBOUND_RULES_MOST];
    /* internal */
    struct link_call call;
    struct timer timeout;
    struct defer defer;
    struct admission *admission; /* non-NULL while pending */
    struct mono started;
};

struct admission_counters {
    uint64_t admitted, refused, dry_refused, unchecked, redis_calls;
};

/* `link` NULL: the C twins alone. `link` must outlive it. The key hash is keyed with `secret`. */
struct admission *admission_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id, const void *secret,
                                size_t secret_bytes);
void admission_free(struct admission *admission);
void admission_start(struct admission *admission, struct admission_check *check);
/* No callback will come. No effect when not pending. */
void admission_cancel(struct admission_check *check);
void admission_counters(const struct admission *admission, struct admission_counters *out);

#endif
