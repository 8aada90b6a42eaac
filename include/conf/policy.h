#ifndef SLUICE_CONF_POLICY_H
#define SLUICE_CONF_POLICY_H
/*
 * Settings as the rest of the program sees them: immutable once loaded. A policy is what one destination (or
 * [default]) asks for, and is reference-counted: an exchange keeps the policy it came in under.
 */
#include "base/addr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "conf/feedback.h"

#include <stdbool.h>
#include <stdint.h>

enum on_redis_down { REDIS_DOWN_HOLD, REDIS_DOWN_RESERVE, REDIS_DOWN_REJECT, REDIS_DOWN_OPEN };
enum strict_mode { STRICT_WINDOW, STRICT_GAP };
enum queue_order { ORDER_FIFO, ORDER_FAIR };
enum unlisted_mode { UNLISTED_PACE, UNLISTED_PASS, UNLISTED_DENY };
/* How a destination is spoken to over TLS. */
enum https_mode {
    HTTPS_TUNNEL,    /* callers do TLS through CONNECT */
    HTTPS_ORIGINATE, /* callers say http://, we speak TLS to the third party */
    HTTPS_INTERCEPT, /* callers CONNECT, and their TLS ends here */
};
/* What becomes of a tunnel whose caller offers HTTP/2, of which turns can't count every request. */
enum tunnel_h2 { TUNNEL_H2_COUNT, TUNNEL_H2_REFUSE };
enum private_mode { PRIVATE_DENY, PRIVATE_ALLOW, PRIVATE_LIST };

/* What tells one request's place in a queue from another's. */
enum order_by { BY_PROXY_USER, BY_CLIENT_IP, BY_HEADER, BY_PATH };
struct order_term {
    enum order_by by;
    char *name;      /* BY_HEADER */
    char *value;     /* NULL = any; BY_PATH: a pattern in which * stands for anything */
    unsigned weight; /* fair_weights */
};
struct order_terms {
    struct order_term *list; /* owned */
    unsigned count;
};

/* One entry of `hosts`. */
struct host_pattern {
    char *host;    /* lower case, no brackets, no trailing dot; for "*.suffix" the suffix without "*." */
    bool wildcard; /* "*.suffix": any name below, not the suffix itself */
    uint16_t port; /* 0 = every port */
};

/* One entry of `quota`. */
struct quota_limit {
    int64_t count, period_us;
    bool aligned;      /* by windows of the calendar; else in any time of that length */
    int64_t offset_us; /* aligned: the zone's, east of UTC */
};

/* What tells one bucket of a destination from another: one entry of `key`. */
enum bucket_key { BUCKET_BY_HEADER, BUCKET_BY_BEARER, BUCKET_BY_QUERY, BUCKET_BY_SEGMENT, BUCKET_BY_USER, BUCKET_BY_CLIENT_IP };
struct key_source {
    enum bucket_key by;
    char *name;     /* header, query */
    unsigned index; /* path: 1 = first segment */
};

/* Of a destination, or of one of its routes: then it has what the destination has but for what its own section says. */
struct policy {
    uint32_t magic;
    _Atomic uint32_t refs; /* the last of them may be dropped by a thread that takes old settings apart */
    uint64_t version;      /* of the settings it came with; a later one is not replaced by an earlier one */
    char *label;           /* section's label; "default" for [default] */
    unsigned line;
    char *destination;     /* of a route: the name of its destination */
    struct policy *parent; /* that one; a reference */
    char **methods;        /* of a route: none = every one */
    unsigned methods_count;
    char *path;             /* of a route: a pattern in which * stands for anything; NULL = every path */
    struct policy **routes; /* of a destination, in file order; conf's, and there as long as it is */
    unsigned routes_count;

    struct key_source *keys; /* the first that a request has; none: one bucket for all */
    unsigned keys_count;
    bool per_host; /* a bucket for each host that a wildcard matches */
    struct quota_limit *quotas;
    unsigned quotas_count;
    bool quota_reject;     /* refuse while a quota is used up; else wait */
    int64_t max_in_flight; /* over all replicas; 0 = any number */
    int64_t lease_us;      /* after which a silent replica's requests in flight no longer count */
    int64_t cost;
    int64_t cost_most;  /* that a header may say */
    char *cost_header;  /* of a request; NULL = none */
    char *cost_answer;  /* of a response: what it really was; NULL = none */
    bool cost_is_left;  /* or rather what is left of the first quota */
    struct host_pattern *hosts;
    unsigned hosts_count;

    struct rate rate;
    enum strict_mode strict;
    enum queue_order order;
    int64_t low_share; /* percent of the turns that the lower of two classes keeps */
    struct order_terms fair_by;       /* whose turn: the first that a request has */
    struct order_terms fair_weights;  /* by its value; others weigh 1 */
    struct order_terms priority_high; /* who goes before, and who behind the rest */
    struct order_terms priority_low;
    int64_t max_queue;
    int64_t max_wait_us;
    enum on_redis_down on_redis_down;
    int64_t outage_permits; /* on_redis_down = reserve: permits of this replica, per period */
    int64_t replicas_max;

    int64_t late_us;        /* L: how late a release may be after its slot */
    int64_t path_jitter_us; /* J: jitter assumed on the way to the third party */
    int64_t horizon_us;     /* H: no slot is handed out further ahead */

    int64_t connect_timeout_us;
    int64_t response_timeout_us; /* from the last byte sent to the first byte of the response */
    int64_t body_timeout_us;     /* longest silence inside a body */
    int64_t upstream_idle_us;    /* how long an unused connection is kept */
    int64_t tunnel_idle_us;      /* longest silence in a tunnel */
    int64_t max_connections;     /* to one origin */

