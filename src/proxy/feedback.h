#ifndef SLUICE_PROXY_FEEDBACK_H
#define SLUICE_PROXY_FEEDBACK_H
/* What the third party's answers mean for its bucket, and for the request that they answer. */
#include "proxy/exchange.h"

/* Tells the bucket what the head of this answer says. True when the request is to be sent again, and the caller not to
 * see this answer. */
bool feedback_take(struct exchange *e, const struct message *response);
/* The third party closed without an answer: true when the request is to be sent again. */
bool feedback_retries_unanswered(const struct exchange *e);
/* Where an answer of the third party has stopped the bucket: the refusal says so, and for how long. */
void feedback_explain(struct exchange *e, struct refusal *refusal);

#endif
