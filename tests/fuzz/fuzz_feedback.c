/* links: src/http/feedback.c src/http/budget.c src/http/chars.c src/http/when.c src/http/message.c src/base/str.c src/base/mem.c src/base/must.c */
/* The first byte is the status and what is believed, the rest are values of fields, one per line. */
#include "http/budget.h"
#include "http/feedback.h"
#include "http/when.h"

#include <stdint.h>
#include <string.h>

enum { FIELDS = 8 };

static struct status_range some[] = {{429, 429}, {500, 599}};
static struct answer_rule rules[] = {{{100, 599}, "Retry-After", NULL}, {{403, 403}, "X-RateLimit-Remaining", "0"}};
static struct time_field pauses[] = {{"Retry-After", TIME_AUTO}, {"RateLimit", TIME_IETF}, {"Reset", TIME_UNIX},
                                     {"Wait", TIME_GODUR},       {"Until", TIME_ISO8601},  {"Ms", TIME_MS}};
static struct budget_field budgets[] = {{NULL, {"RateLimit", TIME_IETF}},
                                        {"X-RateLimit-Remaining", {"Reset", TIME_AUTO}}};
static const char *const names[FIELDS] = {"Retry-After",           "RateLimit", "Reset", "Wait", "Until", "Ms",
                                          "X-RateLimit-Remaining", "Date"};

static void check(const struct feedback *f)
{
    must(f->pause_us >= 0 && f->pause_us <= WHEN_FOREVER_US);
    must(!f->throttled || !f->banned);
    must(f->remaining >= 0 && f->reset_us >= 0 && f->reset_us <= WHEN_FOREVER_US);
    must(f->empty_us >= 0 && f->empty_us <= WHEN_FOREVER_US);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct feedback_conf conf = {.on = true,
                                 .adapt = len > 0 && (bytes[0] & 1) != 0,
                                 .throttle_status = some,
                                 .throttle_status_count = 1,
                                 .throttle_if = rules,
                                 .throttle_if_count = 2,
                                 .ban_status = some,
                                 .ban_status_count = len > 0 && (bytes[0] & 2) != 0 ? 2 : 0,
                                 .pause_header = pauses,
                                 .pause_header_count = 6,
                                 .budget_header = budgets,
                                 .budget_header_count = 2};
    struct field fields[FIELDS];
    struct message m = {.status = len > 0 ? 400 + bytes[0] : 200, .fields = fields};
    struct slice rest = {(const char *)bytes + (len > 0), len - (len > 0)};
    struct feedback f;

    for (; m.fields_count < FIELDS && rest.len > 0; m.fields_count++) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        struct slice line = {rest.ptr, end != NULL ? (size_t)(end - rest.ptr) : rest.len};
        fields[m.fields_count] = (struct field){.name = slice_of(names[m.fields_count]), .value = line};
        rest.ptr += line.len + (end != NULL);
        rest.len -= line.len + (end != NULL);
    }
    feedback_read(&m, &conf, (struct wall){INT64_C(1792567000) * CLOCK_SECOND_US}, &f);
    check(&f);
    return 0;
}
