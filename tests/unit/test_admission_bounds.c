/* links: tests/unit/admission_twins.c src/inbound/limit.c src/inbound/drain.c src/inbound/windows.c src/inbound/sliding_log.c src/inbound/admission_redis.c src/inbound/key_hash.c src/lua/admit.lua tests/sim/fake_redis.c tests/sim/fake_commands.c src/base/mem.c src/base/must.c src/base/str.c */
/*
 * What the algorithms promise, tried with many series of requests, kind and unkind, the same for the same seed:
 *
 *   every verdict is the one that a plain look at all of the past gives (model_*), in C and from the script
 *   no half-open window sees more than the algorithm's bound, also when the clock steps back
 *   retry_after, remaining and reset are true to the microsecond
 *   a refused request changes nothing
 *
 * With ADMISSION_TABLE set, prints the most that was seen in any window.
 */
#include "../sim/fake_redis.h"
#include "admission_twins.h"
#include "inbound/limit.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0 INT64_C(1800000000000000)
enum { REQUESTS = 400, LOG_ROOM = 512 };

/* ---- chance ---- */

static uint64_t random_state;

static uint64_t chance(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* ---- all of the past ---- */

struct past {
    int64_t at_us[REQUESTS], cost[REQUESTS];
    unsigned count;
};

struct trial {
    struct inbound_rule rule;
    char label[2];
    struct limit limit;
    struct past past;
    int64_t units; /* of the buckets' models: when empty or reached, in 1/count microseconds since T0 */
};

static int64_t sum_from(const struct past *past, int64_t from_us)
{
    int64_t sum = 0;

    for (unsigned i = past->count; i-- > 0 && past->at_us[i] >= from_us;) {
        sum += past->cost[i];
    }
    return sum;
}

static int64_t slice_sum(const struct past *past, int64_t width_us, int64_t first, int64_t last)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < past->count; i++) {
        int64_t slice = past->at_us[i] / width_us;
        sum += slice >= first && slice <= last ? past->cost[i] : 0;
    }
    return sum;
}

static int64_t model_counter(const struct past *past, int64_t period_us, int64_t now_us)
{
    int64_t window = now_us / period_us, elapsed_us = now_us % period_us;
    int64_t old = slice_sum(past, period_us, window - 1, window - 1) * (period_us - elapsed_us);

    return slice_sum(past, period_us, window, window) + old / period_us + (old % period_us > 0);
}

/* The moment of a bucket in parts of 1/count microseconds; a unit is one period of them. */
static int64_t model_units(const struct trial *trial, int64_t now_us)
{
    int64_t now = (now_us - T0) * trial->rule.rate.count;
    return trial->units > now ? trial->units : now;
}

static bool model_fits(const struct trial *trial, int64_t now_us, int64_t cost)
{
    const struct past *past = &trial->past;
    int64_t period_us = trial->rule.rate.period_us, most = trial->limit.most,
            now = (now_us - T0) * trial->rule.rate.count;
    int64_t tenth_us = (period_us + 9) / 10;

    switch (trial->rule.algorithm) {
    case ALGORITHM_TOKEN_BUCKET:
        return model_units(trial, now_us) + cost * period_us <= now + trial->rule.capacity * period_us;
    case ALGORITHM_LEAKY_BUCKET:
        return model_units(trial, now_us) <= now && cost <= most;
    case ALGORITHM_FIXED_WINDOW:
        return sum_from(past, now_us - now_us % period_us) + cost <= most;
    case ALGORITHM_SLIDING_WINDOW_LOG:
        return sum_from(past, now_us - period_us + 1) + cost <= most;
    case ALGORITHM_SLIDING_WINDOW_COUNTER:
        return model_counter(past, period_us, now_us) + cost <= most;
    case ALGORITHM_SLIDING_WINDOW_STRICT:
        return slice_sum(past, tenth_us, now_us / tenth_us - 10, now_us / tenth_us) + cost <= most;
    }
    ck_abort();
}

static void remember(struct trial *trial, int64_t now_us, int64_t cost)
{
    trial->units = model_units(trial, now_us) + cost * trial->rule.rate.period_us;
    trial->past.at_us[trial->past.count] = now_us;
    trial->past.cost[trial->past.count++] = cost;
}

