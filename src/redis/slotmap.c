#include "redis/slotmap.h"

#include <hiredis/hiredis.h>
#include <string.h>

/* CRC-16/XMODEM (polynomial 0x1021), bit by bit: a key is a few dozen bytes and is hashed once a call. */
static unsigned crc16(const char *bytes, size_t len)
{
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
        }
        crc &= 0xffff;
    }
    return crc;
}

unsigned slotmap_slot(const char *key)
{
    const char *open = strchr(key, '{');
    const char *shut = open != NULL ? strchr(open + 1, '}') : NULL;

    if (shut != NULL && shut > open + 1) {
        return crc16(open + 1, (size_t)(shut - open - 1)) % SLOTMAP_SLOTS;
    }
    return crc16(key, strlen(key)) % SLOTMAP_SLOTS;
}

static bool read_number(const struct redisReply *reply, unsigned most, unsigned *out)
{
    *out = reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0
               ? (unsigned)(reply->integer <= most ? reply->integer : most + 1)
               : most + 1;
    return *out <= most;
}

/* False for one that can't be used: too long, or "?", which a server says that does not know its own name. */
static bool read_host(const char *text, size_t len, char out[SLOTMAP_HOST_BYTES])
{
    if (len >= SLOTMAP_HOST_BYTES || memchr(text, '\0', len) != NULL || (len == 1 && text[0] == '?')) {
        return false;
    }
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

/* [host or nil, port, id, ...] */
static bool read_server(const struct redisReply *reply, struct slotmap_range *out)
{
    unsigned port;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || !read_number(reply->element[1], UINT16_MAX, &port) ||
        port == 0) {
        return false;
    }
    out->port = (uint16_t)port;
    out->host[0] = '\0';
    const struct redisReply *host = reply->element[0];
    return host->type == REDIS_REPLY_NIL ||
           (host->type == REDIS_REPLY_STRING && read_host(host->str, (size_t)host->len, out->host));
}

bool slotmap_read(const struct redisReply *reply, void (*each)(void *arg, const struct slotmap_range *range), void *arg)
{
    if (reply->type != REDIS_REPLY_ARRAY) {
        return false;
    }
    for (size_t i = 0; i < reply->elements; i++) {
        const struct redisReply *line = reply->element[i];
        struct slotmap_range range;
        if (line->type != REDIS_REPLY_ARRAY || line->elements < 2 ||
            !read_number(line->element[0], SLOTMAP_SLOTS - 1, &range.first) ||
            !read_number(line->element[1], SLOTMAP_SLOTS - 1, &range.last) || range.first > range.last) {
            return false;
        }
        if (line->elements > 2 && read_server(line->element[2], &range)) {
            each(arg, &range);
        }
    }
    return true;
}

bool slotmap_read_redirection(const struct redisReply *reply, struct slotmap_range *out)
{
    uint64_t slot;

    if (reply->type != REDIS_REPLY_ERROR) {
        return false;
    }
    const char *number = strchr(reply->str, ' ');
    const char *host = number != NULL ? strchr(number + 1, ' ') : NULL;
    const char *port = host != NULL ? strrchr(host + 1, ':') : NULL; /* the host may be IPv6, without brackets */
    if (port == NULL) {
        return false;
    }
    size_t digits = strcspn(port + 1, " ");
    if (!str_parse_u64((struct slice){number + 1, (size_t)(host - number - 1)}, &slot) || slot >= SLOTMAP_SLOTS ||
        !str_parse_port((struct slice){port + 1, digits}, &out->port) ||
        !read_host(host + 1, (size_t)(port - host - 1), out->host)) {
        return false;
    }
    out->first = out->last = (unsigned)slot;
    return true;
}
