#include "admin/rows.h"

#include "base/mem.h"

#include <string.h>

static struct row *add(struct rows *rows, const char *name)
{
    if (rows->count == rows->cap) {
        rows->cap = rows->cap == 0 ? 16 : rows->cap * 2;
        rows->at = mem_realloc(rows->at, rows->cap * sizeof(rows->at[0]));
    }
    struct row *row = &rows->at[rows->count++];
    *row = (struct row){.name = name};
    return row;
}

static void add_traffic(void *arg, const struct destination_stats *traffic)
{
    add(arg, traffic->label)->traffic = traffic;
}

/* Both sides come in the order of the file, so the search is over where it begins. */
struct merge {
    struct rows *rows;
    unsigned next;
};

static void add_queue(void *arg, const struct bucket_stats *queue)
{
    struct merge *merge = arg;
    struct rows *rows = merge->rows;

    for (unsigned i = 0; i < rows->count; i++) {
        struct row *row = &rows->at[(merge->next + i) % rows->count];
        if (strcmp(row->name, queue->name) == 0) {
            row->is_queue = true;
            row->queue = *queue;
            merge->next += i + 1;
            return;
        }
    }
}

void rows_collect(const struct admin *admin, struct rows *rows)
{
    struct merge merge = {.rows = rows};
    const struct conf *conf = admin->sources.conf;

    *rows = (struct rows){0};
    proxy_each_destination(admin->sources.proxy, add_traffic, rows);
    outbound_each_kept(admin->sources.outbound, add_queue, &merge);
    for (unsigned i = 0; i < rows->count; i++) {
        struct row *row = &rows->at[i];
        if (!row->is_queue && strcmp(row->name, conf->fallback->label) == 0) {
            const struct tally *tally = outbound_unlisted(admin->sources.outbound);
            row->is_queue = row->is_sum = true;
            row->queue = (struct bucket_stats){.name = row->name,
                                               .policy = conf->fallback,
                                               .tally = tally,
                                               .waiting = tally->waiting,
                                               .most_in_window = tally->most_in_window,
                                               .interval_us = policy_interval_us(conf->fallback)};
        }
    }
}

static void add_busy(void *arg, const struct bucket_stats *queue)
{
    struct row *row = add(arg, queue->name);

    row->is_queue = true;
    row->queue = *queue;
}

void rows_add_busy(const struct admin *admin, struct rows *rows, unsigned most)
{
    outbound_each_busy(admin->sources.outbound, most, add_busy, rows);
}

void rows_fini(struct rows *rows)
{
    mem_free(rows->at);
}
