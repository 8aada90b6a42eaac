#ifndef SLUICE_UPSTREAM_TLS_H
#define SLUICE_UPSTREAM_TLS_H
/* What TLS connections share: the certificates we trust, the one we show, and the sessions that can be resumed. */
#include "base/err.h"
#include "conf/policy.h"

#include <curl/curl.h>

struct trusts; /* all of them */
struct trust;  /* one: what some policies have in common */

struct trusts *tls_trusts_new(void);
/* No easy handle set up with any of them may be left. */
void tls_trusts_free(struct trusts *trusts);
/* The policy's, read when it is first asked for; NULL and a line in `err` (which may be NULL) when a file is no good.
 */
struct trust *tls_trust_of(struct trusts *trusts, const struct policy *policy, struct err *err);
/* Reads what the policies of `conf` need that do TLS themselves, in any thread. NULL and lines in `err` when a file is no
 * good. */
struct trusts *tls_trusts_read(const struct conf *conf, struct err *err);
/* Puts `fresh` in place of what is there. Where the files are still the same, the old one stays, with its sessions; one
 * in use is kept until nobody uses it. `fresh` keeps what is not needed, for the caller to free. */
void tls_trusts_adopt(struct trusts *trusts, struct trusts *fresh);
/* In use by a pool; NULL: no effect. */
void tls_trust_hold(struct trust *trust);
void tls_trust_release(struct trust *trust);
/* Makes `easy` verify the peer, and its name, against our store, and show our certificate. */
void tls_set_up(struct trust *trust, CURL *easy);

#endif
