/*
 * Other settings while running.
 *
 *   SIGHUP, a verb --> thread: read, check, compare; users, CA, certificates --> loop: put in place --> thread: log the
 *                      differences, take the old settings apart
 *
 * Ten thousand destinations take some 50 ms to read and some 10 ms to free, in which slots would be late. So a thread
 * does both, at a lower priority than the loop, and the loop only swaps pointers; what reaches into each bucket is done
 * by outbound a little at a time (outbound_adopt).
 *
 * All or nothing: a mistake in any file, or an address that can't be opened, and nothing has changed. New addresses are
 * opened before anything else is touched, and old ones are closed last, once the callers in the kernel's queues are in.
 *
 * What can't be changed live (key table) keeps its value, and is named. Exchanges under way hold the policy they came
 * in under, a caller of an [inbound] the place it came to: both are counted, and the counts are atomic because the last
 * reference may be the thread's.
 *
 *   IDLE --asked--> READING --read--> RETIRING --freed--> IDLE, or READING again when somebody has asked meanwhile
 */
#include "app/reload.h"

#include "app/descriptors.h"
#include "app/parts.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/notify.h"
#include "conf/load.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TOLD_MOST = 1000, THREAD_NICE = 10 };

enum stage { IDLE, READING, RETIRING };

struct noted {
    char *section, *key, *from, *to; /* owned; key NULL: the section */
    bool live;
};

struct asker {
    reload_done *done;
    void *arg;
};
struct askers {
    struct asker *list;
    size_t count;
};

struct reload {
    struct app *app;
    enum stage stage; /* the loop's */
    pthread_t thread;
    bool has_thread;
    int event_fd; /* the thread has got to the end of a stage */
    struct event *event;
    sem_t decided; /* the loop has put the settings in place, or not */
    struct askers now, next;
    uint64_t version; /* of the settings in force */
    struct mono began;

    /* the thread's while it reads and retires, the loop's in between */
    struct conf *conf; /* what was read; afterwards what is to be freed */
    struct proxy_files files;
    struct trusts *trusts;
    int64_t max_callers;
    struct err mistakes, warnings;
    struct noted *told;
    unsigned told_count, changes, needs_restart;
    bool applied;
};

/* ---- in the thread ---- */

static void note_change(void *arg, const struct change *change)
{
    struct reload *r = arg;

    r->changes++;
    r->needs_restart += !change->live;
    if (!change->live && change->key != NULL) {
        err_add(&r->warnings, "needs a restart: %s.%s", change->section, change->key);
    }
    if (r->told_count < TOLD_MOST) {
        struct noted *told = &r->told[r->told_count++];
        *told = (struct noted){mem_strdup(change->section), change->key != NULL ? mem_strdup(change->key) : NULL,
                              mem_strdup(change->from), mem_strdup(change->to), change->live};
    }
}

static bool read_all(struct reload *r)
{
    r->conf = conf_load(r->app->file, &r->mistakes, &r->warnings);
    if (r->conf == NULL) {
        return false;
    }
    conf_set_version(r->conf, r->version + 1);
    bool files = proxy_files_read(r->conf, &r->files, &r->mistakes);
    r->trusts = upstreams_read_trusts(r->conf, &r->mistakes);
    if (!files || r->trusts == NULL) {
        return false;
    }
    r->max_callers = descriptors_claim(r->conf);
    r->told = mem_zalloc(TOLD_MOST * sizeof(r->told[0]));
    change_each(r->app->conf, r->conf, note_change, r);
    return true;
}

static void drop_all(struct reload *r)
{
    conf_free(r->conf);
    proxy_files_free(&r->files);
    upstreams_free_trusts(r->trusts);
    r->conf = NULL;
    r->trusts = NULL;
}

static void log_change(const struct noted *told)
{
    struct log_field key = told->key != NULL ? LOG_STR("key", told->key) : LOG_STR("key", "(section)");

    log_line(told->live ? LOG_INFO : LOG_WARN, told->live ? "setting_changed" : "needs_restart",
             LOG_STR("section", told->section), key, LOG_STR("from", told->from), LOG_STR("to", told->to), LOG_END);
}

