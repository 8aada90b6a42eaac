/*
 * From a host and port to its policy.
 *
 * One hash table of patterns, keyed by kind ('=' exact, '*' suffix), port (0 for every port) and name. Looking up
 * a.b.example.com tries = a.b.example.com, then * b.example.com, * example.com, * com, each with the port and then
 * without: two lookups per label, however many destinations there are. The longer name wins over the one with a port,
 * because a name says more about who will answer.
 *
 * Names arrive in the form that hosts.c brings patterns into, except IPv6 literals, which callers may spell in many
 * ways.
 */
#include "base/mem.h"
#include "conf/build.h"

#include <stdio.h>
#include <string.h>
#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#define uthash_fatal(why) wrong(why)
#include <uthash.h>

#define INDEX_MAGIC 0x494e4458u
#define NAME_BYTES_MAX 255

enum kind { KIND_EXACT = '=', KIND_SUFFIX = '*' };

struct route_key {
    unsigned len;
    char bytes[NAME_BYTES_MAX + 3];
};

struct route {
    struct policy *policy; /* borrowed from the conf */
    UT_hash_handle hh;
    char key[];
};

struct conf_route_index {
    uint32_t magic;
    struct route *routes;
};

/* False for a name too long to be one. */
static bool make_key(struct route_key *key, enum kind kind, const char *name, uint16_t port)
{
    size_t len = strlen(name);

    if (len > NAME_BYTES_MAX) {
        return false;
    }
    key->bytes[0] = (char)kind;
    key->bytes[1] = (char)(port >> 8);
    key->bytes[2] = (char)(port & 0xff);
    memcpy(key->bytes + 3, name, len);
    key->len = (unsigned)len + 3;
    return true;
}

static struct policy *find(const struct conf_route_index *index, enum kind kind, const char *name, uint16_t port)
{
    struct route_key key;
    struct route *route = NULL;

    if (make_key(&key, kind, name, port)) {
        HASH_FIND(hh, index->routes, key.bytes, key.len, route);
    }
    return route != NULL ? route->policy : NULL;
}

static struct policy *find_with_port(const struct conf_route_index *index, enum kind kind, const char *name,
                                     uint16_t port)
{
    struct policy *policy = port != 0 ? find(index, kind, name, port) : NULL;

    return policy != NULL ? policy : find(index, kind, name, 0);
}

static struct policy *find_host(const struct conf_route_index *index, const char *host, uint16_t port)
{
    struct policy *policy = find_with_port(index, KIND_EXACT, host, port);
    const char *dot = strchr(host, '.');

    while (policy == NULL && dot != NULL) {
        policy = find_with_port(index, KIND_SUFFIX, dot + 1, port);
        dot = strchr(dot + 1, '.');
    }
    return policy;
}

struct policy *conf_route(const struct conf *conf, const char *host, uint16_t port)
{
    must_be(conf->index, INDEX_MAGIC);
    struct addr addr;
    char shortest[ADDR_TEXT_BYTES];

    if (strchr(host, ':') != NULL && addr_parse_literal(slice_of(host), port, &addr)) {
        addr_format(&addr, true, shortest);
        host = shortest;
    }
    return find_host(conf->index, host, port);
}

static void add_route(struct conf_route_index *index, struct policy *policy, const struct route_key *key)
{
    struct route *route = mem_alloc(sizeof *route + key->len);

    route->policy = policy;
    memcpy(route->key, key->bytes, key->len);
    HASH_ADD_KEYPTR(hh, index->routes, route->key, key->len, route);
}

static void refuse_claim(const struct section *section, const struct host_pattern *pattern, const struct policy *other,
                         struct report *report)
{
    unsigned line = section_line_of(section, "hosts");
    struct place place = {report, line != 0 ? line : section->line, section->title, line != 0 ? "hosts" : NULL};
    char port[8] = "";

    if (pattern->port != 0) {
        (void)snprintf(port, sizeof port, ":%u", pattern->port);
    }
    report_error(&place, "%s%s%s is already in [destination %s] of line %u", pattern->wildcard ? "*." : "",
                 pattern->host, port, other->label, other->line);
}

static void add_policy(struct conf_route_index *index, struct policy *policy, const struct section *section,
                       struct report *report)
{
    for (unsigned i = 0; i < policy->hosts_count; i++) {
        const struct host_pattern *pattern = &policy->hosts[i];
        enum kind kind = pattern->wildcard ? KIND_SUFFIX : KIND_EXACT;
        struct policy *other = find(index, kind, pattern->host, pattern->port);
        struct route_key key;

        if (other != NULL) {
            refuse_claim(section, pattern, other, report);
        } else if (make_key(&key, kind, pattern->host, pattern->port)) {
            add_route(index, policy, &key);
        }
    }
}

void route_build(struct conf *conf, const struct section *const *sections, struct report *report)
{
    conf->index = mem_zalloc(sizeof *conf->index);
    conf->index->magic = INDEX_MAGIC;
    for (unsigned i = 0; i < conf->policies_count; i++) {
        add_policy(conf->index, conf->policies[i], sections[i], report);
    }
}

void route_free(struct conf_route_index *index)
{
    struct route *route, *next;

    if (index == NULL) {
        return;
    }
    must_be(index, INDEX_MAGIC);
    HASH_ITER(hh, index->routes, route, next)
    {
        HASH_DEL(index->routes, route);
        mem_free(route);
    }
    index->magic = ~INDEX_MAGIC;
    mem_free(index);
}
