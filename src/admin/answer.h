#ifndef SLUICE_ADMIN_ANSWER_H
#define SLUICE_ADMIN_ANSWER_H
/* Answers of the admin's listener. */
#include <event2/http.h>
#include <jansson.h>
#include <stddef.h>

void answer_header(struct evhttp_request *request, const char *name, const char *value);
void answer_bytes(struct evhttp_request *request, unsigned status, const char *type, const char *text, size_t len);
void answer_text(struct evhttp_request *request, unsigned status, const char *text);
/* Takes over the reference. */
void answer_json(struct evhttp_request *request, unsigned status, json_t *json);
/* `detail`: one sentence that says what to do. */
void answer_problem(struct evhttp_request *request, unsigned status, const char *detail);

#endif
