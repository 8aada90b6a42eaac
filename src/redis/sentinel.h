#ifndef SLUICE_SRC_REDIS_SENTINEL_H
#define SLUICE_SRC_REDIS_SENTINEL_H
/* Where the primary is, as the sentinels say. */
#include "base/loop.h"
#include "conf/policy.h"

#include <openssl/types.h>

struct sentinel;
/* `why` NULL: there; valid during the call. */
typedef void sentinel_named(void *arg, const struct redis_host *primary, const char *why);

/* `conf`, of REDIS_SENTINEL, is copied. */
struct sentinel *sentinel_new(struct loop *loop, const struct redis_conf *conf, SSL_CTX *tls, sentinel_named *named,
                              void *arg);
void sentinel_free(struct sentinel *sentinel);
/* `named` follows, from the loop. */
void sentinel_ask(struct sentinel *sentinel);
/* There was no primary there: ask another sentinel first the next time. */
void sentinel_doubt(struct sentinel *sentinel);
bool sentinel_is_asking(const struct sentinel *sentinel);
/* It will not. */
void sentinel_stop(struct sentinel *sentinel);

#endif
