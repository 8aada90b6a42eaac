#include "proxy/access_log.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { TARGET_LOG_BYTES = 512 };

static void format_target(const struct exchange *e, char out[TARGET_LOG_BYTES])
{
    if (e->connect) {
        snprintf(out, TARGET_LOG_BYTES, "%s:%u", e->target.host, e->target.port);
    } else if (e->target.host[0] != '\0') {
        target_for_log(&e->target, out, TARGET_LOG_BYTES);
    } else {
        snprintf(out, TARGET_LOG_BYTES, "-");
    }
}

static bool went_well(enum verdict verdict)
{
    return verdict == VERDICT_FORWARDED || verdict == VERDICT_TUNNEL || verdict == VERDICT_INTERCEPT ||
           verdict == VERDICT_SELF;
}

/* What only some lines have; ends with LOG_END. */
static void add_more(const struct exchange *e, struct log_field *more)
{
    if (e->metered && e->relay != NULL) {
        *more++ = LOG_INT("turns", e->relay->turns.count);
    }
    if (e->throttled > 0) {
        *more++ = LOG_INT("throttled", e->throttled);
    }
    if (e->retries > 0) {
        *more++ = LOG_INT("retries", e->retries);
    }
    if (e->detail != NULL) {
        *more++ = LOG_STR("detail", e->detail);
    }
    *more = LOG_END;
}

/* What took a slot: the request, each turn in its tunnel (of HTTP/2, where several requests may share one), the
 * requests inside an intercepted CONNECT, which have lines of their own, or nothing. */
static const char *metered(const struct exchange *e)
{
    if (!e->paced) {
        return "no";
    }
    if (e->metered) {
        return e->relay != NULL && e->relay->turns.hello.offers_h2 ? "h2_turns" : "turns";
    }
    return e->intercept ? "inside" : "request";
}

void access_log_exchange(const struct exchange *e, struct mono now)
{
    char client[ADDR_TEXT_BYTES];
    char target[TARGET_LOG_BYTES];
    struct mono left = e->released.us != 0 ? e->released : now;
    int64_t upstream_us = e->released.us != 0 ? mono_diff(now, e->released) : 0;

    int64_t waited_us = e->metered ? e->turns_waited_us : mono_diff(left, e->arrived);
    struct log_field more[5] = {LOG_END, LOG_END, LOG_END, LOG_END, LOG_END};

    addr_format(conn_peer(e->caller->conn), false, client);
    format_target(e, target);
    add_more(e, more);
    log_line(went_well(e->verdict) ? LOG_INFO : LOG_WARN, "access", LOG_STR("client", client),
             LOG_STR("destination", e->policy != NULL ? e->bucket_name : "-"), LOG_SLICE("method", e->request->method),
             LOG_STR("metered", metered(e)),
             LOG_STR("target", target), LOG_INT("status", e->status), LOG_INT("bytes_in", e->bytes_in),
             LOG_INT("bytes_out", e->bytes_out), LOG_INT("wait_ms", waited_us / CLOCK_MS_US),
             LOG_INT("upstream_ms", upstream_us / CLOCK_MS_US),
             LOG_STR("verdict", e->verdict_word != NULL ? e->verdict_word : verdict_word(e->verdict)), more[0], more[1],
             more[2], more[3], more[4], LOG_END);
}

void access_log_refusal(const struct caller *caller, const struct refusal *refusal)
{
    char client[ADDR_TEXT_BYTES];

    addr_format(conn_peer(caller->conn), false, client);
    log_line(LOG_WARN, "access", LOG_STR("client", client), LOG_STR("destination", "-"), LOG_STR("method", "-"),
             LOG_STR("target", "-"), LOG_INT("status", refusal_status(refusal)), LOG_INT("bytes_in", 0),
             LOG_INT("bytes_out", 0), LOG_INT("wait_ms", 0), LOG_INT("upstream_ms", 0),
             LOG_STR("verdict", verdict_word(refusal->verdict)),
             refusal->detail != NULL ? LOG_STR("detail", refusal->detail) : LOG_END, LOG_END);
}
