/* links: src/base/loop.c src/base/clock.c src/base/mem.c src/base/must.c */
#include "base/loop.h"

#include "base/mem.h"

#include <check.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct loop *loop;

static void make_loop(void)
{
    loop = loop_new();
}

static void free_loop(void)
{
    loop_free(loop);
}

static struct mono soon(int64_t us)
{
    return mono_add(loop_now(loop), us);
}

static void stop_due(struct timer *timer, struct mono now)
{
    (void)now;
    loop_stop(timer->loop != NULL ? timer->loop : loop);
}

/* Runs everything that is due within `us`. */
static void run_for(int64_t us)
{
    struct timer stop = {0};

    timer_set(loop, &stop, soon(us), stop_due);
    loop_run(loop);
    ck_assert(!timer_is_set(&stop));
}

/* ---- timers ---- */

enum { MANY = 500 };

struct probe {
    struct timer timer;
    unsigned fired;
    struct mono at, now;
};

static struct {
    struct probe *probes[4 * MANY]; /* in the order they fired */
    unsigned count;
} fired;

static void probe_due(struct timer *timer, struct mono now)
{
    struct probe *probe = container_of(timer, struct probe, timer);

    ck_assert(!timer_is_set(timer));
    ck_assert_int_ge(now.us, probe->at.us);
    ck_assert_int_ge(clock_mono_now().us, now.us);
    probe->now = now;
    probe->fired++;
    fired.probes[fired.count++] = probe;
}

static void probe_set(struct probe *probe, struct mono at)
{
    probe->at = at;
    timer_set(loop, &probe->timer, at, probe_due);
}

START_TEST(a_timer_fires_once_and_never_before_its_time)
{
    struct probe probe = {0};

    for (unsigned i = 1; i <= 50; i++) {
        probe_set(&probe, soon(137 * (int64_t)i));
        ck_assert(timer_is_set(&probe.timer));
        run_for(8000);
        ck_assert_uint_eq(probe.fired, i);
        ck_assert(!timer_is_set(&probe.timer));
    }
}
END_TEST

START_TEST(a_time_that_has_passed_fires_at_once)
{
    struct probe past = {0}, before_boot = {0};

    probe_set(&past, (struct mono){loop_now(loop).us - 1000});
    probe_set(&before_boot, (struct mono){-5});
    run_for(1000);
    ck_assert_uint_eq(past.fired, 1);
    ck_assert_uint_eq(before_boot.fired, 1);
    ck_assert_ptr_eq(fired.probes[0], &before_boot);
}
END_TEST

START_TEST(timers_fire_in_the_order_of_their_times)
{
    static struct probe probes[MANY];
    struct mono base = soon(2000);
    unsigned seed = 7;

    for (int i = 0; i < MANY; i++) {
        probe_set(&probes[i], mono_add(base, rand_r(&seed) % 20000));
    }
    run_for(25000);
    ck_assert_uint_eq(fired.count, MANY);
    for (int i = 1; i < MANY; i++) {
        ck_assert_int_le(fired.probes[i - 1]->at.us, fired.probes[i]->at.us);
    }
}
END_TEST

START_TEST(a_cleared_timer_does_not_fire)
{
    struct probe a = {0}, b = {0};

    probe_set(&a, soon(500));
    probe_set(&b, soon(600));
    timer_clear(&a.timer);
    ck_assert(!timer_is_set(&a.timer));
    timer_clear(&a.timer);
    run_for(2000);
    ck_assert_uint_eq(a.fired, 0);
    ck_assert_uint_eq(b.fired, 1);
}
END_TEST

START_TEST(a_timer_can_be_moved_either_way)
{
    struct probe later = {0}, earlier = {0}, fixed = {0};

    probe_set(&later, soon(300));
    probe_set(&earlier, soon(1000000));
    probe_set(&fixed, soon(2000));
    probe_set(&later, soon(4000));
    probe_set(&earlier, soon(500));
    run_for(6000);
    ck_assert_uint_eq(fired.count, 3);
    ck_assert_ptr_eq(fired.probes[0], &earlier);
    ck_assert_ptr_eq(fired.probes[1], &fixed);
    ck_assert_ptr_eq(fired.probes[2], &later);
}
END_TEST

