#ifndef SLUICE_OUTBOUND_WORD_H
#define SLUICE_OUTBOUND_WORD_H
/*
 * A third party's word on a bucket: what its answers said, and what follows for every replica. A throttled answer
 * pauses the bucket in Redis, where it outlives any of us; those who can't be served after it any more hear so at once.
 */
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct bucket;

enum told {
    TOLD_NOTHING,   /* only looks */
    TOLD_WELL,      /* an answer that is neither of the others */
    TOLD_THROTTLED, /* slow down */
    TOLD_BANNED,    /* go away */
    TOLD_ERROR,     /* one for error_budget */
    TOLD_BUDGET,    /* how much is left, and until when */
};

struct answer {
    enum told told;
    struct mono left;  /* when its request left */
    int64_t asked_us;  /* pause that it asks for, 0 = it doesn't say; with TOLD_BUDGET: until the reset */
    int64_t remaining; /* with TOLD_BUDGET */
};

/* Why nothing leaves. */
enum stop {
    STOP_NONE,
    STOP_THROTTLED,
    STOP_BANNED,
    STOP_ERRORS,
    STOP_BUDGET, /* it said that nothing is left */
};

/* Returns for how long the bucket is paused now, as far as it is known here. */
int64_t bucket_told(struct bucket *bucket, const struct answer *answer);
/* Why nothing leaves the bucket because of an answer, and for how long. */
enum stop bucket_stopped(const struct bucket *bucket, int64_t *left_us);
const char *stop_text(enum stop stop);

#endif
