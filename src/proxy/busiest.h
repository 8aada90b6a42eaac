#ifndef SLUICE_PROXY_BUSIEST_H
#define SLUICE_PROXY_BUSIEST_H
/* Who sends most, of however many there are, in bounded memory. */
#include "base/clock.h"
#include "base/str.h"

enum { BUSIEST_NAMES = 64, BUSIEST_NAME_BYTES = 64 };

struct busiest_round {
    struct busiest_one {
        char name[BUSIEST_NAME_BYTES];
        uint64_t count; /* never less than it was, and at most as many more as the least of the table */
    } ones[BUSIEST_NAMES];
    unsigned used;
};
/* Zero-initialised memory is empty. */
struct busiest {
    struct busiest_round rounds[2]; /* the present minute, and the one before */
    unsigned present;
    struct mono began;
};

void busiest_count(struct busiest *busiest, struct slice name, struct mono now);
/* Those of the present and the last minute, the busiest first, at most `most`. Returns for how long that is. */
int64_t busiest_each(struct busiest *busiest, struct mono now, unsigned most,
                     void (*each)(void *arg, const char *name, uint64_t count), void *arg);

#endif
