/*
 * What differs between two sets of settings.
 *
 * Fields are compared and not texts of files, so that a comment, an order or another spelling is no difference. The key
 * table says where a field is and how it is shown, hence a new key is told of without a line here. Numbers, choices and
 * strings are compared as they are, since ten thousand destinations have a quarter of a million of them; lists are
 * compared as they are printed.
 *
 * A change in [default] shows in every destination that does not set the key itself. It is told once: a difference that
 * equals [default]'s, before and after, is not repeated.
 *
 * Runs in the thread that reads settings, not in the loop, and touches nothing but the two of them.
 */
#include "conf/change.h"

#include "base/mem.h"
#include "conf/build.h"
#include "conf/value.h"

#include <string.h>
#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#define uthash_fatal(why) wrong(why)
#include <uthash.h>

struct comparing {
    change_visit *each;
    void *arg;
};

/* A section before and after; NULL: not there. */
struct pair {
    const char *kind, *label; /* "destination ", "edgar" */
    enum key_scope scope;
    const void *from, *to;
    const void *base_from, *base_to; /* what it inherits from; NULL: nothing */
};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_url(const struct redis_conf *a, const struct redis_conf *b)
{
    return same_text(a->url, b->url) && same_text(a->password, b->password);
}

static bool same_print(const struct key *key, const void *a, const void *b)
{
    struct buf left = {0}, right = {0};
    bool same = value_print(key, a, &left) == value_print(key, b, &right) && buf_len(&left) == buf_len(&right) &&
                (buf_len(&left) == 0 || memcmp(buf_ptr(&left), buf_ptr(&right), buf_len(&left)) == 0);

    buf_fini(&left);
    buf_fini(&right);
    return same;
}

static bool same_hosts(const struct policy *a, const struct policy *b)
{
    bool same = a->hosts_count == b->hosts_count;

    for (unsigned i = 0; same && i < a->hosts_count; i++) {
        const struct host_pattern *left = &a->hosts[i], *right = &b->hosts[i];
        same = left->wildcard == right->wildcard && left->port == right->port && strcmp(left->host, right->host) == 0;
    }
    return same;
}

static bool same_value(const struct key *key, const void *a, const void *b)
{
    const char *left = (const char *)a + key->offset, *right = (const char *)b + key->offset;

    switch (key->type) {
    case KEY_COUNT:
    case KEY_DURATION:
    case KEY_SIZE:
    case KEY_OPTIONAL:
        return *(const int64_t *)(const void *)left == *(const int64_t *)(const void *)right;
    case KEY_RATE:
        return memcmp(left, right, sizeof(struct rate)) == 0;
    case KEY_CHOICE:
        return *(const int *)(const void *)left == *(const int *)(const void *)right;
    case KEY_SWITCH:
        return *(const bool *)left == *(const bool *)right;
    case KEY_FILE:
    case KEY_PREFIX:
    case KEY_TOKEN:
    case KEY_LABEL:
    case KEY_GLOB:
    case KEY_WORD:
        return same_text(*(char *const *)(const void *)left, *(char *const *)(const void *)right);
    case KEY_URL:
        return same_url(a, b);
    case KEY_HOSTS:
        return same_hosts(a, b);
    case KEY_LISTEN:
    case KEY_PORTS:
    case KEY_RANGES:
    case KEY_UPSTREAMS:
    case KEY_METHODS:
    case KEY_CALLERS:
    case KEY_ORIGIN:
    case KEY_ANSWERS:
    case KEY_BUDGETS:
    case KEY_ERRORS:
    case KEY_FIELDS:
    case KEY_FROM:
    case KEY_LINES:
    case KEY_PAUSES:
    case KEY_STATUSES:
    case KEY_QUOTAS:
    case KEY_PARTS:
    case KEY_COST_ANSWER:
    case KEY_MATCH:
    case KEY_SHARERS:
    case KEY_WEIGHTS:
    case KEY_MATCHES:
        return same_print(key, a, b);
    }
    wrong("no such type of key");
}

static char *print(const struct key *key, const void *record)
{
    struct buf text = {0};
    char *copy = value_print(key, record, &text) && buf_len(&text) > 0 ? mem_strndup(buf_ptr(&text), buf_len(&text))
                                                                       : mem_strdup("");

    buf_fini(&text);
    return copy;
}

