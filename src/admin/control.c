/*
 * Each verb takes a JSON object and names only what it knows, so that a misspelt field is told and not passed over.
 *
 *   pause, resume, set-rate, purge   an order to the fleet (outbound/fleet.h); answered when Redis has confirmed it
 *   reload                           this process; answered when it is over
 *   drain, log-level                 this process; at once
 *
 * Everything asked for is in the log with who asked, and every replica logs what it did about an order.
 * A pause lasts an hour at most, a rate a week, so that what is forgotten ends by itself.
 *
 * A caller that goes away while it waits is no matter: evhttp drops the answer.
 */
#include "admin/control.h"

#include "admin/answer.h"
#include "base/mem.h"

#include <string.h>

enum {
    PAUSE_SECONDS = 3600,
    PAUSE_SECONDS_MOST = 3600,
    RATE_SECONDS = 3600,
    RATE_SECONDS_MOST = 7 * 86400,
    NAME_MOST_BYTES = 400,
    PERIOD_DAYS_MOST = 366,
};

#define DRAIN_AFTER_US (100 * CLOCK_MS_US)

/* An answer that is still to come. */
struct later {
    TAILQ_ENTRY(later) link;
    struct admin *admin;
    struct evhttp_request *request;
};

struct asked {
    struct admin *admin;
    struct evhttp_request *request;
    json_t *body;
    const char *who;
};

static void done(struct evhttp_request *request)
{
    answer_json(request, 200, json_pack("{s:b}", "done", 1));
}

static struct later *answer_later(const struct asked *asked)
{
    struct later *later = mem_zalloc(sizeof(*later));

    later->admin = asked->admin;
    later->request = asked->request;
    TAILQ_INSERT_TAIL(&asked->admin->laters, later, link);
    return later;
}

static struct evhttp_request *end_later(struct later *later)
{
    struct evhttp_request *request = later->request;

    TAILQ_REMOVE(&later->admin->laters, later, link);
    mem_free(later);
    return request;
}

void control_stop(struct admin *admin)
{
    struct later *later;

    timer_clear(&admin->drain);
    while ((later = TAILQ_FIRST(&admin->laters)) != NULL) {
        (void)end_later(later); /* the request went with its connection */
    }
}

/* ---- orders ---- */

static void ordered(void *arg, enum fleet_done how)
{
    struct later *later = arg;
    struct fleet_stats fleet;

    fleet_stats(later->admin->sources.fleet, &fleet);
    struct evhttp_request *request = end_later(later);
    switch (how) {
    case FLEET_TOLD:
        answer_json(request, 200,
                    json_pack("{s:b, s:b, s:i}", "done", 1, "everywhere", 1, "replicas", (int)fleet.replicas));
        return;
    case FLEET_ALONE:
        answer_json(request, 200,
                    json_pack("{s:b, s:b, s:s}", "done", 1, "everywhere", 0, "detail",
                              "Redis is out of reach: it is done in this replica only; ask each of the others"));
        return;
    case FLEET_NOT:
        answer_problem(request, 503,
                       "Redis is out of reach, so the other replicas can't be told: nothing was changed; try again "
                       "when it is back");
        return;
    case FLEET_LOST:
        answer_problem(request, 504, "Redis did not confirm it: look at the status whether it stands, else ask again");
        return;
    }
    wrong("no such end");
}

/* A destination of the settings, [default], a host without a section, or a part of one of these. */
static bool is_name(const struct admin *admin, const char *name)
{
    const struct conf *conf = admin->sources.conf;
    const char *space = strchr(name, ' ');
    struct slice whole = {name, space != NULL ? (size_t)(space - name) : strlen(name)};
    size_t len = strlen(conf->fallback->label);
    bool is_known = slice_is(whole, conf->fallback->label) ||
                    (whole.len > len + 1 && strncmp(name, conf->fallback->label, len) == 0 && name[len] == ':');

    for (unsigned i = 0; !is_known && i < conf->policies_count; i++) {
        /* a label may have spaces */
        size_t label = strlen(conf->policies[i]->label);
        is_known = strncmp(name, conf->policies[i]->label, label) == 0 && (name[label] == '\0' || name[label] == ' ');
    }
    for (const char *at = name; is_known && *at != '\0'; at++) {
        is_known = (unsigned char)*at >= ' ' && *at != 0x7f;
    }
    return is_known && strlen(name) <= NAME_MOST_BYTES;
}

