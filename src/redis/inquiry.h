#ifndef SLUICE_SRC_REDIS_INQUIRY_H
#define SLUICE_SRC_REDIS_INQUIRY_H
/* One question to the first of several servers that has an answer to it, each on a connection of its own that ends with
 * the answer: where the primary is (to sentinels), who has which part of a cluster (to any of its servers). */
#include "base/loop.h"
#include "conf/policy.h"
#include "redis/command.h"

#include <openssl/types.h>

#define INQUIRY_WHY_BYTES 256

struct inquiry;
struct redisReply;

struct inquiry_ops {
    /* What is wrong with this server's reply, which is not an error; NULL when it is the answer. Changes no inquiry. */
    const char *(*take)(void *arg, const struct redisReply *reply, const struct redis_host *asked);
    /* It is over: with an answer (`why` NULL), or with none from anybody. Anything may be done in it but to free the
     * inquiry. */
    void (*done)(void *arg, const char *why);
    const char *refused; /* what an error in place of an answer means */
};

/* `conf`: user, password, TLS and the time to connect, for each of them; copied. `who` names them in reasons. */
struct inquiry *inquiry_new(struct loop *loop, const struct redis_conf *conf, SSL_CTX *tls, const char *who,
                            struct words question, const struct inquiry_ops *ops, void *arg);
void inquiry_free(struct inquiry *inquiry);
/* Whom to ask from now on, in this order but for the one that answered last, who comes first; copied. Not while one
 * runs. */
void inquiry_set_hosts(struct inquiry *inquiry, const struct redis_host *hosts, unsigned count);
/* No effect while one runs. */
void inquiry_start(struct inquiry *inquiry);
/* No callback will come. */
void inquiry_stop(struct inquiry *inquiry);
/* The answer was of no use: whoever gave it is asked last the next time. */
void inquiry_doubt(struct inquiry *inquiry);
bool inquiry_is_running(const struct inquiry *inquiry);

#endif