/* The most in any half-open window of that width. */
static int64_t most_in(const struct past *past, int64_t width_us)
{
    int64_t most = 0;

    for (unsigned i = 0; i < past->count; i++) {
        int64_t sum = 0;
        for (unsigned j = i; j < past->count && past->at_us[j] < past->at_us[i] + width_us; j++) {
            sum += past->cost[j];
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* The bound on it for requests of cost 1. */
static int64_t bound(const struct trial *trial, int64_t width_us)
{
    int64_t count = trial->rule.rate.count, period_us = trial->rule.rate.period_us;
    int64_t periods = (width_us + period_us - 1) / period_us;

    switch (trial->rule.algorithm) {
    case ALGORITHM_TOKEN_BUCKET:
        return trial->rule.capacity + (width_us * count + period_us - 1) / period_us - 1;
    case ALGORITHM_LEAKY_BUCKET:
        return (width_us * count + period_us - 1) / period_us;
    case ALGORITHM_FIXED_WINDOW:
        return (periods + 1) * count;
    case ALGORITHM_SLIDING_WINDOW_COUNTER:
        return (periods + 1) * count - 1;
    default:
        return periods * count;
    }
}

/* ---- limits and series ---- */

struct setting {
    enum inbound_algorithm algorithm;
    int64_t count, period_us, capacity;
};
static const struct setting settings[] = {
    {ALGORITHM_TOKEN_BUCKET, 10, 1000000, 10},
    {ALGORITHM_TOKEN_BUCKET, 7, 1000000, 3},
    {ALGORITHM_TOKEN_BUCKET, 3, 1000, 20},
    {ALGORITHM_FIXED_WINDOW, 10, 1000000, 0},
    {ALGORITHM_FIXED_WINDOW, 7, 1003, 0},
    {ALGORITHM_SLIDING_WINDOW_LOG, 10, 1000000, 0},
    {ALGORITHM_SLIDING_WINDOW_LOG, 7, 1003, 0},
    {ALGORITHM_SLIDING_WINDOW_COUNTER, 10, 1000000, 0},
    {ALGORITHM_SLIDING_WINDOW_COUNTER, 7, 1003, 0},
    {ALGORITHM_SLIDING_WINDOW_STRICT, 10, 1000000, 0},
    {ALGORITHM_SLIDING_WINDOW_STRICT, 7, 1003, 0},
    {ALGORITHM_LEAKY_BUCKET, 10, 1000000, 0},
    {ALGORITHM_LEAKY_BUCKET, 7, 1003, 0},
    {ALGORITHM_SLIDING_WINDOW_COUNTER, 97, 3600000000, 0},
    {ALGORITHM_SLIDING_WINDOW_STRICT, 97, 3600000000, 0},
    {ALGORITHM_TOKEN_BUCKET, 97, 3600000000, 50},
};
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]), SEEDS = 4 };

static void trial_init(struct trial *trial, const struct setting *setting, char label)
{
    *trial = (struct trial){.label = {label, '\0'}};
    trial->rule = (struct inbound_rule){.label = trial->label,
                                        .algorithm = setting->algorithm,
                                        .rate = {setting->count, setting->period_us},
                                        .capacity = setting->capacity};
    trial->limit = limit_of(&trial->rule);
    trial->units = INT64_MIN / 2;
}

enum series { RANDOM, FLOOD, IDLE_THEN_BURST, AROUND_THE_EDGE, EXACTLY_WHEN_TOLD, SERIES };

/* When the next request comes, if the last one came at `now_us` and was told to wait `retry_us`. */
static int64_t next_at(enum series series, const struct trial *trial, int64_t now_us, int64_t retry_us)
{
    int64_t period_us = trial->rule.rate.period_us, gap_us = period_us / trial->rule.rate.count;
    int64_t edge_us = now_us - now_us % period_us + period_us;

    switch (series) {
    case FLOOD:
        return now_us + (int64_t)chance((uint64_t)gap_us / 3 + 2);
    case IDLE_THEN_BURST:
        return now_us + (chance(2 * (uint64_t)trial->limit.most) == 0 ? (int64_t)chance(3 * (uint64_t)period_us) : 0);
    case AROUND_THE_EDGE:
        return chance(2 * (uint64_t)trial->limit.most) == 0 ? edge_us - (now_us < edge_us - 1) : now_us;
    case EXACTLY_WHEN_TOLD:
        return now_us + (retry_us > 0 ? retry_us - (int64_t)chance(2) : (int64_t)(chance(8) == 0) * gap_us);
    default:
        return now_us + (int64_t)(chance(3) == 0 ? chance((uint64_t)period_us) : chance((uint64_t)gap_us + 1));
    }
}

