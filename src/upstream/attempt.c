/*
 * Getting a connection: resolve, then one address after the other.
 *
 *   attempt_start -> [resolver] -> those we may reach -> [connection to addrs[next]] -> done(connection)
 *                                                          ^        | failed: next one, at once
 *                                                          `--------'
 *
 *   parked in     woken by              given up by
 *   resolving     the resolver          dns_timeout
 *   connecting    the connection        its share of what is left of connect_timeout
 *
 * A refused address costs nothing. A silent one costs its share: what is left, divided by the addresses left, though at
 * least a second, since a far-away third party may need one lost SYN more. The address that answered is remembered by
 * the resolver, so the next connection doesn't pay again. Racing addresses (RFC 8305) was rejected: a third party with
 * a limit may count the losers.
 */
#include "attempt.h"

#include "base/mem.h"
#include "error.h"

#include <netinet/in.h>
#include <string.h>

enum { ATTEMPT_MAGIC = 0x41545450 };
enum { LEAST_SHARE_US = 1000000, HOST_BYTES = 253 };

static void try_next(struct attempt *attempt, enum upstream_error last, const char *detail);

struct attempt *attempt_new(struct connection_env *env, struct resolver *resolver, struct multi *multi,
                            const struct origin *origin, int64_t timeout_us, attempt_done done)
{
    struct attempt *attempt = mem_zalloc(sizeof(*attempt));

    attempt->magic = ATTEMPT_MAGIC;
    attempt->env = env;
    attempt->resolver = resolver;
    attempt->multi = multi;
    attempt->origin = origin;
    attempt->timeout_us = timeout_us;
    attempt->done = done;
    return attempt;
}

static void attempt_free(struct attempt *attempt)
{
    mem_free(attempt->addrs);
    attempt->magic = 0;
    mem_free(attempt);
}

static void end(struct attempt *attempt, struct upstream *upstream, enum upstream_error error, const char *detail)
{
    attempt->done(attempt, upstream, error, detail);
    attempt_free(attempt);
}

void attempt_abort(struct attempt *attempt)
{
    must_be(attempt, ATTEMPT_MAGIC);
    loop_defer_cancel(&attempt->starting);
    resolve_cancel(&attempt->lookup);
    if (attempt->upstream != NULL) {
        connection_close(attempt->upstream, false);
    }
    attempt_free(attempt);
}

/* Nothing that could mean something else once it stands in a URL. */
static bool is_host(const char *host)
{
    size_t len = strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:");

    return len > 0 && len <= HOST_BYTES && host[len] == '\0';
}

static void on_made(struct upstream *upstream, enum upstream_error error, const char *detail)
{
    struct attempt *attempt = upstream->attempt;

    must_be(attempt, ATTEMPT_MAGIC);
    must(attempt->upstream == upstream);
    attempt->upstream = NULL;
    upstream->attempt = NULL;
    if (error == UPSTREAM_OK) {
        if (attempt->next > 1) {
            resolve_prefer(attempt->resolver, attempt->origin->host, &attempt->addrs[attempt->next - 1]);
        }
        end(attempt, upstream, UPSTREAM_OK, NULL);
        return;
    }
    char *words = mem_strdup(detail); /* they belong to the connection */
    connection_close(upstream, false);
    if (error_is_certificate(error) || error == UPSTREAM_BAD_RESOURCES) {
        end(attempt, NULL, error, words); /* another address would not help */
    } else {
        try_next(attempt, error, words);
    }
    mem_free(words);
}

static int64_t share_us(const struct attempt *attempt, int64_t left_us)
{
    int64_t share = left_us / (attempt->count - attempt->next);

    if (share < LEAST_SHARE_US) {
        share = left_us < LEAST_SHARE_US ? left_us : LEAST_SHARE_US;
    }
    return share;
}

static void try_next(struct attempt *attempt, enum upstream_error last, const char *detail)
{
    int64_t left_us = mono_diff(attempt->deadline, loop_now(attempt->env->loop));

    if (attempt->next == attempt->count) {
        end(attempt, NULL, last, detail);
        return;
    }
    if (left_us < CLOCK_MS_US) {
        end(attempt, NULL, UPSTREAM_BAD_TIMEOUT, "no time left for the other addresses");
        return;
    }
    const struct addr *addr = &attempt->addrs[attempt->next];
    struct upstream *upstream =
        connection_start(attempt->env, attempt->multi, attempt->origin, addr, share_us(attempt, left_us), on_made);
    if (upstream == NULL) {
        end(attempt, NULL, UPSTREAM_BAD_RESOURCES, "libcurl has no memory");
        return;
    }
    attempt->next++;
    attempt->upstream = upstream;
    upstream->attempt = attempt;
}

static void set_port(struct addr *addr, uint16_t port)
{
    if (addr->sa.sa_family == AF_INET6) {
        addr->v6.sin6_port = htons(port);
    } else {
        addr->v4.sin_port = htons(port);
    }
}

static void on_answer(struct attempt *attempt, const struct answer *answer)
{
    if (answer->error != UPSTREAM_OK) {
        end(attempt, NULL, answer->error, answer->detail);
        return;
    }
    attempt->addrs = mem_alloc((answer->count > 0 ? answer->count : 1) * sizeof(attempt->addrs[0]));
    for (unsigned i = 0; i < answer->count; i++) {
        if (connection_may_reach(attempt->env->conf, &answer->addrs[i])) {
            attempt->addrs[attempt->count] = answer->addrs[i];
            set_port(&attempt->addrs[attempt->count], attempt->origin->port);
            attempt->count++;
        }
    }
    if (attempt->count == 0) {
        end(attempt, NULL, UPSTREAM_BAD_PRIVATE, "every address of the name is private");
        return;
    }
    attempt->deadline = mono_add(loop_now(attempt->env->loop), attempt->timeout_us);
    try_next(attempt, UPSTREAM_BAD_UNREACHABLE, "no address");
}

static void on_looked_up(struct lookup *lookup, const struct answer *answer)
{
    struct attempt *attempt = container_of(lookup, struct attempt, lookup);

    must_be(attempt, ATTEMPT_MAGIC);
    on_answer(attempt, answer);
}

void attempt_start(struct attempt *attempt)
{
    struct answer answer;

    must_be(attempt, ATTEMPT_MAGIC);
    if (attempt->multi == NULL) {
        end(attempt, NULL, UPSTREAM_BAD_RESOURCES, "libcurl has no descriptors");
        return;
    }
    if (attempt->origin->tls && attempt->origin->trust == NULL) {
        end(attempt, NULL, UPSTREAM_BAD_TRUST, "see the settings");
        return;
    }
    if (!is_host(attempt->origin->host)) {
        end(attempt, NULL, UPSTREAM_BAD_DNS, "not a host name");
        return;
    }
    attempt->lookup.done = on_looked_up;
    if (resolve_get(attempt->resolver, attempt->origin->host, &attempt->lookup, &answer)) {
        on_answer(attempt, &answer);
    }
}

static void start_now(struct defer *defer)
{
    attempt_start(container_of(defer, struct attempt, starting));
}

void attempt_start_soon(struct attempt *attempt)
{
    loop_defer(attempt->env->loop, &attempt->starting, start_now);
}
