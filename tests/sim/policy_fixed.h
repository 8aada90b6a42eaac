#ifndef SLUICE_SIM_POLICY_FIXED_H
#define SLUICE_SIM_POLICY_FIXED_H
/* A policy with defaults filled in and one reference, for tests. */
#include "conf/policy.h"

struct policy *policy_fixed(int64_t count, int64_t period_us);

#endif
