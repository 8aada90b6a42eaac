/* The listeners of all [inbound] places, their visitors, and how they all come to an end. */
#include "proxy/inbound.h"

#include "base/log.h"
#include "base/mem.h"
#include "conf/inbound.h"
#include "proxy/reverse.h"
#include "server/listener.h"

#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* How many visitors over the limit are told so; more are closed without a word. */
enum { INBOUND_MAGIC = 0x696e626f, OVER_LIMIT_TOLD = 64, PSEUDONYM_BYTES = 32 };

/* One open address. */
struct door {
    struct inbound *owner;
    const struct inbound_conf *place;
    bool asks; /* gateways ask here */
    struct listener *listener;
};

struct inbound {
    uint32_t magic;
    struct visit_env env;
    struct door **doors; /* owned each: listeners point to them */
    unsigned doors_count;
    struct visitors visitors;
    int64_t visitors_count, over_limit_count, max_visitors;
    struct timer drain_timer;
    struct defer drained;
    void (*on_drained)(void *arg);
    void *on_drained_arg;
    char pseudonym[PSEUDONYM_BYTES];
};

static void drained_due(struct defer *defer)
{
    struct inbound *in = container_of(defer, struct inbound, drained);

    in->on_drained(in->on_drained_arg);
}

static void look_if_drained(struct inbound *in)
{
    if (in->env.draining && in->on_drained != NULL && TAILQ_EMPTY(&in->visitors)) {
        timer_clear(&in->drain_timer);
        loop_defer(in->env.loop, &in->drained, drained_due);
    }
}

static void visitor_closed(struct visitor *visitor)
{
    struct inbound *in = container_of(visitor->env, struct inbound, env);

    must_be(in, INBOUND_MAGIC);
    TAILQ_REMOVE(&in->visitors, visitor, link);
    if (visitor->over_limit) {
        in->over_limit_count--;
    } else {
        in->visitors_count--;
    }
    mem_free(visitor);
    look_if_drained(in);
}

static void accepted(void *arg, int fd, const struct addr *peer, const struct addr *local)
{
    struct door *door = arg;
    struct inbound *in = door->owner;
    bool over_limit = in->visitors_count >= in->max_visitors;

    must_be(in, INBOUND_MAGIC);
    if (over_limit && in->over_limit_count >= OVER_LIMIT_TOLD) {
        close(fd);
        return;
    }
    struct visitor *visitor = visitor_new(&in->env, door->place, door->asks, fd, peer, local, visitor_closed);
    visitor->over_limit = over_limit;
    TAILQ_INSERT_TAIL(&in->visitors, visitor, link);
    if (over_limit) {
        in->over_limit_count++;
        visitor_refuse(visitor);
    } else {
        in->visitors_count++;
    }
}

struct inbound *inbound_new(struct loop *loop, const struct conf *conf, struct admission *admission,
                            struct upstreams *upstreams, int64_t max_connections)
{
    const struct proxy_conf *pc = &conf->proxy;
    struct parse_limits limits = {.max_head_bytes = (size_t)pc->max_head_bytes,
                                  .max_fields = (unsigned)pc->max_headers};
    struct inbound *in = mem_zalloc(sizeof(*in));
    uint64_t id;

    in->magic = INBOUND_MAGIC;
    TAILQ_INIT(&in->visitors);
    in->max_visitors = max_connections;
    must(getrandom(&id, sizeof(id), 0) == (ssize_t)sizeof(id));
    snprintf(in->pseudonym, sizeof(in->pseudonym), "sluice-in-%08llx", (unsigned long long)(id & 0xffffffffU));
    in->env.loop = loop;
    in->env.conf = conf;
    in->env.admission = admission;
    in->env.upstreams = upstreams;
    in->env.conn.loop = loop;
    in->env.conn.parse = limits;
    in->env.conn.head_timeout_us = pc->head_timeout_us;
    in->env.conn.keepalive_timeout_us = pc->keepalive_timeout_us;
    in->env.conn.body_timeout_us = conf->fallback->body_timeout_us;
    in->env.transfer.loop = loop;
    in->env.transfer.parse = limits;
    in->env.transfer.via.pseudonym = in->pseudonym;
    return in;
}

