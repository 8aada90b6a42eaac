/*
 * What single values can't tell: settings that contradict each other, rules that nothing can reach, and choices that do
 * something other than they seem to.
 *
 * A contradiction is reported where one of its keys is written. A destination that merely inherits both halves stays
 * silent, since [default] has been told already; with ten thousand destinations that is the difference between one line
 * and ten thousand.
 */
#include "base/mem.h"
#include "conf/build.h"
#include "conf/value.h"

#include <inttypes.h>
#include <string.h>

/* One policy and where it was written. */
struct subject {
    struct report *report;
    const struct conf *conf;
    const struct policy *policy;
    const struct section *section; /* NULL: all defaults */
    bool redis;                    /* there is one, or would be but for a mistake in its url */
};

/* Where a remark about `keys` (NULL-terminated) belongs: the last of them that is set. False when the section sets
 * none. */
static bool place_of(const struct subject *subject, const char *const *keys, struct place *place)
{
    *place = (struct place){subject->report, 0, NULL, NULL};
    for (size_t i = 0; keys[i] != NULL; i++) {
        unsigned at = section_line_of(subject->section, keys[i]);
        if (at > place->line) {
            *place = (struct place){subject->report, at, subject->section->title, keys[i]};
        }
    }
    return place->line > 0;
}

static void check_horizon(const struct subject *subject)
{
    static const char *const keys[] = {"horizon", "late", NULL};
    const struct policy *policy = subject->policy;
    char horizon[32], late[32];
    struct place place;

    if (policy->horizon_us < policy->late_us && place_of(subject, keys, &place)) {
        str_format_duration(policy->horizon_us, horizon);
        str_format_duration(policy->late_us, late);
        report_error(&place, "the horizon of %s is shorter than late, %s: make it at least that long", horizon, late);
    }
}

static void check_reserve(const struct subject *subject)
{
    static const char *const keys[] = {"outage_permits", "replicas_max", "on_redis_down", "rate", NULL};
    const struct policy *policy = subject->policy;
    struct place place;

    if (policy->on_redis_down != REDIS_DOWN_RESERVE || !place_of(subject, keys, &place)) {
        return;
    }
    int64_t reserved = policy->outage_permits * policy->replicas_max; /* at most 1e6 * 1e4 */
    if (policy->outage_permits == 0) {
        report_error(&place, "on_redis_down = reserve needs outage_permits of at least 1");
    } else if (reserved > policy->rate.count) {
        report_error(&place,
                     "%" PRId64 " outage_permits for each of %" PRId64 " replicas_max are %" PRId64
                     ", more than the %" PRId64 " of rate: lower one of the two",
                     policy->outage_permits, policy->replicas_max, reserved, policy->rate.count);
    } else if (reserved == policy->rate.count) {
        report_error(&place,
                     "%" PRId64 " outage_permits for each of %" PRId64
                     " replicas_max are all of rate, nothing is left while Redis is there: lower one of the two",
                     policy->outage_permits, policy->replicas_max);
    }
}

/* Slots are further apart than the rate alone asks for; with a short period that costs much of it. */
static void check_cost(const struct subject *subject)
{
    static const char *const keys[] = {"rate", "strict", "late", "path_jitter", NULL};
    const struct policy *policy = subject->policy;
    int64_t interval = policy_interval_us(policy);
    int64_t ideal = policy->rate.period_us / policy->rate.count;
    struct place place;

    if (policy->on_redis_down == REDIS_DOWN_RESERVE || interval - ideal <= ideal / 5 ||
        !place_of(subject, keys, &place)) {
        return;
    }
    report_warning(&place, "slots are %" PRId64 ".%03" PRId64 " ms apart to be strict, which uses %d%% of the rate; %s",
                   interval / 1000, interval % 1000, (int)(ideal * 100 / interval),
                   policy->strict == STRICT_GAP ? "strict = window costs less"
                                                : "a longer PERIOD with as large a COUNT costs less");
}

