/*
 * Nothing a server says is believed before it is looked at: a proxy in between, a script changed by hand or a full disk
 * may answer anything. What can't be an answer to the question makes the call count as lost; its slots are never used.
 */
#include "outbound/grant.h"

#include "base/str.h"

#include <hiredis/hiredis.h>
#include <string.h>

enum { OTHER_TEXT_MOST = 512 };
enum { HEAD = 7 }; /* now, eid, retry, reason, tat, parent's tat, free */
#define YEAR_US (INT64_C(366) * 86400 * CLOCK_SECOND_US)
#define TIME_MOST_US (INT64_C(1) << 53) /* what Lua can count exactly */

static bool is_array(const struct redisReply *reply, size_t least)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

static bool number_at(const struct redisReply *reply, size_t index, int64_t least, int64_t most, int64_t *out)
{
    const struct redisReply *element = reply->element[index];

    if (element == NULL || element->type != REDIS_REPLY_INTEGER || element->integer < least ||
        element->integer > most) {
        return false;
    }
    *out = element->integer;
    return true;
}

/* "RID:NUMBER" with the run id of the server that was asked. */
static bool eid_at(const struct redisReply *reply, size_t index, const char *rid, char out[SLOT_EID_BYTES])
{
    const struct redisReply *element = reply->element[index];
    size_t rid_len = strlen(rid);

    if (element == NULL || element->type != REDIS_REPLY_STRING || element->len <= rid_len + 1 ||
        element->len >= SLOT_EID_BYTES || memcmp(element->str, rid, rid_len) != 0 || element->str[rid_len] != ':' ||
        memchr(element->str, '\0', element->len) != NULL) {
        return false;
    }
    memcpy(out, element->str, element->len);
    out[element->len] = '\0';
    return true;
}

/* A slot lies within the horizon, at least the interval after the one before it, and its window is no longer than was
 * asked for. */
static bool slot_at(const struct redisReply *reply, size_t index, const struct grant_limits *limits, int64_t now,
                    int64_t least, struct slot *out)
{
    int64_t longest = limits->grace_us > limits->late_us ? limits->grace_us : limits->late_us;

    if (!number_at(reply, index, least, now + limits->horizon_us, &out->first_us) ||
        !number_at(reply, index + 1, out->first_us + limits->late_us, out->first_us + longest, &out->last_us)) {
        return false;
    }
    out->tat_us = out->last_us - limits->late_us + (limits->cost > 0 ? limits->cost : 1) * limits->interval_us;
    return true;
}

bool grant_parse(const struct redisReply *reply, const struct grant_limits *limits, struct slot_reply *out,
                 struct slot *slots)
{
    if (!is_array(reply, HEAD) || (reply->elements - HEAD) % 2 != 0 || (reply->elements - HEAD) / 2 > limits->want) {
        return false;
    }
    *out = (struct slot_reply){.count = (unsigned)(reply->elements - HEAD) / 2};
    int64_t reason;
    if (!number_at(reply, 0, 1, TIME_MOST_US, &out->now_us) || !eid_at(reply, 1, limits->rid, out->eid) ||
        !number_at(reply, 2, 0, YEAR_US, &out->retry_us) || !number_at(reply, 3, 0, SLOT_IN_FLIGHT, &reason) ||
        !number_at(reply, 4, 0, TIME_MOST_US, &out->tat_us) ||
        !number_at(reply, 5, 0, TIME_MOST_US, &out->parent_tat_us) ||
        !number_at(reply, 6, 0, TIME_MOST_US, &out->free_us)) {
        return false;
    }
    out->reason = (enum slot_reason)reason;
    int64_t least = out->now_us;
    for (unsigned i = 0; i < out->count; i++) {
        if (!slot_at(reply, HEAD + 2 * (size_t)i, limits, out->now_us, least, &slots[i])) {
            return false;
        }
        least = slots[i].tat_us;
    }
    return limits->want == 0 || (out->count > 0) != (out->retry_us > 0);
}

bool grant_parse_time(const struct redisReply *reply, struct rtime *out)
{
    uint64_t parts[2];

    if (!is_array(reply, 2)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        const struct redisReply *part = reply->element[i];
        if (part == NULL || part->type != REDIS_REPLY_STRING ||
            !str_parse_u64((struct slice){part->str, part->len}, &parts[i])) {
            return false;
        }
    }
    if (parts[0] > TIME_MOST_US / CLOCK_SECOND_US || parts[1] >= CLOCK_SECOND_US) {
        return false;
    }
    out->us = (int64_t)parts[0] * CLOCK_SECOND_US + (int64_t)parts[1];
    return true;
}

bool grant_is_moving(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR &&
           (strncmp(reply->str, "TRYAGAIN ", 9) == 0 || strncmp(reply->str, "ASK ", 4) == 0);
}

bool grant_parse_members(const struct redisReply *reply, struct rtime *now, unsigned *members, unsigned *queued,
                         struct rtime *pause)
{
    int64_t count, total;

    if (!is_array(reply, 4) || !number_at(reply, 0, 1, TIME_MOST_US, &now->us) ||
        !number_at(reply, 1, 0, INT32_MAX, &count) || !number_at(reply, 2, 0, INT32_MAX, &total) ||
        !number_at(reply, 3, 0, TIME_MOST_US, &pause->us)) {
        return false;
    }
    *members = (unsigned)count;
    *queued = (unsigned)total;
    return true;
}

/* It goes to the log, which escapes what is not to be printed. */
static bool text_at(const struct redisReply *reply, size_t index, struct slice *out)
{
    const struct redisReply *element = reply->element[index];

    if (element == NULL || element->type != REDIS_REPLY_STRING || element->len > OTHER_TEXT_MOST) {
        return false;
    }
    *out = (struct slice){element->str, element->len};
    return true;
}

bool grant_parse_other(const struct redisReply *reply, struct grant_other *out)
{
    return is_array(reply, 7) && number_at(reply, 4, 1, YEAR_US, &out->interval_us) && text_at(reply, 5, &out->name) &&
           text_at(reply, 6, &out->limits);
}
