#ifndef SLUICE_OUTBOUND_OUTBOUND_H
#define SLUICE_OUTBOUND_OUTBOUND_H
/*
 * Waiting for a slot. An exchange embeds a waiter, enqueues it in a bucket, and is called back: first when it is near its turn (get a
 * connection ready), then at its slot (send now), or when it can't be served. Knows nothing of HTTP or sockets.
 *
 *   bucket   one destination (or one unlisted host); holds a bounded FIFO of waiters and a pacer
 *   pacer    asks for slots for the head of the queue only, just in time; releases inside the granted window or not at all
 *   slots    who hands out slots: Redis (slots_redis.c) or this process alone (slots_local.c); same arithmetic, same vectors
 */
#include "base/loop.h"
#include "conf/policy.h"
#include "outbound/tally.h"
#include "outbound/word.h"
#include "redis/link.h"

struct outbound;
struct bucket;
struct pacer;
struct waiter;

/* X(name, text): why a waiter is given up */
enum give_up {
    GIVE_UP_DEADLINE,   /* its deadline came while it waited */
    GIVE_UP_REDIS_DOWN, /* Redis is gone and on_redis_down = reject */
    GIVE_UP_QUOTA,      /* a quota is used up and quota_action = reject */
    GIVE_UP_PAUSED,     /* its deadline will come before the end of a pause */
    GIVE_UP_COST,       /* new settings: it costs more than a quota ever has */
    GIVE_UP_PURGED,     /* an operator emptied the queue */
};

/* Every call is made from the loop, never from inside bucket_*(). When one is made the waiter is: */
struct waiter_ops {
    void (*on_near)(struct waiter *waiter);    /* still queued, among the next to leave: get a connection, then bucket_ready() */
    void (*on_release)(struct waiter *waiter, struct mono now); /* off the queue, ready, inside its window: send at once */
    void (*on_give_up)(struct waiter *waiter, enum give_up why); /* off the queue */
};

/* Which waiters go first; each class keeps a share, so none waits for ever (queue.c). */
enum waiter_class { WAITER_HIGH, WAITER_NORMAL, WAITER_LOW, WAITER_CLASSES };

struct waiter {
    uint32_t magic;
    TAILQ_ENTRY(waiter) link;
    /* set before it is enqueued, all zero will do */
    const struct waiter_ops *ops;
    enum waiter_class class;
    uint64_t flow;   /* whose it is, as a hash: with order = fair, flows take turns */
    unsigned weight; /* of its flow: so many in a row, 0 = 1 */
    unsigned cost;   /* 0 = 1 */
    /* the queue's own */
    uint64_t round;
    bool returned;
    struct bucket *flies_in; /* counts against max_in_flight of that bucket until bucket_finish() */
    struct bucket *bucket; /* non-NULL while queued */
    struct mono enqueued;
    struct timer deadline;
    bool near;  /* on_near was called */
    bool ready; /* has a connection */
    struct mono near_since;
    struct mono released, window_last; /* when it left, and the end of the window it left in */
    struct pacer *shed_by;             /* internal */
};

enum enqueue {
    ENQUEUE_OK,
    ENQUEUE_FULL,       /* max_queue waiters already */
    ENQUEUE_TOO_LONG,   /* predicted wait beyond the patience */
    ENQUEUE_REDIS_DOWN, /* Redis is gone and on_redis_down = reject */
    ENQUEUE_QUOTA,      /* a quota is used up and quota_action = reject */
    ENQUEUE_COST,       /* it costs more than a quota ever has */
};
struct forecast {
    int64_t wait_us;        /* predicted wait of this waiter */
    int64_t retry_after_us; /* when a refused caller may try again with success, if nobody else comes */
    unsigned position;      /* waiters ahead of it */
};

/* `link` NULL: slots by this process alone. `link` must outlive outbound. */
struct outbound *outbound_new(struct loop *loop, struct link *link, const char *prefix, const char *replica_id);
/* No waiters may be left. */
void outbound_free(struct outbound *outbound);
/* At most so many buckets beside the configured ones: of parts, and of hosts without a section. Idle ones make room, those used
 * longest ago first. */
void outbound_set_most(struct outbound *outbound, unsigned most);
/* For each configured destination: starts its epoch clock in Redis now, not at the first request. */
void outbound_warm(struct outbound *outbound, struct policy *policy, const char *name);
/* Other settings: every configured destination's bucket gets its new policy (waiters keep their places), what came is warmed as above, what is
 * gone works off its waiters under the policy it had and is then forgotten. Takes a while, a little at a time, so that no slot is late for
 * it; buckets that are asked for meanwhile change at once. `conf` must stay until the next call, or outbound_free(). */
