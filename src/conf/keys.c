/*
 * Every setting there is, one row each.
 *
 * A row carries its default as text and not as a number, so that defaults go through the same parser as a file: a
 * default that its own range refuses cannot be shipped, and what --help-config prints is what one would write. Offsets
 * point into the struct that the section fills; types that fill more than one field (lists, the Redis URL) ignore
 * theirs.
 *
 * To add a setting: a field in conf/policy.h, a row here, a line in conf/sluice.ini and in the README. The unit test
 * and tests/lint/optscan.sh refuse a row without the latter two.
 */
#include "conf/keys.h"

#include "base/clock.h"
#include "conf/inbound_record.h"
#include "conf/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MS CLOCK_MS_US
#define SECOND CLOCK_SECOND_US
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* [default] and, inherited, every [destination NAME]. */
#define IN_POLICY (IN_DEFAULT | IN_DESTINATION)
/* And what a route of a destination may have of its own. */
#define IN_LEAF (IN_POLICY | IN_ROUTE)

#define PROXY(field) offsetof(struct proxy_conf, field)
#define REDIS(field) offsetof(struct redis_conf, field)
#define ADMIN(field) offsetof(struct admin_conf, field)
#define POLICY(field) offsetof(struct policy, field)
#define WORD(field) offsetof(struct policy, feedback.field)
#define RULE(field) offsetof(struct inbound_record, rule.field)
#define PLACE(field) offsetof(struct inbound_record, place.field)

/* [inbound NAME], which is a limit itself, and the further ones beside it. */
#define IN_LIMIT (IN_INBOUND | IN_INBOUND_RULE)

