/*
 * What the settings mean, for people: the words behind --check and the start of the program. Nothing that a rule does
 * not do is left out (requests inside a tunnel, hosts without a rule), since silence would be taken for a yes.
 */
#include "base/buf.h"
#include "conf/build.h"
#include "conf/load.h"
#include "conf/value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static void PRINTF_LIKE(3, 4) line(FILE *out, const char *name, const char *format, ...)
{
    va_list args;

    (void)fprintf(out, "    %-15s ", name);
    va_start(args, format);
    (void)vfprintf(out, format, args);
    va_end(args);
    (void)fprintf(out, "\n");
}

static void describe_rate(const struct policy *policy, FILE *out)
{
    struct buf rate = {0};
    char period[32], gap[32];
    int64_t interval = policy_interval_us(policy);

    rate_print(&policy->rate, &rate);
    if (policy->on_redis_down == REDIS_DOWN_RESERVE) {
        buf_printf(&rate, " less %" PRId64 " in reserve", policy->outage_permits * policy->replicas_max);
    }
    str_format_duration(policy->rate.period_us, period);
    line(out, "rate:", "%.*s, one slot every %" PRId64 ".%03" PRId64 " ms", (int)buf_len(&rate), buf_ptr(&rate),
         interval / 1000, interval % 1000);
    buf_fini(&rate);
    if (policy->strict == STRICT_GAP) {
        str_format_duration(policy->rate.period_us / policy->rate.count, gap);
        line(out, "strict:", "gap: never two closer than %s", gap);
    } else {
        line(out, "strict:", "window: never more than %" PRId64 " in any %s", policy->rate.count, period);
    }
}

static void describe_key(const struct policy *policy, const char *name, FILE *out)
{
    struct buf keys = {0};

    parts_print(key_find(IN_DESTINATION, slice_of("key")), policy, &keys);
    if (policy->keys_count > 0 || policy->per_host) {
        line(out, name, "one bucket for each %s%.*s", policy->per_host ? "host, and for each " : "", (int)buf_len(&keys),
             buf_ptr(&keys));
    }
    buf_fini(&keys);
}

/* What limits it beside the rate. */
static void describe_others(const struct policy *policy, FILE *out)
{
    char lease[32];

    for (unsigned i = 0; i < policy->quotas_count; i++) {
        struct buf quota = {0};
        quota_print(&policy->quotas[i], &quota);
        line(out, "quota:", "%.*s; when it is used up, requests %s", (int)buf_len(&quota), buf_ptr(&quota),
             policy->quota_reject ? "are refused with 429" : "wait");
        buf_fini(&quota);
    }
    if (policy->max_in_flight > 0) {
        str_format_duration(policy->lease_us, lease);
        line(out, "in flight:", "at most %" PRId64 " over all replicas; those of a dead one count for %s more",
             policy->max_in_flight, lease);
    }
    if (policy->cost_most > 1) {
        line(out, "cost:", "%" PRId64 " for a request, at most %" PRId64 "%s%s", policy->cost, policy->cost_most,
             policy->cost_header != NULL ? ", as said by the header " : "",
             policy->cost_header != NULL ? policy->cost_header : "");
    }
}

static void describe_routes(const struct policy *policy, FILE *out)
{
    for (unsigned i = 0; i < policy->routes_count; i++) {
        const struct policy *route = policy->routes[i];
        struct buf match = {0}, rate = {0};
        parts_print(key_find(IN_ROUTE, slice_of("match")), route, &match);
        rate_print(&route->rate, &rate);
        line(out, "route:", "%s: %.*s, %.*s, and the limits above", route->label, (int)buf_len(&match), buf_ptr(&match),
             (int)buf_len(&rate), buf_ptr(&rate));
        buf_fini(&match);
        buf_fini(&rate);
        describe_key(route, "", out);
        describe_others(route, out);
    }
}

static void describe_order(const struct policy *policy, FILE *out)
{
    if (policy->order == ORDER_FAIR) {
        line(out, "order:", "fair: callers take turns");
    }
    if (policy->priority_high.count + policy->priority_low.count > 0) {
        line(out, "priority:", "higher ones first; of two the lower keeps %" PRId64 " of 100 slots", policy->low_share);
    }
}

