#ifndef SLUICE_ADMIN_EVENTS_H
#define SLUICE_ADMIN_EVENTS_H
/* Once a second: the history gets a second longer, and whoever watches is told everything. */
#include "admin/state.h"

void events_start(struct admin *admin);
void events_stop(struct admin *admin);
/* GET /events: an endless answer. False when there are too many of them. */
bool events_watch(struct admin *admin, struct evhttp_request *request) MUST_CHECK;

#endif
