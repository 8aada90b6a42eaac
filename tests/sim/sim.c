/*
 * A fleet in virtual time: N replicas, each with the real outbound of this program, a loop and a link of its own,
 * around one fake Redis that runs the real scripts. Releases arrive at one third party, which counts them.
 *
 *   sim                    every scenario, an hour of steady traffic, RUNS random fault sequences, and the controls
 *   sim --scenario NAME    one of them
 *   sim --seed N           one random fault sequence again
 *   sim --runs N [--first S]  N of them
 *
 * What must hold in each run: no half-open window of the third party's clock has more than the limit. Controls take one
 * guard away and must break it, or the check itself would prove nothing.
 */
#include "fleet.h"

#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S CLOCK_SECOND_US
#define MS CLOCK_MS_US

struct scenario {
    const char *name;
    struct fleet_conf conf;
    void (*faults)(struct fleet *fleet);
    double least_used; /* share of the limit that must be used */
};

/* ---- scenarios ---- */

static void fault_freeze(struct fleet *fleet)
{
    for (int64_t at = 15; at <= 45; at += 10) {
        fleet_fault(fleet, at * S, FAULT_FREEZE, 0, 3 * S);
    }
}
static void fault_freeze_all(struct fleet *fleet)
{
    for (unsigned i = 0; i < 3; i++) {
        fleet_fault(fleet, 20 * S, FAULT_FREEZE, i, 3 * S);
    }
}
static void fault_crash(struct fleet *fleet)
{
    fleet_fault(fleet, 20 * S, FAULT_CRASH, 0, 0);
}
static void fault_scale(struct fleet *fleet)
{
    for (unsigned i = 0; i < 3; i++) {
        fleet_fault(fleet, 20 * S + i * 10 * MS, FAULT_ADD, 0, 0);
    }
    fleet_fault(fleet, 40 * S, FAULT_CRASH, 0, 0);
    fleet_fault(fleet, 40 * S, FAULT_CRASH, 1, 0);
    fleet_fault(fleet, 40 * S, FAULT_CRASH, 3, 0);
    fleet_fault(fleet, 40 * S, FAULT_CRASH, 4, 0);
}
static void fault_empty(struct fleet *fleet)
{
    fleet_fault(fleet, 20 * S, FAULT_EMPTY, 0, 100 * MS);
}
static void fault_flush(struct fleet *fleet)
{
    fleet_fault(fleet, 20 * S, FAULT_FLUSH, 0, 0);
}
static void fault_down(struct fleet *fleet)
{
    fleet_fault(fleet, 20 * S, FAULT_DOWN, 0, 10 * S);
}
static void fault_failover(struct fleet *fleet)
{
    fleet_failover(fleet, 20 * S, 100 * MS, 1 * S);
    fleet_failover(fleet, 40 * S, 1 * S, 50 * MS);
}
static void fault_steps(struct fleet *fleet)
{
    static const int64_t by[] = {5 * S, -5 * S, 20 * MS, -20 * MS, 2 * MS, 100 * MS};
    for (int i = 0; i < 6; i++) {
        fleet_fault(fleet, (10 + i * 8) * S, FAULT_STEP, 0, by[i]);
    }
}
static void fault_stalls(struct fleet *fleet)
{
    for (int64_t at = 5; at < 58; at += 3) {
        fleet_fault(fleet, at * S, FAULT_STALL, 0, 250 * MS);
    }
    fleet_fault(fleet, 31 * S + 500 * MS, FAULT_STALL, 0, 2 * S);
}
static void fault_cut(struct fleet *fleet)
{
    fleet_fault(fleet, 20 * S, FAULT_CUT, 0, 20 * S);
}
static void fault_slew(struct fleet *fleet)
{
    fleet_fault(fleet, 10 * S, FAULT_SLEW, 0, 500);
}
static void fault_pause(struct fleet *fleet)
{
    fleet_fault(fleet, 20 * S, FAULT_PAUSE, 1, 5 * S);
}
static void fault_words(struct fleet *fleet)
{
    fleet_fault(fleet, 15 * S, FAULT_WORD, 1, 3 * S);
    fleet_fault(fleet, 30 * S, FAULT_WORD, 2, 0);
    fleet_fault(fleet, 31 * S + 200 * MS, FAULT_WORD, 0, 0);
}
static void fault_storms(struct fleet *fleet)
{
    for (int64_t at = 5; at < 58; at += 4) {
        fleet_fault(fleet, at * S, FAULT_CANCEL_STORM, (unsigned)at % 3, 80);
    }
}

