#ifndef SLUICE_OUTBOUND_SLOTS_REDIS_H
#define SLUICE_OUTBOUND_SLOTS_REDIS_H
/* Inside of slots_redis: the server that askers share (slots_redis.c) and the asker of one bucket (slots_asker.c). */
#include "outbound/differ.h"
#include "outbound/grant.h"
#include "outbound/rtt.h"
#include "outbound/slots.h"
#include "redis/link.h"

struct redis_asker;

/* A call nobody waits for: freed when it is answered. */
struct side_call {
    struct link_call call;
    struct slots_redis *redis;
    TAILQ_ENTRY(side_call) link;
};

/* One server process: its clock is what slots are on. Of a cluster there is one for each server, and the `whole`, where
 * buckets are that nobody is known to have. */
struct slots_redis {
    uint32_t magic;
    struct slots_redis *whole;          /* itself, but for the servers of a cluster */
    SLIST_HEAD(, slots_redis) of_whole; /* those */
    SLIST_ENTRY(slots_redis) next;
    struct slots state;
    struct loop *loop;
    struct link *server;
    char *prefix, *me;
    char *name; /* of this replica, for people */
    struct window_clock clock;
    struct rtt rtt;
    TAILQ_HEAD(, redis_asker) askers;
    unsigned askers_count;
    TAILQ_HEAD(, side_call) side_calls;
    struct timer tick;
    struct mono summed_up;
    struct link_call time_call;
    struct mono warned; /* of a bad reply */
};

struct redis_asker {
    struct asker base;
    uint32_t magic;
    void (*on_up)(struct redis_asker *self);                            /* a server answers */
    void (*on_tick)(struct redis_asker *self);                          /* once a second while it does */
    void (*on_moved)(struct redis_asker *self, struct slots_redis *to); /* another server has the bucket */
    struct slots state;                                                 /* as of that server */
    struct slots_redis *redis;
    TAILQ_ENTRY(redis_asker) link;
    char *keys[4]; /* epoch, bucket, tickets, members */
    struct asker_level {
        char *bucket, *tickets, *flight, *quotas[SLOT_QUOTAS];
    } levels[SLOT_LEVELS];
    char *id;                 /* among all askers of these keys */
    struct slots_spec spec;   /* as configured; base.terms.interval_us also has what this link's slowness costs */
    int64_t slowness_us;      /* that: how much longer a displacement can be */
    enum slot_reason reason;  /* of the answer that is being given */
    bool is_warm;
    bool was_queued; /* in the members hash */
    struct differ differ;
    bool told_while_asking;
    int64_t floor_us, parent_floor_us, free_us, grace_us;
    char eid[SLOT_EID_BYTES];     /* of the latest reply; "" = none yet */
    char suspect[SLOT_EID_BYTES]; /* epoch whose clock stepped forward; reported until a reply shows another */
    struct mono listen_until;     /* no grant is used before: H + I after listen_from */
    struct mono listen_from;
    struct mono kept_until;       /* what it has used of its quotas is in Redis */
    struct mono pause_until, pause_told;
    struct link_call ask_call, look_call, members_call;
    struct grant_limits asked; /* what ask_call asked */
    char asked_rid[SLOT_RID_BYTES];
    struct window *windows; /* granted by a slow exchange: used once a quick one found no step */
    unsigned windows_count, spoilt;
    unsigned looks_left;
    struct mono granted_sent; /* when they were asked for */
    char granted_eid[SLOT_EID_BYTES];
};

/* The question of one asker to reserve.lua, as words. */
struct reserve_words {
    const char *keys[24], *args[112];
    char text[112][24];
    unsigned keys_count, args_count;
};
/* Between two slots, of its own or of its parent, with what this link's slowness costs. */
int64_t asker_interval_us(const struct redis_asker *self, unsigned level);
void reserve_words(struct reserve_words *words, const struct redis_asker *self, const struct grant_limits *limits);
void reserve_words_bill(struct reserve_words *words, const struct slots_bill *bill);

enum { ASKER_EPOCH, ASKER_BUCKET, ASKER_TICKETS, ASKER_MEMBERS };

/* Among those of that server; out of those of its own. */
void slots_redis_join(struct slots_redis *redis, struct redis_asker *asker);
void slots_redis_leave(struct redis_asker *asker);
/* Moves it to whoever has its bucket now. */
void slots_redis_place(struct redis_asker *asker);
/* Makes asker->state that of asker->redis. */
void slots_redis_follow(struct redis_asker *asker);
/* Takes an answered call in as a look at Redis' clock; tells every asker of a step. */
void slots_redis_exchange(struct slots_redis *redis, const struct link_call *call, struct rtime now);
/* The largest clock step that can go unnoticed at the present speed of this link. */
int64_t slots_redis_unnoticed_us(const struct slots_redis *redis, const struct slots_terms *terms);
/* Runs a script without waiting for the reply. */
void slots_redis_tell(struct slots_redis *redis, const struct script *script, const char *key, int64_t first,
                      int64_t second);
void slots_redis_run(struct slots_redis *redis, const struct script *script, const char *const *keys, unsigned keys_count,
                     const char *const *args, unsigned args_count);
/* Not one exchange in a row was quick enough to use a grant. */
void slots_redis_too_slow(struct slots_redis *redis, const struct slots_terms *terms, int64_t took_us);
void slots_redis_bad_reply(struct slots_redis *redis, const char *what);

#endif
