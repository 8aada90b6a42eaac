#ifndef SLUICE_CONF_FEEDBACK_H
#define SLUICE_CONF_FEEDBACK_H
/*
 * Part of a policy: what in a third party's answers is taken for its word on our rate, what is done then, and what is
 * changed in requests on their way to it. Every list is in the order of the file; its count stands right behind it.
 */
#include "base/str.h"

/* The statuses from `first` to `last`. */
struct status_range {
    uint16_t first, last;
};

/* "403 header:x-ratelimit-remaining=0": an answer with that status and that field. */
struct answer_rule {
    struct status_range status;
    char *field;
    char *value; /* NULL: any */
};

/* How a field says when, or for how long. */
enum time_format {
    TIME_AUTO,    /* whatever it looks like */
    TIME_SECONDS, /* left */
    TIME_MS,      /* left */
    TIME_UNIX,    /* seconds since 1970, or milliseconds where they can't be seconds */
    TIME_ISO8601, /* 2026-04-21T14:38:25Z */
    TIME_GODUR,   /* 6m0s */
    TIME_IETF,    /* "default";r=50;t=30 */
};

struct time_field {
    char *field;
    enum time_format format;
};

/* "X-RateLimit-Remaining X-RateLimit-Reset:unix": how much is left, and until when it has to last. */
struct budget_field {
    char *remaining; /* NULL: the field of `reset` says both */
    struct time_field reset;
};

struct host_pattern; /* conf/policy.h */

enum retry_mode { RETRY_NONE, RETRY_THROTTLED, RETRY_SAFE };

struct header_line {
    char *name;
    char *value; /* NULL where only the name counts */
};

struct feedback_conf {
    bool on;
    struct host_pattern *from; /* whose answers are obeyed; none = everybody's */
    unsigned from_count;
    struct status_range *throttle_status;
    unsigned throttle_status_count;
    struct answer_rule *throttle_if;
    unsigned throttle_if_count;
    struct time_field *pause_header;
    unsigned pause_header_count;
    int64_t pause_default_us, pause_min_us, pause_max_us;
    int64_t pause_growth; /* pause_default is multiplied by that with each repetition */

    struct status_range *ban_status;
    unsigned ban_status_count;
    struct answer_rule *ban_if;
    unsigned ban_if_count;
    int64_t ban_pause_us;

    struct rate error_rate; /* count 0 = no error_budget */
    struct status_range *error_status;
    unsigned error_status_count;

    bool adapt;
    int64_t adapt_floor;     /* percent of the rate */
    int64_t adapt_return_us; /* in which half of a slow-down is taken back */
    struct budget_field *budget_header;
    unsigned budget_header_count;

    enum retry_mode retry;
    int64_t retry_max;
    int64_t retry_body_max;

    struct header_line *set_header;
    unsigned set_header_count;
    struct header_line *require_header;
    unsigned require_header_count;
    struct header_line *drop_header;
    unsigned drop_header_count;
};

/* What `to` points at becomes its own copy. */
void feedback_conf_own(struct feedback_conf *to);
/* Whether the answers of that host are obeyed; host in lower case, without brackets. */
bool feedback_conf_obeys(const struct feedback_conf *conf, const char *host, uint16_t port);
void feedback_conf_free_from(struct host_pattern *from, unsigned count);
void feedback_conf_fini(struct feedback_conf *conf);

#endif