    bool sni_check; /* the ClientHello in a tunnel must name the CONNECT host */
    enum tunnel_h2 tunnel_h2;
    int64_t tunnel_max_age_us; /* 0 = any */
    int64_t max_tunnels;       /* metered ones at once, in this process */

    enum https_mode https;
    bool rewrite;      /* HTTPS_ORIGINATE: Location and Set-Cookie are made fit for http:// */
    char *ca_file;     /* NULL = the system's certificates */
    char *client_cert; /* NULL = none */
    char *client_key;  /* NULL = in client_cert's file */

    struct feedback_conf feedback;
};

/* The same with another rate; `parent` NULL for a destination. */
struct policy *policy_with_rate(const struct policy *from, const struct rate *rate, struct policy *parent);
struct policy *policy_get(struct policy *policy);
void policy_put(struct policy *policy);

struct port_range {
    uint16_t first, last;
};

struct proxy_conf {
    struct addr *listen;
    unsigned listen_count;
    enum unlisted_mode unlisted;
    struct port_range *connect_ports;
    unsigned connect_ports_count;
    char *auth;                 /* htpasswd file; NULL = anybody */
    struct cidr *allow_clients; /* none = anybody */
    unsigned allow_clients_count;
    enum private_mode private_mode;
    struct cidr *private_upstreams; /* allowed ones, with PRIVATE_LIST */
    unsigned private_upstreams_count;
    int64_t max_connections;  /* callers at once, in all */
    int64_t max_buckets;      /* beside those of configured destinations */
    int64_t max_queued_bytes; /* request bytes held in user space for waiting exchanges, in all */
    int64_t max_head_bytes;
    int64_t max_headers;
    int64_t head_timeout_us;      /* to receive a whole request head, from its first byte */
    int64_t keepalive_timeout_us; /* idle time between requests of one caller */
    int64_t drain_timeout_us;
    int64_t dns_ttl_us;
    int64_t resolver_threads;
    bool server_timing;
    enum log_level log_level;
    enum log_format log_format;
    char *log_file; /* NULL = standard error */
    char *ca_dir;   /* where `sluice ca init` put the CA; NULL = none */
};

enum redis_kind {
    REDIS_SERVER,   /* one, at host and port */
    REDIS_SENTINEL, /* `hosts` are sentinels, who know where the primary of the name `master` is */
    REDIS_CLUSTER   /* `hosts` are some servers of a cluster, who know all of it */
};
struct redis_host {
    char *host;
    uint16_t port;
};

struct redis_conf {
    char *url; /* for people, password masked; NULL = no Redis: slots come from this process alone */
    enum redis_kind kind;
    bool unix_socket;
    bool tls;
    char *host; /* or the socket's path; with `hosts`, the first of them */
    uint16_t port;
    struct redis_host *hosts; /* NULL with REDIS_SERVER */
    unsigned hosts_count;
    char *master;          /* the primary's name, with REDIS_SENTINEL */
    char *user, *password; /* NULL = none; in force, wherever they were written */
    int64_t database;
    char *user_name, *password_file, *password_env; /* where they were written, if not in url */
    char *sentinel_user, *sentinel_password;
    char *sentinel_password_file, *sentinel_password_env;
    char *ca_file;                  /* whom to trust with tls; NULL = the system's authorities */
    char *client_cert, *client_key; /* what to show; NULL = nothing, or in the same file */
    char *prefix;                   /* of every key */
    char *hash_secret, *hash_secret_file; /* NULL = none; the first is in force */
    int64_t timeout_us;             /* of one command */
    int64_t connect_timeout_us;
};
/* All of it, with memory of its own. */
void redis_conf_copy(struct redis_conf *to, const struct redis_conf *from);
/* What key values are hashed with, for whoever has all of [redis]; another one for each purpose. The caller's; clear it after use. */
char *secret_for_hashes(const struct redis_conf *redis, const char *purpose);
/* Frees what the fields own and clears them. */
void redis_conf_fini(struct redis_conf *redis);

/* Where operators look and act; only with a section [admin]. */
struct admin_conf {
    struct addr *listen;
    unsigned listen_count; /* 0: nowhere */
    char *token_file;      /* NULL = no token is asked for */
};

struct inbound_conf;     /* conf/inbound.h */
struct conf_route_index; /* exact hosts and suffixes */

struct conf {
    uint32_t magic;
    uint64_t version; /* grows with every reload */
    struct proxy_conf proxy;
    struct redis_conf redis;
    struct admin_conf admin;
    struct policy *fallback;  /* [default] */
    struct policy **policies; /* every [destination], in file order */
    unsigned policies_count;
    struct policy **routes; /* every [route], in file order */
    unsigned routes_count;
    struct conf_route_index *index;
    struct inbound_conf **inbounds; /* every [inbound], in file order */
    unsigned inbounds_count;
};

/* The policy of the most specific pattern for a host (lower case, no brackets or trailing dot) and port, or NULL for an
 * unlisted one. exact:port > exact > longest suffix:port > longest suffix; a longer suffix wins over a shorter one with
 * a port. Constant time per label of the name. */
struct policy *conf_route(const struct conf *conf, const char *host, uint16_t port);

/* Everything that a release can be displaced by (D of the pacing proof) and the spacing of slots: ceil((W + D)(1 + rho)
 * / N), or with STRICT_GAP ceil((W / N + D)(1 + rho)). N is what the replicas share: with REDIS_DOWN_RESERVE,
 * rate.count less outage_permits * replicas_max. Microseconds. */
int64_t policy_displacement_us(const struct policy *policy);
int64_t policy_interval_us(const struct policy *policy);

#endif
