#ifndef SLUICE_CONF_SECRET_H
#define SLUICE_CONF_SECRET_H
/* [redis] as a whole, once all of its keys are read: passwords from where they are kept, and keys that contradict each
 * other. */
#include "conf/draft.h"
#include "conf/policy.h"

/* `section` is [redis], NULL when there is none. */
void secret_fill(struct redis_conf *redis, const struct section *section, struct report *report);

#endif
