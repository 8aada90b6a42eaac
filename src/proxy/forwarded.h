#ifndef SLUICE_PROXY_FORWARDED_H
#define SLUICE_PROXY_FORWARDED_H
#include "base/buf.h"
#include "proxy/inbound_request.h"

/* A request as the API behind shall see it: who asked, by which host and scheme, is told in X-Forwarded-For, -Host,
 * -Proto and Forwarded (RFC 7239). */
struct forwarded {
    struct message message; /* borrows everything but its fields from the request */
    struct buf text;
};

/* `host`: as the caller wrote it. */
void forwarded_init(struct forwarded *forwarded, const struct inbound_request *request, struct slice host);
void forwarded_fini(struct forwarded *forwarded);

#endif
