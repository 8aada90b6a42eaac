#ifndef SLUICE_HTTP_HOP_H
#define SLUICE_HTTP_HOP_H
/* Which fields concern one connection only, and must not travel on (RFC 9110 section 7.6.1). */
#include "base/buf.h"
#include "http/message.h"

enum { HOP_NOMINEES = 64 }; /* parsed heads have no more options in Connection */

/* The fields that a message's own Connection names. */
struct hop {
    struct slice nominees[HOP_NOMINEES];
    unsigned count;
};

/* Points into the message. */
void hop_read(struct hop *hop, const struct message *message);
/* Hop-by-hop by its name, or nominated. */
bool hop_drops(const struct hop *hop, struct slice name);
/* May be in a trailer section and travel on (RFC 9110 section 6.5.1). */
bool hop_is_trailer(struct slice name);

#endif
