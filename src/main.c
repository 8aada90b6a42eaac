/* Boot in order, run, shut down in reverse. */
#include "admin/admin.h"
#include "admin/ca.h"
#include "admin/remote.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "conf/load.h"
#include "inbound/admission.h"
#include "outbound/fleet.h"
#include "outbound/outbound.h"
#include "proxy/inbound.h"
#include "proxy/proxy.h"
#include "redis/link.h"
#include "server/authority.h"
#include "upstream/upstream.h"

#include <curl/curl.h>
#include <event2/event.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef SLUICE_VERSION
#define SLUICE_VERSION "0.1.0"
#endif

enum { EXIT_BAD_CONFIG = 2, SPARE_DESCRIPTORS = 64, REPLICA_ID_BYTES = 24, SIGNALS = 4 };

extern const struct script script_reserve, script_settle, script_pause, script_members, script_fly,
    script_charge, script_admit, script_word, script_fleet;
static const struct script *const scripts[] = {&script_reserve, &script_settle, &script_pause, &script_members,
                                               &script_fly,     &script_charge, &script_admit,
                                               &script_word,    &script_fleet};

struct app {
    struct conf *conf;
    int64_t max_callers;
    struct loop *loop;
    struct link *link;
    struct outbound *outbound;
    struct fleet *fleet;
    struct upstreams *upstreams;
    struct proxy *proxy;
    struct admin *admin; /* NULL without an [admin] */
    struct event *signals[SIGNALS];
    struct admission *admission; /* these three: NULL without an [inbound] */
    struct upstreams *inbound_upstreams;
    struct inbound *inbound;
    unsigned undrained;
    bool draining;
};

enum action { ACTION_RUN, ACTION_CHECK, ACTION_DUMP };
struct options {
    enum action action;
    const char *file;
};

static void print_help(FILE *out)
{
    fputs("sluice: a forward proxy that queues calls per third party and lets them out at a constant rate\n\n"
          "  sluice -c FILE                  run with this INI file\n"
          "  sluice -c FILE --check          check it, and print what would happen to each destination\n"
          "  sluice -c FILE --dump-config    print every setting in force\n"
          "  sluice --help-config            print every key with its type, default and meaning\n"
          "  sluice ca init|show --dir DIR   the CA of https = intercept\n"
          "  sluice top                      watch a running sluice in the terminal (it needs a section [admin])\n"
          "  sluice status|pause|resume|set-rate|purge|drain|reload|log-level\n"
          "                                  ask and tell a running sluice; sluice status --help says how\n"
          "  sluice --version\n"
          "  sluice --help\n\n"
          "Callers then set HTTP_PROXY=http://127.0.0.1:3128 (and HTTPS_PROXY).\n"
          "Signals: TERM drains and ends (a second one ends at once), USR1 opens the log file again.\n",
          out);
}

/* Ends the program where nothing is left to do. */
static struct options parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"config", required_argument, NULL, 'c'},
        {"check", no_argument, NULL, 'k'},
        {"dump-config", no_argument, NULL, 'd'},
        {"help-config", no_argument, NULL, 'H'},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.action = ACTION_RUN};
    int found;

    while ((found = getopt_long(argc, argv, "c:hV", known, NULL)) != -1) {
        switch (found) {
        case 'c':
            options.file = optarg;
            break;
        case 'k':
            options.action = ACTION_CHECK;
            break;
        case 'd':
            options.action = ACTION_DUMP;
            break;
        case 'H':
            conf_help(stdout);
            exit(EXIT_SUCCESS);
        case 'V':
            puts("sluice " SLUICE_VERSION);
            exit(EXIT_SUCCESS);
        case 'h':
            print_help(stdout);
            exit(EXIT_SUCCESS);
        default:
            fputs("try: sluice --help\n", stderr);
            exit(EXIT_BAD_CONFIG);
        }
    }
    if (optind < argc || options.file == NULL) {
        fprintf(stderr,
                optind < argc ? "sluice: unexpected argument \"%s\"; try: sluice --help\n"
                              : "sluice: which configuration? try: sluice -c FILE\n",
                optind < argc ? argv[optind] : "");
        exit(EXIT_BAD_CONFIG);
    }
    return options;
}

static struct conf *load_conf(const char *file)
{
    struct err err = {0};
    struct err warnings = {0};
    struct conf *conf = conf_load(file, &err, &warnings);

    err_print(&warnings, "sluice: warning: ");
    err_print(&err, "sluice: ");
    err_fini(&err);
    err_fini(&warnings);
    if (conf == NULL) {
        exit(EXIT_BAD_CONFIG);
    }
    return conf;
}

/* The kernel doubles a process' table of descriptors as it fills, and makes a process with threads wait for that, 8 to
 * 16 ms each time: many slots at a high rate. So the table gets its size at the start. */
