/*
 * A fleet in virtual time, as in sim.c, whose third party limits more than the rate: quotas in any time and by the calendar, requests in
 * flight, routes; all at once, and under faults.
 *
 *   limits               every scenario, then 60 random ones
 *   limits --runs N [--first S]   only random ones
 *
 * What must hold in each run: not one of the limits is exceeded. What Redis remembers of a quota is lost with its data, and of requests
 * in flight with a lease, so faults that lose those are only played where no promise is made for them (README).
 */
#include "fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S CLOCK_SECOND_US
#define MS CLOCK_MS_US

struct scenario {
    const char *name;
    struct fleet_conf conf;
    void (*faults)(struct fleet *fleet);
    double least_used;   /* share of the rate */
    unsigned least_route; /* requests of the route */
};

static void fault_crashes(struct fleet *fleet)
{
    for (int i = 0; i < 5; i++) {
        fleet_fault(fleet, (8 + i * 10) * S, FAULT_CRASH, (unsigned)i, 0);
        fleet_fault(fleet, (9 + i * 10) * S, FAULT_ADD, 0, 0);
    }
}
static void fault_losses(struct fleet *fleet)
{
    fleet_fault(fleet, 12 * S, FAULT_EMPTY, 0, 300 * MS);
    fleet_fault(fleet, 25 * S, FAULT_FLUSH, 0, 0);
    fleet_failover(fleet, 38 * S, 1 * S, 1 * S);
    fleet_failover(fleet, 50 * S, 100 * MS, 50 * MS);
}
static void fault_outages(struct fleet *fleet)
{
    fleet_fault(fleet, 10 * S, FAULT_DOWN, 0, 5 * S);
    fleet_fault(fleet, 20 * S, FAULT_CUT, 1, 6 * S);
    fleet_fault(fleet, 32 * S, FAULT_STALL, 0, 2 * S);
    fleet_fault(fleet, 40 * S, FAULT_FREEZE, 2, 3 * S);
    fleet_fault(fleet, 48 * S, FAULT_PAUSE, 0, 2 * S);
}

/* What a scenario does not say. */
static struct fleet_conf filled(struct fleet_conf conf)
{
    conf.replicas = conf.replicas > 0 ? conf.replicas : 3;
    conf.count = conf.count > 0 ? conf.count : 20;
    conf.period_us = S;
    conf.for_us = conf.for_us > 0 ? conf.for_us : 60 * S;
    conf.load = conf.load > 0 ? conf.load : 1.5;
    conf.delay_us = 500;
    conf.jitter_us = 100;
    conf.late_us = 300;
    conf.lease_us = conf.lease_us > 0 ? conf.lease_us : 10 * S;
    return conf;
}

static const struct scenario scenarios[] = {
    {"three-at-once", {.quotas = {{50, 5 * S, false, 0}}, .quotas_count = 1, .in_flight = 4, .service_us = 300 * MS},
     NULL, 0.47, 0},
    {"in-flight", {.in_flight = 3, .service_us = 300 * MS}, NULL, 0.55, 0},
    {"in-flight-crashes", {.in_flight = 5, .service_us = 400 * MS, .lease_us = 3 * S}, fault_crashes, 0.40, 0},
    {"in-flight-data-lost", {.in_flight = 4, .service_us = 300 * MS}, fault_losses, 0.35, 0},
    {"in-flight-outages", {.in_flight = 4, .service_us = 300 * MS}, fault_outages, 0.40, 0},
    {"rolling", {.quotas = {{100, 10 * S, false, 0}}, .quotas_count = 1}, NULL, 0.46, 0},
    {"rolling-outages", {.quotas = {{100, 10 * S, false, 0}}, .quotas_count = 1}, fault_outages, 0.40, 0},
    {"rolling-large", {.count = 2000, .for_us = 30 * S, .quotas = {{10500, 10 * S, false, 0}}, .quotas_count = 1}, NULL,
     0.45, 0},
    {"aligned", {.quotas = {{60, 6 * S, true, 0}}, .quotas_count = 1}, NULL, 0.45, 0},
    {"aligned-outages", {.quotas = {{60, 6 * S, true, 1800 * S}}, .quotas_count = 1}, fault_outages, 0.38, 0},
    {"two-quotas", {.quotas = {{40, 3 * S, false, 0}, {100, 12 * S, true, 0}}, .quotas_count = 2}, fault_crashes, 0.35,
     0},
    {"slow-route", {.route_count = 1, .load = 2.5}, NULL, 0.97, 55},
    {"fast-route", {.route_count = 15, .load = 2.5}, fault_crashes, 0.94, 400},
    {"all-of-it",
     {.route_count = 5, .quotas = {{60, 5 * S, false, 0}}, .quotas_count = 1, .in_flight = 5, .service_us = 200 * MS,
      .load = 2},
     fault_outages, 0.40, 60},
};
enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