/* What a scenario does not say. */
static struct fleet_conf filled(struct fleet_conf conf)
{
    conf.replicas = conf.replicas > 0 ? conf.replicas : 3;
    conf.count = conf.count > 0 ? conf.count : 10;
    conf.period_us = conf.period_us > 0 ? conf.period_us : S;
    conf.for_us = conf.for_us > 0 ? conf.for_us : 60 * S;
    conf.load = conf.load > 0 ? conf.load : 1.5;
    conf.delay_us = conf.delay_us > 0 ? conf.delay_us : 500;
    conf.jitter_us = conf.jitter_us > 0 ? conf.jitter_us : 100;
    conf.late_us = conf.late_us > 0 ? conf.late_us : 300;
    return conf;
}

static const struct scenario scenarios[] = {
    {"steady", {.replicas = 3}, NULL, 0.98},
    {"one-hour", {.for_us = 3600 * S}, NULL, 0.98},
    {"ten-replicas", {.replicas = 10}, NULL, 0.97},
    {"fast-100", {.count = 100}, NULL, 0.97},
    {"fast-1000", {.count = 1000, .for_us = 15 * S}, NULL, 0.95},
    {"slow", {.count = 1, .for_us = 120 * S}, NULL, 0.96},
    {"very-slow", {.count = 1, .period_us = 10 * S, .for_us = 600 * S}, NULL, 0.95},
    {"hourly", {.count = 5000, .period_us = 3600 * S, .for_us = 3600 * S}, NULL, 0.98},
    {"idle", {.load = 0.05, .for_us = 400 * S}, NULL, 0.03},
    {"cold-dial", {.dial_us = 120 * MS}, NULL, 0.95},
    {"gap", {.is_gap = true}, NULL, 0.84},
    {"impatient", {.load = 3, .patience_us = 2 * S}, NULL, 0.97},
    {"cancel-storms", {.load = 2}, fault_storms, 0.97},
    {"rtt-spikes", {.delay_us = 2500, .jitter_us = 1000, .spike_p = 0.02, .spike_us = 150 * MS}, NULL, 0.93},
    {"lost-replies", {.lost_p = 0.01}, NULL, 0.90},
    {"late-loops", {.stall_p = 0.05, .stall_us = 60 * MS}, NULL, 0.90},
    {"freeze", {.replicas = 3}, fault_freeze, 0.95},
    {"freeze-all", {.replicas = 3}, fault_freeze_all, 0.90},
    {"crash", {.replicas = 3}, fault_crash, 0.97},
    {"scale", {.replicas = 3}, fault_scale, 0.95},
    {"redis-empty", {.replicas = 3}, fault_empty, 0.94},
    {"redis-flushed", {.replicas = 3}, fault_flush, 0.94},
    {"redis-down", {.replicas = 3}, fault_down, 0.75},
    {"redis-down-reserve", {.permits = 1, .replicas_max = 3}, fault_down, 0.60},
    {"redis-failover", {.replicas = 3}, fault_failover, 0.90},
    {"clock-steps", {.replicas = 3}, fault_steps, 0.80},
    {"clock-slew", {.replicas = 3}, fault_slew, 0.97},
    {"redis-stalls", {.replicas = 3}, fault_stalls, 0.85},
    {"cut-off", {.replicas = 3}, fault_cut, 0.95},
    {"cut-off-reserve", {.permits = 1, .replicas_max = 3}, fault_cut, 0.60},
    {"pause", {.replicas = 3}, fault_pause, 0.85},
    {"words", {.replicas = 3, .hears = true}, fault_words, 0.70},
};
enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

