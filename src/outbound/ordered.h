#ifndef SLUICE_OUTBOUND_ORDERED_H
#define SLUICE_OUTBOUND_ORDERED_H
/* How orders reach the buckets of this process. */
#include "outbound/orders.h"

/* What stands; whoever changes it tells the buckets by outbound_obey(). */
struct orders *outbound_orders(struct outbound *outbound);
/* Every bucket that goes by the order's name acts; how many there are. */
unsigned outbound_obey(struct outbound *outbound, const struct order *order);

#endif
