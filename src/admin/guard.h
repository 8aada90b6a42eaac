#ifndef SLUICE_ADMIN_GUARD_H
#define SLUICE_ADMIN_GUARD_H
/* Who may look and act. Pure; header values are NULL where they are missing. */
#include "base/err.h"

#include <stdbool.h>

/* The first line of the file; NULL and a line in `err` when there is no good token. */
char *guard_read_token(const char *path, struct err *err) MUST_CHECK;
/* An Authorization field that carries the token. Takes the same time for every wrong one. */
bool guard_knows_token(const char *authorization, const char *token);
/* A Host field that no web site can have: an address or localhost. Else a site's name could be led to this address, and
 * its page would count as ours. */
bool guard_is_own_host(const char *host);

struct guard_post {
    const char *content_type, *origin, *host, *fetch_site;
};
/* Whether a POST can't come from another site's page: it says it is JSON, which a page may not send elsewhere without
 * asking first, and what browsers add names ourselves. */
bool guard_is_own_post(const struct guard_post *post);

#endif