static bool tell(const char *what, const struct fleet_result *r, unsigned limit, double least_used)
{
    bool good = r->most <= limit && r->used >= least_used;
    printf("%-22s most %u of %u  used %5.1f%%  gap %6.1f ms  wait %5.2f s  calls %.2f  late %lu  wasted %lu  released "
           "%lu  %s\n",
           what, r->most, limit, r->used * 100, (double)r->least_gap_us / 1000, r->mean_wait_s, r->calls_per_release,
           (unsigned long)r->late, (unsigned long)r->wasted, (unsigned long)r->released, good ? "ok" : "FAILED");
    return good;
}

static bool play(const struct scenario *scenario)
{
    struct fleet_conf conf = filled(scenario->conf);
    struct fleet *fleet = fleet_new(&conf, 7);

    if (scenario->faults != NULL) {
        scenario->faults(fleet);
    }
    struct fleet_result result = fleet_run(fleet);
    bool good = tell(scenario->name, &result, (unsigned)conf.count, scenario->least_used);
    if (conf.is_gap && result.least_gap_us < conf.period_us / conf.count) {
        printf("  a gap below the period's share\n");
        good = false;
    }
    fleet_free(fleet);
    return good;
}

/* ---- random fault sequences ---- */

static double pick(struct world *world, const double *from, unsigned count)
{
    return from[world_random(world) % count];
}
#define PICK(world, ...) pick((world), (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static struct fleet_conf random_conf(struct world *dice)
{
    struct fleet_conf conf = filled((struct fleet_conf){0});

    conf.replicas = (unsigned)PICK(dice, 2, 3, 5, 8);
    conf.count = (int64_t)PICK(dice, 1, 3, 10, 10, 40, 200);
    conf.for_us = 60 * S;
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
    if (PICK(dice, 0, 0, 0, 1) > 0) {
        conf.permits = 1;
        conf.replicas_max = 16;
        conf.count = conf.count > 16 ? conf.count : 20;
    }
    return conf;
}

static void random_fault(struct fleet *fleet, struct world *dice, unsigned replicas, int64_t *at)
{
    unsigned who = (unsigned)(world_random(dice) % replicas);

    switch (world_random(dice) % 12) {
    case 0:
    case 1:
        fleet_fault(fleet, *at, FAULT_FREEZE, who, (int64_t)world_uniform(dice, 50 * MS, 4 * S));
        break;
    case 2:
        fleet_fault(fleet, *at, FAULT_CRASH, who, 0);
        fleet_fault(fleet, *at + (int64_t)world_uniform(dice, 0, 3 * S), FAULT_ADD, 0, 0);
        break;
    case 3:
        fleet_fault(fleet, *at, FAULT_CUT, who, (int64_t)world_uniform(dice, 500 * MS, 25 * S));
        break;
    case 4:
        fleet_fault(fleet, *at, FAULT_STALL, 0, (int64_t)world_uniform(dice, 50 * MS, 2 * S));
        break;
    case 5:
    case 6: {
        int64_t down = (int64_t)PICK(dice, 50 * MS, 300 * MS, 2 * S, 8 * S);
        fleet_failover(fleet, *at, down, (int64_t)PICK(dice, 1, 50 * MS, 300 * MS, S, 2 * S));
        *at += down;
        break;
    }
    case 7:
        fleet_fault(fleet, *at, FAULT_EMPTY, 0, (int64_t)PICK(dice, 50 * MS, 300 * MS, 2 * S));
        *at += 2 * S;
        break;
    case 8:
        fleet_fault(fleet, *at, FAULT_STEP, 0,
                    (int64_t)(PICK(dice, -1, 1) * PICK(dice, 2 * MS, 20 * MS, 100 * MS, 500 * MS, 1.5 * S, 5 * S)));
        break;
    case 9:
        fleet_fault(fleet, *at, world_random(dice) % 2 == 0 ? FAULT_PAUSE : FAULT_WORD, who,
                    (int64_t)world_uniform(dice, 200 * MS, 3 * S));
        break;
    case 10:
        fleet_fault(fleet, *at, FAULT_CANCEL_STORM, who, (int64_t)world_uniform(dice, 10, 100));
        break;
    default:
        fleet_fault(fleet, *at, FAULT_FLUSH, 0, 0);
        break;
    }
}

