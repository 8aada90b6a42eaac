/*
 * From sections to protected APIs. An [inbound] section is a place and its first limit in one; each [inbound-rule] adds a limit to the place that it names,
 * wherever in the file either stands. What contradicts itself, and what no request can reach, is refused.
 */
#include "conf/inbound.h"

#include "base/mem.h"
#include "conf/build.h"
#include "conf/value.h"

#include <inttypes.h>
#include <string.h>

/* Callers whose every request is remembered. */
#define LOG_ENTRIES_NOTABLE 10000
/* A reverse proxy does not queue: as many connections as there are callers. */
#define UPSTREAM_CONNECTIONS 65535

struct building {
    struct report *report;
    struct conf *conf;
    const struct section **sections; /* of conf->inbounds[i] */
    bool redis;
};

static struct place place_in(const struct building *b, const struct section *section, const char *key)
{
    unsigned line = key != NULL ? section_line_of(section, key) : 0;

    return (struct place){b->report, line != 0 ? line : section->line, section->title, line != 0 ? key : NULL};
}

/* ---- one limit ---- */

static int64_t quota_of(const struct inbound_rule *rule)
{
    return rule->algorithm == ALGORITHM_TOKEN_BUCKET ? rule->capacity
           : rule->algorithm == ALGORITHM_LEAKY_BUCKET ? 1 : rule->rate.count;
}

static void check_capacity(const struct building *b, const struct section *section, const struct inbound_rule *rule)
{
    struct place place = place_in(b, section, "capacity");

    if (rule->algorithm != ALGORITHM_TOKEN_BUCKET && section_line_of(section, "capacity") != 0) {
        report_error(&place, "capacity belongs to algorithm = token_bucket; every other one admits what rate says");
    }
    place = place_in(b, section, "rate");
    if (rule->rate.count > INBOUND_COUNT_MOST) {
        report_error(&place, "a COUNT of at most %" PRId64 " can be counted", (int64_t)INBOUND_COUNT_MOST);
    } else if (rule->algorithm == ALGORITHM_SLIDING_WINDOW_LOG && rule->rate.count > LOG_ENTRIES_NOTABLE) {
        report_warning(&place,
                       "sliding_window_log remembers each of %" PRId64
                       " requests of every caller, about 100 bytes each; sliding_window_strict needs 1 KB",
                       rule->rate.count);
    }
}

static void check_cost(const struct building *b, const struct section *section, const struct inbound_rule *rule)
{
    struct place place = place_in(b, section, "cost");

    if (rule->algorithm != ALGORITHM_LEAKY_BUCKET && rule->cost > quota_of(rule)) {
        report_error(&place, "a cost of %" PRId64 " is above the %s of %" PRId64 ": nothing would ever be admitted", rule->cost,
                     rule->algorithm == ALGORITHM_TOKEN_BUCKET ? "capacity" : "COUNT of rate", quota_of(rule));
    }
}

static void read_section(const struct building *b, const struct section *section, struct inbound_record *record)
{
    size_t count;
    const struct key *keys = keys_all(&count);

    memset(record, 0, sizeof *record);
    for (size_t i = 0; i < count; i++) {
        struct place place = {b->report, 0, "defaults", keys[i].name};
        if ((keys[i].scope & section->scope) != 0 && keys[i].initial != NULL) {
            must(value_set(&place, &keys[i], slice_of(keys[i].initial), record));
        }
    }
    for (size_t i = 0; i < section->count; i++) {
        const struct entry *entry = &section->entries[i];
        struct place place = {b->report, entry->line, section->title, entry->key->name};
        (void)value_set(&place, entry->key, entry->value, record); /* a mistake is in the report */
    }
    record->rule.line = section->line;
    if (record->rule.algorithm == ALGORITHM_TOKEN_BUCKET && record->rule.capacity == 0) {
        record->rule.capacity = record->rule.rate.count;
    }
    check_capacity(b, section, &record->rule);
    check_cost(b, section, &record->rule);
}

static void add_rule(struct inbound_conf *inbound, const struct inbound_rule *rule, const char *label)
{
    struct inbound_rule *copy = mem_alloc(sizeof *copy);

    *copy = *rule;
    copy->label = mem_strdup(label);
    inbound->rules = mem_realloc((void *)inbound->rules, (inbound->rules_count + 1) * sizeof(struct inbound_rule *));
    inbound->rules[inbound->rules_count++] = copy;
}

/* ---- places ---- */

