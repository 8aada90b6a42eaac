#ifndef SLUICE_CONF_VALUE_H
#define SLUICE_CONF_VALUE_H
/* One value: text into its field, and the field into text. */
#include "base/buf.h"
#include "conf/inbound_record.h"
#include "conf/keys.h"
#include "conf/policy.h"
#include "conf/report.h"

/* Reads `text` into the key's field of `record` (proxy_conf, redis_conf, policy or inbound_record). On a mistake
 * reports it and leaves the field. */
bool value_set(const struct place *place, const struct key *key, struct slice text, void *record);
/* Appends the value as one would write it, passwords masked. False, and nothing, when it is not set. */
bool value_print(const struct key *key, const void *record, struct buf *out);
bool rate_parse(const struct place *place, struct slice text, struct rate *field) MUST_CHECK;
void rate_print(const struct rate *rate, struct buf *out);
void quota_print(const struct quota_limit *quota, struct buf *out);
/* Frees what the fields own and clears them. */
void proxy_conf_fini(struct proxy_conf *proxy);
void inbound_rule_fini(struct inbound_rule *rule);
void inbound_conf_fini(struct inbound_conf *place);

/* The types with a file of their own. */
bool list_set(const struct place *place, const struct key *key, struct slice text, void *record);
bool list_print(const struct key *key, const void *record, struct buf *out);
bool parts_set(const struct place *place, const struct key *key, struct slice text, struct policy *policy);
bool parts_print(const struct key *key, const struct policy *policy, struct buf *out);
bool order_set(const struct place *place, const struct key *key, struct slice text, struct order_terms *terms);
bool order_print(const struct key *key, const struct order_terms *terms, struct buf *out);
bool url_set(const struct place *place, struct slice text, struct redis_conf *redis);
bool hosts_set(const struct place *place, struct slice text, struct policy *policy);
void hosts_print(const struct policy *policy, struct buf *out);
bool feedback_value_set(const struct place *place, const struct key *key, struct slice text, struct policy *policy);
/* Before the first value of a key that repeats: what was inherited goes. */
void feedback_value_clear(const struct key *key, struct policy *policy);
bool feedback_value_print(const struct key *key, const struct policy *policy, struct buf *out);
bool inbound_value_set(const struct place *place, const struct key *key, struct slice text,
                       struct inbound_record *record);
bool inbound_value_print(const struct key *key, const struct inbound_record *record, struct buf *out);

#endif
