/* The state of everything as JSON. Times end in their unit, _us or _ms or _s; names are those of the metrics. */
#include "admin/show.h"

#include "admin/ready.h"
#include "admin/rows.h"
#include "admin/self.h"
#include "conf/load.h"

#include <string.h>

enum { BUSIEST_SHOWN = 10 };

static void set(json_t *object, const char *name, int64_t value)
{
    json_object_set_new(object, name, json_integer(value));
}

static void set_text(json_t *object, const char *name, const char *text)
{
    json_object_set_new(object, name, json_string(text != NULL ? text : ""));
}

static void set_quantiles(json_t *object, const char *name, const struct histogram *histogram)
{
    json_t *quantiles = json_object();

    set(quantiles, "count", (int64_t)histogram->total);
    set(quantiles, "p50_us", histogram_quantile_us(histogram, 0.5));
    set(quantiles, "p95_us", histogram_quantile_us(histogram, 0.95));
    set(quantiles, "p99_us", histogram_quantile_us(histogram, 0.99));
    json_object_set_new(object, name, quantiles);
}

static void add_verdict(void *arg, const char *verdict, const char *class, uint64_t count)
{
    json_t *one = json_object();

    set_text(one, "verdict", verdict);
    set_text(one, "status", class);
    set(one, "count", (int64_t)count);
    json_array_append_new(arg, one);
}

static void show_traffic(json_t *object, const struct destination_stats *traffic)
{
    json_t *requests = json_array();

    set(object, "held_bytes", traffic->held_bytes);
    set(object, "in_flight", traffic->in_flight);
    set(object, "connections", traffic->connections);
    set(object, "tunnels", traffic->tunnels);
    set(object, "turns", (int64_t)traffic->turns);
    set(object, "throttled", (int64_t)traffic->throttled);
    set(object, "banned", (int64_t)traffic->banned);
    set(object, "garbled_feedback", (int64_t)traffic->garbled);
    set(object, "retries", (int64_t)traffic->retries);
    set(object, "bytes_in", (int64_t)traffic->bytes_in);
    set(object, "bytes_out", (int64_t)traffic->bytes_out);
    set_quantiles(object, "wait", &traffic->wait);
    set_quantiles(object, "upstream", &traffic->upstream);
    destination_each_verdict(traffic, add_verdict, requests);
    json_object_set_new(object, "requests", requests);
}

static json_t *show_rate(const struct rate *rate)
{
    json_t *object = json_object();

    set(object, "count", rate->count);
    set(object, "period_us", rate->period_us);
    return object;
}

static void show_limits(json_t *object, const struct policy *policy)
{
    json_object_set_new(object, "rate", show_rate(&policy->rate));
    set(object, "max_queue", policy->max_queue);
    set(object, "max_wait_us", policy->max_wait_us);
    set_text(object, "https", conf_https_text(policy));
}

static void show_queue(json_t *object, const struct row *row)
{
    const struct bucket_stats *queue = &row->queue;
    const uint64_t *counts = queue->tally->counts;

    set(object, "waiting", row->traffic != NULL ? queue->tally->waiting : queue->waiting); /* with its parts */
    set(object, "interval_us", queue->interval_us);
    set(object, "arrived", (int64_t)counts[TALLY_ARRIVED]);
    set(object, "refused", (int64_t)counts[TALLY_REFUSED]);
    set(object, "cancelled", (int64_t)counts[TALLY_CANCELLED]);
    set(object, "gave_up", (int64_t)counts[TALLY_GAVE_UP]);
    set(object, "purged", (int64_t)counts[TALLY_PURGED]);
    set(object, "released", (int64_t)counts[TALLY_RELEASED]);
    set(object, "returned", (int64_t)counts[TALLY_RETURNED]);
    set(object, "late", (int64_t)counts[TALLY_LATE]);
    set(object, "wasted", (int64_t)counts[TALLY_WASTED]);
    set(object, "most_in_window", queue->most_in_window);
    set_quantiles(object, "lateness", &queue->tally->lateness);
    set(object, "paused_us", queue->paused_us);
    if (!row->is_sum) {
        set_text(object, "mode", queue->mode);
        set(object, "parts", queue->parts);
        set(object, "others", queue->others);
        set(object, "others_waiting", queue->others_waiting);
        set(object, "expected_wait_us", queue->wait_us);
        set(object, "oldest_us", queue->oldest_us);
        set_text(object, "stopped", queue->stopped == STOP_NONE ? "" : stop_text(queue->stopped));
        set(object, "slow_permille", queue->slow);
    }
}

static json_t *row_json(const struct row *row)
{
    json_t *object = json_object();

    set_text(object, "name", row->name);
    /* what can be paused is one queue; the other kinds are sums */
    set_text(object, "kind",
             !row->is_queue                                   ? "nowhere"
             : row->is_sum                                    ? "unlisted"
             : row->traffic != NULL                           ? "configured"
             : strcmp(row->name, row->queue.destination) != 0 ? "part"
                                                              : "host");
    if (row->traffic != NULL) {
        show_traffic(object, row->traffic);
    }
    if (row->is_queue) {
        show_limits(object, row->queue.policy);
        show_queue(object, row);
    }
    return object;
}

static void add_reason(void *arg, const char *reason)
{
    json_array_append_new(arg, json_string(reason));
}

static void add_caller(void *arg, const char *name, uint64_t count)
{
    json_t *one = json_object();

    set_text(one, "name", name);
    set(one, "requests", (int64_t)count);
    json_array_append_new(arg, one);
}

