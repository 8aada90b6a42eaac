#ifndef SLUICE_SRC_REDIS_SLOTMAP_H
#define SLUICE_SRC_REDIS_SLOTMAP_H
/* Which of a cluster's 16384 parts a key is in, and what servers say about where a part is. Pure. */
#include "conf/policy.h"

struct redisReply;

enum { SLOTMAP_SLOTS = 16384, SLOTMAP_HOST_BYTES = 256 };

/* Of the first {part in braces} of the key, when there is one that is not empty; else of all of it. */
unsigned slotmap_slot(const char *key);

/* One line of CLUSTER SLOTS: the primary of slots first..last. */
struct slotmap_range {
    unsigned first, last;
    char host[SLOTMAP_HOST_BYTES]; /* "" = the host that was asked */
    uint16_t port;
};
/* False when the reply is not what CLUSTER SLOTS answers. `each` is called for every range that has a primary. */
bool slotmap_read(const struct redisReply *reply, void (*each)(void *arg, const struct slotmap_range *range),
                  void *arg) MUST_CHECK;

/* "MOVED 3999 127.0.0.1:6381": true with the slot as a range of its own. Also "ASK ...". */
bool slotmap_read_redirection(const struct redisReply *reply, struct slotmap_range *out) MUST_CHECK;

#endif
