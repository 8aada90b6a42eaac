/* Listeners and callers; how many there may be; how they all come to an end. */
#include "proxy/proxy.h"

#include "base/log.h"
#include "base/mem.h"
#include "proxy/exchange_fsm.h"
#include "proxy/stats.h"
#include "proxy/users.h"
#include "server/listener.h"

#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* How many callers over the limit are told so; more are closed without a word. */
enum { PROXY_MAGIC = 0x70726f78, OVER_LIMIT_TOLD = 64, PSEUDONYM_BYTES = 32, STOP_LINGER_US = 1000000 };

struct proxy {
    uint32_t magic;
    struct proxy_env env;
    struct listener **listeners;
    unsigned listeners_count;
    struct callers callers;
    int64_t callers_count, over_limit_count, max_callers;
    struct timer drain_timer;
    struct defer drained;
    void (*on_drained)(void *arg);
    void *on_drained_arg;
    char pseudonym[PSEUDONYM_BYTES];
};

static void drained_due(struct defer *defer)
{
    struct proxy *p = container_of(defer, struct proxy, drained);

    p->on_drained(p->on_drained_arg);
}

static void look_if_drained(struct proxy *p)
{
    if (p->env.draining && p->on_drained != NULL && TAILQ_EMPTY(&p->callers)) {
        timer_clear(&p->drain_timer);
        loop_defer(p->env.loop, &p->drained, drained_due);
    }
}

static void caller_closed(struct caller *caller)
{
    struct proxy *p = container_of(caller->env, struct proxy, env);

    must_be(p, PROXY_MAGIC);
    TAILQ_REMOVE(&p->callers, caller, link);
    if (caller->over_limit) {
        p->over_limit_count--;
    } else {
        p->callers_count--;
    }
    mem_free(caller->user);
    mem_free(caller);
    look_if_drained(p);
}

static void accepted(void *arg, int fd, const struct addr *peer, const struct addr *local)
{
    struct proxy *p = arg;
    bool over_limit = p->callers_count >= p->max_callers;

    must_be(p, PROXY_MAGIC);
    if (over_limit && p->over_limit_count >= OVER_LIMIT_TOLD) {
        close(fd);
        return;
    }
    struct caller *caller = caller_new(&p->env, fd, peer, local, caller_closed);
    caller->over_limit = over_limit;
    TAILQ_INSERT_TAIL(&p->callers, caller, link);
    if (over_limit) {
        p->over_limit_count++;
        caller_refuse(caller);
    } else {
        p->callers_count++;
    }
}

struct proxy *proxy_new(struct loop *loop, const struct conf *conf, struct outbound *outbound,
                        struct upstreams *upstreams, int64_t max_connections)
{
    const struct proxy_conf *pc = &conf->proxy;
    struct parse_limits limits = {.max_head_bytes = (size_t)pc->max_head_bytes,
                                  .max_fields = (unsigned)pc->max_headers};
    struct proxy *p = mem_zalloc(sizeof(*p));
    uint64_t id;

    p->magic = PROXY_MAGIC;
    TAILQ_INIT(&p->callers);
    p->max_callers = max_connections;
    must(getrandom(&id, sizeof(id), 0) == (ssize_t)sizeof(id));
    snprintf(p->pseudonym, sizeof(p->pseudonym), "sluice-%08llx", (unsigned long long)(id & 0xffffffffU));
    p->env.loop = loop;
    p->env.conf = conf;
    p->env.outbound = outbound;
    p->env.upstreams = upstreams;
    p->env.conn.loop = loop;
    p->env.conn.parse = limits;
    p->env.conn.head_timeout_us = pc->head_timeout_us;
    p->env.conn.keepalive_timeout_us = pc->keepalive_timeout_us;
    p->env.conn.body_timeout_us = conf->fallback->body_timeout_us;
    p->env.transfer.loop = loop;
    p->env.transfer.parse = limits;
    p->env.tunnels = tunnels_new();
    p->env.counters = counters_new(conf);
    p->env.transfer.via.pseudonym = p->pseudonym;
    /* all replicas know this, and whoever may look into their Redis */
    p->env.secret = mem_printf("sluice outbound %s %s", conf->redis.prefix,
                               conf->redis.password != NULL ? conf->redis.password : "");
    return p;
}

bool proxy_load_users(struct proxy *p, struct err *err)
{
    if (p->env.conf->proxy.auth == NULL) {
        return true;
    }
    p->env.users = users_load(p->env.conf->proxy.auth, err);
    return p->env.users != NULL;
}

