/*
 * The log. Lines go from the loop to a ring of bytes, and from there to the disk by a thread that does nothing else:
 *
 *   log_fields -> log_line -> [ring] -> batch -> write(2)
 *    (any thread)              head   tail    (the writer)
 *
 * The loop never waits for the writer: `head` and `tail` are atomics, each moved by one side, and a line for which the
 * ring has no room is dropped and counted. The mutex is among producers only (the loop, seldom a resolver thread) and
 * is held for one memcpy. The writer is woken through a semaphore, but only when it said that it sleeps, so a busy log
 * costs no system call per line. Stopping and reopening are flags plus a post, hence fit for a signal handler.
 *
 * What the writer can't write (disk full, reader gone) it drops and counts too, since waiting would only move the loss
 * into the ring. While a loss is not reported it tries once a second to write "log_lost" with the count. A line torn by
 * a short write is ended by a newline before the next one, so a reader loses that line only.
 *
 * A warning or an error that repeats is written REPEATS_MOST times a second; how many more there were is told with the
 * next one that is. Only the access log, one line for each request, is never thinned out.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/log_line.h"
#include "base/must.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    RING_BYTES = 1 << 20, /* a power of two */
    BATCH_BYTES = 64 << 10,
    PATH_BYTES = 4096,
    STALL_MS = 100, /* how long a full pipe may stall the writer before lines are given up */
    CLOSE_US = 1000000,
    RETRY_US = 1000000,
    REPEATS_MOST = 100,
    REPEATED_EVENTS = 64,
};

/* How often an event was seen in its present second. */
struct repeated {
    const char *event; /* a literal, known by its address; NULL = free */
    struct mono since;
    unsigned seen;
    uint64_t held; /* not written */
};

static struct {
    atomic_bool open;
    atomic_int least;
    enum log_format format;
    char path[PATH_BYTES]; /* empty: standard error */

    pthread_mutex_t producers;
    _Atomic size_t head, tail; /* bytes ever put in and taken out */
    char ring[RING_BYTES];
    atomic_uint_fast64_t dropped;
    struct repeated repeated[REPEATED_EVENTS]; /* guarded by `producers` */

    pthread_t writer;
    sem_t wake, done;
    atomic_bool asleep, stop, reopen;
    atomic_bool abandoned; /* a writer stuck in write(2) was left behind; it still owns what is below */

    /* the writer's own */
    int fd;
    char batch[BATCH_BYTES];
    size_t batch_len, notice_len; /* the batch may begin with a notice of loss */
    uint64_t noticed, reported;   /* losses that the notice tells of; that were told */
    bool torn;                    /* the last write ended inside a line */
} log_state = {.producers = PTHREAD_MUTEX_INITIALIZER};

/* ---- the ring ---- */

static void ring_copy_in(size_t at, const char *bytes, size_t len)
{
    size_t start = at % RING_BYTES, first = len < RING_BYTES - start ? len : RING_BYTES - start;

    memcpy(log_state.ring + start, bytes, first);
    memcpy(log_state.ring, bytes + first, len - first);
}

static void ring_copy_out(size_t at, char *bytes, size_t len)
{
    size_t start = at % RING_BYTES, first = len < RING_BYTES - start ? len : RING_BYTES - start;

    memcpy(bytes, log_state.ring + start, first);
    memcpy(bytes + first, log_state.ring, len - first);
}

static void ring_put(const struct log_line *line)
{
    pthread_mutex_lock(&log_state.producers);
    size_t head = atomic_load(&log_state.head);
    bool fits = line->len <= RING_BYTES - (head - atomic_load(&log_state.tail));
    if (fits) {
        ring_copy_in(head, line->text, line->len);
        atomic_store(&log_state.head, head + line->len);
    } else {
        atomic_fetch_add(&log_state.dropped, 1);
    }
    pthread_mutex_unlock(&log_state.producers);
    /* The writer says that it sleeps, then looks at `head`; we move `head`, then look whether it sleeps: one of the two
     * sees. */
    if (fits && atomic_exchange(&log_state.asleep, false)) {
        sem_post(&log_state.wake);
    }
}

/* The event's place, or a free one; NULL when all are taken. */
static struct repeated *repeated_of(const char *event)
{
    for (unsigned i = 0; i < REPEATED_EVENTS; i++) {
        struct repeated *r = &log_state.repeated[i];
        if (r->event == event || r->event == NULL) {
            r->event = event;
            return r;
        }
    }
    return NULL;
}