/* Permits of the reserve are used by each replica by itself, so two may be used at the same time. */
static void check_gap(const struct subject *subject)
{
    static const char *const keys[] = {"strict", "on_redis_down", NULL};
    const struct policy *policy = subject->policy;
    struct place place;

    if (policy->strict == STRICT_GAP && policy->on_redis_down == REDIS_DOWN_RESERVE &&
        place_of(subject, keys, &place)) {
        report_warning(&place,
                       "while Redis is gone, on_redis_down = reserve keeps the rate but not the gaps of strict = gap");
    }
}

static void check_wait(const struct subject *subject)
{
    static const char *const keys[] = {"max_wait", "rate", NULL};
    const struct policy *policy = subject->policy;
    int64_t interval = policy_interval_us(policy);
    char wait[32];
    struct place place;

    if (policy->max_wait_us < interval && place_of(subject, keys, &place)) {
        str_format_duration(policy->max_wait_us, wait);
        report_warning(&place,
                       "max_wait of %s is shorter than the %" PRId64 ".%03" PRId64
                       " ms between slots: hardly anything can wait its turn",
                       wait, interval / 1000, interval % 1000);
    }
}

static void check_outage(const struct subject *subject)
{
    static const char *const down[] = {"on_redis_down", NULL}, *const permits[] = {"outage_permits", NULL};
    const struct policy *policy = subject->policy;
    struct place place;

    if (!subject->redis && policy->on_redis_down != REDIS_DOWN_HOLD && place_of(subject, down, &place)) {
        report_warning(&place, "has no effect without [redis]");
    }
    if (policy->on_redis_down != REDIS_DOWN_RESERVE && policy->outage_permits > 0 &&
        place_of(subject, permits, &place)) {
        report_warning(&place, "has no effect without on_redis_down = reserve");
    }
    if (policy->on_redis_down == REDIS_DOWN_OPEN && subject->redis && place_of(subject, down, &place)) {
        report_warning(&place, "without Redis everything leaves at once, unpaced: the rate will be exceeded");
    }
}

static bool is_listed(const struct proxy_conf *proxy, const struct addr *addr)
{
    for (unsigned i = 0; i < proxy->private_upstreams_count; i++) {
        if (cidr_contains(&proxy->private_upstreams[i], addr)) {
            return true;
        }
    }
    return false;
}

static bool is_refused(const struct proxy_conf *proxy, const struct host_pattern *pattern)
{
    struct addr addr;

    if (proxy->private_mode == PRIVATE_ALLOW || pattern->wildcard ||
        !addr_parse_literal(slice_of(pattern->host), 0, &addr)) {
        return false;
    }
    return addr_is_private(&addr) && !(proxy->private_mode == PRIVATE_LIST && is_listed(proxy, &addr));
}

/* localhost and all below it are loopback, RFC 6761 section 6.3. */
static bool is_localhost(const char *host)
{
    size_t len = strlen(host);

    return strcmp(host, "localhost") == 0 || (len > 10 && strcmp(host + len - 10, ".localhost") == 0);
}

static void check_reach(const struct subject *subject)
{
    const struct policy *policy = subject->policy;
    const struct proxy_conf *proxy = &subject->conf->proxy;
    unsigned line = section_line_of(subject->section, "hosts");
    struct place place = {subject->report, line != 0 ? line : policy->line, subject->section->title,
                          line != 0 ? "hosts" : NULL};

    for (unsigned i = 0; i < policy->hosts_count; i++) {
        const char *host = policy->hosts[i].host;
        if (is_refused(proxy, &policy->hosts[i])) {
            report_error(&place,
                         "%s: a private address, which private_upstreams in [proxy] refuses: nothing can reach this",
                         host);
        } else if (proxy->private_mode == PRIVATE_DENY && is_localhost(host)) {
            report_warning(&place, "%s: usually a loopback address, which private_upstreams in [proxy] refuses", host);
        }
    }
}

