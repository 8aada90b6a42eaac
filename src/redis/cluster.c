/*
 * A map of slots to servers, kept right in three ways:
 *
 *   all of it   CLUSTER SLOTS, asked of one server after the other: at the start, when a connection is lost or a call
 *               was sent on, again and again while any part has no server that answers, and now and then anyway
 *   one slot    MOVED, at once
 *   not at all  ASK: one call goes elsewhere, the slot stays where it is
 *
 *   MOVED, ASK -> another server takes the call over, which has not run -> ... up to HOPS_MOST times, else lost
 *             \-> a pinned call is not sent on: it names the server it was meant for
 *
 * A server that is cut off from the rest goes on to show an old map, itself in it, and refuses all calls; so whoever
 * was asked last is asked last the next time when there was trouble.
 *
 * Every primary has a connection of its own from the moment it is in the map. One that is in it no longer is left, but
 * its member stays, since others may hold it; servers are few and come back.
 */
#include "redis/cluster.h"

#include "base/log.h"
#include "base/mem.h"
#include "redis/backoff.h"
#include "redis/inquiry.h"
#include "redis/slotmap.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define CLUSTER_MAGIC 0x636c7573u
#define SOON_US (20 * CLOCK_MS_US)
#define CALM_US (5 * CLOCK_SECOND_US)
#define ASKED_US (30 * CLOCK_SECOND_US)
enum { MEMBERS_MAX = 1000, HOPS_MOST = 3 };

struct cluster {
    uint32_t magic;
    struct node_shared *shared;
    const struct cluster_ops *ops;
    void *arg;
    struct redis_conf conf; /* own copy; host, port, kind are those of one server */
    struct redis_host *seeds;
    unsigned seeds_count;
    TAILQ_HEAD(, member) members;
    unsigned count;
    struct member *map[SLOTMAP_SLOTS];
    struct member *fresh[SLOTMAP_SLOTS]; /* being read */
    const struct redis_host *asked;      /* who said it */
    struct inquiry *inquiry;
    struct timer timer; /* to the next look at all of it */
    struct backoff backoff;
    struct defer moved;
    char logged[INQUIRY_WHY_BYTES];
};

static void look_due(struct timer *timer, struct mono now);
static const struct node_ops node_calls;

/* ---- members ---- */

/* NULL when there are too many. */
static struct member *member_at(struct cluster *cluster, const char *host, uint16_t port)
{
    struct member *member;

    TAILQ_FOREACH(member, &cluster->members, link)
    {
        if (member->host.port == port && strcmp(member->host.host, host) == 0) {
            return member;
        }
    }
    if (cluster->count == MEMBERS_MAX) {
        return NULL;
    }
    member = mem_zalloc(sizeof(*member));
    member->cluster = cluster;
    member->host = (struct redis_host){mem_strdup(host), port};
    struct redis_conf conf = cluster->conf;
    conf.host = member->host.host;
    conf.port = port;
    member->node = node_new(cluster->shared, &conf, &node_calls, member);
    TAILQ_INSERT_TAIL(&cluster->members, member, link);
    cluster->count++;
    return member;
}

static bool is_wanted(const struct member *member, struct mono now)
{
    return member->in_map || mono_before(now, member->wanted_until);
}

/* ---- the next look ---- */

static void look_in(struct cluster *cluster, int64_t in_us)
{
    struct mono at = mono_add(loop_now(cluster->shared->loop), in_us);

    if (inquiry_is_running(cluster->inquiry) ||
        (timer_is_set(&cluster->timer) && !mono_before(at, cluster->timer.at))) {
        return;
    }
    timer_set(cluster->shared->loop, &cluster->timer, at, look_due);
}

static void trouble(struct cluster *cluster)
{
    inquiry_doubt(cluster->inquiry);
    look_in(cluster, SOON_US);
}

static bool is_whole(const struct cluster *cluster)
{
    for (unsigned i = 0; i < SLOTMAP_SLOTS; i++) {
        if (cluster->map[i] == NULL || node_state(cluster->map[i]->node) != LINK_UP) {
            return false;
        }
    }
    return true;
}

static bool is_in_map(const struct cluster *cluster, const struct redis_host *host)
{
    const struct member *member;

    TAILQ_FOREACH(member, &cluster->members, link)
    {
        if (member->in_map && member->host.port == host->port && strcmp(member->host.host, host->host) == 0) {
            return true;
        }
    }
    return false;
}

