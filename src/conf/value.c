/*
 * Scalars. Reasons say what may be written, not only that this may not: the allowed words, the range, a unit that is
 * missing.
 */
#include "conf/value.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX_BYTES_MAX 64
#define PATH_BYTES_MAX 4095
/* The longest period a slot may stand for. */

static void *field_of(const struct key *key, void *record)
{
    return (char *)record + key->offset;
}

static const void *const_field_of(const struct key *key, const void *record)
{
    return (const char *)record + key->offset;
}

static bool is_all_digits(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
    }
    return text.len > 0;
}

static void refuse_number(const struct place *place, const struct key *key, struct slice text)
{
    if (key->type == KEY_DURATION && is_all_digits(text)) {
        report_error(place, "%.*s has no unit; write %.*ss, %.*sms, %.*sm, ...", REPORT_SHOWN(text), REPORT_SHOWN(text),
                     REPORT_SHOWN(text), REPORT_SHOWN(text));
    } else if (key->type == KEY_DURATION) {
        report_error(place, "%.*s is not a duration such as 250ms, 1.5s, 5m, 1h or 1d", REPORT_SHOWN(text));
    } else if (key->type == KEY_SIZE) {
        report_error(place, "%.*s is not a size such as 512, 64k, 10m or 1g", REPORT_SHOWN(text));
    } else {
        report_error(place, "%.*s is not a whole number", REPORT_SHOWN(text));
    }
}

static bool parse_number(enum key_type type, struct slice text, int64_t *out)
{
    uint64_t count;

    if (type == KEY_DURATION) {
        return str_parse_duration_us(text, out);
    }
    if (type == KEY_SIZE) {
        return str_parse_size_bytes(text, out);
    }
    if (!str_parse_u64(text, &count)) {
        count = INT64_MAX; /* too large for any range */
        if (!is_all_digits(text)) {
            return false;
        }
    }
    *out = count > INT64_MAX ? INT64_MAX : (int64_t)count;
    return true;
}

static bool set_number(const struct place *place, const struct key *key, struct slice text, int64_t *field)
{
    int64_t value;
    char range[80];

    if (!parse_number(key->type, text, &value)) {
        refuse_number(place, key, text);
        return false;
    }
    if (value < key->min || value > key->max) {
        must(key_range(key, range));
        report_error(place, "%.*s is out of range, allowed is %s", REPORT_SHOWN(text), range);
        return false;
    }
    *field = value;
    return true;
}

static void refuse_choice(const struct place *place, const struct key *key, struct slice text)
{
    char allowed[200] = "";
    size_t used = 0;
    char *word = mem_strndup(text.ptr, text.len);
    const char *nearest = str_nearest(word, key->choices);

    for (size_t i = 0; key->choices[i] != NULL; i++) {
        const char *join = i == 0 ? "" : key->choices[i + 1] == NULL ? " or " : ", ";
        used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s", join, key->choices[i]);
        must(used < sizeof allowed);
    }
    if (nearest != NULL) {
        report_error(place, "%.*s is not %s; did you mean %s?", REPORT_SHOWN(text), allowed, nearest);
    } else {
        report_error(place, "%.*s is not %s", REPORT_SHOWN(text), allowed);
    }
    mem_free(word);
}

static bool find_choice(const struct place *place, const struct key *key, struct slice text, unsigned *out)
{
    for (unsigned i = 0; key->choices[i] != NULL; i++) {
        if (slice_is(text, key->choices[i])) {
            *out = i;
            return true;
        }
    }
    refuse_choice(place, key, text);
    return false;
}

static bool set_choice(const struct place *place, const struct key *key, struct slice text, void *field)
{
    unsigned choice;

    if (!find_choice(place, key, text, &choice)) {
        return false;
    }
    if (key->type == KEY_SWITCH) {
        *(bool *)field = choice != 0;
    } else {
        memcpy(field, &choice, sizeof choice); /* an enum of another name each time */
    }
    return true;
}

_Static_assert(sizeof(enum log_level) == sizeof(unsigned) && sizeof(enum strict_mode) == sizeof(unsigned),
               "set_choice() writes enums as unsigned");

static void replace(char **field, struct slice text)
{
    mem_free(*field);
    *field = mem_strndup(text.ptr, text.len);
}

static bool set_path(const struct place *place, struct slice text, char **field)
{
    if (text.len > PATH_BYTES_MAX) {
        report_error(place, "the path is longer than %d bytes", PATH_BYTES_MAX);
        return false;
    }
    if (slice_is(text, "-")) {
        mem_free(*field);
        *field = NULL;
        return true;
    }
    replace(field, text);
    return true;
}

/* Braces would choose a hash slot of their own in a Redis Cluster. */
static bool set_prefix(const struct place *place, struct slice text, char **field)
{
    bool good = text.len <= PREFIX_BYTES_MAX;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        good = good && c > ' ' && c < 0x7f && c != '{' && c != '}';
    }
    if (!good) {
        report_error(place, "a prefix is at most %d printable ASCII characters without spaces and braces",
                     PREFIX_BYTES_MAX);
        return false;
    }
    replace(field, text);
    return true;
}

static bool set_word(const struct place *place, struct slice text, char **field)
{
    bool good = text.len > 0 && text.len <= PREFIX_BYTES_MAX;

    for (size_t i = 0; i < text.len; i++) {
        good = good && text.ptr[i] > ' ' && text.ptr[i] < 0x7f;
    }
    if (!good) {
        report_error(place, "not a word of 1 to %d printable ASCII characters without spaces", PREFIX_BYTES_MAX);
        return false;
    }
    replace(field, text);
    return true;
}

