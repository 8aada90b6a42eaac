/* The listeners of all [inbound] places, their visitors, and how they all come to an end. */
#include "proxy/inbound.h"

#include "base/log.h"
#include "base/mem.h"
#include "conf/inbound.h"
#include "proxy/check.h"
#include "proxy/reverse.h"
#include "server/listeners.h"

#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* How many visitors over the limit are told so, at most; more are closed without a word. */
enum { INBOUND_MAGIC = 0x696e626f, OVER_LIMIT_TOLD = 64, PSEUDONYM_BYTES = 32 };

struct inbound {
    uint32_t magic;
    struct visit_env env;
    /* tags are the places; those of the second are where gateways ask */
    struct listeners *doors, *check_doors;
    struct visitors visitors;
    int64_t visitors_count, over_limit_count, over_limit_most, max_visitors;
    struct timer drain_timer;
    unsigned deaf; /* drain: of doors and check_doors, how many are closed */
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
    if (in->env.draining && in->on_drained != NULL && in->deaf == 2 && TAILQ_EMPTY(&in->visitors)) {
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
    visitor_free(visitor);
    look_if_drained(in);
}

static void take_in(struct inbound *in, struct inbound_conf *place, bool asks, int fd, const struct addr *peer,
                    const struct addr *local)
{
    bool over_limit = in->visitors_count >= in->max_visitors;

    must_be(in, INBOUND_MAGIC);
    if (over_limit && in->over_limit_count >= in->over_limit_most) {
        close(fd);
        return;
    }
    struct visitor *visitor = visitor_new(&in->env, place, asks, fd, peer, local, visitor_closed);
    visitor->over_limit = over_limit;
    TAILQ_INSERT_TAIL(&in->visitors, visitor, link);
    if (over_limit) {
        in->over_limit_count++;
        visitor_refuse(visitor);
    } else {
        in->visitors_count++;
        if (in->env.draining) {
            visitor_drain(visitor);
        }
    }
}

static void accepted(void *arg, void *tag, int fd, const struct addr *peer, const struct addr *local)
{
    take_in(arg, tag, false, fd, peer, local);
}

static void accepted_check(void *arg, void *tag, int fd, const struct addr *peer, const struct addr *local)
{
    take_in(arg, tag, true, fd, peer, local);
}

/* Where descriptors are few, those of callers who are only told so must not be the ones that others need. */
static int64_t over_limit_most(const struct conf *conf, int64_t max_connections)
{
    int64_t eighth = max_connections / 8 + 1;

    return max_connections < conf->proxy.max_connections && eighth < OVER_LIMIT_TOLD ? eighth : OVER_LIMIT_TOLD;
}

/* What connections copy of the settings. */
static void apply(struct inbound *in, const struct conf *conf, int64_t max_connections)
{
    const struct proxy_conf *pc = &conf->proxy;
    struct parse_limits limits = {.max_head_bytes = (size_t)pc->max_head_bytes,
                                  .max_fields = (unsigned)pc->max_headers};

    in->max_visitors = max_connections;
    in->over_limit_most = over_limit_most(conf, max_connections);
    in->env.conf = conf;
    in->env.conn.parse = limits;
    in->env.conn.head_timeout_us = pc->head_timeout_us;
    in->env.conn.keepalive_timeout_us = pc->keepalive_timeout_us;
    in->env.conn.body_timeout_us = conf->fallback->body_timeout_us;
    in->env.transfer.parse = limits;
}

struct inbound *inbound_new(struct loop *loop, const struct conf *conf, struct admission *admission,
                            struct upstreams *upstreams, int64_t max_connections)
{
    struct inbound *in = mem_zalloc(sizeof(*in));
    uint64_t id;

