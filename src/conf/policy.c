/*
 * The life of a policy, and the spacing of its slots.
 *
 * Why slots are further apart than W / N (N requests per W): a release may be displaced from its slot, by up to `late`
 * when the process is slow, `path_jitter` on the way, and a step of the clock that nobody could notice (3 ms: larger
 * ones show in the round trips to Redis). Call the sum D. N + 1 releases have N intervals between the first and the
 * last slot, and may be pushed together by D; so with N * I >= (W + D) they still span more than W, and no window of
 * length W holds more than N. The clocks of two machines run at rates that differ by less than rho = 1/1000, which the
 * last factor pays for. With STRICT_GAP the same is asked of each neighbouring pair: I >= W / N + D.
 *
 * With on_redis_down = reserve, replicas_max * outage_permits of the N are each replica's own, outside the shared slots
 * and at any time; the shared slots are spaced for what is left.
 *
 * All in integers, rounded up: one microsecond short would be one request over the limit, some day.
 */
#include "conf/policy.h"

#include "base/mem.h"
#include "conf/build.h"

#define POLICY_MAGIC 0x504f4c49u
#define CLOCK_STEP_US (3 * CLOCK_MS_US)
/* 1 + rho as a fraction */
#define RATE_ERROR_OVER 1001
#define RATE_ERROR_UNDER 1000

__extension__ typedef __int128 wide;

struct policy *policy_new(const char *label, unsigned line)
{
    struct policy *policy = mem_zalloc(sizeof *policy);

    policy->magic = POLICY_MAGIC;
    policy->refs = 1;
    policy->label = mem_strdup(label);
    policy->line = line;
    return policy;
}

static char *copy(const char *text)
{
    return text != NULL ? mem_strdup(text) : NULL;
}

void order_terms_fini(struct order_terms *terms)
{
    for (unsigned i = 0; i < terms->count; i++) {
        mem_free(terms->list[i].name);
        mem_free(terms->list[i].value);
    }
    mem_free(terms->list);
    *terms = (struct order_terms){NULL, 0};
}

struct order_terms order_terms_copy(const struct order_terms *from)
{
    struct order_terms terms = {NULL, from->count};

    if (from->count > 0) {
        terms.list = mem_alloc(from->count * sizeof(terms.list[0]));
    }
    for (unsigned i = 0; i < from->count; i++) {
        terms.list[i] = from->list[i];
        terms.list[i].name = copy(from->list[i].name);
        terms.list[i].value = copy(from->list[i].value);
    }
    return terms;
}

static struct key_source *keys_copy(const struct policy *from)
{
    struct key_source *keys = from->keys_count > 0 ? mem_alloc(from->keys_count * sizeof(keys[0])) : NULL;

    for (unsigned i = 0; i < from->keys_count; i++) {
        keys[i] = from->keys[i];
        keys[i].name = copy(from->keys[i].name);
    }
    return keys;
}

static struct quota_limit *quotas_copy(const struct policy *from)
{
    struct quota_limit *quotas = from->quotas_count > 0 ? mem_alloc(from->quotas_count * sizeof(quotas[0])) : NULL;

    for (unsigned i = 0; i < from->quotas_count; i++) {
        quotas[i] = from->quotas[i];
    }
    return quotas;
}

struct policy *policy_inherit_route(struct policy *from, const char *label, unsigned line)
{
    struct policy *policy = policy_inherit(from, label, line);

    mem_free(policy->quotas);
    policy->quotas = NULL;
    policy->quotas_count = 0;
    policy->max_in_flight = 0;
    policy->parent = policy_get(from);
    return policy;
}

struct policy *policy_inherit(const struct policy *from, const char *label, unsigned line)
{
    must_be(from, POLICY_MAGIC);
    struct policy *policy = mem_alloc(sizeof *policy);

