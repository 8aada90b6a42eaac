#include "proxy/admit.h"

#include "base/mem.h"
#include "proxy/order.h"
#include "proxy/part.h"
#include "proxy/users.h"

#include <string.h>

enum { PORT_HTTP = 80, PORT_HTTPS = 443 };

static enum verdict refused(struct refusal *refusal, enum verdict verdict, const char *detail)
{
    *refusal = (struct refusal){.verdict = verdict, .detail = detail};
    return verdict;
}

static bool client_is_allowed(const struct proxy_conf *conf, const struct addr *peer)
{
    for (unsigned i = 0; i < conf->allow_clients_count; i++) {
        if (cidr_contains(&conf->allow_clients[i], peer)) {
            return true;
        }
    }
    return conf->allow_clients_count == 0;
}

static enum verdict check_client(struct exchange *e, struct refusal *refusal)
{
    const struct field *credentials = message_field(e->request, "Proxy-Authorization");

    if (!client_is_allowed(&e->env->conf->proxy, conn_peer(e->caller->conn))) {
        return refused(refusal, VERDICT_CLIENT_DENIED, "this address is not among [proxy] allow_clients");
    }
    if (e->env->users != NULL && (credentials == NULL || !users_allow(e->env->users, credentials->value))) {
        return refused(refusal, VERDICT_AUTH, "send Proxy-Authorization: Basic with a user of this proxy");
    }
    return VERDICT_FORWARDED;
}

/* RFC 9110 section 7.6.2: at 0 the request ends here. */
static enum verdict check_hops(struct exchange *e, struct refusal *refusal)
{
    const struct field *hops = message_field(e->request, "Max-Forwards");
    bool trace = slice_is(e->request->method, "TRACE");

    if (via_has_loop(e->request, &e->env->transfer.via)) {
        return refused(refusal, VERDICT_LOOP, "its Via names this proxy: the destination leads back here");
    }
    if (trace && e->request->framing != FRAMING_NONE) {
        return refused(refusal, VERDICT_BAD_REQUEST, "a TRACE has no content"); /* RFC 9110 section 9.3.8 */
    }
    if (hops == NULL || !slice_is(hops->value, "0") || (!trace && !slice_is(e->request->method, "OPTIONS"))) {
        return VERDICT_FORWARDED;
    }
    return trace ? refused(refusal, VERDICT_NO_TRACE, "Max-Forwards is 0") : VERDICT_SELF;
}

static bool port_is_allowed(const struct proxy_conf *conf, uint16_t port)
{
    for (unsigned i = 0; i < conf->connect_ports_count; i++) {
        if (port >= conf->connect_ports[i].first && port <= conf->connect_ports[i].last) {
            return true;
        }
    }
    return false;
}

/* Where TLS begins here http://host is https://host, so a section for host:443 means both. */
static struct policy *route_port(const struct conf *conf, const char *host, uint16_t port)
{
    struct policy *listed = conf_route(conf, host, port);

    if (listed == NULL && port == PORT_HTTP) {
        listed = conf_route(conf, host, PORT_HTTPS);
        return listed != NULL && listed->https == HTTPS_ORIGINATE ? listed : NULL;
    }
    return listed;
}

/* A request for the proxy's own address, as an SDK sends it whose base_url points here, carries our port in Host; the
 * third party's is the default one. */
static struct policy *route_direct(struct exchange *e)
{
    if (e->target.port == addr_port(conn_local(e->caller->conn))) {
        e->target.port = PORT_HTTP;
    }
    return route_port(e->env->conf, e->target.host, e->target.port);
}

/* An unlisted host that passes at once has no settings of its own, hence no TLS of ours. */
static bool originates(const struct exchange *e, const struct policy *listed)
{
    const struct conf *conf = e->env->conf;

    if (listed == NULL && conf->proxy.unlisted == UNLISTED_PASS) {
        return false;
    }
    return (listed != NULL ? listed : conf->fallback)->https == HTTPS_ORIGINATE;
}

