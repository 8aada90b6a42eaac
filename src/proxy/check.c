/*
 * The endpoint for gateways that are there already: may this request pass? 204 or 429, with the same fields that the
 * caller would see.
 *
 *     GET /check/NAME           what is asked about is told in fields, as the gateway has them:
 *                               nginx               X-Original-Method, X-Original-URI, X-Forwarded-For
 *                               Traefik, Caddy      X-Forwarded-Method, X-Forwarded-Uri, X-Forwarded-For
 *     GET /check/NAME/any/path  Envoy's ext_authz puts our path before the original one, and keeps the method
 *
 * All other fields are the original request's, as every one of them passes those on. Only trusted_proxies may ask:
 * anybody else could use up another's limit.
 */
#include "proxy/check.h"

#include "http/write.h"
#include "proxy/inbound_answer.h"

#include <string.h>

static enum verdict refused(struct refusal *refusal, enum verdict verdict, const char *detail)
{
    *refusal = (struct refusal){.verdict = verdict, .detail = detail};
    return verdict;
}

static const struct field *first_of(const struct message *request, const char *const *names)
{
    for (; *names != NULL; names++) {
        const struct field *field = message_field(request, *names);
        if (field != NULL && field->value.len > 0) {
            return field;
        }
    }
    return NULL;
}

/* "http://host/path" -> "/path" */
static struct slice path_of(struct slice uri)
{
    const char *scheme = uri.len > 0 && uri.ptr[0] != '/' ? memmem(uri.ptr, uri.len, "://", 3) : NULL;

    if (scheme == NULL) {
        return uri;
    }
    struct slice rest = {scheme + 3, uri.len - (size_t)(scheme + 3 - uri.ptr)};
    const char *slash = rest.len > 0 ? memchr(rest.ptr, '/', rest.len) : NULL;
    return slash != NULL ? (struct slice){slash, rest.len - (size_t)(slash - rest.ptr)} : slice_of("/");
}

struct inbound_conf *check_place(const struct conf *conf, struct slice name)
{
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        if (slice_is(name, conf->inbounds[i]->label)) {
            return conf->inbounds[i];
        }
    }
    return NULL;
}

/* What follows /check/NAME; NULL when nothing does. */
static bool split(struct slice path, struct slice *name, struct slice *rest)
{
    static const char start[] = "/check/";
    const size_t len = sizeof start - 1;

    if (path.len <= len || memcmp(path.ptr, start, len) != 0) {
        return false;
    }
    *name = (struct slice){path.ptr + len, path.len - len};
    *rest = (struct slice){NULL, 0};
    for (size_t i = 0; i < name->len; i++) {
        if (name->ptr[i] == '/' || name->ptr[i] == '?') {
            *rest = (struct slice){name->ptr + i, name->len - i};
            name->len = i; /* which ends the loop */
        }
    }
    return true;
}

static void read_original(struct visit *v, struct slice rest)
{
    static const char *const methods[] = {"X-Original-Method", "X-Forwarded-Method", NULL};
    static const char *const uris[] = {"X-Original-URI", "X-Original-URL", "X-Forwarded-Uri", NULL};
    const struct field *method = first_of(v->request, methods), *uri = first_of(v->request, uris);
    bool own_path = rest.len > 1 && rest.ptr[0] == '/';

    v->seen.method = method != NULL ? method->value : v->request->method;
    v->seen.path = own_path ? rest : uri != NULL ? path_of(uri->value) : slice_of("/");
}

enum verdict check_read(struct visit *v, struct refusal *refusal)
{
    struct slice name, rest;

    if (!split(v->target.path, &name, &rest)) {
        return refused(refusal, VERDICT_NO_SUCH_CHECK, "ask for /check/NAME, with the name of an [inbound]");
    }
    struct inbound_conf *asked = check_place(v->env->conf, name);
    if (asked == NULL) {
        return refused(refusal, VERDICT_NO_SUCH_CHECK, "there is no [inbound] of that name");
    }
    inbound_conf_put(v->inbound);
    v->inbound = inbound_conf_get(asked);
    v->seen.trusted = inbound_trusts(v->inbound, v->seen.peer);
    if (!v->seen.trusted) {
        return refused(refusal, VERDICT_CLIENT_DENIED,
                       "this address is not among the trusted_proxies of the [inbound]");
    }
    read_original(v, rest);
    return VERDICT_FORWARDED;
}

void check_admit(struct buf *out, const struct admission_check *check, bool close)
{
    buf_add_str(out, "HTTP/1.1 204 No Content\r\nCache-Control: no-store\r\n");
    write_date(out, clock_wall_now());
    inbound_fields(out, check);
    buf_add_str(out, close ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n");
}
