#ifndef SLUICE_INBOUND_KEY_HASH_H
#define SLUICE_INBOUND_KEY_HASH_H
/* What callers are known by outside of their request: a keyed hash, so that neither Redis nor a log ever has an API key
 * or an address. */
#include "conf/inbound.h"

#include <stddef.h>
#include <stdint.h>

enum { KEY_HASH_TEXT_BYTES = 17 };

struct key_hash {
    uint8_t bytes[16];
};

struct key_hasher;
struct key_hasher *key_hasher_new(const void *secret, size_t secret_bytes);
void key_hasher_free(struct key_hasher *hasher);

/* HMAC-SHA256, cut, of the caller's key under this rule: the same caller can't be followed from rule to rule. Also
 * under the rule's algorithm and period, since what is kept means nothing to another one. */
struct key_hash key_hash(const struct key_hasher *hasher, const struct inbound_conf *inbound,
                         const struct inbound_rule *rule, struct slice key);
/* 16 hex digits: the first half, NUL-terminated. */
void key_hash_text(const struct key_hash *hash, char out[KEY_HASH_TEXT_BYTES]);

#endif