static const char *const unlisted_choices[] = {"pace", "pass", "deny", NULL};
static const char *const level_choices[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_choices[] = {"logfmt", "json", NULL};
static const char *const strict_choices[] = {"window", "gap", NULL};
static const char *const bucket_choices[] = {"shared", "per_host", NULL};
static const char *const quota_choices[] = {"wait", "reject", NULL};
static const char *const order_choices[] = {"fifo", "fair", NULL};
static const char *const down_choices[] = {"hold", "reserve", "reject", "open", NULL};
static const char *const h2_choices[] = {"count", "refuse", NULL};
static const char *const https_choices[] = {"tunnel", "originate", "intercept", NULL};
static const char *const algorithm_choices[] = {"token_bucket",
                                                "fixed_window",
                                                "sliding_window_log",
                                                "sliding_window_counter",
                                                "sliding_window_strict",
                                                "leaky_bucket",
                                                NULL};
static const char *const inbound_down_choices[] = {"open", "local", "closed", NULL};
static const char *const fields_choices[] = {"ietf", "legacy", "off", NULL};
static const char *const retry_choices[] = {"none", "throttled", "safe", NULL};
static const char *const switch_choices[] = {"off", "on", NULL};

/* clang-format off */
static const struct key table[] = {
{IN_PROXY, "listen", KEY_LISTEN, PROXY(listen), "127.0.0.1:3128", 0, 0, "ADDRESS:PORT list", NULL, true,
 "Where callers connect: one or several addresses."},
{IN_PROXY, "unlisted", KEY_CHOICE, PROXY(unlisted), "pace", 0, 0, "choice", unlisted_choices, true,
 "Hosts without a section: pace: each by the values of [default]; pass: at once; deny: refuse."},
{IN_PROXY, "connect_ports", KEY_PORTS, PROXY(connect_ports), "443", 0, 0, "PORT or FIRST-LAST list", NULL, true,
 "Ports that CONNECT may open tunnels to."},
{IN_PROXY, "auth", KEY_FILE, PROXY(auth), NULL, 0, 0, "htpasswd file", NULL, true,
 "Users who may use this proxy (Basic). Not set: whoever can reach the port."},
{IN_PROXY, "allow_clients", KEY_RANGES, PROXY(allow_clients), NULL, 0, 0, "CIDR list", NULL, true,
 "Addresses that may use this proxy. Not set: every address."},
{IN_PROXY, "private_upstreams", KEY_UPSTREAMS, PROXY(private_mode), "deny", 0, 0, "deny, allow or CIDR list", NULL,
 true,
 "Whether private, loopback and link-local addresses may be connected to; a list allows just those."},
{IN_PROXY, "max_connections", KEY_COUNT, PROXY(max_connections), "16000", 1, 1000000, "callers", NULL, true,
 "Connections from callers at once."},
{IN_PROXY, "max_buckets", KEY_COUNT, PROXY(max_buckets), "10000", 100, 10000000, "buckets", NULL, true,
 "Buckets in this process for hosts without a section, values of key, and routes; idle ones make room for new ones."},
{IN_PROXY, "max_queued_bytes", KEY_SIZE, PROXY(max_queued_bytes), "256m", 64 * KIB, 64 * GIB, "size", NULL, true,
 "Memory for the bodies of all waiting requests together."},
{IN_PROXY, "max_head_bytes", KEY_SIZE, PROXY(max_head_bytes), "32k", KIB, MIB, "size", NULL, true,
 "Longest request line and headers together."},
{IN_PROXY, "max_headers", KEY_COUNT, PROXY(max_headers), "100", 1, 1000, "fields", NULL, true,
 "Most header fields in one message."},
{IN_PROXY, "head_timeout", KEY_DURATION, PROXY(head_timeout_us), "30s", 10 * MS, HOUR, "duration", NULL, true,
 "Time for a caller to send a whole request head, from its first byte."},
{IN_PROXY, "keepalive_timeout", KEY_DURATION, PROXY(keepalive_timeout_us), "75s", 10 * MS, DAY, "duration", NULL, true,
 "How long a caller's connection may be idle between requests."},
{IN_PROXY, "drain_timeout", KEY_DURATION, PROXY(drain_timeout_us), "30s", 0, DAY, "duration", NULL, true,
 "At shutdown, time for requests under way to finish."},
{IN_PROXY, "dns_ttl", KEY_DURATION, PROXY(dns_ttl_us), "30s", 0, DAY, "duration", NULL, true,
 "How long a resolved name is remembered."},
{IN_PROXY, "resolver_threads", KEY_COUNT, PROXY(resolver_threads), "4", 1, 64, "threads", NULL, false,
 "Names that can be resolved at the same time."},
{IN_PROXY, "server_timing", KEY_SWITCH, PROXY(server_timing), "off", 0, 0, "choice", switch_choices, true,
 "Tell callers how long their request waited, in a Server-Timing field."},
{IN_PROXY, "log_level", KEY_CHOICE, PROXY(log_level), "info", 0, 0, "choice", level_choices, true,
 "Least important events that are logged."},
{IN_PROXY, "log_format", KEY_CHOICE, PROXY(log_format), "logfmt", 0, 0, "choice", format_choices, false,
 "Form of a log line."},
{IN_PROXY, "log_file", KEY_FILE, PROXY(log_file), "-", 0, 0, "file, - = standard error", NULL, false,
 "Where the log goes."},
{IN_PROXY, "ca_dir", KEY_FILE, PROXY(ca_dir), NULL, 0, 0, "directory", NULL, true,
 "The CA for https = intercept, as made by: sluice ca init --dir DIRECTORY."},

{IN_REDIS, "url", KEY_URL, REDIS(url), NULL, 0, 0,
 "redis://HOST, rediss://HOST, unix:/PATH, sentinel://HOST,HOST/NAME or cluster://HOST,HOST", NULL, false,
 "The Redis that all replicas share. Not set: this process alone keeps the rates."},
{IN_REDIS, "user", KEY_WORD, REDIS(user_name), NULL, 0, 0, "text", NULL, false,
 "Whom to log in as, when it is not in url. Not set: the default user."},
{IN_REDIS, "password_file", KEY_FILE, REDIS(password_file), NULL, 0, 0, "file", NULL, false,
 "The file whose one line is the password, so that it is not in url."},
{IN_REDIS, "password_env", KEY_WORD, REDIS(password_env), NULL, 0, 0, "variable", NULL, false,
 "The variable of the environment that holds the password, as in SLUICE_REDIS_PASSWORD."},
{IN_REDIS, "hash_secret_file", KEY_FILE, REDIS(hash_secret_file), NULL, 0, 0, "file", NULL, false,
 "The file whose one line is the secret that values of key are hashed with, the same for all replicas. Not set: the password."},
{IN_REDIS, "sentinel_user", KEY_WORD, REDIS(sentinel_user), NULL, 0, 0, "text", NULL, false,
 "Whom to log in as at the sentinels of sentinel://."},
{IN_REDIS, "sentinel_password_file", KEY_FILE, REDIS(sentinel_password_file), NULL, 0, 0, "file", NULL, false,
 "The file whose one line is the password of the sentinels. Not set: they ask for none."},
{IN_REDIS, "sentinel_password_env", KEY_WORD, REDIS(sentinel_password_env), NULL, 0, 0, "variable", NULL, false,
 "The variable of the environment that holds the password of the sentinels."},
{IN_REDIS, "ca_file", KEY_FILE, REDIS(ca_file), NULL, 0, 0, "PEM file", NULL, false,
 "With TLS: the authorities to trust. Not set: the system's."},
{IN_REDIS, "client_cert", KEY_FILE, REDIS(client_cert), NULL, 0, 0, "PEM file", NULL, false,
 "With TLS: the certificate to show to Redis, and its chain."},
{IN_REDIS, "client_key", KEY_FILE, REDIS(client_key), NULL, 0, 0, "PEM file", NULL, false,
 "The key of client_cert. Not set: it is in the same file."},
{IN_REDIS, "prefix", KEY_PREFIX, REDIS(prefix), "sluice", 0, 0, "text", NULL, false,
 "Beginning of every key in Redis. Replicas that share rates share it."},
{IN_REDIS, "timeout", KEY_DURATION, REDIS(timeout_us), "500ms", 10 * MS, MINUTE, "duration", NULL, false,
 "Time for one answer before Redis counts as gone."},
{IN_REDIS, "connect_timeout", KEY_DURATION, REDIS(connect_timeout_us), "2s", 10 * MS, MINUTE, "duration", NULL, false,
 "Time for one attempt to connect."},

{IN_DESTINATION, "hosts", KEY_HOSTS, POLICY(hosts), NULL, 0, 0, "HOST[:PORT] or *.SUFFIX[:PORT] list",
 NULL, true,
 "Hosts that share this destination's rate. Not set: the section's name is the host."},
{IN_LEAF, "rate", KEY_RATE, POLICY(rate), "10/s", 0, 0, "COUNT/PERIOD", NULL, true,
 "Never more than COUNT requests in any PERIOD, over all replicas, evenly spaced."},
{IN_ROUTE, "destination", KEY_LABEL, POLICY(destination), NULL, 0, 0, "NAME of a [destination]", NULL, true,
 "Which destination this is a route of. Its requests keep to the limits of both."},
{IN_ROUTE, "match", KEY_MATCH, POLICY(path), NULL, 0, 0, "PATTERN, or METHOD,METHOD PATTERN", NULL, true,
 "Requests that the route is for: methods, if not all, and a path with * for anything. The first route that matches counts."},
{IN_LEAF, "key", KEY_PARTS, POLICY(keys), "none", 0, 0,
 "none, or header:NAME, bearer, query:NAME, path:N, proxy_user, client_ip list", NULL, true,
 "One bucket, with all limits, for each value of the first of these that a request has. A route has its destination's."},
{IN_POLICY, "bucket", KEY_SWITCH, POLICY(per_host), "shared", 0, 0, "choice", bucket_choices, true,
 "shared: all hosts of a destination have its rate together; per_host: each has it."},
{IN_LEAF, "quota", KEY_QUOTAS, POLICY(quotas), NULL, 0, 0, "COUNT/PERIOD [rolling | aligned [utc+HH:MM]] list", NULL, true,
 "Limits beside the rate: in any PERIOD (rolling), or in each window of the calendar (aligned)."},
{IN_LEAF, "quota_action", KEY_SWITCH, POLICY(quota_reject), "wait", 0, 0, "choice", quota_choices, true,
 "While a quota is used up: wait, as long as max_wait allows; or reject at once with the time until there is some again."},
{IN_LEAF, "max_in_flight", KEY_COUNT, POLICY(max_in_flight), "0", 0, 1000000, "requests", NULL, true,
 "Requests under way at once, over all replicas, from their slot to the end of their answer. 0: any number."},
{IN_LEAF, "lease_time", KEY_DURATION, POLICY(lease_us), "10s", SECOND * 3, HOUR, "duration", NULL, true,
 "For max_in_flight: after so long without a word from a replica its requests no longer count."},
{IN_LEAF, "cost", KEY_COUNT, POLICY(cost), "1", 1, 10000, "units", NULL, true,
 "What one request takes of rate and quotas."},
{IN_LEAF, "cost_most", KEY_COUNT, POLICY(cost_most), "1", 1, 10000, "units", NULL, true,
 "The most that cost_header may say."},
{IN_LEAF, "cost_header", KEY_TOKEN, POLICY(cost_header), NULL, 0, 0, "header name", NULL, true,
 "A header of the caller's request that says its cost; it is not passed on."},
{IN_LEAF, "cost_answer", KEY_COST_ANSWER, POLICY(cost_answer), NULL, 0, 0, "header name, then used or remaining", NULL, true,
 "A header of answers that says what a request really cost (used), or what is left of the first quota (remaining)."},
{IN_POLICY, "strict", KEY_CHOICE, POLICY(strict), "window", 0, 0, "choice", strict_choices, true,
 "window: never more than COUNT in any PERIOD; gap: never two closer than PERIOD/COUNT (costs more of the rate)."},
{IN_LEAF, "max_queue", KEY_COUNT, POLICY(max_queue), "1000", 1, 1000000, "requests", NULL, true,
 "Requests that may wait in this process; one more is refused with 429."},
{IN_LEAF, "max_wait", KEY_DURATION, POLICY(max_wait_us), "30s", MS, DAY, "duration", NULL, true,
 "Longest wait; a request that would wait longer is refused at once with 429."},
{IN_LEAF, "order", KEY_CHOICE, POLICY(order), "fifo", 0, 0, "choice", order_choices, true,
 "Who waits leaves: fifo: in the order of coming; fair: callers in turns, as fair_by tells them apart."},
{IN_LEAF, "fair_by", KEY_SHARERS, POLICY(fair_by), "proxy_user, client_ip", 0, 0,
 "proxy_user, client_ip or header:NAME list", NULL, true,
 "For order = fair: who takes turns; the first of the list that a request has."},
{IN_LEAF, "fair_weights", KEY_WEIGHTS, POLICY(fair_weights), NULL, 0, 0, "VALUE=WEIGHT list", NULL, true,
 "For order = fair: so many requests in each turn of that user, address or header value. All others: 1."},
{IN_LEAF, "priority_high", KEY_MATCHES, POLICY(priority_high), NULL, 0, 0,
 "proxy_user=NAME, header:NAME=VALUE or path=PATTERN list", NULL, true,
 "Requests that go before the rest."},
{IN_LEAF, "priority_low", KEY_MATCHES, POLICY(priority_low), NULL, 0, 0,
 "proxy_user=NAME, header:NAME=VALUE or path=PATTERN list", NULL, true,
 "Requests that the rest goes before."},
{IN_LEAF, "low_share", KEY_COUNT, POLICY(low_share), "10", 1, 50, "percent", NULL, true,
 "Of 100 slots, so many stay with the lower of two priorities while both wait, so that it never starves."},
{IN_POLICY, "on_redis_down", KEY_CHOICE, POLICY(on_redis_down), "hold", 0, 0, "choice", down_choices, true,
 "Without Redis, hold: keep waiting; reserve: use permits set aside; reject: refuse; open: send at once, unpaced."},
{IN_POLICY, "outage_permits", KEY_COUNT, POLICY(outage_permits), "0", 0, 1000000, "requests", NULL, true,
 "For on_redis_down = reserve: requests per PERIOD each replica may send without Redis, kept out of the rate always."},
{IN_POLICY, "replicas_max", KEY_COUNT, POLICY(replicas_max), "4", 1, 10000, "replicas", NULL, true,
 "For on_redis_down = reserve: most replicas that will ever run at once."},
{IN_POLICY, "late", KEY_DURATION, POLICY(late_us), "10ms", MS, SECOND, "duration", NULL, true,
 "How late a request may leave after its slot; later ones give the slot up. Larger costs a little of the rate."},
{IN_POLICY, "path_jitter", KEY_DURATION, POLICY(path_jitter_us), "2ms", 0, SECOND, "duration", NULL, true,
 "Variation of the way to the third party that the rate must survive."},
{IN_POLICY, "horizon", KEY_DURATION, POLICY(horizon_us), "1s", 10 * MS, MINUTE, "duration", NULL, true,
 "No slot is taken further ahead than this. Not shorter than late."},
{IN_POLICY, "connect_timeout", KEY_DURATION, POLICY(connect_timeout_us), "10s", 10 * MS, 5 * MINUTE, "duration", NULL,
 true,
 "Time to connect to the third party, TLS included."},
{IN_POLICY, "response_timeout", KEY_DURATION, POLICY(response_timeout_us), "10m", 10 * MS, DAY, "duration", NULL, true,
 "Time from the last byte of a request to the first of its response."},
{IN_POLICY, "body_timeout", KEY_DURATION, POLICY(body_timeout_us), "5m", 10 * MS, DAY, "duration", NULL, true,
 "Longest silence inside a body."},
{IN_POLICY, "upstream_idle", KEY_DURATION, POLICY(upstream_idle_us), "4s", 0, HOUR, "duration", NULL, true,
 "How long an unused connection to the third party is kept."},
{IN_POLICY, "tunnel_idle", KEY_DURATION, POLICY(tunnel_idle_us), "10m", 10 * MS, DAY, "duration", NULL, true,
 "Longest silence in a CONNECT tunnel."},
{IN_POLICY, "tunnel_max_age", KEY_DURATION, POLICY(tunnel_max_age_us), "0s", 0, 30 * DAY, "duration", NULL, true,
 "Longest life of a metered tunnel. 0: any."},
{IN_POLICY, "max_tunnels", KEY_COUNT, POLICY(max_tunnels), "1000", 1, 1000000, "tunnels", NULL, true,
 "Metered tunnels at once in this process; one more is refused with 503."},
{IN_POLICY, "tunnel_h2", KEY_CHOICE, POLICY(tunnel_h2), "count", 0, 0, "choice", h2_choices, true,
 "Callers that offer HTTP/2 inside a tunnel: count: by turns, each may hold several requests; refuse: end the tunnel."},
{IN_POLICY, "sni_check", KEY_SWITCH, POLICY(sni_check), "on", 0, 0, "choice", switch_choices, true,
 "A tunnel whose TLS asks for another host than its CONNECT is ended."},
{IN_POLICY, "max_connections", KEY_COUNT, POLICY(max_connections), "256", 1, 65535, "connections", NULL, true,
 "Connections to one origin at once."},
{IN_POLICY, "https", KEY_CHOICE, POLICY(https), "tunnel", 0, 0, "choice", https_choices, true,
 "tunnel: callers do TLS; originate: they say http://, TLS begins here; intercept: their TLS ends here, see ca_dir."},
{IN_POLICY, "rewrite", KEY_SWITCH, POLICY(rewrite), "on", 0, 0, "choice", switch_choices, true,
 "With originate: https:// in Location becomes http://, and Secure leaves Set-Cookie, so that callers stay here."},
{IN_POLICY, "ca_file", KEY_FILE, POLICY(ca_file), NULL, 0, 0, "PEM file", NULL, true,
 "Certificates trusted for the third party. Not set, or -: those of the system."},
{IN_POLICY, "client_cert", KEY_FILE, POLICY(client_cert), NULL, 0, 0, "PEM file", NULL, true,
 "Certificate (and chain) that we show to a third party that asks for one."},
{IN_POLICY, "client_key", KEY_FILE, POLICY(client_key), NULL, 0, 0, "PEM file", NULL, true,
 "The key of client_cert. Not set: it is in the same file."},

{IN_POLICY, "feedback", KEY_SWITCH, WORD(on), "on", 0, 0, "choice", switch_choices, true,
 "Obey what the third party's answers say about the rate: the keys from throttle_status to budget_header."},
{IN_POLICY, "feedback_from", KEY_FROM, WORD(from), NULL, 0, 0, "HOST[:PORT] or *.SUFFIX[:PORT] list, or none", NULL, true,
 "Hosts whose answers are obeyed, where several share a rate and not all are trusted to stop it. Not set: all of them."},
{IN_POLICY, "throttle_status", KEY_STATUSES, WORD(throttle_status), "429", 0, 0, "STATUS list, or none", NULL, true,
 "Answers that mean slow down: nothing leaves, on any replica, for as long as they say."},
{IN_POLICY, "throttle_if", KEY_ANSWERS, WORD(throttle_if), "503 header:Retry-After", 0, 0,
 "STATUS header:NAME[=VALUE] list, or none", NULL, true,
 "Answers that mean it only together with a header field."},
{IN_POLICY, "pause_header", KEY_PAUSES, WORD(pause_header), "Retry-After:auto, RateLimit:ietf", 0, 0,
 "NAME:FORMAT list (auto, seconds, ms, unix, iso8601, godur, ietf), or none", NULL, true,
 "Fields that say how long to pause. The longest counts; t of an ietf field only without Retry-After."},
{IN_POLICY, "pause_default", KEY_DURATION, WORD(pause_default_us), "1s", MS, DAY, "duration", NULL, true,
 "Pause where no field says how long."},
{IN_POLICY, "pause_growth", KEY_COUNT, WORD(pause_growth), "2", 1, 10, "times", NULL, true,
 "By which pause_default grows each time it was not enough, until an answer is good again."},
{IN_POLICY, "pause_min", KEY_DURATION, WORD(pause_min_us), "0s", 0, DAY, "duration", NULL, true,
 "Shortest pause, whatever a field says."},
{IN_POLICY, "pause_max", KEY_DURATION, WORD(pause_max_us), "15m", MS, DAY, "duration", NULL, true,
 "Longest pause, whatever a field says. Not shorter than pause_min."},
{IN_POLICY, "ban_status", KEY_STATUSES, WORD(ban_status), NULL, 0, 0, "STATUS list, or none", NULL, true,
 "Answers that mean that we are banned: nothing leaves for ban_pause."},
{IN_POLICY, "ban_if", KEY_ANSWERS, WORD(ban_if), NULL, 0, 0, "STATUS header:NAME[=VALUE] list, or none", NULL, true,
 "Answers that mean it only together with a header field."},
{IN_POLICY, "ban_pause", KEY_DURATION, WORD(ban_pause_us), "10m", SECOND, DAY, "duration", NULL, true,
 "How long a ban is waited for, or for longer where a pause_header says so, up to pause_max."},
{IN_POLICY, "error_budget", KEY_ERRORS, WORD(error_rate), NULL, 0, 0, "COUNT/PERIOD status=LIST, or none", NULL, true,
 "Nothing leaves while COUNT answers of these statuses came in PERIOD, before they bring a ban."},
{IN_POLICY, "adapt", KEY_SWITCH, WORD(adapt), "off", 0, 0, "choice", switch_choices, true,
 "Lower the rate after repeated throttling and when budget_header runs low; return slowly, never above rate."},
{IN_POLICY, "adapt_floor", KEY_COUNT, WORD(adapt_floor), "10", 1, 100, "percent of rate", NULL, true,
 "For adapt: never slower than this."},
{IN_POLICY, "adapt_return", KEY_DURATION, WORD(adapt_return_us), "1m", SECOND, DAY, "duration", NULL, true,
 "For adapt: time in which half of a slow-down is taken back."},
{IN_POLICY, "budget_header", KEY_BUDGETS, WORD(budget_header),
 "RateLimit:ietf, X-RateLimit-Remaining X-RateLimit-Reset:auto", 0, 0,
 "REMAINING RESET:FORMAT or NAME:ietf list, or none", NULL, true,
 "For adapt: fields that say how many requests are left, and until when. At 0 nothing leaves until then."},
{IN_POLICY, "retry", KEY_CHOICE, WORD(retry), "none", 0, 0, "choice", retry_choices, true,
 "Send again, each time in a slot: throttled: after a throttled answer; safe: idempotent ones also after 502, 503, 504 or none."},
{IN_POLICY, "retry_max", KEY_COUNT, WORD(retry_max), "2", 1, 10, "attempts", NULL, true,
 "For retry: attempts after the first, within the caller's max_wait."},
{IN_POLICY, "retry_body_max", KEY_SIZE, WORD(retry_body_max), "64k", 0, 16 * MIB, "size", NULL, true,
 "For retry: longest request body that is kept to be sent again."},
{IN_POLICY, "set_header", KEY_LINES, WORD(set_header), NULL, 0, 0, "NAME: VALUE, the key once for each; or none", NULL, true,
 "Fields that every request carries, instead of what the caller wrote."},
{IN_POLICY, "drop_header", KEY_FIELDS, WORD(drop_header), NULL, 0, 0, "NAME list, or none", NULL, true,
 "Fields taken out of every request."},
{IN_POLICY, "require_header", KEY_FIELDS, WORD(require_header), NULL, 0, 0, "NAME list, or none", NULL, true,
 "Fields without which a request is refused with 400, before it takes a slot."},

{IN_INBOUND, "listen", KEY_LISTEN, PLACE(listen), NULL, 0, 0, "ADDRESS:PORT list", NULL, true,
 "Where callers of this API connect; without upstream: where gateways ask /check/NAME."},
{IN_INBOUND, "upstream", KEY_ORIGIN, PLACE(upstream_host), NULL, 0, 0, "http://HOST[:PORT]", NULL, true,
 "The API itself: admitted requests go there. Not set: only the check endpoint."},
{IN_INBOUND, "check_listen", KEY_LISTEN, PLACE(check_listen), NULL, 0, 0, "ADDRESS:PORT list", NULL, true,
 "Where gateways ask /check/NAME, beside a listen that passes requests on."},
{IN_INBOUND, "match", KEY_GLOB, RULE(path), NULL, 0, 0, "path with * for anything", NULL, true,
 "Paths that the section's own limit is for. Not set: every path."},
{IN_INBOUND_RULE, "inbound", KEY_LABEL, offsetof(struct inbound_record, inbound), NULL, 0, 0, "NAME of an [inbound]", NULL,
 true, "Which [inbound] this limit belongs to. A request passes if all limits that match it admit it."},
{IN_INBOUND_RULE, "path", KEY_GLOB, RULE(path), NULL, 0, 0, "path with * for anything", NULL, true,
 "Paths that this limit is for. Not set: every path."},
{IN_LIMIT, "methods", KEY_METHODS, RULE(methods), NULL, 0, 0, "METHOD list", NULL, true,
 "Methods that the limit is for. Not set: every method."},
{IN_LIMIT, "algorithm", KEY_CHOICE, RULE(algorithm), "token_bucket", 0, 0, "choice", algorithm_choices, true,
 "How requests are counted; the README has what each admits in the worst case."},
{IN_LIMIT, "rate", KEY_RATE, RULE(rate), "10/s", 0, 0, "COUNT/PERIOD", NULL, true,
 "Requests admitted of one caller, over all replicas."},
{IN_LIMIT, "capacity", KEY_OPTIONAL, RULE(capacity), NULL, 1, INBOUND_COUNT_MOST, "requests", NULL, true,
 "For algorithm = token_bucket: most at once after a pause. Not set: the COUNT of rate."},
{IN_LIMIT, "key", KEY_CALLERS, RULE(keys), "client_ip", 0, 0,
 "list of header:NAME, bearer, basic_user, cookie:NAME, query:NAME, path:N, client_ip", NULL, true,
 "What tells callers apart: the first that a request has. Those that have none share one limit."},
{IN_LIMIT, "cost", KEY_COUNT, RULE(cost), "1", 1, INBOUND_COUNT_MOST, "units", NULL, true,
 "What one request takes of the rate."},
{IN_LIMIT, "cost_header", KEY_TOKEN, RULE(cost_header), NULL, 0, 0, "header name", NULL, true,
 "A request header with the cost, believed from trusted_proxies alone."},
{IN_LIMIT, "dry_run", KEY_SWITCH, RULE(dry_run), "off", 0, 0, "choice", switch_choices, true,
 "Decide, count and tell, but never refuse."},
{IN_INBOUND, "headers", KEY_CHOICE, PLACE(headers), "ietf", 0, 0, "choice", fields_choices, true,
 "ietf: RateLimit and RateLimit-Policy fields in answers; legacy: X-RateLimit-* as well; off: none."},
{IN_INBOUND, "on_redis_down", KEY_CHOICE, PLACE(on_redis_down), "open", 0, 0, "choice", inbound_down_choices, true,
 "Without Redis, open: admit all; local: each process its share of the rate; closed: refuse with 503."},
{IN_INBOUND, "timeout", KEY_DURATION, PLACE(timeout_us), "20ms", MS, 10 * SECOND, "duration", NULL, true,
 "Longest that a decision waits for Redis; then on_redis_down applies."},
{IN_INBOUND, "trusted_proxies", KEY_RANGES, PLACE(trusted_proxies), "127.0.0.0/8, ::1/128", 0, 0, "CIDR list", NULL, true,
 "Gateways whose X-Forwarded-For, cost_header and check requests are believed."},
{IN_INBOUND, "ipv6_prefix", KEY_COUNT, offsetof(struct inbound_record, ipv6_prefix), "64", 16, 128, "bits", NULL, true,
 "client_ip: how much of an IPv6 address is one caller."},

{IN_ADMIN, "listen", KEY_LISTEN, ADMIN(listen), "127.0.0.1:3129", 0, 0, "ADDRESS:PORT list", NULL, false,
 "Where the page, the metrics and the verbs of operators are. Without a section [admin]: nowhere."},
{IN_ADMIN, "token_file", KEY_FILE, ADMIN(token_file), NULL, 0, 0, "file, a token on each line", NULL, false,
 "Bearer tokens of operators, TOKEN or NAME TOKEN on each line, one of which must be shown; the name is in the log. "
 "Needed where listen is not a loopback address."},
};
/* clang-format on */

#define TABLE_COUNT (sizeof table / sizeof table[0])

const struct key *keys_all(size_t *count)
{
    *count = TABLE_COUNT;
    return table;
}

bool key_repeats(const struct key *key)
{
    return key->type == KEY_LINES;
}

const struct key *key_find(enum key_scope scope, struct slice name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if ((table[i].scope & scope) != 0 && slice_is(name, table[i].name)) {
            return &table[i];
        }
    }
    return NULL;
}

