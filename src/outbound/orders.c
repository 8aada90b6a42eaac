/*
 * An ordered rate makes a twin of each policy that it concerns: the same settings, another rate. Buckets follow the
 * twin as they follow new settings, so waiters keep their places and are re-timed. A route that has the rate of its
 * destination gets the new one with it; one with a rate of its own keeps that, and is limited by the destination's as
 * before.
 */
#include "outbound/orders.h"

#include "base/mem.h"

#include <string.h>

struct policy_twin {
    struct policy_twin *next;
    struct policy *configured, *twin; /* references */
};

void orders_init(struct orders *orders)
{
    TAILQ_INIT(&orders->list);
}

static void put_twin(struct policy_twin *pair)
{
    policy_put(pair->configured);
    policy_put(pair->twin);
    mem_free(pair);
}

static void end(struct orders *orders, struct standing *it)
{
    struct policy_twin *pair;

    TAILQ_REMOVE(&orders->list, it, link);
    while ((pair = it->twins) != NULL) {
        it->twins = pair->next;
        put_twin(pair);
    }
    mem_free(it->name);
    mem_free(it->who);
    mem_free(it);
}

void orders_fini(struct orders *orders)
{
    struct standing *it;

    while ((it = TAILQ_FIRST(&orders->list)) != NULL) {
        end(orders, it);
    }
}

struct standing *orders_find(const struct orders *orders, enum order_verb verb, const char *name)
{
    struct standing *it;

    TAILQ_FOREACH(it, &orders->list, link)
    {
        if (it->verb == verb && strcmp(it->name, name) == 0) {
            return it;
        }
    }
    return NULL;
}

bool orders_drop(struct orders *orders, enum order_verb verb, const char *name)
{
    struct standing *it = orders_find(orders, verb, name);

    if (it != NULL) {
        end(orders, it);
    }
    return it != NULL;
}

void orders_put(struct orders *orders, const struct order *order, struct mono until)
{
    struct standing *it = mem_zalloc(sizeof(*it));

    must(order->verb == ORDER_PAUSE || order->verb == ORDER_RATE);
    it->verb = order->verb;
    it->name = mem_strdup(order->name);
    it->who = mem_strdup(order->who);
    it->rate = order->rate;
    it->until = until;
    it->seen = true;
    orders_drop(orders, order->verb, order->name);
    TAILQ_INSERT_TAIL(&orders->list, it, link);
}

/* ---- whom they concern ---- */

static const struct policy *root(const struct policy *policy)
{
    return policy->parent != NULL ? policy->parent : policy;
}

static bool is_whole(const char *name, const char *destination, const struct policy *policy)
{
    return strcmp(name, destination) == 0 || strcmp(name, root(policy)->label) == 0;
}

bool orders_name_is(const char *name, const struct bucket_id *id, const struct policy *policy)
{
    size_t len = strlen(id->destination);

    return is_whole(name, id->destination, policy) ||
           (strncmp(name, id->destination, len) == 0 && name[len] == ' ' && strcmp(name + len + 1, id->part) == 0);
}

static bool same_rate(const struct rate *a, const struct rate *b)
{
    return a->count == b->count && a->period_us == b->period_us;
}

static struct policy *find_twin(const struct standing *it, const struct policy *configured)
{
    struct policy_twin *pair = it->twins;

    while (pair != NULL && pair->configured != configured) {
        pair = pair->next;
    }
    return pair != NULL ? pair->twin : NULL;
}

/* Settings that nothing but this order refers to any more went with a reload. */
static void forget_unused(struct standing *it)
{
    for (struct policy_twin **at = &it->twins; *at != NULL;) {
        struct policy_twin *pair = *at;
        if (pair->configured->refs == 1 && pair->twin->refs == 1) {
            *at = pair->next;
            put_twin(pair);
        } else {
            at = &pair->next;
        }
    }
}

static struct policy *twin_of(struct standing *it, struct policy *configured)
{
    struct policy *twin = find_twin(it, configured);

    if (twin != NULL) {
        return twin;
    }
    forget_unused(it);
    struct policy_twin *pair = mem_zalloc(sizeof(*pair));
    pair->configured = policy_get(configured);
    struct policy *parent = configured->parent;
    bool follows = parent == NULL || same_rate(&configured->rate, &parent->rate);
    pair->twin = twin = policy_with_rate(configured, follows ? &it->rate : &configured->rate,
                                         parent != NULL ? twin_of(it, parent) : NULL);
    pair->next = it->twins;
    it->twins = pair;
    return twin;
}

struct policy *orders_policy(const struct orders *orders, const struct bucket_id *id, struct policy *policy)
{
    struct standing *it, *found = NULL;

    TAILQ_FOREACH(it, &orders->list, link)
    {
        bool more_exact = found == NULL || strcmp(it->name, id->destination) == 0;
        if (it->verb == ORDER_RATE && more_exact && is_whole(it->name, id->destination, policy)) {
            found = it;
        }
    }
    return found != NULL ? twin_of(found, policy) : policy;
}

int64_t orders_pause_us(const struct orders *orders, const struct bucket_id *id, const struct policy *policy,
                        struct mono now)
{
    const struct standing *it;
    int64_t most = 0;

    TAILQ_FOREACH(it, &orders->list, link)
    {
        int64_t left = mono_diff(it->until, now);
        if (it->verb == ORDER_PAUSE && left > most && orders_name_is(it->name, id, policy)) {
            most = left;
        }
    }
    return most;
}
