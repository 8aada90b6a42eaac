#ifndef SLUICE_UPSTREAM_ATTEMPT_H
#define SLUICE_UPSTREAM_ATTEMPT_H
/* One attempt to get a new connection: the name's addresses, tried one after the other. */
#include "connection.h"
#include "resolve.h"

/* How it ended: a connection, or NULL and why. From the loop or from inside attempt_start(); `attempt` is gone
 * afterwards. */
typedef void (*attempt_done)(struct attempt *attempt, struct upstream *upstream, enum upstream_error error,
                             const char *detail);

struct attempt {
    uint32_t magic;
    LIST_ENTRY(attempt) link; /* its owner's */
    void *owner;
    struct acquire *acquire; /* for this one alone; NULL: for whoever is first in the queue */
    uint64_t serial;         /* of the newest acquire when it began */

    struct connection_env *env;
    struct resolver *resolver;
    struct multi *multi;
    const struct origin *origin; /* the owner's */
    attempt_done done;
    int64_t timeout_us;
    struct defer starting;
    struct lookup lookup;
    struct addr *addrs; /* owned; only those we may connect to */
    unsigned count, next;
    struct mono deadline;
    struct upstream *upstream; /* being made */
};

/* `origin` must outlive it; fill in owner, acquire and serial before attempt_start(). */
struct attempt *attempt_new(struct connection_env *env, struct resolver *resolver, struct multi *multi,
                            const struct origin *origin, int64_t timeout_us, attempt_done done);
void attempt_start(struct attempt *attempt);
/* Deferred. */
void attempt_start_soon(struct attempt *attempt);
/* Without done(). */
void attempt_abort(struct attempt *attempt);

#endif
