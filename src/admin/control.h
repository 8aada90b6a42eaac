#ifndef SLUICE_ADMIN_CONTROL_H
#define SLUICE_ADMIN_CONTROL_H
/* The verbs, and what they say. */
#include "admin/state.h"
#include "base/str.h"

/* POST /control/VERB with a JSON object; `who` is for the log. The request is answered at once or when it is done. */
void control_run(struct admin *admin, struct evhttp_request *request, const char *verb, struct slice body,
                 const char *who);
/* Nobody is answered any more. */
void control_stop(struct admin *admin);

#endif