/* ---- listeners ---- */

static void close_doors(struct inbound *in)
{
    for (unsigned i = 0; i < in->doors_count; i++) {
        listener_free(in->doors[i]->listener);
        mem_free(in->doors[i]);
    }
    mem_free((void *)in->doors);
    in->doors = NULL;
    in->doors_count = 0;
}

static bool open_door(struct inbound *in, const struct inbound_conf *place, const struct addr *address, bool asks,
                      struct err *err)
{
    struct door *door = mem_zalloc(sizeof(*door));
    char text[ADDR_TEXT_BYTES];

    *door = (struct door){in, place, asks, NULL};
    door->listener = listener_new(in->env.loop, address, accepted, door, err);
    if (door->listener == NULL) {
        mem_free(door);
        return false;
    }
    in->doors = mem_realloc((void *)in->doors, (in->doors_count + 1) * sizeof(struct door *));
    in->doors[in->doors_count++] = door;
    addr_format(listener_address(door->listener), false, text);
    log_line(LOG_INFO, "inbound_listening", LOG_STR("inbound", place->label), LOG_STR("address", text),
             LOG_STR("for", asks ? "checks" : "callers"), LOG_INT("limits", place->rules_count), LOG_END);
    return true;
}

static bool open_place(struct inbound *in, const struct inbound_conf *place, struct err *err)
{
    bool good = true;

    for (unsigned i = 0; i < place->listen_count && good; i++) {
        good = open_door(in, place, &place->listen[i], place->upstream_host == NULL, err);
    }
    for (unsigned i = 0; i < place->check_listen_count && good; i++) {
        good = open_door(in, place, &place->check_listen[i], true, err);
    }
    return good;
}

bool inbound_listen(struct inbound *in, struct err *err)
{
    for (unsigned i = 0; i < in->env.conf->inbounds_count; i++) {
        if (!open_place(in, in->env.conf->inbounds[i], err)) {
            close_doors(in);
            return false;
        }
    }
    return true;
}

/* ---- the end ---- */

/* `next` is read first: a callee may close the visitor, though its memory stays until the turn ends. */
static void each_visitor(struct inbound *in, void (*visit)(struct visitor *visitor))
{
    struct visitor *visitor = TAILQ_FIRST(&in->visitors);

    while (visitor != NULL) {
        struct visitor *next = TAILQ_NEXT(visitor, link);
        visit(visitor);
        visitor = next;
    }
}

static void drain_over(struct timer *timer, struct mono now)
{
    struct inbound *in = container_of(timer, struct inbound, drain_timer);

    (void)now;
    log_line(LOG_WARN, "drain_timeout", LOG_INT("inbound_callers", in->visitors_count), LOG_END);
    each_visitor(in, visitor_stop);
}

void inbound_drain(struct inbound *in, void (*done)(void *arg), void *arg)
{
    must_be(in, INBOUND_MAGIC);
    in->env.draining = true;
    in->on_drained = done;
    in->on_drained_arg = arg;
    close_doors(in);
    timer_set(in->env.loop, &in->drain_timer, mono_add(loop_now(in->env.loop), in->env.conf->proxy.drain_timeout_us),
              drain_over);
    each_visitor(in, visitor_drain);
    look_if_drained(in);
}

void inbound_free(struct inbound *in)
{
    must_be(in, INBOUND_MAGIC);
    must(TAILQ_EMPTY(&in->visitors));
    close_doors(in);
    loop_defer_cancel(&in->drained);
    in->magic = 0;
    mem_free(in);
}

unsigned inbound_callers(const struct inbound *in)
{
    return (unsigned)in->visitors_count;
}
