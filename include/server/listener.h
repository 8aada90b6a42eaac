#ifndef SLUICE_SERVER_LISTENER_H
#define SLUICE_SERVER_LISTENER_H
/* A listening socket. Out of descriptors it rests for 50 ms instead of spinning (the kernel's backlog holds callers
 * meanwhile). */
#include "base/addr.h"
#include "base/err.h"
#include "base/loop.h"

struct listener;

/* Binds and listens; NULL and a line in `err` otherwise. `on_accept` owns the descriptor (non-blocking, close-on-exec).
 */
struct listener *listener_new(struct loop *loop, const struct addr *address,
                              void (*on_accept)(void *arg, int fd, const struct addr *peer, const struct addr *local),
                              void *arg, struct err *err) MUST_CHECK;
/* The address really bound: port 0 has become a number. */
const struct addr *listener_address(const struct listener *listener);
/* How often accepting failed for want of descriptors or memory. */
uint64_t listener_starved(const struct listener *listener);
void listener_free(struct listener *listener);

#endif
