#ifndef SLUICE_OUTBOUND_SHED_H
#define SLUICE_OUTBOUND_SHED_H
/* Who can't be served any more because of a pause hears so at once. */
#include "outbound/pacer.h"

/* Looks at every waiter; those whose turn comes after their deadline are given up within the next moments. */
void shed_hopeless(struct pacer *pacer, struct mono now);

#endif