static bool is_served(void *arg, const char *host, uint16_t port)
{
    const struct exchange *e = arg;

    return originates(e, route_port(e->env->conf, host, port == PORT_HTTPS ? PORT_HTTP : port));
}

static size_t without_port(struct slice authority)
{
    size_t len = authority.len;

    while (len > 0 && authority.ptr[len - 1] >= '0' && authority.ptr[len - 1] <= '9') {
        len--;
    }
    return len > 1 && authority.ptr[len - 1] == ':' && authority.ptr[len - 2] != ':' ? len - 1 : authority.len;
}

/* The caller says http:// and means https://: a port it left out is the other one, and one it wrote must not reach the
 * third party. */
static void begin_tls(struct exchange *e)
{
    struct slice *authority = &e->target.authority;

    e->origin.tls = true;
    if (e->target.tls) {
        return; /* it knows: nothing in the answer needs mending */
    }
    if (e->origin.port == PORT_HTTP) {
        e->origin.port = PORT_HTTPS;
        authority->len = without_port(*authority);
    }
    if (e->policy->rewrite) {
        e->transfer.rewrite = (struct rewrite){is_served, e};
    }
}

/* Of a target that names its host. */
static struct policy *route_whole(const struct exchange *e)
{
    bool tls = e->connect || e->caller->inside;

    return (tls ? conf_route : route_port)(e->env->conf, e->target.host, e->target.port);
}

static enum verdict route(struct exchange *e, struct refusal *refusal)
{
    const struct conf *conf = e->env->conf;
    bool inside = e->caller->inside;
    bool direct = !inside && (e->target.form == TARGET_ORIGIN || e->target.form == TARGET_ASTERISK);
    struct policy *listed = direct ? route_direct(e) : route_whole(e);

    if (listed == NULL && direct && e->target.form == TARGET_ASTERISK) {
        return VERDICT_SELF;
    }
    if (listed == NULL && direct) {
        return refused(
            refusal, VERDICT_NOT_LISTED,
            "this is a forward proxy: send the whole URL (set HTTP_PROXY), or list the host in a [destination]");
    }
    if (e->connect && !port_is_allowed(&conf->proxy, e->target.port)) {
        return refused(refusal, VERDICT_BAD_PORT, "the port is not among [proxy] connect_ports");
    }
    if (listed == NULL && conf->proxy.unlisted == UNLISTED_DENY) {
        return refused(refusal, VERDICT_DENIED, "no [destination] lists this host, and [proxy] unlisted = deny");
    }
    if (e->target.tls && !e->connect && !inside && !originates(e, listed)) {
        return refused(refusal, VERDICT_HTTPS_URL,
                       "ask for https:// by CONNECT (set HTTPS_PROXY to this proxy), or set https = originate for it");
    }
    e->paced = listed != NULL || conf->proxy.unlisted == UNLISTED_PACE;
    e->policy = policy_get(listed != NULL ? listed : conf->fallback);
    e->bucket_name =
        listed != NULL ? mem_strdup(listed->label) : mem_printf("%s:%s", conf->fallback->label, e->target.host);
    e->origin = (struct origin){.host = e->target.host, .port = e->target.port, .fresh = e->connect};
    e->intercept = e->connect && e->paced && e->policy->https == HTTPS_INTERCEPT;
    e->metered = e->connect && e->paced && !e->intercept;
    e->origin.tls = e->caller->inside;
    if (!e->connect && !e->caller->inside && originates(e, listed)) {
        begin_tls(e);
    }
    return VERDICT_FORWARDED;
}

/* A field that the caller's Connection names doesn't travel on, so it is as good as missing. */
static bool is_sent(const struct message *request, const char *name)
{
    return message_field(request, name) != NULL && !message_has_token(request, "Connection", name);
}

/* What the destination insists on in its requests, and what it has changed in them. */
static enum verdict dress(struct exchange *e, struct refusal *refusal)
{
    const struct feedback_conf *rules = &e->policy->feedback;

