/* A question to reserve.lua in the form that its head describes. */
#include "outbound/slots_redis.h"

#include <inttypes.h>
#include <stdio.h>

int64_t asker_interval_us(const struct redis_asker *self, unsigned level)
{
    const struct slots_terms *terms = &self->spec.levels[level].terms;

    return terms->interval_us + (self->slowness_us + terms->per_step_us - 1) / terms->per_step_us;
}

static void add_key(struct reserve_words *words, const char *key)
{
    must(words->keys_count < sizeof(words->keys) / sizeof(words->keys[0]));
    words->keys[words->keys_count++] = key;
}

static void add_text(struct reserve_words *words, const char *text)
{
    must(words->args_count < sizeof(words->args) / sizeof(words->args[0]));
    words->args[words->args_count++] = text;
}

static void add_number(struct reserve_words *words, int64_t number)
{
    char *text = words->text[words->args_count];

    add_text(words, text);
    snprintf(text, sizeof(words->text[0]), "%" PRId64, number);
}

static void add_quota(struct reserve_words *words, const struct quota_terms *terms, const char *key, int64_t slowness_us)
{
    static const char *const kinds[] = {
        [QUOTA_ROLLING] = "rolling", [QUOTA_COARSE] = "coarse", [QUOTA_ALIGNED] = "aligned"};
    bool aligned = terms->kind == QUOTA_ALIGNED;

    add_key(words, key);
    add_text(words, kinds[terms->kind]);
    add_number(words, terms->count);
    add_number(words, terms->span_us + (aligned ? 0 : slowness_us));
    if (aligned) {
        add_number(words, terms->offset_us);
        add_number(words, terms->guard_us + slowness_us);
    } else if (terms->kind == QUOTA_COARSE) {
        add_number(words, terms->slice_us);
    }
}

static void add_limits(struct reserve_words *words, const struct redis_asker *self, unsigned level)
{
    const struct slot_limits *limits = &self->spec.levels[level].limits;
    const struct asker_level *keys = &self->levels[level];

    for (unsigned i = 0; i < limits->quotas_count; i++) {
        add_quota(words, &limits->terms[i], keys->quotas[i], self->slowness_us);
    }
    if (limits->in_flight_most > 0) {
        add_key(words, keys->flight);
        add_text(words, "flight");
        add_number(words, limits->in_flight_most);
        add_number(words, self->spec.lease_us);
        add_number(words, self->base.flying);
    }
}

void reserve_words(struct reserve_words *words, const struct redis_asker *self, const struct grant_limits *limits)
{
    const int64_t numbers[] = {limits->interval_us, limits->late_us, limits->grace_us,
                               limits->horizon_us,  limits->want,    self->floor_us};

    words->keys_count = words->args_count = 0;
    for (int i = ASKER_EPOCH; i <= ASKER_TICKETS; i++) {
        add_key(words, self->keys[i]);
    }
    add_text(words, limits->rid);
    add_text(words, self->id);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        add_number(words, numbers[i]);
    }
    add_text(words, self->suspect);
    add_text(words, "60000");
    add_number(words, limits->cost > 0 ? limits->cost : 1);
    add_number(words, self->spec.cost_most > 0 ? self->spec.cost_most : 1);
    add_limits(words, self, 0);
    if (self->spec.levels_count > 1) {
        add_key(words, self->levels[1].bucket);
        add_key(words, self->levels[1].tickets);
        add_text(words, "parent");
        add_number(words, asker_interval_us(self, 1));
        add_number(words, self->parent_floor_us);
        add_limits(words, self, 1);
    }
}

void reserve_words_bill(struct reserve_words *words, const struct slots_bill *bill)
{
    if (bill->more != 0) {
        add_text(words, "charge");
        add_number(words, bill->more);
    }
    if (bill->left >= 0) {
        add_text(words, "left");
        add_number(words, bill->left);
        add_number(words, bill->age_us);
    }
}