static void tell(const struct comparing *c, const struct pair *pair, const struct key *key)
{
    char *section = mem_printf("%s%s", pair->kind, pair->label);
    char *from = key != NULL ? print(key, pair->from) : mem_strdup(pair->from != NULL ? "there" : "");
    char *to = key != NULL ? print(key, pair->to) : mem_strdup(pair->to != NULL ? "there" : "");
    struct change change = {section, key != NULL ? key->name : NULL, from, to, key == NULL || key->reloadable};

    c->each(c->arg, &change);
    mem_free(section);
    mem_free(from);
    mem_free(to);
}

static bool is_inherited(const struct pair *pair, const struct key *key)
{
    bool can_be = (key->scope & IN_DEFAULT) != 0 || (pair->scope == IN_ROUTE && (key->scope & IN_DESTINATION) != 0);

    return can_be && pair->base_from != NULL && same_value(key, pair->from, pair->base_from) &&
           same_value(key, pair->to, pair->base_to);
}

static void compare(const struct comparing *c, const struct pair *pair)
{
    size_t count;
    const struct key *keys = keys_all(&count);

    if (pair->from == NULL || pair->to == NULL) {
        tell(c, pair, NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct key *key = &keys[i];
        if ((key->scope & pair->scope) != 0 && !same_value(key, pair->from, pair->to) && !is_inherited(pair, key)) {
            tell(c, pair, key);
        }
    }
}

/* ---- sections by name ---- */

struct named {
    UT_hash_handle hh;
    const void *record;
    bool found;
};

static struct named *index_policies(const struct conf *conf, struct named *room)
{
    struct named *index = NULL;

    for (unsigned i = 0; i < conf->policies_count; i++) {
        const char *label = conf->policies[i]->label;
        room[i] = (struct named){.record = conf->policies[i]};
        HASH_ADD_KEYPTR(hh, index, label, strlen(label), &room[i]);
    }
    return index;
}

static void compare_destinations(const struct comparing *c, const struct conf *from, const struct conf *to)
{
    struct named *room = mem_zalloc((from->policies_count + 1) * sizeof(*room));
    struct named *index = index_policies(from, room), *old;

    for (unsigned i = 0; i < to->policies_count; i++) {
        const struct policy *policy = to->policies[i];
        HASH_FIND_STR(index, policy->label, old);
        struct pair pair = {"destination ",  policy->label, IN_DESTINATION, old != NULL ? old->record : NULL, policy,
                            from->fallback, to->fallback};
        compare(c, &pair);
        if (old != NULL) {
            old->found = true;
        }
    }
    for (unsigned i = 0; i < from->policies_count; i++) {
        if (!room[i].found) {
            compare(c, &(struct pair){"destination ", from->policies[i]->label, IN_DESTINATION, from->policies[i], NULL,
                                      NULL, NULL});
        }
    }
    HASH_CLEAR(hh, index);
    mem_free(room);
}

static const struct policy *find_route(const struct conf *conf, const char *label)
{
    for (unsigned i = 0; i < conf->routes_count; i++) {
        if (strcmp(conf->routes[i]->label, label) == 0) {
            return conf->routes[i];
        }
    }
    return NULL;
}

/* A route has what its destination has. */
static void compare_routes(const struct comparing *c, const struct conf *from, const struct conf *to)
{
    for (unsigned i = 0; i < to->routes_count; i++) {
        const struct policy *route = to->routes[i], *old = find_route(from, route->label);
        compare(c, &(struct pair){"route ", route->label, IN_ROUTE, old, route, old != NULL ? old->parent : NULL,
                                  route->parent});
    }
    for (unsigned i = 0; i < from->routes_count; i++) {
        if (find_route(to, from->routes[i]->label) == NULL) {
            compare(c, &(struct pair){"route ", from->routes[i]->label, IN_ROUTE, from->routes[i], NULL, NULL, NULL});
        }
    }
}

static const struct inbound_conf *find_place(const struct conf *conf, const char *label)
{
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        if (strcmp(conf->inbounds[i]->label, label) == 0) {
            return conf->inbounds[i];
        }
    }
    return NULL;
}