static void give_order(const struct asked *asked, const struct order *order, const char *rate)
{
    if (!is_name(asked->admin, order->name)) {
        char *detail = mem_printf(
            "there is no destination \"%.100s\": take a name from the status, \"default\" for all hosts without a "
            "section, or \"default:HOST\" for one",
            order->name);
        answer_problem(asked->request, 404, detail);
        mem_free(detail);
        return;
    }
    log_line(LOG_WARN, "control", LOG_STR("verb", order_verb_text(order->verb)), LOG_STR("destination", order->name),
             LOG_STR("rate", rate), LOG_INT("seconds", order->for_us / CLOCK_SECOND_US), LOG_STR("client", asked->who),
             LOG_END);
    fleet_order(asked->admin->sources.fleet, order, ordered, answer_later(asked));
}

static void run_pause(const struct asked *asked)
{
    struct order order = {.verb = ORDER_PAUSE, .who = asked->who};
    json_int_t seconds = PAUSE_SECONDS;

    if (json_unpack(asked->body, "{s:s, s?I !}", "destination", &order.name, "seconds", &seconds) != 0 || seconds < 1 ||
        seconds > PAUSE_SECONDS_MOST) {
        answer_problem(asked->request, 400,
                       "send {\"destination\": NAME, \"seconds\": 1 to 3600}; without seconds it is an hour");
        return;
    }
    order.for_us = seconds * CLOCK_SECOND_US;
    give_order(asked, &order, "");
}

static void run_resume(const struct asked *asked)
{
    struct order order = {.verb = ORDER_RESUME, .who = asked->who};

    if (json_unpack(asked->body, "{s:s !}", "destination", &order.name) != 0) {
        answer_problem(asked->request, 400, "send {\"destination\": NAME}");
        return;
    }
    give_order(asked, &order, "");
}

static void run_purge(const struct asked *asked)
{
    struct order order = {.verb = ORDER_PURGE, .who = asked->who};

    if (json_unpack(asked->body, "{s:s !}", "destination", &order.name) != 0 &&
        json_unpack(asked->body, "{s:s !}", "bucket", &order.name) != 0) {
        answer_problem(asked->request, 400, "send {\"destination\": NAME}, or {\"bucket\": NAME} for one queue of it");
        return;
    }
    give_order(asked, &order, "");
}

/* Permits for outages are taken off the rate, and something must be left. */
static bool leaves_no_slot(const struct policy *policy, const char *name, const struct rate *rate)
{
    return strcmp(policy->label, name) == 0 && policy->on_redis_down == REDIS_DOWN_RESERVE &&
           rate->count <= policy->outage_permits * policy->replicas_max;
}

static bool is_enough(const struct admin *admin, const char *name, const struct rate *rate)
{
    const struct conf *conf = admin->sources.conf;
    bool none = leaves_no_slot(conf->fallback, name, rate);

    for (unsigned i = 0; !none && i < conf->policies_count; i++) {
        none = leaves_no_slot(conf->policies[i], name, rate);
    }
    return !none;
}

static bool parse_rate(const char *text, struct rate *out)
{
    return str_parse_rate(slice_of(text), out) && out->count > 0 && out->count <= out->period_us &&
           out->period_us <= PERIOD_DAYS_MOST * INT64_C(86400) * CLOCK_SECOND_US;
}

static void run_set_rate(const struct asked *asked)
{
    struct order order = {.verb = ORDER_RATE, .who = asked->who};
    json_int_t seconds = RATE_SECONDS;
    const char *rate;

    if (json_unpack(asked->body, "{s:s, s:s, s?I !}", "destination", &order.name, "rate", &rate, "seconds", &seconds) !=
            0 ||
        seconds < 1 || seconds > RATE_SECONDS_MOST) {
        answer_problem(asked->request, 400,
                       "send {\"destination\": NAME, \"rate\": \"COUNT/PERIOD\" or \"configured\", \"seconds\": 1 to "
                       "604800}; without "
                       "seconds it is an hour");
    } else if (strcmp(rate, "configured") == 0) {
        order.verb = ORDER_UNRATE;
        give_order(asked, &order, rate);
    } else if (!parse_rate(rate, &order.rate)) {
        answer_problem(asked->request, 400,
                       "a rate is COUNT/PERIOD such as 10/s, 100/1m or 5000/1h, or \"configured\"");
    } else if (!is_enough(asked->admin, order.name, &order.rate)) {
        answer_problem(asked->request, 409,
                       "on_redis_down = reserve keeps outage_permits * replicas_max of the rate: it must be more");
    } else {
        order.for_us = seconds * CLOCK_SECOND_US;
        give_order(asked, &order, rate);
    }
}

