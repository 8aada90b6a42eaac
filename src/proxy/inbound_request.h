#ifndef SLUICE_PROXY_INBOUND_REQUEST_H
#define SLUICE_PROXY_INBOUND_REQUEST_H
/* A request as limits see it: one that came here, or one that a gateway asks about. */
#include "base/addr.h"
#include "conf/inbound.h"
#include "http/message.h"

struct inbound_request {
    const struct message *message; /* its fields */
    struct slice method;
    struct slice path; /* with its query */
    const struct addr *peer;
    bool trusted; /* the peer is among trusted_proxies */
};

/* Whether what that address says about others is believed. */
bool inbound_trusts(const struct inbound_conf *inbound, const struct addr *addr);
/* Who really asks: behind trusted proxies the last address of X-Forwarded-For that is not one of theirs. */
struct addr inbound_client(const struct inbound_conf *inbound, const struct inbound_request *request);

#endif