static void grow_descriptor_table(rlim_t size)
{
    int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)size - 1);

    if (last >= 0) {
        close(last);
    }
}

/* Two descriptors for each caller, at worst, and as many again for the inbound side; as many callers as that leaves
 * room for. */
static int64_t claim_descriptors(const struct conf *conf)
{
    struct rlimit limit = {0, 0};
    rlim_t sides = conf->inbounds_count > 0 ? 2 : 1;
    rlim_t wanted = (rlim_t)conf->proxy.max_connections * 2 * sides + SPARE_DESCRIPTORS;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return conf->proxy.max_connections;
    }
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    grow_descriptor_table(limit.rlim_cur < wanted ? limit.rlim_cur : wanted);
    if (limit.rlim_cur >= wanted) {
        return conf->proxy.max_connections;
    }
    /* waiting callers need one each: only those near their turn have a connection to the third party */
    rlim_t spare = limit.rlim_cur / 8 > SPARE_DESCRIPTORS ? limit.rlim_cur / 8 : SPARE_DESCRIPTORS;
    int64_t fits = limit.rlim_cur > 2 * spare ? (int64_t)(limit.rlim_cur - spare) : (int64_t)limit.rlim_cur / 2;
    fits /= sides == 2 ? 3 : 1; /* nobody waits on the inbound side: two descriptors for each of its callers */
    return fits < conf->proxy.max_connections ? fits : conf->proxy.max_connections;
}

static void warn_of_few_descriptors(const struct conf *conf, int64_t fits)
{
    if (fits < conf->proxy.max_connections) {
        log_line(LOG_WARN, "few_descriptors", LOG_INT("max_connections", conf->proxy.max_connections),
                 LOG_INT("used", fits), LOG_STR("cure", "raise ulimit -n"), LOG_END);
    }
}

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
    (void)arg;
    log_line(LOG_WARN, "hangup_ignored", LOG_STR("cure", "to change settings, restart: TERM drains"), LOG_END);
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

/* ---- boot ---- */

/* Callers' keys are hashed under what all replicas, and only they, know. */
static void boot_admission(struct app *app, const char *replica)
{
    const struct redis_conf *rc = &app->conf->redis;
    char *secret = mem_printf("sluice inbound %s %s", rc->prefix, rc->password != NULL ? rc->password : "");

    app->admission = admission_new(app->loop, app->link, rc->prefix, replica, secret, strlen(secret));
    explicit_bzero(secret, strlen(secret));
    mem_free(secret);
}

static void boot_limits(struct app *app)
{
    const struct conf *conf = app->conf;
    char replica[REPLICA_ID_BYTES];
    uint64_t id;

    must(getrandom(&id, sizeof(id), 0) == (ssize_t)sizeof(id));
    snprintf(replica, sizeof(replica), "%016" PRIx64, id);
    if (conf->redis.url != NULL) {
        app->link = link_new(app->loop, &conf->redis, scripts, sizeof(scripts) / sizeof(scripts[0]));
    }
    app->outbound = outbound_new(app->loop, app->link, conf->redis.prefix, replica);
    for (unsigned i = 0; i < conf->policies_count; i++) {
        outbound_warm(app->outbound, conf->policies[i], conf->policies[i]->label);
    }
    app->fleet = fleet_new(app->loop, app->link, conf->redis.prefix, replica, app->outbound);
    if (conf->inbounds_count > 0) {
        boot_admission(app, replica);
    }
    if (app->link != NULL) {
        link_start(app->link);
    }
}

/* Our own API lies in our own network. */
static bool boot_inbound(struct app *app, struct err *err)
{
    const struct upstreams_conf upstreams = {
        .private_mode = PRIVATE_ALLOW,
        .dns_ttl_us = app->conf->proxy.dns_ttl_us,
        .dns_timeout_us = app->conf->fallback->connect_timeout_us,
        .resolver_threads = 1,
    };

    if (app->conf->inbounds_count == 0) {
        return true;
    }
    app->inbound_upstreams = upstreams_new(app->loop, &upstreams);
    app->inbound = inbound_new(app->loop, app->conf, app->admission, app->inbound_upstreams, app->max_callers);
    return inbound_listen(app->inbound, err);
}

/* Files that TLS to Redis needs. */
static bool check_redis(const struct conf *conf, struct err *err)
{
    return conf->redis.url == NULL || link_check(&conf->redis, err);
}

/* Files that TLS to the third parties needs: mistakes in them are told now, not at the first call. */
static bool read_trust(const struct conf *conf, struct upstreams *upstreams, struct err *err)
{
    for (unsigned i = 0; i <= conf->policies_count; i++) {
        const struct policy *policy = i < conf->policies_count ? conf->policies[i] : conf->fallback;
        if (policy->https != HTTPS_TUNNEL && !upstreams_trust(upstreams, policy, err)) {
            return false;
        }
    }
    return true;
}

