/*
 * What owners see: one link, whether there is one server behind it or a cluster of them.
 *
 *   a server, Sentinel's primary    link -> node
 *   a cluster as a whole            link -> cluster -> member -> node      (by the first key of a call)
 *   one server of a cluster         link (a "view", made by link_for) -> that node
 *
 * A view exists for whoever must know which server it talks to: the pacer, whose slots are on that server's clock and
 * whose epochs go by its run id. A view is made once for each server and lives as long as the cluster's link; what
 * moves is which view a key belongs to, and on_moved says so. The admission doesn't care, asks the cluster as a whole
 * and has its calls sent on.
 *
 * The cluster as a whole is UP while any server is: part of the keys can be served then.
 */
#include "redis/link.h"

#include "base/mem.h"
#include "redis/cluster.h"
#include "redis/node.h"
#include "redis/secure.h"

#include <string.h>

#define LINK_MAGIC 0x6c696e6bu
enum { LISTENERS_MAX = 1024 };

struct listener {
    const struct link_ops *ops;
    void *arg;
    bool told_up;
};

struct link {
    uint32_t magic;
    struct loop *loop;
    struct node *node;          /* NULL: a cluster as a whole */
    struct cluster *cluster;    /* of that one only */
    struct node_shared *shared; /* owned, but for a view, which has its cluster's */
    SLIST_HEAD(, link) views;
    SLIST_ENTRY(link) next;
    unsigned members_up;
    struct mono changed;
    struct listener *listeners;
    unsigned listeners_count;
    struct defer announce;
    bool calling; /* a callback is running */
};

static bool is_up(const struct link *link)
{
    return link->node != NULL ? node_state(link->node) == LINK_UP : link->members_up > 0;
}

/* ---- listeners ---- */

static void tell_up(struct link *link)
{
    for (unsigned i = 0; i < link->listeners_count && is_up(link); i++) {
        struct listener *listener = &link->listeners[i];
        if (!listener->told_up) {
            listener->told_up = true;
            link->calling = true;
            listener->ops->on_up(listener->arg, link_run_id(link));
            link->calling = false;
        }
    }
}

static void tell_down(struct link *link, const char *why)
{
    for (unsigned i = 0; i < link->listeners_count; i++) {
        struct listener *listener = &link->listeners[i];
        if (listener->told_up) {
            listener->told_up = false;
            link->calling = true;
            listener->ops->on_down(listener->arg, why);
            link->calling = false;
        }
    }
}

static void announce(struct defer *defer)
{
    struct link *link = container_of(defer, struct link, announce);

    must_be(link, LINK_MAGIC);
    tell_up(link);
}

/* ---- one server ---- */

static void node_up(void *arg)
{
    struct link *link = arg;

    must_be(link, LINK_MAGIC);
    tell_up(link);
}

static void node_down(void *arg, const char *why)
{
    struct link *link = arg;

    must_be(link, LINK_MAGIC);
    tell_down(link, why);
}

/* ---- a cluster ---- */

static void member_up(void *arg, struct member *member)
{
    struct link *link = arg;

    must_be(link, LINK_MAGIC);
    if (link->members_up++ == 0) {
        link->changed = loop_now(link->loop);
    }
    if (member->view != NULL) {
        tell_up(member->view);
    }
    tell_up(link);
}

static void member_down(void *arg, struct member *member, const char *why)
{
    struct link *link = arg;

    must_be(link, LINK_MAGIC);
    must(link->members_up > 0);
    if (member->view != NULL) {
        tell_down(member->view, why);
    }
    if (--link->members_up == 0) {
        link->changed = loop_now(link->loop);
        tell_down(link, why);
    }
}

static void moved(void *arg)
{
    struct link *link = arg;

    must_be(link, LINK_MAGIC);
    for (unsigned i = 0; i < link->listeners_count; i++) {
        if (link->listeners[i].ops->on_moved != NULL) {
            link->calling = true;
            link->listeners[i].ops->on_moved(link->listeners[i].arg);
            link->calling = false;
        }
    }
}

static struct link *view_of(struct link *link, struct member *member)
{
    struct link *view = member->view;

    if (view == NULL) {
        member->view = view = mem_zalloc(sizeof(*view));
        view->magic = LINK_MAGIC;
        view->loop = link->loop;
        view->node = member->node;
        view->shared = link->shared;
        SLIST_INSERT_HEAD(&link->views, view, next);
    }
    return view;
}

/* ---- life ---- */

bool link_check(const struct redis_conf *conf, struct err *err)
{
    char why[SECURE_WHY_BYTES];
    SSL_CTX *tls = conf->tls ? secure_context(conf, why) : NULL;

    if (conf->tls && tls == NULL) {
        err_add(err, "%s", why);
        return false;
    }
    SSL_CTX_free(tls);
    return true;
}

