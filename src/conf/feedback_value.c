/*
 * Values that say what in an answer is the third party's word, and what changes in requests. All are lists, "none"
 * empties one that [default] has filled. Every element is checked before the field changes. A field that frames a
 * message or concerns one connection alone is refused in requests: setting it would let one message be read as two (RFC
 * 9112 section 11.2), or means nothing on the next hop.
 */
#include "base/mem.h"
#include "conf/value.h"

#include <inttypes.h>
#include <string.h>

enum { FIELD_NAME_MAX = 64, FIELD_VALUE_MAX = 4096 };

/* A list while it is read. */
struct list {
    void *items;
    unsigned count;
    size_t item_bytes;
};

static void *grow(struct list *list)
{
    list->items = mem_realloc(list->items, (list->count + 1) * list->item_bytes);
    void *item = (char *)list->items + list->count++ * list->item_bytes;
    memset(item, 0, list->item_bytes);
    return item;
}

static char *text_of(struct slice text)
{
    return mem_strndup(text.ptr, text.len);
}

/* RFC 9110 section 5.6.2 */
static bool is_field_name(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return text.len > 0 && text.len <= FIELD_NAME_MAX;
}

/* Cuts off what is before `mark`; all of it, and false, when there is none. */
static bool cut(struct slice *rest, char mark, struct slice *before)
{
    const char *at = memchr(rest->ptr, mark, rest->len);

    *before = slice_trim((struct slice){rest->ptr, at != NULL ? (size_t)(at - rest->ptr) : rest->len});
    if (at == NULL) {
        *rest = (struct slice){rest->ptr + rest->len, 0};
        return false;
    }
    *rest = slice_trim((struct slice){at + 1, rest->len - (size_t)(at - rest->ptr) - 1});
    return true;
}

/* ---- statuses ---- */

static bool read_status(const struct place *place, struct slice text, struct status_range *out)
{
    uint64_t status;

    if (slice_is(text, "*")) {
        *out = (struct status_range){100, 599};
    } else if (text.len == 3 && text.ptr[0] >= '1' && text.ptr[0] <= '5' && memcmp(text.ptr + 1, "xx", 2) == 0) {
        uint16_t first = (uint16_t)((text.ptr[0] - '0') * 100);
        *out = (struct status_range){first, (uint16_t)(first + 99)};
    } else if (text.len == 3 && str_parse_u64(text, &status) && status >= 100 && status <= 599) {
        *out = (struct status_range){(uint16_t)status, (uint16_t)status};
    } else {
        report_error(place, "%.*s is not a status from 100 to 599, a class such as 5xx, or *", REPORT_SHOWN(text));
        return false;
    }
    return true;
}

static bool add_status(const struct place *place, struct slice text, struct list *list)
{
    struct status_range range;

    if (!read_status(place, text, &range)) {
        return false;
    }
    *(struct status_range *)grow(list) = range;
    return true;
}

static void print_status(const struct status_range *range, struct buf *out)
{
    if (range->first == range->last) {
        buf_printf(out, "%u", range->first);
    } else if (range->first == 100 && range->last == 599) {
        buf_add_str(out, "*");
    } else {
        buf_printf(out, "%uxx", range->first / 100U);
    }
}

static void print_statuses(const struct status_range *ranges, unsigned count, struct buf *out)
{
    for (unsigned i = 0; i < count; i++) {
        buf_add_str(out, i > 0 ? ", " : "");
        print_status(&ranges[i], out);
    }
}

/* ---- "403 header:NAME=VALUE" ---- */

static bool add_rule(const struct place *place, struct slice text, struct list *list)
{
    struct slice rest = text, status, word, name;
    struct status_range range;

    if (!cut(&rest, ' ', &status) || !cut(&rest, ':', &word) || !slice_is(word, "header")) {
        report_error(place, "%.*s is not STATUS header:NAME or STATUS header:NAME=VALUE, as in 503 header:Retry-After",
                     REPORT_SHOWN(text));
        return false;
    }
    bool has_value = cut(&rest, '=', &name);
    if (!is_field_name(name)) {
        report_error(place, "%.*s is not the name of a header field", REPORT_SHOWN(name));
        return false;
    }
    if (!read_status(place, status, &range)) {
        return false;
    }
    *(struct answer_rule *)grow(list) = (struct answer_rule){range, text_of(name), has_value ? text_of(rest) : NULL};
    return true;
}

static void drop_rules(struct list *list)
{
    struct answer_rule *rules = list->items;

    for (unsigned i = 0; i < list->count; i++) {
        mem_free(rules[i].field);
        mem_free(rules[i].value);
    }
}

