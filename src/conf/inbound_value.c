/*
 * Values of [inbound] and [inbound-rule] alone: what tells callers apart, patterns of paths, methods, the upstream. What can never match a request is
 * refused here already: whoever wrote it believes that something is limited by it.
 */
#include "base/mem.h"
#include "conf/value.h"

#include <string.h>

enum { TOKEN_BYTES_MAX = 64, GLOB_BYTES_MAX = 1024, PATH_INDEX_MAX = 64 };

static const struct {
    const char *word;
    enum inbound_key_kind kind;
    const char *argument; /* NULL: takes none */
} callers[] = {
    {"header", KEY_HEADER, "NAME"}, {"bearer", KEY_BEARER, NULL},       {"basic_user", KEY_BASIC_USER, NULL},
    {"cookie", KEY_COOKIE, "NAME"}, {"query", KEY_QUERY, "NAME"},       {"client_ip", KEY_CLIENT_IP, NULL},
    {"path", KEY_SEGMENT, "N"},
};
enum { CALLERS = sizeof callers / sizeof callers[0] };

/* RFC 9110 section 5.6.2 */
static bool is_token(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return text.len > 0 && text.len <= TOKEN_BYTES_MAX;
}

static void replace(char **field, struct slice text)
{
    mem_free(*field);
    *field = mem_strndup(text.ptr, text.len);
}

/* ---- what tells callers apart ---- */

static void refuse_caller(const struct place *place, struct slice word, struct slice all)
{
    const char *words[CALLERS + 1] = {NULL};
    char *name = mem_strndup(word.ptr, word.len);

    for (size_t i = 0; i < CALLERS; i++) {
        words[i] = callers[i].word;
    }
    const char *nearest = str_nearest(name, words);
    if (nearest != NULL) {
        report_error(place, "%.*s: did you mean %s?", REPORT_SHOWN(all), nearest);
    } else {
        report_error(place,
                     "%.*s is not header:NAME, bearer, basic_user, cookie:NAME, query:NAME, path:N or client_ip",
                     REPORT_SHOWN(all));
    }
    mem_free(name);
}

static bool parse_argument(const struct place *place, size_t row, struct slice argument, struct slice all,
                           struct inbound_key *out)
{
    uint64_t index = 0;

    if (callers[row].argument == NULL) {
        if (argument.ptr != NULL) {
            report_error(place, "%.*s: %s takes nothing behind a colon", REPORT_SHOWN(all), callers[row].word);
        }
        return argument.ptr == NULL;
    }
    bool path = callers[row].kind == KEY_SEGMENT;
    if (path ? argument.ptr == NULL || !str_parse_u64(argument, &index) || index < 1 || index > PATH_INDEX_MAX
             : argument.ptr == NULL || !is_token(argument)) {
        report_error(place, path ? "%.*s is not path:N with N from 1 (the first segment) to 64"
                                 : "%.*s lacks a name behind the colon, as in header:X-API-Key",
                     REPORT_SHOWN(all));
        return false;
    }
    out->index = (unsigned)index;
    out->name = path ? NULL : mem_strndup(argument.ptr, argument.len);
    return true;
}

static bool parse_caller(const struct place *place, struct slice text, struct inbound_key *out)
{
    const char *colon = memchr(text.ptr, ':', text.len);
    struct slice word = {text.ptr, colon != NULL ? (size_t)(colon - text.ptr) : text.len};
    struct slice argument = {NULL, 0};

    if (colon != NULL) {
        argument = (struct slice){colon + 1, text.len - word.len - 1};
    }
    for (size_t i = 0; i < CALLERS; i++) {
        if (slice_is(word, callers[i].word)) {
            out->kind = callers[i].kind;
            return parse_argument(place, i, argument, text, out);
        }
    }
    refuse_caller(place, word, text);
    return false;
}

static void free_callers(struct inbound_key *keys, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        mem_free(keys[i].name);
    }
    mem_free(keys);
}

