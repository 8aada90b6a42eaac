#ifndef SLUICE_OUTBOUND_GRANT_H
#define SLUICE_OUTBOUND_GRANT_H
/* The reply of reserve.lua, checked: bytes from outside. Pure. */
#include "base/str.h"
#include "outbound/slot.h"

struct redisReply;

/* What was asked, and so what an answer can be. */
struct grant_limits {
    const char *rid; /* of the server this connection reached */
    unsigned want;
    int64_t interval_us, late_us, grace_us, horizon_us;
    int64_t cost; /* 0 = 1 */
};

/* False when it is not an answer to that question. `slots` has room for limits->want. */
bool grant_parse(const struct redisReply *reply, const struct grant_limits *limits, struct slot_reply *out,
                 struct slot *slots) MUST_CHECK;
/* An error that says that nothing ran because the keys are being moved to another server of a cluster: ask again. */
bool grant_is_moving(const struct redisReply *reply);
/* The microseconds of a TIME reply, or of the first number of a script's reply. */
bool grant_parse_time(const struct redisReply *reply, struct rtime *out) MUST_CHECK;
/* {now, members, queued, pause, ...} of members.lua. */
bool grant_parse_members(const struct redisReply *reply, struct rtime *now, unsigned *members, unsigned *queued,
                         struct rtime *pause) MUST_CHECK;
/* Another replica with other limits, in the same reply. False when it tells of none. The texts are the reply's. */
struct grant_other {
    int64_t interval_us;
    struct slice name, limits;
};
bool grant_parse_other(const struct redisReply *reply, struct grant_other *out) MUST_CHECK;

#endif