static void log_result(const struct reload *r)
{
    for (size_t i = 0; i < r->mistakes.count; i++) {
        log_line(LOG_ERROR, "reload_mistake", LOG_STR("mistake", r->mistakes.lines[i]), LOG_END);
    }
    if (!r->applied) {
        log_line(LOG_ERROR, "reload_refused", LOG_INT("mistakes", r->mistakes.count),
                 LOG_STR("meaning", "nothing was changed: mend the file, then reload again"), LOG_END);
        return;
    }
    for (size_t i = 0; i < r->warnings.count; i++) {
        log_line(LOG_WARN, "reload_warning", LOG_STR("warning", r->warnings.lines[i]), LOG_END);
    }
    for (unsigned i = 0; i < r->told_count; i++) {
        log_change(&r->told[i]);
    }
    log_line(LOG_INFO, "reloaded", LOG_INT("changes", r->changes), LOG_INT("not_shown", r->changes - r->told_count),
             LOG_INT("needs_restart", r->needs_restart),
             LOG_INT("ms", mono_diff(clock_mono_now(), r->began) / CLOCK_MS_US), LOG_END);
}

static void tell_loop(const struct reload *r)
{
    const uint64_t one = 1;

    while (write(r->event_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void *thread_main(void *arg)
{
    struct reload *r = arg;

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), THREAD_NICE); /* of this thread alone, on Linux */
    if (!read_all(r)) {
        drop_all(r);
    }
    tell_loop(r);
    while (sem_wait(&r->decided) != 0) {
        must(errno == EINTR);
    }
    log_result(r);
    drop_all(r);
    tell_loop(r);
    return NULL;
}

/* ---- in the loop ---- */

/* Everything that may fail; on failure all is as it was. */
static bool open_addresses(struct app *app, const struct conf *conf, int64_t max_callers, struct err *err)
{
    if (conf->inbounds_count > 0 && app->inbound == NULL) {
        parts_make_inbound(app, app->conf, max_callers);
    }
    if (!proxy_prepare(app->proxy, conf, app->sockets, err)) {
        return false;
    }
    if (app->inbound != NULL && !inbound_prepare(app->inbound, conf, app->sockets, err)) {
        proxy_abandon(app->proxy);
        return false;
    }
    return true;
}

static void put_in_place(struct reload *r)
{
    struct app *app = r->app;
    struct conf *old = app->conf, *conf = r->conf;

    change_keep_fixed(old, conf);
    const struct upstreams_conf upstreams = parts_upstreams_conf(conf);
    upstreams_adopt(app->upstreams, &upstreams, r->trusts);
    outbound_adopt(app->outbound, conf);
    proxy_adopt(app->proxy, conf, r->max_callers, &r->files);
    if (app->inbound != NULL) {
        const struct upstreams_conf inbound_upstreams = parts_inbound_upstreams_conf(conf);
        upstreams_adopt(app->inbound_upstreams, &inbound_upstreams, NULL);
        inbound_adopt(app->inbound, conf, r->max_callers);
    }
    if (app->admin != NULL) {
        admin_adopt(app->admin, conf, app->admission);
    }
    if (conf->proxy.log_level != old->proxy.log_level) {
        log_set_level(conf->proxy.log_level); /* else what a verb has set stays */
    }
    app->conf = conf;
    r->version = conf->version;
    r->conf = old; /* for the thread to free */
}

static void apply(struct reload *r)
{
    struct app *app = r->app;

    if (r->conf == NULL) {
        return;
    }
    if (app->draining) {
        err_add(&r->mistakes, "this process is shutting down");
    } else if (open_addresses(app, r->conf, r->max_callers, &r->mistakes)) {
        put_in_place(r);
        r->applied = true;
    }
}

static void answer(struct reload *r)
{
    const struct reload_result result = {.applied = r->applied,
                                         .changes = r->changes,
                                         .needs_restart = r->needs_restart,
                                         .lines = r->applied ? &r->warnings : &r->mistakes};

    for (size_t i = 0; i < r->now.count; i++) {
        r->now.list[i].done(r->now.list[i].arg, &result);
    }
    mem_free(r->now.list);
    r->now = (struct askers){NULL, 0};
}

static void clear(struct reload *r)
{
    for (unsigned i = 0; i < r->told_count; i++) {
        mem_free(r->told[i].section);
        mem_free(r->told[i].key);
        mem_free(r->told[i].from);
        mem_free(r->told[i].to);
    }
    mem_free(r->told);
    err_fini(&r->mistakes);
    err_fini(&r->warnings);
    r->mistakes = r->warnings = (struct err){0};
    r->told = NULL;
    r->told_count = r->changes = r->needs_restart = 0;
    r->applied = false;
}

/* Signals stay with the loop's thread. */
static bool start_thread(struct reload *r)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&r->thread, NULL, thread_main, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void begin(struct reload *r)
{
    char lines[80];

    r->began = loop_now(r->app->loop);
    snprintf(lines, sizeof(lines), "RELOADING=1\nMONOTONIC_USEC=%" PRId64, r->began.us);
    notify_tell(lines);
    log_line(LOG_INFO, "reloading", LOG_STR("file", r->app->file), LOG_END);
    r->stage = READING;
    r->has_thread = start_thread(r);
    if (!r->has_thread) {
        err_add(&r->mistakes, "no thread can be had to read the settings");
        log_result(r);
        tell_loop(r);
    }
}

static void stage_over(evutil_socket_t fd, short what, void *arg)
{
    struct reload *r = arg;
    uint64_t count;

    (void)what;
    if (read(fd, &count, sizeof(count)) < 0) {
        return;
    }
    if (r->stage == READING) {
        apply(r);
        r->stage = RETIRING;
        answer(r);
        notify_tell("READY=1");
        if (r->has_thread) {
            must(sem_post(&r->decided) == 0);
            return;
        }
    }
    if (r->has_thread) {
        must(pthread_join(r->thread, NULL) == 0);
    }
    clear(r);
    r->stage = IDLE;
    if (r->next.count > 0) {
        r->now = r->next;
        r->next = (struct askers){NULL, 0};
        begin(r);
    }
}

static void ignore(void *arg, const struct reload_result *result)
{
    (void)arg;
    (void)result;
}

void reload_ask(void *arg, reload_done *done, void *done_arg)
{
    struct app *app = arg;
    struct reload *r = app->reload;
    struct askers *askers = r->stage == IDLE ? &r->now : &r->next;

    askers->list = mem_realloc(askers->list, (askers->count + 1) * sizeof(askers->list[0]));
    askers->list[askers->count++] = (struct asker){done != NULL ? done : ignore, done_arg};
    if (r->stage == IDLE) {
        begin(r);
    }
}

struct reload *reload_new(struct app *app)
{
    struct reload *r = mem_zalloc(sizeof(*r));

    r->app = app;
    r->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    must(r->event_fd >= 0 && sem_init(&r->decided, 0, 0) == 0);
    r->event = event_new(loop_base(app->loop), r->event_fd, EV_READ | EV_PERSIST, stage_over, r);
    must(r->event != NULL);
    event_priority_set(r->event, LOOP_PRIORITY_IO);
    must(event_add(r->event, NULL) == 0);
    return r;
}

void reload_free(struct reload *r)
{
    if (r->stage != IDLE && r->has_thread) {
        if (r->stage == READING) {
            must(sem_post(&r->decided) == 0); /* not applied */
        }
        must(pthread_join(r->thread, NULL) == 0);
    }
    clear(r);
    mem_free(r->now.list);
    mem_free(r->next.list);
    event_free(r->event);
    close(r->event_fd);
    sem_destroy(&r->decided);
    mem_free(r);
}
