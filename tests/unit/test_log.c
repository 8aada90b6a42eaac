/* links: src/base/log.c src/base/log_line.c src/base/str.c src/base/mem.c src/base/must.c src/base/clock.c */
#include "base/log.h"

#include "base/clock.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT_US = 20000000, TEXT_BYTES = 8 << 20 };

static char dir[64], path[128], text[TEXT_BYTES];

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "%s/sluice-log-XXXXXX", P_tmpdir);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/log", dir);
}

static void remove_dir(void)
{
    DIR *entries = opendir(dir);
    struct dirent *entry;

    while ((entry = readdir(entries)) != NULL) {
        unlinkat(dirfd(entries), entry->d_name, 0);
    }
    closedir(entries);
    rmdir(dir);
}

/* Empty when there is no such file, yet. */
static const char *contents(const char *file)
{
    int fd = open(file, O_RDONLY);
    size_t len = 0;
    ssize_t n;

    while (fd >= 0 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    text[len] = '\0';
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

static unsigned count(const char *in, const char *what)
{
    unsigned n = 0;

    for (; (in = strstr(in, what)) != NULL; in += strlen(what)) {
        n++;
    }
    return n;
}

static bool in_time(struct mono start)
{
    return mono_diff(clock_mono_now(), start) < WAIT_US;
}

static void wait_for_dropped(uint64_t lines)
{
    struct mono start = clock_mono_now();

    while (log_dropped() < lines && in_time(start)) {
        poll(NULL, 0, 1);
    }
    ck_assert_uint_eq(log_dropped(), lines);
}

static void wait_for_text(const char *file, const char *what)
{
    struct mono start = clock_mono_now();

    while (strstr(contents(file), what) == NULL && in_time(start)) {
        poll(NULL, 0, 1);
    }
    ck_assert_ptr_nonnull(strstr(text, what));
}

START_TEST(lines_arrive_in_order_and_closing_waits_for_them)
{
    char expected[32];

    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    for (int i = 0; i < 3000; i++) {
        log_line(LOG_INFO, "event", LOG_INT("i", i), LOG_END);
    }
    log_close();
    const char *at = contents(path);
    for (int i = 0; i < 3000; i++) {
        snprintf(expected, sizeof(expected), " event=event i=%d\n", i);
        at = strstr(at, expected);
        ck_assert_ptr_nonnull(at);
    }
    ck_assert_uint_eq(count(text, "\n"), 3000);
    ck_assert_uint_eq(log_dropped(), 0);
}
END_TEST

START_TEST(lines_below_the_level_are_not_written)
{
    ck_assert(log_open(path, LOG_JSON, LOG_WARN));
    log_line(LOG_INFO, "quiet", LOG_END);
    log_line(LOG_WARN, "loud", LOG_END);
    log_set_level(LOG_DEBUG);
    log_line(LOG_DEBUG, "whisper", LOG_END);
    log_close();
    contents(path);
    ck_assert_ptr_null(strstr(text, "quiet"));
    ck_assert_ptr_nonnull(strstr(text, "\"level\":\"warn\",\"event\":\"loud\"}\n"));
    ck_assert_ptr_nonnull(strstr(text, "\"level\":\"debug\",\"event\":\"whisper\"}\n"));
}
END_TEST

static void warn(const char *event)
{
    log_line(LOG_WARN, event, LOG_INT("n", 1), LOG_END);
}

START_TEST(what_repeats_is_thinned_out_and_the_rest_is_counted)
{
    static const char flood[] = "flood", other[] = "other", access_event[] = "access";

    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    for (int i = 0; i < 1000; i++) {
        warn(flood);
        warn(access_event);
    }
    warn(other);
    while (count(contents(path), "event=log_repeated of=flood") == 0) { /* until the next second has begun */
        warn(flood);
        poll(NULL, 0, 1);
    }
    log_close();
    unsigned written = count(contents(path), "event=flood ");
    ck_assert_uint_ge(written, 101);
    ck_assert_uint_lt(written, 900);
    ck_assert_uint_eq(count(text, "event=access "), 1000);
    ck_assert_uint_eq(count(text, "event=other "), 1);
    ck_assert_uint_ge(count(text, "event=log_repeated of=flood not_written="), 1);
}
END_TEST

START_TEST(a_closed_log_takes_nothing_and_can_be_opened_again)
{
    log_line(LOG_ERROR, "early", LOG_END);
    log_reopen();
    log_close();
    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    log_line(LOG_INFO, "first", LOG_END);
    log_close();
    log_line(LOG_ERROR, "late", LOG_END);
    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    log_line(LOG_INFO, "second", LOG_END);
    log_close();
    contents(path);
    ck_assert_uint_eq(count(text, "\n"), 2);
    ck_assert_ptr_nonnull(strstr(text, "event=first\n"));
    ck_assert_ptr_nonnull(strstr(text, "event=second\n"));
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_is_told)
{
    char long_path[5000];

    snprintf(path, sizeof(path), "%s/no/such/dir", dir);
    ck_assert(!log_open(path, LOG_LOGFMT, LOG_INFO));
    memset(long_path, 'x', sizeof(long_path));
    long_path[sizeof(long_path) - 1] = '\0';
    ck_assert(!log_open(long_path, LOG_LOGFMT, LOG_INFO));
    /* a FIFO without a reader must not hang the start */
    snprintf(path, sizeof(path), "%s/fifo", dir);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert(!log_open(path, LOG_LOGFMT, LOG_INFO));
}
END_TEST

START_TEST(the_log_goes_to_standard_error_without_a_path)
{
    int fds[2], saved = dup(STDERR_FILENO);

    ck_assert_int_eq(pipe(fds), 0);
    dup2(fds[1], STDERR_FILENO);
    ck_assert(log_open("-", LOG_LOGFMT, LOG_INFO));
    log_line(LOG_INFO, "here", LOG_END);
    log_reopen();
    log_close();
    ck_assert_int_ge(fcntl(STDERR_FILENO, F_GETFD), 0);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(fds[1]);
    ssize_t n = read(fds[0], text, sizeof(text) - 1);
    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    ck_assert_ptr_nonnull(strstr(text, "event=here\n"));
    close(fds[0]);
}
END_TEST

START_TEST(after_a_rotation_lines_go_to_the_new_file)
{
    char old[160];

    snprintf(old, sizeof(old), "%s.1", path);
    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    log_line(LOG_INFO, "before", LOG_END);
    wait_for_text(path, "event=before\n");
    ck_assert_int_eq(rename(path, old), 0);
    log_reopen();
    struct mono start = clock_mono_now();
    while (access(path, F_OK) != 0 && in_time(start)) {
        poll(NULL, 0, 1);
    }
    log_line(LOG_INFO, "after", LOG_END);
    log_close();
    ck_assert_ptr_nonnull(strstr(contents(path), "event=after\n"));
    ck_assert_ptr_null(strstr(contents(path), "event=before\n"));
    ck_assert_ptr_null(strstr(contents(old), "event=after\n"));
}
END_TEST

START_TEST(a_failed_reopen_keeps_the_old_file)
{
    char old[160];

    snprintf(old, sizeof(old), "%s.1", path);
    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    ck_assert_int_eq(rename(path, old), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    log_reopen();
    wait_for_text(old, "event=log_reopen_failed path=");
    log_line(LOG_INFO, "after", LOG_END);
    log_close();
    ck_assert_ptr_nonnull(strstr(contents(old), "event=after\n"));
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(a_full_disk_loses_lines_and_the_loss_is_reported_later)
{
    char file[160];

    snprintf(file, sizeof(file), "%s/real", dir);
    ck_assert_int_eq(symlink("/dev/full", path), 0);
    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    for (int i = 1; i <= 5; i++) {
        log_line(LOG_INFO, "lost", LOG_INT("i", i), LOG_END);
        wait_for_dropped((uint64_t)i);
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink(file, path), 0);
    log_reopen();
    /* nobody logs anything more: the writer comes back by itself */
    wait_for_text(path, "level=warn event=log_lost count=5\n");
    log_line(LOG_INFO, "fine", LOG_END);
    log_close();
    contents(path);
    ck_assert_uint_eq(count(text, "log_lost"), 1);
    ck_assert_ptr_nonnull(strstr(text, "event=fine\n"));
    ck_assert_ptr_null(strstr(text, "event=lost"));
}
END_TEST

START_TEST(a_full_disk_does_not_hold_up_the_end)
{
    ck_assert(log_open("/dev/full", LOG_LOGFMT, LOG_INFO));
    for (int i = 0; i < 2000; i++) {
        log_line(LOG_INFO, "lost", LOG_END);
    }
    struct mono start = clock_mono_now();
    log_close();
    ck_assert_int_lt(mono_diff(clock_mono_now(), start), 900000);
    ck_assert_uint_eq(log_dropped(), 2000);
}
END_TEST

static int open_fifo(void)
{
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

START_TEST(a_reader_that_went_away_costs_lines_but_not_the_process)
{
    int fd = open_fifo();

    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    close(fd);
    log_line(LOG_INFO, "lost", LOG_END);
    wait_for_dropped(1);
    log_line(LOG_INFO, "lost", LOG_END);
    wait_for_dropped(2);
    log_close();
}
END_TEST

/* Takes what is in the FIFO; gives the lines that came whole and adds up the losses that were reported. */
static uint64_t account(int fd, uint64_t *whole, uint64_t *lost)
{
    static size_t held;
    ssize_t n = read(fd, text + held, sizeof(text) - 1 - held);

    held += n > 0 ? (size_t)n : 0;
    text[held] = '\0';
    *whole = count(text, " end=1\n");
    *lost = 0;
    for (const char *at = text; (at = strstr(at, "event=log_lost count=")) != NULL;) {
        uint64_t value;
        at += strlen("event=log_lost count=");
        if (str_parse_u64((struct slice){at, strcspn(at, "\n")}, &value)) {
            *lost += value;
        }
    }
    return *whole + *lost;
}

START_TEST(a_stalled_reader_never_holds_up_the_caller_and_every_line_is_accounted_for)
{
    enum { LINES = 5000 };
    char value[400];
    uint64_t whole, lost;
    int fd = open_fifo();

    memset(value, 'x', sizeof(value));
    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    for (int i = 0; i < LINES; i++) { /* twice what the ring holds */
        log_line(LOG_INFO, "much", LOG_SLICE("v", ((struct slice){value, sizeof(value)})), LOG_INT("end", 1), LOG_END);
    }
    ck_assert_uint_gt(log_dropped(), 0);
    struct mono start = clock_mono_now();
    while (account(fd, &whole, &lost) < LINES && in_time(start)) {
        struct pollfd readable = {fd, POLLIN, 0};
        poll(&readable, 1, 100);
    }
    ck_assert_uint_eq(whole + lost, LINES);
    ck_assert_uint_eq(lost, log_dropped());
    ck_assert_uint_gt(whole, 0);
    log_close();
    close(fd);
}
END_TEST

static void *log_some(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        log_line(LOG_INFO, "threads", LOG_STR("who", arg), LOG_INT("end", 1), LOG_END);
    }
    return NULL;
}

START_TEST(several_threads_may_log_at_once)
{
    static char names[4][2] = {"a", "b", "c", "d"};
    pthread_t threads[4];

    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, log_some, names[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    log_close();
    contents(path);
    for (int i = 0; i < 4; i++) {
        char expected[40];
        snprintf(expected, sizeof(expected), "event=threads who=%s end=1\n", names[i]);
        ck_assert_uint_eq(count(text, expected), 2000);
    }
}
END_TEST

static uint64_t blocked_by_writer(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    unsigned long long mask = 0;

    while ((task = readdir(tasks)) != NULL) {
        char file[300];
        snprintf(file, sizeof(file), "/proc/self/task/%s/status", task->d_name);
        if (task->d_name[0] != '.' && strstr(contents(file), "Name:\tsluice-log\n") != NULL) {
            ck_assert_int_eq(sscanf(strstr(text, "SigBlk:"), "SigBlk: %llx", &mask), 1);
        }
    }
    closedir(tasks);
    return mask;
}

START_TEST(the_writer_takes_no_signals)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD, SIGALRM};
    sigset_t mine;

    ck_assert(log_open(path, LOG_LOGFMT, LOG_INFO));
    uint64_t mask = blocked_by_writer();
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        ck_assert_msg((mask >> (signals[i] - 1) & 1) != 0, "%s", strsignal(signals[i]));
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    ck_assert_int_eq(sigismember(&mine, SIGTERM), 0);
    log_close();
}
END_TEST

/* The last one: the stuck writer stays behind. */
START_TEST(closing_gives_up_on_a_stuck_write_after_a_second)
{
    int fds[2], saved = dup(STDERR_FILENO);

    ck_assert_int_eq(pipe(fds), 0);
    dup2(fds[1], STDERR_FILENO);
    ck_assert(log_open(NULL, LOG_LOGFMT, LOG_INFO));
    for (int i = 0; i < 4000; i++) { /* more than a pipe holds */
        log_line(LOG_INFO, "stuck", LOG_STR("v", "a blocking pipe that nobody reads"), LOG_END);
    }
    struct mono start = clock_mono_now();
    log_close();
    int64_t took_us = mono_diff(clock_mono_now(), start);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ck_assert_int_ge(took_us, 900000);
    ck_assert_int_lt(took_us, 5000000);
    ck_assert(!log_open(path, LOG_LOGFMT, LOG_INFO));
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("log");
    TCase *tc = tcase_create("log");

    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, lines_arrive_in_order_and_closing_waits_for_them);
    tcase_add_test(tc, lines_below_the_level_are_not_written);
    tcase_add_test(tc, what_repeats_is_thinned_out_and_the_rest_is_counted);
    tcase_add_test(tc, a_closed_log_takes_nothing_and_can_be_opened_again);
    tcase_add_test(tc, a_file_that_cannot_be_opened_is_told);
    tcase_add_test(tc, the_log_goes_to_standard_error_without_a_path);
    tcase_add_test(tc, after_a_rotation_lines_go_to_the_new_file);
    tcase_add_test(tc, a_failed_reopen_keeps_the_old_file);
    tcase_add_test(tc, a_full_disk_loses_lines_and_the_loss_is_reported_later);
    tcase_add_test(tc, a_full_disk_does_not_hold_up_the_end);
    tcase_add_test(tc, a_reader_that_went_away_costs_lines_but_not_the_process);
    tcase_add_test(tc, a_stalled_reader_never_holds_up_the_caller_and_every_line_is_accounted_for);
    tcase_add_test(tc, several_threads_may_log_at_once);
    tcase_add_test(tc, the_writer_takes_no_signals);
    tcase_add_test(tc, closing_gives_up_on_a_stuck_write_after_a_second);
    suite_add_tcase(all, tc);
    return all;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());

    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
