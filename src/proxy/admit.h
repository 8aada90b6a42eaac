#ifndef SLUICE_PROXY_ADMIT_H
#define SLUICE_PROXY_ADMIT_H
#include "proxy/exchange.h"

/* Decides on arrival whether an exchange may go on, before anything waits or dials: who asks, for what, by which
 * policy. On VERDICT_FORWARDED its target, policy, origin, bucket name and patience are filled in; VERDICT_SELF: the
 * proxy answers itself; any other verdict: `refusal` is filled in. */
enum verdict admit_exchange(struct exchange *exchange, struct refusal *refusal);

#endif
