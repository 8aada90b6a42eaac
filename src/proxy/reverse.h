#ifndef SLUICE_PROXY_REVERSE_H
#define SLUICE_PROXY_REVERSE_H
#include "proxy/visit.h"

/* A visitor for an accepted descriptor; `on_closed` comes once, when it is gone, and frees it. */
struct visitor *visitor_new(struct visit_env *env, struct inbound_conf *inbound, bool asks, int fd,
                            const struct addr *peer, const struct addr *local,
                            void (*on_closed)(struct visitor *visitor));
/* Its last word was said. */
void visitor_free(struct visitor *visitor);
/* Accepted only to be told that there are too many. */
void visitor_refuse(struct visitor *visitor);
/* Drain: its connection ends with the visit under way, or the next one, if that begins within a second. */
void visitor_drain(struct visitor *visitor);
/* The drain's time is up. */
void visitor_stop(struct visitor *visitor);

#endif