static void print_rules(const struct answer_rule *rules, unsigned count, struct buf *out)
{
    for (unsigned i = 0; i < count; i++) {
        buf_add_str(out, i > 0 ? ", " : "");
        print_status(&rules[i].status, out);
        buf_printf(out, " header:%s", rules[i].field);
        if (rules[i].value != NULL) {
            buf_printf(out, "=%s", rules[i].value);
        }
    }
}

/* ---- "X-RateLimit-Reset:unix" ---- */

static const char *const format_words[] = {
    [TIME_AUTO] = "auto",       [TIME_SECONDS] = "seconds", [TIME_MS] = "ms",     [TIME_UNIX] = "unix",
    [TIME_ISO8601] = "iso8601", [TIME_GODUR] = "godur",     [TIME_IETF] = "ietf", NULL};

static bool read_time_field(const struct place *place, struct slice text, struct time_field *out)
{
    struct slice format = text, name;

    if (!cut(&format, ':', &name) || !is_field_name(name)) {
        report_error(place, "%.*s is not NAME:FORMAT, as in Retry-After:auto", REPORT_SHOWN(text));
        return false;
    }
    for (unsigned i = 0; format_words[i] != NULL; i++) {
        if (slice_is(format, format_words[i])) {
            *out = (struct time_field){text_of(name), (enum time_format)i};
            return true;
        }
    }
    report_error(place, "%.*s is not auto, seconds, ms, unix, iso8601, godur or ietf", REPORT_SHOWN(format));
    return false;
}

static bool add_pause(const struct place *place, struct slice text, struct list *list)
{
    struct time_field field;

    if (!read_time_field(place, text, &field)) {
        return false;
    }
    *(struct time_field *)grow(list) = field;
    return true;
}

static void drop_pauses(struct list *list)
{
    struct time_field *fields = list->items;

    for (unsigned i = 0; i < list->count; i++) {
        mem_free(fields[i].field);
    }
}

static void print_pauses(const struct time_field *fields, unsigned count, struct buf *out)
{
    for (unsigned i = 0; i < count; i++) {
        buf_printf(out, "%s%s:%s", i > 0 ? ", " : "", fields[i].field, format_words[fields[i].format]);
    }
}

/* ---- "X-RateLimit-Remaining X-RateLimit-Reset:unix" ---- */

static bool add_budget(const struct place *place, struct slice text, struct list *list)
{
    struct slice rest = text, first;
    struct budget_field budget = {0};
    bool two = cut(&rest, ' ', &first);

    if (!read_time_field(place, two ? rest : first, &budget.reset)) {
        return false;
    }
    if (two ? !is_field_name(first) || budget.reset.format == TIME_IETF : budget.reset.format != TIME_IETF) {
        report_error(place,
                     "%.*s is neither REMAINING RESET:FORMAT, as in X-RateLimit-Remaining X-RateLimit-Reset:unix, "
                     "nor one field that says both, NAME:ietf",
                     REPORT_SHOWN(text));
        mem_free(budget.reset.field);
        return false;
    }
    budget.remaining = two ? text_of(first) : NULL;
    *(struct budget_field *)grow(list) = budget;
    return true;
}

static void drop_budgets(struct list *list)
{
    struct budget_field *budgets = list->items;

    for (unsigned i = 0; i < list->count; i++) {
        mem_free(budgets[i].remaining);
        mem_free(budgets[i].reset.field);
    }
}

static void print_budgets(const struct budget_field *budgets, unsigned count, struct buf *out)
{
    for (unsigned i = 0; i < count; i++) {
        const struct budget_field *budget = &budgets[i];
        buf_printf(out, "%s%s%s%s:%s", i > 0 ? ", " : "", budget->remaining != NULL ? budget->remaining : "",
                   budget->remaining != NULL ? " " : "", budget->reset.field, format_words[budget->reset.format]);
    }
}

/* ---- what changes in requests ---- */

static bool check_own_field(const struct place *place, struct slice name)
{
    static const char *const not_ours[] = {"Connection",
                                           "Content-Length",
                                           "Expect",
                                           "Host",
                                           "Keep-Alive",
                                           "Max-Forwards",
                                           "Proxy-Authenticate",
                                           "Proxy-Authorization",
                                           "Proxy-Connection",
                                           "TE",
                                           "Trailer",
                                           "Transfer-Encoding",
                                           "Upgrade",
                                           "Via"};

    if (!is_field_name(name)) {
        report_error(place, "%.*s is not the name of a header field", REPORT_SHOWN(name));
        return false;
    }
    for (size_t i = 0; i < sizeof not_ours / sizeof not_ours[0]; i++) {
        if (slice_is_nocase(name, not_ours[i])) {
            report_error(place, "%s frames the message or concerns one connection alone, so it is not for a rule",
                         not_ours[i]);
            return false;
        }
    }
    return true;
}

