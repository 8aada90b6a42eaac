#ifndef SLUICE_SIM_LOOP_VIRTUAL_H
#define SLUICE_SIM_LOOP_VIRTUAL_H
/*
 * Another implementation of base/loop.h: virtual time, no descriptors. Many loops share one world; each reads the
 * world's time through a clock of its own (offset, drift), can be late, frozen, or stopped for good.
 */
#include "base/loop.h"

struct world;

struct world *world_new(uint64_t seed);
/* All loops must be freed. */
void world_free(struct world *world);
int64_t world_now(const struct world *world);
void world_run(struct world *world, int64_t for_us);
/* Calls `run` at that time of the world (now, when it has passed). */
void world_at(struct world *world, int64_t at_us, void (*run)(void *arg), void *arg);
/* Random numbers, the same for the same seed. */
uint64_t world_random(struct world *world);
double world_uniform(struct world *world, double least, double most);
double world_exponential(struct world *world, double mean);

/* A clock that shows `offset_us` when the world's shows 0 and gains `drift_ppm`. */
struct loop *world_loop(struct world *world, int64_t offset_us, int drift_ppm);
struct world *loop_world(const struct loop *loop);
/* Timers fire late by an exponential time of that mean, and with probability `stall_p` by up to `stall_us` more. */
void loop_set_lateness(struct loop *loop, double mean_us, double stall_p, double stall_us);
/* Runs nothing until then; its clock goes on. */
void loop_freeze(struct loop *loop, int64_t for_us);
/* Its clock stands still that long from now on, as in a stopped virtual machine. */
void loop_skip_clock(struct loop *loop, int64_t by_us);
/* Never runs anything again; timers and defers are dropped. */
void loop_kill(struct loop *loop);
/* From outside the loop (a message came in): runs `run` in it, at once or when it is no longer frozen. Not run when
 * killed. */
void loop_deliver(struct loop *loop, void (*run)(void *arg), void *arg);

#endif
