#ifndef SLUICE_PROXY_PART_H
#define SLUICE_PROXY_PART_H
#include "proxy/exchange.h"

/* Which part of its destination an exchange is for: its route, the values of keys, and what it costs. Its policy and bucket are those
 * of that part from then on. The policy is there already, and the bucket's name. False when `detail` says what is wrong with it. */
bool part_choose(struct exchange *e, const char **detail) MUST_CHECK;
void part_forget(struct exchange *e);

#endif