bool value_set(const struct place *place, const struct key *key, struct slice text, void *record)
{
    void *field = field_of(key, record);

    switch (key->type) {
    case KEY_COUNT:
    case KEY_OPTIONAL:
    case KEY_DURATION:
    case KEY_SIZE:
        return set_number(place, key, text, field);
    case KEY_RATE:
        return rate_parse(place, text, field);
    case KEY_CHOICE:
    case KEY_SWITCH:
        return set_choice(place, key, text, field);
    case KEY_FILE:
        return set_path(place, text, field);
    case KEY_PREFIX:
        return set_prefix(place, text, field);
    case KEY_WORD:
        return set_word(place, text, field);
    case KEY_LISTEN:
    case KEY_PORTS:
    case KEY_RANGES:
    case KEY_UPSTREAMS:
        return list_set(place, key, text, record);
    case KEY_URL:
        return url_set(place, text, record);
    case KEY_HOSTS:
        return hosts_set(place, text, record);
    case KEY_TOKEN:
    case KEY_LABEL:
    case KEY_GLOB:
    case KEY_METHODS:
    case KEY_CALLERS:
    case KEY_ORIGIN:
        return inbound_value_set(place, key, text, record);
    case KEY_QUOTAS:
    case KEY_PARTS:
    case KEY_COST_ANSWER:
    case KEY_MATCH:
        return parts_set(place, key, text, record);
    case KEY_SHARERS:
    case KEY_WEIGHTS:
    case KEY_MATCHES:
        return order_set(place, key, text, field);
    case KEY_STATUSES:
    case KEY_ANSWERS:
    case KEY_PAUSES:
    case KEY_BUDGETS:
    case KEY_FIELDS:
    case KEY_LINES:
    case KEY_ERRORS:
    case KEY_FROM:
        return feedback_value_set(place, key, text, record);
    }
    wrong("no such type of key");
}

static bool print_text(const char *text, const char *unset, struct buf *out)
{
    if (text == NULL && unset == NULL) {
        return false;
    }
    buf_add_str(out, text != NULL ? text : unset);
    return true;
}

static void print_number(enum key_type type, int64_t value, struct buf *out)
{
    char text[32];

    if (type == KEY_DURATION) {
        str_format_duration(value, text);
    } else if (type == KEY_SIZE) {
        size_format(value, text);
    } else {
        (void)snprintf(text, sizeof text, "%" PRId64, value);
    }
    buf_add_str(out, text);
}

static void print_choice(const struct key *key, const void *field, struct buf *out)
{
    unsigned choice;

    if (key->type == KEY_SWITCH) {
        choice = *(const bool *)field;
    } else {
        memcpy(&choice, field, sizeof choice);
    }
    buf_add_str(out, key->choices[choice]);
}

bool value_print(const struct key *key, const void *record, struct buf *out)
{
    const void *field = const_field_of(key, record);

    switch (key->type) {
    case KEY_COUNT:
    case KEY_DURATION:
    case KEY_SIZE:
        print_number(key->type, *(const int64_t *)field, out);
        return true;
    case KEY_RATE:
        rate_print(field, out);
        return true;
    case KEY_CHOICE:
    case KEY_SWITCH:
        print_choice(key, field, out);
        return true;
    case KEY_FILE:
    case KEY_PREFIX:
    case KEY_WORD:
    case KEY_URL:
        return print_text(*(char *const *)field, key->initial, out);
    case KEY_LISTEN:
    case KEY_PORTS:
    case KEY_RANGES:
    case KEY_UPSTREAMS:
        return list_print(key, record, out);
    case KEY_HOSTS:
        hosts_print(record, out);
        return true;
    case KEY_OPTIONAL:
        if (*(const int64_t *)field == 0) {
            return false;
        }
        print_number(key->type, *(const int64_t *)field, out);
        return true;
    case KEY_TOKEN:
    case KEY_LABEL:
    case KEY_GLOB:
        return print_text(*(char *const *)field, key->initial, out);
    case KEY_METHODS:
    case KEY_CALLERS:
    case KEY_ORIGIN:
        return inbound_value_print(key, record, out);
    case KEY_QUOTAS:
    case KEY_PARTS:
    case KEY_COST_ANSWER:
    case KEY_MATCH:
        return parts_print(key, record, out);
    case KEY_SHARERS:
    case KEY_WEIGHTS:
    case KEY_MATCHES:
        return order_print(key, field, out);
    case KEY_STATUSES:
    case KEY_ANSWERS:
    case KEY_PAUSES:
    case KEY_BUDGETS:
    case KEY_FIELDS:
    case KEY_LINES:
    case KEY_ERRORS:
    case KEY_FROM:
        return feedback_value_print(key, record, out);
    }
    wrong("no such type of key");
}

void proxy_conf_fini(struct proxy_conf *proxy)
{
    mem_free(proxy->listen);
    mem_free(proxy->connect_ports);
    mem_free(proxy->auth);
    mem_free(proxy->allow_clients);
    mem_free(proxy->private_upstreams);
    mem_free(proxy->log_file);
    mem_free(proxy->ca_dir);
    memset(proxy, 0, sizeof *proxy);
}
