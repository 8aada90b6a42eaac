#include "admin/ask.h"

#include "admin/guard.h"
#include "base/buf.h"
#include "base/mem.h"

#include <string.h>

enum { ANSWER_MOST_BYTES = 64 << 20, CONNECT_SECONDS = 5, ANSWER_SECONDS = 40 };

static bool set_token(struct ask *ask, const char *path)
{
    struct guard_tokens tokens;
    struct err err = {0};

    if (!guard_read_tokens(path, &tokens, &err)) {
        err_print(&err, "sluice: ");
        err_fini(&err);
        return false;
    }
    char *line = mem_printf("Authorization: Bearer %s", tokens.list[0].token);
    ask->headers = curl_slist_append(ask->headers, line);
    explicit_bzero(line, strlen(line));
    mem_free(line);
    guard_free_tokens(&tokens);
    return true;
}

bool ask_init(struct ask *ask, const char *base, const char *token_file)
{
    *ask = (struct ask){.base = base};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    ask->curl = curl_easy_init();
    must(ask->curl != NULL);
    ask->headers = curl_slist_append(NULL, "Content-Type: application/json");
    curl_easy_setopt(ask->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(ask->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(ask->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(ask->curl, CURLOPT_TIMEOUT, (long)ANSWER_SECONDS);
    curl_easy_setopt(ask->curl, CURLOPT_ERRORBUFFER, ask->error);
    curl_easy_setopt(ask->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (token_file != NULL && !set_token(ask, token_file)) {
        ask_fini(ask);
        return false;
    }
    return true;
}

void ask_fini(struct ask *ask)
{
    curl_slist_free_all(ask->headers);
    curl_easy_cleanup(ask->curl);
    curl_global_cleanup();
}

static size_t take(char *bytes, size_t size, size_t count, void *arg)
{
    struct buf *buf = arg;

    if (buf_len(buf) + size * count > ANSWER_MOST_BYTES) {
        return 0;
    }
    buf_add(buf, bytes, size * count);
    return size * count;
}

static CURLcode perform(struct ask *ask, const char *path, json_t *body, struct buf *answer, long *status)
{
    size_t len = strlen(ask->base);
    char *url = mem_printf("%s%s%s", ask->base, len > 0 && ask->base[len - 1] == '/' ? "" : "/", path);
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;

    curl_easy_setopt(ask->curl, CURLOPT_URL, url);
    curl_easy_setopt(ask->curl, CURLOPT_HTTPHEADER, ask->headers);
    curl_easy_setopt(ask->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(ask->curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(ask->curl, CURLOPT_HTTPGET, 1L);
    if (text != NULL) {
        curl_easy_setopt(ask->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(text));
        curl_easy_setopt(ask->curl, CURLOPT_COPYPOSTFIELDS, text);
    }
    ask->error[0] = '\0';
    CURLcode code = curl_easy_perform(ask->curl);
    curl_easy_getinfo(ask->curl, CURLINFO_RESPONSE_CODE, status);
    free(text);
    mem_free(url);
    return code;
}

static char *why_unreachable(const struct ask *ask, CURLcode code)
{
    return mem_printf(
        "%s is not reachable (%s): is sluice running there, with a section [admin]? --admin URL or SLUICE_ADMIN says "
        "where it listens",
        ask->base, ask->error[0] != '\0' ? ask->error : curl_easy_strerror(code));
}

static enum ask_exit judge(const struct ask *ask, long status, const json_t *answer, char **why)
{
    const char *detail = json_string_value(json_object_get(answer, "detail"));

    if (status == 401) {
        *why = mem_printf(
            "%s asks for a token: --token-file FILE or SLUICE_ADMIN_TOKEN_FILE names the file with one that it knows",
            ask->base);
        return ASK_NOT_ALLOWED;
    }
    if (status >= 200 && status < 300 && answer != NULL) {
        return ASK_DONE;
    }
    *why = detail != NULL ? mem_strdup(detail)
                          : mem_printf("%s answered with status %ld: that is no sluice's [admin]", ask->base, status);
    return status == 403 ? ASK_NOT_ALLOWED : ASK_REFUSED;
}

enum ask_exit ask_json(struct ask *ask, const char *path, json_t *body, json_t **out, char **why)
{
    struct buf answer = {0};
    long status = 0;
    CURLcode code = perform(ask, path, body, &answer, &status);

    *out = NULL;
    *why = NULL;
    if (code != CURLE_OK) {
        buf_fini(&answer);
        *why = why_unreachable(ask, code);
        return ASK_UNREACHABLE;
    }
    if (buf_len(&answer) > 0) {
        *out = json_loadb(buf_ptr(&answer), buf_len(&answer), 0, NULL);
    }
    buf_fini(&answer);
    return judge(ask, status, *out, why);
}
