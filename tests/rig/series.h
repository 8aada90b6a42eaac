#ifndef RIG_SERIES_H
#define RIG_SERIES_H
/* Instants read from the rig's logs, and what can be said about them. */
#include <stddef.h>
#include <stdint.h>

struct series {
    int64_t *at_ns; /* ascending once series_sort() was called */
    size_t count, room;
};

/* Adds column `column` (from 0) of every line of a CSV file, its heading left out. A missing file ends the program. */
void series_read(struct series *series, const char *name, unsigned column);
void series_add(struct series *series, int64_t at_ns);
void series_sort(struct series *series);
void series_free(struct series *series);

/* The most instants in any half-open window [t, t + window). */
size_t series_most_in(const struct series *series, int64_t window_ns);
/* The gaps from each instant to the next, sorted by length. */
struct series series_gaps(const struct series *series);
/* Of a sorted series, the value below which `share` (0 to 1) of it lies; 0 for an empty one. */
int64_t series_quantile(const struct series *series, double share);

#endif
