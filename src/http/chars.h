#ifndef SLUICE_HTTP_CHARS_H
#define SLUICE_HTTP_CHARS_H
/* Which bytes may stand where (RFC 9110 section 5.6). */
#include "base/str.h"

/* A byte that no line may hold: controls but for the tab, and DEL. CR and LF are among them. */
static inline bool chars_is_control(unsigned char c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}
static inline bool chars_is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}
bool chars_is_token(struct slice s);   /* not empty, and token characters only */
bool chars_is_visible(struct slice s); /* not empty, and printable ASCII without spaces only */
bool chars_is_host(struct slice s);    /* what a Host field may be made of; empty will do */

#endif
