/*
 * Rounds: deficit round robin, laid out in advance.
 *
 *     round 7 (next to leave)    A1 B1 C1
 *     round 8                    A2 B2
 *     round 9                    A3
 *     round 10                   A4          A asked four times, C once; C's second would come into round 8
 *
 * A flow has a turn in each round, as large as its weight; whoever comes is put at the end of the first round in which
 * its flow has some of its turn left. So the order of leaving is there to be walked at any time, entering and leaving
 * cost the same however many wait, and who leaves early only leaves a gap that nobody waits for. Costs count: a turn is
 * worth `weight` times the largest cost seen (Shreedhar and Varghese, "Efficient fair queueing using deficit round
 * robin", 1996: with a quantum of at least the largest packet each turn serves one, and work stays constant).
 *
 * First in first out is the same with everybody in the last round.
 *
 * A flow is remembered only while it has waiters: one that comes back finds its place at the end of the round that is
 * leaving, behind everybody who has not had a turn in it.
 */
#include "outbound/line.h"

#include "base/mem.h"

#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#include <uthash.h>

enum { ROOM_KEPT = 16 }; /* more rounds than this are not kept for an empty line */

TAILQ_HEAD(round_list, waiter);
struct round {
    struct round_list list;
    unsigned count;
};

struct flow {
    uint64_t id;
    uint64_t round; /* that of its last waiter */
    uint64_t used;  /* of its turn in there */
    unsigned count; /* its waiters */
    UT_hash_handle by_id;
};

static struct round *round_at(const struct line *line, uint64_t number)
{
    return &line->rounds[number & (line->room - 1)];
}

/* A list's head knows where it lies, so it can't be copied. */
static void move_round(struct round *to, struct round *from)
{
    TAILQ_INIT(&to->list);
    TAILQ_CONCAT(&to->list, &from->list, link);
    to->count = from->count;
}

static void widen(struct line *line)
{
    unsigned room = line->room > 0 ? 2 * line->room : 1;
    struct line wider = *line;

    wider.room = room;
    wider.rounds = mem_zalloc(room * sizeof(wider.rounds[0]));
    for (uint64_t number = line->first; number < line->end; number++) {
        move_round(round_at(&wider, number), round_at(line, number));
    }
    mem_free(line->rounds);
    *line = wider;
}

static void add_rounds(struct line *line, uint64_t up_to)
{
    while (line->end <= up_to) {
        if (line->end - line->first == line->room) {
            widen(line);
        }
        struct round *round = round_at(line, line->end++);
        TAILQ_INIT(&round->list);
        round->count = 0;
    }
}

/* ---- flows ---- */

static struct flow *flow_of(const struct line *line, uint64_t id)
{
    struct flow *flow;

    HASH_FIND(by_id, line->flows, &id, sizeof(id), flow);
    return flow;
}

static void join_flow(struct line *line, struct waiter *waiter)
{
    struct flow *flow = flow_of(line, waiter->flow);

    if (flow == NULL) {
        flow = mem_zalloc(sizeof(*flow));
        flow->id = waiter->flow;
        HASH_ADD(by_id, line->flows, id, sizeof(flow->id), flow);
        line->flows_count++;
    }
    if (flow->count == 0 || flow->round < waiter->round) {
        flow->used = 0;
        flow->round = waiter->round;
    }
    flow->used += waiter->cost;
    flow->count++;
}

static void leave_flow(struct line *line, const struct waiter *waiter)
{
    struct flow *flow = flow_of(line, waiter->flow);

    must(flow != NULL && flow->count > 0);
    if (--flow->count == 0) {
        HASH_DELETE(by_id, line->flows, flow);
        line->flows_count--;
        mem_free(flow);
    }
}

/* The round in which this waiter would leave. */
static uint64_t round_for(const struct line *line, const struct waiter *waiter, bool fair)
{
    uint64_t last = line->end > line->first ? line->end - 1 : line->first;
    const struct flow *flow = fair ? flow_of(line, waiter->flow) : NULL;
    uint64_t turn = (uint64_t)waiter->weight * (line->cost_most > waiter->cost ? line->cost_most : waiter->cost);

    if (!fair) {
        return last;
    }
    if (flow == NULL || flow->round < line->first) {
        return line->first;
    }
    return flow->used + waiter->cost <= turn ? flow->round : flow->round + 1;
}

/* ---- entering and leaving ---- */

void line_append(struct line *line, struct waiter *waiter, bool fair)
{
    must(waiter->weight > 0);
    waiter->round = round_for(line, waiter, fair);
    line->cost_most = waiter->cost > line->cost_most ? waiter->cost : line->cost_most;
    add_rounds(line, waiter->round);
    TAILQ_INSERT_TAIL(&round_at(line, waiter->round)->list, waiter, link);
    round_at(line, waiter->round)->count++;
    join_flow(line, waiter);
    line->count++;
}

void line_prepend(struct line *line, struct waiter *waiter)
{
    waiter->round = line->first;
    add_rounds(line, waiter->round);
    TAILQ_INSERT_HEAD(&round_at(line, waiter->round)->list, waiter, link);
    round_at(line, waiter->round)->count++;
    join_flow(line, waiter);
    line->count++;
}

static void drop_empty_rounds(struct line *line)
{
    while (line->first < line->end && round_at(line, line->first)->count == 0) {
        line->first++;
    }
    if (line->count == 0 && line->room > ROOM_KEPT) {
        mem_free(line->rounds);
        line->rounds = NULL;
        line->room = 0;
    }
}

void line_remove(struct line *line, struct waiter *waiter)
{
    must(waiter->round >= line->first && waiter->round < line->end);
    struct round *round = round_at(line, waiter->round);

    must(round->count > 0 && line->count > 0);
    TAILQ_REMOVE(&round->list, waiter, link);
    round->count--;
    line->count--;
    leave_flow(line, waiter);
    drop_empty_rounds(line);
}

void line_fini(struct line *line)
{
    must(line->count == 0);
    mem_free(line->rounds);
    line->rounds = NULL;
    line->room = 0;
}

/* ---- looking ---- */

static struct waiter *first_from(const struct line *line, uint64_t number)
{
    for (; number < line->end; number++) {
        if (round_at(line, number)->count > 0) {
            return TAILQ_FIRST(&round_at(line, number)->list);
        }
    }
    return NULL;
}

struct waiter *line_first(const struct line *line)
{
    return first_from(line, line->first);
}

struct waiter *line_next(const struct line *line, const struct waiter *waiter)
{
    struct waiter *next = TAILQ_NEXT(waiter, link);

    return next != NULL ? next : first_from(line, waiter->round + 1);
}

struct waiter *line_last(const struct line *line)
{
    for (uint64_t number = line->end; number > line->first; number--) {
        if (round_at(line, number - 1)->count > 0) {
            return TAILQ_LAST(&round_at(line, number - 1)->list, round_list);
        }
    }
    return NULL;
}

unsigned line_ahead(const struct line *line, const struct waiter *waiter, bool fair)
{
    uint64_t own = round_for(line, waiter, fair);
    unsigned ahead = 0;

    if (own + 1 >= line->end) {
        return line->count;
    }
    for (uint64_t number = line->first; number <= own; number++) {
        ahead += round_at(line, number)->count;
    }
    return ahead;
}

unsigned line_of_flow(const struct line *line, uint64_t id)
{
    const struct flow *flow = flow_of(line, id);

    return flow != NULL ? flow->count : 0;
}
