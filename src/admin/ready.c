#include "admin/ready.h"

static unsigned tell(bool is_so, const char *reason, void (*each)(void *arg, const char *reason), void *arg)
{
    if (is_so && each != NULL) {
        each(arg, reason);
    }
    return is_so;
}

unsigned ready_reasons(const struct admin *admin, void (*each)(void *arg, const char *reason), void *arg)
{
    struct proxy_stats stats;
    const struct link *link = admin->sources.link;
    unsigned reasons = 0;

    proxy_stats(admin->sources.proxy, &stats);
    reasons += tell(stats.draining, "draining", each, arg);
    reasons += tell(link != NULL && link_state(link) != LINK_UP, "redis is out of reach", each, arg);
    reasons += tell((int64_t)stats.callers >= stats.max_callers, "max_connections is reached", each, arg);
    reasons += tell(stats.queued_bytes >= stats.max_queued_bytes, "max_queued_bytes is reached", each, arg);
    return reasons;
}
