#ifndef SLUICE_PROXY_PROXY_H
#define SLUICE_PROXY_PROXY_H
/* The forward proxy: listeners, callers, and their exchanges. */
#include "base/err.h"
#include "base/loop.h"
#include "conf/policy.h"
#include "outbound/outbound.h"
#include "upstream/upstream.h"

struct proxy;

/* All of them must outlive the proxy. `max_connections` is the configured cap or less, as descriptors allow. */
struct proxy *proxy_new(struct loop *loop, const struct conf *conf, struct outbound *outbound,
                        struct upstreams *upstreams, int64_t max_connections);
/* Opens every configured listener and logs its address; false and lines in `err` otherwise. */
bool proxy_listen(struct proxy *proxy, struct err *err) MUST_CHECK;
/* Reads the htpasswd file of [proxy] auth, if any. */
bool proxy_load_users(struct proxy *proxy, struct err *err) MUST_CHECK;
/* Reads the CA of [proxy] ca_dir, if any. */
bool proxy_load_authority(struct proxy *proxy, struct err *err) MUST_CHECK;
/* No new connections; waiting exchanges get their turn until drain_timeout, then 503; `done` comes when nobody is left.
 */
void proxy_drain(struct proxy *proxy, void (*done)(void *arg), void *arg);
/* Breaks off whatever is left. */
void proxy_stop(struct proxy *proxy);
/* Only when nobody is left (after proxy_stop and a turn of the loop). */
void proxy_free(struct proxy *proxy);
unsigned proxy_callers(const struct proxy *proxy);

#endif
