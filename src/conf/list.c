/*
 * Comma-separated lists. Every element is checked, so that one reading shows all mistakes; the field changes
 * only when all are right. A range that is wider than its text looks (10.0.0.1/8) is refused, not rounded.
 */
#include "conf/value.h"

#include "base/mem.h"
#include "conf/inbound.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* An array of elements of any type while it grows. */
struct growing {
    void *items;
    unsigned count;
    size_t item_bytes;
};

static void *grow(struct growing *list)
{
    list->items = mem_realloc(list->items, (list->count + 1) * list->item_bytes);
    return (char *)list->items + list->count++ * list->item_bytes;
}

typedef bool parse_element(const struct place *place, struct slice text, struct growing *list);

/* Runs `parse` over the elements. False, and an empty list, when one is refused or there is none. */
static bool parse_list(const struct place *place, struct slice text, parse_element *parse, struct growing *list)
{
    struct slice element;
    bool good = true, any = false;

    while (slice_next_element(&text, &element)) {
        any = true;
        good = parse(place, element, list) && good;
    }
    if (!any) {
        report_error(place, "the list is empty");
    }
    if (!good || !any) {
        mem_free(list->items);
        *list = (struct growing){NULL, 0, list->item_bytes};
    }
    return good && any;
}

_Static_assert(offsetof(struct proxy_conf, listen_count) == offsetof(struct proxy_conf, listen) + sizeof(void *) &&
                   offsetof(struct proxy_conf, connect_ports_count) ==
                       offsetof(struct proxy_conf, connect_ports) + sizeof(void *) &&
                   offsetof(struct proxy_conf, allow_clients_count) ==
                       offsetof(struct proxy_conf, allow_clients) + sizeof(void *) &&
                   offsetof(struct inbound_conf, listen_count) == offsetof(struct inbound_conf, listen) + sizeof(void *) &&
                   offsetof(struct inbound_conf, check_listen_count) ==
                       offsetof(struct inbound_conf, check_listen) + sizeof(void *) &&
                   offsetof(struct inbound_conf, trusted_proxies_count) ==
                       offsetof(struct inbound_conf, trusted_proxies) + sizeof(void *),
               "the count of a list is right behind it");

static void put_list(void *field, const struct growing *list)
{
    void *before;

    memcpy(&before, field, sizeof before); /* a pointer of another type each time */
    mem_free(before);
    memcpy(field, &list->items, sizeof list->items);
    memcpy((char *)field + sizeof(void *), &list->count, sizeof list->count);
}

static unsigned get_list(const void *field, const void *items)
{
    unsigned count;

    memcpy((void *)(uintptr_t)items, field, sizeof(void *));
    memcpy(&count, (const char *)field + sizeof(void *), sizeof count);
    return count;
}

/* ---- listen ---- */

static void refuse_address(const struct place *place, struct slice text)
{
    uint16_t port;
    const char *colon = memrchr(text.ptr, ':', text.len);
    struct slice after = colon != NULL ? (struct slice){colon + 1, text.len - (size_t)(colon - text.ptr) - 1} : text;

    if (str_parse_port(text, &port)) {
        report_error(place, "%u is a port alone; write 127.0.0.1:%u", port, port);
    } else if (text.ptr[0] == '*') {
        report_error(place, "%.*s is not an address; every address is 0.0.0.0:PORT or [::]:PORT", REPORT_SHOWN(text));
    } else if (colon != NULL && !str_parse_port(after, &port)) {
        report_error(place, "%.*s has no valid port, allowed is 1 to 65535", REPORT_SHOWN(text));
    } else {
        report_error(place,
                     "%.*s is not ADDRESS:PORT such as 127.0.0.1:3128 or [::1]:3128 (names are not resolved here)",
                     REPORT_SHOWN(text));
    }
}

static bool parse_listen(const struct place *place, struct slice text, struct growing *list)
{
    struct addr addr;
    char mine[ADDR_TEXT_BYTES], other[ADDR_TEXT_BYTES];

    if (!addr_parse_with_port(text, &addr)) {
        refuse_address(place, text);
        return false;
    }
    addr_format(&addr, false, mine);
    for (unsigned i = 0; i < list->count; i++) {
        addr_format((struct addr *)list->items + i, false, other);
        if (strcmp(mine, other) == 0) {
            report_error(place, "%s is there twice", mine);
            return false;
        }
    }
    *(struct addr *)grow(list) = addr;
    return true;
}

static bool print_listen(const void *field, struct buf *out)
{
    const struct addr *listen = NULL;
    unsigned count = get_list(field, &listen);
    char text[ADDR_TEXT_BYTES];

    for (unsigned i = 0; i < count; i++) {
        addr_format(&listen[i], false, text);
        buf_printf(out, "%s%s", i > 0 ? ", " : "", text);
    }
    return count > 0;
}

/* ---- connect_ports ---- */

