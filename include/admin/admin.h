#ifndef SLUICE_ADMIN_ADMIN_H
#define SLUICE_ADMIN_ADMIN_H
/*
 * Where operators look and act: a page, metrics, health, and a few verbs, over HTTP on an address of its own.
 *
 *   GET  /            the page, live           GET  /metrics         for Prometheus
 *   GET  /status.json everything shown         GET  /events          the same every second (server-sent events)
 *   GET  /healthz     the process answers      GET  /readyz          503 and reasons when it should get no callers
 *   POST /control/pause, resume, set-rate, purge: on every replica; drain, reload, log-level: this process
 */
#include "base/err.h"
#include "conf/change.h"
#include "inbound/admission.h"
#include "outbound/fleet.h"
#include "proxy/stats.h"
#include "redis/link.h"
#include "server/sockets.h"
#include "upstream/upstream.h"

struct admin;

/* What is looked at. All of it must outlive the admin. */
struct admin_sources {
    struct loop *loop;
    const struct conf *conf;
    struct outbound *outbound;
    struct fleet *fleet;
    const struct upstreams *upstreams;
    struct proxy *proxy;
    struct link *link;                 /* NULL: no Redis */
    const struct admission *admission; /* NULL: no [inbound] */
    struct sockets *sockets;           /* handed down; may be NULL */
    const char *version;
    reload_start *reload;     /* what SIGHUP does; NULL: there is no such verb */
    void (*drain)(void *arg); /* what SIGTERM does */
    void *arg;
};

/* Reads the token and opens every listener; NULL and lines in `err` otherwise. */
struct admin *admin_new(const struct admin_sources *sources, struct err *err) MUST_CHECK;
/* Other settings are in force; [admin] itself stays as it was. `admission` as in the sources. */
void admin_adopt(struct admin *admin, const struct conf *conf, const struct admission *admission);
/* Ends every stream and connection at once. */
void admin_free(struct admin *admin);

#endif
