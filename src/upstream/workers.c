/*
 * Threads for blocking lookups.
 *
 *   submit -> [queued] -> a thread: resolve() -> [finished] -> eventfd -> the loop takes it
 *
 * getaddrinfo() can hang for minutes and can't be interrupted. So nobody ever joins these threads: they are detached,
 * and what they share with the loop is counted. When the loop lets go first, the last thread to come back frees the
 * rest. libcurl's own threaded resolver was rejected since cancelling it joins its thread, which stops the loop.
 *
 * Names whose servers say nothing would soon hold every thread, and then no name at all could be resolved. So a thread
 * that has been in one lookup for WORKERS_STUCK_US counts as lost: while others wait, another one stands in for it, up to
 * WORKERS_THREADS_MOST in all. Who comes back from a lookup and finds more than were asked for at work leaves.
 */
#include "workers.h"

#include "base/mem.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { THREAD_STACK_BYTES = 512 * 1024 };

TAILQ_HEAD(job_list, job);

/* A thread in a lookup; lies on its stack. */
struct lookup_under_way {
    LIST_ENTRY(lookup_under_way) link;
    struct mono since;
};

struct workers {
    pthread_mutex_t lock; /* guards everything below that changes */
    pthread_cond_t wake;
    struct job_list queued, finished;
    LIST_HEAD(, lookup_under_way) under_way;
    unsigned queued_count, idle_threads, threads, threads_most;
    unsigned refs; /* the loop's, and one for each thread */
    bool stopping;
    int finished_fd;
    workers_resolve resolve;
};

struct job *job_new(const char *host, void *owner)
{
    struct job *job = mem_zalloc(sizeof(*job));

    job->host = mem_strdup(host);
    job->owner = owner;
    return job;
}

void job_free(struct job *job)
{
    mem_free(job->host);
    mem_free(job);
}

static void free_all(struct job_list *list)
{
    struct job *job;

    while ((job = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, job, link);
        job_free(job);
    }
}

/* Called with the lock held; gives it up. */
static void unlock_and_put(struct workers *workers)
{
    bool last = --workers->refs == 0;

    pthread_mutex_unlock(&workers->lock);
    if (last) {
        close(workers->finished_fd);
        pthread_cond_destroy(&workers->wake);
        pthread_mutex_destroy(&workers->lock);
        mem_free(workers);
    }
}

static void finish(struct workers *workers, struct job *job)
{
    uint64_t one = 1;

    TAILQ_INSERT_TAIL(&workers->finished, job, link);
    while (write(workers->finished_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

/* Threads that may come back soon; called with the lock held. */
static unsigned fit_threads(const struct workers *workers, struct mono now)
{
    const struct lookup_under_way *lookup;
    unsigned stuck = 0;

    LIST_FOREACH(lookup, &workers->under_way, link)
    {
        stuck += mono_diff(now, lookup->since) >= WORKERS_STUCK_US;
    }
    return workers->threads - stuck;
}

/* The lookup itself, without the lock. */
static void look_up(struct workers *workers, struct job *job)
{
    struct lookup_under_way lookup = {.since = clock_mono_now()};

    LIST_INSERT_HEAD(&workers->under_way, &lookup, link);
    pthread_mutex_unlock(&workers->lock);
    job->status = workers->resolve(job->host, job->addrs, &job->count);
    pthread_mutex_lock(&workers->lock);
    LIST_REMOVE(&lookup, link);
}

static void *worker_main(void *arg)
{
    struct workers *workers = arg;
    bool surplus = false;

    pthread_mutex_lock(&workers->lock);
    while (!workers->stopping && !surplus) {
        struct job *job = TAILQ_FIRST(&workers->queued);
        if (job == NULL) {
            workers->idle_threads++;
            pthread_cond_wait(&workers->wake, &workers->lock);
            workers->idle_threads--;
            continue;
        }
        TAILQ_REMOVE(&workers->queued, job, link);
        workers->queued_count--;
        look_up(workers, job);
        if (workers->stopping) {
            job_free(job);
        } else {
            finish(workers, job);
        }
        surplus = fit_threads(workers, clock_mono_now()) > workers->threads_most;
    }
    workers->threads--;
    unlock_and_put(workers);
    return NULL;
}

/* Signals stay with the loop's thread. */
static bool start_thread(struct workers *workers)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attr, worker_main, workers) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (started) {
        workers->threads++;
        workers->refs++;
    }
    return started;
}

struct workers *workers_new(unsigned threads, workers_resolve resolve)
{
    struct workers *workers = mem_zalloc(sizeof(*workers));

    must(threads > 0);
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->wake, NULL);
    TAILQ_INIT(&workers->queued);
    TAILQ_INIT(&workers->finished);
    LIST_INIT(&workers->under_way);
    workers->threads_most = threads;
    workers->refs = 1;
    workers->resolve = resolve;
    workers->finished_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    must(workers->finished_fd >= 0);
    return workers;
}

