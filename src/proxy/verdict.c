#include "proxy/verdict.h"

#include "base/mem.h"
#include "http/write.h"

#include <jansson.h>
#include <string.h>

struct row {
    const char *word;
    unsigned status;
    const char *error;
    const char *title;
};

static const struct row rows[VERDICT_COUNT] = {
#define X(name, word, status, error, title) [VERDICT_##name] = {word, status, error, title},
    VERDICTS(X)
#undef X
};

const char *verdict_word(enum verdict verdict)
{
    must(verdict < VERDICT_COUNT);
    return rows[verdict].word;
}

unsigned refusal_status(const struct refusal *r)
{
    unsigned status = r->status != 0 ? r->status : rows[r->verdict].status;

    must(status != 0);
    return status;
}

static const char *refusal_title(const struct refusal *r)
{
    return r->title != NULL ? r->title : rows[r->verdict].title;
}

static const char *reason_phrase(unsigned status)
{
    static const struct {
        unsigned status;
        const char *phrase;
    } phrases[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {407, "Proxy Authentication Required"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {421, "Misdirected Request"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        if (phrases[i].status == status) {
            return phrases[i].phrase;
        }
    }
    return "Refused";
}

static char *problem_json(const struct refusal *r, unsigned status)
{
    json_t *problem = json_object();

    json_object_set_new(problem, "type", json_string("about:blank"));
    json_object_set_new(problem, "title", json_string(refusal_title(r)));
    json_object_set_new(problem, "status", json_integer(status));
    json_object_set_new(problem, "reason", json_string(r->word != NULL ? r->word : rows[r->verdict].word));
    if (r->detail != NULL) {
        json_object_set_new(problem, "detail", json_string(r->detail));
    }
    if (r->destination != NULL) {
        json_object_set_new(problem, "destination", json_string(r->destination));
    }
    if (r->forecast != NULL) {
        json_object_set_new(problem, "predicted_wait_ms", json_integer(r->forecast->wait_us / CLOCK_MS_US));
        json_object_set_new(problem, "position", json_integer(r->forecast->position));
    }
    char *text = json_dumps(problem, JSON_COMPACT);
    json_decref(problem);
    must(text != NULL);
    return text;
}

/* A quoted string of a structured field takes only printable ASCII (RFC 8941 section 3.3.3). */
static void add_details(struct buf *out, const char *text)
{
    buf_add_str(out, "; details=\"");
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            buf_add(out, "\\", 1);
        }
        buf_add(out, *text >= ' ' && *text <= '~' ? text : "?", 1);
    }
    buf_add_str(out, "\"");
}

#define ALLOW "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT\r\n"

void self_write(struct buf *out, bool close)
{
    buf_add_str(out, "HTTP/1.1 200 OK\r\n" ALLOW "Content-Length: 0\r\n");
    write_date(out, clock_wall_now());
    buf_add_str(out, close ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n");
}

void refusal_write(struct buf *out, const struct refusal *r, bool close, bool head_only)
{
    unsigned status = refusal_status(r);
    char *body = problem_json(r, status);

    buf_printf(out, "HTTP/1.1 %u %s\r\n", status, reason_phrase(status));
    write_date(out, clock_wall_now());
    buf_printf(out, "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n", strlen(body));
    buf_printf(out, "Proxy-Status: sluice; error=%s", r->error != NULL ? r->error : rows[r->verdict].error);
    add_details(out, r->word != NULL ? r->word : rows[r->verdict].word);
    buf_add_str(out, "\r\nCache-Control: no-store\r\n");
    if (r->retry_after_us > 0) {
        buf_printf(out, "Retry-After: %lld\r\n",
                   (long long)((r->retry_after_us + CLOCK_SECOND_US - 1) / CLOCK_SECOND_US));
    }
    if (status == 407) {
        buf_add_str(out, "Proxy-Authenticate: Basic realm=\"sluice\", charset=\"UTF-8\"\r\n");
    }
    if (status == 405) {
        buf_add_str(out, ALLOW);
    }
    buf_add_str(out, close ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n");
    if (!head_only) {
        buf_add_str(out, body);
    }
    free(body);
}

enum verdict verdict_of_give_up(enum give_up why, const char **detail)
{
    switch (why) {
    case GIVE_UP_DEADLINE:
        *detail = "it waited as long as max_wait, or Prefer: wait, allows";
        return VERDICT_DEADLINE;
    case GIVE_UP_REDIS_DOWN:
        *detail = "Redis is out of reach, and on_redis_down = reject";
        return VERDICT_REDIS_DOWN;
    case GIVE_UP_PAUSED:
        *detail = "the third party asked for a pause that this request can't wait for";
        return VERDICT_PAUSED;
    case GIVE_UP_QUOTA:
        *detail = "it was used up while this request waited, and quota_action = reject";
        return VERDICT_QUOTA;
    case GIVE_UP_COST:
        *detail = "the settings were changed while it waited: a quota is smaller now than what it costs";
        return VERDICT_COST;
    case GIVE_UP_PURGED:
        *detail = "nothing was sent; ask whoever operates this proxy before sending it again";
        return VERDICT_PURGED;
    }
    wrong("no such reason");
}
