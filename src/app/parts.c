#include "app/parts.h"

#include "base/mem.h"

#include <string.h>

/* Callers' keys are hashed under what all replicas, and only they, know. */
void parts_make_admission(struct app *app)
{
    const struct redis_conf *rc = &app->conf->redis;
    char *secret = secret_for_hashes(rc, "inbound");

    app->admission = admission_new(app->loop, app->link, rc->prefix, app->replica, secret, strlen(secret));
    explicit_bzero(secret, strlen(secret));
    mem_free(secret);
}

struct upstreams_conf parts_upstreams_conf(const struct conf *conf)
{
    return (struct upstreams_conf){
        .private_mode = conf->proxy.private_mode,
        .private_upstreams = conf->proxy.private_upstreams,
        .private_upstreams_count = conf->proxy.private_upstreams_count,
        .dns_ttl_us = conf->proxy.dns_ttl_us,
        .dns_timeout_us = conf->fallback->connect_timeout_us,
        .resolver_threads = (unsigned)conf->proxy.resolver_threads,
    };
}

/* Our own API lies in our own network. */
struct upstreams_conf parts_inbound_upstreams_conf(const struct conf *conf)
{
    return (struct upstreams_conf){
        .private_mode = PRIVATE_ALLOW,
        .dns_ttl_us = conf->proxy.dns_ttl_us,
        .dns_timeout_us = conf->fallback->connect_timeout_us,
        .resolver_threads = 1,
    };
}

void parts_make_inbound(struct app *app, const struct conf *conf, int64_t max_callers)
{
    const struct upstreams_conf upstreams = parts_inbound_upstreams_conf(conf);

    if (app->admission == NULL) {
        parts_make_admission(app);
    }
    app->inbound_upstreams = upstreams_new(app->loop, &upstreams);
    app->inbound = inbound_new(app->loop, conf, app->admission, app->inbound_upstreams, max_callers);
}
