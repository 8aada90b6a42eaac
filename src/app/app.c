/* Boot in order, run, shut down in reverse. */
#include "app/descriptors.h"
#include "app/parts.h"
#include "app/reload.h"
#include "app/state.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/notify.h"
#include "conf/load.h"
#include "server/authority.h"

#include <curl/curl.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

extern const struct script script_reserve, script_settle, script_pause, script_members, script_fly,
    script_admit, script_word, script_fleet;
static const struct script *const scripts[] = {&script_reserve, &script_settle, &script_pause, &script_members,
                                               &script_fly,     &script_admit,  &script_word,
                                               &script_fleet};

static void log_destination(const struct policy *policy)
{
    char interval[32], rate[64], period[32];

    snprintf(interval, sizeof(interval), "%.3f", (double)policy_interval_us(policy) / 1000.0);
    str_format_duration(policy->rate.period_us, period);
    snprintf(rate, sizeof(rate), "%" PRId64 "/%s", policy->rate.count, period);
    log_line(LOG_INFO, "destination", LOG_STR("label", policy->label), LOG_STR("rate", rate),
             LOG_STR("interval_ms", interval), LOG_INT("max_queue", policy->max_queue),
             LOG_INT("max_wait_ms", policy->max_wait_us / CLOCK_MS_US), LOG_STR("https", conf_https_text(policy)),
             LOG_END);
}

static void log_startup(const struct conf *conf)
{
    static const char *const unlisted[] = {
        [UNLISTED_PACE] = "pace", [UNLISTED_PASS] = "pass", [UNLISTED_DENY] = "deny"};

    log_line(LOG_INFO, "starting", LOG_STR("version", SLUICE_VERSION), LOG_INT("pid", getpid()),
             LOG_STR("slots", conf->redis.url != NULL ? "redis" : "this process alone"),
             LOG_STR("unlisted", unlisted[conf->proxy.unlisted]), LOG_END);
    log_destination(conf->fallback);
    for (unsigned i = 0; i < conf->policies_count; i++) {
        log_destination(conf->policies[i]);
    }
}

/* ---- signals ---- */

static void all_gone(void *arg)
{
    struct app *app = arg;

    if (--app->undrained > 0) {
        return;
    }
    log_line(LOG_INFO, "drained", LOG_END);
    loop_stop(app->loop);
}

static unsigned callers_of(const struct app *app)
{
    return proxy_callers(app->proxy) + (app->inbound != NULL ? inbound_callers(app->inbound) : 0);
}

static void drain(void *arg)
{
    struct app *app = arg;

    app->draining = true;
    notify_tell("STOPPING=1\nSTATUS=draining");
    log_line(LOG_INFO, "draining", LOG_INT("callers", callers_of(app)),
             LOG_INT("waiting", outbound_waiting(app->outbound)), LOG_END);
    app->undrained = app->inbound != NULL ? 2 : 1;
    proxy_drain(app->proxy, all_gone, app);
    if (app->inbound != NULL) {
        inbound_drain(app->inbound, all_gone, app);
    }
}

static void ended(evutil_socket_t number, short what, void *arg)
{
    struct app *app = arg;

    (void)number;
    (void)what;
    if (app->draining) {
        log_line(LOG_WARN, "stopped", LOG_INT("callers", callers_of(app)), LOG_END);
        log_close();
        _exit(EXIT_FAILURE);
    }
    drain(app);
}

static void reopen(evutil_socket_t number, short what, void *arg)
{
    (void)number;
    (void)what;
    (void)arg;
    log_reopen();
}

static void hung_up(evutil_socket_t number, short what, void *arg)
{
    (void)number;
    (void)what;
    reload_ask(arg, NULL, NULL);
}

static struct event *on_signal(struct app *app, int number, event_callback_fn callback)
{
    struct event *event = evsignal_new(loop_base(app->loop), number, callback, app);

