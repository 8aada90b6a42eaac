/* Listeners and callers; how many there may be; how they all come to an end. */
#include "proxy/proxy.h"

#include "base/log.h"
#include "base/mem.h"
#include "proxy/exchange_fsm.h"
#include "proxy/stats.h"
#include "proxy/users.h"
#include "server/listeners.h"

#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

/* How many callers over the limit are told so, at most; more are closed without a word. */
enum { PROXY_MAGIC = 0x70726f78, OVER_LIMIT_TOLD = 64, PSEUDONYM_BYTES = 32, STOP_LINGER_US = 1000000 };

struct proxy {
    uint32_t magic;
    struct proxy_env env;
    struct listeners *listeners;
    struct callers callers;
    int64_t callers_count, over_limit_count, over_limit_most, max_callers;
    struct timer drain_timer;
    bool deaf; /* drain: no listener is left */
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
    if (p->env.draining && p->on_drained != NULL && p->deaf && TAILQ_EMPTY(&p->callers)) {
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

static void accepted(void *arg, void *tag, int fd, const struct addr *peer, const struct addr *local)
{
    struct proxy *p = arg;
    bool over_limit = p->callers_count >= p->max_callers;

    (void)tag;
    must_be(p, PROXY_MAGIC);
    if (over_limit && p->over_limit_count >= p->over_limit_most) {
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
        if (p->env.draining) {
            caller_drain(caller);
        }
    }
}

/* Where descriptors are few, those of callers who are only told so must not be the ones that others need. */
static int64_t over_limit_most(const struct conf *conf, int64_t max_connections)
{
    int64_t eighth = max_connections / 8 + 1;

    return max_connections < conf->proxy.max_connections && eighth < OVER_LIMIT_TOLD ? eighth : OVER_LIMIT_TOLD;
}

/* What connections copy of the settings. */
static void apply(struct proxy *p, const struct conf *conf, int64_t max_connections)
{
    const struct proxy_conf *pc = &conf->proxy;
    struct parse_limits limits = {.max_head_bytes = (size_t)pc->max_head_bytes,
                                  .max_fields = (unsigned)pc->max_headers};

    p->max_callers = max_connections;
    p->over_limit_most = over_limit_most(conf, max_connections);
    p->env.conf = conf;
    p->env.conn.parse = limits;
    p->env.conn.head_timeout_us = pc->head_timeout_us;
    p->env.conn.keepalive_timeout_us = pc->keepalive_timeout_us;
    p->env.conn.body_timeout_us = conf->fallback->body_timeout_us;
    p->env.transfer.parse = limits;
    outbound_set_most(p->env.outbound, (unsigned)pc->max_buckets);
}

struct proxy *proxy_new(struct loop *loop, const struct conf *conf, struct outbound *outbound,
                        struct upstreams *upstreams, int64_t max_connections)
{
    struct proxy *p = mem_zalloc(sizeof(*p));
    uint64_t id;

    p->magic = PROXY_MAGIC;
    TAILQ_INIT(&p->callers);
    must(getrandom(&id, sizeof(id), 0) == (ssize_t)sizeof(id));
    snprintf(p->pseudonym, sizeof(p->pseudonym), "sluice-%08llx", (unsigned long long)(id & 0xffffffffU));
    p->env.loop = loop;
    p->env.outbound = outbound;
    p->env.upstreams = upstreams;
    p->env.conn.loop = loop;
    p->env.transfer.loop = loop;
    p->env.tunnels = tunnels_new();
    p->env.counters = counters_new(conf);
    p->env.transfer.via.pseudonym = p->pseudonym;
    p->listeners = listeners_new(loop, accepted, p);
    apply(p, conf, max_connections);
    /* all replicas know this, and whoever may look into their Redis */
    p->env.secret = secret_for_hashes(&conf->redis, "outbound");
    return p;
}

/* ---- settings ---- */

bool proxy_files_read(const struct conf *conf, struct proxy_files *out, struct err *err)
{
    *out = (struct proxy_files){NULL, NULL};
    if (conf->proxy.auth != NULL) {
        out->users = users_load(conf->proxy.auth, err);
    }
    if (conf->proxy.ca_dir != NULL) {
        out->authority = authority_load(conf->proxy.ca_dir, err);
    }
    if ((conf->proxy.auth != NULL && out->users == NULL) || (conf->proxy.ca_dir != NULL && out->authority == NULL)) {
        proxy_files_free(out);
        return false;
    }
    return true;
}

void proxy_files_free(struct proxy_files *files)
{
    users_free(files->users);
    authority_free(files->authority);
    *files = (struct proxy_files){NULL, NULL};
}

bool proxy_prepare(struct proxy *p, const struct conf *conf, struct sockets *sockets, struct err *err)
{
    must_be(p, PROXY_MAGIC);
    for (unsigned i = 0; i < conf->proxy.listen_count; i++) {
        listeners_want(p->listeners, &conf->proxy.listen[i], NULL);
    }
    if (!listeners_open(p->listeners, sockets, "[proxy] listen", err)) {
        listeners_abandon(p->listeners);
        return false;
    }
    return true;
}

void proxy_abandon(struct proxy *p)
{
    listeners_abandon(p->listeners);
}

static void told(void *arg, void *tag, const struct listener *listener, bool opened)
{
    char text[ADDR_TEXT_BYTES];

    (void)arg;
    (void)tag;
    addr_format(listener_address(listener), false, text);
    log_line(LOG_INFO, opened ? "listening" : "listening_no_more", LOG_STR("address", text), LOG_END);
    if (opened && listener_is_shared(listener)) {
        log_line(LOG_WARN, "listening_shared", LOG_STR("address", text),
                 LOG_STR("meaning", "another process listens here too, and gets a share of the callers"), LOG_END);
    }
}

/* A CA that is still the same keeps its certificates for single hosts. */
static void take_files(struct proxy *p, struct proxy_files *files)
{
    struct proxy_files old = {p->env.users, p->env.authority};

    p->env.users = files->users;
    files->users = old.users;
    if (old.authority == NULL || files->authority == NULL || !authority_is_same(old.authority, files->authority)) {
        p->env.authority = files->authority;
        files->authority = old.authority;
    }
}

void proxy_adopt(struct proxy *p, const struct conf *conf, int64_t max_connections, struct proxy_files *files)
{
    must_be(p, PROXY_MAGIC);
    apply(p, conf, max_connections);
    take_files(p, files);
    listeners_commit(p->listeners, told);
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
    listeners_close(p->listeners);
    p->deaf = true;
    each_caller(p, caller_stop);
    look_if_drained(p);
}

static void turned_deaf(void *arg)
{
    struct proxy *p = arg;

    must_be(p, PROXY_MAGIC);
    p->deaf = true;
    look_if_drained(p);
}

void proxy_drain(struct proxy *p, void (*done)(void *arg), void *arg)
{
    must_be(p, PROXY_MAGIC);
    p->env.draining = true;
    p->on_drained = done;
    p->on_drained_arg = arg;
    listeners_retire(p->listeners, turned_deaf);
    timer_set(p->env.loop, &p->drain_timer, mono_add(loop_now(p->env.loop), p->env.conf->proxy.drain_timeout_us),
              drain_over);
    each_caller(p, caller_drain);
}

void proxy_stop(struct proxy *p)
{
    must_be(p, PROXY_MAGIC);
    listeners_close(p->listeners);
    timer_clear(&p->drain_timer);
    p->env.draining = true;
    p->on_drained = NULL;
    each_caller(p, caller_stop);
}

void proxy_free(struct proxy *p)
{
    must_be(p, PROXY_MAGIC);
    must(TAILQ_EMPTY(&p->callers));
    listeners_free(p->listeners);
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
    out->starved = listeners_starved(p->listeners);
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
