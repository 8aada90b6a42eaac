/*
 * What Prometheus reads. Samples of one name must stand together, destinations come a few at a time (rows.c): so each
 * name has a buffer of its own until the end. Most names are one line of a table here.
 *
 * That pacing works is shown by three of them: sluice_window_releases_max never above sluice_window_limit, the
 * lateness of releases, and slots that were late or wasted.
 */
#include "admin/metrics.h"

#include "admin/prom.h"
#include "admin/ready.h"
#include "admin/rows.h"
#include "admin/self.h"
#include "base/mem.h"

/* ---- of each destination: one number ---- */

static int64_t arrivals(const struct row *row)
{
    return (int64_t)row->queue.tally->counts[TALLY_ARRIVED];
}
static int64_t pauses(const struct row *row)
{
    return (int64_t)row->queue.tally->counts[TALLY_PAUSED];
}
static int64_t waiting(const struct row *row)
{
    return row->queue.tally->waiting;
}
static int64_t max_queue(const struct row *row)
{
    return row->queue.policy->max_queue;
}
static int64_t most_in_window(const struct row *row)
{
    return row->queue.most_in_window;
}
static int64_t window_limit(const struct row *row)
{
    return row->queue.policy->rate.count;
}
static int64_t window_us(const struct row *row)
{
    return row->queue.policy->rate.period_us;
}
static int64_t interval_us(const struct row *row)
{
    return row->queue.interval_us;
}
static int64_t expected_wait_us(const struct row *row)
{
    return row->queue.wait_us;
}
static int64_t oldest_us(const struct row *row)
{
    return row->queue.oldest_us;
}
static int64_t paused_us(const struct row *row)
{
    return row->queue.paused_us;
}
static int64_t held_bytes(const struct row *row)
{
    return row->traffic->held_bytes;
}
static int64_t limits_differ(const struct row *row)
{
    return (int64_t)row->queue.limits_differ;
}
static int64_t in_flight(const struct row *row)
{
    return row->traffic->in_flight;
}
static int64_t connections(const struct row *row)
{
    return row->traffic->connections;
}
static int64_t tunnels(const struct row *row)
{
    return row->traffic->tunnels;
}
static int64_t turns(const struct row *row)
{
    return (int64_t)row->traffic->turns;
}
static int64_t throttled(const struct row *row)
{
    return (int64_t)row->traffic->throttled;
}
static int64_t banned(const struct row *row)
{
    return (int64_t)row->traffic->banned;
}
static int64_t garbled(const struct row *row)
{
    return (int64_t)row->traffic->garbled;
}
static int64_t retries(const struct row *row)
{
    return (int64_t)row->traffic->retries;
}
static int64_t h2_tunnels(const struct row *row)
{
    return (int64_t)row->traffic->h2;
}
static int64_t bytes_in(const struct row *row)
{
    return (int64_t)row->traffic->bytes_in;
}
static int64_t bytes_out(const struct row *row)
{
    return (int64_t)row->traffic->bytes_out;
}

enum of { OF_TRAFFIC, OF_QUEUE, OF_ONE_QUEUE /* not of many hosts together */ };

