/*
 * Twice a second each replica says that it is alive and reads what was ordered: one hash, "verb name" -> number, end,
 * what, who.
 *
 *   order given here -> fleet.lua (adds it) -.
 *   every TICK_US    -> fleet.lua            -+-> reply: all orders that stand
 *                                                  new, or another number -> act     gone, a rate -> as configured
 *
 * A pause and a rate stand until their time, and new buckets and new replicas follow them. A resume and a purge are
 * done once by each replica that is there; they are shown for ONCE_US, which is long enough for all to see them.
 * Whoever gives an order acts on it when it is answered, as everybody else does: what did not reach Redis happens
 * nowhere.
 *
 * Without Redis this process is the fleet. While Redis is out of reach, what is safe by one replica alone is done here.
 */
#include "outbound/fleet.h"

#include "base/log.h"
#include "base/mem.h"
#include "outbound/ordered.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FLEET_MAGIC = 0x666c6565, WHO_BYTES = 128, ARGS = 10 };
#define TICK_US (500 * CLOCK_MS_US)
#define TTL_US (3 * CLOCK_SECOND_US)
#define ONCE_US (10 * CLOCK_SECOND_US)
#define LASTS_MOST_US (7 * INT64_C(86400) * CLOCK_SECOND_US)

extern const struct script script_fleet;

/* An order as it was seen last. */
struct known {
    TAILQ_ENTRY(known) link;
    char *field;
    int64_t number;
    bool stands;
};

/* One that is on its way to Redis; freed when it is answered. */
struct given {
    TAILQ_ENTRY(given) link;
    struct link_call call;
    struct fleet *fleet;
    fleet_answer *done;
    void *arg;
};

struct fleet {
    uint32_t magic;
    struct loop *loop;
    struct link *server; /* NULL: none */
    struct outbound *outbound;
    char *me, *keys[2];
    struct timer tick;
    struct link_call look_call;
    TAILQ_HEAD(, known) known;
    TAILQ_HEAD(, given) given;
    bool has_looked; /* what is found the first time was ordered before this process was there */
    unsigned replicas;
    struct mono replicas_at;
};

static const struct {
    const char *word, *ends;
    bool stands;
} verbs[] = {[ORDER_PAUSE] = {"pause", "resume", true},
             [ORDER_RESUME] = {"resume", "pause", false},
             [ORDER_RATE] = {"rate", "unrate", true},
             [ORDER_UNRATE] = {"unrate", "rate", false},
             [ORDER_PURGE] = {"purge", "", false}};
enum { VERBS = sizeof(verbs) / sizeof(verbs[0]) };

const char *order_verb_text(enum order_verb verb)
{
    return verbs[verb].word;
}

/* ---- acting ---- */

static void act(struct fleet *fleet, const struct order *order)
{
    struct orders *orders = outbound_orders(fleet->outbound);
    char rate[64] = "";

    if (order->verb == ORDER_RATE) {
        snprintf(rate, sizeof(rate), "%" PRId64 "/%" PRId64 "ms", order->rate.count,
                 order->rate.period_us / CLOCK_MS_US);
    }
    if (verbs[order->verb].stands) {
        orders_put(orders, order, mono_add(loop_now(fleet->loop), order->for_us));
    } else if (order->verb == ORDER_RESUME) {
        orders_drop(orders, ORDER_PAUSE, order->name);
    } else if (order->verb == ORDER_UNRATE) {
        orders_drop(orders, ORDER_RATE, order->name);
    }
    unsigned buckets = outbound_obey(fleet->outbound, order);
    log_line(LOG_WARN, "order", LOG_STR("verb", verbs[order->verb].word), LOG_STR("destination", order->name),
             LOG_STR("rate", rate), LOG_INT("seconds", order->for_us / CLOCK_SECOND_US), LOG_STR("by", order->who),
             LOG_INT("buckets", buckets), LOG_END);
}

