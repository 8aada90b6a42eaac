#include "inbound/admission_redis.h"

#include "base/mem.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

extern const struct script script_admit;

enum { ARGS = 7, NUMBERS = 5, NUMBER_BYTES = 24, REPLY_NUMBERS = 5 };

struct words {
    const char *keys[INBOUND_RULES_MOST];
    const char *args[INBOUND_RULES_MOST * ARGS];
    char numbers[INBOUND_RULES_MOST][NUMBERS][NUMBER_BYTES];
};

static const char *const kinds[] = {
    [ALGORITHM_TOKEN_BUCKET] = "token",           [ALGORITHM_FIXED_WINDOW] = "fixed",
    [ALGORITHM_SLIDING_WINDOW_LOG] = "log",       [ALGORITHM_SLIDING_WINDOW_COUNTER] = "counter",
    [ALGORITHM_SLIDING_WINDOW_STRICT] = "strict", [ALGORITHM_LEAKY_BUCKET] = "leaky",
};

/* Decimal digits of a number that is not negative; hot enough to do without printf. */
static const char *digits_of(int64_t number, char out[NUMBER_BYTES])
{
    char *at = out + NUMBER_BYTES - 1;

    must(number >= 0);
    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return at;
}

static void set_args(const struct inbound_rule *rule, int64_t cost, const char **args,
                     char numbers[NUMBERS][NUMBER_BYTES])
{
    struct limit limit = limit_of(rule);
    int64_t xyz[3] = {limit.unit_us, limit.unit_part, limit.parts};

    if (limit.parts == 0) { /* no bucket */
        xyz[0] = limit.algorithm == ALGORITHM_SLIDING_WINDOW_LOG ? limit.period_us : limit.width_us;
        xyz[1] = limit.slices;
    }
    args[0] = kinds[limit.algorithm];
    args[1] = digits_of(limit.most, numbers[0]);
    args[2] = digits_of(limit_cost(cost), numbers[1]);
    args[3] = rule->dry_run ? "1" : "0";
    for (unsigned i = 0; i < 3; i++) {
        args[4 + i] = digits_of(xyz[i], numbers[2 + i]);
    }
}

/* PREFIX:in:{LABEL}:RULE:HASH. The braces keep all keys of one request in one place of a cluster. */
static char *make_key(const struct admission_check *check, unsigned i, const char *prefix,
                      const struct key_hasher *hasher)
{
    const struct inbound_rule *rule = check->rules[i];
    struct key_hash hash = key_hash(hasher, check->inbound, rule, check->keys[i]);
    char text[KEY_HASH_TEXT_BYTES];

    key_hash_text(&hash, text);
    return mem_printf("%s:in:{%s}:%s:%s", prefix, check->inbound->label, rule->label, text);
}

bool admission_redis_ask(struct link *link, struct admission_check *check, const char *prefix,
                         const struct key_hasher *hasher)
{
    struct words words;
    char *keys[INBOUND_RULES_MOST];

    if (link_state(link) != LINK_UP) {
        return false;
    }
    for (unsigned i = 0; i < check->count; i++) {
        words.keys[i] = keys[i] = make_key(check, i, prefix, hasher);
        set_args(check->rules[i], check->costs[i], words.args + (size_t)i * ARGS, words.numbers[i]);
    }
    bool asked =
        link_eval(link, &check->call, &script_admit, words.keys, check->count, words.args, check->count * ARGS);
    for (unsigned i = 0; i < check->count; i++) {
        mem_free(keys[i]);
    }
    return asked;
}

/* ---- the reply ---- */

static bool is_well_formed(const struct redisReply *reply, unsigned count)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements != (size_t)count * REPLY_NUMBERS) {
        return false;
    }
    for (size_t i = 0; i < reply->elements; i++) {
        if (reply->element[i]->type != REDIS_REPLY_INTEGER) {
            return false;
        }
    }
    return true;
}

static int64_t not_negative(int64_t number)
{
    return number > 0 ? number : 0;
}

struct admission_result admission_result_of(const struct limit *limit, const struct limit_verdict *verdict)
{
    return (struct admission_result){.admitted = verdict->admitted,
                                     .limit = limit->most,
                                     .window_us = limit->period_us,
                                     .remaining = verdict->remaining,
                                     .retry_after_us = verdict->retry_after_us,
                                     .reset_us = verdict->reset_us};
}

bool admission_redis_read(const struct redisReply *reply, struct admission_check *check, enum admission_note *note)
{
    *note = ADMISSION_FINE;
    if (!is_well_formed(reply, check->count)) {
        return false;
    }
    check->admitted = true;
    for (unsigned i = 0; i < check->count; i++) {
        struct redisReply **numbers = reply->element + (size_t)i * REPLY_NUMBERS;
        struct limit limit = limit_of(check->rules[i]);
        struct limit_verdict verdict = {.admitted = numbers[0]->integer == 1,
                                        .remaining = not_negative(numbers[1]->integer),
                                        .retry_after_us = numbers[2]->integer,
                                        .reset_us = not_negative(numbers[3]->integer)};
        verdict.retry_after_us = verdict.retry_after_us < 0 ? CLOCK_NEVER_US : verdict.retry_after_us;
        check->results[i] = admission_result_of(&limit, &verdict);
        check->admitted = check->admitted && (verdict.admitted || check->rules[i]->dry_run);
        if (numbers[4]->integer == 1) {
            *note = ADMISSION_KEY_RESET;
        } else if (numbers[4]->integer == 2 && *note == ADMISSION_FINE) {
            *note = ADMISSION_FROM_FUTURE;
        }
    }
    return true;
}
