/*
 * Third parties say "slow down" in a dozen ways, none of them reliably. The rules here:
 *
 *   what is malformed is as if it were not there, and counted; never a guess at its half
 *   numbers too large for us are very large numbers, not garbage: they are capped where they are used
 *   dates are measured against the answer's own Date, since only the difference of two readings of one clock means
 *     anything when that clock is wrong; without Date, against ours
 *   a time that is past says nothing about how long to wait, so the configured default has to
 */
#include "http/feedback.h"

#include "http/budget.h"
#include "http/when.h"

#include <string.h>
#include <strings.h>

enum { ITEMS = 16 };
__extension__ typedef __int128 wide;

/* ---- an answer ---- */

static bool among(unsigned status, const struct status_range *ranges, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (status >= ranges[i].first && status <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

static bool obeys(const struct message *response, const struct answer_rule *rules, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!among(response->status, &rules[i].status, 1)) {
            continue;
        }
        const struct field *field = message_field(response, rules[i].field);
        if (field != NULL && (rules[i].value == NULL || slice_is_nocase(field->value, rules[i].value))) {
            return true;
        }
    }
    return false;
}

/* What is being put together. */
struct reading {
    const struct message *response;
    const struct feedback_conf *conf;
    struct wall now;
    struct feedback *out;
};

static void read_clock(struct reading *r)
{
    const struct field *date = message_field(r->response, "Date");

    if (date != NULL && !when_date(date->value, r->now, &r->now)) {
        r->out->garbage++;
    }
}

static void take_budget(struct feedback *out, int64_t remaining, int64_t reset_us)
{
    if (remaining == 0) {
        out->empty_us = reset_us > out->empty_us ? reset_us : out->empty_us;
    } else if (out->remaining == 0 || (wide)reset_us * out->remaining > (wide)out->reset_us * remaining) {
        out->remaining = remaining;
        out->reset_us = reset_us;
    }
}

static void read_budget(struct reading *r, const struct budget_field *budget)
{
    const struct field *reset = message_field(r->response, budget->reset.field);
    struct budget_item items[ITEMS];
    int64_t remaining, left_us;

    if (reset == NULL) {
        return;
    }
    if (budget->remaining == NULL) {
        unsigned count = budget_items(reset->value, items, ITEMS);
        for (unsigned i = 0; i < count; i++) {
            take_budget(r->out, items[i].remaining, items[i].reset_us);
        }
        r->out->garbage += count == 0;
        return;
    }
    const struct field *left = message_field(r->response, budget->remaining);
    if (left == NULL) {
        return;
    }
    if (budget_remaining(left->value, &remaining) && when_read(reset->value, budget->reset.format, r->now, &left_us)) {
        take_budget(r->out, remaining, left_us);
    } else {
        r->out->garbage++;
    }
}

/* A reset whose budget has something left is not what we ran into. */
static bool has_some_left(const struct reading *r, const struct time_field *field)
{
    for (unsigned i = 0; i < r->conf->budget_header_count; i++) {
        const struct budget_field *budget = &r->conf->budget_header[i];
        const struct field *left = budget->remaining != NULL && strcasecmp(budget->reset.field, field->field) == 0
                                       ? message_field(r->response, budget->remaining)
                                       : NULL;
        int64_t remaining;
        if (left != NULL && budget_remaining(left->value, &remaining) && remaining > 0) {
            return true;
        }
    }
    return false;
}

/* The longest of the policies that are used up. */
static void read_ietf_pause(struct reading *r, struct slice value)
{
    struct budget_item items[ITEMS];
    unsigned count = budget_items(value, items, ITEMS);

    r->out->garbage += count == 0;
    for (unsigned i = 0; i < count; i++) {
        if (items[i].remaining == 0 && items[i].reset_us > r->out->pause_us) {
            r->out->pause_us = items[i].reset_us;
        }
    }
}

static void read_pause(struct reading *r, const struct time_field *field)
{
    bool is_retry_after = strcasecmp(field->field, "Retry-After") == 0;
    int64_t left_us;

    for (unsigned i = 0; i < r->response->fields_count; i++) {
        const struct field *it = &r->response->fields[i];
        if (!slice_is_nocase(it->name, field->field) || (!is_retry_after && has_some_left(r, field))) {
            continue;
        }
        if (field->format == TIME_IETF) {
            if (!r->out->retry_after) { /* RFC 9110's field goes before the draft's */
                read_ietf_pause(r, it->value);
            }
        } else if (when_read(it->value, field->format, r->now, &left_us)) {
            r->out->retry_after = r->out->retry_after || is_retry_after;
            r->out->pause_us = left_us > r->out->pause_us ? left_us : r->out->pause_us;
        } else {
            r->out->garbage++;
        }
    }
}

/* ietf fields last, when it is known whether there is a Retry-After. */
static void read_pauses(struct reading *r)
{
    for (int ietf = 0; ietf < 2; ietf++) {
        for (unsigned i = 0; i < r->conf->pause_header_count; i++) {
            if ((r->conf->pause_header[i].format == TIME_IETF) == (ietf == 1)) {
                read_pause(r, &r->conf->pause_header[i]);
            }
        }
    }
}

void feedback_read(const struct message *response, const struct feedback_conf *conf, struct wall now,
                   struct feedback *out)
{
    struct reading r = {response, conf, now, out};
    unsigned status = response->status;

    *out = (struct feedback){0};
    out->counts_as_error = among(status, conf->error_status, conf->error_status_count);
    out->banned =
        among(status, conf->ban_status, conf->ban_status_count) || obeys(response, conf->ban_if, conf->ban_if_count);
    out->throttled = !out->banned && (among(status, conf->throttle_status, conf->throttle_status_count) ||
                                      obeys(response, conf->throttle_if, conf->throttle_if_count));
    if (!out->banned && !out->throttled && !conf->adapt) {
        return;
    }
    read_clock(&r);
    if (out->banned || out->throttled) {
        read_pauses(&r);
    }
    for (unsigned i = 0; conf->adapt && i < conf->budget_header_count; i++) {
        read_budget(&r, &conf->budget_header[i]);
    }
}