static void end_rate(struct fleet *fleet, const struct standing *it, const char *why)
{
    char *name = mem_strdup(it->name);
    const struct order back = {.verb = ORDER_UNRATE, .name = name};

    orders_drop(outbound_orders(fleet->outbound), ORDER_RATE, name);
    outbound_obey(fleet->outbound, &back);
    log_line(LOG_WARN, "order_over", LOG_STR("verb", "rate"), LOG_STR("destination", name), LOG_STR("why", why),
             LOG_END);
    mem_free(name);
}

static void end_standing(struct fleet *fleet, struct standing *it, const char *why)
{
    if (it->verb == ORDER_RATE) {
        end_rate(fleet, it, why);
    } else {
        orders_drop(outbound_orders(fleet->outbound), ORDER_PAUSE,
                    it->name); /* the pause itself ends by its time, or by a resume */
    }
}

static void end_passed(struct fleet *fleet)
{
    struct standing *it = TAILQ_FIRST(&outbound_orders(fleet->outbound)->list), *next;

    for (; it != NULL; it = next) {
        next = TAILQ_NEXT(it, link);
        if (mono_diff(it->until, loop_now(fleet->loop)) <= 0) {
            end_standing(fleet, it, "its time is over");
        }
    }
}

/* ---- replies ---- */

static struct known *known_of(const struct fleet *fleet, const char *field)
{
    struct known *known;

    TAILQ_FOREACH(known, &fleet->known, link)
    {
        if (strcmp(known->field, field) == 0) {
            return known;
        }
    }
    return NULL;
}

static bool parse_field(const char *field, struct order *out)
{
    const char *space = strchr(field, ' ');

    for (int verb = 0; space != NULL && verb < VERBS; verb++) {
        size_t len = strlen(verbs[verb].word);
        if ((size_t)(space - field) == len && strncmp(field, verbs[verb].word, len) == 0) {
            out->verb = (enum order_verb)verb;
            out->name = space + 1;
            return out->name[0] != '\0';
        }
    }
    return false;
}

static bool parse_value(const char *value, int64_t now, int64_t *number, char who[WHO_BYTES], struct order *out)
{
    int64_t till;

    if (sscanf(value, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %127s", number, &till, &out->rate.count,
               &out->rate.period_us, who) != 5) {
        return false;
    }
    out->for_us = till - now;
    out->who = who;
    return *number > 0 && out->for_us > 0 && out->for_us <= LASTS_MOST_US &&
           (out->verb != ORDER_RATE || (out->rate.count > 0 && out->rate.period_us >= out->rate.count));
}

static bool is_text(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && strlen(reply->str) == reply->len;
}

static void take_order(struct fleet *fleet, const struct redisReply *field, const struct redisReply *value, int64_t now)
{
    char who[WHO_BYTES];
    struct order order = {0};
    int64_t number;

    if (!is_text(field) || !is_text(value) || !parse_field(field->str, &order) ||
        !parse_value(value->str, now, &number, who, &order)) {
        log_line(LOG_ERROR, "redis_bad_reply", LOG_STR("to", "fleet"), LOG_END);
        return;
    }
    struct known *known = known_of(fleet, field->str);
    bool is_news = known == NULL || known->number != number;
    if (known == NULL) {
        known = mem_zalloc(sizeof(*known));
        known->field = mem_strdup(field->str);
        TAILQ_INSERT_TAIL(&fleet->known, known, link);
    }
    known->number = number;
    known->stands = true;
    if (is_news && (fleet->has_looked || verbs[order.verb].stands)) {
        act(fleet, &order);
    }
    struct standing *it =
        verbs[order.verb].stands ? orders_find(outbound_orders(fleet->outbound), order.verb, order.name) : NULL;
    if (it != NULL) {
        it->seen = true;
    }
}