static struct node_shared *share(struct loop *loop, const struct redis_conf *conf, const struct script *const *scripts,
                                 unsigned scripts_count)
{
    struct node_shared *shared = mem_zalloc(sizeof(*shared));
    char why[SECURE_WHY_BYTES];

    shared->loop = loop;
    shared->tls = conf->tls ? secure_context(conf, why) : NULL; /* link_check() has told of it */
    script_set_init(&shared->scripts, scripts, scripts_count);
    histogram_init(&shared->trips, &histogram_trips);
    return shared;
}

struct link *link_new(struct loop *loop, const struct redis_conf *conf, const struct script *const *scripts,
                      unsigned scripts_count)
{
    static const struct node_ops node_calls = {.on_up = node_up, .on_down = node_down};
    static const struct cluster_ops cluster_calls = {member_up, member_down, moved};
    struct link *link = mem_zalloc(sizeof(*link));

    link->magic = LINK_MAGIC;
    link->loop = loop;
    link->shared = share(loop, conf, scripts, scripts_count);
    link->changed = loop_now(loop);
    SLIST_INIT(&link->views);
    if (conf->kind == REDIS_CLUSTER) {
        link->cluster = cluster_new(link->shared, conf, &cluster_calls, link);
    } else {
        link->node = node_new(link->shared, conf, &node_calls, link);
    }
    return link;
}

static void end(struct link *link)
{
    must_be(link, LINK_MAGIC);
    must(!link->calling);
    loop_defer_cancel(&link->announce);
    mem_free(link->listeners);
    link->magic = 0;
    mem_free(link);
}

void link_free(struct link *link)
{
    must_be(link, LINK_MAGIC);
    struct node_shared *shared = link->shared;
    struct link *view;

    if (link->cluster != NULL) {
        cluster_free(link->cluster);
    } else {
        node_free(link->node);
    }
    while ((view = SLIST_FIRST(&link->views)) != NULL) {
        SLIST_REMOVE_HEAD(&link->views, next);
        end(view);
    }
    end(link);
    script_set_fini(&shared->scripts);
    SSL_CTX_free(shared->tls);
    mem_free(shared);
}

/* ---- for owners ---- */

void link_listen(struct link *link, const struct link_ops *ops, void *arg)
{
    must_be(link, LINK_MAGIC);
    must(link->listeners_count < LISTENERS_MAX && !link->calling);
    link->listeners = mem_realloc(link->listeners, (link->listeners_count + 1) * sizeof(link->listeners[0]));
    link->listeners[link->listeners_count++] = (struct listener){.ops = ops, .arg = arg};
    if (is_up(link)) {
        loop_defer(link->loop, &link->announce, announce);
    }
}

void link_start(struct link *link)
{
    must_be(link, LINK_MAGIC);
    if (link->cluster != NULL) {
        cluster_start(link->cluster);
    } else {
        node_start(link->node);
    }
}

struct link *link_for(struct link *link, const char *key)
{
    must_be(link, LINK_MAGIC);
    struct member *member = link->cluster != NULL ? cluster_find(link->cluster, key) : NULL;
    return member != NULL ? view_of(link, member) : link;
}

enum link_state link_state(const struct link *link)
{
    must_be(link, LINK_MAGIC);
    if (link->node != NULL) {
        return node_state(link->node);
    }
    return link->members_up > 0 ? LINK_UP : LINK_CONNECTING;
}

const char *link_state_text(enum link_state state)
{
    return node_state_text(state);
}

void link_stats(const struct link *link, struct link_stats *out)
{
    must_be(link, LINK_MAGIC);
    *out = (struct link_stats){.state = link_state(link),
                               .since = link->node != NULL ? node_changed(link->node) : link->changed,
                               .ups = link->shared->ups,
                               .lost = link->shared->lost,
                               .trips = &link->shared->trips};
}

const char *link_run_id(const struct link *link)
{
    must_be(link, LINK_MAGIC);
    return link->node != NULL ? node_run_id(link->node) : "";
}

bool link_eval(struct link *link, struct link_call *call, const struct script *script, const char *const *keys,
               unsigned keys_count, const char *const *args, unsigned args_count)
{
    must_be(link, LINK_MAGIC);
    struct node *node = link->node;

    if (link->cluster != NULL) {
        must(keys_count > 0);
        const struct member *member = cluster_find(link->cluster, keys[0]);
        node = member != NULL ? member->node : NULL;
    }
    return node != NULL &&
           node_eval(node, call, script, (struct words){keys, keys_count}, (struct words){args, args_count});
}

bool link_command(struct link *link, struct link_call *call, const char *const *words, unsigned words_count)
{
    must_be(link, LINK_MAGIC);
    must(link->node != NULL);
    return node_command(link->node, call, (struct words){words, words_count});
}

void link_forget(struct link *link, struct link_call *call)
{
    must_be(link, LINK_MAGIC);
    if (call->in_flight) {
        node_forget(call->node, call);
    }
}
