#ifndef SLUICE_SERVER_SOCKETS_H
#define SLUICE_SERVER_SOCKETS_H
/*
 * Where listening sockets come from: handed down by who started us (systemd's socket activation: LISTEN_FDS), or bound
 * here, with SO_REUSEPORT, so that another process of the same user may take over an address before we leave it.
 */
#include "base/addr.h"
#include "base/err.h"

struct sockets;

/* Takes what LISTEN_PID and LISTEN_FDS name, if they are meant for this process, and removes both from the environment.
 * Never NULL. */
struct sockets *sockets_new(void);
void sockets_free(struct sockets *sockets);
/* A listening socket for `address`: the one handed down, or a new one. -1 and a line in `err` that names `key`
 * ("[proxy] listen") otherwise. The caller closes it; one handed down stays open here, so that callers who come
 * meanwhile are kept for whoever is next. `shared` (may be NULL) hears whether another process listens there too. */
int sockets_listen(struct sockets *sockets, const struct addr *address, const char *key, bool *shared,
                   struct err *err) MUST_CHECK;
/* Those handed down that nobody has asked for. */
void sockets_each_unused(const struct sockets *sockets, void (*each)(void *arg, const struct addr *address), void *arg);

#endif
