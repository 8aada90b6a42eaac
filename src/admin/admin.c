/*
 * The listener of operators: evhttp on the same loop as everything else, below slots and third parties in priority.
 *
 *   request -> whose? (token, or Host and where it comes from) -> route -> answer
 *
 * Health is told to anybody, since a load balancer has no token. The page itself holds no secret: with a token it asks
 * for it and sends it with each of its own requests, so there is no cookie that another site could use.
 */
#include "admin/admin.h"

#include "admin/answer.h"
#include "admin/control.h"
#include "admin/events.h"
#include "admin/look.h"
#include "admin/page.h"
#include "admin/ready.h"
#include "base/mem.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/keyvalq_struct.h>
#include <string.h>
#include <unistd.h>

enum { ADMIN_MAGIC = 0x61646d6e, HEAD_MOST_BYTES = 16384, BODY_MOST_BYTES = 4096, TIMEOUT_SECONDS = 30 };

/* ---- what can be asked for ---- */

static void get_page(struct admin *admin, struct evhttp_request *request)
{
    answer_header(request, "Content-Security-Policy", admin->page_policy);
    answer_bytes(request, 200, "text/html; charset=utf-8", admin_page, strlen(admin_page));
}

static void get_health(struct admin *admin, struct evhttp_request *request)
{
    (void)admin;
    answer_text(request, 200, "ok\n");
}

static void add_reason(void *arg, const char *reason)
{
    buf_printf(arg, "%s\n", reason);
}

static void get_ready(struct admin *admin, struct evhttp_request *request)
{
    struct buf reasons = {0};
    unsigned count = ready_reasons(admin, add_reason, &reasons);

    if (count == 0) {
        answer_text(request, 200, "ready\n");
    } else {
        answer_bytes(request, 503, "text/plain; charset=utf-8", buf_ptr(&reasons), buf_len(&reasons));
    }
    buf_fini(&reasons);
}

static void get_metrics(struct admin *admin, struct evhttp_request *request)
{
    look_answer(admin, request, LOOK_METRICS);
}

static void get_status(struct admin *admin, struct evhttp_request *request)
{
    look_answer(admin, request, LOOK_STATUS);
}

static void get_events(struct admin *admin, struct evhttp_request *request)
{
    if (!events_watch(admin, request)) {
        answer_problem(request, 503, "too many are watching");
    }
}

/* `token` is the name of the one that was shown. */
static void post_control(struct admin *admin, struct evhttp_request *request, const char *verb, const char *token)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    size_t len = evbuffer_get_length(body);
    char *address;
    uint16_t port;

    evhttp_connection_get_peer(evhttp_request_get_connection(request), &address, &port);
    struct slice text = {len > 0 ? (const char *)evbuffer_pullup(body, -1) : "", len};
    char *who = mem_printf("%s%s%s", token, token[0] != '\0' ? "@" : "", address);
    control_run(admin, request, verb, text, who);
    mem_free(who);
}

/* ---- who may ---- */

static const char *header_of(struct evhttp_request *request, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(request), name);
}

/* The name of the token that was shown, "" where none is asked for; NULL: it is answered already. */
static const char *whose(const struct admin *admin, struct evhttp_request *request)
{
    if (admin->tokens.count > 0) {
        const char *name = guard_find_token(header_of(request, "Authorization"), &admin->tokens);
        if (name == NULL) {
            answer_header(request, "WWW-Authenticate", "Bearer realm=\"sluice admin\"");
            answer_problem(request, 401, "send Authorization: Bearer and a token of token_file");
        }
        return name;
    }
    if (!guard_is_own_host(header_of(request, "Host"))) {
        answer_problem(request, 403, "ask by address or as localhost, or set token_file");
        return NULL;
    }
    return "";
}

static const char *whose_post(const struct admin *admin, struct evhttp_request *request)
{
    const struct guard_post post = {.content_type = header_of(request, "Content-Type"),
                                    .origin = header_of(request, "Origin"),
                                    .host = header_of(request, "Host"),
                                    .fetch_site = header_of(request, "Sec-Fetch-Site")};
    const char *token = whose(admin, request);

    if (token != NULL && !guard_is_own_post(&post)) {
        answer_problem(request, 403, "send Content-Type: application/json, and not from another site's page");
        return NULL;
    }
    return token;
}

/* ---- routes ---- */

static const struct route {
    const char *path;
    bool open; /* to anybody */
    void (*get)(struct admin *admin, struct evhttp_request *request);
} routes[] = {
    {"/", true, get_page},
    {"/healthz", true, get_health},
    {"/readyz", true, get_ready},
    {"/metrics", false, get_metrics},
    {"/status.json", false, get_status},
    {"/events", false, get_events},
};

static void refuse_method(struct evhttp_request *request, const char *allowed)
{
    answer_header(request, "Allow", allowed);
    answer_problem(request, 405, "another method is meant for this");
}

