#ifndef SLUICE_ADMIN_CONTROL_H
#define SLUICE_ADMIN_CONTROL_H
/* The verbs, and what they say. */
#include "admin/state.h"
#include "base/str.h"

struct control_answer {
    unsigned status;
    char *detail; /* one sentence, owned by the caller; NULL when it was done */
};

/* POST /control/VERB with a JSON object; `who` is for the log. */
struct control_answer control_run(struct admin *admin, const char *verb, struct slice body, const char *who);

#endif