void outbound_adopt(struct outbound *outbound, const struct conf *conf);
/* Which bucket: of a destination, or a part of it. */
struct bucket_id {
    const char *destination; /* its label, or for hosts without a section "default:HOST" */
    const char *part;        /* "" = all of it; else what tells this part from others: a route, a key's hash */
    const char *parent;      /* of a route: the part of the destination that limits it as well */
    bool again;              /* for a waiter that had it before: made even where there are too many */
};
/* The bucket of that identity under a policy, a route's or a destination's; as outbound_bucket(), but NULL where there are as many
 * as may be and none is idle. */
struct bucket *outbound_part(struct outbound *outbound, struct policy *policy, const struct bucket_id *id);
/* The bucket of that name, made when needed; idle ones are forgotten after a while. Valid until the next turn of the loop unless a waiter is in it. */
struct bucket *outbound_bucket(struct outbound *outbound, struct policy *policy, const char *name);
/* Waiters in all buckets. */
unsigned outbound_waiting(const struct outbound *outbound);

/* `patience_us` is the policy's max_wait or less. Fills `forecast` in every case. A waiter must have its ops set. */
enum enqueue bucket_enqueue(struct bucket *bucket, struct waiter *waiter, int64_t patience_us, struct forecast *forecast) MUST_CHECK;
/* As bucket_enqueue but at the head and without checks: for a waiter that was released and whose slot was not used, because its connection
 * died before any byte left. `slot_unused` says so; its window is used again if it is still open. */
void bucket_return(struct bucket *bucket, struct waiter *waiter, struct mono deadline, bool slot_unused);
/* The waiter has (or has lost) a connection. Only between on_near and on_release. */
void bucket_ready(struct waiter *waiter, bool ready);
/* Takes it off the queue, wherever it is; costs no slot. No effect when not queued. */
void bucket_cancel(struct waiter *waiter);

/* What was released is over: it no longer counts against max_in_flight. `more` units were spent by it than it was let out for, or
 * with less than 0 fewer. No effect on a waiter that counts nowhere. */
void bucket_finish(struct waiter *waiter, int64_t more);
/* The same; and the third party says that so many units of its quota, the first one, are left. Below 0: it says nothing. */
void bucket_finish_left(struct waiter *waiter, int64_t more, int64_t left);

/* No releases for that long, on any replica: the third party, or who operates this, said so. Never shortens a pause; at most a day. */
void bucket_pause(struct bucket *bucket, int64_t for_us);
/* Ends a pause on every replica, whoever asked for it; none is needed. */
void bucket_resume(struct bucket *bucket);

struct bucket_stats {
    const char *name;
    const char *destination; /* of a part: the whole */
    const struct policy *policy;
    const struct tally *tally;
    const char *mode; /* paced, or without Redis: hold, reserve, reject, open */
    unsigned waiting;
    unsigned others, others_waiting; /* other replicas with waiters, and how many; as of a second ago, while some wait here */
    int64_t wait_us;                 /* predicted for who would come now */
    int64_t oldest_us;               /* how long the first has waited */
    int64_t paused_us;               /* what is left of a pause */
    enum stop stopped;               /* why, when an answer of the third party brought it */
    int64_t slow;                    /* permille of the configured interval */
    int64_t interval_us;
    uint64_t released, late_windows, wasted_windows, cancelled, gave_up, refused;
    uint64_t redis_calls;
    uint64_t limits_differ; /* times that another replica was found to have other limits for this bucket */
    unsigned most_in_window; /* most releases of this process in any period so far, against rate.count */
    unsigned parts;          /* a bucket for each key, host or route besides this one, now */
    unsigned in_flight;      /* of this process, where max_in_flight counts them */
};
void bucket_stats(const struct bucket *bucket, struct bucket_stats *out);
typedef void outbound_visit(void *arg, const struct bucket_stats *stats);
/* Calls `each` for every bucket. */
void outbound_each(struct outbound *outbound, outbound_visit *each, void *arg);
/* For every configured one, in the order of the file. */
void outbound_each_kept(struct outbound *outbound, outbound_visit *each, void *arg);
/* The configured one of that name. False: there is none. */
bool outbound_look(const struct outbound *outbound, const char *name, struct bucket_stats *out) MUST_CHECK;
/* For others, of hosts without a section, that have waiters or are paused: at most `most` of them, and however many there are, only some are
 * looked at. */
void outbound_each_busy(struct outbound *outbound, unsigned most, outbound_visit *each, void *arg);
/* What would be in force for a host without a section that came now: `configured`, or as ordered; and for how long it
 * would be paused by an order. */
const struct policy *outbound_unlisted_policy(struct outbound *outbound, struct policy *configured, int64_t *paused_us);
/* What all of those did, forgotten ones too. */
const struct tally *outbound_unlisted(const struct outbound *outbound);

#endif