static bool parse_port_range(const struct place *place, struct slice text, struct growing *list)
{
    const char *dash = memchr(text.ptr, '-', text.len);
    size_t first_len = dash != NULL ? (size_t)(dash - text.ptr) : text.len;
    struct slice first = slice_trim((struct slice){text.ptr, first_len}), last = first;
    struct port_range range;

    if (dash != NULL) {
        last = slice_trim((struct slice){dash + 1, text.len - first_len - 1});
    }
    if (!str_parse_port(first, &range.first) || !str_parse_port(last, &range.last)) {
        report_error(place, "%.*s is not a port from 1 to 65535 or a range such as 8000-8100", REPORT_SHOWN(text));
        return false;
    }
    if (range.first > range.last) {
        report_error(place, "%.*s is backwards; write %u-%u", REPORT_SHOWN(text), range.last, range.first);
        return false;
    }
    *(struct port_range *)grow(list) = range;
    return true;
}

static bool print_ports(const void *field, struct buf *out)
{
    const struct port_range *ranges = NULL;
    unsigned count = get_list(field, &ranges);

    for (unsigned i = 0; i < count; i++) {
        buf_printf(out, "%s%u", i > 0 ? ", " : "", ranges[i].first);
        if (ranges[i].last != ranges[i].first) {
            buf_printf(out, "-%u", ranges[i].last);
        }
    }
    return count > 0;
}

/* ---- ranges of addresses ---- */

static bool parse_cidr(const struct place *place, struct slice text, struct growing *list)
{
    struct cidr range;

    if (!cidr_parse(text, &range)) {
        report_error(place, "%.*s is not a range such as 10.0.0.0/8 or fd00::/8 (bits after the prefix are 0)",
                     REPORT_SHOWN(text));
        return false;
    }
    *(struct cidr *)grow(list) = range;
    return true;
}

static bool set_cidrs(const struct place *place, struct slice text, struct cidr **ranges, unsigned *count)
{
    struct growing list = {NULL, 0, sizeof(struct cidr)};

    if (!parse_list(place, text, parse_cidr, &list)) {
        return false;
    }
    mem_free(*ranges);
    *ranges = list.items;
    *count = list.count;
    return true;
}

static void print_cidr(const struct cidr *range, struct buf *out)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool v4 = range->bits >= 96 && memcmp(range->bytes, mapped, sizeof mapped) == 0;
    char text[INET6_ADDRSTRLEN];

    must(inet_ntop(v4 ? AF_INET : AF_INET6, range->bytes + (v4 ? 12 : 0), text, sizeof text) != NULL);
    buf_printf(out, "%s/%d", text, v4 ? range->bits - 96 : range->bits);
}

static void print_cidrs(const struct cidr *ranges, unsigned count, struct buf *out)
{
    for (unsigned i = 0; i < count; i++) {
        buf_add_str(out, i > 0 ? ", " : "");
        print_cidr(&ranges[i], out);
    }
}

static bool is_one_word(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) {
            return false;
        }
    }
    return true;
}

static bool set_upstreams(const struct place *place, struct slice text, struct proxy_conf *proxy)
{
    bool deny = slice_is(text, "deny"), allow = slice_is(text, "allow");

    if (!deny && !allow) {
        if (is_one_word(text)) {
            report_error(place, "%.*s is not deny, allow or a list of ranges such as 10.0.0.0/8", REPORT_SHOWN(text));
            return false;
        }
        if (!set_cidrs(place, text, &proxy->private_upstreams, &proxy->private_upstreams_count)) {
            return false;
        }
    }
    proxy->private_mode = deny ? PRIVATE_DENY : allow ? PRIVATE_ALLOW : PRIVATE_LIST;
    return true;
}

static void print_upstreams(const struct proxy_conf *proxy, struct buf *out)
{
    if (proxy->private_mode == PRIVATE_LIST) {
        print_cidrs(proxy->private_upstreams, proxy->private_upstreams_count, out);
    } else {
        buf_add_str(out, proxy->private_mode == PRIVATE_DENY ? "deny" : "allow");
    }
}

/* ---- by type ---- */

static bool set_plain(const struct place *place, struct slice text, parse_element *parse, size_t item_bytes, void *field)
{
    struct growing list = {NULL, 0, item_bytes};

    if (!parse_list(place, text, parse, &list)) {
        return false;
    }
    put_list(field, &list);
    return true;
}

bool list_set(const struct place *place, const struct key *key, struct slice text, void *record)
{
    void *field = (char *)record + key->offset;

    switch (key->type) {
    case KEY_LISTEN:
        return set_plain(place, text, parse_listen, sizeof(struct addr), field);
    case KEY_PORTS:
        return set_plain(place, text, parse_port_range, sizeof(struct port_range), field);
    case KEY_RANGES:
        return set_plain(place, text, parse_cidr, sizeof(struct cidr), field);
    case KEY_UPSTREAMS:
        return set_upstreams(place, text, record);
    default:
        wrong("not a list");
    }
}

bool list_print(const struct key *key, const void *record, struct buf *out)
{
    const void *field = (const char *)record + key->offset;
    const struct cidr *ranges;
    unsigned count;

    switch (key->type) {
    case KEY_LISTEN:
        return print_listen(field, out);
    case KEY_PORTS:
        return print_ports(field, out);
    case KEY_RANGES:
        count = get_list(field, &ranges);
        print_cidrs(ranges, count, out);
        return count > 0;
    case KEY_UPSTREAMS:
        print_upstreams(record, out);
        return true;
    default:
        wrong("not a list");
    }
}
