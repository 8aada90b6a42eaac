#include "admission_twins.h"

#include "../sim/fake_redis.h"
#include "base/mem.h"
#include "inbound/admission_redis.h"

#include <stdio.h>
#include <string.h>

#define LOG_ROOM 8192

/* The link of these tests: runs the script on the spot and keeps the reply. */
struct link {
    struct fake_redis *redis;
    struct redisReply *reply;
    char key[128];
};

struct twins {
    struct link server;
    struct key_hasher *hasher;
    union limit_state states[INBOUND_RULES_MOST];
    int note;
};

enum link_state link_state(const struct link *link)
{
    (void)link;
    return LINK_UP;
}

bool link_eval(struct link *link, struct link_call *call, const struct script *script, const char *const *keys,
               unsigned keys_count, const char *const *args, unsigned args_count)
{
    (void)call;
    snprintf(link->key, sizeof(link->key), "%s", keys[0]);
    link->reply = fake_redis_eval(link->redis, script, keys, keys_count, args, args_count);
    return true;
}

struct twins *twins_new(void)
{
    struct twins *twins = mem_zalloc(sizeof(*twins));

    twins->server.redis = fake_redis_new();
    twins->hasher = key_hasher_new("secret", 6);
    return twins;
}

void twins_free(struct twins *twins)
{
    for (unsigned i = 0; i < INBOUND_RULES_MOST; i++) {
        if (twins->states[i].log.room == LOG_ROOM) {
            mem_free(twins->states[i].log.entries);
        }
    }
    fake_redis_free(twins->server.redis);
    key_hasher_free(twins->hasher);
    mem_free(twins);
}

struct fake_redis *twins_redis(struct twins *twins)
{
    return twins->server.redis;
}

const char *twins_key(const struct twins *twins)
{
    return twins->server.key;
}

int twins_note(const struct twins *twins)
{
    return twins->note;
}

bool twins_decide_c(struct twins *twins, const struct inbound_rule *const *rules, const int64_t *costs, unsigned count,
                    int64_t now_us, struct admission_result *out)
{
    struct limit_try tries[INBOUND_RULES_MOST];

    for (unsigned i = 0; i < count; i++) {
        union limit_state *state = &twins->states[rules[i]->label[0] - 'a'];
        if (rules[i]->algorithm == ALGORITHM_SLIDING_WINDOW_LOG && state->log.room == 0) {
            state->log.entries = mem_zalloc(LOG_ROOM * sizeof(struct log_entry));
            state->log.room = LOG_ROOM;
        }
        tries[i] = (struct limit_try){limit_of(rules[i]), state, limit_cost(costs[i]), rules[i]->dry_run, {0}};
    }
    bool admitted = limit_decide(tries, count, now_us);
    for (unsigned i = 0; i < count; i++) {
        out[i] = admission_result_of(&tries[i].limit, &tries[i].verdict);
    }
    return admitted;
}

bool twins_decide_lua(struct twins *twins, const struct inbound_rule *const *rules, const int64_t *costs,
                      unsigned count, int64_t now_us, struct admission_result *out)
{
    char label[] = "api";
    struct inbound_conf inbound = {.label = label};
    struct admission_check check = {.inbound = &inbound, .count = count};
    enum admission_note note;

    fake_redis_set_time(twins->server.redis, now_us);
    for (unsigned i = 0; i < count; i++) {
        check.rules[i] = rules[i];
        check.costs[i] = costs[i];
        check.keys[i] = slice_of("somebody");
    }
    must(admission_redis_ask(&twins->server, &check, "test", twins->hasher));
    must(admission_redis_read(twins->server.reply, &check, &note));
    fake_reply_free(twins->server.reply);
    twins->note = note;
    memcpy(out, check.results, count * sizeof(out[0]));
    return check.admitted;
}
