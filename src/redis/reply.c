/*
 * An error reply begins with a code: "READONLY You can't write against a read only replica." Servers before 7.0 wrap
 * the errors of commands that a script calls: "ERR Error running script (call to f_...): @user_script: 1: -READONLY You
 * can't ..."; the code that counts is then the inner one.
 */
#include "redis/reply.h"

#include <hiredis/hiredis.h>
#include <string.h>

/* The server as it is now can't do what every caller needs; asking it again before it changes makes no sense. */
static const char *const cant_serve[] = {
    "READONLY", "NOREPLICAS", "OOM", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "MISCONF", "NOAUTH", "NOPERM",
};

static void code_of(const char *text, char code[REPLY_CODE_BYTES])
{
    size_t len = 0;

    while (len < REPLY_CODE_BYTES - 1 && text[len] >= 'A' && text[len] <= 'Z') {
        code[len] = text[len];
        len++;
    }
    code[len] = '\0';
}

static enum reply_kind kind_of(const char *code)
{
    for (size_t i = 0; i < sizeof(cant_serve) / sizeof(cant_serve[0]); i++) {
        if (strcmp(code, cant_serve[i]) == 0) {
            return REPLY_CANT_SERVE;
        }
    }
    if (strcmp(code, "MOVED") == 0 || strcmp(code, "ASK") == 0 || strcmp(code, "TRYAGAIN") == 0) {
        return REPLY_ELSEWHERE;
    }
    return strcmp(code, "NOSCRIPT") == 0 ? REPLY_NOSCRIPT : REPLY_ERROR;
}

enum reply_kind reply_judge(const struct redisReply *reply, char code[REPLY_CODE_BYTES])
{
    static const char wrapper[] = "ERR Error running script";
    static const char forbidden[] = "ERR The user executing the script can't"; /* run a command, access a key */

    code[0] = '\0';
    if (reply->type != REDIS_REPLY_ERROR) {
        return REPLY_FINE;
    }
    const char *text = reply->str;
    if (strncmp(text, forbidden, sizeof(forbidden) - 1) == 0) {
        memcpy(code, "NOPERM", sizeof("NOPERM"));
        return REPLY_CANT_SERVE;
    }
    if (strncmp(text, wrapper, sizeof(wrapper) - 1) == 0) {
        const char *inner = strstr(text, ": -");
        text = inner != NULL ? inner + 3 : text;
    }
    code_of(text, code);
    enum reply_kind kind = kind_of(code);
    /* one from inside a script tells nothing about the script itself, which did run */
    bool ran = text != reply->str && (kind == REPLY_NOSCRIPT || kind == REPLY_ELSEWHERE);
    return ran ? REPLY_ERROR : kind;
}

bool reply_is_text(const struct redisReply *reply, const char *text)
{
    return (reply->type == REDIS_REPLY_STATUS || reply->type == REDIS_REPLY_STRING) &&
           (size_t)reply->len == strlen(text) && memcmp(reply->str, text, (size_t)reply->len) == 0;
}