static const struct gauge {
    const char *name, *type, *help;
    enum of of;
    enum prom_unit unit;
    int64_t (*value)(const struct row *row);
} gauges[] = {
    {"sluice_arrivals_total", "counter", "Requests and turns that came to a queue, refused ones too.", OF_QUEUE,
     PROM_PLAIN, arrivals},
    {"sluice_queue_length", "gauge", "Requests and turns waiting in this process.", OF_QUEUE, PROM_PLAIN, waiting},
    {"sluice_queue_limit", "gauge", "max_queue.", OF_ONE_QUEUE, PROM_PLAIN, max_queue},
    {"sluice_queue_bytes", "gauge", "Memory held by those that wait.", OF_TRAFFIC, PROM_PLAIN, held_bytes},
    {"sluice_queue_oldest_seconds", "gauge", "How long the first in the queue has waited.", OF_ONE_QUEUE, PROM_SECONDS,
     oldest_us},
    {"sluice_queue_expected_wait_seconds", "gauge", "Predicted wait of a request that would come now.", OF_ONE_QUEUE,
     PROM_SECONDS, expected_wait_us},
    {"sluice_pause_remaining_seconds", "gauge", "Time until a pause is over, 0 without one.", OF_ONE_QUEUE,
     PROM_SECONDS, paused_us},
    {"sluice_pauses_total", "counter",
     "Pauses that began here, or were made longer, by an operator or the third party.", OF_QUEUE, PROM_PLAIN, pauses},
    {"sluice_window_releases_max", "gauge", "Most releases of this process in any window so far.", OF_QUEUE, PROM_PLAIN,
     most_in_window},
    {"sluice_window_limit", "gauge", "Releases that the rate allows in a window, over all replicas.", OF_QUEUE,
     PROM_PLAIN, window_limit},
    {"sluice_window_seconds", "gauge", "Length of the window.", OF_QUEUE, PROM_SECONDS, window_us},
    {"sluice_slot_interval_seconds", "gauge", "Space between two slots.", OF_QUEUE, PROM_SECONDS, interval_us},
    {"sluice_limits_differ_total", "counter",
     "Times that another replica was found to have other limits: give all the same settings.", OF_ONE_QUEUE, PROM_PLAIN,
     limits_differ},
    {"sluice_in_flight_requests", "gauge", "Requests with the third party.", OF_TRAFFIC, PROM_PLAIN, in_flight},
    {"sluice_connections", "gauge", "Connections to the third party in use, of tunnels too.", OF_TRAFFIC, PROM_PLAIN,
     connections},
    {"sluice_tunnels", "gauge", "Open tunnels.", OF_TRAFFIC, PROM_PLAIN, tunnels},
    {"sluice_turns_total", "counter", "Paced turns inside tunnels.", OF_TRAFFIC, PROM_PLAIN, turns},
    {"sluice_throttled_total", "counter", "Answers of the third party that said to slow down.", OF_TRAFFIC, PROM_PLAIN,
     throttled},
    {"sluice_banned_total", "counter", "Answers of the third party that said to go away.", OF_TRAFFIC, PROM_PLAIN,
     banned},
    {"sluice_garbled_feedback_total", "counter", "Fields of answers about the rate that meant nothing.", OF_TRAFFIC,
     PROM_PLAIN, garbled},
    {"sluice_retries_total", "counter", "Requests sent again, each in a slot.", OF_TRAFFIC, PROM_PLAIN, retries},
    {"sluice_h2_tunnels_total", "counter",
     "Tunnels that offered HTTP/2, of which only turns are counted: requests may exceed the rate.", OF_TRAFFIC,
     PROM_PLAIN, h2_tunnels},
    {"sluice_request_bytes_total", "counter", "Bytes sent to the third party.", OF_TRAFFIC, PROM_PLAIN, bytes_in},
    {"sluice_response_bytes_total", "counter", "Bytes sent to callers.", OF_TRAFFIC, PROM_PLAIN, bytes_out},
};

enum { GAUGES = sizeof(gauges) / sizeof(gauges[0]) };

/* Samples of one name stand together: each has a buffer of its own until the end. */
struct metrics {
    struct buf info, requests, slots, unserved, waits, answers, lateness;
    struct buf gauges[GAUGES];
};

static bool is_of(const struct row *row, enum of of)
{
    return of == OF_TRAFFIC ? row->traffic != NULL : row->is_queue && (of == OF_QUEUE || !row->is_sum);
}

static void add_gauges(struct metrics *metrics, const struct row *row)
{
    struct prom_labels labels = {{{"destination", row->name}}};

    for (size_t g = 0; g < GAUGES; g++) {
        if (is_of(row, gauges[g].of)) {
            prom_sample(&metrics->gauges[g], gauges[g].name, &labels, gauges[g].unit, gauges[g].value(row));
        }
    }
}

/* ---- of each destination: several numbers ---- */

struct verdict_sink {
    struct buf *out;
    const char *destination;
};