START_TEST(setting_moving_and_clearing_at_random_loses_no_timer)
{
    static struct probe probes[MANY];
    static bool wanted[MANY];
    struct mono base = soon(5000);
    unsigned seed = 3, expected = 0;

    for (int i = 0; i < 20 * MANY; i++) {
        int at = rand_r(&seed) % MANY;
        wanted[at] = rand_r(&seed) % 3 != 0;
        if (wanted[at]) {
            probe_set(&probes[at], mono_add(base, rand_r(&seed) % 10000));
        } else {
            timer_clear(&probes[at].timer);
        }
    }
    run_for(30000);
    for (int i = 0; i < MANY; i++) {
        ck_assert_uint_eq(probes[i].fired, wanted[i] ? 1 : 0);
        expected += wanted[i];
    }
    ck_assert_uint_eq(fired.count, expected);
    for (unsigned i = 1; i < expected; i++) {
        ck_assert_int_le(fired.probes[i - 1]->at.us, fired.probes[i]->at.us);
    }
}
END_TEST

START_TEST(a_timer_for_never_waits_until_it_is_cleared)
{
    struct probe never = {0};

    probe_set(&never, (struct mono){CLOCK_NEVER_US});
    run_for(2000);
    ck_assert_uint_eq(never.fired, 0);
    ck_assert(timer_is_set(&never.timer));
    timer_clear(&never.timer);
}
END_TEST

static struct timer victim;

static void clears_victim(struct timer *timer, struct mono now)
{
    (void)timer;
    (void)now;
    timer_clear(&victim);
}

static void victim_due(struct timer *timer, struct mono now)
{
    (void)timer;
    (void)now;
    ck_abort_msg("fired after it was cleared");
}

START_TEST(a_handler_can_clear_a_timer_that_is_due_as_well)
{
    struct timer clearing = {0};
    struct mono at = soon(300);

    timer_set(loop, &clearing, at, clears_victim);
    timer_set(loop, &victim, mono_add(at, 1), victim_due);
    while (!mono_before(mono_add(at, 1), loop_now(loop))) { /* both are due when the loop looks */
    }
    run_for(2000);
    ck_assert(!timer_is_set(&victim));
}
END_TEST

static unsigned repeats;

static void repeats_due(struct timer *timer, struct mono now)
{
    if (++repeats < 100) {
        timer_set(loop, timer, mono_add(now, 50), repeats_due);
    } else {
        loop_stop(loop);
    }
}

START_TEST(a_handler_can_set_its_own_timer_again)
{
    struct timer timer = {0};

    timer_set(loop, &timer, soon(0), repeats_due);
    loop_run(loop);
    ck_assert_uint_eq(repeats, 100);
}
END_TEST

static void frees_due(struct timer *timer, struct mono now)
{
    (void)now;
    mem_free(timer);
}

START_TEST(a_handler_can_free_what_its_timer_lives_in)
{
    for (int i = 0; i < 20; i++) {
        struct timer *timer = mem_zalloc(sizeof(*timer));
        timer_set(loop, timer, soon(100 * (i % 3)), frees_due);
    }
    run_for(2000);
}
END_TEST

/* ---- deferred calls ---- */

struct step {
    struct defer defer;
    char name;
};

static char steps[64];

static void step_run(struct defer *defer)
{
    struct step *step = container_of(defer, struct step, defer);
    size_t len = strlen(steps);

    ck_assert_ptr_null(defer->loop);
    ck_assert_uint_lt(len + 1, sizeof(steps));
    steps[len] = step->name;
}

START_TEST(deferred_calls_run_once_in_their_order)
{
    struct step a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'};

    loop_defer(loop, &b.defer, step_run);
    loop_defer(loop, &a.defer, step_run);
    loop_defer(loop, &b.defer, step_run);
    loop_defer(loop, &c.defer, step_run);
    ck_assert_str_eq(steps, "");
    run_for(1000);
    ck_assert_str_eq(steps, "bac");
    run_for(1000);
    ck_assert_str_eq(steps, "bac");
    loop_defer(loop, &a.defer, step_run);
    run_for(1000);
    ck_assert_str_eq(steps, "baca");
}
END_TEST