    if (e->connect || !e->paced) {
        return VERDICT_FORWARDED;
    }
    for (unsigned i = 0; i < rules->drop_header_count; i++) {
        message_drop_field(e->request, rules->drop_header[i].name);
    }
    for (unsigned i = 0; i < rules->set_header_count; i++) {
        message_set_field(e->request, rules->set_header[i].name, rules->set_header[i].value);
    }
    for (unsigned i = 0; i < rules->require_header_count; i++) {
        const char *name = rules->require_header[i].name;
        const struct field *field = message_field(e->request, name);
        if (field == NULL || (!message_is_ours(e->request, field) && !is_sent(e->request, name))) {
            e->wanted = mem_printf("this destination wants requests with the header field %s", name);
            return refused(refusal, VERDICT_HEADER_MISSING, e->wanted);
        }
    }
    return VERDICT_FORWARDED;
}

/* Prefer: wait=N (RFC 7240 section 4.3) bounds the caller's patience. */
static int64_t patience_us(const struct exchange *e)
{
    int64_t least_us = e->policy->max_wait_us;

    for (unsigned i = 0; i < e->request->fields_count; i++) {
        struct slice list = e->request->fields[i].value;
        struct slice element;
        if (!slice_is_nocase(e->request->fields[i].name, "Prefer")) {
            continue;
        }
        while (slice_next_element(&list, &element)) {
            uint64_t seconds;
            if (element.len > 5 && strncasecmp(element.ptr, "wait=", 5) == 0 &&
                str_parse_u64((struct slice){element.ptr + 5, element.len - 5}, &seconds) &&
                seconds < (uint64_t)(least_us / CLOCK_SECOND_US) + 1) {
                int64_t wanted_us = (int64_t)seconds * CLOCK_SECOND_US;
                least_us = wanted_us < least_us ? wanted_us : least_us;
            }
        }
    }
    return least_us;
}

/* Inside an intercepted CONNECT everything is for its host, over TLS; a Host field that says otherwise is meant to get
 * past a rule. */
static enum verdict check_inside(struct exchange *e, struct refusal *refusal)
{
    const struct caller *caller = e->caller;
    struct target *target = &e->target;
    bool other_port = target->port != caller->inside_port && target->port != PORT_HTTP;

    if (e->connect) {
        return refused(refusal, VERDICT_BAD_REQUEST, "CONNECT inside CONNECT");
    }
    if (strcmp(target->host, caller->inside_host) != 0 || other_port ||
        (target->form == TARGET_ABSOLUTE && !target->tls)) {
        return refused(refusal, VERDICT_MISDIRECTED, "Host and the host of the CONNECT must agree");
    }
    target->port = caller->inside_port;
    target->tls = true;
    return VERDICT_FORWARDED;
}

enum verdict admit_exchange(struct exchange *e, struct refusal *refusal)
{
    /* who a caller is was settled with its CONNECT */
    enum verdict verdict = e->caller->inside ? VERDICT_FORWARDED : check_client(e, refusal);

    if (verdict != VERDICT_FORWARDED) {
        return verdict;
    }
    enum target_error error = target_parse(e->request, &e->target);
    e->connect = slice_is(e->request->method, "CONNECT");
    if (error != TARGET_OK) {
        e->target.host[0] = '\0';
        return refused(refusal, VERDICT_BAD_REQUEST, target_error_text(error));
    }
    verdict = e->caller->inside ? check_inside(e, refusal) : VERDICT_FORWARDED;
    if (verdict == VERDICT_FORWARDED) {
        verdict = check_hops(e, refusal);
    }
    if (verdict == VERDICT_FORWARDED) {
        verdict = route(e, refusal);
    }
    const char *detail;
    if (verdict == VERDICT_FORWARDED && !part_choose(e, &detail)) {
        verdict = refused(refusal, VERDICT_BAD_REQUEST, detail);
    }
    if (verdict == VERDICT_FORWARDED) {
        e->patience_us = patience_us(e);
        verdict = dress(e, refusal);
    }
    if (verdict == VERDICT_FORWARDED && e->intercept) {
        order_keep_user(e);
    }
    return verdict;
}