/* False: there were too many like it. `held` receives how many were not written before this one. */
static bool may_repeat(const char *event, uint64_t *held)
{
    struct mono now = clock_mono_now();
    bool may = true;

    pthread_mutex_lock(&log_state.producers);
    struct repeated *r = repeated_of(event);
    if (r != NULL && mono_diff(now, r->since) >= CLOCK_SECOND_US) {
        r->since = now;
        r->seen = 0;
    }
    if (r != NULL && r->seen >= REPEATS_MOST) {
        r->held++;
        may = false;
    } else if (r != NULL) {
        r->seen++;
        *held = r->held;
        r->held = 0;
    }
    pthread_mutex_unlock(&log_state.producers);
    return may;
}

static void tell_held(const char *event, uint64_t held)
{
    struct log_line line;

    log_line_compose(&line, log_state.format, clock_wall_now(), LOG_WARN, "log_repeated",
                     (const struct log_field[]){LOG_STR("of", event), LOG_INT("not_written", held), LOG_END});
    ring_put(&line);
}

void log_fields(enum log_level level, const char *event, const struct log_field *fields)
{
    struct log_line line;
    uint64_t held = 0;

    if ((int)level < atomic_load_explicit(&log_state.least, memory_order_relaxed) || !atomic_load(&log_state.open)) {
        return;
    }
    if (level >= LOG_WARN && strcmp(event, "access") != 0 && !may_repeat(event, &held)) {
        return;
    }
    if (held > 0) {
        tell_held(event, held);
    }
    log_line_compose(&line, log_state.format, clock_wall_now(), level, event, fields);
    ring_put(&line);
}

/* ---- the writer ---- */

static int open_path(const char *path)
{
    if (path[0] == '\0') {
        return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0); /* so that it is ours to close, like a file */
    }
    /* O_NONBLOCK: opening a FIFO that nobody reads fails instead of hanging */
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

static void batch_add_line(const struct log_line *line)
{
    memcpy(log_state.batch + log_state.batch_len, line->text, line->len);
    log_state.batch_len += line->len;
}

/* The next whole lines from the ring, after a notice of loss when there is one to give. `alone`: the notice without
 * lines, too. */
static bool fill_batch(bool alone)
{
    size_t tail = atomic_load(&log_state.tail), held = atomic_load(&log_state.head) - tail;
    struct log_line line;

    log_state.batch_len = log_state.notice_len = 0;
    log_state.noticed = atomic_load(&log_state.dropped);
    if (log_state.noticed != log_state.reported && (held > 0 || alone)) {
        uint64_t count = log_state.noticed - log_state.reported;
        log_line_compose(&line, log_state.format, clock_wall_now(), LOG_WARN, "log_lost",
                         (const struct log_field[]){LOG_INT("count", count), LOG_END});
        batch_add_line(&line);
        log_state.notice_len = line.len;
    }
    char *to = log_state.batch + log_state.batch_len;
    size_t room = BATCH_BYTES - log_state.batch_len, len = held < room ? held : room;
    if (len > 0) {
        ring_copy_out(tail, to, len);
        const char *newline = memrchr(to, '\n', len);
        must(newline != NULL);
        len = (size_t)(newline - to) + 1;
        log_state.batch_len += len;
        atomic_store(&log_state.tail, tail + len);
    }
    return log_state.batch_len > 0;
}

static bool wait_writable(void)
{
    struct pollfd poll_fd = {log_state.fd, POLLOUT, 0};

    return poll(&poll_fd, 1, STALL_MS) == 1;
}

/* How many bytes were taken before an error. */
static size_t write_bytes(const char *bytes, size_t len)
{
    size_t done = 0;

    while (done < len && !atomic_load(&log_state.abandoned)) {
        ssize_t n = write(log_state.fd, bytes + done, len - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || (errno != EINTR && !(errno == EAGAIN && wait_writable()))) {
            break;
        }
    }
    return done;
}

static uint64_t count_lines(const char *text, size_t len)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n';
    }
    return lines;
}

static void write_batch(void)
{
    size_t done = 0;

    if (log_state.torn && write_bytes("\n", 1) == 1) {
        log_state.torn = false;
    }
    if (!log_state.torn) {
        done = write_bytes(log_state.batch, log_state.batch_len);
        log_state.torn = done > 0 && log_state.batch[done - 1] != '\n';
    }
    size_t lines_from = done;
    if (done >= log_state.notice_len) {
        log_state.reported = log_state.noticed;
    } else {
        lines_from = log_state.notice_len; /* the notice itself is no loss: it comes again */
    }
    atomic_fetch_add(&log_state.dropped, count_lines(log_state.batch + lines_from, log_state.batch_len - lines_from));
}

