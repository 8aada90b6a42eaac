/*
 * What divides a destination into buckets, and what limits them beside the pace:
 *
 *   key = header:X-Api-Key, client_ip           a bucket for each value of the first that a request has
 *   quota = 5000/1h rolling, 100000/1d aligned  at most so many in any hour, and in each day of the calendar (UTC)
 *   match = GET,HEAD PATTERN                    of a [route]: methods, where not all, and a path with * for anything
 */
#include "conf/value.h"

#include "base/mem.h"
#include "conf/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HOUR_US (INT64_C(3600) * CLOCK_SECOND_US)
enum { QUOTAS_MOST = 4, KEYS_MOST = 8, METHODS_MOST = 16, PATTERN_BYTES = 512, SEGMENT_MOST = 64 };

/* Cuts the first word off `text`, at blanks. */
static struct slice word_of(struct slice *text)
{
    size_t len = 0;

    *text = slice_trim(*text);
    while (len < text->len && text->ptr[len] != ' ' && text->ptr[len] != '\t') {
        len++;
    }
    struct slice word = {text->ptr, len};
    *text = slice_trim((struct slice){text->ptr + len, text->len - len});
    return word;
}

static bool is_token(struct slice text)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    size_t i = 0;

    while (i < text.len && text.ptr[i] != '\0' && strchr(token, text.ptr[i]) != NULL) {
        i++;
    }
    return text.len > 0 && i == text.len;
}

/* ---- quotas ---- */

/* "utc", "utc+02", "utc-03:30" */
static bool parse_zone(struct slice text, int64_t *offset_us)
{
    char sign = '\0';
    unsigned hours = 0, minutes = 0;
    int used = 0;
    char copy[16];

    if (text.len < 3 || text.len >= sizeof(copy) || strncmp(text.ptr, "utc", 3) != 0) {
        return false;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (text.len > 3) {
        bool whole = sscanf(copy + 3, "%c%2u%n", &sign, &hours, &used) == 2 && copy[3 + used] == '\0';
        bool parts = !whole && sscanf(copy + 3, "%c%2u:%2u%n", &sign, &hours, &minutes, &used) == 3 && copy[3 + used] == '\0';
        if ((!whole && !parts) || (sign != '+' && sign != '-') || hours > 14 || minutes > 59) {
            return false;
        }
    }
    *offset_us = (hours * HOUR_US + minutes * HOUR_US / 60) * (sign == '-' ? -1 : 1);
    return true;
}

static bool parse_quota(const struct place *place, struct slice all, struct quota_limit *out)
{
    struct slice rest = all, amount = word_of(&rest), kind = word_of(&rest), zone = word_of(&rest);
    struct rate rate;

    *out = (struct quota_limit){0, 0, slice_is(kind, "aligned"), 0};
    if (!rate_parse(place, amount, &rate)) {
        return false;
    }
    out->count = rate.count;
    out->period_us = rate.period_us;
    if (rest.len > 0 || (kind.len > 0 && !out->aligned && !slice_is(kind, "rolling")) || (zone.len > 0 && !out->aligned)) {
        report_error(place, "%.*s is not COUNT/PERIOD, COUNT/PERIOD rolling or COUNT/PERIOD aligned utc+HH:MM",
                     REPORT_SHOWN(all));
        return false;
    }
    if (zone.len > 0 && !parse_zone(zone, &out->offset_us)) {
        report_error(place, "%.*s is no zone; write utc, utc+02 or utc-03:30", REPORT_SHOWN(zone));
        return false;
    }
    if (out->aligned && out->period_us < CLOCK_SECOND_US) {
        report_error(place, "%.*s: windows of the calendar are at least 1s long", REPORT_SHOWN(all));
        return false;
    }
    return true;
}

static bool set_quotas(const struct place *place, struct slice text, struct policy *policy)
{
    struct quota_limit made[QUOTAS_MOST];
    struct slice element;
    unsigned count = 0;
    bool good = true;

    while (slice_next_element(&text, &element)) {
        if (count == QUOTAS_MOST) {
            report_error(place, "more than %d quotas", QUOTAS_MOST);
            return false;
        }
        good = parse_quota(place, element, &made[count++]) && good;
    }
    if (count == 0 || !good) {
        if (count == 0) {
            report_error(place, "the list is empty");
        }
        return false;
    }
    mem_free(policy->quotas);
    policy->quotas = mem_alloc(count * sizeof(made[0]));
    memcpy(policy->quotas, made, count * sizeof(made[0]));
    policy->quotas_count = count;
    return true;
}

void quota_print(const struct quota_limit *quota, struct buf *out)
{
    struct rate rate = {quota->count, quota->period_us};
    int64_t minutes = quota->offset_us / (HOUR_US / 60);

    rate_print(&rate, out);
    if (!quota->aligned) {
        buf_add_str(out, " rolling");
        return;
    }
    buf_add_str(out, " aligned utc");
    if (minutes != 0) {
        int64_t size = minutes < 0 ? -minutes : minutes;
        buf_printf(out, "%c%02" PRId64 ":%02" PRId64, minutes < 0 ? '-' : '+', size / 60, size % 60);
    }
}

/* ---- keys ---- */

static const struct {
    const char *word;
    enum bucket_key by;
    enum { NOTHING, NAME, NUMBER } argument;
} keys[] = {{"header", BUCKET_BY_HEADER, NAME},     {"bearer", BUCKET_BY_BEARER, NOTHING},
            {"query", BUCKET_BY_QUERY, NAME},       {"path", BUCKET_BY_SEGMENT, NUMBER},
            {"proxy_user", BUCKET_BY_USER, NOTHING}, {"client_ip", BUCKET_BY_CLIENT_IP, NOTHING}};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static void free_keys(struct key_source *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        mem_free(list[i].name);
    }
    mem_free(list);
}