static void begin_reply(struct fleet *fleet)
{
    struct known *known;
    struct standing *it;

    TAILQ_FOREACH(known, &fleet->known, link)
    {
        known->stands = false;
    }
    TAILQ_FOREACH(it, &outbound_orders(fleet->outbound)->list, link)
    {
        it->seen = false;
    }
}

static void end_reply(struct fleet *fleet)
{
    struct known *known, *next;
    struct standing *it = TAILQ_FIRST(&outbound_orders(fleet->outbound)->list), *following;

    for (known = TAILQ_FIRST(&fleet->known); known != NULL; known = next) {
        next = TAILQ_NEXT(known, link);
        if (!known->stands) {
            TAILQ_REMOVE(&fleet->known, known, link);
            mem_free(known->field);
            mem_free(known);
        }
    }
    for (; it != NULL; it = following) {
        following = TAILQ_NEXT(it, link);
        if (!it->seen) {
            end_standing(fleet, it, "it was taken back, or its time is over");
        }
    }
}

/* False: no good reply. */
static bool take_reply(struct fleet *fleet, const struct redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || reply->elements % 2 != 0 ||
        reply->element[0]->type != REDIS_REPLY_INTEGER || reply->element[1]->type != REDIS_REPLY_INTEGER) {
        log_line(LOG_ERROR, "redis_bad_reply", LOG_STR("to", "fleet"), LOG_END);
        return false;
    }
    fleet->replicas = (unsigned)reply->element[1]->integer;
    fleet->replicas_at = loop_now(fleet->loop);
    begin_reply(fleet);
    for (size_t i = 2; i < reply->elements; i += 2) {
        take_order(fleet, reply->element[i], reply->element[i + 1], reply->element[0]->integer);
    }
    end_reply(fleet);
    fleet->has_looked = true;
    return true;
}

/* ---- questions ---- */

static bool ask(struct fleet *fleet, struct link_call *call, const struct order *order)
{
    const char *keys[] = {fleet->keys[0], fleet->keys[1]};
    char text[5][24];
    const char *args[ARGS] = {fleet->me, text[0]};

    snprintf(text[0], sizeof(text[0]), "%" PRId64, TTL_US);
    if (order == NULL) {
        return link_eval(fleet->server, call, &script_fleet, keys, 2, args, 2);
    }
    const int64_t numbers[] = {order->for_us, order->rate.count, order->rate.period_us, ONCE_US};
    for (int i = 0; i < 4; i++) {
        snprintf(text[i + 1], sizeof(text[0]), "%" PRId64, numbers[i]);
    }
    const char *more[] = {verbs[order->verb].word, order->name, text[1], text[2], text[3], order->who,
                          verbs[order->verb].ends, text[4]};
    memcpy((void *)(args + 2), more, sizeof(more));
    return link_eval(fleet->server, call, &script_fleet, keys, 2, args, ARGS);
}

static void look_done(struct link_call *call, const struct redisReply *reply)
{
    struct fleet *fleet = container_of(call, struct fleet, look_call);
    must_be(fleet, FLEET_MAGIC);

    if (reply != NULL) {
        (void)take_reply(fleet, reply);
    }
}

static void tick_due(struct timer *timer, struct mono now)
{
    struct fleet *fleet = container_of(timer, struct fleet, tick);
    must_be(fleet, FLEET_MAGIC);

    end_passed(fleet);
    fleet->look_call.done = look_done;
    if (fleet->server != NULL && !fleet->look_call.in_flight && TAILQ_EMPTY(&fleet->given) &&
        !ask(fleet, &fleet->look_call, NULL)) {
        fleet->replicas = 0; /* Redis is out of reach: nobody knows */
    }
    timer_set(fleet->loop, &fleet->tick, mono_add(now, TICK_US), tick_due);
}

