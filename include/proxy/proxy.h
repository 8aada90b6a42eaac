#ifndef SLUICE_PROXY_PROXY_H
#define SLUICE_PROXY_PROXY_H
/* The forward proxy: listeners, callers, and their exchanges. */
#include "base/err.h"
#include "base/loop.h"
#include "conf/policy.h"
#include "outbound/outbound.h"
#include "server/sockets.h"
#include "upstream/upstream.h"

struct proxy;

/* All of them must outlive the proxy. `max_connections` is the configured cap or less, as descriptors allow. */
struct proxy *proxy_new(struct loop *loop, const struct conf *conf, struct outbound *outbound,
                        struct upstreams *upstreams, int64_t max_connections);
/* What the settings name by path, read: users (htpasswd), and the CA of https = intercept. */
struct proxy_files {
    struct users *users;         /* NULL: nobody has to log in */
    struct authority *authority; /* NULL: nothing is intercepted */
};
/* In any thread. False and lines in `err`, and nothing read, otherwise. */
bool proxy_files_read(const struct conf *conf, struct proxy_files *out, struct err *err) MUST_CHECK;
void proxy_files_free(struct proxy_files *files);

/* Opens the addresses of `conf` that are not open yet, without accepting anybody; false and lines in `err` otherwise.
 * Then one of: proxy_adopt(), proxy_abandon(). `sockets` may be NULL. */
bool proxy_prepare(struct proxy *proxy, const struct conf *conf, struct sockets *sockets, struct err *err) MUST_CHECK;
void proxy_abandon(struct proxy *proxy);
/* Works by `conf` and `files` from now on; `files` receives those used so far. The settings before are not looked at
 * again, but for policies, which exchanges under way hold by reference. */
void proxy_adopt(struct proxy *proxy, const struct conf *conf, int64_t max_connections, struct proxy_files *files);
/* No new connections; waiting exchanges get their turn until drain_timeout, then 503; `done` comes when nobody is left.
 */
void proxy_drain(struct proxy *proxy, void (*done)(void *arg), void *arg);
/* Breaks off whatever is left. */
void proxy_stop(struct proxy *proxy);
/* Only when nobody is left (after proxy_stop and a turn of the loop). */
void proxy_free(struct proxy *proxy);
unsigned proxy_callers(const struct proxy *proxy);

#endif