static json_t *show_busiest(const struct admin *admin)
{
    json_t *busiest = json_object(), *callers = json_array();

    set(busiest, "span_us", proxy_each_busiest(admin->sources.proxy, BUSIEST_SHOWN, add_caller, callers));
    json_object_set_new(busiest, "callers", callers);
    return busiest;
}

static void add_order(void *arg, const struct order *order, int64_t left_us)
{
    json_t *one = json_object();

    set_text(one, "verb", order_verb_text(order->verb));
    set_text(one, "destination", order->name);
    if (order->verb == ORDER_RATE) {
        json_object_set_new(one, "rate", show_rate(&order->rate));
    }
    set(one, "left_us", left_us);
    set_text(one, "by", order->who);
    json_array_append_new(arg, one);
}

static json_t *show_fleet(const struct admin *admin)
{
    json_t *fleet = json_object(), *orders = json_array();
    struct fleet_stats stats;

    fleet_stats(admin->sources.fleet, &stats);
    set(fleet, "replicas", stats.replicas);
    set_text(fleet, "this", stats.me);
    fleet_each_order(admin->sources.fleet, add_order, orders);
    json_object_set_new(fleet, "orders", orders);
    return fleet;
}

static json_t *show_upstreams(const struct admin *admin)
{
    json_t *connections = json_object();
    struct upstreams_stats stats;

    upstreams_stats(admin->sources.upstreams, &stats);
    set(connections, "idle", stats.idle);
    set(connections, "busy", stats.busy);
    set(connections, "connecting", stats.connecting);
    return connections;
}

static void show_proxy(const struct admin *admin, json_t *status)
{
    struct proxy_stats stats;
    json_t *reasons = json_array();
    char address[ADDR_TEXT_BYTES];

    proxy_stats(admin->sources.proxy, &stats);
    addr_format(&admin->sources.conf->proxy.listen[0], false, address);
    set_text(status, "proxy_address", address);
    set(status, "callers", stats.callers);
    set(status, "callers_limit", stats.max_callers);
    set(status, "queued_bytes", stats.queued_bytes);
    set(status, "queued_bytes_limit", stats.max_queued_bytes);
    json_object_set_new(status, "draining", json_boolean(stats.draining));
    ready_reasons(admin, add_reason, reasons);
    json_object_set_new(status, "not_ready", reasons);
}

static json_t *show_redis(const struct admin *admin)
{
    const struct link *link = admin->sources.link;
    struct link_stats stats;

    if (link == NULL) {
        return json_null();
    }
    json_t *redis = json_object();
    link_stats(link, &stats);
    set_text(redis, "state", link_state_text(stats.state));
    set(redis, "for_us", mono_diff(loop_now(admin->sources.loop), stats.since));
    set(redis, "connects", (int64_t)stats.ups);
    set(redis, "lost", (int64_t)stats.lost);
    set_quantiles(redis, "round_trip", stats.trips);
    return redis;
}

static json_t *show_admissions(const struct admin *admin)
{
    struct admission_counters counters;

    if (admin->sources.admission == NULL) {
        return json_null();
    }
    json_t *admissions = json_object();
    admission_counters(admin->sources.admission, &counters);
    set(admissions, "admitted", (int64_t)counters.admitted);
    set(admissions, "refused", (int64_t)counters.refused);
    set(admissions, "dry_refused", (int64_t)counters.dry_refused);
    set(admissions, "unchecked", (int64_t)counters.unchecked);
    set(admissions, "replicas", counters.replicas);
    json_object_set_new(admissions, "without_redis", json_boolean(counters.without_redis));
    return admissions;
}

static json_t *show_process(const struct admin *admin)
{
    json_t *process = json_object();
    struct self self;

    self_look(&self);
    set(process, "resident_bytes", self.resident_bytes);
    set(process, "descriptors", self.descriptors);
    set(process, "descriptors_limit", self.descriptors_most);
    set(process, "cpu_us", self.cpu_us);
    set(process, "up_us", mono_diff(loop_now(admin->sources.loop), admin->born));
    return process;
}

static json_t *show_head(const struct admin *admin)
{
    static const char *const levels[] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};
    json_t *status = json_object();

    set_text(status, "version", admin->sources.version);
    set(status, "time_ms", loop_wall(admin->sources.loop).us / CLOCK_MS_US);
    show_proxy(admin, status);
    json_object_set_new(status, "redis", show_redis(admin));
    json_object_set_new(status, "fleet", show_fleet(admin));
    json_object_set_new(status, "connections", show_upstreams(admin));
    json_object_set_new(status, "busiest", show_busiest(admin));
    json_object_set_new(status, "admissions", show_admissions(admin));
    json_object_set_new(status, "process", show_process(admin));
    set_text(status, "log_level", levels[admin->level]);
    set(status, "log_lines_dropped", (int64_t)log_dropped());
    return status;
}

void show_row(void *arg, const struct row *row)
{
    struct buf *rows = arg;
    char *text = show_text(row_json(row));

    buf_add_str(rows, buf_len(rows) > 0 ? "," : "");
    buf_add_str(rows, text);
    free(text);
}

void show_status(const struct admin *admin, struct buf *rows, struct buf *out)
{
    char *head = show_text(show_head(admin));

    buf_add(out, head, strlen(head) - 1); /* but for the brace that closes it */
    free(head);
    buf_add_str(out, ",\"destinations\":[");
    if (buf_len(rows) > 0) {
        buf_add(out, buf_ptr(rows), buf_len(rows));
    }
    buf_add_str(out, "]}");
    buf_fini(rows);
}

char *show_text(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);

    json_decref(json);
    must(text != NULL);
    return text;
}
