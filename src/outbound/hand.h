#ifndef SLUICE_OUTBOUND_HAND_H
#define SLUICE_OUTBOUND_HAND_H
/* The windows a pacer has in hand, by time. */
#include "outbound/slots.h"

struct held {
    struct window window;
    struct asker *from; /* NULL: nobody to give it back to */
    bool checked;       /* no need to ask once more whether the bucket is paused */
};

/* Zero-initialised memory is an empty hand. */
struct hand {
    struct held *held;
    unsigned count, cap;
};

void hand_fini(struct hand *hand);
void hand_add(struct hand *hand, const struct window *window, struct asker *from);
/* Takes the earliest out. */
struct window hand_take(struct hand *hand);
/* How many of the newest windows are consecutive slots of one asker; at least 1, at most `most`. */
unsigned hand_newest_run(const struct hand *hand, unsigned most);

#endif