bool proxy_load_authority(struct proxy *p, struct err *err)
{
    if (p->env.conf->proxy.ca_dir == NULL) {
        return true;
    }
    p->env.authority = authority_load(p->env.conf->proxy.ca_dir, err);
    return p->env.authority != NULL;
}

static void close_listeners(struct proxy *p)
{
    for (unsigned i = 0; i < p->listeners_count; i++) {
        listener_free(p->listeners[i]);
    }
    mem_free(p->listeners);
    p->listeners = NULL;
    p->listeners_count = 0;
}

bool proxy_listen(struct proxy *p, struct err *err)
{
    const struct proxy_conf *pc = &p->env.conf->proxy;

    p->listeners = mem_zalloc(pc->listen_count * sizeof(p->listeners[0]));
    for (unsigned i = 0; i < pc->listen_count; i++) {
        char text[ADDR_TEXT_BYTES];
        struct listener *l = listener_new(p->env.loop, &pc->listen[i], accepted, p, err);
        if (l == NULL) {
            close_listeners(p);
            return false;
        }
        p->listeners[p->listeners_count++] = l;
        addr_format(listener_address(l), false, text);
        log_line(LOG_INFO, "listening", LOG_STR("address", text), LOG_END);
    }
    return true;
}

/* `next` is read first: a callee may close the caller, though its memory stays until the turn ends. */
static void each_caller(struct proxy *p, void (*visit)(struct caller *caller))
{
    struct caller *caller = TAILQ_FIRST(&p->callers);

    while (caller != NULL) {
        struct caller *next = TAILQ_NEXT(caller, link);
        visit(caller);
        caller = next;
    }
}

static void drain_over(struct timer *timer, struct mono now)
{
    struct proxy *p = container_of(timer, struct proxy, drain_timer);

    (void)now;
    log_line(LOG_WARN, "drain_timeout", LOG_INT("callers", p->callers_count), LOG_END);
    each_caller(p, caller_stop);
}

void proxy_drain(struct proxy *p, void (*done)(void *arg), void *arg)
{
    must_be(p, PROXY_MAGIC);
    p->env.draining = true;
    p->on_drained = done;
    p->on_drained_arg = arg;
    close_listeners(p);
    timer_set(p->env.loop, &p->drain_timer, mono_add(loop_now(p->env.loop), p->env.conf->proxy.drain_timeout_us),
              drain_over);
    each_caller(p, caller_drain);
    look_if_drained(p);
}

void proxy_stop(struct proxy *p)
{
    must_be(p, PROXY_MAGIC);
    close_listeners(p);
    timer_clear(&p->drain_timer);
    p->env.draining = true;
    p->on_drained = NULL;
    each_caller(p, caller_stop);
}

void proxy_free(struct proxy *p)
{
    must_be(p, PROXY_MAGIC);
    must(TAILQ_EMPTY(&p->callers));
    close_listeners(p);
    loop_defer_cancel(&p->drained);
    users_free(p->env.users);
    tunnels_free(p->env.tunnels);
    counters_free(p->env.counters);
    authority_free(p->env.authority);
    explicit_bzero(p->env.secret, strlen(p->env.secret));
    mem_free(p->env.secret);
    p->magic = 0;
    mem_free(p);
}

unsigned proxy_callers(const struct proxy *p)
{
    return (unsigned)p->callers_count;
}

void proxy_stats(const struct proxy *p, struct proxy_stats *out)
{
    must_be(p, PROXY_MAGIC);
    *out = (struct proxy_stats){.callers = (unsigned)p->callers_count,
                                .max_callers = p->max_callers,
                                .queued_bytes = p->env.queued_bytes,
                                .max_queued_bytes = p->env.conf->proxy.max_queued_bytes,
                                .draining = p->env.draining};
    for (unsigned i = 0; i < p->listeners_count; i++) {
        out->starved += listener_starved(p->listeners[i]);
    }
}

int64_t proxy_each_busiest(const struct proxy *p, unsigned most, void (*each)(void *arg, const char *name, uint64_t count),
                           void *arg)
{
    must_be(p, PROXY_MAGIC);
    return busiest_each(counters_busiest(p->env.counters), loop_now(p->env.loop), most, each, arg);
}

const struct destination_stats *proxy_destination(const struct proxy *p, const char *label)
{
    must_be(p, PROXY_MAGIC);
    return counters_look(p->env.counters, label);
}

void proxy_each_destination(const struct proxy *p, void (*each)(void *arg, const struct destination_stats *stats), void *arg)
{
    must_be(p, PROXY_MAGIC);
    counters_each(p->env.counters, each, arg);
}
