#include "conf/feedback.h"

#include "base/mem.h"
#include "conf/policy.h"

#include <string.h>

static void *copy(const void *items, unsigned count, size_t item_bytes)
{
    if (items == NULL || count == 0) {
        return NULL;
    }
    void *out = mem_alloc(count * item_bytes);
    memcpy(out, items, count * item_bytes);
    return out;
}

static char *copy_text(const char *text)
{
    return text != NULL ? mem_strdup(text) : NULL;
}

static void own_rules(struct answer_rule **rules, unsigned count)
{
    *rules = copy(*rules, count, sizeof **rules);
    for (unsigned i = 0; i < count; i++) {
        (*rules)[i].field = copy_text((*rules)[i].field);
        (*rules)[i].value = copy_text((*rules)[i].value);
    }
}

static void own_lines(struct header_line **lines, unsigned count)
{
    *lines = copy(*lines, count, sizeof **lines);
    for (unsigned i = 0; i < count; i++) {
        (*lines)[i].name = copy_text((*lines)[i].name);
        (*lines)[i].value = copy_text((*lines)[i].value);
    }
}

void feedback_conf_own(struct feedback_conf *to)
{
    to->from = copy(to->from, to->from_count, sizeof *to->from);
    for (unsigned i = 0; i < to->from_count; i++) {
        to->from[i].host = copy_text(to->from[i].host);
    }
    to->throttle_status = copy(to->throttle_status, to->throttle_status_count, sizeof *to->throttle_status);
    to->ban_status = copy(to->ban_status, to->ban_status_count, sizeof *to->ban_status);
    to->error_status = copy(to->error_status, to->error_status_count, sizeof *to->error_status);
    own_rules(&to->throttle_if, to->throttle_if_count);
    own_rules(&to->ban_if, to->ban_if_count);
    to->pause_header = copy(to->pause_header, to->pause_header_count, sizeof *to->pause_header);
    for (unsigned i = 0; i < to->pause_header_count; i++) {
        to->pause_header[i].field = copy_text(to->pause_header[i].field);
    }
    to->budget_header = copy(to->budget_header, to->budget_header_count, sizeof *to->budget_header);
    for (unsigned i = 0; i < to->budget_header_count; i++) {
        to->budget_header[i].remaining = copy_text(to->budget_header[i].remaining);
        to->budget_header[i].reset.field = copy_text(to->budget_header[i].reset.field);
    }
    own_lines(&to->set_header, to->set_header_count);
    own_lines(&to->require_header, to->require_header_count);
    own_lines(&to->drop_header, to->drop_header_count);
}

static bool matches(const struct host_pattern *pattern, const char *host, uint16_t port)
{
    size_t len = strlen(host), suffix = strlen(pattern->host);

    if (pattern->port != 0 && pattern->port != port) {
        return false;
    }
    if (!pattern->wildcard) {
        return strcmp(pattern->host, host) == 0;
    }
    return len > suffix + 1 && host[len - suffix - 1] == '.' && strcmp(host + len - suffix, pattern->host) == 0;
}

bool feedback_conf_obeys(const struct feedback_conf *conf, const char *host, uint16_t port)
{
    for (unsigned i = 0; i < conf->from_count; i++) {
        if (matches(&conf->from[i], host, port)) {
            return true;
        }
    }
    return conf->from_count == 0;
}

void feedback_conf_free_from(struct host_pattern *from, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        mem_free(from[i].host);
    }
    mem_free(from);
}

static void free_rules(struct answer_rule *rules, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        mem_free(rules[i].field);
        mem_free(rules[i].value);
    }
    mem_free(rules);
}

static void free_lines(struct header_line *lines, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        mem_free(lines[i].name);
        mem_free(lines[i].value);
    }
    mem_free(lines);
}

void feedback_conf_fini(struct feedback_conf *conf)
{
    feedback_conf_free_from(conf->from, conf->from_count);
    mem_free(conf->throttle_status);
    mem_free(conf->ban_status);
    mem_free(conf->error_status);
    free_rules(conf->throttle_if, conf->throttle_if_count);
    free_rules(conf->ban_if, conf->ban_if_count);
    for (unsigned i = 0; i < conf->pause_header_count; i++) {
        mem_free(conf->pause_header[i].field);
    }
    mem_free(conf->pause_header);
    for (unsigned i = 0; i < conf->budget_header_count; i++) {
        mem_free(conf->budget_header[i].remaining);
        mem_free(conf->budget_header[i].reset.field);
    }
    mem_free(conf->budget_header);
    free_lines(conf->set_header, conf->set_header_count);
    free_lines(conf->require_header, conf->require_header_count);
    free_lines(conf->drop_header, conf->drop_header_count);
    memset(conf, 0, sizeof *conf);
}
