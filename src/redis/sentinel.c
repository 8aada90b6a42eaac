/*
 * SENTINEL get-master-addr-by-name NAME -> [host, port], or nothing for a name it doesn't know.
 *
 * A sentinel may be behind the times (cut off from the others, or asked in the middle of a failover), so what it says
 * is where to look and not the truth: the server found there must say itself that it is the primary (hello.c), another
 * sentinel must name it too (node.c), and a primary that was passed over refuses to write when it is set up as the
 * README says. Asked again for every connection.
 */
#include "redis/sentinel.h"

#include "base/mem.h"
#include "redis/inquiry.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define SENTINEL_MAGIC 0x73656e74u

struct sentinel {
    uint32_t magic;
    struct inquiry *inquiry;
    struct redis_host primary; /* the latest answer */
    sentinel_named *named;
    void *arg;
};

static bool is_text(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && reply->len > 0 && strlen(reply->str) == (size_t)reply->len;
}

static const char *take(void *arg, const struct redisReply *reply, const struct redis_host *asked)
{
    struct sentinel *sentinel = arg;
    uint16_t port;

    (void)asked;
    must_be(sentinel, SENTINEL_MAGIC);
    if (reply->type == REDIS_REPLY_NIL) {
        return "knows no primary of the name that is in url";
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_text(reply->element[0]) ||
        !is_text(reply->element[1]) || !str_parse_port(slice_of(reply->element[1]->str), &port)) {
        return "an answer that is not an address and a port";
    }
    mem_free(sentinel->primary.host);
    sentinel->primary = (struct redis_host){mem_strdup(reply->element[0]->str), port};
    return NULL;
}

static void done(void *arg, const char *why)
{
    struct sentinel *sentinel = arg;

    must_be(sentinel, SENTINEL_MAGIC);
    sentinel->named(sentinel->arg, &sentinel->primary, why);
}

struct sentinel *sentinel_new(struct loop *loop, const struct redis_conf *conf, SSL_CTX *tls, sentinel_named *named,
                              void *arg)
{
    static const struct inquiry_ops calls = {take, done, "SENTINEL refused (is it a sentinel?)"};
    const char *const words[] = {"SENTINEL", "get-master-addr-by-name", conf->master};
    struct sentinel *sentinel = mem_zalloc(sizeof(*sentinel));
    struct redis_conf theirs = *conf; /* sentinels have users of their own */

    sentinel->magic = SENTINEL_MAGIC;
    sentinel->named = named;
    sentinel->arg = arg;
    theirs.user = conf->sentinel_user;
    theirs.password = conf->sentinel_password;
    sentinel->inquiry = inquiry_new(loop, &theirs, tls, "sentinel", (struct words){words, 3}, &calls, sentinel);
    inquiry_set_hosts(sentinel->inquiry, conf->hosts, conf->hosts_count);
    return sentinel;
}

void sentinel_free(struct sentinel *sentinel)
{
    must_be(sentinel, SENTINEL_MAGIC);
    inquiry_free(sentinel->inquiry);
    mem_free(sentinel->primary.host);
    sentinel->magic = 0;
    mem_free(sentinel);
}

void sentinel_ask(struct sentinel *sentinel)
{
    must_be(sentinel, SENTINEL_MAGIC);
    inquiry_start(sentinel->inquiry);
}

void sentinel_doubt(struct sentinel *sentinel)
{
    must_be(sentinel, SENTINEL_MAGIC);
    inquiry_doubt(sentinel->inquiry);
}

bool sentinel_is_asking(const struct sentinel *sentinel)
{
    must_be(sentinel, SENTINEL_MAGIC);
    return inquiry_is_running(sentinel->inquiry);
}

void sentinel_stop(struct sentinel *sentinel)
{
    must_be(sentinel, SENTINEL_MAGIC);
    inquiry_stop(sentinel->inquiry);
}