static void describe_queue(const struct policy *policy, FILE *out)
{
    char wait[32];

    str_format_duration(policy->max_wait_us, wait);
    line(out, "queue:", "at most %" PRId64 " waiting, each at most %s; beyond that 429 at once", policy->max_queue,
         wait);
}

static void describe_outage(const struct conf *conf, const struct policy *policy, FILE *out)
{
    char period[32];

    if (conf->redis.url == NULL) {
        line(out, "Redis:", "no [redis]: this process alone keeps the rate");
        return;
    }
    str_format_duration(policy->rate.period_us, period);
    switch (policy->on_redis_down) {
    case REDIS_DOWN_HOLD:
        line(out, "Redis gone:", "hold: nothing is sent until it is back, requests wait up to max_wait");
        break;
    case REDIS_DOWN_RESERVE:
        line(out, "Redis gone:",
             "reserve: each of at most %" PRId64 " replicas sends %" PRId64 " per %s, kept out of the rate always",
             policy->replicas_max, policy->outage_permits, period);
        break;
    case REDIS_DOWN_REJECT:
        line(out, "Redis gone:", "reject: requests are refused at once with 503");
        break;
    case REDIS_DOWN_OPEN:
        line(out, "Redis gone:", "open: everything leaves at once, unpaced: the rate will be exceeded");
        break;
    }
}

/* Both halves of a tunnel's truth, by tunnel_h2. */
#define TURNS "each request inside a tunnel takes a slot, told by whose turn it is to speak; the CONNECT takes none; "
#define H2_COUNT "of HTTP/2 in a tunnel and of pipelined requests only the turns are counted"
#define H2_REFUSE "tunnels that offer HTTP/2 are ended; of pipelined requests only the turns are counted"

const char *conf_https_text(const struct policy *policy)
{
    bool refuse = policy->tunnel_h2 == TUNNEL_H2_REFUSE;

    switch (policy->https) {
    case HTTPS_TUNNEL:
        return refuse ? "tunnel: " TURNS H2_REFUSE : "tunnel: " TURNS H2_COUNT;
    case HTTPS_ORIGINATE:
        return refuse ? "originate: each request for http:// takes a slot and leaves over TLS; " TURNS H2_REFUSE
                      : "originate: each request for http:// takes a slot and leaves over TLS; " TURNS H2_COUNT;
    case HTTPS_INTERCEPT:
        return "intercept: each request inside a CONNECT takes a slot; its TLS ends here with a certificate of our CA, "
               "and begins again, verified";
    }
    return "";
}

static void add_key(struct buf *out, const char *before, const char *name, const struct policy *policy, const char *after)
{
    struct buf value = {0};

    if (value_print(key_find(IN_DEFAULT, slice_of(name)), policy, &value)) {
        buf_printf(out, "%s%.*s%s", before, (int)buf_len(&value), buf_ptr(&value), after);
    }
    buf_fini(&value);
}