const char *key_nearest(enum key_scope scope, const char *name)
{
    const char *names[TABLE_COUNT + 1];
    size_t count = 0;

    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if ((table[i].scope & scope) != 0) {
            names[count++] = table[i].name;
        }
    }
    names[count] = NULL;
    return str_nearest(name, names);
}

static const char *scope_name(enum key_scope scope)
{
    switch (scope) {
    case IN_PROXY:
        return "[proxy]";
    case IN_REDIS:
        return "[redis]";
    case IN_DEFAULT:
        return "[default]";
    case IN_DESTINATION:
        return "[destination NAME]";
    case IN_ROUTE:
        return "[route NAME]";
    case IN_INBOUND:
        return "[inbound NAME]";
    case IN_INBOUND_RULE:
        return "[inbound-rule NAME]";
    case IN_ADMIN:
        return "[admin]";
    }
    wrong("no such kind of section");
}

const char *key_home(struct slice name)
{
    static const enum key_scope order[] = {IN_PROXY, IN_REDIS,   IN_DEFAULT,      IN_DESTINATION,
                                            IN_ROUTE, IN_INBOUND, IN_INBOUND_RULE, IN_ADMIN};

    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (key_find(order[i], name) != NULL) {
            return order[i] == IN_DEFAULT ? "[default] or [destination NAME]" : scope_name(order[i]);
        }
    }
    return NULL;
}

void size_format(int64_t bytes, char out[32])
{
    static const struct {
        int64_t bytes;
        const char *suffix;
    } units[] = {{GIB, "g"}, {MIB, "m"}, {KIB, "k"}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (bytes != 0 && bytes % units[i].bytes == 0) {
            (void)snprintf(out, 32, "%" PRId64 "%s", bytes / units[i].bytes, units[i].suffix);
            return;
        }
    }
    (void)snprintf(out, 32, "%" PRId64, bytes);
}

static void format_number(enum key_type type, int64_t value, char out[32])
{
    if (type == KEY_DURATION) {
        str_format_duration(value, out);
    } else if (type == KEY_SIZE) {
        size_format(value, out);
    } else {
        (void)snprintf(out, 32, "%" PRId64, value);
    }
}

bool key_range(const struct key *key, char out[80])
{
    char least[32], most[32];

    if (key->max == 0) {
        return false;
    }
    format_number(key->type, key->min, least);
    format_number(key->type, key->max, most);
    (void)snprintf(out, 80, "%s to %s", least, most);
    return true;
}
