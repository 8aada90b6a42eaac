#ifndef SLUICE_INBOUND_ADMISSION_REDIS_H
#define SLUICE_INBOUND_ADMISSION_REDIS_H
/* A check as a call of src/lua/admit.lua, and its reply. */
#include "inbound/admission.h"
#include "inbound/key_hash.h"
#include "inbound/limit.h"

/* False when Redis can't be asked now. */
bool admission_redis_ask(struct link *link, struct admission_check *check, const char *prefix,
                         const struct key_hasher *hasher);
/* What the script found odd about a key. */
enum admission_note { ADMISSION_FINE, ADMISSION_KEY_RESET, ADMISSION_FROM_FUTURE };
/* Fills in `admitted` and `results`, and the gravest note. False when it is not such a reply: then nothing is filled
 * in. */
bool admission_redis_read(const struct redisReply *reply, struct admission_check *check, enum admission_note *note);
/* One verdict as a result. */
struct admission_result admission_result_of(const struct limit *limit, const struct limit_verdict *verdict);

#endif
