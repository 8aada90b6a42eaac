/*
 * A fleet in virtual time: N replicas, each with the real outbound of this program, a loop and a link of its own,
 * around one fake Redis that runs the real scripts. Releases arrive at one third party, which counts them.
 *
 *   sim                       every scenario
 *   sim --scenario NAME       one of them
 *   sim --runs N [--first S]  N random fault sequences; one that breaks the limit is shrunk to the least that does
 *   sim --seed N              one of those again
 *   sim --without N           for a program that lacks a guard: at most N, until one breaks the limit
 *
 * What must hold in each run: no half-open window of the third party's clock has more than the limit. Programs that
 * lack a guard (guards.sh) must break it, or the check itself would prove nothing.
 */
#include "base/must.h"
#include "chance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S CLOCK_SECOND_US
#define MS CLOCK_MS_US
enum { SHRINKS = 300, CALM_EVERY = 20 };

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

struct sums {
    uint64_t released, faults[FAULTS];
    double used, used_calm;
    unsigned bad;
};

static void judge(struct schedule *schedule, const struct fleet_result *result, struct sums *sums)
{
    char name[40];

    sums->released += result->released;
    sums->used += result->used;
    for (unsigned i = 0; i < schedule->count; i++) {
        sums->faults[schedule->mishaps[i].fault]++;
    }
    if (result->most <= (unsigned)schedule->conf.count) {
        return;
    }
    sums->bad++;
    snprintf(name, sizeof(name), "random --seed %lu", (unsigned long)schedule->seed);
    tell(name, result, (unsigned)schedule->conf.count, 0);
    schedule_shrink(schedule, SHRINKS);
    printf("shrunk to:\n");
    schedule_print(schedule);
}

/* Every so many runs the same fleet once more with nothing wrong: what faults cost, and that the rate is used at all. */
static bool fuzz(uint64_t first, unsigned runs)
{
    struct sums sums = {0};
    static struct schedule schedule;
    unsigned calm = 0;

    for (uint64_t seed = first; seed < first + runs; seed++) {
        schedule_roll(&schedule, seed);
        struct fleet_result result = schedule_play(&schedule);
        judge(&schedule, &result, &sums);
        if (seed % CALM_EVERY == 0) {
            schedule_calm(&schedule);
            result = schedule_play(&schedule);
            sums.bad += result.most > (unsigned)schedule.conf.count;
            sums.used_calm += result.used;
            calm++;
        }
    }
    printf("%u random fault sequences from seed %lu, %lu releases, %u with a window above its limit; %.1f %% of the rate used", runs,
           (unsigned long)first, (unsigned long)sums.released, sums.bad, sums.used * 100 / runs);
    if (calm > 0) {
        printf(", %.1f %% with nothing wrong and a backlog", sums.used_calm * 100 / calm);
    }
    printf("\nfaults:");
    for (int fault = 0; fault < FAULTS; fault++) {
        printf("%s %s %lu", fault > 0 ? "," : "", fault_name((enum fault)fault), (unsigned long)sums.faults[fault]);
    }
    printf("\n");
    return sums.bad == 0;
}

static int repeat(uint64_t seed)
{
    static struct schedule schedule;

    schedule_roll(&schedule, seed);
    schedule_print(&schedule);
    struct fleet_result result = schedule_play(&schedule);
    return tell("that seed", &result, (unsigned)schedule.conf.count, 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* For a program that lacks one of its guards: how many runs until a window is above its limit. */
static int break_it(unsigned runs)
{
    static struct schedule schedule;

    for (uint64_t seed = 1; seed <= runs; seed++) {
        schedule_roll(&schedule, seed);
        unsigned most = schedule_play(&schedule).most;
        if (most > (unsigned)schedule.conf.count) {
            printf("noticed in run %lu: %u in a window of %ld\n", (unsigned long)seed, most, (long)schedule.conf.count);
            return EXIT_SUCCESS;
        }
    }
    printf("NOT NOTICED in %u runs\n", runs);
    return EXIT_FAILURE;
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
    const char *broken = option(argc, argv, "--without");
    bool good = true;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (seed != NULL) {
        return repeat(strtoull(seed, NULL, 10));
    }
    if (broken != NULL) {
        return break_it((unsigned)strtoul(broken, NULL, 10));
    }
    if (runs != NULL) {
        return fuzz(first ? strtoull(first, NULL, 10) : 1, (unsigned)strtoul(runs, NULL, 10)) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    for (int i = 0; i < SCENARIOS; i++) {
        if (name == NULL || strcmp(name, scenarios[i].name) == 0) {
            good = play(&scenarios[i]) && good;
        }
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