static void write_verdict(void *arg, const char *verdict, const char *class, uint64_t count)
{
    const struct verdict_sink *sink = arg;
    struct prom_labels labels = {{{"destination", sink->destination}, {"verdict", verdict}, {"status", class}}};

    prom_sample(sink->out, "sluice_requests_total", &labels, PROM_PLAIN, (int64_t)count);
}

static const struct {
    enum tally_kind kind;
    const char *word;
} slot_words[] = {{TALLY_RELEASED, "used"},
                  {TALLY_RETURNED, "returned"},
                  {TALLY_LATE, "late"},
                  {TALLY_WASTED, "wasted"}},
  left_words[] = {
      {TALLY_REFUSED, "refused"}, {TALLY_CANCELLED, "cancelled"}, {TALLY_GAVE_UP, "gave_up"}, {TALLY_PURGED, "purged"}};

static void add_counts(struct metrics *metrics, const struct row *row)
{
    const uint64_t *counts = row->queue.tally->counts;

    for (size_t w = 0; w < sizeof(slot_words) / sizeof(slot_words[0]); w++) {
        struct prom_labels labels = {{{"destination", row->name}, {"outcome", slot_words[w].word}}};
        prom_sample(&metrics->slots, "sluice_slots_total", &labels, PROM_PLAIN, (int64_t)counts[slot_words[w].kind]);
    }
    for (size_t w = 0; w < sizeof(left_words) / sizeof(left_words[0]); w++) {
        struct prom_labels labels = {{{"destination", row->name}, {"reason", left_words[w].word}}};
        prom_sample(&metrics->unserved, "sluice_unserved_total", &labels, PROM_PLAIN,
                    (int64_t)counts[left_words[w].kind]);
    }
}

/* What of it takes slots. Plain http is metered by requests everywhere. */
static void add_info(struct metrics *metrics, const struct row *row)
{
    static const char *const words[] = {
        [HTTPS_TUNNEL] = "tunnel", [HTTPS_ORIGINATE] = "originate", [HTTPS_INTERCEPT] = "intercept"};
    const struct policy *policy = row->queue.policy;
    const char *metered = policy->https == HTTPS_TUNNEL ? "turns" : "requests";
    struct prom_labels labels = {{{"destination", row->name},
                                  {"https", words[policy->https]},
                                  {"metered", row->is_unpaced ? "no" : metered},
                                  {"tunnel_h2", policy->tunnel_h2 == TUNNEL_H2_REFUSE ? "refuse" : "count"}}};

    prom_sample(&metrics->info, "sluice_destination_info", &labels, PROM_PLAIN, 1);
}

void metrics_row(void *arg, const struct row *row)
{
    struct metrics *metrics = arg;
    struct prom_labels labels = {{{"destination", row->name}}};
    struct verdict_sink sink = {&metrics->requests, row->name};

    if (row->traffic == NULL) {
        return; /* a host or a key: never a label */
    }
    destination_each_verdict(row->traffic, write_verdict, &sink);
    add_gauges(metrics, row);
    if (row->is_queue) {
        add_info(metrics, row);
        add_counts(metrics, row);
        prom_histogram(&metrics->waits, "sluice_wait_seconds", &labels, &row->traffic->wait);
        prom_histogram(&metrics->answers, "sluice_upstream_seconds", &labels, &row->traffic->upstream);
        prom_histogram(&metrics->lateness, "sluice_release_lateness_seconds", &labels, &row->queue.tally->lateness);
    }
}

static void take_family(struct buf *out, const char *name, const char *type, const char *help, struct buf *samples)
{
    prom_family(out, name, type, help);
    if (buf_len(samples) > 0) {
        buf_add(out, buf_ptr(samples), buf_len(samples));
    }
    buf_fini(samples);
}

