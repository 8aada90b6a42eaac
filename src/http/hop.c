/*
 * A field that Connection names is dropped with it. That lets a sender have any field removed, so the few without which
 * the next recipient would misread the message can't be named away: they were never meant for one hop only.
 */
#include "hop.h"

#include <string.h>

/* TE goes too: what we want of the next hop, and say to it, is our own affair. Proxy-Authenticate and its kin belong to
 * the connection to the proxy that sent them (RFC 9110 section 11.7). */
static const char *const by_hop[] = {
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authentication-Info",
    "Proxy-Authorization",
    "TE",
    "Proxy-Connection",
    "Transfer-Encoding",
    "Upgrade",
    NULL,
};

static const char *const never_by_hop[] = {
    "Host", "Content-Length", "Content-Type", "Content-Encoding", "Content-Range", "Date", "Via", "Max-Forwards", "Forwarded",
    "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", NULL,
};

/* Routing, framing, authentication, conditions, and whatever decides how the content is read: a recipient that merged
 * these into the head, after having acted on it, would be fooled. */
static const char *const never_trailers[] = {
    "Host",
    "Content-Length",
    "Content-Type",
    "Content-Encoding",
    "Content-Range",
    "Content-Location",
    "Trailer",
    "Authorization",
    "WWW-Authenticate",
    "Cookie",
    "Set-Cookie",
    "Cache-Control",
    "Expect",
    "Max-Forwards",
    "Pragma",
    "Range",
    "Age",
    "Expires",
    "Date",
    "Location",
    "Retry-After",
    "Vary",
    "Warning",
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Range",
    "If-Unmodified-Since",
    "Via",
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    NULL,
};

static bool is_among(const char *const *names, struct slice name)
{
    for (; *names != NULL; names++) {
        /* the first letter decides nearly always */
        if (name.len > 0 && ((**names ^ name.ptr[0]) & ~0x20) == 0 && slice_is_nocase(name, *names)) {
            return true;
        }
    }
    return false;
}

/* Options that aren't fields, or are dropped anyway. */
static bool is_plain_option(struct slice option)
{
    return slice_is_nocase(option, "close") || is_among(by_hop, option) || is_among(never_by_hop, option);
}

void hop_read(struct hop *hop, const struct message *message)
{
    hop->count = 0;
    for (unsigned i = 0; i < message->fields_count; i++) {
        struct slice list = message->fields[i].value, option;
        if (!slice_is_nocase(message->fields[i].name, "Connection")) {
            continue;
        }
        while (slice_next_element(&list, &option) && hop->count < HOP_NOMINEES) {
            if (!is_plain_option(option)) {
                hop->nominees[hop->count++] = option;
            }
        }
    }
}

bool hop_drops(const struct hop *hop, struct slice name)
{
    if (is_among(by_hop, name)) {
        return true;
    }
    for (unsigned i = 0; i < hop->count; i++) {
        if (slice_equal_nocase(hop->nominees[i], name)) {
            return true;
        }
    }
    return false;
}

bool hop_is_trailer(struct slice name)
{
    return !is_among(by_hop, name) && !is_among(never_trailers, name);
}