static bool is_kept(const struct fleet_conf *conf, const struct fleet_result *r)
{
    bool kept = r->most <= conf->count && (conf->route_count == 0 || r->most_of_route <= conf->route_count) &&
                (conf->in_flight == 0 || r->most_in_flight <= conf->in_flight);

    for (unsigned i = 0; i < conf->quotas_count; i++) {
        kept = kept && r->most_of_quota[i] <= conf->quotas[i].count;
    }
    return kept;
}

static void tell(const char *name, const struct fleet_conf *conf, const struct fleet_result *r, bool good)
{
    printf("%-20s rate %u of %ld", name, r->most, (long)conf->count);
    for (unsigned i = 0; i < conf->quotas_count; i++) {
        printf("  quota %u of %ld", r->most_of_quota[i], (long)conf->quotas[i].count);
    }
    if (conf->in_flight > 0) {
        printf("  in flight %u of %ld", r->most_in_flight, (long)conf->in_flight);
    }
    if (conf->route_count > 0) {
        printf("  route %u of %ld, %u in all", r->most_of_route, (long)conf->route_count, r->of_route);
    }
    printf("  used %.1f%%  calls %.2f  released %lu  %s\n", r->used * 100, r->calls_per_release, (unsigned long)r->released,
           good ? "ok" : "FAILED");
}

static bool play(const struct scenario *scenario)
{
    struct fleet_conf conf = filled(scenario->conf);
    struct fleet *fleet = fleet_new(&conf, 11);

    if (scenario->faults != NULL) {
        scenario->faults(fleet);
    }
    struct fleet_result result = fleet_run(fleet);
    bool good = is_kept(&conf, &result) && result.used >= scenario->least_used &&
                result.of_route >= scenario->least_route;
    tell(scenario->name, &conf, &result, good);
    fleet_free(fleet);
    return good;
}

/* ---- random ones ---- */

static double pick(struct world *dice, const double *from, unsigned count)
{
    return from[world_random(dice) % count];
}
#define PICK(dice, ...) pick((dice), (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static struct fleet_conf random_conf(struct world *dice)
{
    struct fleet_conf conf = filled((struct fleet_conf){.replicas = 0});

    conf.replicas = (unsigned)PICK(dice, 1, 2, 3, 5, 8);
    conf.count = (int64_t)PICK(dice, 3, 10, 20, 50, 200);
    conf.load = PICK(dice, 0.5, 1.5, 2.5);
    conf.delay_us = PICK(dice, 250, 500, 2500);
    conf.spike_p = PICK(dice, 0, 0.01, 0.05);
    conf.spike_us = 200 * MS;
    conf.stall_p = PICK(dice, 0, 0.02);
    conf.stall_us = PICK(dice, 4 * MS, 100 * MS);
    conf.lost_p = PICK(dice, 0, 0, 0.002);
    conf.patience_us = (int64_t)PICK(dice, 0, 0, 3 * S);
    conf.in_flight = (int64_t)PICK(dice, 0, 1, 3, 8);
    conf.service_us = (int64_t)PICK(dice, 20 * MS, 300 * MS, 2 * S);
    conf.route_count = (int64_t)PICK(dice, 0, 0, 1, 8);
    conf.quotas_count = (unsigned)PICK(dice, 0, 1, 1, 2);
    for (unsigned i = 0; i < conf.quotas_count; i++) {
        int64_t period = (int64_t)PICK(dice, 2 * S, 5 * S, 13 * S) + i;
        double share = PICK(dice, 0.3, 0.6, 1.2);
        conf.quotas[i] = (struct quota_limit){.count = 1 + (int64_t)((double)conf.count * share * (double)period / (double)S),
                                              .period_us = period,
                                              .aligned = PICK(dice, 0, 0, 1) > 0,
                                              .offset_us = (int64_t)PICK(dice, 0, 3600 * S)};
    }
    return conf;
}