static void describe_feedback(const struct policy *policy, FILE *out)
{
    const struct feedback_conf *conf = &policy->feedback;
    struct buf text = {0};

    if (!conf->on) {
        line(out, "feedback:", "off: answers of the third party change nothing");
        return;
    }
    add_key(&text, "", "throttle_status", policy, "");
    add_key(&text, "; ", "throttle_if", policy, "");
    add_key(&text, " pause it for the fleet, as long as ", "pause_header", policy, " says");
    add_key(&text, ", else ", "pause_default", policy, "");
    add_key(&text, " (times ", "pause_growth", policy, " each time)");
    add_key(&text, ", at least ", "pause_min", policy, "");
    add_key(&text, ", at most ", "pause_max", policy, "");
    line(out, "throttled:", "%.*s", (int)buf_len(&text), buf_ptr(&text));
    buf_consume(&text, buf_len(&text));
    if (conf->ban_status_count > 0 || conf->ban_if_count > 0) {
        add_key(&text, "", "ban_status", policy, "");
        add_key(&text, "; ", "ban_if", policy, "");
        add_key(&text, ": stopped for ", "ban_pause", policy, "");
        line(out, "banned:", "%.*s", (int)buf_len(&text), buf_ptr(&text));
        buf_consume(&text, buf_len(&text));
    }
    if (conf->error_rate.count > 0) {
        add_key(&text, "", "error_budget", policy, ", then stopped until there are fewer");
        line(out, "errors:", "%.*s", (int)buf_len(&text), buf_ptr(&text));
        buf_consume(&text, buf_len(&text));
    }
    if (conf->adapt) {
        add_key(&text, "down to ", "adapt_floor", policy, "% of the rate, by ");
        add_key(&text, "", "budget_header", policy, " and throttled answers; half is back after ");
        add_key(&text, "", "adapt_return", policy, "");
        line(out, "adapt:", "%.*s", (int)buf_len(&text), buf_ptr(&text));
    }
    buf_fini(&text);
}

static void describe_retry(const struct policy *policy, FILE *out)
{
    struct buf text = {0};

    if (policy->feedback.retry != RETRY_NONE) {
        add_key(&text, "", "retry", policy, "");
        add_key(&text, ", ", "retry_max", policy, " times at most, each in a slot of its own");
        add_key(&text, ", bodies up to ", "retry_body_max", policy, "");
        line(out, "retry:", "%.*s", (int)buf_len(&text), buf_ptr(&text));
    }
    buf_fini(&text);
}

static void describe_headers(const struct policy *policy, FILE *out)
{
    const struct feedback_conf *conf = &policy->feedback;
    struct buf text = {0};

    for (unsigned i = 0; i < conf->set_header_count; i++) {
        buf_printf(&text, "%s%s", i == 0 ? "set " : ", ", conf->set_header[i].name);
    }
    for (unsigned i = 0; i < conf->drop_header_count; i++) {
        buf_printf(&text, "%s%s", i == 0 ? buf_len(&text) > 0 ? "; drop " : "drop " : ", ", conf->drop_header[i].name);
    }
    for (unsigned i = 0; i < conf->require_header_count; i++) {
        buf_printf(&text, "%s%s", i == 0 ? buf_len(&text) > 0 ? "; require " : "require " : ", ",
                   conf->require_header[i].name);
    }
    if (buf_len(&text) > 0) {
        line(out, "requests:", "%.*s", (int)buf_len(&text), buf_ptr(&text));
    }
    buf_fini(&text);
}

static void describe_limits(const struct conf *conf, const struct policy *policy, FILE *out)
{
    char connect[32], response[32], body[32];

    describe_rate(policy, out);
    describe_key(policy, "buckets:", out);
    describe_others(policy, out);
    describe_routes(policy, out);
    describe_queue(policy, out);
    describe_order(policy, out);
    str_format_duration(policy->connect_timeout_us, connect);
    str_format_duration(policy->response_timeout_us, response);
    str_format_duration(policy->body_timeout_us, body);
    line(out,
         "connections:", "at most %" PRId64 " to one origin; %s to connect, %s to respond, %s of silence in a body",
         policy->max_connections, connect, response, body);
    line(out, "HTTPS:", "%s", conf_https_text(policy));
    if (policy->https != HTTPS_TUNNEL) {
        line(out, "trusted:", "%s", policy->ca_file != NULL ? policy->ca_file : "the system's certificates");
    }
    describe_feedback(policy, out);
    describe_retry(policy, out);
    describe_headers(policy, out);
    describe_outage(conf, policy, out);
}

static void describe_unlisted(const struct conf *conf, FILE *out)
{
    switch (conf->proxy.unlisted) {
    case UNLISTED_PACE:
        (void)fprintf(out, "hosts without a section (unlisted = pace): each host by itself, by [default]\n");
        describe_limits(conf, conf->fallback, out);
        break;
    case UNLISTED_PASS:
        (void)fprintf(out, "hosts without a section (unlisted = pass): sent at once, no rate is kept\n");
        break;
    case UNLISTED_DENY:
        (void)fprintf(out, "hosts without a section (unlisted = deny): refused with 403\n");
        break;
    }
}