START_TEST(a_cancelled_call_does_not_run)
{
    struct step a = {.name = 'a'}, b = {.name = 'b'};

    loop_defer_cancel(&a.defer);
    loop_defer(loop, &a.defer, step_run);
    loop_defer(loop, &b.defer, step_run);
    loop_defer_cancel(&a.defer);
    loop_defer_cancel(&a.defer);
    run_for(1000);
    ck_assert_str_eq(steps, "b");
    loop_defer(loop, &b.defer, step_run);
    loop_defer_cancel(&b.defer);
    run_for(1000);
    ck_assert_str_eq(steps, "b");
}
END_TEST

static struct step last = {.name = 'z'}, chained = {.name = 'c'};

static void cancels_last(struct defer *defer)
{
    step_run(defer);
    loop_defer_cancel(&last.defer);
}

START_TEST(a_deferred_call_can_cancel_another)
{
    struct step a = {.name = 'a'};

    loop_defer(loop, &a.defer, cancels_last);
    loop_defer(loop, &last.defer, step_run);
    run_for(1000);
    ck_assert_str_eq(steps, "a");
}
END_TEST

static void chains(struct defer *defer)
{
    step_run(defer);
    loop_defer(loop, &chained.defer, step_run);
}

START_TEST(what_a_deferred_call_defers_runs_after_those_already_pending)
{
    struct step a = {.name = 'a'}, b = {.name = 'b'};

    loop_defer(loop, &a.defer, chains);
    loop_defer(loop, &b.defer, step_run);
    run_for(1000);
    ck_assert_str_eq(steps, "abc");
}
END_TEST

static void again(struct defer *defer)
{
    step_run(defer);
    if (strlen(steps) < 5) {
        loop_defer(loop, defer, again);
    }
}

START_TEST(a_deferred_call_can_defer_itself_again)
{
    struct step a = {.name = 'a'};

    loop_defer(loop, &a.defer, again);
    run_for(1000);
    ck_assert_str_eq(steps, "aaaaa");
}
END_TEST

/* ---- descriptors ---- */

enum { PIPES = 100 };

static struct {
    int fds[2];
    struct event *event;
} pipes[PIPES];

static void open_pipes(event_callback_fn on_readable)
{
    for (int i = 0; i < PIPES; i++) {
        ck_assert_int_eq(pipe(pipes[i].fds), 0);
        pipes[i].event = event_new(loop_base(loop), pipes[i].fds[0], EV_READ, on_readable, NULL);
        event_priority_set(pipes[i].event, LOOP_PRIORITY_IO);
    }
}

/* Makes every pipe readable: one callback for each. */
static void fill_pipes(void)
{
    for (int i = 0; i < PIPES; i++) {
        ck_assert_int_eq(write(pipes[i].fds[1], "x", 1), 1);
        ck_assert_int_eq(event_add(pipes[i].event, NULL), 0);
    }
}

static void close_pipes(void)
{
    for (int i = 0; i < PIPES; i++) {
        event_free(pipes[i].event);
        close(pipes[i].fds[0]);
        close(pipes[i].fds[1]);
    }
}

static unsigned served, served_at_slot;
static struct timer slot;

static void slot_due(struct timer *timer, struct mono now)
{
    (void)timer;
    (void)now;
    served_at_slot = served;
}

static void sets_slot(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    if (++served == PIPES + 1) {
        struct mono at = loop_now(loop);
        timer_set(loop, &slot, at, slot_due);
        while (mono_diff(loop_now(loop), at) < 2000) { /* the timerfd has expired when this handler ends */
        }
    }
}

START_TEST(a_burst_of_input_does_not_hold_up_a_slot)
{
    open_pipes(sets_slot);
    fill_pipes();
    run_for(20000); /* libevent asks epoll for 32 events at first, and for more only after it got as many */
    ck_assert_uint_eq(served, PIPES);
    fill_pipes();
    run_for(20000);
    ck_assert_uint_eq(served, 2 * PIPES);
    ck_assert_uint_gt(served_at_slot, PIPES);
    ck_assert_uint_le(served_at_slot, PIPES + 32);
    close_pipes();
}
END_TEST

static struct step after_io = {.name = 'd'};
static bool polled;

static void only_after_a_poll(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    polled = true;
    ck_assert_str_eq(steps, "d"); /* the deferred call has run */
}

/* What becomes readable inside a handler is seen at the next poll only. */
static void defers_and_writes(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    steps[0] = '\0';
    loop_enter_io(loop);
    loop_defer(loop, &after_io.defer, step_run);
    loop_leave_io(loop);
    ck_assert_int_eq(write(*(int *)arg, "x", 1), 1);
}

