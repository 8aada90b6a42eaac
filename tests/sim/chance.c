#include "chance.h"

#include "base/must.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define S CLOCK_SECOND_US
#define MS CLOCK_MS_US

static double pick(struct world *dice, const double *from, unsigned count)
{
    return from[world_random(dice) % count];
}
#define PICK(dice, ...) pick((dice), (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

const char *fault_name(enum fault fault)
{
    static const char *const names[] = {
        [FAULT_FREEZE] = "freeze",     [FAULT_CRASH] = "crash",   [FAULT_ADD] = "join",
        [FAULT_CUT] = "cut off",       [FAULT_STALL] = "stall",   [FAULT_DOWN] = "down",
        [FAULT_EMPTY] = "empty",       [FAULT_FLUSH] = "flush",   [FAULT_EVICT] = "evict",
        [FAULT_STEP] = "clock step",   [FAULT_SLEW] = "slew",     [FAULT_PAUSE] = "pause",
        [FAULT_WORD] = "429",          [FAULT_FAILOVER] = "failover",
        [FAULT_CANCEL_STORM] = "hang up"};
    return names[fault];
}

/* ---- from a seed ---- */

static struct fleet_conf random_conf(struct world *dice)
{
    struct fleet_conf conf = {.period_us = S, .late_us = 300};

    conf.replicas = (unsigned)PICK(dice, 1, 2, 3, 3, 5, 8, 12);
    conf.count = (int64_t)PICK(dice, 1, 3, 10, 10, 20, 40, 200, 1000, 5000);
    conf.for_us = conf.count >= 1000 ? 12 * S : conf.count >= 200 ? 25 * S : 60 * S;
    conf.is_gap = PICK(dice, 0, 0, 0, 0, 1) > 0 && conf.count <= 40;
    conf.load = PICK(dice, 0.3, 0.9, 1.5, 2);
    conf.delay_us = PICK(dice, 250, 500, 2500);
    conf.jitter_us = PICK(dice, 100, 1000);
    conf.spike_p = PICK(dice, 0, 0.01, 0.05);
    conf.spike_us = 200 * MS;
    conf.stall_p = PICK(dice, 0, 0.01, 0.05);
    conf.stall_us = PICK(dice, 4 * MS, 30 * MS, 200 * MS);
    conf.patience_us = (int64_t)PICK(dice, 0, S, 5 * S);
    conf.dial_us = (int64_t)PICK(dice, 0, 0, 5 * MS, 100 * MS);
    conf.lost_p = PICK(dice, 0, 0, 0.002);
    conf.hears = PICK(dice, 0, 1) > 0;
    conf.mode = (enum on_redis_down)PICK(dice, REDIS_DOWN_HOLD, REDIS_DOWN_HOLD, REDIS_DOWN_REJECT, REDIS_DOWN_RESERVE);
    if (conf.mode == REDIS_DOWN_RESERVE) {
        conf.permits = 1;
        conf.replicas_max = 48;
        conf.count = conf.count > 48 ? conf.count : 60;
    }
    return conf;
}

static void add(struct schedule *schedule, int64_t at_us, enum fault fault, unsigned who, int64_t amount, int64_t lost_us)
{
    if (schedule->count < MISHAPS_MOST && at_us < schedule->conf.for_us) {
        schedule->mishaps[schedule->count++] = (struct mishap){at_us, fault, who, amount, lost_us};
    }
}

static int64_t between(struct world *dice, int64_t least, int64_t most)
{
    return (int64_t)world_uniform(dice, (double)least, (double)most);
}

/* A step alone; inside an answer that takes long anyway; before others could notice it seen by a replica that has no past; more than once. */
static void roll_step(struct schedule *schedule, struct world *dice, int64_t at)
{
    int64_t by = (int64_t)(PICK(dice, -1, 1, 1) * PICK(dice, 2 * MS, 20 * MS, 100 * MS, 500 * MS, 1.5 * S, 5 * S));

    if (world_random(dice) % 2 == 0) {
        int64_t stall = between(dice, 100 * MS, 900 * MS);
        by = world_random(dice) % 3 > 0 ? -between(dice, stall / 5, stall) : by; /* an answer as long as that hides it */
        add(schedule, at - stall / 2, FAULT_STALL, 0, stall, 0);
    }
    add(schedule, at, FAULT_STEP, 0, by, 0);
    if (schedule->conf.replicas > 1 && world_random(dice) % 3 == 0) {
        add(schedule, at + between(dice, 0, S), FAULT_ADD, 0, 0, 0);
    }
}

