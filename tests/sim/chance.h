#ifndef SLUICE_SIM_CHANCE_H
#define SLUICE_SIM_CHANCE_H
/* What goes wrong in a run, as a list: made from a seed, played, shrunk to what is needed to break the limit, printed. */
#include "fleet.h"

enum { MISHAPS_MOST = 400, FAULTS = FAULT_CANCEL_STORM + 2 };
/* A server that lacks the last `lost_us` of writes takes over; in the list like a fault of its own. */
#define FAULT_FAILOVER ((enum fault)(FAULT_CANCEL_STORM + 1))

struct mishap {
    int64_t at_us;
    enum fault fault;
    unsigned who;
    int64_t amount, lost_us;
};
struct schedule {
    uint64_t seed;
    struct fleet_conf conf;
    struct mishap mishaps[MISHAPS_MOST];
    unsigned count;
};

/* Settings and faults of that seed. `is_calm`: the same settings without any fault, late loop or lost message. */
void schedule_roll(struct schedule *schedule, uint64_t seed);
void schedule_calm(struct schedule *schedule);
struct fleet_result schedule_play(const struct schedule *schedule);
/* Leaves out whatever is not needed for a window above the limit; plays at most `plays` times. */
void schedule_shrink(struct schedule *schedule, unsigned plays);
/* As a person would tell it. */
void schedule_print(const struct schedule *schedule);
const char *fault_name(enum fault fault);

#endif