    must(event != NULL && event_add(event, NULL) == 0);
    return event;
}

static void watch_signals(struct app *app)
{
    /* libevent puts back what was there before: a late signal must not end the process before its log is written */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    app->signals[0] = on_signal(app, SIGTERM, ended);
    app->signals[1] = on_signal(app, SIGINT, ended);
    app->signals[2] = on_signal(app, SIGUSR1, reopen);
    app->signals[3] = on_signal(app, SIGHUP, hung_up);
}

static void watchdog_due(struct timer *timer, struct mono now)
{
    struct app *app = container_of(timer, struct app, watchdog);

    notify_tell("WATCHDOG=1");
    timer_set(app->loop, timer, mono_add(now, app->watchdog_us / 2), watchdog_due);
}

static void watch_us(struct app *app)
{
    app->watchdog_us = notify_watchdog_us();
    if (app->watchdog_us > 0) {
        watchdog_due(&app->watchdog, loop_now(app->loop));
    }
}

/* ---- boot ---- */

static void boot_limits(struct app *app)
{
    const struct conf *conf = app->conf;
    uint64_t id;

    must(getrandom(&id, sizeof(id), 0) == (ssize_t)sizeof(id));
    snprintf(app->replica, sizeof(app->replica), "%016" PRIx64, id);
    if (conf->redis.url != NULL) {
        app->link = link_new(app->loop, &conf->redis, scripts, sizeof(scripts) / sizeof(scripts[0]));
    }
    app->outbound = outbound_new(app->loop, app->link, conf->redis.prefix, app->replica);
    for (unsigned i = 0; i < conf->policies_count; i++) {
        outbound_warm(app->outbound, conf->policies[i], conf->policies[i]->label);
    }
    app->fleet = fleet_new(app->loop, app->link, conf->redis.prefix, app->replica, app->outbound);
    if (conf->inbounds_count > 0) {
        parts_make_admission(app);
    }
    if (app->link != NULL) {
        link_start(app->link);
    }
}

/* Files that TLS to Redis needs. */
static bool check_redis(const struct conf *conf, struct err *err)
{
    return conf->redis.url == NULL || link_check(&conf->redis, err);
}

/* Mistakes in the files that TLS to the third parties needs are told now, not at the first call. */
static bool read_files(struct app *app, struct proxy_files *files, struct err *err)
{
    const struct upstreams_conf conf = parts_upstreams_conf(app->conf);
    struct trusts *trusts = check_redis(app->conf, err) ? upstreams_read_trusts(app->conf, err) : NULL;

    if (trusts == NULL) {
        return false;
    }
    upstreams_adopt(app->upstreams, &conf, trusts);
    upstreams_free_trusts(trusts);
    return proxy_files_read(app->conf, files, err);
}

static bool open_addresses(struct app *app, struct err *err)
{
    return (app->inbound == NULL || inbound_prepare(app->inbound, app->conf, app->sockets, err)) &&
           proxy_prepare(app->proxy, app->conf, app->sockets, err);
}

static bool boot_proxy(struct app *app, int64_t max_callers, struct err *err)
{
    const struct upstreams_conf upstreams = parts_upstreams_conf(app->conf);
    struct proxy_files files = {NULL, NULL};

    app->upstreams = upstreams_new(app->loop, &upstreams);
    app->proxy = proxy_new(app->loop, app->conf, app->outbound, app->upstreams, max_callers);
    if (app->conf->inbounds_count > 0) {
        parts_make_inbound(app, app->conf, max_callers);
    }
    if (!read_files(app, &files, err) || !open_addresses(app, err)) {
        proxy_files_free(&files);
        return false;
    }
    if (app->inbound != NULL) {
        inbound_adopt(app->inbound, app->conf, max_callers);
    }
    proxy_adopt(app->proxy, app->conf, max_callers, &files);
    return true;
}

