#ifndef SLUICE_OUTBOUND_FALLBACK_H
#define SLUICE_OUTBOUND_FALLBACK_H
/* What happens when Redis dies: a pure decision. */
#include "conf/policy.h"

enum fallback {
    FALLBACK_SHARED,  /* Redis hands out slots */
    FALLBACK_HOLD,    /* nobody leaves, but in windows already in hand */
    FALLBACK_RESERVE, /* this replica's own permits */
    FALLBACK_REJECT,  /* everybody is told at once */
    FALLBACK_OPEN,    /* everybody leaves at once */
};

/* An outage shorter than this is a reconnect: nobody is turned away or let loose for it. */
#define FALLBACK_GRACE_US (500 * CLOCK_MS_US)

enum fallback fallback_decide(const struct policy *policy, bool up, int64_t down_for_us);
/* How many per period Redis hands out, what is kept for outages taken off. */
int64_t fallback_shared_count(const struct policy *policy);
/* Permits of this replica per period while Redis is gone, 0 = none. */
int64_t fallback_permits(const struct policy *policy);

#endif