/* Settings of the TLS that we speak ourselves mean nothing where the caller speaks it. */
static void check_tls(const struct subject *subject)
{
    static const char *const ours[][2] = {
        {"ca_file", NULL}, {"client_cert", NULL}, {"client_key", NULL}, {"rewrite", NULL}};
    static const char *const https[] = {"https", NULL};
    const struct policy *policy = subject->policy;
    struct place place;

    if (policy->client_key != NULL && policy->client_cert == NULL && place_of(subject, ours[2], &place)) {
        report_error(&place, "a key without client_cert");
    }
    if (policy->https == HTTPS_INTERCEPT && subject->conf->proxy.ca_dir == NULL && place_of(subject, https, &place)) {
        report_error(&place, "intercept needs ca_dir in [proxy]; make a CA with: sluice ca init --dir DIR");
    }
    for (size_t i = 0; policy->https == HTTPS_TUNNEL && i < sizeof ours / sizeof ours[0]; i++) {
        if (policy->hosts_count > 0 && place_of(subject, ours[i], &place)) {
            report_warning(&place, "has no effect with https = tunnel");
        }
    }
}

/* What a slow link to Redis can add to the displacement of a release. */
#define SLOWEST_US (100 * CLOCK_MS_US)

/* Two of one kind and period count the same thing; and between two edges there must be room to leave. */
static void check_quota_kinds(const struct policy *policy, const struct place *place)
{
    for (unsigned i = 0; i < policy->quotas_count; i++) {
        const struct quota_limit *limit = &policy->quotas[i];
        for (unsigned j = 0; j < i; j++) {
            if (policy->quotas[j].period_us == limit->period_us && policy->quotas[j].aligned == limit->aligned) {
                report_error(place, "two quotas for the same time: the smaller one is enough");
            }
        }
        if (limit->aligned &&
            limit->period_us < policy->late_us + 3 * (policy_displacement_us(policy) + SLOWEST_US)) {
            report_error(place, "its windows are too short for late and path_jitter: nothing could leave between two edges");
        }
    }
}

/* Limits of a destination beside its rate. */
static void check_quotas(const struct subject *subject)
{
    static const char *const quota[] = {"quota", "rate", "cost", "cost_most", "late", "path_jitter", NULL}, *const flight[] = {"max_in_flight", NULL},
                            *const answer[] = {"cost_answer", "cost_most", "quota", NULL};
    const struct policy *policy = subject->policy;
    struct buf text = {0};
    struct place place;

    for (unsigned i = 0; i < policy->quotas_count && place_of(subject, quota, &place); i++) {
        const struct quota_limit *limit = &policy->quotas[i];
        int64_t paced = limit->period_us / policy_interval_us(policy);
        buf_fini(&text);
        quota_print(limit, &text);
        buf_add(&text, "", 1);
        if (policy->cost_most > limit->count) {
            report_error(&place, "a request may cost %" PRId64 ", more than all of the quota %s: it could never leave",
                         policy->cost_most, buf_ptr(&text));
        } else if (paced <= limit->count) {
            report_warning(&place, "the quota %s never binds: the rate allows %" PRId64 " in that time", buf_ptr(&text), paced);
        } else {
            report_warning(&place, "the quota %s is slower than the rate: after %" PRId64 " of them callers %s",
                           buf_ptr(&text), limit->count, policy->quota_reject ? "are refused" : "wait");
        }
    }
    buf_fini(&text);
    if (policy->quotas_count > 0 && place_of(subject, quota, &place)) {
        check_quota_kinds(policy, &place);
    }
    if (policy->cost_answer != NULL && place_of(subject, answer, &place)) {
        bool quotas = policy->quotas_count > 0 || (policy->parent != NULL && policy->parent->quotas_count > 0);
        if (policy->cost_is_left && !quotas) {
            report_error(&place, "what is left is left of a quota: there is none");
        } else if (!policy->cost_is_left && policy->cost_most == 1) {
            report_warning(&place, "with cost_most = 1 an answer can only say that its request cost nothing");
        }
    }
    if (policy->on_redis_down == REDIS_DOWN_RESERVE && policy->quotas_count > 0 && place_of(subject, quota, &place)) {
        report_error(&place, "on_redis_down = reserve keeps no quota while Redis is gone; use hold or reject");
    }
    if (policy->on_redis_down == REDIS_DOWN_RESERVE && policy->max_in_flight > 0 && place_of(subject, flight, &place)) {
        report_error(&place, "on_redis_down = reserve counts nothing in flight while Redis is gone; use hold or reject");
    }
    if (policy->max_in_flight > 0 && policy->https == HTTPS_TUNNEL && place_of(subject, flight, &place)) {
        report_warning(&place, "requests inside a CONNECT have no end that can be seen and are not counted, unless https = "
                               "originate or intercept");
    }
}

