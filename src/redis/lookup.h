#ifndef SLUICE_SRC_REDIS_LOOKUP_H
#define SLUICE_SRC_REDIS_LOOKUP_H
/* The addresses of a host name, found by a thread, since getaddrinfo() blocks. */
#include "base/addr.h"
#include "base/loop.h"

struct lookup;

#define LOOKUP_WHY_BYTES 96

/* `on_done` is called once, from the loop, inside a libevent callback. NULL when there's no thread or descriptor to be
 * had. */
struct lookup *lookup_start(struct loop *loop, const char *host, uint16_t port, void (*on_done)(void *arg), void *arg);
bool lookup_is_done(const struct lookup *lookup);
/* How many addresses were stored in `out`; 0 when there are none, then `why` says it. Only once it is done. */
unsigned lookup_result(const struct lookup *lookup, struct addr *out, unsigned out_count, char why[LOOKUP_WHY_BYTES]);
/* At any time: a thread still at work is left to end by itself. */
void lookup_free(struct lookup *lookup);

#endif
