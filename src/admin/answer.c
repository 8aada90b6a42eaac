#include "admin/answer.h"

#include "base/must.h"

#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>
#include <stdlib.h>
#include <string.h>

void answer_header(struct evhttp_request *request, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(request), name, value);
}

void answer_bytes(struct evhttp_request *request, unsigned status, const char *type, const char *text, size_t len)
{
    struct evbuffer *body = evbuffer_new();

    must(body != NULL && evbuffer_add(body, text, len) == 0);
    answer_header(request, "Content-Type", type);
    evhttp_send_reply(request, (int)status, NULL, body);
    evbuffer_free(body);
}

void answer_text(struct evhttp_request *request, unsigned status, const char *text)
{
    answer_bytes(request, status, "text/plain; charset=utf-8", text, strlen(text));
}

void answer_json(struct evhttp_request *request, unsigned status, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);

    json_decref(json);
    must(text != NULL);
    answer_bytes(request, status, status < 400 ? "application/json" : "application/problem+json", text, strlen(text));
    free(text);
}

void answer_problem(struct evhttp_request *request, unsigned status, const char *detail)
{
    answer_json(request, status,
                json_pack("{s:s, s:i, s:s}", "type", "about:blank", "status", (int)status, "detail", detail));
}
