#ifndef SLUICE_PROXY_INBOUND_ANSWER_H
#define SLUICE_PROXY_INBOUND_ANSWER_H
#include "base/buf.h"
#include "inbound/admission.h"

/* Appends the header lines that tell a caller where it stands, admitted or not; none when nothing was looked at, or
 * headers = off. */
void inbound_fields(struct buf *out, const struct admission_check *check);
/* Whole seconds until the refused request would be admitted, at least 1; 0 when it never will. */
int64_t inbound_retry_after_s(const struct admission_check *check);
/* The whole answer to a refused request: 429, or 503 when nothing could be looked at. Its status is returned. */
unsigned inbound_refuse(struct buf *out, const struct admission_check *check, bool close, bool head_only);

#endif
