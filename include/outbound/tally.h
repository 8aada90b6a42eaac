#ifndef SLUICE_OUTBOUND_TALLY_H
#define SLUICE_OUTBOUND_TALLY_H
/* What became of waiters and slots, of one bucket or, by `sum`, of many: those of hosts without a section come and go,
 * what they did stays counted. */
#include "base/histogram.h"

enum tally_kind {
    TALLY_ARRIVED,   /* waiters that came, refused ones too */
    TALLY_REFUSED,   /* not taken into the queue */
    TALLY_CANCELLED, /* left by themselves */
    TALLY_GAVE_UP,   /* their deadline came, or Redis was gone */
    TALLY_PURGED,    /* an operator emptied the queue */
    TALLY_RELEASED,  /* let out; each used a slot */
    TALLY_RETURNED,  /* let out but came back, since nothing could be sent: the slot was not used after all */
    TALLY_LATE,      /* slots that passed while somebody waited */
    TALLY_WASTED,    /* slots that nobody was left for */
    TALLY_PAUSED,    /* pauses that began or were made longer here */
    TALLY_KINDS
};

struct tally {
    struct tally *sum; /* counts the same; NULL = none */
    uint64_t counts[TALLY_KINDS];
    unsigned waiting;
    unsigned most_in_window;   /* most releases in any period */
    struct histogram lateness; /* of releases, from the beginning of their window */
};

void tally_init(struct tally *tally, struct tally *sum);
void tally_count(struct tally *tally, enum tally_kind kind, uint64_t more);
void tally_waiting(struct tally *tally, int more);
/* So many are in the window now, of this one and of what `sum` counts. */
void tally_release(struct tally *tally, unsigned in_window, unsigned in_sums_window);
/* Another limit: what was most under the old one says nothing. */
void tally_new_limit(struct tally *tally);
void tally_lateness(struct tally *tally, int64_t us);

#endif