    in->magic = INBOUND_MAGIC;
    TAILQ_INIT(&in->visitors);
    must(getrandom(&id, sizeof(id), 0) == (ssize_t)sizeof(id));
    snprintf(in->pseudonym, sizeof(in->pseudonym), "sluice-in-%08llx", (unsigned long long)(id & 0xffffffffU));
    in->env.loop = loop;
    in->env.admission = admission;
    in->env.upstreams = upstreams;
    in->env.conn.loop = loop;
    in->env.transfer.loop = loop;
    in->env.transfer.via.pseudonym = in->pseudonym;
    in->doors = listeners_new(loop, accepted, in);
    in->check_doors = listeners_new(loop, accepted_check, in);
    apply(in, conf, max_connections);
    return in;
}

/* ---- settings ---- */

static void want_place(struct inbound *in, struct inbound_conf *place)
{
    struct listeners *doors = place->upstream_host != NULL ? in->doors : in->check_doors;

    for (unsigned i = 0; i < place->listen_count; i++) {
        listeners_want(doors, &place->listen[i], place);
    }
    for (unsigned i = 0; i < place->check_listen_count; i++) {
        listeners_want(in->check_doors, &place->check_listen[i], place);
    }
}

bool inbound_prepare(struct inbound *in, const struct conf *conf, struct sockets *sockets, struct err *err)
{
    must_be(in, INBOUND_MAGIC);
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        want_place(in, conf->inbounds[i]);
    }
    bool good = listeners_open(in->doors, sockets, "[inbound] listen", err);
    if (!listeners_open(in->check_doors, sockets, "[inbound] check_listen", err) || !good) {
        inbound_abandon(in);
        return false;
    }
    return true;
}

void inbound_abandon(struct inbound *in)
{
    listeners_abandon(in->doors);
    listeners_abandon(in->check_doors);
}

static void tell(const struct inbound_conf *place, const struct listener *listener, bool opened, const char *whom)
{
    char text[ADDR_TEXT_BYTES];

    addr_format(listener_address(listener), false, text);
    log_line(LOG_INFO, opened ? "inbound_listening" : "inbound_listening_no_more", LOG_STR("inbound", place->label),
             LOG_STR("address", text), LOG_STR("for", whom), LOG_INT("limits", place->rules_count), LOG_END);
}

static void told(void *arg, void *tag, const struct listener *listener, bool opened)
{
    (void)arg;
    tell(tag, listener, opened, "callers");
}

static void told_check(void *arg, void *tag, const struct listener *listener, bool opened)
{
    (void)arg;
    tell(tag, listener, opened, "checks");
}

/* Who came to a place that is gone may finish, but not begin again. */
static void drain_homeless(struct inbound *in)
{
    struct visitor *visitor = TAILQ_FIRST(&in->visitors);

    while (visitor != NULL) {
        struct visitor *next = TAILQ_NEXT(visitor, link);
        if (check_place(in->env.conf, slice_of(visitor->inbound->label)) == NULL) {
            visitor_drain(visitor);
        }
        visitor = next;
    }
}

void inbound_adopt(struct inbound *in, const struct conf *conf, int64_t max_connections)
{
    must_be(in, INBOUND_MAGIC);
    apply(in, conf, max_connections);
    listeners_commit(in->doors, told);
    listeners_commit(in->check_doors, told_check);
    drain_homeless(in);
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
    listeners_close(in->doors);
    listeners_close(in->check_doors);
    in->deaf = 2;
    each_visitor(in, visitor_stop);
    look_if_drained(in);
}

static void turned_deaf(void *arg)
{
    struct inbound *in = arg;

    must_be(in, INBOUND_MAGIC);
    in->deaf++;
    look_if_drained(in);
}

void inbound_drain(struct inbound *in, void (*done)(void *arg), void *arg)
{
    must_be(in, INBOUND_MAGIC);
    in->env.draining = true;
    in->on_drained = done;
    in->on_drained_arg = arg;
    listeners_retire(in->doors, turned_deaf);
    listeners_retire(in->check_doors, turned_deaf);
    timer_set(in->env.loop, &in->drain_timer, mono_add(loop_now(in->env.loop), in->env.conf->proxy.drain_timeout_us),
              drain_over);
    each_visitor(in, visitor_drain);
}

void inbound_free(struct inbound *in)
{
    must_be(in, INBOUND_MAGIC);
    must(TAILQ_EMPTY(&in->visitors));
    listeners_free(in->doors);
    listeners_free(in->check_doors);
    loop_defer_cancel(&in->drained);
    in->magic = 0;
    mem_free(in);
}

unsigned inbound_callers(const struct inbound *in)
{
    return (unsigned)in->visitors_count;
}
