/*
 * A walk knows the names of destinations and looks each up when it gets there: between two steps settings may change
 * and buckets go. A step takes less than a millisecond, and the loop does everything else before the next.
 */
#include "admin/rows.h"

#include "base/mem.h"

#include <string.h>

enum { ROWS_PER_STEP = 12 };
#define REST_US CLOCK_MS_US

struct walk {
    TAILQ_ENTRY(walk) link;
    struct admin *admin;
    struct timer step;
    char **names; /* owned */
    unsigned count, cap, at, most, busy_most;
    rows_visit *each;
    void (*done)(void *arg);
    void *arg;
};

static void add_name(void *arg, const struct destination_stats *traffic)
{
    struct walk *walk = arg;

    if (walk->count == walk->most) {
        return;
    }
    if (walk->count == walk->cap) {
        walk->cap = walk->cap == 0 ? 16 : walk->cap * 2;
        walk->names = mem_realloc((void *)walk->names, walk->cap * sizeof(walk->names[0]));
    }
    walk->names[walk->count++] = mem_strdup(traffic->label);
}

static void free_walk(struct walk *walk)
{
    TAILQ_REMOVE(&walk->admin->walks, walk, link);
    timer_clear(&walk->step);
    for (unsigned i = 0; i < walk->count; i++) {
        mem_free(walk->names[i]);
    }
    mem_free((void *)walk->names);
    mem_free(walk);
}

static void fill_sum(const struct admin *admin, struct row *row)
{
    int64_t paused_us;
    const struct policy *policy =
        outbound_unlisted_policy(admin->sources.outbound, admin->sources.conf->fallback, &paused_us);
    const struct tally *tally = outbound_unlisted(admin->sources.outbound);

    row->is_queue = row->is_sum = true;
    row->is_unpaced = admin->sources.conf->proxy.unlisted == UNLISTED_PASS;
    row->queue = (struct bucket_stats){.name = row->name,
                                       .destination = row->name,
                                       .policy = policy,
                                       .tally = tally,
                                       .waiting = tally->waiting,
                                       .most_in_window = tally->most_in_window,
                                       .paused_us = paused_us,
                                       .interval_us = policy_interval_us(policy)};
}

static void visit(struct walk *walk, const char *name)
{
    const struct admin *admin = walk->admin;
    struct row row = {.name = name, .traffic = proxy_destination(admin->sources.proxy, name)};

    if (row.traffic == NULL) {
        return; /* gone meanwhile */
    }
    if (strcmp(name, admin->sources.conf->fallback->label) == 0) {
        fill_sum(admin, &row);
    } else {
        row.is_queue = outbound_look(admin->sources.outbound, name, &row.queue);
    }
    walk->each(walk->arg, &row);
}

static void visit_busy(void *arg, const struct bucket_stats *queue)
{
    const struct walk *walk = arg;
    const struct row row = {.name = queue->name, .is_queue = true, .queue = *queue};

    walk->each(walk->arg, &row);
}

static void step_due(struct timer *timer, struct mono now)
{
    struct walk *walk = container_of(timer, struct walk, step);
    struct loop *loop = walk->admin->sources.loop;

    (void)now;
    if (walk->at < walk->count) {
        for (unsigned i = 0; i < ROWS_PER_STEP && walk->at < walk->count; i++) {
            visit(walk, walk->names[walk->at++]);
        }
        timer_set(loop, &walk->step, mono_add(loop_now(loop), REST_US), step_due);
        return;
    }
    outbound_each_busy(walk->admin->sources.outbound, walk->busy_most, visit_busy, walk);
    void (*done)(void *arg) = walk->done;
    void *arg = walk->arg;
    free_walk(walk);
    done(arg);
}

void rows_walk(struct admin *admin, unsigned most, unsigned busy_most, rows_visit *each, void (*done)(void *arg),
               void *arg)
{
    struct walk *walk = mem_zalloc(sizeof(*walk));

    walk->admin = admin;
    walk->most = most;
    walk->busy_most = busy_most;
    walk->each = each;
    walk->done = done;
    walk->arg = arg;
    TAILQ_INSERT_TAIL(&admin->walks, walk, link);
    proxy_each_destination(admin->sources.proxy, add_name, walk);
    timer_set(admin->sources.loop, &walk->step, loop_now(admin->sources.loop), step_due);
}

void rows_stop(struct admin *admin, void (*dropped)(void *arg))
{
    struct walk *walk;

    while ((walk = TAILQ_FIRST(&admin->walks)) != NULL) {
        void *arg = walk->arg;
        free_walk(walk);
        dropped(arg);
    }
}
