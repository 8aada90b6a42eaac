#ifndef SLUICE_CONF_KEYS_H
#define SLUICE_CONF_KEYS_H
/* The one table of settings. Parsing, range errors, printing back, --help-config and the lint of the example all read
 * it. */
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of section, as bits: a key of [default] may stand in [destination NAME] as well. */
enum key_scope {
    IN_PROXY = 1,
    IN_REDIS = 2,
    IN_DEFAULT = 4,
    IN_DESTINATION = 8,
    IN_INBOUND = 16,
    IN_INBOUND_RULE = 32,
    IN_ADMIN = 64,
    IN_ROUTE = 128
};

enum key_type {
    KEY_COUNT,     /* int64_t */
    KEY_DURATION,  /* int64_t, microseconds */
    KEY_SIZE,      /* int64_t, bytes */
    KEY_RATE,      /* struct rate */
    KEY_CHOICE,    /* an enum, numbered as in `choices` */
    KEY_SWITCH,    /* bool */
    KEY_FILE,      /* char *, NULL for "-" */
    KEY_PREFIX,    /* char * */
    KEY_WORD,      /* char *, NULL when not set */
    KEY_LISTEN,    /* struct addr * and, right behind it, how many */
    KEY_PORTS,     /* struct port_range *, the same */
    KEY_RANGES,    /* struct cidr *, the same */
    KEY_UPSTREAMS, /* proxy_conf.private_mode and .private_upstreams */
    KEY_URL,       /* all of redis_conf that a URL can say */
    KEY_HOSTS,     /* policy.hosts */
    KEY_OPTIONAL,  /* int64_t, 0 = not set */
    KEY_TOKEN,     /* char *, the name of a header field */
    KEY_LABEL,     /* char *, the name of a section */
    KEY_GLOB,      /* char *, a pattern of paths */
    KEY_METHODS,   /* inbound_rule.methods */
    KEY_CALLERS,   /* inbound_rule.keys */
    KEY_ORIGIN,    /* inbound_conf.upstream_host and .upstream_port */
    KEY_QUOTAS,    /* policy.quotas */
    KEY_PARTS,     /* policy.keys */
    KEY_COST_ANSWER, /* policy.cost_answer and .cost_is_left */
    KEY_MATCH,     /* policy.methods and .path */
    KEY_SHARERS,   /* struct order_terms: proxy_user, client_ip, header:NAME */
    KEY_WEIGHTS,   /* struct order_terms: VALUE=WEIGHT */
    KEY_MATCHES,   /* struct order_terms: proxy_user=NAME, header:NAME=VALUE, path=PATTERN */
    KEY_STATUSES,  /* struct status_range * and, right behind it, how many */
    KEY_ANSWERS,   /* struct answer_rule *, the same */
    KEY_PAUSES,    /* struct time_field *, the same */
    KEY_BUDGETS,   /* struct budget_field *, the same */
    KEY_FIELDS,    /* struct header_line *, the same: names alone */
    KEY_LINES,     /* struct header_line *, the same: one with each line of the file */
    KEY_FROM,      /* feedback_conf.from */
    KEY_ERRORS,    /* feedback_conf.error_rate and .error_status */
};

struct key {
    unsigned scope; /* of enum key_scope */
    const char *name;
    enum key_type type;
    size_t offset;       /* in proxy_conf, redis_conf, admin_conf, policy or inbound_record, by scope */
    const char *initial; /* default as one would write it; NULL = not set */
    int64_t min, max;    /* in the unit of the field; both 0 where a range means nothing */
    const char *unit;    /* what the number counts, or how the value is written */
    const char *const *choices;
    bool reloadable;
    const char *help;
};

/* Every key in the order of the manual; `count` receives how many. */
const struct key *keys_all(size_t *count);
/* May stand several times in a section, each time with one element more. */
bool key_repeats(const struct key *key);
/* The key of that name in that kind of section, or NULL. */
const struct key *key_find(enum key_scope scope, struct slice name);
/* A name valid in that kind of section that may have been meant, or NULL. */
const char *key_nearest(enum key_scope scope, const char *name);
/* The section another kind of section's key of that name belongs to, as "[proxy]", or NULL. */
const char *key_home(struct slice name);
/* "1ms to 1d": the range in the key's own unit, into `out`. False for keys without one. */
bool key_range(const struct key *key, char out[80]);
/* "10m", "512", the largest unit that is exact. */
void size_format(int64_t bytes, char out[32]);

#endif
