#ifndef SLUICE_UPSTREAM_POOL_H
#define SLUICE_UPSTREAM_POOL_H
/* For tests: upstreams whose names are resolved by `resolve`. */
#include "upstream/upstream.h"
#include "workers.h"

struct upstreams *pool_upstreams_new(struct loop *loop, const struct upstreams_conf *conf, workers_resolve resolve);
/* Pools that exist now, and connections kept idle in all of them. */
unsigned pool_count(const struct upstreams *upstreams);
unsigned pool_idle_count(const struct upstreams *upstreams);

#endif