static void build_place(struct building *b, const struct section *section)
{
    struct inbound_conf *inbound = mem_alloc(sizeof *inbound);
    struct inbound_record record;

    read_section(b, section, &record);
    *inbound = record.place;
    inbound->refs = 1;
    inbound->label = mem_strdup(section->label);
    inbound->line = section->line;
    inbound->ipv6_prefix_bits = (unsigned)record.ipv6_prefix;
    inbound->policy = policy_inherit(b->conf->fallback, section->label, section->line);
    inbound->policy->max_connections = UPSTREAM_CONNECTIONS;
    add_rule(inbound, &record.rule, INBOUND_OWN_RULE);
    b->sections[b->conf->inbounds_count] = section;
    b->conf->inbounds[b->conf->inbounds_count++] = inbound;
}

static struct inbound_conf *find_place(const struct conf *conf, const char *label)
{
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        if (strcmp(conf->inbounds[i]->label, label) == 0) {
            return conf->inbounds[i];
        }
    }
    return NULL;
}

static void refuse_place(const struct building *b, const struct section *section, const char *label)
{
    const char **names = mem_alloc((b->conf->inbounds_count + 1) * sizeof(char *));
    struct place place = place_in(b, section, "inbound");

    for (unsigned i = 0; i < b->conf->inbounds_count; i++) {
        names[i] = b->conf->inbounds[i]->label;
    }
    names[b->conf->inbounds_count] = NULL;
    const char *nearest = str_nearest(label, names);
    if (nearest != NULL) {
        report_error(&place, "there is no [inbound %s]; did you mean %s?", label, nearest);
    } else {
        report_error(&place, "there is no [inbound %s]: nothing can reach this", label);
    }
    mem_free((void *)names);
}

/* The one that `inbound` names; with a single place it goes without saying. */
static struct inbound_conf *place_of(const struct building *b, const struct section *section, const char *label)
{
    struct place place = place_in(b, section, NULL);

    if (label != NULL) {
        struct inbound_conf *found = find_place(b->conf, label);
        if (found == NULL) {
            refuse_place(b, section, label);
        }
        return found;
    }
    if (b->conf->inbounds_count != 1) {
        report_error(&place, b->conf->inbounds_count == 0 ? "there is no [inbound NAME]: nothing can reach this"
                                                          : "inbound is missing: which [inbound] does this belong to?");
        return NULL;
    }
    return b->conf->inbounds[0];
}

static void build_rule(struct building *b, const struct section *section)
{
    struct inbound_record record;

    read_section(b, section, &record);
    struct inbound_conf *inbound = place_of(b, section, record.inbound);
    mem_free(record.inbound);
    if (inbound == NULL) {
        inbound_rule_fini(&record.rule);
        return;
    }
    if (inbound->rules_count == INBOUND_RULES_MOST) {
        struct place place = place_in(b, section, NULL);
        report_error(&place, "[inbound %s] has %d limits already, the most there can be", inbound->label, INBOUND_RULES_MOST);
    }
    add_rule(inbound, &record.rule, section->label);
}

/* ---- contradictions between keys of a place ---- */

static bool same_addr(const struct addr *a, const struct addr *b)
{
    char mine[ADDR_TEXT_BYTES], other[ADDR_TEXT_BYTES];

    addr_format(a, false, mine);
    addr_format(b, false, other);
    return strcmp(mine, other) == 0;
}

struct listens {
    const struct addr *addrs;
    unsigned count;
    const char *whose;
};

static void check_clash(const struct building *b, const struct section *section, const char *key, const struct listens *mine,
                        const struct listens *other)
{
    struct place place = place_in(b, section, key);
    char text[ADDR_TEXT_BYTES];

    for (unsigned i = 0; i < mine->count; i++) {
        for (unsigned j = 0; j < other->count; j++) {
            if (same_addr(&mine->addrs[i], &other->addrs[j])) {
                addr_format(&mine->addrs[i], false, text);
                report_error(&place, "%s is where %s listens", text, other->whose);
            }
        }
    }
}

static void check_addresses(const struct building *b, unsigned index)
{
    const struct inbound_conf *inbound = b->conf->inbounds[index];
    const struct section *section = b->sections[index];
    const struct listens proxy = {b->conf->proxy.listen, b->conf->proxy.listen_count, "[proxy]"};
    const struct listens listen = {inbound->listen, inbound->listen_count, "its own listen"};
    const struct listens check = {inbound->check_listen, inbound->check_listen_count, "its own check_listen"};

    check_clash(b, section, "listen", &listen, &proxy);
    check_clash(b, section, "check_listen", &check, &proxy);
    check_clash(b, section, "check_listen", &check, &listen);
    for (unsigned i = 0; i < index; i++) {
        const struct inbound_conf *before = b->conf->inbounds[i];
        const struct listens theirs[] = {{before->listen, before->listen_count, b->sections[i]->title},
                                         {before->check_listen, before->check_listen_count, b->sections[i]->title}};
        for (size_t t = 0; t < 2; t++) {
            check_clash(b, section, "listen", &listen, &theirs[t]);
            check_clash(b, section, "check_listen", &check, &theirs[t]);
        }
    }
}

