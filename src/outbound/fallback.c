/*
 * WHAT HAPPENS WHEN REDIS DIES.
 *
 *   on_redis_down  at once                               from FALLBACK_GRACE_US on                     never more than
 * N? hold           waits for Redis, up to max_wait       the same                                      yes reserve
 * outage_permits of its own per period  the same                                      yes reject         waits waiters
 * and newcomers are refused             yes open           waits                                 leaves unpaced no:
 * says so in the log
 *
 * Windows in hand when the link breaks are on our own clock and are used in every mode.
 *
 * reserve is safe without knowing who else is alive, since its permits are never handed out by anybody: the shared
 * spacing is made for N - outage_permits * replicas_max, in good times too. A replica cut off alone then takes nothing
 * from the others. Dividing the whole rate by the number of replicas last seen would not be safe: those still connected
 * don't know who is cut off.
 */
#include "outbound/fallback.h"

enum fallback fallback_decide(const struct policy *policy, bool up, int64_t down_for_us)
{
    if (up) {
        return FALLBACK_SHARED;
    }
    switch (policy->on_redis_down) {
    case REDIS_DOWN_HOLD:
        return FALLBACK_HOLD;
    case REDIS_DOWN_RESERVE:
        return fallback_permits(policy) > 0 ? FALLBACK_RESERVE : FALLBACK_HOLD;
    case REDIS_DOWN_REJECT:
        return down_for_us >= FALLBACK_GRACE_US ? FALLBACK_REJECT : FALLBACK_HOLD;
    case REDIS_DOWN_OPEN:
        return down_for_us >= FALLBACK_GRACE_US ? FALLBACK_OPEN : FALLBACK_HOLD;
    }
    wrong("on_redis_down has no such value");
}

int64_t fallback_permits(const struct policy *policy)
{
    bool possible = policy->on_redis_down == REDIS_DOWN_RESERVE && policy->outage_permits > 0 &&
                    policy->replicas_max > 0 && policy->outage_permits < policy->rate.count &&
                    policy->replicas_max <= (policy->rate.count - 1) / policy->outage_permits;
    return possible ? policy->outage_permits : 0;
}

int64_t fallback_shared_count(const struct policy *policy)
{
    return policy->rate.count - fallback_permits(policy) * policy->replicas_max;
}