static void write_destinations(struct metrics *metrics, struct buf *out)
{
    take_family(out, "sluice_destination_info", "gauge",
                "1, with what of its HTTPS takes slots as labels; tunnel_h2 is \"count\" where HTTP/2 may exceed the rate.",
                &metrics->info);
    take_family(out, "sluice_requests_total", "counter",
                "Requests that are over, by what became of them and their status.", &metrics->requests);
    for (size_t g = 0; g < GAUGES; g++) {
        take_family(out, gauges[g].name, gauges[g].type, gauges[g].help, &metrics->gauges[g]);
    }
    take_family(out, "sluice_slots_total", "counter",
                "Slots: used; of those returned, nothing could be sent; late, passed while somebody waited; wasted, "
                "nobody was left.",
                &metrics->slots);
    take_family(
        out, "sluice_unserved_total", "counter",
        "Requests and turns that got no slot: refused, cancelled by the caller, given up, or purged by an operator.",
        &metrics->unserved);
    take_family(out, "sluice_wait_seconds", "histogram", "From arrival to the slot.", &metrics->waits);
    take_family(out, "sluice_upstream_seconds", "histogram", "From the slot to the first byte of the answer.",
                &metrics->answers);
    take_family(out, "sluice_release_lateness_seconds", "histogram",
                "How long after the beginning of its slot a request left.", &metrics->lateness);
}

/* ---- of the process ---- */

static void write_one(struct buf *out, const char *name, const char *type, enum prom_unit unit, int64_t value,
                      const char *help)
{
    prom_family(out, name, type, help);
    prom_sample(out, name, NULL, unit, value);
}

static void write_redis(const struct admin *admin, struct buf *out)
{
    struct link_stats stats;

    if (admin->sources.link == NULL) {
        return;
    }
    link_stats(admin->sources.link, &stats);
    write_one(out, "sluice_redis_up", "gauge", PROM_PLAIN, stats.state == LINK_UP, "Whether Redis answers.");
    write_one(out, "sluice_redis_state_seconds", "gauge", PROM_SECONDS,
              mono_diff(loop_now(admin->sources.loop), stats.since), "For how long it does, or does not.");
    write_one(out, "sluice_redis_connects_total", "counter", PROM_PLAIN, (int64_t)stats.ups,
              "How often it began to answer.");
    write_one(out, "sluice_redis_lost_calls_total", "counter", PROM_PLAIN, (int64_t)stats.lost,
              "Calls to Redis without an answer.");
    prom_family(out, "sluice_redis_round_trip_seconds", "histogram", "Calls to Redis with one.");
    prom_histogram(out, "sluice_redis_round_trip_seconds", NULL, stats.trips);
}

static void write_connections(const struct admin *admin, struct buf *out)
{
    struct upstreams_stats stats;

    upstreams_stats(admin->sources.upstreams, &stats);
    const struct {
        const char *word;
        unsigned count;
    } states[] = {{"idle", stats.idle}, {"busy", stats.busy}, {"connecting", stats.connecting}};
    prom_family(out, "sluice_upstream_connections", "gauge", "Connections to third parties, those of tunnels too.");
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        prom_sample(out, "sluice_upstream_connections", &(struct prom_labels){{{"state", states[i].word}}}, PROM_PLAIN,
                    states[i].count);
    }
}

static void count_order(void *arg, const struct order *order, int64_t left_us)
{
    (void)left_us;
    ((unsigned *)arg)[order->verb == ORDER_RATE]++;
}

static void write_fleet(const struct admin *admin, struct buf *out)
{
    struct fleet_stats stats;
    unsigned orders[2] = {0, 0};

    fleet_stats(admin->sources.fleet, &stats);
    fleet_each_order(admin->sources.fleet, count_order, orders);
    write_one(out, "sluice_replicas", "gauge", PROM_PLAIN, stats.replicas,
              "Replicas alive as Redis knows, 0 when nobody knows.");
    prom_family(out, "sluice_orders", "gauge", "Pauses and rates in force by an operator's order.");
    prom_sample(out, "sluice_orders", &(struct prom_labels){{{"verb", "pause"}}}, PROM_PLAIN, orders[0]);
    prom_sample(out, "sluice_orders", &(struct prom_labels){{{"verb", "rate"}}}, PROM_PLAIN, orders[1]);
}

