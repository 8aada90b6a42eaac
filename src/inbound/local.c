/*
 * A table of callers by their keyed hash (nobody outside can aim at one of its chains), least recently used first.
 *
 *   sweep   a hand goes round the list and looks at a few callers per decision, more than a decision can add, so idle
 * ones go while others come and no single decision pays for many full    the least recently used goes, idle or not:
 * memory is bounded whatever comes in. That caller begins anew, which is the lesser evil against refusing strangers;
 * local_forgotten tells.
 *
 * A log (sliding_window_log) grows by doubling, here and not in the arithmetic, and all logs together have a bound too.
 */
#include "inbound/local.h"

#include "base/mem.h"

#include <string.h>
#include <sys/queue.h>
#include <uthash.h>

#define LOCAL_MAGIC 0x6c6f636bu
enum { SWEEP_COUNT = 2 * INBOUND_RULES_MOST, LOG_ROOM_LEAST = 8 };

struct local_key {
    struct key_hash hash;
    union limit_state state;
    bool has_log;
    int64_t idle_us; /* from then on it is as good as none */
    TAILQ_ENTRY(local_key) link;
    UT_hash_handle hh;
};

struct local {
    uint32_t magic;
    struct local_key *table;
    TAILQ_HEAD(, local_key) by_use;
    struct local_key *hand; /* the next to look at; NULL = from the front */
    unsigned keys_most;
    size_t log_bytes, log_bytes_most;
    uint64_t forgotten;
};

struct local *local_new(unsigned keys_most, size_t log_bytes_most)
{
    struct local *local = mem_zalloc(sizeof(*local));

    must(keys_most >= INBOUND_RULES_MOST);
    local->magic = LOCAL_MAGIC;
    local->keys_most = keys_most;
    local->log_bytes_most = log_bytes_most;
    TAILQ_INIT(&local->by_use);
    return local;
}

static size_t log_bytes(const struct local_key *key)
{
    return key->has_log ? key->state.log.room * sizeof(struct log_entry) : 0;
}

static void unlink_key(struct local *local, struct local_key *key)
{
    if (local->hand == key) {
        local->hand = TAILQ_NEXT(key, link);
    }
    TAILQ_REMOVE(&local->by_use, key, link);
}

static void forget(struct local *local, struct local_key *key)
{
    unlink_key(local, key);
    HASH_DEL(local->table, key);
    local->log_bytes -= log_bytes(key);
    if (key->has_log) {
        mem_free(key->state.log.entries);
    }
    mem_free(key);
}

void local_free(struct local *local)
{
    struct local_key *key;

    must_be(local, LOCAL_MAGIC);
    while ((key = TAILQ_FIRST(&local->by_use)) != NULL) {
        forget(local, key);
    }
    local->magic = 0;
    mem_free(local);
}

unsigned local_count(const struct local *local)
{
    return HASH_COUNT(local->table);
}

uint64_t local_forgotten(const struct local *local)
{
    return local->forgotten;
}

void local_sweep(struct local *local, int64_t now_us)
{
    must_be(local, LOCAL_MAGIC);
    for (unsigned i = 0; i < SWEEP_COUNT; i++) {
        struct local_key *key = local->hand != NULL ? local->hand : TAILQ_FIRST(&local->by_use);
        if (key == NULL) {
            return;
        }
        local->hand = TAILQ_NEXT(key, link);
        if (key->idle_us <= now_us) {
            forget(local, key);
        }
        if (local->hand == NULL) {
            return; /* once round is enough */
        }
    }
}

/* The callers of one request are the last in use, so they are never the ones to go. */
static void make_room(struct local *local, size_t more_log_bytes)
{
    while (local_count(local) >= local->keys_most ||
           (local->log_bytes + more_log_bytes > local->log_bytes_most && local_count(local) > INBOUND_RULES_MOST)) {
        forget(local, TAILQ_FIRST(&local->by_use));
        local->forgotten++;
    }
}

static struct local_key *add(struct local *local, const struct key_hash *hash, const struct limit *limit)
{
    make_room(local, 0);
    struct local_key *key = mem_zalloc(sizeof(*key));

    key->hash = *hash;
    key->has_log = limit->algorithm == ALGORITHM_SLIDING_WINDOW_LOG;
    TAILQ_INSERT_TAIL(&local->by_use, key, link);
    HASH_ADD(hh, local->table, hash, sizeof(key->hash), key);
    return key;
}

/* Straightens the ring into a larger one. */
static void grow(struct local *local, struct local_key *key)
{
    struct sliding_log *log = &key->state.log;
    uint32_t room = log->room > 0 ? 2 * log->room : LOG_ROOM_LEAST;
    size_t more_bytes = (room - log->room) * sizeof(struct log_entry);

    make_room(local, more_bytes);
    struct log_entry *entries = mem_alloc(room * sizeof(struct log_entry));
    for (uint32_t i = 0; i < log->count; i++) {
        entries[i] = log->entries[(log->first + i) % log->room];
    }
    mem_free(log->entries);
    local->log_bytes += more_bytes;
    log->entries = entries;
    log->first = 0;
    log->room = room;
}

struct local_key *local_get(struct local *local, const struct key_hash *hash, const struct limit *limit)
{
    struct local_key *key;

    must_be(local, LOCAL_MAGIC);
    HASH_FIND(hh, local->table, hash, sizeof(*hash), key);
    if (key == NULL) {
        key = add(local, hash, limit);
    } else {
        unlink_key(local, key);
        TAILQ_INSERT_TAIL(&local->by_use, key, link);
    }
    must(key->has_log == (limit->algorithm == ALGORITHM_SLIDING_WINDOW_LOG)); /* the algorithm is part of the hash */
    if (key->has_log && key->state.log.count == key->state.log.room) {
        grow(local, key);
    }
    return key;
}

union limit_state *local_state(struct local_key *key)
{
    return &key->state;
}

void local_put(struct local_key *key, const struct limit *limit)
{
    key->idle_us = limit_idle_at(limit, &key->state);
}
