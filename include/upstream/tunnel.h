#ifndef SLUICE_UPSTREAM_TUNNEL_H
#define SLUICE_UPSTREAM_TUNNEL_H
/*
 * Bytes both ways between two plain descriptors until both sides are done: recv/send while little is moved, splice once
 * it is much. Half-closes are passed on. Back-pressure: one side is not read while the other can't take more.
 */
#include "base/buf.h"
#include "base/loop.h"

struct tunnel;

enum tunnel_end { TUNNEL_CLOSED, TUNNEL_RESET, TUNNEL_IDLE };
struct tunnel_result {
    enum tunnel_end end;
    uint64_t to_upstream_bytes, to_caller_bytes;
};

/* Relays between `caller_fd` and `upstream_fd` (neither is closed by the tunnel, nor may be watched by anybody else
 * while it lives). The bytes in `to_upstream` and `to_caller` go first; their contents move into the tunnel. `done` is
 * called from the loop, once. */
struct tunnel *tunnel_start(struct loop *loop, int caller_fd, int upstream_fd, struct buf *to_upstream,
                            struct buf *to_caller, int64_t idle_us,
                            void (*done)(void *arg, const struct tunnel_result *result), void *arg);
/* After `done`, or before it to break off. */
void tunnel_free(struct tunnel *tunnel);

#endif
