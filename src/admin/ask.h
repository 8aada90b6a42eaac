#ifndef SLUICE_ADMIN_ASK_H
#define SLUICE_ADMIN_ASK_H
/* The client's side of the admin's listener. Blocks. */
#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>

/* What scripts may rely on. */
enum ask_exit {
    ASK_DONE = 0,
    ASK_REFUSED = 1,     /* it said no, or it is not ready */
    ASK_BAD_USE = 2,     /* of the command line */
    ASK_UNREACHABLE = 3, /* nobody answers there */
    ASK_NOT_ALLOWED = 4, /* the token is missing or wrong */
};

struct ask {
    CURL *curl;
    struct curl_slist *headers;
    const char *base;
    char error[CURL_ERROR_SIZE];
};

/* `base` is borrowed; `token_file` NULL: no token. False: told on standard error. */
bool ask_init(struct ask *ask, const char *base, const char *token_file);
void ask_fini(struct ask *ask);
/* `body` NULL: GET. Fills `out` with the JSON of the answer (to be put, or NULL) and, unless it is ASK_DONE, `why` with
 * a sentence that says what to do (to be freed with mem_free()). */
enum ask_exit ask_json(struct ask *ask, const char *path, json_t *body, json_t **out, char **why);

#endif
