#ifndef SLUICE_PROXY_EXCHANGE_FSM_H
#define SLUICE_PROXY_EXCHANGE_FSM_H
#include "proxy/exchange.h"

/* A caller for an accepted descriptor; `on_closed` comes once, when it is gone, and frees it. */
struct caller *caller_new(struct proxy_env *env, int fd, const struct addr *peer, const struct addr *local,
                          void (*on_closed)(struct caller *caller));
/* Accepted only to be told that there are too many. */
void caller_refuse(struct caller *caller);
/* Drain: its connection ends with the exchange under way, or the next one, if that begins within a second. */
void caller_drain(struct caller *caller);
/* The drain's time is up: a waiting exchange gets 503, everything else is broken off. */
void caller_stop(struct caller *caller);

#endif
