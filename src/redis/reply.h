#ifndef SLUICE_SRC_REDIS_REPLY_H
#define SLUICE_SRC_REDIS_REPLY_H
/* What a reply means for the connection. */
#include <stdbool.h>

struct redisReply;

enum reply_kind {
    REPLY_FINE,       /* not an error */
    REPLY_ERROR,      /* an error that is the caller's business */
    REPLY_NOSCRIPT,   /* nothing ran: the server has lost the script */
    REPLY_ELSEWHERE,  /* nothing ran: the key is on another server of the cluster, or on its way (MOVED, ASK, TRYAGAIN)
                       */
    REPLY_CANT_SERVE, /* this server is of no use now */
};

#define REPLY_CODE_BYTES 32

/* `code` becomes the error's leading word, "" for none. Only capitals are taken, so it is fit for logs. */
enum reply_kind reply_judge(const struct redisReply *reply, char code[REPLY_CODE_BYTES]);
/* The status or string is exactly `text`. */
bool reply_is_text(const struct redisReply *reply, const char *text);

#endif