/* Whom to ask: those who were in the map last, then the hosts of the settings. */
static void set_hosts(struct cluster *cluster)
{
    struct redis_host *hosts = mem_alloc((cluster->count + cluster->seeds_count) * sizeof(hosts[0]));
    unsigned count = 0;
    const struct member *member;

    TAILQ_FOREACH(member, &cluster->members, link)
    {
        if (member->in_map) {
            hosts[count++] = member->host;
        }
    }
    for (unsigned i = 0; i < cluster->seeds_count; i++) {
        if (!is_in_map(cluster, &cluster->seeds[i])) {
            hosts[count++] = cluster->seeds[i];
        }
    }
    inquiry_set_hosts(cluster->inquiry, hosts, count);
    mem_free(hosts);
}

static void look_due(struct timer *timer, struct mono now)
{
    struct cluster *cluster = container_of(timer, struct cluster, timer);
    must_be(cluster, CLUSTER_MAGIC);

    (void)now;
    set_hosts(cluster);
    inquiry_start(cluster->inquiry);
}

static void plan_next_look(struct cluster *cluster)
{
    if (is_whole(cluster)) {
        backoff_reset(&cluster->backoff);
        look_in(cluster, CALM_US);
    } else {
        inquiry_doubt(cluster->inquiry);
        look_in(cluster, backoff_next_us(&cluster->backoff, BACKOFF_SEARCH_MAX_US));
    }
}

/* ---- a whole map ---- */

static void take_range(void *arg, const struct slotmap_range *range)
{
    struct cluster *cluster = arg;
    const char *host = range->host[0] != '\0' ? range->host : cluster->asked->host;
    struct member *member = member_at(cluster, host, range->port);

    for (unsigned i = range->first; i <= range->last; i++) {
        cluster->fresh[i] = member;
    }
}

static const char *take(void *arg, const struct redisReply *reply, const struct redis_host *asked)
{
    struct cluster *cluster = arg;
    must_be(cluster, CLUSTER_MAGIC);

    memset(cluster->fresh, 0, sizeof(cluster->fresh));
    cluster->asked = asked;
    if (!slotmap_read(reply, take_range, cluster)) {
        return "an answer that is not that of CLUSTER SLOTS";
    }
    for (unsigned i = 0; i < SLOTMAP_SLOTS; i++) {
        if (cluster->fresh[i] != NULL) {
            return NULL;
        }
    }
    return "knows no server that has any slots";
}

static void moved_due(struct defer *defer)
{
    struct cluster *cluster = container_of(defer, struct cluster, moved);
    must_be(cluster, CLUSTER_MAGIC);

    cluster->ops->on_moved(cluster->arg);
}

static void tell_moved(struct cluster *cluster)
{
    loop_defer(cluster->shared->loop, &cluster->moved, moved_due);
}

static void start_and_stop(struct cluster *cluster)
{
    struct mono now = loop_now(cluster->shared->loop);
    struct member *member;

    TAILQ_FOREACH(member, &cluster->members, link)
    {
        member->in_map = false;
    }
    for (unsigned i = 0; i < SLOTMAP_SLOTS; i++) {
        if (cluster->map[i] != NULL) {
            cluster->map[i]->in_map = true;
        }
    }
    TAILQ_FOREACH(member, &cluster->members, link)
    {
        if (is_wanted(member, now)) {
            node_start(member->node);
        } else {
            node_stop(member->node, "no part of the cluster is there any more");
        }
    }
}

static void looked(void *arg, const char *why)
{
    struct cluster *cluster = arg;
    must_be(cluster, CLUSTER_MAGIC);

    if (why != NULL && strcmp(cluster->logged, why) != 0) {
        snprintf(cluster->logged, sizeof(cluster->logged), "%s", why);
        log_line(LOG_WARN, "redis_cluster_unknown", LOG_STR("why", why), LOG_END);
    }
    if (why == NULL) {
        cluster->logged[0] = '\0';
        if (memcmp(cluster->map, cluster->fresh, sizeof(cluster->map)) != 0) {
            memcpy(cluster->map, cluster->fresh, sizeof(cluster->map));
            tell_moved(cluster);
        }
        start_and_stop(cluster);
    }
    plan_next_look(cluster);
}