static bool parse_key(const struct place *place, struct slice text, struct key_source *out)
{
    const char *colon = memchr(text.ptr, ':', text.len);
    struct slice word = {text.ptr, colon != NULL ? (size_t)(colon - text.ptr) : text.len};
    struct slice argument = colon != NULL ? (struct slice){colon + 1, text.len - word.len - 1} : (struct slice){NULL, 0};
    uint64_t number = 0;

    for (size_t i = 0; i < KEYS; i++) {
        if (!slice_is(word, keys[i].word)) {
            continue;
        }
        bool fits = keys[i].argument == NOTHING ? argument.ptr == NULL
                    : keys[i].argument == NAME  ? is_token(argument)
                                                : argument.ptr != NULL && str_parse_u64(argument, &number) && number >= 1 &&
                                                     number <= SEGMENT_MOST;
        if (fits) {
            *out = (struct key_source){keys[i].by, NULL, (unsigned)number};
            out->name = keys[i].argument == NAME ? mem_strndup(argument.ptr, argument.len) : NULL;
            return true;
        }
    }
    report_error(place, "%.*s is not none, header:NAME, bearer, query:NAME, path:N (from 1, the first segment), proxy_user "
                        "or client_ip",
                 REPORT_SHOWN(text));
    return false;
}

static bool set_keys(const struct place *place, struct slice text, struct policy *policy)
{
    struct key_source *made = NULL;
    struct slice element;
    unsigned count = 0;
    bool good = true, none = slice_is(slice_trim(text), "none");

    while (!none && slice_next_element(&text, &element) && count < KEYS_MOST) {
        struct key_source source;
        if (!parse_key(place, element, &source)) {
            good = false;
            continue;
        }
        made = mem_realloc(made, (count + 1) * sizeof(made[0]));
        made[count++] = source;
    }
    if (good && count == 0 && !none) {
        report_error(place, "the list is empty; none is one bucket for all");
        good = false;
    }
    if (!good) {
        free_keys(made, count);
        return false;
    }
    free_keys(policy->keys, policy->keys_count);
    policy->keys = made;
    policy->keys_count = count;
    return true;
}

static void print_keys(const struct policy *policy, struct buf *out)
{
    for (unsigned i = 0; i < policy->keys_count; i++) {
        const struct key_source *source = &policy->keys[i];
        for (size_t row = 0; row < KEYS; row++) {
            if (keys[row].by == source->by) {
                buf_printf(out, "%s%s", i > 0 ? ", " : "", keys[row].word);
            }
        }
        if (source->name != NULL) {
            buf_printf(out, ":%s", source->name);
        } else if (source->by == BUCKET_BY_SEGMENT) {
            buf_printf(out, ":%u", source->index);
        }
    }
    buf_add_str(out, policy->keys_count == 0 ? "none" : "");
}

