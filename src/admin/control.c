/*
 * Each verb takes a JSON object and names only what it knows, so that a misspelt field is told and not passed over.
 * What was done is in the log with the address it came from.
 *
 * A pause lasts an hour at most, so that one that is forgotten ends by itself.
 */
#include "admin/control.h"

#include "base/mem.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

enum { PAUSE_SECONDS = 3600, PAUSE_SECONDS_MOST = 3600 };

static struct control_answer done(void)
{
    return (struct control_answer){.status = 200};
}

static struct control_answer refuse(unsigned status, char *detail)
{
    return (struct control_answer){status, detail};
}

static struct control_answer no_destination(const char *name)
{
    return refuse(
        404, mem_printf(
                 "there is no destination \"%.200s\"; a host without a section is \"default:HOST\", once it was called",
                 name));
}

static struct control_answer run_pause(struct admin *admin, json_t *body, const char *who)
{
    const char *name;
    json_int_t seconds = PAUSE_SECONDS;

    if (json_unpack(body, "{s:s, s?I !}", "destination", &name, "seconds", &seconds) != 0 || seconds < 1 ||
        seconds > PAUSE_SECONDS_MOST) {
        return refuse(400, mem_strdup("send {\"destination\": NAME, \"seconds\": 1 to 3600}"));
    }
    if (!outbound_pause(admin->sources.outbound, name, seconds * CLOCK_SECOND_US)) {
        return no_destination(name);
    }
    log_line(LOG_WARN, "control", LOG_STR("verb", "pause"), LOG_STR("destination", name), LOG_INT("seconds", seconds),
             LOG_STR("client", who), LOG_END);
    return done();
}

static struct control_answer run_resume(struct admin *admin, json_t *body, const char *who)
{
    const char *name;

    if (json_unpack(body, "{s:s !}", "destination", &name) != 0) {
        return refuse(400, mem_strdup("send {\"destination\": NAME}"));
    }
    if (!outbound_pause(admin->sources.outbound, name, -1)) {
        return no_destination(name);
    }
    log_line(LOG_WARN, "control", LOG_STR("verb", "resume"), LOG_STR("destination", name), LOG_STR("client", who),
             LOG_END);
    return done();
}

static struct control_answer run_drain(struct admin *admin, json_t *body, const char *who)
{
    struct proxy_stats stats;

    if (json_object_size(body) > 0) {
        return refuse(400, mem_strdup("send {}"));
    }
    proxy_stats(admin->sources.proxy, &stats);
    if (stats.draining) {
        return refuse(409, mem_strdup("it is draining already"));
    }
    log_line(LOG_WARN, "control", LOG_STR("verb", "drain"), LOG_STR("client", who), LOG_END);
    admin->sources.drain(admin->sources.arg);
    return done();
}

static struct control_answer run_log_level(struct admin *admin, json_t *body, const char *who)
{
    static const char *const levels[] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};
    const char *wanted = "";

    (void)json_unpack(body, "{s:s !}", "level", &wanted);
    for (unsigned i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(wanted, levels[i]) == 0) {
            log_line(LOG_WARN, "control", LOG_STR("verb", "log-level"), LOG_STR("level", wanted),
                     LOG_STR("client", who), LOG_END);
            admin->level = (enum log_level)i;
            log_set_level(admin->level);
            return done();
        }
    }
    return refuse(400, mem_strdup("send {\"level\": \"debug\", \"info\", \"warn\" or \"error\"}"));
}

struct control_answer control_run(struct admin *admin, const char *verb, struct slice body, const char *who)
{
    static const struct {
        const char *verb;
        struct control_answer (*run)(struct admin *admin, json_t *body, const char *who);
    } verbs[] = {{"pause", run_pause}, {"resume", run_resume}, {"drain", run_drain}, {"log-level", run_log_level}};

    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verb, verbs[i].verb) != 0) {
            continue;
        }
        json_t *json = json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(json)) {
            json_decref(json);
            return refuse(400, mem_strdup("the body must be a JSON object"));
        }
        struct control_answer answer = verbs[i].run(admin, json, who);
        json_decref(json);
        return answer;
    }
    return refuse(404, mem_strdup("the verbs are pause, resume, drain and log-level"));
}