/* ---- one server ---- */

static void node_up(void *arg)
{
    struct member *member = arg;

    member->cluster->ops->on_up(member->cluster->arg, member);
}

static void node_down(void *arg, const char *why)
{
    struct member *member = arg;

    member->cluster->ops->on_down(member->cluster->arg, member, why);
    trouble(member->cluster);
}

static enum elsewhere follow(struct member *member, struct flight *flight, const struct redisReply *reply, bool asking)
{
    struct cluster *cluster = member->cluster;
    bool pinned = flight->call == NULL || flight->call->pinned;
    struct slotmap_range at;

    if (!slotmap_read_redirection(reply, &at)) {
        return ELSEWHERE_LOST;
    }
    struct member *target = member_at(cluster, at.host[0] != '\0' ? at.host : member->host.host, at.port);
    if (target == NULL) {
        return ELSEWHERE_LOST;
    }
    if (!asking) {
        cluster->map[at.first] = target;
        target->in_map = true;
        tell_moved(cluster);
        look_in(cluster, SOON_US);
    }
    target->wanted_until = mono_add(loop_now(cluster->shared->loop), ASKED_US);
    node_start(target->node);
    if (pinned || target == member || flight->hops++ == HOPS_MOST) {
        return asking && pinned ? ELSEWHERE_TOLD : ELSEWHERE_LOST;
    }
    return node_take_over(target->node, flight, asking) ? ELSEWHERE_TAKEN : ELSEWHERE_LOST;
}

static enum elsewhere node_elsewhere(void *arg, struct flight *flight, const struct redisReply *reply)
{
    struct member *member = arg;
    must_be(member->cluster, CLUSTER_MAGIC);

    if (strncmp(reply->str, "TRYAGAIN", 8) == 0) { /* some keys of a call here, some there, until the slot has moved */
        return flight->call != NULL && flight->call->pinned ? ELSEWHERE_TOLD : ELSEWHERE_LOST;
    }
    return follow(member, flight, reply, strncmp(reply->str, "ASK ", 4) == 0);
}

static const struct node_ops node_calls = {node_up, node_down, node_elsewhere};

/* ---- for the link ---- */

struct cluster *cluster_new(struct node_shared *shared, const struct redis_conf *conf, const struct cluster_ops *ops,
                            void *arg)
{
    static const char *const words[] = {"CLUSTER", "SLOTS"};
    static const struct inquiry_ops calls = {take, looked, "CLUSTER SLOTS refused (is it one of a cluster?)"};
    struct cluster *cluster = mem_zalloc(sizeof(*cluster));

    cluster->magic = CLUSTER_MAGIC;
    cluster->shared = shared;
    cluster->ops = ops;
    cluster->arg = arg;
    redis_conf_copy(&cluster->conf, conf);
    cluster->seeds = cluster->conf.hosts;
    cluster->seeds_count = cluster->conf.hosts_count;
    cluster->conf.hosts = NULL;
    cluster->conf.hosts_count = 0;
    TAILQ_INIT(&cluster->members);
    cluster->inquiry = inquiry_new(shared->loop, &cluster->conf, shared->tls, "cluster server",
                                   (struct words){words, 2}, &calls, cluster);
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    must_be(cluster, CLUSTER_MAGIC);
    struct member *member;

    timer_clear(&cluster->timer);
    loop_defer_cancel(&cluster->moved);
    inquiry_free(cluster->inquiry);
    while ((member = TAILQ_FIRST(&cluster->members)) != NULL) {
        TAILQ_REMOVE(&cluster->members, member, link);
        node_free(member->node);
        mem_free(member->host.host);
        mem_free(member);
    }
    cluster->conf.hosts = cluster->seeds;
    cluster->conf.hosts_count = cluster->seeds_count;
    redis_conf_fini(&cluster->conf);
    cluster->magic = 0;
    mem_free(cluster);
}

void cluster_start(struct cluster *cluster)
{
    must_be(cluster, CLUSTER_MAGIC);
    set_hosts(cluster);
    inquiry_start(cluster->inquiry);
}

struct member *cluster_find(const struct cluster *cluster, const char *key)
{
    must_be(cluster, CLUSTER_MAGIC);
    return cluster->map[slotmap_slot(key)];
}
