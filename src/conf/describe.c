/*
 * What the settings mean, for people: the words behind --check and the start of the program. Nothing that a rule does
 * not do is left out (requests inside a tunnel, hosts without a rule), since silence would be taken for a yes.
 */
#include "base/buf.h"
#include "conf/load.h"
#include "conf/value.h"

#include <inttypes.h>
#include <stdarg.h>

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

static void describe_limits(const struct conf *conf, const struct policy *policy, FILE *out)
{
    char connect[32], response[32], body[32];

    describe_rate(policy, out);
    describe_queue(policy, out);
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
}
