#ifndef SLUICE_ADMIN_LOOK_H
#define SLUICE_ADMIN_LOOK_H
/* Answers about all destinations, which are put together a few at a time. */
#include "admin/state.h"

enum look_kind { LOOK_METRICS, LOOK_STATUS };
void look_answer(struct admin *admin, struct evhttp_request *request, enum look_kind kind);
/* The status of at most `most` destinations, told to `done`. */
void look_status(struct admin *admin, unsigned most, void (*done)(struct admin *admin, const struct buf *status));
/* Nobody is answered any more. */
void look_stop(struct admin *admin);

#endif
