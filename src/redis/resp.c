/*
 * hiredis' reader trusts the server in two ways that we don't. It keeps whatever a reply is made of until the last byte
 * is there, however long that is; so the bytes of the reply under way are counted. And it allocates an array as soon as
 * its length is announced: eleven bytes can ask for gigabytes. Every element takes four bytes on the wire at least
 * (":1" and CRLF), so the announced elements of one reply are held to what could follow in a reply of the greatest
 * size. Nesting deeper than seven is refused by hiredis itself.
 */
#include "redis/resp.h"

#include "base/mem.h"

#include <hiredis/hiredis.h>
#include <stdint.h>

#define RESP_MAGIC 0x72657370u
enum { ELEMENT_BYTES_MIN = 4, FEED_BYTES_MAX = 64 * 1024 };

struct resp {
    uint32_t magic;
    redisReader *reader;
    redisReplyObjectFunctions make;
    void *(*make_array)(const redisReadTask *, int);
    size_t pending;  /* bytes fed that no whole reply has used up */
    size_t elements; /* announced by the arrays of the reply under way */
    const char *refused;
};

static void *make_bounded_array(const redisReadTask *task, int elements)
{
    struct resp *resp = task->privdata;

    must_be(resp, RESP_MAGIC);
    resp->elements += elements > 0 ? (size_t)elements : 0;
    if (resp->elements > RESP_REPLY_BYTES_MAX / ELEMENT_BYTES_MIN) {
        resp->refused = "reply too large";
        return NULL;
    }
    return resp->make_array(task, elements);
}

struct resp *resp_new(void)
{
    struct resp *resp = mem_zalloc(sizeof(*resp));

    resp->magic = RESP_MAGIC;
    resp->reader = redisReaderCreate();
    must(resp->reader != NULL);
    resp->make = *resp->reader->fn;
    resp->make_array = resp->make.createArray;
    resp->make.createArray = make_bounded_array;
    resp->reader->fn = &resp->make;
    resp->reader->privdata = resp;
    return resp;
}

void resp_free(struct resp *resp)
{
    if (resp == NULL) {
        return;
    }
    must_be(resp, RESP_MAGIC);
    redisReaderFree(resp->reader);
    resp->magic = 0;
    mem_free(resp);
}

void resp_feed(struct resp *resp, const char *bytes, size_t len)
{
    must_be(resp, RESP_MAGIC);
    must(len <= FEED_BYTES_MAX);
    if (redisReaderFeed(resp->reader, bytes, len) == REDIS_OK) {
        resp->pending += len;
    }
}

static enum resp_result broken(const struct resp *resp, const char **why, const char *text)
{
    *why = resp->refused != NULL ? resp->refused : text;
    return RESP_BROKEN;
}

enum resp_result resp_next(struct resp *resp, struct redisReply **reply, const char **why)
{
    void *whole = NULL;

    must_be(resp, RESP_MAGIC);
    if (redisReaderGetReply(resp->reader, &whole) != REDIS_OK) {
        return broken(resp, why, "bytes that are not RESP");
    }
    size_t left = whole != NULL ? resp->reader->len - resp->reader->pos : 0;
    must(left <= resp->pending);
    if (resp->pending - left > RESP_REPLY_BYTES_MAX) {
        if (whole != NULL) {
            freeReplyObject(whole);
        }
        return broken(resp, why, "reply too large");
    }
    if (whole == NULL) {
        return RESP_MORE;
    }
    resp->pending = left;
    resp->elements = 0;
    *reply = whole;
    return RESP_REPLY;
}
