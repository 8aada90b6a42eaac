#ifndef SLUICE_PROXY_INBOUND_MATCH_H
#define SLUICE_PROXY_INBOUND_MATCH_H
#include "base/buf.h"
#include "inbound/admission.h"
#include "proxy/inbound_request.h"

/* Fills in a check: the rules that are for this request, with the caller's key and the cost for each. The keys lie in
 * `keys`, which must outlive the check. */
void inbound_match(const struct inbound_conf *inbound, const struct inbound_request *request, struct buf *keys,
                   struct admission_check *check);
/* * stands for anything, also for nothing and for slashes. */
bool inbound_glob(const char *pattern, struct slice text);
/* The path without its query in the one form that all its spellings have: decoded, no empty or dot segments. */
void inbound_plain_path(struct buf *out, struct slice path);

#endif