/* True where whatever comes is inside a tunnel: there is a host without a port, or with one that CONNECT may reach. */
static bool may_be_tunnel(const struct subject *subject)
{
    const struct policy *policy = subject->policy;
    const struct proxy_conf *proxy = &subject->conf->proxy;

    if (policy->https != HTTPS_TUNNEL) {
        return false;
    }
    for (unsigned i = 0; i < policy->hosts_count; i++) {
        uint16_t port = policy->hosts[i].port;
        for (unsigned j = 0; j < proxy->connect_ports_count; j++) {
            if (port == 0 || (port >= proxy->connect_ports[j].first && port <= proxy->connect_ports[j].last)) {
                return true;
            }
        }
    }
    return policy->hosts_count == 0;
}

static void check_pauses(const struct subject *subject)
{
    static const char *const keys[] = {"pause_min", "pause_max", NULL};
    const struct feedback_conf *conf = &subject->policy->feedback;
    char least[32], most[32];
    struct place place;

    if (conf->pause_min_us > conf->pause_max_us && place_of(subject, keys, &place)) {
        str_format_duration(conf->pause_min_us, least);
        str_format_duration(conf->pause_max_us, most);
        report_error(&place, "pause_min of %s is longer than pause_max, %s", least, most);
    }
}

/* What is inside a tunnel is neither seen nor changed. Fields that a third party insists on must not silently be
 * missing, so that is a mistake; the rest is worth a word. */
static void check_seen(const struct subject *subject)
{
    static const char *const changes[] = {"set_header", "drop_header", "require_header", NULL};
    static const char *const reads[] = {"throttle_status", "throttle_if",   "pause_header", "pause_default",
                                        "pause_growth",    "pause_min",     "pause_max",    "ban_status",
                                        "ban_if",          "ban_pause",     "error_budget", "adapt",
                                        "adapt_floor",     "budget_header", "retry",        NULL};
    const struct feedback_conf *conf = &subject->policy->feedback;
    struct place place;

    if (!may_be_tunnel(subject)) {
        return;
    }
    if (conf->set_header_count + conf->drop_header_count + conf->require_header_count > 0 &&
        place_of(subject, changes, &place)) {
        report_error(&place, "requests inside a tunnel can't be changed or looked at: set https = originate or intercept, "
                             "or, for plain http alone, write each host with its port, as in api.example.com:80");
    }
    if (subject->policy->hosts_count > 0 && place_of(subject, reads, &place)) {
        report_warning(&place, "answers inside a tunnel are not seen: only those to plain http:// requests count; set "
                               "https = originate or intercept");
    }
}

