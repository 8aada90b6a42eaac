/* links: src/redis/resp.c src/redis/reply.c src/redis/slotmap.c src/outbound/grant.c src/base/str.c src/base/mem.c src/base/must.c */
/* Whatever a Redis, or what stands in its place, may say: bytes to replies, and every reply to each of its readers. */
#include "outbound/grant.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "redis/slotmap.h"

#include <hiredis/hiredis.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void count(void *arg, const struct slotmap_range *range)
{
    must(range->first <= range->last && range->last < SLOTMAP_SLOTS && range->port > 0);
    must(strlen(range->host) < SLOTMAP_HOST_BYTES);
    ++*(unsigned *)arg;
}

static void read_as_slots(const struct redisReply *reply)
{
    const struct grant_limits limits = {
        .rid = "r", .want = 3, .interval_us = 100000, .late_us = 10000, .grace_us = 10000, .horizon_us = 1000000};
    struct slot slots[3];
    struct slot_reply out;
    struct rtime now, pause;
    unsigned members, queued;
    struct grant_other other;

    if (grant_parse(reply, &limits, &out, slots)) {
        must(out.count <= 3);
    }
    if (grant_parse_members(reply, &now, &members, &queued, &pause)) {
        must(now.us > 0);
    }
    if (grant_parse_other(reply, &other)) {
        must(other.interval_us > 0 && other.name.ptr != NULL && other.limits.ptr != NULL);
    }
    if (grant_parse_time(reply, &now)) {
        must(now.us >= 0);
    }
}

static void read_as_all(const struct redisReply *reply)
{
    char code[REPLY_CODE_BYTES];
    struct slotmap_range range;
    unsigned ranges = 0;

    enum reply_kind kind = reply_judge(reply, code);
    must((kind == REPLY_FINE) == (reply->type != REDIS_REPLY_ERROR) && strlen(code) < sizeof(code));
    must(!grant_is_moving(reply) || kind == REPLY_ELSEWHERE);
    if (slotmap_read(reply, count, &ranges)) {
        must(ranges <= reply->elements);
    }
    if (slotmap_read_redirection(reply, &range)) {
        count(&ranges, &range);
    }
    read_as_slots(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct resp *resp = resp_new();
    enum resp_result result = RESP_MORE;
    struct redisReply *reply;
    const char *why;

    while (len > 0 && result != RESP_BROKEN) {
        size_t piece = len < 1000 ? len : 1000; /* over several reads, as from a socket */
        resp_feed(resp, (const char *)data, piece);
        while ((result = resp_next(resp, &reply, &why)) == RESP_REPLY) {
            read_as_all(reply);
            freeReplyObject(reply);
        }
        data += piece;
        len -= piece;
    }
    resp_free(resp);
    return 0;
}