static struct upstreams *make_upstreams(const struct conf *conf, struct loop *loop)
{
    const struct upstreams_conf upstreams = {
        .private_mode = conf->proxy.private_mode,
        .private_upstreams = conf->proxy.private_upstreams,
        .private_upstreams_count = conf->proxy.private_upstreams_count,
        .dns_ttl_us = conf->proxy.dns_ttl_us,
        .dns_timeout_us = conf->fallback->connect_timeout_us,
        .resolver_threads = (unsigned)conf->proxy.resolver_threads,
    };

    return upstreams_new(loop, &upstreams);
}

static bool boot_proxy(struct app *app, struct err *err)
{
    app->upstreams = make_upstreams(app->conf, app->loop);
    app->proxy = proxy_new(app->loop, app->conf, app->outbound, app->upstreams, app->max_callers);
    return check_redis(app->conf, err) && read_trust(app->conf, app->upstreams, err) &&
           proxy_load_users(app->proxy, err) && proxy_load_authority(app->proxy, err) && boot_inbound(app, err) &&
           proxy_listen(app->proxy, err);
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
                                          .version = SLUICE_VERSION,
                                          .drain = drain,
                                          .arg = app};

    if (app->conf->admin.listen_count == 0) {
        return true;
    }
    app->admin = admin_new(&sources, err);
    return app->admin != NULL;
}

static void shut_down(struct app *app)
{
    if (app->admin != NULL) {
        admin_free(app->admin);
    }
    if (app->inbound != NULL) {
        inbound_free(app->inbound);
        upstreams_free(app->inbound_upstreams);
        admission_free(app->admission);
    }
    proxy_free(app->proxy);
    upstreams_free(app->upstreams);
    fleet_free(app->fleet);
    outbound_free(app->outbound);
    if (app->link != NULL) {
        link_free(app->link);
    }
    for (size_t i = 0; i < sizeof(app->signals) / sizeof(app->signals[0]); i++) {
        if (app->signals[i] != NULL) {
            event_free(app->signals[i]);
        }
    }
    loop_free(app->loop);
    conf_free(app->conf);
    log_close();
    curl_global_cleanup();
    libevent_global_shutdown();
}

static int run(struct conf *conf)
{
    struct app app = {.conf = conf, .max_callers = claim_descriptors(conf)};
    struct err err = {0};

    signal(SIGPIPE, SIG_IGN);
    must(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    if (!log_open(conf->proxy.log_file, conf->proxy.log_format, conf->proxy.log_level)) {
        fprintf(stderr, "sluice: [proxy] log_file: can't open %s\n", conf->proxy.log_file);
        return EXIT_BAD_CONFIG;
    }
    log_startup(conf);
    warn_of_few_descriptors(conf, app.max_callers);
    app.loop = loop_new();
    boot_limits(&app);
    if (!boot_proxy(&app, &err) || !boot_admin(&app, &err)) {
        shut_down(&app);
        err_print(&err, "sluice: ");
        err_fini(&err);
        return EXIT_FAILURE;
    }
    watch_signals(&app);
    log_line(LOG_INFO, "ready", LOG_END);
    loop_run(app.loop);
    shut_down(&app);
    return EXIT_SUCCESS;
}

/* The files that the settings name are part of what is to be in order. */
static int check(struct conf *conf)
{
    struct loop *loop = loop_new();
    struct upstreams *upstreams = make_upstreams(conf, loop);
    struct err err = {0};

    conf_describe(conf, stdout);
    bool good = check_redis(conf, &err);
    good = read_trust(conf, upstreams, &err) && good;
    if (conf->proxy.ca_dir != NULL) {
        struct authority *authority = authority_load(conf->proxy.ca_dir, &err);
        good = authority != NULL && good;
        authority_free(authority);
    }
    err_print(&err, "sluice: ");
    err_fini(&err);
    upstreams_free(upstreams);
    loop_free(loop);
    conf_free(conf);
    return good ? EXIT_SUCCESS : EXIT_BAD_CONFIG;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "ca") == 0) {
        return ca_command(argc - 1, argv + 1);
    }
    if (argc > 1 && remote_knows(argv[1])) {
        return remote_command(argc - 1, argv + 1);
    }
    struct options options = parse_options(argc, argv);
    struct conf *conf = load_conf(options.file);

    switch (options.action) {
    case ACTION_CHECK:
        return check(conf);
    case ACTION_DUMP:
        conf_dump(conf, stdout);
        break;
    case ACTION_RUN:
        return run(conf);
    }
    conf_free(conf);
    return EXIT_SUCCESS;
}
