#ifndef SLUICE_PROXY_COUNTS_H
#define SLUICE_PROXY_COUNTS_H
/* Counters of each destination. As many as there are sections, and two: never one for a name that a caller made up. */
#include "proxy/busiest.h"
#include "proxy/stats.h"
#include "proxy/verdict.h"

#include <uthash.h>

enum { COUNTS_CLASSES = 6 }; /* no status, 1xx to 5xx */

struct counts {
    struct destination_stats stats; /* first */
    uint64_t ended[VERDICT_COUNT][COUNTS_CLASSES];
    UT_hash_handle hh;
};

struct counters;

struct counters *counters_new(const struct conf *conf);
void counters_free(struct counters *counters);
/* `policy` NULL: of whom it is not known where they would go. */
struct counts *counters_of(struct counters *counters, const struct policy *policy);
void counters_each(const struct counters *counters, void (*each)(void *arg, const struct destination_stats *stats),
                   void *arg);
/* NULL: none of that label. */
const struct destination_stats *counters_look(const struct counters *counters, const char *label);
struct busiest *counters_busiest(struct counters *counters);
void counts_ended(struct counts *counts, enum verdict verdict, unsigned status);

#endif
