#ifndef SLUICE_HTTP_BUDGET_H
#define SLUICE_HTTP_BUDGET_H
/* How much is left, and until when it has to last, as header fields write it. Pure. */
#include "base/must.h"
#include "base/str.h"

/* "7", "7.0", "-3" (0), "32/40" used of all (8), "api-usage=18/5000" (4982). */
bool budget_remaining(struct slice value, int64_t *out) MUST_CHECK;

/* One policy of an IETF field. */
struct budget_item {
    int64_t remaining, reset_us; /* -1 = not said */
};
/* "default";r=50;t=30, also several by comma; and the forms before: limit=9, remaining=7, reset=12, with commas or
 * semicolons. How many were found, at most `most`; 0 when anything in it is malformed. */
unsigned budget_items(struct slice value, struct budget_item *out, unsigned most);

#endif
