#include "outbound/slots.h"

#include "base/str.h"
#include "outbound/fallback.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct slots_terms slots_terms_of(const struct policy *policy, int64_t count)
{
    struct policy view = *policy; /* only its numbers are read */

    must(count > 0);
    view.rate.count = count;
    view.on_redis_down = REDIS_DOWN_HOLD; /* what is kept for outages was taken off `count` already */
    return (struct slots_terms){
        .interval_us = policy_interval_us(&view),
        .late_us = policy->late_us,
        .horizon_us = policy->horizon_us,
        .unnoticed_us = policy_displacement_us(policy) - policy->late_us - policy->path_jitter_us,
        .per_step_us = policy->strict == STRICT_GAP ? 1 : count,
    };
}

static struct quota_terms quota_terms_of(const struct policy *policy, const struct quota_limit *limit)
{
    int64_t displaced_us = policy_displacement_us(policy);
    /* clocks that run at rates less than one per mille apart, as for the pace (conf/policy.c) */
    int64_t span_us = (limit->period_us + displaced_us) + (limit->period_us + displaced_us) / 1000 + 1;

    if (limit->aligned) {
        return (struct quota_terms){.kind = QUOTA_ALIGNED,
                                    .count = limit->count,
                                    .period_us = limit->period_us,
                                    .span_us = limit->period_us,
                                    .slice_us = limit->period_us,
                                    .offset_us = limit->offset_us,
                                    .guard_us = displaced_us};
    }
    return (struct quota_terms){.kind = limit->count > QUOTA_ROLLING_MOST ? QUOTA_COARSE : QUOTA_ROLLING,
                                .count = limit->count,
                                .period_us = limit->period_us,
                                .span_us = span_us,
                                .slice_us = (span_us + policy->horizon_us) / QUOTA_SLICES + 1};
}

static struct slots_level level_of(const struct policy *policy, const char *part, bool is_shared)
{
    struct slots_level level = {
        .part = part,
        .terms = slots_terms_of(policy, is_shared ? fallback_shared_count(policy) : policy->rate.count),
        .limits = {.quotas_count = policy->quotas_count, .in_flight_most = policy->max_in_flight},
    };

    must(policy->quotas_count <= SLOT_QUOTAS);
    for (unsigned i = 0; i < policy->quotas_count; i++) {
        level.limits.terms[i] = quota_terms_of(policy, &policy->quotas[i]);
    }
    return level;
}

static void PRINTF_LIKE(2, 3) say(char text[SLOTS_SAYS_BYTES], const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, SLOTS_SAYS_BYTES - used, format, args);
    va_end(args);
}

/* Whatever the arithmetic of slots depends on. */
static void say_limits(const struct policy *policy, char text[SLOTS_SAYS_BYTES])
{
    char period[32], late[32], jitter[32], horizon[32];

    str_format_duration(policy->rate.period_us, period);
    str_format_duration(policy->late_us, late);
    str_format_duration(policy->path_jitter_us, jitter);
    str_format_duration(policy->horizon_us, horizon);
    say(text, "rate %" PRId64 "/%s%s late %s path_jitter %s horizon %s", policy->rate.count, period,
        policy->strict == STRICT_GAP ? " strict gap" : "", late, jitter, horizon);
    if (policy->on_redis_down == REDIS_DOWN_RESERVE) {
        say(text, " reserve %" PRId64 "x%" PRId64, policy->outage_permits, policy->replicas_max);
    }
    if (policy->max_in_flight > 0) {
        say(text, " max_in_flight %" PRId64, (int64_t)policy->max_in_flight);
    }
    for (unsigned i = 0; i < policy->quotas_count; i++) {
        const struct quota_limit *quota = &policy->quotas[i];
        str_format_duration(quota->period_us, period);
        say(text, " quota %" PRId64 "/%s %s", quota->count, period, quota->aligned ? "aligned" : "rolling");
    }
}

struct slots_spec slots_spec_of(const struct policy *policy, const char *tag, const char *part, const char *parent_part,
                                bool is_shared)
{
    struct slots_spec spec = {
        .tag = tag, .levels_count = 1, .cost_most = policy->cost_most, .lease_us = policy->lease_us};

    say_limits(policy, spec.says);
    spec.levels[0] = level_of(policy, part, is_shared);
    spec.even_us = spec.levels[0].terms.interval_us;
    if (policy->parent != NULL) {
        spec.levels[spec.levels_count++] = level_of(policy->parent, parent_part, is_shared);
        spec.cost_most = spec.cost_most > policy->parent->cost_most ? spec.cost_most : policy->parent->cost_most;
    }
    return spec;
}

bool slots_spec_counts_flight(const struct slots_spec *spec)
{
    bool counts = false;

    for (unsigned level = 0; level < spec->levels_count; level++) {
        counts = counts || spec->levels[level].limits.in_flight_most > 0;
    }
    return counts;
}
