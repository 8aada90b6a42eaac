#ifndef SLUICE_SERVER_LISTENERS_H
#define SLUICE_SERVER_LISTENERS_H
/*
 * The addresses that somebody listens on, as a whole, so that they can be exchanged for others without turning anybody
 * away: first all new ones are opened, then those that are no longer wanted are closed, and those in both stay as they
 * are.
 *
 *   listeners_want()... -> listeners_open() -> listeners_commit(), or listeners_abandon()
 */
#include "server/listener.h"

struct listeners;

/* `tag`: whatever listeners_want() said about the address. `on_accept` owns the descriptor. */
typedef void listeners_accept(void *arg, void *tag, int fd, const struct addr *peer, const struct addr *local);
struct listeners *listeners_new(struct loop *loop, listeners_accept *on_accept, void *arg);
void listeners_free(struct listeners *listeners);

void listeners_want(struct listeners *listeners, const struct addr *address, void *tag);
/* Opens what is wanted and not open yet, without accepting anybody; a line in `err` for each that fails, naming `key`.
 * `sockets` may be NULL. */
bool listeners_open(struct listeners *listeners, struct sockets *sockets, const char *key, struct err *err) MUST_CHECK;
/* All is as before the first listeners_want(). */
void listeners_abandon(struct listeners *listeners);
/* `told` (NULL: nobody) hears of each that was opened or, with `opened` false, is closed now. */
typedef void listeners_told(void *arg, void *tag, const struct listener *listener, bool opened);
void listeners_commit(struct listeners *listeners, listeners_told *told);
/* The end, so that another process may take over: callers are pointed at it, those whose handshake is under way are still
 * accepted for a moment, then all is closed and `closed` comes, from the loop. */
void listeners_retire(struct listeners *listeners, void (*closed)(void *arg));
/* At once: accepts who is in the kernel's queues, then closes all. */
void listeners_close(struct listeners *listeners);
uint64_t listeners_starved(const struct listeners *listeners);

#endif
