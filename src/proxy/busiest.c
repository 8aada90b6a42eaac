/*
 * Counts the most frequent names of a stream that has more of them than there is room for: a name that is not in the
 * full table takes the place of the one with the least, and its count (Metwally, Agrawal and El Abbadi, "Efficient
 * computation of frequent and top-k elements in data streams", 2005, "space saving"). Who sends more than one in
 * BUSIEST_NAMES of all requests is always there. Two rounds of a minute make it forget.
 */
#include "proxy/busiest.h"

#include <string.h>

#define ROUND_US (60 * CLOCK_SECOND_US)

static void turn(struct busiest *busiest, struct mono now)
{
    int64_t age_us = mono_diff(now, busiest->began);

    if (busiest->began.us == 0 || age_us >= 2 * ROUND_US) {
        *busiest = (struct busiest){.began = now};
    } else if (age_us >= ROUND_US) {
        busiest->present ^= 1;
        busiest->rounds[busiest->present].used = 0;
        busiest->began = now;
    }
}

static struct busiest_one *find(struct busiest_round *round, const char *name)
{
    for (unsigned i = 0; i < round->used; i++) {
        if (strcmp(round->ones[i].name, name) == 0) {
            return &round->ones[i];
        }
    }
    return NULL;
}

static struct busiest_one *place_for(struct busiest_round *round, const char *name)
{
    struct busiest_one *one = &round->ones[0];

    if (round->used < BUSIEST_NAMES) {
        one = &round->ones[round->used++];
        one->count = 0;
    } else {
        for (unsigned i = 1; i < round->used; i++) {
            one = round->ones[i].count < one->count ? &round->ones[i] : one;
        }
    }
    memcpy(one->name, name, BUSIEST_NAME_BYTES);
    return one;
}

void busiest_count(struct busiest *busiest, struct slice name, struct mono now)
{
    char text[BUSIEST_NAME_BYTES] = "";
    size_t len = name.len < sizeof(text) - 1 ? name.len : sizeof(text) - 1;

    memcpy(text, name.ptr, len);
    turn(busiest, now);
    struct busiest_round *round = &busiest->rounds[busiest->present];
    struct busiest_one *one = find(round, text);
    one = one != NULL ? one : place_for(round, text);
    one->count++;
}

/* Adds what one of the other round has; a name that is in one round only has nothing in the other. */
static unsigned merge(struct busiest *busiest, struct busiest_one out[2 * BUSIEST_NAMES])
{
    struct busiest_round *present = &busiest->rounds[busiest->present],
                         *before = &busiest->rounds[busiest->present ^ 1];
    unsigned count = present->used;

    memcpy(out, present->ones, present->used * sizeof(out[0]));
    for (unsigned i = 0; i < before->used; i++) {
        const struct busiest_one *same = find(present, before->ones[i].name);
        if (same != NULL) {
            out[same - present->ones].count += before->ones[i].count;
        } else {
            out[count++] = before->ones[i];
        }
    }
    return count;
}

int64_t busiest_each(struct busiest *busiest, struct mono now, unsigned most,
                     void (*each)(void *arg, const char *name, uint64_t count), void *arg)
{
    struct busiest_one all[2 * BUSIEST_NAMES];

    turn(busiest, now);
    unsigned count = merge(busiest, all);
    for (unsigned told = 0; told < most && told < count; told++) {
        struct busiest_one *top = &all[0];
        for (unsigned i = 1; i < count; i++) {
            top = all[i].count > top->count ? &all[i] : top;
        }
        each(arg, top->name, top->count);
        top->count = 0;
    }
    return mono_diff(now, busiest->began) + (busiest->rounds[busiest->present ^ 1].used > 0 ? ROUND_US : 0);
}
