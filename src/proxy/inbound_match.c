/*
 * Which limits are for a request. A stricter limit for /login is worth nothing if //login, /x/../login or /%6cogin goes
 * past it, so a pattern is tried on the path as it came and on its plain form (RFC 3986 section 6.2.2), and either
 * match counts: a limit too many is the smaller harm.
 */
#include "proxy/inbound_match.h"

#include "proxy/inbound_key.h"

#include <string.h>

bool inbound_glob(const char *pattern, struct slice text)
{
    const char *star = NULL;
    size_t at = 0, star_at = 0;

    while (at < text.len) {
        if (*pattern == '*') {
            star = ++pattern;
            star_at = at;
        } else if (*pattern != '\0' && *pattern == text.ptr[at]) {
            pattern++;
            at++;
        } else if (star != NULL) { /* the last * takes one more: earlier ones need not be tried again */
            pattern = star;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static struct slice without_query(struct slice path)
{
    const char *mark = path.len > 0 ? memchr(path.ptr, '?', path.len) : NULL;

    return mark != NULL ? (struct slice){path.ptr, (size_t)(mark - path.ptr)} : path;
}

/* Drops the last segment of what is written since `start`. */
static void go_up(struct buf *out, size_t start)
{
    while (out->end > start && out->data[out->end - 1] != '/') {
        out->end--;
    }
    if (out->end > start) {
        out->end--;
    }
}

void inbound_plain_path(struct buf *out, struct slice path)
{
    struct buf decoded = {0};
    struct slice segment = {NULL, 0};

    buf_reserve(out, 1);
    size_t start = out->end;
    inbound_decode(&decoded, without_query(path), false);
    const char *at = decoded.data, *end = at + buf_len(&decoded);
    bool slash = false;
    while (at < end) {
        const char *next = memchr(at, '/', (size_t)(end - at));
        segment = (struct slice){at, (size_t)((next != NULL ? next : end) - at)};
        at = next != NULL ? next + 1 : end;
        slash = next != NULL;
        if (slice_is(segment, "..")) {
            go_up(out, start);
        } else if (segment.len > 0 && !slice_is(segment, ".")) {
            buf_add(out, "/", 1);
            buf_add(out, segment.ptr, segment.len);
        }
    }
    if (slash || out->end == start) {
        buf_add(out, "/", 1);
    }
    buf_fini(&decoded);
}

static bool method_matches(const struct inbound_rule *rule, struct slice method)
{
    for (unsigned i = 0; i < rule->methods_count; i++) {
        if (slice_is(method, rule->methods[i])) {
            return true;
        }
    }
    return rule->methods_count == 0;
}

static int64_t cost_of(const struct inbound_rule *rule, const struct inbound_request *request)
{
    const struct field *field;
    uint64_t cost;

    if (rule->cost_header == NULL || !request->trusted) {
        return rule->cost;
    }
    field = message_field(request->message, rule->cost_header);
    if (field == NULL || !str_parse_u64(field->value, &cost) || cost == 0) {
        return rule->cost;
    }
    return cost > INT32_MAX ? INT32_MAX : (int64_t)cost;
}

void inbound_match(const struct inbound_conf *inbound, const struct inbound_request *request, struct buf *keys,
                   struct admission_check *check)
{
    size_t ends[INBOUND_RULES_MOST];
    struct slice raw = without_query(request->path);
    struct buf plain = {0};

    inbound_plain_path(&plain, request->path);
    check->inbound = inbound;
    check->count = 0;
    for (unsigned i = 0; i < inbound->rules_count; i++) {
        const struct inbound_rule *rule = inbound->rules[i];
        bool path = rule->path == NULL || inbound_glob(rule->path, raw) ||
                    inbound_glob(rule->path, (struct slice){buf_ptr(&plain), buf_len(&plain)});
        if (!path || !method_matches(rule, request->method)) {
            continue;
        }
        inbound_key_add(keys, inbound, rule, request);
        check->rules[check->count] = rule;
        check->costs[check->count] = cost_of(rule, request);
        ends[check->count++] = buf_len(keys);
    }
    for (unsigned i = 0; i < check->count; i++) { /* now that the text no longer moves */
        size_t from = i > 0 ? ends[i - 1] : 0;
        check->keys[i] = (struct slice){buf_len(keys) > 0 ? buf_ptr(keys) + from : "", ends[i] - from};
    }
    buf_fini(&plain);
}