/* ---- a copy to try things on ---- */

struct copy {
    union limit_state state;
    struct log_entry entries[LOG_ROOM];
};

static void copy_of(const struct trial *trial, const union limit_state *state, struct copy *copy)
{
    copy->state = *state;
    if (trial->rule.algorithm == ALGORITHM_SLIDING_WINDOW_LOG) {
        memcpy(copy->entries, state->log.entries, state->log.room * sizeof(struct log_entry));
        copy->state.log.entries = copy->entries;
    }
}

static struct limit_verdict try_on(const struct trial *trial, const struct copy *copy, int64_t now_us, int64_t cost,
                                   struct copy *after)
{
    *after = *copy;
    if (trial->rule.algorithm == ALGORITHM_SLIDING_WINDOW_LOG) {
        after->state.log.entries = after->entries;
    }
    struct limit_try try = {trial->limit, &after->state, cost, false, {0}};
    limit_decide(&try, 1, now_us);
    return try.verdict;
}

static void check_promises(const struct trial *trial, const union limit_state *state, int64_t now_us, int64_t cost,
                           const struct limit_verdict *said)
{
    static struct copy copy, after;

    copy_of(trial, state, &copy);
    if (!said->admitted && said->retry_after_us != CLOCK_NEVER_US) {
        ck_assert_int_gt(said->retry_after_us, 0);
        ck_assert(try_on(trial, &copy, now_us + said->retry_after_us, cost, &after).admitted);
        ck_assert(!try_on(trial, &copy, now_us + said->retry_after_us - 1, cost, &after).admitted);
    }
    if (said->reset_us > 0 && trial->rule.algorithm != ALGORITHM_LEAKY_BUCKET) {
        int64_t all = trial->limit.most;
        ck_assert(try_on(trial, &copy, now_us + said->reset_us, all, &after).admitted);
        ck_assert(!try_on(trial, &copy, now_us + said->reset_us - 1, all, &after).admitted);
    }
    for (int64_t i = 0; i < said->remaining; i++) {
        ck_assert(try_on(trial, &copy, now_us, cost, &after).admitted);
        copy_of(trial, &after.state, &copy);
    }
    ck_assert(!try_on(trial, &copy, now_us, cost, &after).admitted);
}

/* ---- C, alone against the past ---- */

static void decide(struct trial *trial, union limit_state *state, int64_t now_us, int64_t cost,
                   struct limit_verdict *out)
{
    struct limit_try try = {trial->limit, state, cost, false, {0}};

    limit_decide(&try, 1, now_us);
    *out = try.verdict;
}

static void play(const struct setting *setting, enum series series, bool costly, struct trial *trial)
{
    struct log_entry entries[LOG_ROOM];
    union limit_state state = {0};
    struct limit_verdict verdict = {0};
    int64_t now_us = T0 + (int64_t)chance((uint64_t)setting->period_us);

    trial_init(trial, setting, 'a');
    if (setting->algorithm == ALGORITHM_SLIDING_WINDOW_LOG) {
        state.log = (struct sliding_log){.entries = entries, .room = LOG_ROOM};
    }
    for (unsigned i = 0; i < REQUESTS; i++) {
        int64_t cost = costly ? 1 + (int64_t)chance((uint64_t)trial->limit.most + 1) / (1 + (int64_t)chance(3)) : 1;
        now_us = next_at(series, trial, now_us, verdict.retry_after_us == CLOCK_NEVER_US ? 0 : verdict.retry_after_us);
        union limit_state before = state;
        bool expected = cost <= trial->limit.most && model_fits(trial, now_us, cost);
        decide(trial, &state, now_us, cost, &verdict);
        ck_assert_msg(verdict.admitted == expected, "request %u", i);
        if (verdict.admitted) {
            remember(trial, now_us, cost);
        } else {
            ck_assert_mem_eq(&before, &state, sizeof(state));
        }
        if (i % 4 == 0) {
            check_promises(trial, &state, now_us, cost, &verdict);
        }
    }
}

START_TEST(verdicts_are_those_of_a_look_at_all_of_the_past_and_bounds_hold)
{
    const struct setting *setting = &settings[_i];
    static struct trial trial;

    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        for (int series = 0; series < SERIES; series++) {
            random_state = seed * 7919 + (unsigned)series + 1;
            play(setting, (enum series)series, false, &trial);
            for (int64_t width = 1; width <= 3; width++) {
                int64_t width_us = width * setting->period_us;
                ck_assert_int_le(most_in(&trial.past, width_us), bound(&trial, width_us));
            }
            ck_assert_int_le(most_in(&trial.past, setting->period_us / 3), bound(&trial, setting->period_us / 3));
        }
    }
}
END_TEST

