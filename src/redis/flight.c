#include "redis/flight.h"

#include "base/mem.h"

struct flight *flight_new(struct link_call *call)
{
    struct flight *flight = mem_zalloc(sizeof(*flight));

    if (call != NULL) {
        must(!call->in_flight && call->done != NULL);
        flight->call = call;
        call->in_flight = true;
        call->answered = (struct mono){0};
    }
    return flight;
}

void flight_free(struct flight *flight)
{
    command_fini(&flight->evalsha);
    mem_free(flight);
}

void flights_init(struct flights *flights)
{
    TAILQ_INIT(&flights->list);
    flights->unsent = NULL;
}

static void stamp(struct flight *flight, struct mono now)
{
    flight->sent = now;
    if (flight->call != NULL) {
        flight->call->sent = now;
    }
}

void flights_push(struct flights *flights, struct flight *flight, struct mono now)
{
    stamp(flight, now);
    TAILQ_INSERT_TAIL(&flights->list, flight, next);
    if (flights->unsent == NULL) {
        flights->unsent = flight;
    }
}

void flights_remove(struct flights *flights, struct flight *flight)
{
    if (flights->unsent == flight) {
        flights->unsent = TAILQ_NEXT(flight, next);
    }
    TAILQ_REMOVE(&flights->list, flight, next);
}

/* Stamped anew: the later the time, the tighter it bounds when Redis ran the call, as long as it's before the write. */
void flights_mark_sent(struct flights *flights, struct mono now)
{
    for (struct flight *flight = flights->unsent; flight != NULL; flight = TAILQ_NEXT(flight, next)) {
        stamp(flight, now);
    }
    flights->unsent = NULL;
}

struct flight *flights_awaited(const struct flights *flights)
{
    struct flight *oldest = TAILQ_FIRST(&flights->list);

    return oldest != flights->unsent ? oldest : NULL;
}

/* A walk, and rare: owners go away while they wait for Redis only when a caller hangs up in that very millisecond. */
void flights_forget(struct flights *flights, struct link_call *call)
{
    struct flight *flight;

    TAILQ_FOREACH(flight, &flights->list, next)
    {
        if (flight->call == call) {
            flight->call = NULL;
            call->in_flight = false;
            return;
        }
    }
    wrong("a call in flight that is not on this link");
}

void flights_fini(struct flights *flights)
{
    struct flight *flight;

    while ((flight = TAILQ_FIRST(&flights->list)) != NULL) {
        if (flight->call != NULL) {
            flight->call->in_flight = false;
        }
        flights_remove(flights, flight);
        flight_free(flight);
    }
}