/* ---- costs ---- */

static bool set_cost_answer(const struct place *place, struct slice all, struct policy *policy)
{
    struct slice rest = all, name = word_of(&rest), kind = word_of(&rest);
    bool left = slice_is(kind, "remaining");

    if (!is_token(name) || rest.len > 0 || (kind.len > 0 && !left && !slice_is(kind, "used"))) {
        report_error(place, "%.*s is not the name of a header, with used or remaining behind it", REPORT_SHOWN(all));
        return false;
    }
    mem_free(policy->cost_answer);
    policy->cost_answer = mem_strndup(name.ptr, name.len);
    policy->cost_is_left = left;
    return true;
}

static bool print_cost_answer(const struct policy *policy, struct buf *out)
{
    if (policy->cost_answer != NULL) {
        buf_printf(out, "%s %s", policy->cost_answer, policy->cost_is_left ? "remaining" : "used");
    }
    return policy->cost_answer != NULL;
}

/* ---- routes ---- */

static void free_methods(char **methods, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        mem_free(methods[i]);
    }
    mem_free((void *)methods);
}

static bool set_methods(const struct place *place, struct slice text, struct policy *policy)
{
    struct slice method;

    while (slice_next_element(&text, &method)) {
        if (!is_token(method) || policy->methods_count == METHODS_MOST) {
            report_error(place, "%.*s is no method, or one too many", REPORT_SHOWN(method));
            return false;
        }
        policy->methods =
            mem_realloc((void *)policy->methods, (policy->methods_count + 1) * sizeof(policy->methods[0]));
        policy->methods[policy->methods_count++] = mem_strndup(method.ptr, method.len);
    }
    return true;
}

static bool set_match(const struct place *place, struct slice all, struct policy *policy)
{
    struct slice rest = all, first = word_of(&rest), path = rest.len > 0 ? rest : first;

    if (path.len == 0 || (path.ptr[0] != '/' && path.ptr[0] != '*') || path.len > PATTERN_BYTES ||
        memchr(path.ptr, ' ', path.len) != NULL || memchr(path.ptr, '?', path.len) != NULL) {
        report_error(place, "%.*s is not PATTERN or METHOD,METHOD PATTERN; a pattern is a path with * for anything, as in "
                            "GET /search/*",
                     REPORT_SHOWN(all));
        return false;
    }
    free_methods(policy->methods, policy->methods_count);
    policy->methods = NULL;
    policy->methods_count = 0;
    mem_free(policy->path);
    policy->path = mem_strndup(path.ptr, path.len);
    return rest.len == 0 || slice_is(first, "*") || set_methods(place, first, policy);
}

static bool print_match(const struct policy *policy, struct buf *out)
{
    for (unsigned i = 0; i < policy->methods_count; i++) {
        buf_printf(out, "%s%s", i > 0 ? "," : "", policy->methods[i]);
    }
    if (policy->path != NULL) {
        buf_printf(out, "%s%s", policy->methods_count > 0 ? " " : "", policy->path);
    }
    return policy->path != NULL;
}

/* ---- all ---- */

bool parts_set(const struct place *place, const struct key *key, struct slice text, struct policy *policy)
{
    switch (key->type) {
    case KEY_QUOTAS:
        return set_quotas(place, text, policy);
    case KEY_PARTS:
        return set_keys(place, text, policy);
    case KEY_COST_ANSWER:
        return set_cost_answer(place, text, policy);
    default:
        return set_match(place, text, policy);
    }
}

bool parts_print(const struct key *key, const struct policy *policy, struct buf *out)
{
    switch (key->type) {
    case KEY_QUOTAS:
        for (unsigned i = 0; i < policy->quotas_count; i++) {
            buf_add_str(out, i > 0 ? ", " : "");
            quota_print(&policy->quotas[i], out);
        }
        return policy->quotas_count > 0;
    case KEY_PARTS:
        print_keys(policy, out);
        return true;
    case KEY_COST_ANSWER:
        return print_cost_answer(policy, out);
    default:
        return print_match(policy, out);
    }
}
