#include "outbound/slots.h"

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
