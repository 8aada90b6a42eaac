#ifndef SLUICE_CONF_INBOUND_H
#define SLUICE_CONF_INBOUND_H
/* The settings of the inbound path: [inbound NAME] is a place where the team's API is protected, [inbound-rule NAME]
 * one limit in it. */
#include "base/addr.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum inbound_algorithm {
    ALGORITHM_TOKEN_BUCKET,           /* rate, capacity: at most rate * W + capacity in any W */
    ALGORITHM_FIXED_WINDOW,           /* at most rate.count in each window, so 2N around an edge */
    ALGORITHM_SLIDING_WINDOW_LOG,     /* exact; memory per request */
    ALGORITHM_SLIDING_WINDOW_COUNTER, /* two counters, weighted; at most 2N - 1 */
    ALGORITHM_SLIDING_WINDOW_STRICT,  /* sub-windows, the oldest counted whole: never above N */
    ALGORITHM_LEAKY_BUCKET,           /* a meter: one per interval, no queue */
};
enum inbound_redis_down { INBOUND_DOWN_OPEN, INBOUND_DOWN_LOCAL, INBOUND_DOWN_CLOSED };
enum inbound_headers { INBOUND_HEADERS_IETF, INBOUND_HEADERS_LEGACY, INBOUND_HEADERS_OFF };

enum inbound_key_kind { KEY_HEADER, KEY_BEARER, KEY_BASIC_USER, KEY_COOKIE, KEY_QUERY, KEY_CLIENT_IP, KEY_SEGMENT };
struct inbound_key {
    enum inbound_key_kind kind;
    char *name;     /* header, cookie, query */
    unsigned index; /* path: 1 = first segment */
};

/* One limit. */
struct inbound_rule {
    char *label;
    unsigned line;
    enum inbound_algorithm algorithm;
    struct rate rate;
    int64_t capacity;  /* token bucket: most at once */
    int64_t cost;      /* of one request */
    char *cost_header; /* NULL, or a request header that trusted addresses may set */
    char **methods;    /* none = every one */
    unsigned methods_count;
    char *path;               /* glob: * within and across segments; NULL = every path */
    struct inbound_key *keys; /* the first that is present counts; none present: all such requests share one */
    unsigned keys_count;
    bool dry_run; /* decide and tell, never refuse */
};

struct policy;

/* One protected API. Its own settings are its first rule; [inbound-rule] sections add more. */
struct inbound_conf {
    _Atomic uint32_t refs; /* the settings', and one for each caller that came under them */
    uint64_t version;      /* of the settings it came with */
    char *label;
    unsigned line;
    struct addr *listen; /* none: only the check endpoint */
    unsigned listen_count;
    char *upstream_host; /* NULL without `upstream` */
    uint16_t upstream_port;
    struct inbound_rule **rules; /* at least one */
    unsigned rules_count;
    enum inbound_redis_down on_redis_down;
    enum inbound_headers headers;
    int64_t timeout_us;           /* a decision never waits longer for Redis */
    struct cidr *trusted_proxies; /* whose X-Forwarded-For, cost header and check headers are believed */
    unsigned trusted_proxies_count;
    unsigned ipv6_prefix_bits; /* client_ip: 64 */
    struct addr *check_listen; /* where gateways ask, besides a `listen` without `upstream` */
    unsigned check_listen_count;
    struct policy *policy; /* time-outs towards the upstream, of [default]; a reference */
};

struct inbound_conf *inbound_conf_get(struct inbound_conf *inbound);
void inbound_conf_put(struct inbound_conf *inbound);

/* The limit of the [inbound] section itself. */
#define INBOUND_OWN_RULE "default"

enum { INBOUND_RULES_MOST = 16 };

#endif