/* Every request has an address, so nothing behind it is ever looked at. */
static bool check_order(const struct place *place, const struct inbound_key *keys, unsigned count)
{
    for (unsigned i = 0; i + 1 < count; i++) {
        if (keys[i].kind == KEY_CLIENT_IP) {
            report_error(place, "every request has a client_ip, nothing behind it is reached; it goes last");
            return false;
        }
    }
    if (count == 0) {
        report_error(place, "the list is empty");
    }
    return count > 0;
}

static bool set_callers(const struct place *place, struct slice text, struct inbound_rule *rule)
{
    struct inbound_key *keys = NULL;
    unsigned count = 0;
    struct slice element;
    bool good = true;

    while (slice_next_element(&text, &element)) {
        struct inbound_key key = {KEY_CLIENT_IP, NULL, 0};
        if (!parse_caller(place, element, &key)) {
            good = false;
            continue;
        }
        keys = mem_realloc(keys, (count + 1) * sizeof *keys);
        keys[count++] = key;
    }
    good = good && check_order(place, keys, count);
    if (!good) {
        free_callers(keys, count);
        return false;
    }
    free_callers(rule->keys, rule->keys_count);
    rule->keys = keys;
    rule->keys_count = count;
    return true;
}

static void print_callers(const struct inbound_rule *rule, struct buf *out)
{
    for (unsigned i = 0; i < rule->keys_count; i++) {
        size_t row = 0;
        while (callers[row].kind != rule->keys[i].kind) {
            row++;
        }
        buf_printf(out, "%s%s", i > 0 ? ", " : "", callers[row].word);
        if (callers[row].kind == KEY_SEGMENT) {
            buf_printf(out, ":%u", rule->keys[i].index);
        } else if (rule->keys[i].name != NULL) {
            buf_printf(out, ":%s", rule->keys[i].name);
        }
    }
}

/* ---- methods ---- */

/* Methods are told apart by case (RFC 9110 section 9.1), so "get" would match nothing. */
static bool check_method(const struct place *place, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] >= 'a' && text.ptr[i] <= 'z') {
            report_error(place, "%.*s: methods are written in capitals, as in GET", REPORT_SHOWN(text));
            return false;
        }
    }
    if (!is_token(text)) {
        report_error(place, "%.*s is not a method such as GET or POST", REPORT_SHOWN(text));
        return false;
    }
    return true;
}

static void free_methods(char **methods, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        mem_free(methods[i]);
    }
    mem_free((void *)methods);
}

static bool set_methods(const struct place *place, struct slice text, struct inbound_rule *rule)
{
    char **methods = NULL;
    unsigned count = 0;
    struct slice element;
    bool good = true;

    while (slice_next_element(&text, &element)) {
        good = check_method(place, element) && good;
        methods = mem_realloc((void *)methods, (count + 1) * sizeof *methods);
        methods[count++] = mem_strndup(element.ptr, element.len);
    }
    if (count == 0) {
        report_error(place, "the list is empty");
    }
    if (!good || count == 0) {
        free_methods(methods, count);
        return false;
    }
    free_methods(rule->methods, rule->methods_count);
    rule->methods = methods;
    rule->methods_count = count;
    return true;
}

static bool print_methods(const struct inbound_rule *rule, struct buf *out)
{
    for (unsigned i = 0; i < rule->methods_count; i++) {
        buf_printf(out, "%s%s", i > 0 ? ", " : "", rule->methods[i]);
    }
    return rule->methods_count > 0;
}

/* ---- one word ---- */

static bool set_token(const struct place *place, struct slice text, char **field)
{
    if (!is_token(text)) {
        report_error(place, "%.*s is not the name of a header field", REPORT_SHOWN(text));
        return false;
    }
    replace(field, text);
    return true;
}

static bool set_glob(const struct place *place, struct slice text, char **field)
{
    if (text.len == 0 || (text.ptr[0] != '/' && text.ptr[0] != '*')) {
        report_error(place, "%.*s matches no path; a path begins with /, as in /api/*", REPORT_SHOWN(text));
        return false;
    }
    if (memchr(text.ptr, '?', text.len) != NULL || memchr(text.ptr, '#', text.len) != NULL) {
        report_error(place, "%.*s matches no path; the query does not belong to it", REPORT_SHOWN(text));
        return false;
    }
    if (memchr(text.ptr, ' ', text.len) != NULL || text.len > GLOB_BYTES_MAX) {
        report_error(place, "%.*s matches no path; it has a space in it, or is too long. Methods go into methods =",
                     REPORT_SHOWN(text));
        return false;
    }
    replace(field, text);
    return true;
}

