#ifndef SLUICE_ADMIN_GUARD_H
#define SLUICE_ADMIN_GUARD_H
/* Who may look and act. Pure; header values are NULL where they are missing. */
#include "base/err.h"

#include <stdbool.h>

enum { GUARD_TOKENS_MOST = 32 };
struct guard_tokens {
    struct guard_token {
        char *name; /* for the log */
        char *token;
    } list[GUARD_TOKENS_MOST];
    unsigned count;
};
/* "TOKEN" or "NAME TOKEN" on each line of the file, # begins a comment. False, and a line in `err`, when one is no good
 * token or there is none; then nothing is to be freed. */
bool guard_read_tokens(const char *path, struct guard_tokens *out, struct err *err) MUST_CHECK;
void guard_free_tokens(struct guard_tokens *tokens);
/* The name of the token in an Authorization field, NULL when it is none of them. Takes the same time for every wrong
 * one. */
const char *guard_find_token(const char *authorization, const struct guard_tokens *tokens);
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
