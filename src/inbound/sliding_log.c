/*
 * Sliding window log: the time of every request of the last period, so exactly N in any window, at the price of memory
 * for each.
 *
 * Entries carry the running total of costs. What is in use is then the last total minus the one before the first that
 * still counts, and both "how many are over" and "when is there room" are binary searches. An entry counts while at_us
 * > now - period.
 *
 * Times never go back. When the clock does, by no more than a period, it stands still here until it has caught up:
 * nobody is let in early by it. By more, and all that still counts is taken to have come now, in one entry: nobody
 * waits longer than a period.
 */
#include "inbound/limit.h"

static const struct log_entry *entry(const struct sliding_log *log, uint32_t i)
{
    return &log->entries[(log->first + i) % log->room];
}

static int64_t last_at(const struct sliding_log *log)
{
    return log->count > 0 ? entry(log, log->count - 1)->at_us : 0;
}

static int64_t last_total(const struct sliding_log *log)
{
    return log->count > 0 ? entry(log, log->count - 1)->total : log->base;
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void drop(struct sliding_log *log, uint32_t count)
{
    if (count > 0) {
        log->base = entry(log, count - 1)->total;
        log->first = (log->first + count) % log->room;
        log->count -= count;
    }
}

/* How many entries from the front are no later than `at_us`. */
static uint32_t count_until(const struct sliding_log *log, int64_t at_us)
{
    uint32_t low = 0, high = log->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (entry(log, middle)->at_us <= at_us) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool settle(const struct limit *limit, union limit_state *state, int64_t now_us)
{
    struct sliding_log *log = &state->log;
    bool in_future = last_at(log) > now_us + limit->period_us;

    drop(log, count_until(log, later_of(now_us, last_at(log)) - limit->period_us));
    if (in_future) {
        int64_t total = last_total(log);
        log->count = 1;
        log->entries[log->first] = (struct log_entry){now_us, total};
    }
    return in_future;
}

static bool fits(const struct limit *limit, const union limit_state *state, int64_t now_us, int64_t cost)
{
    (void)now_us;
    return cost == 0 || last_total(&state->log) - state->log.base + cost <= limit->most;
}

static void take(const struct limit *limit, union limit_state *state, int64_t now_us, int64_t cost)
{
    struct sliding_log *log = &state->log;

    (void)limit;
    must(log->count < log->room);
    struct log_entry next = {later_of(now_us, last_at(log)), last_total(log) + cost};
    log->entries[(log->first + log->count) % log->room] = next;
    log->count++;
}

/* The first entry after which, once it is over, no more than `most` are in use. */
static uint32_t first_to_free(const struct sliding_log *log, int64_t most)
{
    uint32_t low = 0, high = log->count - 1;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (last_total(log) - entry(log, middle)->total <= most) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void report(const struct limit *limit, const union limit_state *state, int64_t now_us, int64_t cost,
                   struct limit_verdict *out)
{
    const struct sliding_log *log = &state->log;
    int64_t free = limit->most - (last_total(log) - log->base);

    out->remaining = free > 0 ? free / later_of(cost, 1) : 0;
    out->reset_us = log->count > 0 ? last_at(log) + limit->period_us - now_us : 0;
    if (!out->admitted && cost <= limit->most) {
        out->retry_after_us = entry(log, first_to_free(log, limit->most - cost))->at_us + limit->period_us - now_us;
    }
}

static int64_t idle_at(const struct limit *limit, const union limit_state *state)
{
    return state->log.count > 0 ? last_at(&state->log) + limit->period_us : 0;
}

const struct limit_ops sliding_log_ops = {settle, fits, take, report, idle_at};