START_TEST(a_deferred_call_runs_before_the_loop_polls_again)
{
    int first[2], second[2];

    ck_assert_int_eq(pipe(first), 0);
    ck_assert_int_eq(pipe(second), 0);
    struct event *handler = event_new(loop_base(loop), first[0], EV_READ, defers_and_writes, &second[1]);
    struct event *later = event_new(loop_base(loop), second[0], EV_READ, only_after_a_poll, NULL);
    event_priority_set(handler, LOOP_PRIORITY_IO);
    event_priority_set(later, LOOP_PRIORITY_IO);
    event_add(handler, NULL);
    event_add(later, NULL);
    ck_assert_int_eq(write(first[1], "x", 1), 1);
    run_for(20000);
    ck_assert(polled);
    event_free(handler);
    event_free(later);
    for (int i = 0; i < 2; i++) {
        close(first[i]);
        close(second[i]);
    }
}
END_TEST

START_TEST(stopping_leaves_the_loop_fit_to_run_again)
{
    struct probe probe = {0};

    probe_set(&probe, soon(3000));
    run_for(500);
    ck_assert_uint_eq(probe.fired, 0);
    ck_assert(timer_is_set(&probe.timer));
    run_for(6000);
    ck_assert_uint_eq(probe.fired, 1);
}
END_TEST

START_TEST(clocks_go_forward_and_never_overflow)
{
    struct mono a = loop_now(loop), b = loop_now(loop);

    ck_assert_int_ge(b.us, a.us);
    ck_assert_int_gt(loop_wall(loop).us, INT64_C(1600000000) * CLOCK_SECOND_US);
    ck_assert_int_eq(mono_add((struct mono){CLOCK_NEVER_US - 1}, 5).us, CLOCK_NEVER_US);
    ck_assert_int_eq(mono_add((struct mono){CLOCK_NEVER_US}, 5).us, CLOCK_NEVER_US);
    ck_assert(mono_before(a, mono_add(a, 1)));
    ck_assert(!mono_before(a, a));
    ck_assert_int_eq(mono_diff(mono_add(a, 7), a), 7);
}
END_TEST

START_TEST(a_negative_step_goes_back_in_time)
{
    ck_assert_int_eq(mono_add((struct mono){100}, -7).us, 93);
    ck_assert_int_eq(mono_add((struct mono){CLOCK_NEVER_US}, -1).us, CLOCK_NEVER_US - 1);
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("loop");
    TCase *tc = tcase_create("loop");

    tcase_add_checked_fixture(tc, make_loop, free_loop);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, a_timer_fires_once_and_never_before_its_time);
    tcase_add_test(tc, a_time_that_has_passed_fires_at_once);
    tcase_add_test(tc, timers_fire_in_the_order_of_their_times);
    tcase_add_test(tc, a_cleared_timer_does_not_fire);
    tcase_add_test(tc, a_timer_can_be_moved_either_way);
    tcase_add_test(tc, setting_moving_and_clearing_at_random_loses_no_timer);
    tcase_add_test(tc, a_timer_for_never_waits_until_it_is_cleared);
    tcase_add_test(tc, a_handler_can_clear_a_timer_that_is_due_as_well);
    tcase_add_test(tc, a_handler_can_set_its_own_timer_again);
    tcase_add_test(tc, a_handler_can_free_what_its_timer_lives_in);
    tcase_add_test(tc, deferred_calls_run_once_in_their_order);
    tcase_add_test(tc, a_cancelled_call_does_not_run);
    tcase_add_test(tc, a_deferred_call_can_cancel_another);
    tcase_add_test(tc, what_a_deferred_call_defers_runs_after_those_already_pending);
    tcase_add_test(tc, a_deferred_call_can_defer_itself_again);
    tcase_add_test(tc, a_burst_of_input_does_not_hold_up_a_slot);
    tcase_add_test(tc, a_deferred_call_runs_before_the_loop_polls_again);
    tcase_add_test(tc, stopping_leaves_the_loop_fit_to_run_again);
    tcase_add_test(tc, clocks_go_forward_and_never_overflow);
    tcase_add_test(tc, a_negative_step_goes_back_in_time);
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
