#ifndef SLUICE_APP_DESCRIPTORS_H
#define SLUICE_APP_DESCRIPTORS_H
#include "conf/policy.h"

/* Gets as many descriptors as the settings need, or as many as the system allows; how many callers that leaves room
 * for, at most [proxy] max_connections. */
int64_t descriptors_claim(const struct conf *conf);
void descriptors_warn(const struct conf *conf, int64_t fits);

#endif