    *policy = *from;
    policy->refs = 1;
    policy->label = mem_strdup(label);
    policy->line = line;
    policy->hosts = NULL;
    policy->hosts_count = 0;
    policy->destination = NULL;
    policy->parent = NULL;
    policy->routes = NULL;
    policy->routes_count = 0;
    policy->methods = NULL;
    policy->methods_count = 0;
    policy->path = NULL;
    policy->keys = keys_copy(from);
    policy->quotas = quotas_copy(from);
    policy->cost_header = copy(from->cost_header);
    policy->cost_answer = copy(from->cost_answer);
    policy->ca_file = copy(from->ca_file);
    policy->client_cert = copy(from->client_cert);
    policy->client_key = copy(from->client_key);
    policy->fair_by = order_terms_copy(&from->fair_by);
    policy->fair_weights = order_terms_copy(&from->fair_weights);
    policy->priority_high = order_terms_copy(&from->priority_high);
    policy->priority_low = order_terms_copy(&from->priority_low);
    feedback_conf_own(&policy->feedback);
    return policy;
}

struct policy *policy_with_rate(const struct policy *from, const struct rate *rate, struct policy *parent)
{
    struct policy *policy = policy_inherit(from, from->label, from->line);

    policy->rate = *rate;
    policy->parent = parent != NULL ? policy_get(parent) : NULL;
    return policy;
}

struct policy *policy_get(struct policy *policy)
{
    must_be(policy, POLICY_MAGIC);
    uint32_t before = policy->refs++;
    must(before > 0 && before < UINT32_MAX);
    return policy;
}

void policy_put(struct policy *policy)
{
    must_be(policy, POLICY_MAGIC);
    uint32_t before = policy->refs--;
    must(before > 0);
    if (before > 1) {
        return;
    }
    for (unsigned i = 0; i < policy->hosts_count; i++) {
        mem_free(policy->hosts[i].host);
    }
    mem_free(policy->hosts);
    for (unsigned i = 0; i < policy->methods_count; i++) {
        mem_free(policy->methods[i]);
    }
    for (unsigned i = 0; i < policy->keys_count; i++) {
        mem_free(policy->keys[i].name);
    }
    if (policy->parent != NULL) {
        policy_put(policy->parent);
    }
    mem_free((void *)policy->methods);
    mem_free((void *)policy->routes);
    mem_free(policy->keys);
    mem_free(policy->quotas);
    mem_free(policy->path);
    mem_free(policy->destination);
    mem_free(policy->cost_header);
    mem_free(policy->cost_answer);
    mem_free(policy->label);
    mem_free(policy->ca_file);
    mem_free(policy->client_cert);
    mem_free(policy->client_key);
    order_terms_fini(&policy->fair_by);
    order_terms_fini(&policy->fair_weights);
    order_terms_fini(&policy->priority_high);
    order_terms_fini(&policy->priority_low);
    feedback_conf_fini(&policy->feedback);
    policy->magic = ~POLICY_MAGIC;
    mem_free(policy);
}

int64_t policy_displacement_us(const struct policy *policy)
{
    return policy->late_us + policy->path_jitter_us + CLOCK_STEP_US;
}

/* N of the shared slots. */
static int64_t shared_count(const struct policy *policy)
{
    wide count = policy->rate.count;

    if (policy->on_redis_down == REDIS_DOWN_RESERVE) {
        count -= (wide)policy->outage_permits * policy->replicas_max;
    }
    return count < 1 ? 1 : (int64_t)count;
}

int64_t policy_interval_us(const struct policy *policy)
{
    wide count = shared_count(policy);
    wide displacement = policy_displacement_us(policy);
    /* (W / N + D) is (W + D * N) / N */
    wide span = policy->rate.period_us + displacement * (policy->strict == STRICT_GAP ? count : 1);
    wide under = count * RATE_ERROR_UNDER;
    wide interval = (span * RATE_ERROR_OVER + under - 1) / under;

    return interval > INT64_MAX ? INT64_MAX : (int64_t)interval;
}
