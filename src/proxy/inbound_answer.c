/*
 * What a caller is told about its limits: draft-ietf-httpapi-ratelimit-headers for RateLimit-Policy (what is allowed),
 * RateLimit (what is left) and the problem type of the 429; where asked for also the X-RateLimit trio that older
 * clients read, for whichever limit is nearest to refusing.
 *
 *     RateLimit-Policy: "default";q=10;w=1
 *     RateLimit: "default";r=3;t=1
 *
 * t and Retry-After are whole seconds and rounded up, for who comes at the second told must be admitted. A limit in dry
 * run is nothing that a client should heed, so it is told in a field of our own. Without having looked (Redis is gone)
 * nothing is claimed.
 */
#include "proxy/inbound_answer.h"

#include "base/mem.h"
#include "http/write.h"
#include "proxy/verdict.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define QUOTA_EXCEEDED "https://iana.org/assignments/http-problem-types#quota-exceeded"

static int64_t seconds_up(int64_t us)
{
    return us / CLOCK_SECOND_US + (us % CLOCK_SECOND_US > 0 ? 1 : 0);
}

/* The time in which the whole quota comes: the period, or for a bucket as long as filling it takes. */
static int64_t window_s(const struct inbound_rule *rule, const struct admission_result *result)
{
    int64_t whole = result->limit / rule->rate.count, rest = result->limit % rule->rate.count;
    double us =
        (double)whole * (double)result->window_us + (double)rest * (double)result->window_us / (double)rule->rate.count;

    return seconds_up(us < (double)INT64_MAX / 2 ? (int64_t)us : INT64_MAX / 2);
}

static bool refuses(const struct admission_check *check, unsigned i)
{
    return !check->results[i].admitted && !check->rules[i]->dry_run;
}

/* RFC 9651 integers have at most 15 digits. */
static int64_t until_more_s(const struct admission_result *result)
{
    return seconds_up(result->admitted ? result->reset_us : result->retry_after_us);
}

static void add_standing(struct buf *out, const struct admission_check *check, unsigned i)
{
    const struct admission_result *result = &check->results[i];

    buf_printf(out, "\"%s\";r=%" PRId64, check->rules[i]->label, result->remaining);
    if (result->admitted || result->retry_after_us != CLOCK_NEVER_US) {
        buf_printf(out, ";t=%" PRId64, until_more_s(result));
    }
}

static void add_ietf(struct buf *out, const struct admission_check *check)
{
    struct buf policy = {0}, standing = {0};

    for (unsigned i = 0; i < check->count; i++) {
        if (check->rules[i]->dry_run) {
            continue;
        }
        if (buf_len(&policy) > 0) {
            buf_add_str(&policy, ", ");
            buf_add_str(&standing, ", ");
        }
        buf_printf(&policy, "\"%s\";q=%" PRId64 ";w=%" PRId64, check->rules[i]->label, check->results[i].limit,
                   window_s(check->rules[i], &check->results[i]));
        add_standing(&standing, check, i);
    }
    if (buf_len(&policy) > 0) {
        buf_printf(out, "RateLimit-Policy: %.*s\r\nRateLimit: %.*s\r\n", (int)buf_len(&policy), buf_ptr(&policy),
                   (int)buf_len(&standing), buf_ptr(&standing));
    }
    buf_fini(&policy);
    buf_fini(&standing);
}

/* Nearer to refusing: the one that refuses longest, else the one with least left. */
static bool is_nearer(const struct admission_check *check, unsigned a, unsigned b)
{
    const struct admission_result *mine = &check->results[a], *other = &check->results[b];

    if (mine->admitted != other->admitted) {
        return !mine->admitted;
    }
    return mine->admitted ? mine->remaining < other->remaining : mine->retry_after_us > other->retry_after_us;
}

