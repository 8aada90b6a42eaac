#include "proxy/counts.h"

#include "base/mem.h"
#include "base/must.h"

#include <string.h>
#undef uthash_malloc
#undef uthash_free
#undef uthash_fatal
#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#define uthash_fatal(why) wrong(why)

struct counters {
    struct counts *by_label;
    struct busiest busiest;
};

static const char nowhere[] = "-";

static struct counts *add(struct counters *counters, const char *label)
{
    struct counts *counts = mem_zalloc(sizeof(*counts));

    counts->stats.label = mem_strdup(label);
    histogram_init(&counts->stats.wait, &histogram_waits);
    histogram_init(&counts->stats.upstream, &histogram_answers);
    HASH_ADD_KEYPTR(hh, counters->by_label, counts->stats.label, strlen(counts->stats.label), counts);
    return counts;
}

static struct counts *find(struct counters *counters, const char *label)
{
    struct counts *counts;

    HASH_FIND_STR(counters->by_label, label, counts);
    return counts != NULL ? counts : add(counters, label);
}

struct counters *counters_new(const struct conf *conf)
{
    struct counters *counters = mem_zalloc(sizeof(*counters));

    for (unsigned i = 0; i < conf->policies_count; i++) {
        find(counters, conf->policies[i]->label);
    }
    find(counters, conf->fallback->label);
    find(counters, nowhere);
    return counters;
}

void counters_free(struct counters *counters)
{
    struct counts *counts, *next;

    HASH_ITER(hh, counters->by_label, counts, next)
    {
        HASH_DEL(counters->by_label, counts);
        mem_free((char *)counts->stats.label);
        mem_free(counts);
    }
    mem_free(counters);
}

struct counts *counters_of(struct counters *counters, const struct policy *policy)
{
    policy = policy != NULL && policy->parent != NULL ? policy->parent : policy; /* a route counts as its destination */
    return find(counters, policy != NULL ? policy->label : nowhere);
}

void counters_each(const struct counters *counters, void (*each)(void *arg, const struct destination_stats *stats),
                   void *arg)
{
    for (const struct counts *counts = counters->by_label; counts != NULL; counts = counts->hh.next) {
        each(arg, &counts->stats);
    }
}

const struct destination_stats *counters_look(const struct counters *counters, const char *label)
{
    const struct counts *counts;

    HASH_FIND_STR(counters->by_label, label, counts);
    return counts != NULL ? &counts->stats : NULL;
}

struct busiest *counters_busiest(struct counters *counters)
{
    return &counters->busiest;
}

void counts_ended(struct counts *counts, enum verdict verdict, unsigned status)
{
    must(verdict < VERDICT_COUNT);
    counts->ended[verdict][status >= 100 && status < 600 ? status / 100 : 0]++;
}

void destination_each_verdict(const struct destination_stats *stats,
                              void (*each)(void *arg, const char *verdict, const char *class, uint64_t count),
                              void *arg)
{
    static const char *const classes[COUNTS_CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    const struct counts *counts = container_of(stats, struct counts, stats);

    for (unsigned verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        for (unsigned class = 0; class < COUNTS_CLASSES; class ++) {
            if (counts->ended[verdict][class] > 0) {
                each(arg, verdict_word((enum verdict)verdict), classes[class], counts->ended[verdict][class]);
            }
        }
    }
}
