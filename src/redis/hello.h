#ifndef SLUICE_SRC_REDIS_HELLO_H
#define SLUICE_SRC_REDIS_HELLO_H
/* What is said first on a new connection, and whether the answers are those of a primary that can serve. */
#include "conf/policy.h"
#include "redis/script.h"

struct evbuffer;

#define HELLO_RUN_ID_BYTES 41
#define HELLO_WHY_BYTES 96

struct hello {
    const struct redis_conf *conf;
    const struct script_set *scripts;
    unsigned step; /* whose answer is next */
    char run_id[HELLO_RUN_ID_BYTES];
};
enum hello_result { HELLO_MORE, HELLO_DONE, HELLO_REFUSED };

/* Appends the commands to `out`. */
void hello_begin(struct hello *hello, const struct redis_conf *conf, const struct script_set *scripts,
                 struct evbuffer *out);
/* The next answer. With HELLO_REFUSED `why` names the reason; with HELLO_DONE run_id is set. */
enum hello_result hello_take(struct hello *hello, const struct redisReply *reply, char why[HELLO_WHY_BYTES]) MUST_CHECK;

#endif
