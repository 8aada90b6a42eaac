#ifndef SLUICE_PROXY_INBOUND_KEY_H
#define SLUICE_PROXY_INBOUND_KEY_H
#include "base/buf.h"
#include "proxy/inbound_request.h"

/* Appends what tells this request's caller from others: the first of the rule's keys that is there, with its kind, as
 * in "cookie:sid=1234". Nothing when the request has none of them. */
void inbound_key_add(struct buf *out, const struct inbound_conf *inbound, const struct inbound_rule *rule,
                     const struct inbound_request *request);
/* Appends `text` with %XX decoded; in a query, + is a space. */
void inbound_decode(struct buf *out, struct slice text, bool query);

#endif