static bool add_name(const struct place *place, struct slice text, struct list *list)
{
    if (!check_own_field(place, text)) {
        return false;
    }
    *(struct header_line *)grow(list) = (struct header_line){text_of(text), NULL};
    return true;
}

static bool is_field_value(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return value.len > 0 && value.len <= FIELD_VALUE_MAX;
}

/* The whole value is one line: commas belong to it. */
static bool add_line(const struct place *place, struct slice text, struct list *list)
{
    struct slice value = text, name;

    if (!cut(&value, ':', &name)) {
        report_error(place, "%.*s is not NAME: VALUE, as in User-Agent: acme/1.0 (ops@acme.example)",
                     REPORT_SHOWN(text));
        return false;
    }
    if (!check_own_field(place, name)) {
        return false;
    }
    if (!is_field_value(value)) {
        report_error(place, "the value of %.*s is empty or longer than %d bytes; drop_header takes a field out",
                     REPORT_SHOWN(name), FIELD_VALUE_MAX);
        return false;
    }
    *(struct header_line *)grow(list) = (struct header_line){text_of(name), text_of(value)};
    return true;
}

static void drop_lines(struct list *list)
{
    struct header_line *lines = list->items;

    for (unsigned i = 0; i < list->count; i++) {
        mem_free(lines[i].name);
        mem_free(lines[i].value);
    }
}

static void print_names(const struct header_line *lines, unsigned count, struct buf *out)
{
    for (unsigned i = 0; i < count; i++) {
        buf_printf(out, "%s%s", i > 0 ? ", " : "", lines[i].name);
    }
}

static void print_lines(const struct header_line *lines, unsigned count, struct buf *out)
{
    for (unsigned i = 0; i < count; i++) {
        buf_printf(out, "%s%s: %s", i > 0 ? "\nset_header = " : "", lines[i].name, lines[i].value);
    }
}

/* ---- by type ---- */

typedef bool add_element(const struct place *place, struct slice text, struct list *list);

static const struct kind {
    enum key_type type;
    size_t item_bytes;
    add_element *add;
    void (*drop)(struct list *list); /* what its elements own; NULL = nothing */
} kinds[] = {
    {KEY_STATUSES, sizeof(struct status_range), add_status, NULL},
    {KEY_ANSWERS, sizeof(struct answer_rule), add_rule, drop_rules},
    {KEY_PAUSES, sizeof(struct time_field), add_pause, drop_pauses},
    {KEY_BUDGETS, sizeof(struct budget_field), add_budget, drop_budgets},
    {KEY_FIELDS, sizeof(struct header_line), add_name, drop_lines},
    {KEY_LINES, sizeof(struct header_line), add_line, drop_lines},
};

static const struct kind *kind_of(enum key_type type)
{
    const struct kind *kind = kinds;

    while (kind->type != type) {
        kind++;
        must(kind < kinds + sizeof kinds / sizeof kinds[0]);
    }
    return kind;
}

static void drop_list(const struct kind *kind, struct list *list)
{
    if (kind->drop != NULL) {
        kind->drop(list);
    }
    mem_free(list->items);
    *list = (struct list){NULL, 0, list->item_bytes};
}

static bool read_list(const struct place *place, struct slice text, const struct kind *kind, struct list *list)
{
    struct slice element;
    bool good = true, any = false;

    while (slice_next_element(&text, &element)) {
        any = true;
        good = kind->add(place, element, list) && good;
    }
    if (!any) {
        report_error(place, "the list is empty; write none where nothing is meant");
    }
    if (!good || !any) {
        drop_list(kind, list);
    }
    return good && any;
}

static void get_list(const void *field, struct list *list)
{
    memcpy(&list->items, field, sizeof list->items); /* a pointer of another type each time */
    memcpy(&list->count, (const char *)field + sizeof list->items, sizeof list->count);
}

static void put_list(void *field, const struct list *list)
{
    memcpy(field, &list->items, sizeof list->items);
    memcpy((char *)field + sizeof list->items, &list->count, sizeof list->count);
}

