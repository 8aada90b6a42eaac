#ifndef SLUICE_PROXY_REFUSAL_H
#define SLUICE_PROXY_REFUSAL_H
#include "proxy/verdict.h"
#include "upstream/upstream.h"

/* What a caller is told when there is no connection to the third party. */
struct refusal refusal_of_upstream(enum upstream_error error);

#endif
