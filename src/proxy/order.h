#ifndef SLUICE_PROXY_ORDER_H
#define SLUICE_PROXY_ORDER_H
#include "proxy/exchange.h"

/* Fills in what the queue of an exchange's destination goes by: its waiter's class, flow and weight. */
void order_place(struct exchange *e);
/* Of a CONNECT that is intercepted: who sent it, for what comes inside. */
void order_keep_user(struct exchange *e);
/* Appends who sent it: the user, false when there is none; the address. */
bool order_add_user(struct buf *out, const struct exchange *e);
void order_add_address(struct buf *out, const struct exchange *e);

#endif
