#include "proxy/refusal.h"

/* An upstream error's word in the log is "upstream_" and its RFC 9209 name, but for the one that is a refusal of ours.
 */
struct refusal refusal_of_upstream(enum upstream_error error)
{
    static const char *const words[] = {[UPSTREAM_OK] = NULL,
#define X(name, status, type, text) [UPSTREAM_BAD_##name] = "upstream_" type,
                                        UPSTREAM_ERRORS(X)
#undef X
    };

    return (struct refusal){
        .verdict = VERDICT_UPSTREAM,
        .status = upstream_error_status(error),
        .word = error == UPSTREAM_BAD_PRIVATE ? "private_address" : words[error],
        .error = upstream_error_type(error),
        .title = upstream_error_text(error),
        .retry_after_us = error == UPSTREAM_BAD_RESOURCES ? CLOCK_SECOND_US : 0,
    };
}