/* ---- this process ---- */

static void log_verb(const struct asked *asked, const char *verb, const char *what)
{
    log_line(LOG_WARN, "control", LOG_STR("verb", verb), LOG_STR("value", what), LOG_STR("client", asked->who),
             LOG_END);
}

/* It may end the process at once, so the answer leaves before. */
static void drain_due(struct timer *timer, struct mono now)
{
    struct admin *admin = container_of(timer, struct admin, drain);
    struct proxy_stats stats;

    (void)now;
    proxy_stats(admin->sources.proxy, &stats);
    if (!stats.draining) {
        admin->sources.drain(admin->sources.arg);
    }
}

static void run_drain(const struct asked *asked)
{
    struct proxy_stats stats;

    proxy_stats(asked->admin->sources.proxy, &stats);
    if (json_object_size(asked->body) > 0) {
        answer_problem(asked->request, 400, "send {}");
    } else if (stats.draining || timer_is_set(&asked->admin->drain)) {
        answer_problem(asked->request, 409, "it is draining already");
    } else {
        log_verb(asked, "drain", "");
        done(asked->request);
        timer_set(asked->admin->sources.loop, &asked->admin->drain,
                  mono_add(loop_now(asked->admin->sources.loop), DRAIN_AFTER_US), drain_due);
    }
}

static void run_log_level(const struct asked *asked)
{
    static const char *const levels[] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};
    const char *wanted = "";

    (void)json_unpack(asked->body, "{s:s !}", "level", &wanted);
    for (unsigned i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(wanted, levels[i]) == 0) {
            log_verb(asked, "log-level", wanted);
            asked->admin->level = (enum log_level)i;
            log_set_level(asked->admin->level);
            done(asked->request);
            return;
        }
    }
    answer_problem(asked->request, 400, "send {\"level\": \"debug\", \"info\", \"warn\" or \"error\"}");
}

static void reloaded(void *arg, const struct reload_result *result)
{
    json_t *answer = json_object(), *lines = json_array();
    struct evhttp_request *request = end_later(arg);

    for (size_t i = 0; i < result->lines->count; i++) {
        json_array_append_new(lines, json_string(result->lines->lines[i]));
    }
    json_object_set_new(answer, "done", json_boolean(result->applied));
    json_object_set_new(answer, "changes", json_integer(result->changes));
    json_object_set_new(answer, "needs_restart", json_integer(result->needs_restart));
    json_object_set_new(answer, "lines", lines);
    if (!result->applied) {
        json_object_set_new(answer, "status", json_integer(422));
        json_object_set_new(answer, "detail", json_string("the file has mistakes, so nothing was changed"));
    }
    answer_json(request, result->applied ? 200 : 422, answer);
}

static void run_reload(const struct asked *asked)
{
    if (json_object_size(asked->body) > 0) {
        answer_problem(asked->request, 400, "send {}");
        return;
    }
    log_verb(asked, "reload", "");
    asked->admin->sources.reload(asked->admin->sources.arg, reloaded, answer_later(asked));
}

/* ---- all of them ---- */

static const struct verb {
    const char *name;
    void (*run)(const struct asked *asked);
} verbs[] = {{"pause", run_pause}, {"resume", run_resume},       {"set-rate", run_set_rate}, {"purge", run_purge},
             {"drain", run_drain}, {"log-level", run_log_level}, {"reload", run_reload}};

static const struct verb *find_verb(const struct admin *admin, const char *name)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(name, verbs[i].name) == 0 && (verbs[i].run != run_reload || admin->sources.reload != NULL)) {
            return &verbs[i];
        }
    }
    return NULL;
}

void control_run(struct admin *admin, struct evhttp_request *request, const char *verb, struct slice body,
                 const char *who)
{
    const struct verb *found = find_verb(admin, verb);

    if (found == NULL) {
        answer_problem(request, 404, "the verbs are pause, resume, set-rate, purge, drain, reload and log-level");
        return;
    }
    struct asked asked = {admin, request, json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL), who};
    if (json_is_object(asked.body)) {
        found->run(&asked);
    } else {
        answer_problem(request, 400, "the body must be a JSON object");
    }
    json_decref(asked.body);
}