/* ---- inbound ---- */

static void describe_listens(const struct inbound_conf *inbound, const struct inbound_record *record, FILE *out)
{
    struct buf listen = {0}, check = {0}, upstream = {0};
    bool passes_on = value_print(key_find(IN_INBOUND, slice_of("upstream")), record, &upstream);

    if (value_print(key_find(IN_INBOUND, slice_of("listen")), record, &listen)) {
        line(out, "listen:", "%.*s, %s%.*s", (int)buf_len(&listen), buf_ptr(&listen),
             passes_on ? "admitted requests go to " : "for gateways that ask /check/",
             passes_on ? (int)buf_len(&upstream) : (int)strlen(inbound->label), passes_on ? buf_ptr(&upstream) : inbound->label);
    }
    if (value_print(key_find(IN_INBOUND, slice_of("check_listen")), record, &check)) {
        line(out, "check:", "/check/%s on %.*s", inbound->label, (int)buf_len(&check), buf_ptr(&check));
    }
    buf_fini(&listen);
    buf_fini(&check);
    buf_fini(&upstream);
}

static void describe_rule(const struct inbound_rule *rule, const struct inbound_record *record, FILE *out)
{
    struct buf text = {0};

    buf_printf(&text, "%s, ", rule->label);
    (void)value_print(key_find(IN_INBOUND, slice_of("algorithm")), record, &text);
    buf_add_str(&text, " ");
    rate_print(&rule->rate, &text);
    if (rule->algorithm == ALGORITHM_TOKEN_BUCKET) {
        buf_printf(&text, ", at most %" PRId64 " at once", rule->capacity);
    }
    buf_add_str(&text, ", by ");
    (void)value_print(key_find(IN_INBOUND, slice_of("key")), record, &text);
    buf_add_str(&text, "; ");
    if (!value_print(key_find(IN_INBOUND, slice_of("methods")), record, &text)) {
        buf_add_str(&text, "every method");
    }
    buf_printf(&text, " %s%s", rule->path != NULL ? rule->path : "on every path", rule->dry_run ? "; dry run" : "");
    line(out, "limit:", "%.*s", (int)buf_len(&text), buf_ptr(&text));
    buf_fini(&text);
}

static void describe_inbound(const struct conf *conf, const struct inbound_conf *inbound, FILE *out)
{
    static const char *const down[] = {
        [INBOUND_DOWN_OPEN] = "open: every request is admitted without being counted",
        [INBOUND_DOWN_LOCAL] = "local: each process admits its share of the rate by itself",
        [INBOUND_DOWN_CLOSED] = "closed: every request is refused with 503",
    };
    struct inbound_record record = inbound_view(inbound, 0);
    char timeout[32];

    (void)fprintf(out, "inbound %s\n", inbound->label);
    describe_listens(inbound, &record, out);
    for (unsigned i = 0; i < inbound->rules_count; i++) {
        record = inbound_view(inbound, i);
        describe_rule(inbound->rules[i], &record, out);
    }
    str_format_duration(inbound->timeout_us, timeout);
    if (conf->redis.url == NULL) {
        line(out, "Redis:", "no [redis]: this process alone counts");
    } else {
        line(out, "Redis gone:", "(or silent for %s) %s", timeout, down[inbound->on_redis_down]);
    }
}

void conf_describe(const struct conf *conf, FILE *out)
{
    for (unsigned i = 0; i < conf->policies_count; i++) {
        const struct policy *policy = conf->policies[i];
        struct buf hosts = {0};

        hosts_print(policy, &hosts);
        (void)fprintf(out, "destination %s\n", policy->label);
        line(out, "hosts:", "%.*s", (int)buf_len(&hosts), buf_ptr(&hosts));
        buf_fini(&hosts);
        describe_limits(conf, policy, out);
    }
    describe_unlisted(conf, out);
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        describe_inbound(conf, conf->inbounds[i], out);
    }
}
