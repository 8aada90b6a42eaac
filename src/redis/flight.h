#ifndef SLUICE_SRC_REDIS_FLIGHT_H
#define SLUICE_SRC_REDIS_FLIGHT_H
/* The calls in flight on a connection, in the order in which their replies will come. */
#include "redis/command.h"
#include "redis/link.h"

/* A call's place; it stays when the call is forgotten, since the reply will come all the same. */
struct flight {
    TAILQ_ENTRY(flight) next;
    struct link_call *call;      /* NULL: forgotten */
    const struct script *script; /* NULL: NOSCRIPT is the caller's business */
    struct command evalsha;      /* kept while NOSCRIPT may be answered by an EVAL */
    struct mono sent;
    unsigned hops; /* how often another server took it over */
};

struct flights {
    TAILQ_HEAD(, flight) list; /* oldest first */
    struct flight *unsent;     /* the first whose bytes have not left; NULL for none */
};

/* In no list yet. `call` NULL: nobody waits for the reply. */
struct flight *flight_new(struct link_call *call);
void flight_free(struct flight *flight);

void flights_init(struct flights *flights);
/* At the end, as unsent. */
void flights_push(struct flights *flights, struct flight *flight, struct mono now);
void flights_remove(struct flights *flights, struct flight *flight);
/* All that is unsent leaves now. */
void flights_mark_sent(struct flights *flights, struct mono now);
/* The one whose reply comes next; NULL when none has been sent. */
struct flight *flights_awaited(const struct flights *flights);
void flights_forget(struct flights *flights, struct link_call *call);
/* Ends them all without telling their owners. */
void flights_fini(struct flights *flights);

#endif
