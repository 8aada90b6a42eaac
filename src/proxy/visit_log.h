#ifndef SLUICE_PROXY_VISIT_LOG_H
#define SLUICE_PROXY_VISIT_LOG_H
#include "proxy/visit.h"

/* One line for a visit that is over. Values of the query are left out, and no header is ever logged. */
void visit_log(const struct visit *visit, struct mono now);
/* One line for a caller that was refused before there was a request to speak of. */
void visit_log_refusal(const struct visitor *visitor, const struct refusal *refusal);

#endif