static void random_fault(struct fleet *fleet, struct world *dice, const struct fleet_conf *conf, int64_t *at)
{
    unsigned who = (unsigned)(world_random(dice) % conf->replicas);
    bool forgets = conf->quotas_count > 0; /* nothing is promised for quotas when data is lost */

    switch (world_random(dice) % 9) {
    case 0:
        fleet_fault(fleet, *at, FAULT_FREEZE, who, (int64_t)world_uniform(dice, 50 * MS, 4 * S));
        break;
    case 1:
        fleet_fault(fleet, *at, FAULT_CRASH, who, 0);
        fleet_fault(fleet, *at + (int64_t)world_uniform(dice, 0, 3 * S), FAULT_ADD, 0, 0);
        break;
    case 2:
        fleet_fault(fleet, *at, FAULT_CUT, who, (int64_t)world_uniform(dice, 500 * MS, 5 * S));
        break;
    case 3:
        fleet_fault(fleet, *at, FAULT_STALL, 0, (int64_t)world_uniform(dice, 50 * MS, 2 * S));
        break;
    case 4:
        fleet_fault(fleet, *at, FAULT_DOWN, 0, (int64_t)PICK(dice, 50 * MS, 300 * MS, 2 * S));
        *at += 2 * S;
        break;
    case 5:
        fleet_fault(fleet, *at, FAULT_PAUSE, who, (int64_t)world_uniform(dice, 200 * MS, 3 * S));
        break;
    case 6:
        fleet_fault(fleet, *at, FAULT_CANCEL_STORM, who, (int64_t)world_uniform(dice, 10, 100));
        break;
    case 7:
        if (!forgets) {
            fleet_failover(fleet, *at, (int64_t)PICK(dice, 50 * MS, 2 * S), (int64_t)PICK(dice, 1, 50 * MS, S));
            *at += 5 * S;
        }
        break;
    default:
        if (!forgets) {
            fleet_fault(fleet, *at, FAULT_EMPTY, 0, (int64_t)PICK(dice, 50 * MS, S));
            *at += 5 * S;
        }
        break;
    }
}

static bool fuzz(uint64_t first, unsigned runs)
{
    unsigned bad = 0;
    uint64_t released = 0;

    for (uint64_t seed = first; seed < first + runs; seed++) {
        struct world *dice = world_new(seed * 6133 + 5);
        struct fleet_conf conf = random_conf(dice);
        struct fleet *fleet = fleet_new(&conf, seed);
        for (int64_t at = 8 * S; at < 52 * S; at += (int64_t)world_uniform(dice, 200 * MS, 8 * S)) {
            random_fault(fleet, dice, &conf, &at);
        }
        struct fleet_result result = fleet_run(fleet);
        released += result.released;
        if (!is_kept(&conf, &result)) {
            char name[40];
            snprintf(name, sizeof(name), "--first %lu", (unsigned long)seed);
            tell(name, &conf, &result, false);
            bad++;
        }
        fleet_free(fleet);
        world_free(dice);
    }
    printf("%u random fault sequences with several limits, %lu releases, %u of them above a limit\n", runs,
           (unsigned long)released, bad);
    return bad == 0;
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
    const char *runs = option(argc, argv, "--runs"), *first = option(argc, argv, "--first");
    bool good = true;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; runs == NULL && i < SCENARIOS; i++) {
        good = play(&scenarios[i]) && good;
    }
    good = fuzz(first != NULL ? strtoull(first, NULL, 10) : 1, runs != NULL ? (unsigned)strtoul(runs, NULL, 10) : 60) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