static void add_legacy(struct buf *out, const struct admission_check *check)
{
    unsigned nearest = check->count;

    for (unsigned i = 0; i < check->count; i++) {
        if (!check->rules[i]->dry_run && (nearest == check->count || is_nearer(check, i, nearest))) {
            nearest = i;
        }
    }
    if (nearest == check->count) {
        return;
    }
    const struct admission_result *result = &check->results[nearest];
    buf_printf(out,
               "X-RateLimit-Limit: %" PRId64 "\r\nX-RateLimit-Remaining: %" PRId64 "\r\nX-RateLimit-Reset: %" PRId64
               "\r\n",
               result->limit, result->remaining, seconds_up(result->reset_us));
}

static void add_dry_runs(struct buf *out, const struct admission_check *check)
{
    bool any = false;

    for (unsigned i = 0; i < check->count; i++) {
        if (check->rules[i]->dry_run) {
            buf_add_str(out, any ? ", " : "Sluice-Dry-Run: ");
            any = true;
            add_standing(out, check, i);
            buf_add_str(out, check->results[i].admitted ? "" : ";refused");
        }
    }
    if (any) {
        buf_add_str(out, "\r\n");
    }
}

void inbound_fields(struct buf *out, const struct admission_check *check)
{
    if (check->unchecked || check->inbound->headers == INBOUND_HEADERS_OFF) {
        return;
    }
    add_ietf(out, check);
    if (check->inbound->headers == INBOUND_HEADERS_LEGACY) {
        add_legacy(out, check);
    }
    add_dry_runs(out, check);
}

int64_t inbound_retry_after_s(const struct admission_check *check)
{
    int64_t longest_us = 0;

    for (unsigned i = 0; i < check->count; i++) {
        if (refuses(check, i) && check->results[i].retry_after_us > longest_us) {
            longest_us = check->results[i].retry_after_us;
        }
    }
    if (longest_us == CLOCK_NEVER_US) {
        return 0;
    }
    return longest_us > CLOCK_SECOND_US ? seconds_up(longest_us) : 1;
}

static char *problem_json(const struct admission_check *check, int64_t retry_after_s)
{
    json_t *problem = json_object(), *violated = json_array();

    for (unsigned i = 0; i < check->count; i++) {
        if (refuses(check, i)) {
            json_array_append_new(violated, json_string(check->rules[i]->label));
        }
    }
    json_object_set_new(problem, "type", json_string(QUOTA_EXCEEDED));
    json_object_set_new(problem, "title",
                        json_string("Request cannot be satisfied as assigned quota has been exceeded"));
    json_object_set_new(problem, "status", json_integer(429));
    json_object_set_new(problem, "violated-policies", violated);
    if (retry_after_s > 0) {
        json_object_set_new(problem, "retry_after_s", json_integer(retry_after_s));
    } else {
        json_object_set_new(problem, "detail", json_string("this one request costs more than the limit ever has"));
    }
    char *text = json_dumps(problem, JSON_COMPACT);
    json_decref(problem);
    must(text != NULL);
    return text;
}

static unsigned refuse_unchecked(struct buf *out, bool close, bool head_only)
{
    struct refusal refusal = {
        .verdict = VERDICT_REDIS_DOWN,
        .title = "Limits can't be looked at now",
        .detail = "Redis is out of reach, and on_redis_down = closed",
        .retry_after_us = CLOCK_SECOND_US,
    };

    refusal_write(out, &refusal, close, head_only);
    return refusal_status(&refusal);
}

unsigned inbound_refuse(struct buf *out, const struct admission_check *check, bool close, bool head_only)
{
    if (check->unchecked) {
        return refuse_unchecked(out, close, head_only);
    }
    int64_t retry_after_s = inbound_retry_after_s(check);
    char *body = problem_json(check, retry_after_s);
    buf_printf(out,
               "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
               "Cache-Control: no-store\r\n",
               strlen(body));
    write_date(out, clock_wall_now());
    if (retry_after_s > 0) {
        buf_printf(out, "Retry-After: %" PRId64 "\r\n", retry_after_s);
    }
    inbound_fields(out, check);
    buf_add_str(out, close ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n");
    if (!head_only) {
        buf_add_str(out, body);
    }
    free(body);
    return 429;
}