START_TEST(verdicts_on_costs_are_those_of_a_look_at_all_of_the_past)
{
    const struct setting *setting = &settings[_i];
    static struct trial trial;

    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        for (int series = 0; series < SERIES; series++) {
            random_state = seed * 104729 + (unsigned)series + 1;
            play(setting, (enum series)series, true, &trial);
            int64_t more = setting->algorithm == ALGORITHM_LEAKY_BUCKET ? trial.limit.most - 1 : 0;
            ck_assert_int_le(most_in(&trial.past, setting->period_us), bound(&trial, setting->period_us) + more);
        }
    }
}
END_TEST

/* ---- C and the script, several limits ---- */

static bool same(const struct admission_result *a, const struct admission_result *b)
{
    return a->admitted == b->admitted && a->limit == b->limit && a->window_us == b->window_us &&
           a->remaining == b->remaining && a->retry_after_us == b->retry_after_us && a->reset_us == b->reset_us;
}

static void ask_both(struct twins *twins, const struct inbound_rule *const *rules, const int64_t *costs, unsigned count,
                     int64_t now_us, struct admission_result *c)
{
    struct admission_result lua[INBOUND_RULES_MOST];
    bool admitted = twins_decide_c(twins, rules, costs, count, now_us, c);

    ck_assert(twins_decide_lua(twins, rules, costs, count, now_us, lua) == admitted);
    bool all = true;
    for (unsigned i = 0; i < count; i++) {
        ck_assert(same(&c[i], &lua[i]));
        all = all && (c[i].admitted || rules[i]->dry_run);
    }
    ck_assert(admitted == all);
}

START_TEST(the_script_gives_the_same_verdicts_whatever_the_clock_does)
{
    struct trial trial;
    struct twins *twins = twins_new();
    const struct inbound_rule *rules[] = {&trial.rule};
    struct admission_result result;
    int64_t now_us = T0;

    random_state = (uint64_t)_i + 77;
    trial_init(&trial, &settings[_i], 'a');
    int64_t period_us = trial.rule.rate.period_us;
    for (unsigned i = 0; i < 600; i++) {
        int64_t cost = chance(4) == 0 ? (int64_t)chance((uint64_t)trial.limit.most + 2) : 1;
        ask_both(twins, rules, &cost, 1, now_us, &result);
        now_us = next_at((enum series)(i / 40 % SERIES), &trial, now_us,
                         result.retry_after_us == CLOCK_NEVER_US ? 0 : result.retry_after_us);
        if (chance(40) == 0) {
            now_us += (int64_t)chance(4 * (uint64_t)period_us) - 3 * period_us;
        } else if (chance(100) == 0) {
            now_us += ((int64_t)chance(3) - 1) * 500 * period_us;
        }
    }
    twins_free(twins);
}
END_TEST

START_TEST(a_refusal_by_one_limit_takes_from_none)
{
    static struct trial trials[6];
    struct twins *twins = twins_new();
    unsigned refused = 0;
    int64_t now_us = T0;

    random_state = (uint64_t)_i + 1;
    for (unsigned i = 0; i < 6; i++) {
        unsigned pick[] = {0, 3, 5, 7, 9, 11};
        struct setting setting = settings[pick[i]];
        setting.count += (int64_t)chance(20);
        setting.capacity += (int64_t)chance(20);
        trial_init(&trials[i], &setting, (char)('a' + i));
        trials[i].rule.dry_run = i == 2 && _i % 2 == 1;
    }
    for (unsigned n = 0; n < 250; n++) {
        const struct inbound_rule *rules[6];
        struct admission_result results[6];
        int64_t costs[6];
        unsigned count = 0, which[6];
        bool all = true, fits[6];
        for (unsigned i = 0; i < 6; i++) {
            if (chance(2) == 0) {
                which[count] = i;
                rules[count] = &trials[i].rule;
                costs[count++] = 1 + (int64_t)(chance(5) == 0);
            }
        }
        now_us += (int64_t)chance(60000);
        if (count == 0) {
            continue;
        }
        ask_both(twins, rules, costs, count, now_us, results);
        for (unsigned i = 0; i < count; i++) {
            fits[i] = model_fits(&trials[which[i]], now_us, costs[i]);
            ck_assert(results[i].admitted == fits[i]);
            all = all && (fits[i] || rules[i]->dry_run);
        }
        refused += !all;
        for (unsigned i = 0; all && i < count; i++) {
            if (fits[i]) {
                remember(&trials[which[i]], now_us, costs[i]);
            }
        }
    }
    ck_assert_uint_gt(refused, 20);
    twins_free(twins);
}
END_TEST

