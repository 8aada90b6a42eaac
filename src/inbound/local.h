#ifndef SLUICE_INBOUND_LOCAL_H
#define SLUICE_INBOUND_LOCAL_H
/* What this process alone knows of its callers: without a Redis, or while it is gone. A bounded table. */
#include "inbound/key_hash.h"
#include "inbound/limit.h"

struct local;
struct local_key;

/* At most that many callers, and that much memory for the logs of sliding_window_log. At least INBOUND_RULES_MOST
 * callers. */
struct local *local_new(unsigned keys_most, size_t log_bytes_most);
void local_free(struct local *local);
unsigned local_count(const struct local *local);
/* Callers forgotten for want of room, though they were not idle. */
uint64_t local_forgotten(const struct local *local);

/* Looks at a few callers and forgets those that are idle. Before every decision. */
void local_sweep(struct local *local, int64_t now_us);
/* The state of a caller, with room for one more request; valid until others than INBOUND_RULES_MOST have been asked
 * for, or a sweep. */
struct local_key *local_get(struct local *local, const struct key_hash *hash, const struct limit *limit);
union limit_state *local_state(struct local_key *key);
/* After a decision: notes until when it has to be kept. */
void local_put(struct local_key *key, const struct limit *limit);

#endif
