#include "policy_fixed.h"

#include "conf/build.h"

struct policy *policy_fixed(int64_t count, int64_t period_us)
{
    struct policy *policy = policy_new("fixed", 1);

    policy->rate = (struct rate){count, period_us};
    policy->max_queue = 1000;
    policy->low_share = 10;
    policy->max_wait_us = 30 * CLOCK_SECOND_US;
    policy->replicas_max = 4;
    policy->late_us = 10 * CLOCK_MS_US;
    policy->path_jitter_us = 2 * CLOCK_MS_US;
    policy->horizon_us = CLOCK_SECOND_US;
    return policy;
}
