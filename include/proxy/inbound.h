#ifndef SLUICE_PROXY_INBOUND_H
#define SLUICE_PROXY_INBOUND_H
/* The inbound side: an API of our own behind limits, as a reverse proxy and as an endpoint that gateways ask. */
#include "base/err.h"
#include "base/loop.h"
#include "conf/policy.h"
#include "inbound/admission.h"
#include "server/sockets.h"
#include "upstream/upstream.h"

struct inbound;

/* All of them must outlive it. `upstreams` may lead to private addresses. */
struct inbound *inbound_new(struct loop *loop, const struct conf *conf, struct admission *admission, struct upstreams *upstreams,
                            int64_t max_connections);
/* As proxy_prepare(), proxy_abandon() and proxy_adopt(): the addresses of all [inbound] sections, then the limits. */
bool inbound_prepare(struct inbound *inbound, const struct conf *conf, struct sockets *sockets, struct err *err) MUST_CHECK;
void inbound_abandon(struct inbound *inbound);
void inbound_adopt(struct inbound *inbound, const struct conf *conf, int64_t max_connections);
/* No new connections; requests under way may finish until drain_timeout; `done` comes when nobody is left. */
void inbound_drain(struct inbound *inbound, void (*done)(void *arg), void *arg);
/* Only when nobody is left. */
void inbound_free(struct inbound *inbound);
unsigned inbound_callers(const struct inbound *inbound);

#endif