static bool boot_admin(struct app *app, struct err *err)
{
    const struct admin_sources sources = {.loop = app->loop,
                                          .conf = app->conf,
                                          .outbound = app->outbound,
                                          .fleet = app->fleet,
                                          .upstreams = app->upstreams,
                                          .proxy = app->proxy,
                                          .link = app->link,
                                          .admission = app->admission,
                                          .sockets = app->sockets,
                                          .version = SLUICE_VERSION,
                                          .drain = drain,
                                          .reload = reload_ask,
                                          .arg = app};

    if (app->conf->admin.listen_count == 0) {
        return true;
    }
    app->admin = admin_new(&sources, err);
    return app->admin != NULL;
}

static void shut_down(struct app *app)
{
    reload_free(app->reload);
    if (app->admin != NULL) {
        admin_free(app->admin);
    }
    if (app->inbound != NULL) {
        inbound_free(app->inbound);
        upstreams_free(app->inbound_upstreams);
    }
    if (app->admission != NULL) {
        admission_free(app->admission);
    }
    proxy_free(app->proxy);
    upstreams_free(app->upstreams);
    fleet_free(app->fleet);
    outbound_free(app->outbound);
    if (app->link != NULL) {
        link_free(app->link);
    }
    for (size_t i = 0; i < APP_SIGNALS; i++) {
        if (app->signals[i] != NULL) {
            event_free(app->signals[i]);
        }
    }
    timer_clear(&app->watchdog);
    loop_free(app->loop);
    sockets_free(app->sockets);
    conf_free(app->conf);
    log_close();
    curl_global_cleanup();
    libevent_global_shutdown();
}

static void tell_unused(void *arg, const struct addr *address)
{
    char text[ADDR_TEXT_BYTES];

    (void)arg;
    addr_format(address, false, text);
    log_line(LOG_WARN, "socket_unused", LOG_STR("address", text),
             LOG_STR("cure", "it was handed down by LISTEN_FDS, but no listen names exactly this address"), LOG_END);
}

int app_run(struct conf *conf, const char *file)
{
    struct app app = {.conf = conf, .file = file};
    int64_t max_callers = descriptors_claim(conf);
    struct err err = {0};

    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* until it can be followed */
    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    if (!log_open(conf->proxy.log_file, conf->proxy.log_format, conf->proxy.log_level)) {
        fprintf(stderr, "sluice: [proxy] log_file: can't open %s\n", conf->proxy.log_file);
        return APP_BAD_CONFIG;
    }
    log_startup(conf);
    descriptors_warn(conf, max_callers);
    app.loop = loop_new();
    app.sockets = sockets_new();
    app.reload = reload_new(&app);
    boot_limits(&app);
    if (!boot_proxy(&app, max_callers, &err) || !boot_admin(&app, &err)) {
        shut_down(&app);
        err_print(&err, "sluice: ");
        err_fini(&err);
        return EXIT_FAILURE;
    }
    sockets_each_unused(app.sockets, tell_unused, NULL);
    watch_signals(&app);
    watch_us(&app);
    log_line(LOG_INFO, "ready", LOG_END);
    notify_tell("READY=1\nSTATUS=letting calls out");
    loop_run(app.loop);
    shut_down(&app);
    return EXIT_SUCCESS;
}

int app_check(struct conf *conf)
{
    struct err err = {0};

    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    conf_describe(conf, stdout);
    bool good = check_redis(conf, &err);
    struct trusts *trusts = upstreams_read_trusts(conf, &err);
    good = trusts != NULL && good;
    upstreams_free_trusts(trusts);
    if (conf->proxy.ca_dir != NULL) {
        struct authority *authority = authority_load(conf->proxy.ca_dir, &err);
        good = authority != NULL && good;
        authority_free(authority);
    }
    err_print(&err, "sluice: ");
    err_fini(&err);
    conf_free(conf);
    curl_global_cleanup();
    return good ? EXIT_SUCCESS : APP_BAD_CONFIG;
}