/* ---- the upstream ---- */

static bool set_origin(const struct place *place, struct slice text, struct inbound_conf *inbound)
{
    static const char scheme[] = "http://";
    const size_t len = sizeof scheme - 1;
    struct policy one = {0};

    if (text.len <= len || strncasecmp(text.ptr, scheme, len) != 0) {
        report_error(place, "%.*s is not http://HOST[:PORT]; the way to the API is plain HTTP", REPORT_SHOWN(text));
        return false;
    }
    text = (struct slice){text.ptr + len, text.len - len};
    if (text.ptr[text.len - 1] == '/') {
        text.len--;
    }
    bool good = hosts_set(place, text, &one);
    if (good && (one.hosts_count != 1 || one.hosts[0].wildcard)) {
        report_error(place, "the upstream is one host; several go behind one name in DNS");
        good = false;
    }
    if (good) {
        mem_free(inbound->upstream_host);
        inbound->upstream_host = mem_strdup(one.hosts[0].host);
        inbound->upstream_port = one.hosts[0].port != 0 ? one.hosts[0].port : 80;
    }
    for (unsigned i = 0; i < one.hosts_count; i++) {
        mem_free(one.hosts[i].host);
    }
    mem_free(one.hosts);
    return good;
}

static bool print_origin(const struct inbound_conf *inbound, struct buf *out)
{
    if (inbound->upstream_host == NULL) {
        return false;
    }
    bool v6 = strchr(inbound->upstream_host, ':') != NULL;
    buf_printf(out, "http://%s%s%s:%u", v6 ? "[" : "", inbound->upstream_host, v6 ? "]" : "", inbound->upstream_port);
    return true;
}

/* ---- by type ---- */

bool inbound_value_set(const struct place *place, const struct key *key, struct slice text, struct inbound_record *record)
{
    char **field = (char **)(void *)((char *)record + key->offset);

    switch (key->type) {
    case KEY_TOKEN:
        return set_token(place, text, field);
    case KEY_LABEL:
        replace(field, text);
        return true;
    case KEY_GLOB:
        return set_glob(place, text, field);
    case KEY_METHODS:
        return set_methods(place, text, &record->rule);
    case KEY_CALLERS:
        return set_callers(place, text, &record->rule);
    case KEY_ORIGIN:
        return set_origin(place, text, &record->place);
    default:
        wrong("not a value of [inbound]");
    }
}

bool inbound_value_print(const struct key *key, const struct inbound_record *record, struct buf *out)
{
    switch (key->type) {
    case KEY_METHODS:
        return print_methods(&record->rule, out);
    case KEY_CALLERS:
        print_callers(&record->rule, out);
        return true;
    case KEY_ORIGIN:
        return print_origin(&record->place, out);
    default:
        wrong("not a value of [inbound]");
    }
}

void inbound_rule_fini(struct inbound_rule *rule)
{
    mem_free(rule->label);
    mem_free(rule->cost_header);
    free_methods(rule->methods, rule->methods_count);
    mem_free(rule->path);
    free_callers(rule->keys, rule->keys_count);
    memset(rule, 0, sizeof *rule);
}

void inbound_conf_fini(struct inbound_conf *place)
{
    for (unsigned i = 0; i < place->rules_count; i++) {
        inbound_rule_fini(place->rules[i]);
        mem_free(place->rules[i]);
    }
    mem_free((void *)place->rules);
    mem_free(place->label);
    mem_free(place->listen);
    mem_free(place->check_listen);
    mem_free(place->upstream_host);
    mem_free(place->trusted_proxies);
    if (place->policy != NULL) {
        policy_put(place->policy);
    }
    memset(place, 0, sizeof *place);
}