/* Servers come and go one after the other: `*at` is when the next thing may happen. */
static void roll_server(struct schedule *schedule, struct world *dice, int64_t *at)
{
    int64_t down = (int64_t)PICK(dice, 50 * MS, 300 * MS, 2 * S, 8 * S);

    switch (world_random(dice) % 7) {
    case 0:
        add(schedule, *at, FAULT_STALL, 0, between(dice, 50 * MS, 2 * S), 0);
        break;
    case 1:
    case 2:
        add(schedule, *at, FAULT_FAILOVER, 0, down, (int64_t)PICK(dice, 1, 50 * MS, 300 * MS, S, 2 * S));
        *at += down;
        break;
    case 3:
        down = (int64_t)PICK(dice, 50 * MS, 300 * MS, 2 * S);
        add(schedule, *at, world_random(dice) % 2 == 0 ? FAULT_EMPTY : FAULT_DOWN, 0, down, 0);
        *at += down;
        break;
    case 4:
        roll_step(schedule, dice, *at);
        break;
    case 5:
        add(schedule, *at, FAULT_SLEW, 0, (int64_t)PICK(dice, -500, -100, 100, 500), 0);
        break;
    default:
        /* one key gone alone is only made good where one process has seen all that was granted */
        add(schedule, *at, schedule->conf.replicas == 1 && world_random(dice) % 2 == 0 ? FAULT_EVICT : FAULT_FLUSH, 0, 0, 0);
        break;
    }
}

static void roll_replica(struct schedule *schedule, struct world *dice, int64_t at)
{
    unsigned who = (unsigned)(world_random(dice) % schedule->conf.replicas);

    switch (world_random(dice) % 7) {
    case 0:
    case 1:
        add(schedule, at, FAULT_FREEZE, who, between(dice, 50 * MS, 4 * S), 0);
        break;
    case 2:
        if (schedule->conf.replicas > 1) {
            add(schedule, at, FAULT_CRASH, who, 0, 0);
            add(schedule, at + between(dice, 0, 3 * S), FAULT_ADD, 0, 0, 0);
        }
        break;
    case 3:
        add(schedule, at, FAULT_CUT, who, between(dice, 500 * MS, 25 * S), 0);
        break;
    case 4:
        add(schedule, at, FAULT_PAUSE, who, between(dice, 200 * MS, 3 * S), 0);
        break;
    case 5:
        add(schedule, at, FAULT_WORD, who, between(dice, 0, 3 * S), 0);
        break;
    default:
        add(schedule, at, FAULT_CANCEL_STORM, who, between(dice, 10, 100), 0);
        break;
    }
}

void schedule_roll(struct schedule *schedule, uint64_t seed)
{
    struct world *dice = world_new(seed * 7919 + 17);

    *schedule = (struct schedule){.seed = seed, .conf = random_conf(dice)};
    int64_t length = schedule->conf.for_us;
    double longest = (double)length / 10;
    for (int64_t at = length / 8; at < length - length / 8; at += (int64_t)world_uniform(dice, 200 * MS, longest)) {
        if (world_random(dice) % 2 == 0) {
            roll_server(schedule, dice, &at);
        } else {
            roll_replica(schedule, dice, at);
        }
    }
    world_free(dice);
}

void schedule_calm(struct schedule *schedule)
{
    struct fleet_conf *conf = &schedule->conf;

    schedule->count = 0;
    conf->spike_p = conf->stall_p = conf->lost_p = 0;
    conf->patience_us = conf->dial_us = 0;
    conf->hears = false;
    conf->load = 1.5;
    conf->mode = REDIS_DOWN_HOLD;
    conf->permits = 0;
}

/* ---- playing ---- */

struct fleet_result schedule_play(const struct schedule *schedule)
{
    struct fleet *fleet = fleet_new(&schedule->conf, schedule->seed);

