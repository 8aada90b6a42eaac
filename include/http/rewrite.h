#ifndef SLUICE_HTTP_REWRITE_H
#define SLUICE_HTTP_REWRITE_H
/* Answers of a third party that was spoken to over TLS, for a caller that asked for http://. */
#include "http/message.h"

struct rewrite {
    /* True when http://host is answered over TLS as well; host in lower case, without brackets. */
    bool (*is_served)(void *arg, const char *host, uint16_t port);
    void *arg;
};

/*
 * Changed in place, and only these two:
 *   Location, Content-Location   https://HOST/... becomes http://HOST/... where is_served(HOST); :443 goes
 *   Set-Cookie                   the attribute Secure goes: the caller would not send such a cookie over http://
 */
void rewrite_response(struct message *response, const struct rewrite *rewrite);

#endif
