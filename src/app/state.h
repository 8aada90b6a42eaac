#ifndef SLUICE_APP_STATE_H
#define SLUICE_APP_STATE_H
/* Everything there is of a running program. */
#include "admin/admin.h"
#include "app/app.h"
#include "base/loop.h"
#include "inbound/admission.h"
#include "outbound/fleet.h"
#include "outbound/outbound.h"
#include "proxy/inbound.h"
#include "proxy/proxy.h"
#include "redis/link.h"
#include "server/sockets.h"
#include "upstream/upstream.h"

enum { APP_SIGNALS = 4, REPLICA_ID_BYTES = 24 };

struct event;
struct reload;

struct app {
    const char *file;  /* the settings */
    struct conf *conf; /* in force; reload.c alone puts another in its place */
    char replica[REPLICA_ID_BYTES];
    struct loop *loop;
    struct sockets *sockets;
    struct link *link;
    struct outbound *outbound;
    struct fleet *fleet;
    struct upstreams *upstreams;
    struct proxy *proxy;
    struct admin *admin; /* NULL without an [admin] */
    struct event *signals[APP_SIGNALS];
    struct timer watchdog;
    int64_t watchdog_us;         /* 0: nobody watches */
    struct admission *admission; /* these three: NULL before there is an [inbound] */
    struct upstreams *inbound_upstreams;
    struct inbound *inbound;
    struct reload *reload;
    unsigned undrained;
    bool draining;
};

#endif
