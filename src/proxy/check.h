#ifndef SLUICE_PROXY_CHECK_H
#define SLUICE_PROXY_CHECK_H
#include "proxy/visit.h"

/* The [inbound] of that name, or NULL. */
struct inbound_conf *check_place(const struct conf *conf, struct slice name);
/* Reads what a gateway asks about: visit->inbound and visit->seen are filled in. VERDICT_FORWARDED, or `refusal` is
 * filled in. */
enum verdict check_read(struct visit *visit, struct refusal *refusal);
/* Appends the answer of an admitted one: 204. */
void check_admit(struct buf *out, const struct admission_check *check, bool close);

#endif