static void run_get(struct admin *admin, struct evhttp_request *request, const struct route *route)
{
    enum evhttp_cmd_type method = evhttp_request_get_command(request);

    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
        refuse_method(request, "GET, HEAD");
    } else if (route->get == get_events && method == EVHTTP_REQ_HEAD) {
        refuse_method(request, "GET");
    } else if (route->open || whose(admin, request) != NULL) {
        route->get(admin, request);
    }
}

static void on_request(struct evhttp_request *request, void *arg)
{
    static const char control[] = "/control/";
    struct admin *admin = arg;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));

    must_be(admin, ADMIN_MAGIC);
    answer_header(request, "Cache-Control", "no-store");
    answer_header(request, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; path != NULL && i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (strcmp(path, routes[i].path) == 0) {
            run_get(admin, request, &routes[i]);
            return;
        }
    }
    if (path == NULL || strncmp(path, control, sizeof(control) - 1) != 0) {
        answer_problem(request, 404, "see / for the page; there are /metrics, /status.json, /healthz and /readyz too");
    } else if (evhttp_request_get_command(request) != EVHTTP_REQ_POST) {
        refuse_method(request, "POST");
    } else {
        const char *token = whose_post(admin, request);
        if (token != NULL) {
            post_control(admin, request, path + sizeof(control) - 1, token);
        }
    }
}

/* ---- beginning and end ---- */

/* Operators come after slots and third parties. */
static struct bufferevent *make_bufferevent(struct event_base *base, void *arg)
{
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);

    (void)arg;
    must(bev != NULL);
    bufferevent_priority_set(bev, LOOP_PRIORITY_IO);
    return bev;
}

static bool listen_at(struct admin *admin, const struct addr *address, struct err *err)
{
    char text[ADDR_TEXT_BYTES];
    struct addr bound = {.len = sizeof(bound.any)};
    int fd = sockets_listen(admin->sources.sockets, address, "[admin] listen", NULL, err);

    if (fd < 0) {
        return false;
    }
    if (getsockname(fd, &bound.sa, &bound.len) != 0) {
        bound = *address;
    }
    must(evhttp_accept_socket_with_handle(admin->http, fd) != NULL);
    addr_format(&bound, false, text);
    log_line(LOG_INFO, "admin", LOG_STR("address", text), LOG_STR("token", admin->tokens.count > 0 ? "asked for" : "none"),
             LOG_END);
    return true;
}

static struct evhttp *make_http(struct admin *admin)
{
    struct evhttp *http = evhttp_new(loop_base(admin->sources.loop));

    must(http != NULL);
    evhttp_set_bevcb(http, make_bufferevent, NULL);
    evhttp_set_max_headers_size(http, HEAD_MOST_BYTES);
    evhttp_set_max_body_size(http, BODY_MOST_BYTES);
    evhttp_set_timeout(http, TIMEOUT_SECONDS);
    evhttp_set_default_content_type(http, NULL);
    /* the others are answered here too, with what is allowed */
    evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
                                         EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
    evhttp_set_gencb(http, on_request, admin);
    return http;
}

struct admin *admin_new(const struct admin_sources *sources, struct err *err)
{
    const struct admin_conf *conf = &sources->conf->admin;
    struct admin *admin = mem_zalloc(sizeof(*admin));
    bool good = true;

    admin->magic = ADMIN_MAGIC;
    admin->sources = *sources;
    admin->born = loop_now(sources->loop);
    admin->born_wall = loop_wall(sources->loop);
    admin->level = sources->conf->proxy.log_level;
    admin->page_policy = page_policy();
    admin->http = make_http(admin);
    TAILQ_INIT(&admin->laters);
    TAILQ_INIT(&admin->walks);
    events_start(admin);
    if (conf->token_file != NULL) {
        good = guard_read_tokens(conf->token_file, &admin->tokens, err);
    }
    for (unsigned i = 0; good && i < conf->listen_count; i++) {
        good = listen_at(admin, &conf->listen[i], err);
    }
    if (!good) {
        admin_free(admin);
        return NULL;
    }
    return admin;
}

void admin_adopt(struct admin *admin, const struct conf *conf, const struct admission *admission)
{
    must_be(admin, ADMIN_MAGIC);
    if (conf->proxy.log_level != admin->sources.conf->proxy.log_level) {
        admin->level = conf->proxy.log_level;
    }
    admin->sources.conf = conf;
    admin->sources.admission = admission;
}

void admin_free(struct admin *admin)
{
    must_be(admin, ADMIN_MAGIC);
    evhttp_free(admin->http); /* ends the streams */
    events_stop(admin);
    control_stop(admin);
    look_stop(admin);
    guard_free_tokens(&admin->tokens);
    mem_free(admin->page_policy);
    admin->magic = 0;
    mem_free(admin);
}