static void write_admissions(const struct admin *admin, struct buf *out)
{
    struct admission_counters counters;

    if (admin->sources.admission == NULL) {
        return;
    }
    admission_counters(admin->sources.admission, &counters);
    const struct {
        const char *word;
        uint64_t count;
    } outcomes[] = {{"admitted", counters.admitted},
                    {"refused", counters.refused},
                    {"dry_refused", counters.dry_refused},
                    {"unchecked", counters.unchecked}};
    prom_family(out, "sluice_admissions_total", "counter", "Decisions about requests to our own API.");
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        prom_sample(out, "sluice_admissions_total", &(struct prom_labels){{{"outcome", outcomes[i].word}}}, PROM_PLAIN,
                    (int64_t)outcomes[i].count);
    }
    write_one(out, "sluice_admissions_without_redis", "gauge", PROM_PLAIN, counters.without_redis,
              "Whether they are being made without Redis.");
}

static void write_proxy(const struct admin *admin, struct buf *out)
{
    struct proxy_stats stats;

    proxy_stats(admin->sources.proxy, &stats);
    write_one(out, "sluice_callers", "gauge", PROM_PLAIN, stats.callers, "Connections of callers.");
    write_one(out, "sluice_callers_limit", "gauge", PROM_PLAIN, stats.max_callers, "Most of them at once.");
    write_one(out, "sluice_queued_bytes", "gauge", PROM_PLAIN, stats.queued_bytes,
              "Memory held by all requests that wait.");
    write_one(out, "sluice_queued_bytes_limit", "gauge", PROM_PLAIN, stats.max_queued_bytes, "max_queued_bytes.");
    write_one(out, "sluice_accept_failures_total", "counter", PROM_PLAIN, (int64_t)stats.starved,
              "Callers that had to wait for want of descriptors or memory.");
    write_one(out, "sluice_ready", "gauge", PROM_PLAIN, ready_reasons(admin, NULL, NULL) == 0,
              "Whether /readyz says yes.");
    write_one(out, "sluice_draining", "gauge", PROM_PLAIN, stats.draining, "Whether this process is about to end.");
    write_one(out, "sluice_log_lines_dropped_total", "counter", PROM_PLAIN, (int64_t)log_dropped(),
              "Log lines lost because writing was too slow.");
}

static void write_process(const struct admin *admin, struct buf *out)
{
    struct self self;

    self_look(&self);
    prom_family(out, "sluice_build_info", "gauge", "1, with the version as a label.");
    prom_sample(out, "sluice_build_info", &(struct prom_labels){{{"version", admin->sources.version}}}, PROM_PLAIN, 1);
    write_one(out, "process_cpu_seconds_total", "counter", PROM_SECONDS, self.cpu_us, "Processor time.");
    write_one(out, "process_resident_memory_bytes", "gauge", PROM_PLAIN, self.resident_bytes, "Memory in use.");
    write_one(out, "process_virtual_memory_bytes", "gauge", PROM_PLAIN, self.virtual_bytes, "Address space.");
    write_one(out, "process_open_fds", "gauge", PROM_PLAIN, self.descriptors, "Open descriptors.");
    write_one(out, "process_max_fds", "gauge", PROM_PLAIN, self.descriptors_most, "Most of them at once.");
    write_one(out, "process_start_time_seconds", "gauge", PROM_SECONDS, admin->born_wall.us,
              "When it began, since 1970.");
}

struct metrics *metrics_new(void)
{
    return mem_zalloc(sizeof(struct metrics));
}

void metrics_write(struct metrics *metrics, const struct admin *admin, struct buf *out)
{
    write_destinations(metrics, out);
    write_proxy(admin, out);
    write_connections(admin, out);
    write_fleet(admin, out);
    write_redis(admin, out);
    write_admissions(admin, out);
    write_process(admin, out);
}

void metrics_free(struct metrics *metrics)
{
    struct buf *const families[] = {&metrics->info,  &metrics->requests, &metrics->slots, &metrics->unserved,
                                    &metrics->waits,    &metrics->answers, &metrics->lateness};

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        buf_fini(families[i]);
    }
    for (size_t g = 0; g < GAUGES; g++) {
        buf_fini(&metrics->gauges[g]);
    }
    mem_free(metrics);
}
