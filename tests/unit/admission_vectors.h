#ifndef SLUICE_TESTS_ADMISSION_VECTORS_H
#define SLUICE_TESTS_ADMISSION_VECTORS_H
/* Plays tests/vectors/admission.tsv: each line is one request at one time, with what must be said to it. */
#include "inbound/admission.h"

/* Forgets everything: another case begins. */
typedef void vectors_begin(void *arg);
/* Decides one request; true when admitted. */
typedef bool vectors_decide(void *arg, const struct inbound_rule *const *rules, const int64_t *costs, unsigned count,
                            int64_t now_us, struct admission_result *out);

/* Fails the running test at the first line that is answered differently. The number of requests. */
unsigned vectors_play(vectors_begin *begin, vectors_decide *decide, void *arg);

#endif