    for (unsigned i = 0; i < schedule->count; i++) {
        const struct mishap *m = &schedule->mishaps[i];
        if (m->fault == FAULT_FAILOVER) {
            fleet_failover(fleet, m->at_us, m->amount, m->lost_us);
        } else {
            fleet_fault(fleet, m->at_us, m->fault, m->who, m->amount);
        }
    }
    struct fleet_result result = fleet_run(fleet);
    fleet_free(fleet);
    return result;
}

/* ---- shrinking ---- */

static bool breaks(const struct schedule *schedule, unsigned *plays)
{
    if (*plays == 0) {
        return false;
    }
    --*plays;
    return schedule_play(schedule).most > (unsigned)schedule->conf.count;
}

/* Without a run of mishaps, if it breaks without them, too. */
static bool leave_out(struct schedule *schedule, unsigned from, unsigned count, unsigned *plays)
{
    struct schedule fewer = *schedule;

    memmove(&fewer.mishaps[from], &fewer.mishaps[from + count], (fewer.count - from - count) * sizeof(fewer.mishaps[0]));
    fewer.count -= count;
    if (!breaks(&fewer, plays)) {
        return false;
    }
    *schedule = fewer;
    return true;
}

static void simplify(struct schedule *schedule, unsigned *plays)
{
    for (int what = 0; what < 8; what++) {
        struct schedule simpler = *schedule;
        struct fleet_conf *conf = &simpler.conf;
        switch (what) {
        case 0: conf->spike_p = 0; break;
        case 1: conf->stall_p = 0; break;
        case 2: conf->lost_p = 0; break;
        case 3: conf->patience_us = 0; break;
        case 4: conf->dial_us = 0; break;
        case 5: conf->hears = false; break;
        case 6: conf->replicas = conf->replicas > 2 ? 2 : conf->replicas; break;
        default: conf->jitter_us = 100; break;
        }
        if (breaks(&simpler, plays)) {
            *schedule = simpler;
        }
    }
}

void schedule_shrink(struct schedule *schedule, unsigned plays)
{
    for (unsigned run = schedule->count; run > 0; run /= 2) {
        for (unsigned from = 0; from + run <= schedule->count;) {
            from += leave_out(schedule, from, run, &plays) ? 0 : run;
        }
    }
    simplify(schedule, &plays);
    for (unsigned from = 0; from < schedule->count;) {
        from += leave_out(schedule, from, 1, &plays) ? 0 : 1;
    }
}

void schedule_print(const struct schedule *schedule)
{
    const struct fleet_conf *c = &schedule->conf;

    printf("seed %" PRIu64 ": %u replicas, %" PRId64 " per %.1f s%s, load %.1f, to Redis %.2f ms +- %.1f, spikes %.0f%%, lost %.1f%%, "
           "late loops %.0f%% of %.0f ms, dialling %.0f ms, patience %.1f s, without Redis %s%s\n",
           schedule->seed, c->replicas, c->count, (double)c->period_us / S, c->is_gap ? " by gaps" : "", c->load,
           c->delay_us / MS, c->jitter_us / MS, c->spike_p * 100, c->lost_p * 100, c->stall_p * 100, c->stall_us / MS,
           (double)c->dial_us / MS, (double)c->patience_us / S,
           c->mode == REDIS_DOWN_RESERVE ? "reserve" : c->mode == REDIS_DOWN_REJECT ? "reject" : "hold",
           c->hears ? ", feedback on" : "");
    for (unsigned i = 0; i < schedule->count; i++) {
        const struct mishap *m = &schedule->mishaps[i];
        printf("  %8.3f s  %-10s", (double)m->at_us / S, fault_name(m->fault));
        if (m->fault == FAULT_FREEZE || m->fault == FAULT_CRASH || m->fault == FAULT_CUT || m->fault >= FAULT_PAUSE) {
            printf("  replica %u", m->who + 1);
        }
        if (m->fault == FAULT_CANCEL_STORM) {
            printf("  %" PRId64 " %%", m->amount);
        } else if (m->fault == FAULT_SLEW) {
            printf("  %" PRId64 " ppm", m->amount);
        } else if (m->amount != 0) {
            printf("  %.3f s", (double)m->amount / S);
        }
        printf(m->fault == FAULT_FAILOVER ? "  without the last %.3f s\n" : "\n", (double)m->lost_us / S);
    }
}