static void check_feedback(const struct subject *subject)
{
    static const char *const budget[] = {"adapt_floor", "adapt_return", "budget_header", NULL};
    static const char *const retry[] = {"retry_max", "retry_body_max", NULL};
    static const char *const off[] = {"throttle_status", "throttle_if", "ban_status", "ban_if", "error_budget", "adapt", NULL};
    const struct feedback_conf *conf = &subject->policy->feedback;
    struct place place;

    check_pauses(subject);
    check_seen(subject);
    if (!conf->adapt && place_of(subject, budget, &place)) {
        report_warning(&place, "has no effect without adapt = on");
    }
    if (conf->retry == RETRY_NONE && place_of(subject, retry, &place)) {
        report_warning(&place, "has no effect without retry = throttled or safe");
    }
    if (!conf->on && place_of(subject, off, &place)) {
        report_warning(&place, "has no effect with feedback = off");
    }
}

static void check_policy(const struct subject *subject)
{
    check_quotas(subject);
    check_horizon(subject);
    check_reserve(subject);
    check_cost(subject);
    check_gap(subject);
    check_wait(subject);
    check_outage(subject);
    check_tls(subject);
    check_feedback(subject);
}

static void check_redis(const struct conf *conf, const struct section *section, struct report *report)
{
    /* not when there is a url with a mistake in it */
    if (section != NULL && conf->redis.url == NULL && section_line_of(section, "url") == 0) {
        report_error(&(struct place){report, section->line, section->title, NULL},
                     "url is missing; leave the section out to do without Redis");
    }
}

static bool is_loopback(const struct addr *addr)
{
    if (addr->sa.sa_family == AF_INET) {
        return ntohl(addr->v4.sin_addr.s_addr) >> 24 == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&addr->v6.sin6_addr);
}

static void check_access(const struct conf *conf, const struct section *section, struct report *report)
{
    const struct proxy_conf *proxy = &conf->proxy;
    char text[ADDR_TEXT_BYTES];

    if (proxy->auth != NULL || proxy->allow_clients_count > 0) {
        return;
    }
    for (unsigned i = 0; i < proxy->listen_count; i++) {
        if (!is_loopback(&proxy->listen[i])) {
            addr_format(&proxy->listen[i], false, text);
            report_warning(&(struct place){report, section_line_of(section, "listen"), "proxy", "listen"},
                           "whoever can reach %s can use this proxy; set auth or allow_clients", text);
        }
    }
}

/* Whoever reaches it can stop every call. */
static void check_admin(const struct conf *conf, const struct section *section, struct report *report)
{
    const struct admin_conf *admin = &conf->admin;
    char text[ADDR_TEXT_BYTES];

    for (unsigned i = 0; admin->token_file == NULL && i < admin->listen_count; i++) {
        if (!is_loopback(&admin->listen[i])) {
            addr_format(&admin->listen[i], false, text);
            report_error(&(struct place){report, section_line_of(section, "listen"), "admin", "listen"},
                         "%s can be reached from outside: set token_file", text);
        }
    }
}

void check_conf(const struct conf *conf, const struct draft *draft, const struct section *const *sections,
                struct report *report)
{
    bool redis = section_line_of(draft_find(draft, IN_REDIS), "url") != 0;
    struct subject fallback = {report, conf, conf->fallback, draft_find(draft, IN_DEFAULT), redis};

    check_access(conf, draft_find(draft, IN_PROXY), report);
    check_redis(conf, draft_find(draft, IN_REDIS), report);
    check_admin(conf, draft_find(draft, IN_ADMIN), report);
    check_policy(&fallback);
    for (unsigned i = 0; i < conf->policies_count; i++) {
        struct subject subject = {report, conf, conf->policies[i], sections[i], redis};
        check_policy(&subject);
        check_reach(&subject);
    }
    for (size_t i = 0, route = 0; i < draft->count && route < conf->routes_count; i++) {
        const struct section *section = draft->sections[i];
        if (section->scope == IN_ROUTE && strcmp(section->label, conf->routes[route]->label) == 0) {
            check_quotas(&(struct subject){report, conf, conf->routes[route++], section, redis});
        }
    }
}
