#ifndef SLUICE_SERVER_LISTENER_H
#define SLUICE_SERVER_LISTENER_H
/* A listening socket. Out of descriptors it rests for 50 ms instead of spinning (the kernel's backlog holds callers
 * meanwhile). */
#include "base/addr.h"
#include "base/err.h"
#include "base/loop.h"
#include "server/sockets.h"

struct listener;

/* Listens, but accepts nobody before listener_start(). NULL and a line in `err` otherwise, which names `key`. `sockets`
 * may be NULL: always bound anew. `on_accept` owns the descriptor (non-blocking, close-on-exec). */
struct listener *listener_new(struct loop *loop, struct sockets *sockets, const struct addr *address, const char *key,
                              void (*on_accept)(void *arg, int fd, const struct addr *peer, const struct addr *local),
                              void *arg, struct err *err) MUST_CHECK;
void listener_start(struct listener *listener);
/* The address really bound: port 0 has become a number. */
const struct addr *listener_address(const struct listener *listener);
/* Was it made for that address, as it is written in the settings? */
bool listener_is_for(const struct listener *listener, const struct addr *address);
/* Another process listened there when it was made. */
bool listener_is_shared(const struct listener *listener);
/* How often accepting failed for want of descriptors or memory. */
uint64_t listener_starved(const struct listener *listener);
/* Callers who come from now on go to the process that began to listen there after us, if there is one. */
void listener_point_away(struct listener *listener);
/* Accepts who has been let in by the kernel already, so that closing the socket turns nobody away. */
void listener_finish(struct listener *listener);
void listener_free(struct listener *listener);

#endif