/* The index of that rule, or -1. */
static int find_rule(const struct inbound_conf *place, const char *label)
{
    for (unsigned i = 0; place != NULL && i < place->rules_count; i++) {
        if (strcmp(place->rules[i]->label, label) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static void compare_rule(const struct comparing *c, const struct inbound_conf *from, const struct inbound_conf *to,
                         const char *label)
{
    int before = find_rule(from, label), after = find_rule(to, label);
    struct inbound_record old, new;
    struct pair pair = {"inbound-rule ", label, IN_INBOUND_RULE, NULL, NULL, NULL, NULL};

    if (before >= 0) {
        old = inbound_view(from, (unsigned)before);
        pair.from = &old;
    }
    if (after >= 0) {
        new = inbound_view(to, (unsigned)after);
        pair.to = &new;
    }
    if (before == 0 && after == 0) { /* the section's own limit, and the section */
        pair = (struct pair){"inbound ", from->label, IN_INBOUND, &old, &new, NULL, NULL};
    }
    compare(c, &pair);
}

static void compare_place(const struct comparing *c, const struct inbound_conf *from, const struct inbound_conf *to)
{
    if (from == NULL || to == NULL) {
        compare(c, &(struct pair){"inbound ", (from != NULL ? from : to)->label, IN_INBOUND, from, to, NULL, NULL});
        return;
    }
    for (unsigned i = 0; i < to->rules_count; i++) {
        compare_rule(c, from, to, to->rules[i]->label);
    }
    for (unsigned i = 0; i < from->rules_count; i++) {
        if (find_rule(to, from->rules[i]->label) < 0) {
            compare_rule(c, from, to, from->rules[i]->label);
        }
    }
}

void change_each(const struct conf *from, const struct conf *to, change_visit *each, void *arg)
{
    const struct comparing c = {each, arg};

    compare(&c, &(struct pair){"proxy", "", IN_PROXY, &from->proxy, &to->proxy, NULL, NULL});
    compare(&c, &(struct pair){"redis", "", IN_REDIS, &from->redis, &to->redis, NULL, NULL});
    compare(&c, &(struct pair){"admin", "", IN_ADMIN, &from->admin, &to->admin, NULL, NULL});
    compare(&c, &(struct pair){"default", "", IN_DEFAULT, from->fallback, to->fallback, NULL, NULL});
    compare_destinations(&c, from, to);
    compare_routes(&c, from, to);
    for (unsigned i = 0; i < to->inbounds_count; i++) {
        compare_place(&c, find_place(from, to->inbounds[i]->label), to->inbounds[i]);
    }
    for (unsigned i = 0; i < from->inbounds_count; i++) {
        if (find_place(to, from->inbounds[i]->label) == NULL) {
            compare_place(&c, from->inbounds[i], NULL);
        }
    }
}

/* ---- what stays ---- */

static size_t size_of(const struct key *key)
{
    switch (key->type) {
    case KEY_COUNT:
    case KEY_DURATION:
    case KEY_SIZE:
        return sizeof(int64_t);
    case KEY_CHOICE:
        return sizeof(int);
    case KEY_FILE:
    case KEY_PREFIX:
        return sizeof(char *);
    default:
        wrong("a key of [proxy] of this type has to be reloadable");
    }
}

static void swap_bytes(void *a, void *b, size_t len)
{
    char kept[sizeof(struct redis_conf) > sizeof(struct admin_conf) ? sizeof(struct redis_conf)
                                                                    : sizeof(struct admin_conf)];

    must(len <= sizeof(kept));
    memcpy(kept, a, len);
    memcpy(a, b, len);
    memcpy(b, kept, len);
}

void change_keep_fixed(struct conf *running, struct conf *next)
{
    size_t count;
    const struct key *keys = keys_all(&count);

    for (size_t i = 0; i < count; i++) {
        if (keys[i].scope == IN_PROXY && !keys[i].reloadable) {
            swap_bytes((char *)&running->proxy + keys[i].offset, (char *)&next->proxy + keys[i].offset,
                       size_of(&keys[i]));
        }
    }
    swap_bytes(&running->redis, &next->redis, sizeof(running->redis));
    swap_bytes(&running->admin, &next->admin, sizeof(running->admin));
}