#define COUNT_FOLLOWS(list)                                                                                            \
    (offsetof(struct feedback_conf, list##_count) == offsetof(struct feedback_conf, list) + sizeof(void *))
_Static_assert(COUNT_FOLLOWS(throttle_status) && COUNT_FOLLOWS(throttle_if) && COUNT_FOLLOWS(pause_header) &&
                   COUNT_FOLLOWS(ban_status) && COUNT_FOLLOWS(ban_if) && COUNT_FOLLOWS(budget_header) &&
                   COUNT_FOLLOWS(set_header) && COUNT_FOLLOWS(require_header) && COUNT_FOLLOWS(drop_header),
               "the count of a list is right behind it");

/* "10000/10m status=401,403,429" */
static bool set_errors(const struct place *place, struct slice text, struct feedback_conf *conf)
{
    static const char mark[] = "status=";
    struct slice rest = text, first;
    struct list list = {NULL, 0, sizeof(struct status_range)};
    struct rate rate = {0, 0};

    if (!slice_is(text, "none")) {
        if (!cut(&rest, ' ', &first) || !str_parse_rate(first, &rate) || rest.len < sizeof mark ||
            memcmp(rest.ptr, mark, sizeof mark - 1) != 0) {
            report_error(place, "%.*s is not COUNT/PERIOD status=LIST, as in 5000/10m status=401,403,429",
                         REPORT_SHOWN(text));
            return false;
        }
        rest = (struct slice){rest.ptr + sizeof mark - 1, rest.len - (sizeof mark - 1)};
        if (!read_list(place, rest, kind_of(KEY_STATUSES), &list)) {
            return false;
        }
        if (rate.period_us < CLOCK_SECOND_US || rate.period_us > 7 * 86400 * CLOCK_SECOND_US) {
            report_error(place, "the period is out of range, allowed is 1s to 7d");
            mem_free(list.items);
            return false;
        }
    }
    mem_free(conf->error_status);
    conf->error_rate = rate;
    conf->error_status = list.items;
    conf->error_status_count = list.count;
    return true;
}

static bool set_from(const struct place *place, struct slice text, struct feedback_conf *conf)
{
    struct policy taken = {0}; /* where hosts_set() puts them */
    bool good = slice_is(text, "none") || hosts_set(place, text, &taken);

    if (!good) {
        feedback_conf_free_from(taken.hosts, taken.hosts_count);
        return false;
    }
    feedback_conf_free_from(conf->from, conf->from_count);
    conf->from = taken.hosts;
    conf->from_count = taken.hosts_count;
    return true;
}

bool feedback_value_set(const struct place *place, const struct key *key, struct slice text, struct policy *policy)
{
    void *field = (char *)policy + key->offset;

    if (key->type == KEY_ERRORS) {
        return set_errors(place, text, &policy->feedback);
    }
    if (key->type == KEY_FROM) {
        return set_from(place, text, &policy->feedback);
    }
    const struct kind *kind = kind_of(key->type);
    struct list before = {NULL, 0, kind->item_bytes}, list = before;
    get_list(field, &before);
    if (key->type == KEY_LINES && !slice_is(text, "none")) {
        list = before; /* one line more: feedback_value_clear() came first */
        if (!kind->add(place, text, &list)) {
            return false;
        }
        put_list(field, &list);
        return true;
    }
    if (!slice_is(text, "none") && !read_list(place, text, kind, &list)) {
        return false;
    }
    drop_list(kind, &before);
    put_list(field, &list);
    return true;
}

void feedback_value_clear(const struct key *key, struct policy *policy)
{
    void *field = (char *)policy + key->offset;
    const struct kind *kind = kind_of(key->type);
    struct list list = {NULL, 0, kind->item_bytes};

    get_list(field, &list);
    drop_list(kind, &list);
    put_list(field, &list);
}

static void print_errors(const struct feedback_conf *conf, struct buf *out)
{
    if (conf->error_rate.count == 0) {
        buf_add_str(out, "none");
        return;
    }
    char period[32];
    str_format_duration(conf->error_rate.period_us, period);
    buf_printf(out, "%" PRId64 "/%s status=", conf->error_rate.count, period);
    print_statuses(conf->error_status, conf->error_status_count, out);
}

bool feedback_value_print(const struct key *key, const struct policy *policy, struct buf *out)
{
    const void *field = (const char *)policy + key->offset;
    struct list list = {NULL, 0, 0};

    if (key->type == KEY_ERRORS) {
        print_errors(&policy->feedback, out);
        return true;
    }
    if (key->type == KEY_FROM && policy->feedback.from_count > 0) {
        hosts_print(&(struct policy){.hosts = policy->feedback.from, .hosts_count = policy->feedback.from_count}, out);
        return true;
    }
    get_list(field, &list);
    if (list.count == 0) {
        buf_add_str(out, "none"); /* in so many words, since [default] may say something else */
        return true;
    }
    switch (key->type) {
    case KEY_STATUSES:
        print_statuses(list.items, list.count, out);
        break;
    case KEY_ANSWERS:
        print_rules(list.items, list.count, out);
        break;
    case KEY_PAUSES:
        print_pauses(list.items, list.count, out);
        break;
    case KEY_BUDGETS:
        print_budgets(list.items, list.count, out);
        break;
    case KEY_FIELDS:
        print_names(list.items, list.count, out);
        break;
    case KEY_LINES:
        print_lines(list.items, list.count, out);
        break;
    default:
        wrong("not of this file");
    }
    return true;
}
