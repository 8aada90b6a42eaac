#ifndef SLUICE_SIM_FAKE_REDIS_H
#define SLUICE_SIM_FAKE_REDIS_H
/* The part of Redis that the slot scripts use: hashes with expiry and TIME, and the real scripts run by the real Lua.
 */
#include "redis/link.h"

#include <hiredis/hiredis.h>

struct fake_redis;
struct fake_data;

struct fake_redis *fake_redis_new(void);
void fake_redis_free(struct fake_redis *redis);
/* Its wall clock. */
void fake_redis_set_time(struct fake_redis *redis, int64_t us);
/* The caller frees with fake_reply_free(). A script that fails is a mistake of ours: aborts with its message. */
struct redisReply *fake_redis_eval(struct fake_redis *redis, const struct script *script, const char *const *keys,
                                   unsigned keys_count, const char *const *args, unsigned args_count);
struct redisReply *fake_redis_time(const struct fake_redis *redis);
void fake_reply_free(struct redisReply *reply);
/* NULL when there is no such field. Valid until the next call. */
const char *fake_redis_field(struct fake_redis *redis, const char *key, const char *field);
/* As HSET. */
void fake_redis_set(struct fake_redis *redis, const char *key, const char *field, const char *value);
/* As DEL. */
void fake_redis_delete(struct fake_redis *redis, const char *key);
/* As SET, or as RPUSH of these words to a new list. Without expiry. */
void fake_redis_set_text(struct fake_redis *redis, const char *key, bool as_list, const char *text);
/* Milliseconds; -1 = never expires, -2 = no such key. */
int64_t fake_redis_ttl_ms(struct fake_redis *redis, const char *key);
uint64_t fake_redis_calls(const struct fake_redis *redis);

/* A copy of all data, to be loaded once (a copy that lags behind) or dropped. NULL = empty. */
struct fake_data *fake_redis_copy(const struct fake_redis *redis);
void fake_redis_load(struct fake_redis *redis, struct fake_data *data);

#endif
