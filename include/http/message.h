#ifndef SLUICE_HTTP_MESSAGE_H
#define SLUICE_HTTP_MESSAGE_H
/*
 * A parsed HTTP/1.x message head. It owns a copy of the head's bytes; everything else points into them.
 */
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum framing {
    FRAMING_NONE,        /* no body */
    FRAMING_LENGTH,      /* Content-Length, content_length bytes */
    FRAMING_CHUNKED,     /* Transfer-Encoding: chunked */
    FRAMING_UNTIL_CLOSE, /* responses only */
};

struct field {
    struct slice name;  /* as it came: case kept */
    struct slice value; /* without outer whitespace */
};

struct message {
    char *head; /* owned */
    size_t head_bytes;
    struct slice method; /* requests */
    struct slice target; /* requests: as it came */
    unsigned status;     /* responses */
    struct slice reason; /* responses */
    unsigned minor;      /* HTTP/1.minor: 0 or 1 */
    struct field *fields; /* owned; in order, duplicates kept */
    unsigned fields_count;
    enum framing framing;
    uint64_t content_length; /* with FRAMING_LENGTH; for HEAD/304 answers the field may say more than is sent */
    bool keep_alive;         /* what version and Connection ask for (RFC 9112 section 9.3) */
    bool expect_continue;    /* Expect: 100-continue on an HTTP/1.1 request */
    bool upgrade;            /* Connection: upgrade together with an Upgrade field, or status 101 */
};

void message_free(struct message *message); /* NULL is fine */
/* The first field of that name (case-blind), or NULL. */
const struct field *message_field(const struct message *message, const char *name);
/* True if any field of that name holds `token` as a list element (case-blind). */
bool message_has_token(const struct message *message, const char *name, const char *token);
/* Instead of every field of that name, in the place of the first; `name` and `value` must outlive the message. */
void message_set_field(struct message *message, const char *name, const char *value);
/* True for a field put in that way: no nomination in the sender's Connection takes it out. */
bool message_is_ours(const struct message *message, const struct field *field);
void message_drop_field(struct message *message, const char *name);

#endif
