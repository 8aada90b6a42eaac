#ifndef SLUICE_OUTBOUND_STRIKES_H
#define SLUICE_OUTBOUND_STRIKES_H
/* What follows from a third party's answers: pauses, and a slower rate. Pure arithmetic on microseconds; reads no
 * clock. The same rules as src/lua/word.lua: both are asked the same questions by a test. */
#include "outbound/word.h"

enum { STRIKES_SLICES = 10, STRIKES_EVEN = 1000 /* the configured rate */ };

struct strikes {
    int64_t count;    /* throttled in a row */
    int64_t until_us; /* of the last pause that an answer brought */
    enum stop why;
    int64_t struck_us; /* when the last new strike came, 0 = never */
    int64_t slow;      /* permille of the interval, at least STRIKES_EVEN */
    int64_t moved_us;  /* when `slow` last changed */
    int64_t pause_us;  /* end of any pause */
    struct {
        int64_t index, count;
    } errors[STRIKES_SLICES + 1]; /* the oldest first */
    unsigned errors_count;
};

/* The numbers of what the script is asked, in that order. */
struct strikes_ask {
    enum told what;
    int64_t age_us, asked_us;
    int64_t usual_us, growth, least_us, most_us;
    int64_t slow_to, slowest;
    int64_t step_us;
    int64_t errors, slice_us;
    int64_t most_of_all_us;
};
struct strikes_reply {
    int64_t now_us;
    int64_t pause_us; /* its end, 0 = none */
    enum stop why;
    int64_t count, slow;
    bool fresh;
};

void strikes_init(struct strikes *strikes, int64_t now_us);
struct strikes_reply strikes_take(struct strikes *strikes, const struct strikes_ask *ask, int64_t now_us);

#endif