/* A gateway can ask somewhere. */
static bool has_check(const struct conf *conf)
{
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        const struct inbound_conf *inbound = conf->inbounds[i];
        if (inbound->check_listen_count > 0 || (inbound->listen_count > 0 && inbound->upstream_host == NULL)) {
            return true;
        }
    }
    return false;
}

static void check_reach(const struct building *b, unsigned index)
{
    const struct inbound_conf *inbound = b->conf->inbounds[index];
    const struct section *section = b->sections[index];
    struct place place = place_in(b, section, "upstream");
    struct addr upstream;

    if ((section_line_of(section, "listen") != 0 && inbound->listen_count == 0) ||
        (section_line_of(section, "check_listen") != 0 && inbound->check_listen_count == 0)) {
        return; /* a mistake in it was told */
    }
    if (inbound->upstream_host != NULL && inbound->listen_count == 0) {
        report_error(&place, "without listen nothing can reach this upstream");
    } else if (inbound->listen_count == 0 && !has_check(b->conf)) {
        report_error(&place, "nothing can reach this: set listen and upstream, or check_listen for gateways that ask");
    }
    if (inbound->upstream_host == NULL ||
        !addr_parse_literal(slice_of(inbound->upstream_host), inbound->upstream_port, &upstream)) {
        return;
    }
    for (unsigned i = 0; i < inbound->listen_count; i++) {
        if (same_addr(&inbound->listen[i], &upstream)) {
            report_error(&place, "this is where the section itself listens: requests would go round in a circle");
        }
    }
}

static void check_trust(const struct building *b, unsigned index)
{
    const struct inbound_conf *inbound = b->conf->inbounds[index];
    struct place place = place_in(b, b->sections[index], "trusted_proxies");

    for (unsigned i = 0; i < inbound->trusted_proxies_count; i++) {
        /* 0.0.0.0/0 is kept as ::ffff:0:0/96 */
        if (inbound->trusted_proxies[i].bits == 0 || inbound->trusted_proxies[i].bits == 96) {
            report_warning(&place, "every caller is believed, and can name any address as its own");
        }
    }
}

static void check_outage(const struct building *b, unsigned index)
{
    static const char *const keys[] = {"on_redis_down", "timeout"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct place place = place_in(b, b->sections[index], keys[i]);
        if (!b->redis && place.key != NULL) {
            report_warning(&place, "has no effect without [redis]");
        }
    }
}

/* ---- all ---- */

void inbound_build(struct conf *conf, const struct draft *draft, struct report *report)
{
    struct building b = {report, conf, NULL, section_line_of(draft_find(draft, IN_REDIS), "url") != 0};

    b.sections = mem_alloc((draft->count + 1) * sizeof(struct section *));
    conf->inbounds = mem_alloc((draft->count + 1) * sizeof(struct inbound_conf *));
    for (size_t i = 0; i < draft->count; i++) {
        if (!draft->sections[i]->ignored && draft->sections[i]->scope == IN_INBOUND) {
            build_place(&b, draft->sections[i]);
        }
    }
    for (size_t i = 0; i < draft->count; i++) {
        if (!draft->sections[i]->ignored && draft->sections[i]->scope == IN_INBOUND_RULE) {
            build_rule(&b, draft->sections[i]);
        }
    }
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        check_addresses(&b, i);
        check_reach(&b, i);
        check_trust(&b, i);
        check_outage(&b, i);
    }
    mem_free((void *)b.sections);
}

void inbound_unbuild(struct conf *conf)
{
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        inbound_conf_put(conf->inbounds[i]);
    }
    mem_free((void *)conf->inbounds);
}

struct inbound_conf *inbound_conf_get(struct inbound_conf *inbound)
{
    must(inbound->refs > 0);
    inbound->refs++;
    return inbound;
}

void inbound_conf_put(struct inbound_conf *inbound)
{
    uint32_t before = inbound->refs--;

    must(before > 0);
    if (before == 1) {
        inbound_conf_fini(inbound);
        mem_free(inbound);
    }
}

struct inbound_record inbound_view(const struct inbound_conf *inbound, unsigned rule)
{
    return (struct inbound_record){
        .rule = *inbound->rules[rule],
        .place = *inbound,
        .ipv6_prefix = inbound->ipv6_prefix_bits,
        .inbound = inbound->label,
    };
}