static struct fleet_result random_run(uint64_t seed, unsigned *limit, enum fleet_control control)
{
    struct world *dice = world_new(seed * 7919 + 17);
    struct fleet_conf conf = random_conf(dice);
    conf.control = control;
    struct fleet *fleet = fleet_new(&conf, seed);

    for (int64_t at = 8 * S; at < 52 * S; at += (int64_t)world_uniform(dice, 200 * MS, 6 * S)) {
        random_fault(fleet, dice, conf.replicas, &at);
    }
    *limit = (unsigned)conf.count;
    struct fleet_result result = fleet_run(fleet);
    fleet_free(fleet);
    world_free(dice);
    return result;
}

static bool fuzz(uint64_t first, unsigned runs, bool is_verbose)
{
    unsigned bad = 0;
    uint64_t released = 0;

    for (uint64_t seed = first; seed < first + runs; seed++) {
        unsigned limit;
        struct fleet_result result = random_run(seed, &limit, CONTROL_NONE);
        released += result.released;
        if (result.most > limit || is_verbose) {
            char name[40];
            snprintf(name, sizeof(name), "random --seed %lu", (unsigned long)seed);
            bad += !tell(name, &result, limit, 0);
        }
    }
    printf("%u random fault sequences, %lu releases, %u of them with a window above its limit\n", runs,
           (unsigned long)released, bad);
    return bad == 0;
}

/* With a guard taken away the same sequences must break the limit somewhere. */
static bool controls(unsigned runs)
{
    static const struct {
        enum fleet_control control;
        const char *name;
    } all[] = {{CONTROL_RUN_ID, "restarts can't be told"},
               {CONTROL_SPACING, "spacing W / N"},
               {CONTROL_STOPPED_CLOCK, "clock stops when frozen"}};
    bool good = true;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        unsigned broken = 0;
        for (uint64_t seed = 1; seed <= runs; seed++) {
            unsigned limit;
            broken += random_run(seed, &limit, all[i].control).most > limit;
        }
        printf("control, %-24s %u of %u sequences above the limit%s\n", all[i].name, broken, runs,
               broken > 0 ? "" : "  FAILED");
        good = good && broken > 0;
    }
    return good;
}

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *name = option(argc, argv, "--scenario"), *seed = option(argc, argv, "--seed");
    const char *runs = option(argc, argv, "--runs"), *first = option(argc, argv, "--first");
    bool good = true;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (seed != NULL) {
        return fuzz(strtoull(seed, NULL, 10), 1, true) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (runs != NULL) {
        return fuzz(first ? strtoull(first, NULL, 10) : 1, (unsigned)strtoul(runs, NULL, 10), false) ? EXIT_SUCCESS
                                                                                                     : EXIT_FAILURE;
    }
    for (int i = 0; i < SCENARIOS; i++) {
        if (name == NULL || strcmp(name, scenarios[i].name) == 0) {
            good = play(&scenarios[i]) && good;
        }
    }
    if (name == NULL) {
        good = fuzz(1, 100, false) && good;
        good = controls(40) && good;
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