void workers_free(struct workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    workers->stopping = true;
    free_all(&workers->queued);
    free_all(&workers->finished);
    pthread_cond_broadcast(&workers->wake);
    unlock_and_put(workers);
}

int workers_fd(const struct workers *workers)
{
    return workers->finished_fd;
}

/* Called with the lock held. False: there is nobody to do the work. */
static bool add_thread(struct workers *workers, struct mono now)
{
    bool may = workers->threads < WORKERS_THREADS_MOST && fit_threads(workers, now) < workers->threads_most;

    return (may && start_thread(workers)) || workers->threads > 0;
}

bool workers_relieve(struct workers *workers, struct mono now)
{
    pthread_mutex_lock(&workers->lock);
    unsigned waiting = workers->queued_count;
    for (unsigned i = workers->idle_threads; i < waiting && fit_threads(workers, now) < workers->threads_most; i++) {
        (void)add_thread(workers, now);
    }
    pthread_mutex_unlock(&workers->lock);
    return waiting > 0;
}

unsigned workers_threads(struct workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    unsigned threads = workers->threads;
    pthread_mutex_unlock(&workers->lock);
    return threads;
}

bool workers_submit(struct workers *workers, struct job *job)
{
    pthread_mutex_lock(&workers->lock);
    bool fits = workers->queued_count < WORKERS_QUEUE;
    if (fits && workers->idle_threads <= workers->queued_count) {
        fits = add_thread(workers, clock_mono_now());
    }
    if (fits) {
        TAILQ_INSERT_TAIL(&workers->queued, job, link);
        workers->queued_count++;
        pthread_cond_signal(&workers->wake);
    }
    pthread_mutex_unlock(&workers->lock);
    return fits;
}

bool workers_withdraw(struct workers *workers, struct job *job)
{
    struct job *other;

    pthread_mutex_lock(&workers->lock);
    TAILQ_FOREACH(other, &workers->queued, link)
    {
        if (other == job) {
            TAILQ_REMOVE(&workers->queued, job, link);
            workers->queued_count--;
            break;
        }
    }
    pthread_mutex_unlock(&workers->lock);
    return other != NULL;
}

struct job *workers_take(struct workers *workers)
{
    uint64_t count;

    pthread_mutex_lock(&workers->lock);
    struct job *job = TAILQ_FIRST(&workers->finished);
    if (job != NULL) {
        TAILQ_REMOVE(&workers->finished, job, link);
    } else if (read(workers->finished_fd, &count, sizeof(count)) < 0) {
        must(errno == EAGAIN || errno == EINTR);
    }
    pthread_mutex_unlock(&workers->lock);
    return job;
}

static bool is_listed(const struct addr addrs[], unsigned count, const struct addrinfo *info)
{
    for (unsigned i = 0; i < count; i++) {
        if (addrs[i].len == info->ai_addrlen && memcmp(&addrs[i].any, info->ai_addr, info->ai_addrlen) == 0) {
            return true;
        }
    }
    return false;
}

int workers_system_resolve(const char *host, struct addr addrs[WORKERS_ADDRS], unsigned *count)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    *count = 0;
    int status = getaddrinfo(host, NULL, &hints, &list);
    if (status != 0) {
        return status;
    }
    for (struct addrinfo *info = list; info != NULL && *count < WORKERS_ADDRS; info = info->ai_next) {
        bool inet = info->ai_family == AF_INET || info->ai_family == AF_INET6;
        if (inet && info->ai_addrlen <= sizeof(addrs->any) && !is_listed(addrs, *count, info)) {
            memcpy(&addrs[*count].any, info->ai_addr, info->ai_addrlen);
            addrs[*count].len = info->ai_addrlen;
            (*count)++;
        }
    }
    freeaddrinfo(list);
    return 0;
}
