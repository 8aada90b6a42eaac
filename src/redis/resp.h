#ifndef SLUICE_SRC_REDIS_READER_H
#define SLUICE_SRC_REDIS_READER_H
/* Bytes to replies, with a bound on what one reply may cost. */
#include "base/must.h"

#include <stddef.h>

struct resp;
struct redisReply;

#define RESP_REPLY_BYTES_MAX ((size_t)1024 * 1024)

enum resp_result {
    RESP_REPLY, /* *reply is the caller's, to be freed by freeReplyObject() */
    RESP_MORE,  /* nothing whole is left */
    RESP_BROKEN /* *why says it; resp is of no more use */
};

struct resp *resp_new(void);
void resp_free(struct resp *resp);
/* At most 64 KiB at a time, then resp_next() until it wants more. */
void resp_feed(struct resp *resp, const char *bytes, size_t len);
enum resp_result resp_next(struct resp *resp, struct redisReply **reply, const char **why) MUST_CHECK;

#endif
