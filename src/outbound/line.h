#ifndef SLUICE_OUTBOUND_LINE_H
#define SLUICE_OUTBOUND_LINE_H
/*
 * The waiters of one class in the order in which they will leave. Borrows them. All zero is an empty line. Every call but
 * line_ahead() takes constant time, however many wait.
 */
#include "outbound/outbound.h"

#include <stdint.h>

struct round;
struct flow;
struct line {
    struct round *rounds; /* a ring of `room`, a power of two; owned, NULL while there are none */
    unsigned room;
    uint64_t first, end; /* the rounds that there are, by number */
    struct flow *flows;  /* owned: those that have waiters; a uthash */
    unsigned count;
    unsigned flows_count;
    unsigned cost_most; /* the largest cost seen: what a weight of 1 is good for in one round */
};

/* Behind all others, or with `fair` where its flow's turn is. */
void line_append(struct line *line, struct waiter *waiter, bool fair);
/* Before all others. */
void line_prepend(struct line *line, struct waiter *waiter);
void line_remove(struct line *line, struct waiter *waiter);
/* Nobody may be left. */
void line_fini(struct line *line);

/* In the order of leaving; NULL at the end. */
struct waiter *line_first(const struct line *line);
struct waiter *line_next(const struct line *line, const struct waiter *waiter);
struct waiter *line_last(const struct line *line);
/* How many would be ahead of this one, were it appended now. Looks at as many rounds as its flow has waiters. */
unsigned line_ahead(const struct line *line, const struct waiter *waiter, bool fair);
/* How many of its flow wait. */
unsigned line_of_flow(const struct line *line, uint64_t flow);

#endif
