#ifndef SLUICE_PROXY_ACCESS_LOG_H
#define SLUICE_PROXY_ACCESS_LOG_H
#include "proxy/exchange.h"

/* One line for an exchange that is over. Values of the query are left out, and no header is ever logged. */
void access_log_exchange(const struct exchange *exchange, struct mono now);
/* One line for a caller that was refused before there was a request to speak of. */
void access_log_refusal(const struct caller *caller, const struct refusal *refusal);

#endif