static void reopen(void)
{
    int fd = open_path(log_state.path);

    if (fd < 0) {
        int error = errno;
        log_line(LOG_ERROR, "log_reopen_failed", LOG_STR("path", log_state.path), LOG_INT("errno", error), LOG_END);
        return; /* the old file is better than none */
    }
    close(log_state.fd);
    log_state.fd = fd;
    log_state.torn = false;
}

static bool wait_until(sem_t *sem, struct mono until)
{
    struct timespec ts = {until.us / CLOCK_SECOND_US, until.us % CLOCK_SECOND_US * 1000};
    int result;

    do {
        result = sem_clockwait(sem, CLOCK_MONOTONIC, &ts);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

/* Sleeps until there is something to do. True when there is only a loss to report and a second has passed. */
static bool wait_for_work(void)
{
    bool timed_out = false;

    atomic_store(&log_state.asleep, true);
    if (atomic_load(&log_state.head) == atomic_load(&log_state.tail) && !atomic_load(&log_state.stop) &&
        !atomic_load(&log_state.reopen)) {
        if (atomic_load(&log_state.dropped) == log_state.reported) {
            sem_wait(&log_state.wake);
        } else {
            timed_out = !wait_until(&log_state.wake, mono_add(clock_mono_now(), RETRY_US));
        }
    }
    atomic_store(&log_state.asleep, false);
    return timed_out;
}

static void *writer_main(void *arg)
{
    bool retry = false;

    for (;;) {
        /* read before the ring: what came before the stop is still written */
        bool stopping = atomic_load(&log_state.stop);
        if (atomic_exchange(&log_state.reopen, false)) {
            reopen();
        }
        if (fill_batch(retry)) {
            write_batch();
            retry = false;
        } else if (stopping) {
            break;
        } else {
            retry = wait_for_work();
        }
    }
    if (fill_batch(true)) {
        write_batch();
    }
    sem_post(&log_state.done);
    return arg;
}

/* ---- life ---- */

/* Signals belong to the main thread; with SIGPIPE blocked, a reader that went away is an errno. */
static void start_writer(void)
{
    sigset_t all, before;

    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    must(pthread_create(&log_state.writer, NULL, writer_main, NULL) == 0);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    pthread_setname_np(log_state.writer, "sluice-log");
}

bool log_open(const char *path, enum log_format format, enum log_level least)
{
    must(!atomic_load(&log_state.open));
    if (path == NULL || strcmp(path, "-") == 0) {
        path = "";
    }
    if (atomic_load(&log_state.abandoned) || strlen(path) >= sizeof(log_state.path)) {
        return false;
    }
    int fd = open_path(path);
    if (fd < 0) {
        return false;
    }
    memcpy(log_state.path, path, strlen(path) + 1);
    log_state.fd = fd;
    log_state.format = format;
    log_state.torn = false;
    log_state.reported = atomic_load(&log_state.dropped);
    log_set_level(least);
    must(sem_init(&log_state.wake, 0, 0) == 0 && sem_init(&log_state.done, 0, 0) == 0);
    atomic_store(&log_state.stop, false);
    atomic_store(&log_state.reopen, false);
    atomic_store(&log_state.asleep, false);
    start_writer();
    atomic_store(&log_state.open, true);
    return true;
}

void log_reopen(void)
{
    if (atomic_load(&log_state.open)) {
        atomic_store(&log_state.reopen, true);
        sem_post(&log_state.wake);
    }
}

void log_set_level(enum log_level least)
{
    atomic_store(&log_state.least, (int)least);
}

void log_close(void)
{
    if (!atomic_exchange(&log_state.open, false)) {
        return;
    }
    atomic_store(&log_state.stop, true);
    sem_post(&log_state.wake);
    if (!wait_until(&log_state.done, mono_add(clock_mono_now(), CLOSE_US))) {
        atomic_store(&log_state.abandoned, true);
        pthread_detach(log_state.writer);
        return;
    }
    must(pthread_join(log_state.writer, NULL) == 0);
    sem_destroy(&log_state.wake);
    sem_destroy(&log_state.done);
    close(log_state.fd);
}

uint64_t log_dropped(void)
{
    return atomic_load(&log_state.dropped);
}
