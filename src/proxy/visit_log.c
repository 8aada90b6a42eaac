#include "proxy/visit_log.h"

#include "base/log.h"
#include "http/target.h"

#include <string.h>

enum { TARGET_LOG_BYTES = 512 };

/* What is asked about, without the query. */
static struct slice path_of(const struct visit *v)
{
    struct slice path = v->seen.path.len > 0 ? v->seen.path : slice_of("-");
    const char *mark = memchr(path.ptr, '?', path.len);

    return mark != NULL ? (struct slice){path.ptr, (size_t)(mark - path.ptr)} : path;
}

static const char *dry_refusal(const struct visit *v)
{
    for (unsigned i = 0; i < v->check.count && !v->check.unchecked && v->decided.us != 0; i++) {
        if (v->check.rules[i]->dry_run && !v->check.results[i].admitted) {
            return v->check.rules[i]->label;
        }
    }
    return NULL;
}

void visit_log(const struct visit *v, struct mono now)
{
    bool good = v->verdict == VERDICT_FORWARDED || v->verdict == VERDICT_TUNNEL || v->verdict == VERDICT_SELF;
    struct mono decided = v->decided.us != 0 ? v->decided : now;
    const char *dry = dry_refusal(v);
    char client[ADDR_TEXT_BYTES];
    struct addr who = v->seen.peer != NULL ? inbound_client(v->inbound, &v->seen) : *conn_peer(v->visitor->conn);

    char target[TARGET_LOG_BYTES];

    addr_format(&who, true, client);
    target_path_for_log(path_of(v), target, sizeof(target));
    log_line(good ? LOG_INFO : LOG_WARN, "access", LOG_STR("client", client), LOG_STR("inbound", v->inbound->label),
             LOG_SLICE("method", v->seen.peer != NULL ? v->seen.method : v->request->method),
             LOG_STR("target", target), LOG_INT("status", v->status), LOG_INT("bytes_in", v->bytes_in),
             LOG_INT("bytes_out", v->bytes_out), LOG_INT("decide_us", mono_diff(decided, v->arrived)),
             LOG_INT("upstream_ms", mono_diff(now, decided) / CLOCK_MS_US),
             LOG_STR("verdict", v->verdict_word != NULL ? v->verdict_word : verdict_word(v->verdict)),
             dry != NULL ? LOG_STR("dry_run_refused", dry) : LOG_END, LOG_END);
}

void visit_log_refusal(const struct visitor *visitor, const struct refusal *refusal)
{
    char client[ADDR_TEXT_BYTES];

    addr_format(conn_peer(visitor->conn), true, client);
    log_line(LOG_WARN, "access", LOG_STR("client", client), LOG_STR("inbound", visitor->inbound->label),
             LOG_STR("method", "-"), LOG_STR("target", "-"), LOG_INT("status", refusal_status(refusal)),
             LOG_STR("verdict", verdict_word(refusal->verdict)),
             refusal->detail != NULL ? LOG_STR("detail", refusal->detail) : LOG_END, LOG_END);
}