/* ---- steps of the clock ---- */

START_TEST(bounds_hold_in_real_time_when_the_clock_steps_back)
{
    static struct trial trial;
    const struct setting *setting = &settings[_i];

    for (unsigned seed = 1; seed <= 3 * SEEDS; seed++) {
        struct log_entry entries[LOG_ROOM];
        union limit_state state = {0};
        struct limit_verdict verdict = {0};
        int64_t real_us = T0, ahead_us = 1000 * setting->period_us;

        random_state = seed;
        trial_init(&trial, setting, 'a');
        if (setting->algorithm == ALGORITHM_SLIDING_WINDOW_LOG) {
            state.log = (struct sliding_log){.entries = entries, .room = LOG_ROOM};
        }
        for (unsigned i = 0; i < 4000 && trial.past.count < REQUESTS; i++) {
            real_us = next_at(chance(2) == 0 ? FLOOD : AROUND_THE_EDGE, &trial, real_us, 0);
            if (chance(50) == 0) {
                int64_t widths[] = {1, 20, 1000, 2500, 40000};
                ahead_us -= (int64_t)chance(1 + (uint64_t)(setting->period_us * widths[chance(5)] / 1000));
            }
            decide(&trial, &state, real_us + ahead_us, 1, &verdict);
            if (verdict.admitted) {
                trial.past.at_us[trial.past.count] = real_us;
                trial.past.cost[trial.past.count++] = 1;
            }
        }
        ck_assert_int_le(most_in(&trial.past, setting->period_us), bound(&trial, setting->period_us));
        ck_assert_uint_gt(trial.past.count, 20);
    }
}
END_TEST

START_TEST(a_step_shuts_nobody_out_for_longer_than_the_slices_last)
{
    static struct trial trial;
    const struct setting *setting = &settings[_i];
    int64_t steps_us[] = {-1, -setting->period_us / 2, -2 * setting->period_us, -1000 * setting->period_us,
                          3 * setting->period_us};

    for (unsigned s = 0; s < sizeof(steps_us) / sizeof(steps_us[0]); s++) {
        struct log_entry entries[LOG_ROOM];
        union limit_state state = {0};
        struct limit_verdict verdict;
        int64_t now_us = T0, waited_us = 0;

        trial_init(&trial, setting, 'a');
        if (setting->algorithm == ALGORITHM_SLIDING_WINDOW_LOG) {
            state.log = (struct sliding_log){.entries = entries, .room = LOG_ROOM};
        }
        do {
            decide(&trial, &state, now_us, 1, &verdict);
        } while (verdict.admitted);
        now_us += steps_us[s];
        decide(&trial, &state, now_us, 1, &verdict);
        while (!verdict.admitted) { /* comes again exactly when told */
            waited_us += verdict.retry_after_us;
            now_us += verdict.retry_after_us;
            decide(&trial, &state, now_us, 1, &verdict);
        }
        ck_assert_int_le(waited_us, 2 * setting->period_us);
    }
}
END_TEST

/* ---- the classic ---- */

START_TEST(of_twenty_at_once_a_bucket_of_ten_admits_ten)
{
    struct setting setting = {ALGORITHM_TOKEN_BUCKET, 1, CLOCK_SECOND_US, 10};
    struct twins *twins = twins_new();
    struct trial trial;
    const struct inbound_rule *rules[] = {&trial.rule};
    struct admission_result result;
    unsigned admitted = 0;

    trial_init(&trial, &setting, 'a');
    for (unsigned i = 0; i < 20; i++) {
        ask_both(twins, rules, (const int64_t[]){1}, 1, T0 + i, &result);
        admitted += result.admitted;
    }
    ck_assert_uint_eq(admitted, 10);
    twins_free(twins);
}
END_TEST

/* ---- shares ---- */