static void given_done(struct link_call *call, const struct redisReply *reply)
{
    struct given *given = container_of(call, struct given, call);
    struct fleet *fleet = given->fleet;
    must_be(fleet, FLEET_MAGIC);

    TAILQ_REMOVE(&fleet->given, given, link);
    bool is_good = reply != NULL && take_reply(fleet, reply);
    given->done(given->arg, is_good ? FLEET_TOLD : FLEET_LOST);
    mem_free(given);
}

/* ---- what others call ---- */

struct fleet *fleet_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id,
                        struct outbound *outbound)
{
    struct fleet *fleet = mem_zalloc(sizeof(*fleet));

    fleet->magic = FLEET_MAGIC;
    fleet->loop = loop;
    fleet->server = link;
    fleet->outbound = outbound;
    fleet->me = mem_strdup(replica_id);
    fleet->keys[0] = mem_printf("%s:{fleet}:r", prefix);
    fleet->keys[1] = mem_printf("%s:{fleet}:o", prefix);
    TAILQ_INIT(&fleet->known);
    TAILQ_INIT(&fleet->given);
    timer_set(loop, &fleet->tick, loop_now(loop), tick_due);
    return fleet;
}

void fleet_free(struct fleet *fleet)
{
    struct given *given;

    must_be(fleet, FLEET_MAGIC);
    while ((given = TAILQ_FIRST(&fleet->given)) != NULL) {
        TAILQ_REMOVE(&fleet->given, given, link);
        link_forget(fleet->server, &given->call);
        mem_free(given);
    }
    if (fleet->server != NULL) {
        link_forget(fleet->server, &fleet->look_call);
    }
    timer_clear(&fleet->tick);
    for (struct known *known; (known = TAILQ_FIRST(&fleet->known)) != NULL;) {
        TAILQ_REMOVE(&fleet->known, known, link);
        mem_free(known->field);
        mem_free(known);
    }
    mem_free(fleet->me);
    mem_free(fleet->keys[0]);
    mem_free(fleet->keys[1]);
    fleet->magic = 0;
    mem_free(fleet);
}

/* False: Redis is out of reach. */
static bool give(struct fleet *fleet, const struct order *order, fleet_answer *done, void *arg)
{
    struct given *given = mem_zalloc(sizeof(*given));

    given->fleet = fleet;
    given->done = done;
    given->arg = arg;
    given->call.done = given_done;
    if (!ask(fleet, &given->call, order)) {
        mem_free(given);
        return false;
    }
    TAILQ_INSERT_TAIL(&fleet->given, given, link);
    return true;
}

void fleet_order(struct fleet *fleet, const struct order *order, fleet_answer *done, void *arg)
{
    must_be(fleet, FLEET_MAGIC);
    if (fleet->server != NULL && give(fleet, order, done, arg)) {
        return;
    }
    if (fleet->server != NULL && (order->verb == ORDER_RATE || order->verb == ORDER_UNRATE)) {
        done(arg, FLEET_NOT);
        return;
    }
    act(fleet, order);
    done(arg, fleet->server == NULL ? FLEET_TOLD : FLEET_ALONE);
}

void fleet_stats(const struct fleet *fleet, struct fleet_stats *out)
{
    must_be(fleet, FLEET_MAGIC);
    bool is_fresh = mono_diff(loop_now(fleet->loop), fleet->replicas_at) < TTL_US;

    *out = (struct fleet_stats){.replicas = fleet->server == NULL ? 1
                                            : is_fresh            ? fleet->replicas
                                                                  : 0,
                                .me = fleet->me};
}

void fleet_each_order(const struct fleet *fleet, void (*each)(void *arg, const struct order *order, int64_t left_us),
                      void *arg)
{
    must_be(fleet, FLEET_MAGIC);
    const struct standing *it;

    TAILQ_FOREACH(it, &outbound_orders(fleet->outbound)->list, link)
    {
        const struct order order = {.verb = it->verb, .name = it->name, .rate = it->rate, .who = it->who};
        each(arg, &order, mono_diff(it->until, loop_now(fleet->loop)));
    }
}
