/*
 * From a request to its bucket:
 *
 *     destination --match--> route --key--> "r=search:k=5f0c..", limited also by --> "k=91aa.."
 *
 * A key's value is hashed with a secret that all replicas have, so that neither Redis nor a log ever holds an API key.
 * Two kinds of key must not meet, so the kind is hashed as well. A request that has none of the keys shares one bucket
 * with all such.
 *
 * Requests inside a tunnel can't be seen: of a CONNECT only what its own head says is known.
 */
#include "proxy/part.h"

#include "base/buf.h"
#include "base/mem.h"
#include "proxy/inbound_key.h"
#include "proxy/inbound_match.h"
#include "proxy/order.h"

#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

enum { HASH_BYTES = 8 };

static bool method_matches(const struct policy *route, struct slice method)
{
    for (unsigned i = 0; i < route->methods_count; i++) {
        if (slice_is(method, route->methods[i])) {
            return true;
        }
    }
    return route->methods_count == 0;
}

static struct policy *route_of(const struct exchange *e)
{
    struct policy *found = NULL;
    struct buf plain = {0};

    if (e->connect || e->policy->routes_count == 0) {
        return NULL;
    }
    inbound_plain_path(&plain, e->target.path);
    struct slice path = {buf_ptr(&plain), buf_len(&plain)};
    for (unsigned i = 0; i < e->policy->routes_count && found == NULL; i++) {
        struct policy *route = e->policy->routes[i];
        found = method_matches(route, e->request->method) && inbound_glob(route->path, path) ? route : NULL;
    }
    buf_fini(&plain);
    return found;
}

/* ---- keys ---- */

static struct slice until(struct slice *text, char mark)
{
    const char *at = text->len > 0 ? memchr(text->ptr, mark, text->len) : NULL;
    struct slice part = {text->ptr, at != NULL ? (size_t)(at - text->ptr) : text->len};

    *text = at != NULL ? (struct slice){at + 1, text->len - part.len - 1} : (struct slice){text->ptr + text->len, 0};
    return part;
}

static bool add_query(struct buf *out, struct slice path, const char *name)
{
    (void)until(&path, '?');
    while (path.len > 0) {
        struct slice value = until(&path, '&'), key = until(&value, '=');
        struct buf plain = {0};
        inbound_decode(&plain, key, true);
        bool same = slice_is((struct slice){buf_ptr(&plain), buf_len(&plain)}, name);
        buf_fini(&plain);
        if (same && value.len > 0) {
            inbound_decode(out, value, true);
            return true;
        }
    }
    return false;
}

static bool add_segment(struct buf *out, struct slice path, unsigned index)
{
    struct buf plain = {0};
    struct slice segment = {NULL, 0};

    inbound_plain_path(&plain, path);
    struct slice rest = {buf_ptr(&plain), buf_len(&plain)};
    (void)until(&rest, '/');
    while (index-- > 0) {
        segment = until(&rest, '/');
    }
    buf_add(out, segment.ptr, segment.len);
    buf_fini(&plain);
    return segment.len > 0;
}

static bool add_bearer(struct buf *out, const struct message *request)
{
    const struct field *field = message_field(request, "Authorization");

    if (field == NULL || field->value.len < 8 || strncasecmp(field->value.ptr, "Bearer ", 7) != 0) {
        return false;
    }
    struct slice token = slice_trim((struct slice){field->value.ptr + 7, field->value.len - 7});
    buf_add(out, token.ptr, token.len);
    return token.len > 0;
}

static bool add_value(struct buf *out, const struct exchange *e, const struct key_source *source)
{
    const struct field *field;

    switch (source->by) {
    case BUCKET_BY_HEADER:
        field = message_field(e->request, source->name);
        if (field != NULL) {
            buf_add(out, field->value.ptr, field->value.len);
        }
        return field != NULL && field->value.len > 0;
    case BUCKET_BY_BEARER:
        return add_bearer(out, e->request);
    case BUCKET_BY_QUERY:
        return !e->connect && add_query(out, e->target.path, source->name);
    case BUCKET_BY_SEGMENT:
        return !e->connect && add_segment(out, e->target.path, source->index);
    case BUCKET_BY_USER:
        return order_add_user(out, e);
    case BUCKET_BY_CLIENT_IP:
        order_add_address(out, e);
        return true;
    }
    return false;
}

/* Appends "k=" and 16 hex digits; nothing when the request has none of the keys. */
static void add_key(struct buf *out, const struct exchange *e, const struct policy *policy)
{
    struct buf value = {0};
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned i = 0;

    while (i < policy->keys_count && !add_value(&value, e, &policy->keys[i])) {
        buf_fini(&value);
        i++;
    }
    if (i < policy->keys_count) {
        buf_printf(&value, " %d %s %u", (int)policy->keys[i].by, policy->keys[i].name != NULL ? policy->keys[i].name : "",
                   policy->keys[i].index);
        must(HMAC(EVP_sha256(), e->env->secret, (int)strlen(e->env->secret), (const unsigned char *)buf_ptr(&value),
                  buf_len(&value), digest, NULL) != NULL);
        buf_add_str(out, "k=");
        for (int b = 0; b < HASH_BYTES; b++) {
            buf_printf(out, "%02x", digest[b]);
        }
    }
    buf_fini(&value);
}

static char *whole_part(const struct exchange *e, const struct policy *destination)
{
    struct buf part = {0};

    if (destination->per_host) {
        buf_printf(&part, "h=%s ", e->target.host);
    }
    add_key(&part, e, destination);
    buf_add(&part, "", 1);
    char *text = mem_strdup(buf_ptr(&part));
    buf_fini(&part);
    return text;
}

static char *route_part(const struct exchange *e, const struct policy *route)
{
    struct buf part = {0};

    buf_printf(&part, "r=%s ", route->label);
    if (route->per_host) {
        buf_printf(&part, "h=%s ", e->target.host);
    }
    add_key(&part, e, route);
    buf_add(&part, "", 1);
    char *text = mem_strdup(buf_ptr(&part));
    buf_fini(&part);
    return text;
}

/* ---- cost ---- */

/* It was for us alone. */
static void take_out(struct message *request, const struct field *field)
{
    size_t index = (size_t)(field - request->fields);

    request->fields_count--;
    memmove(&request->fields[index], &request->fields[index + 1],
            (request->fields_count - index) * sizeof(request->fields[0]));
}

static bool read_cost(struct exchange *e, const char **detail)
{
    const struct policy *policy = e->policy;
    const struct field *field = policy->cost_header != NULL ? message_field(e->request, policy->cost_header) : NULL;
    uint64_t cost = (uint64_t)policy->cost;

    if (field != NULL && (!str_parse_u64(field->value, &cost) || cost < 1 || cost > (uint64_t)policy->cost_most)) {
        *detail = "the header that says the cost of the request is no number from 1 to cost_most";
        return false;
    }
    e->waiter.cost = (unsigned)cost;
    if (field != NULL) {
        take_out(e->request, field);
    }
    return true;
}

bool part_choose(struct exchange *e, const char **detail)
{
    struct policy *destination = e->policy, *route = route_of(e);

    part_forget(e);
    if (route != NULL) {
        e->parent_part = whole_part(e, destination);
        e->part = route_part(e, route);
        e->policy = policy_get(route);
        policy_put(destination);
    } else {
        e->part = whole_part(e, destination);
    }
    return read_cost(e, detail);
}

void part_forget(struct exchange *e)
{
    mem_free(e->part);
    mem_free(e->parent_part);
    e->part = e->parent_part = NULL;
}