START_TEST(shares_of_all_replicas_are_no_more_than_the_whole)
{
    struct trial trial;

    trial_init(&trial, &settings[_i], 'a');
    for (int64_t replicas = 1; replicas <= trial.limit.most; replicas++) {
        struct limit share = limit_share(&trial.limit, replicas, 1);
        ck_assert_int_le(share.most * (trial.rule.algorithm == ALGORITHM_LEAKY_BUCKET ? 1 : replicas),
                         trial.limit.most);
        if (share.parts > 0) { /* one unit takes exactly `replicas` times as long */
            ck_assert_int_eq(share.unit_us * share.parts + share.unit_part,
                             replicas * (trial.limit.unit_us * trial.limit.parts + trial.limit.unit_part));
        }
    }
    ck_assert_int_eq(limit_share(&trial.limit, 1000, 1).most,
                     trial.rule.algorithm == ALGORITHM_LEAKY_BUCKET ? trial.limit.most : 1);
    ck_assert_int_ge(limit_share(&trial.limit, 1000, 3).most, 3); /* a request that may pass at all may pass here */
}
END_TEST

/* ---- the table ---- */

/* The most that the worst series found here gets through in one period: quota at the end of one window and anew in the
 * next, as much and as early as it is let. */
static int64_t worst(enum inbound_algorithm algorithm, int64_t count, int64_t period_us)
{
    static struct trial trial;
    struct setting setting = {algorithm, count, period_us, count};
    int64_t most = 0, starts[] = {0, period_us / 2, period_us - 1};

    for (unsigned s = 0; s < 3; s++) {
        struct log_entry entries[LOG_ROOM];
        union limit_state state = {0};
        struct limit_verdict verdict = {0};
        trial_init(&trial, &setting, 'a');
        if (algorithm == ALGORITHM_SLIDING_WINDOW_LOG) {
            state.log = (struct sliding_log){.entries = entries, .room = LOG_ROOM};
        }
        for (int64_t now_us = T0 + starts[s]; trial.past.count < 4 * count; now_us += verdict.retry_after_us) {
            decide(&trial, &state, now_us, 1, &verdict);
            if (verdict.admitted) {
                remember(&trial, now_us, 1);
            }
        }
        int64_t seen = most_in(&trial.past, period_us);
        most = seen > most ? seen : most;
    }
    return most;
}

START_TEST(the_worst_windows_are_as_bad_as_the_bounds_say)
{
    static const struct {
        const char *name;
        enum inbound_algorithm algorithm;
        int64_t bound;
    } rows[] = {
        {"token_bucket, capacity N", ALGORITHM_TOKEN_BUCKET, 19},
        {"fixed_window", ALGORITHM_FIXED_WINDOW, 20},
        {"sliding_window_counter", ALGORITHM_SLIDING_WINDOW_COUNTER, 19},
        {"sliding_window_log", ALGORITHM_SLIDING_WINDOW_LOG, 10},
        {"sliding_window_strict", ALGORITHM_SLIDING_WINDOW_STRICT, 10},
        {"leaky_bucket", ALGORITHM_LEAKY_BUCKET, 10},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t seen = worst(rows[i].algorithm, 10, CLOCK_SECOND_US);
        if (getenv("ADMISSION_TABLE") != NULL) {
            printf("%-26s N = 10: bound %2" PRId64 ", measured %2" PRId64 "\n", rows[i].name, rows[i].bound, seen);
        }
        ck_assert_int_eq(seen, rows[i].bound);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admission_bounds");
    TCase *tcase = tcase_create("bounds");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, verdicts_are_those_of_a_look_at_all_of_the_past_and_bounds_hold, 0, SETTINGS);
    tcase_add_loop_test(tcase, verdicts_on_costs_are_those_of_a_look_at_all_of_the_past, 0, SETTINGS);
    tcase_add_loop_test(tcase, the_script_gives_the_same_verdicts_whatever_the_clock_does, 0, SETTINGS);
    tcase_add_loop_test(tcase, a_refusal_by_one_limit_takes_from_none, 0, 6);
    tcase_add_loop_test(tcase, bounds_hold_in_real_time_when_the_clock_steps_back, 0, SETTINGS);
    tcase_add_loop_test(tcase, a_step_shuts_nobody_out_for_longer_than_the_slices_last, 0, SETTINGS);
    tcase_add_loop_test(tcase, shares_of_all_replicas_are_no_more_than_the_whole, 0, SETTINGS);
    tcase_add_test(tcase, of_twenty_at_once_a_bucket_of_ten_admits_ten);
    tcase_add_test(tcase, the_worst_windows_are_as_bad_as_the_bounds_say);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
