#ifndef TESTS_PARSE_FUZZ_H
#define TESTS_PARSE_FUZZ_H
/* What must hold for any bytes at all: the same is said about them whatever pieces they come in. */
#include "../unit/parse_run.h"

#include "base/must.h"

enum { FUZZ_CUTS = 3 };

/* Small enough that a fuzzer finds the limits. */
static const struct parse_limits fuzz_limits = {.max_head_bytes = 512, .max_fields = 12};

/* The first bytes say where to cut, in ascending order; they are not part of the input. */
static inline size_t fuzz_take_cuts(const uint8_t **bytes, size_t *len, size_t cuts[FUZZ_CUTS])
{
    size_t at = 0;

    if (*len < FUZZ_CUTS) {
        return 0;
    }
    for (int i = 0; i < FUZZ_CUTS; i++) {
        size_t left = *len - FUZZ_CUTS - at;
        at += (*bytes)[i] < left ? (*bytes)[i] : left;
        cuts[i] = at;
    }
    *bytes += FUZZ_CUTS;
    *len -= FUZZ_CUTS;
    return FUZZ_CUTS;
}

static inline void fuzz_pieces(enum run_kind kind, const uint8_t *bytes, size_t len)
{
    size_t cuts[FUZZ_CUTS];
    size_t count = fuzz_take_cuts(&bytes, &len, cuts);
    const char *in = (const char *)bytes;
    char *whole = run_whole(kind, &fuzz_limits, in, len);
    char *bytewise = run_bytewise(kind, &fuzz_limits, in, len);
    char *cut = run(kind, &fuzz_limits, in, len, cuts, count);

    must(whole != NULL && bytewise != NULL && cut != NULL);
    must(strcmp(whole, bytewise) == 0);
    must(strcmp(whole, cut) == 0);
    mem_free(whole);
    mem_free(bytewise);
    mem_free(cut);
}

/* The head that `in` begins with, or NULL. */
static inline struct message *fuzz_head(struct parse *parse, const char *in, size_t len)
{
    size_t used = 0;
    struct slice data;
    struct message *m = NULL;

    if (parse_next(parse, in, len, &used, &data) == PARSE_HEAD) {
        m = parse_take_message(parse);
    }
    parse_free(parse);
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
