#ifndef SLUICE_PROXY_EXCHANGE_ANSWER_H
#define SLUICE_PROXY_EXCHANGE_ANSWER_H
/* Answers of our own: written to the caller, noted in the exchange, which is over then. Each is true when the caller's
 * connection has to close behind it. */
#include "proxy/exchange.h"

bool exchange_send_refusal(struct exchange *e, const struct refusal *refusal);
bool exchange_send_self(struct exchange *e);
/* What a caller is told when no connection can be had; logs the rest. */
struct refusal exchange_upstream_refusal(struct exchange *e, enum upstream_error error, const char *detail);

#endif
