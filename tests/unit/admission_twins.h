#ifndef SLUICE_TESTS_ADMISSION_TWINS_H
#define SLUICE_TESTS_ADMISSION_TWINS_H
/* One caller's limits decided twice: by the arithmetic in C and by the script, under Lua 5.1 and a fake Redis. */
#include "inbound/admission.h"

struct fake_redis;
struct twins;

struct twins *twins_new(void);
void twins_free(struct twins *twins);
struct fake_redis *twins_redis(struct twins *twins);
/* Each rule is known by its label, "a" to "p", and keeps its state from call to call. True when admitted. */
bool twins_decide_c(struct twins *twins, const struct inbound_rule *const *rules, const int64_t *costs, unsigned count,
                    int64_t now_us, struct admission_result *out);
bool twins_decide_lua(struct twins *twins, const struct inbound_rule *const *rules, const int64_t *costs,
                      unsigned count, int64_t now_us, struct admission_result *out);
/* The key of the latest call's first limit, and what the script noted. */
const char *twins_key(const struct twins *twins);
int twins_note(const struct twins *twins);

#endif
