/*
 * A node: one connection, the calls in flight on it, and what happens when it is lost.
 *
 *   node_eval -> flight -> FIFO ---------------------------------------> reply -> done(call, reply)
 *                    \-> out (bytes) -> [once per turn] -> transport ->/  \-> MOVED, ASK: on_elsewhere
 *
 * Redis answers in order, so the FIFO is all there is to tell whose a reply is, and nothing can be repaired: the first
 * odd byte, missing or surplus reply drops the connection with every call on it. A lost call is never sent again, since
 * it may have run; one that is answered MOVED or ASK has not.
 *
 *   parked in    woken by                                         given up by
 *   DOWN         timer (back-off)                                 - (stopped: node_start)
 *   CONNECTING   Sentinel's answer; transport: open or gone       timer (connect timeout), the sentinels' own
 *   LOADING      the handshake's last answer; Sentinel's again    timer (connect timeout), a wrong answer, gone, the
 * sentinels' own UP           -                                                timer (the oldest call's timeout), an
 * odd reply, gone
 *
 * The one timer belongs to the state. In UP it is set lazily: it fires for a call that has been answered meanwhile and
 * is then set for the one that is the oldest now. A process that was stopped for a while finds the timer due before it
 * has read what came meanwhile; the first finding is therefore given GRACE_US, time for a look at the socket.
 *
 * node_eval and node_command only append to `out`, which leaves in one write by a deferred call. All callbacks are made
 * from the transport's deferred step, the timer or the sentinels' answer, never from a function of node.h.
 *
 * Back-off starts anew only after a connection that was of use (answered a call, or stayed up for as long as the
 * longest back-off): a server that greets well but can't serve would otherwise be dialled every 50 ms. Where a failover
 * is expected, the longest back-off is short: looking for the new primary costs little.
 */
#include "redis/node.h"

#include "base/log.h"
#include "base/mem.h"
#include "redis/backoff.h"
#include "redis/hello.h"
#include "redis/inquiry.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "redis/sentinel.h"
#include "redis/transport.h"

#include <event2/buffer.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#define NODE_MAGIC 0x6e6f6465u
#define GRACE_US (5 * CLOCK_MS_US)
enum { WHY_BYTES = 192 };

struct node {
    uint32_t magic;
    enum link_state state;
    struct loop *loop;
    struct node_shared *shared;
    const struct node_ops *ops;
    void *arg;
    struct redis_conf conf;    /* own copy: settings may be loaded again */
    struct sentinel *sentinel; /* who says where conf.host is; NULL: nobody has to */
    struct transport *transport;
    struct timer timer; /* the state's */

    struct hello hello;
    struct resp *resp;    /* non-NULL in LOADING and UP */
    struct evbuffer *out; /* to be sent at the end of this turn */
    struct defer flush;
    struct flights flights;
    bool grace; /* the oldest call was found overdue once */

    struct mono up_since, changed; /* the latter: between UP and anything else */
    bool useful;                   /* this connection has answered a call */
    struct backoff backoff;
    char logged[WHY_BYTES]; /* the last reason in the log */
    bool calling;           /* a callback is running */
};

static const char *const state_names[] = {
#define X(name, text) [LINK_##name] = text,
    LINK_STATES(X)
#undef X
};

static void timer_due(struct timer *timer, struct mono now);

/* ---- state ---- */

static bool move_is_legal(enum link_state from, enum link_state to)
{
    static const unsigned legal[] = {
        [LINK_DOWN] = 1u << LINK_CONNECTING,
        [LINK_CONNECTING] = 1u << LINK_LOADING | 1u << LINK_DOWN,
        [LINK_LOADING] = 1u << LINK_UP | 1u << LINK_DOWN,
        [LINK_UP] = 1u << LINK_DOWN,
    };
    return (legal[from] & 1u << to) != 0;
}

/* The only writer of `state`. The timer is the new state's: due after `timeout_us`, or clear. */
static void move(struct node *node, enum link_state to, int64_t timeout_us)
{
    must(move_is_legal(node->state, to));
    log_line(LOG_DEBUG, "redis_state", LOG_STR("from", state_names[node->state]), LOG_STR("to", state_names[to]),
             LOG_END);
    if (to == LINK_UP || node->state == LINK_UP) {
        node->changed = loop_now(node->loop);
    }
    node->state = to;
    if (timeout_us == CLOCK_NEVER_US) {
        timer_clear(&node->timer);
    } else {
        timer_set(node->loop, &node->timer, mono_add(loop_now(node->loop), timeout_us), timer_due);
    }
}

/* ---- flights ---- */

/* The owner's callback, and the end of the flight, which is in no FIFO. The reply is NULL for a lost call. */
static void tell_owner(struct node *node, struct flight *flight, const struct redisReply *reply, struct mono answered)
{
    struct link_call *call = flight->call;

    flight_free(flight);
    if (call != NULL) {
        if (reply != NULL) {
            histogram_add(&node->shared->trips, mono_diff(answered, call->sent));
        } else {
            node->shared->lost++;
        }
        call->answered = answered;
        call->in_flight = false;
        node->calling = true;
        call->done(call, reply);
        node->calling = false;
    }
}

static void flight_end(struct node *node, struct flight *flight, const struct redisReply *reply, struct mono answered)
{
    flights_remove(&node->flights, flight);
    tell_owner(node, flight, reply, answered);
}

static void flush(struct defer *defer)
{
    struct node *node = container_of(defer, struct node, flush);

    must_be(node, NODE_MAGIC);
    flights_mark_sent(&node->flights, loop_now(node->loop));
    transport_send(node->transport, node->out);
}

/* Puts a flight at the end of the FIFO and its bytes in the next write. */
static void launch(struct node *node, struct flight *flight, const struct command *command)
{
    must(evbuffer_add(node->out, command->bytes, command->len) == 0);
    if (flight->call != NULL) {
        flight->call->node = node;
    }
    flights_push(&node->flights, flight, loop_now(node->loop));
    if (!timer_is_set(&node->timer)) {
        timer_set(node->loop, &node->timer, mono_add(flight->sent, node->conf.timeout_us), timer_due);
    }
    loop_defer(node->loop, &node->flush, flush);
}

/* ---- going down and up ---- */

static void forgive_if_useful(struct node *node)
{
    bool long_up = node->state == LINK_UP && mono_diff(loop_now(node->loop), node->up_since) >= BACKOFF_MAX_US;

    if (node->useful || long_up) {
        backoff_reset(&node->backoff);
        node->logged[0] = '\0';
    }
    node->useful = false;
}

static void log_reason(struct node *node, const char *why)
{
    if (strcmp(node->logged, why) != 0) {
        snprintf(node->logged, sizeof(node->logged), "%s", why);
        log_line(LOG_WARN, "redis_down", LOG_STR("why", why), LOG_STR("host", node->conf.host),
                 node->conf.unix_socket ? LOG_END : LOG_INT("port", node->conf.port), LOG_END);
    }
}

/* The connection and all that is on it are gone, because of `what` and `detail`. */
static void drop(struct node *node, const char *what, const char *detail)
{
    bool was_up = node->state == LINK_UP;
    struct flight *flight;
    char why[WHY_BYTES];

    snprintf(why, sizeof(why), "%s%s", what, detail);
    if (node->sentinel != NULL) {
        sentinel_stop(node->sentinel);
        if (!was_up) {
            sentinel_doubt(node->sentinel);
        }
    }
    transport_close(node->transport);
    loop_defer_cancel(&node->flush);
    resp_free(node->resp);
    node->resp = NULL;
    evbuffer_drain(node->out, evbuffer_get_length(node->out));
    node->flights.unsent = NULL;
    forgive_if_useful(node);
    log_reason(node, why);
    move(node, LINK_DOWN,
         backoff_next_us(&node->backoff, node->conf.kind == REDIS_SERVER ? BACKOFF_MAX_US : BACKOFF_SEARCH_MAX_US));
    struct mono now = loop_now(node->loop);
    while ((flight = TAILQ_FIRST(&node->flights.list)) != NULL) { /* anew each time: the owner may forget others */
        flight_end(node, flight, NULL, now);
    }
    if (was_up) {
        node->calling = true;
        node->ops->on_down(node->arg, why);
        node->calling = false;
    }
}

static void dial_host(struct node *node)
{
    timer_set(node->loop, &node->timer, mono_add(loop_now(node->loop), node->conf.connect_timeout_us), timer_due);
    transport_dial(node->transport);
}

static bool is_named(const struct node *node, const struct redis_host *primary)
{
    return strcmp(node->conf.host, primary->host) == 0 && node->conf.port == primary->port;
}

static void come_up(struct node *node)
{
    move(node, LINK_UP, CLOCK_NEVER_US);
    transport_prefer(node->transport);
    node->up_since = loop_now(node->loop);
    node->shared->ups++;
    node->grace = false;
    log_line(LOG_INFO, "redis_up", LOG_STR("host", node->conf.host), LOG_STR("run_id", node->hello.run_id),
             node->conf.unix_socket ? LOG_END : LOG_INT("port", node->conf.port), LOG_END);
    node->calling = true;
    node->ops->on_up(node->arg);
    node->calling = false;
}

/* Before the connection: where to. After the handshake: still there? `why` NULL: the sentinels say `primary`. */
static void on_named(void *arg, const struct redis_host *primary, const char *why)
{
    struct node *node = arg;

    must_be(node, NODE_MAGIC);
    must(node->state == LINK_CONNECTING || node->state == LINK_LOADING);
    if (why != NULL) {
        drop(node, why, "");
    } else if (node->state == LINK_CONNECTING) {
        if (!is_named(node, primary)) {
            mem_free(node->conf.host);
            node->conf.host = mem_strdup(primary->host);
            node->conf.port = primary->port;
            transport_forget(node->transport);
        }
        dial_host(node);
    } else if (is_named(node, primary)) {
        come_up(node);
    } else {
        drop(node, "the sentinels name another primary by now", "");
    }
}

/* A server that stood still while another one was promoted goes on where it was, and says that it is the primary; and
 * one sentinel may be behind the times. So a second one is asked, if there is any that answers. */
static void greeted(struct node *node)
{
    if (node->sentinel != NULL) {
        timer_clear(&node->timer);
        sentinel_doubt(node->sentinel);
        sentinel_ask(node->sentinel);
    } else {
        come_up(node);
    }
}

static void dial(struct node *node)
{
    move(node, LINK_CONNECTING, CLOCK_NEVER_US);
    if (node->sentinel != NULL) {
        sentinel_ask(node->sentinel);
    } else {
        dial_host(node);
    }
}

/* ---- replies ---- */

static void take_hello(struct node *node, const struct redisReply *reply)
{
    char why[HELLO_WHY_BYTES];

    if (node->sentinel != NULL && sentinel_is_asking(node->sentinel)) { /* it has greeted already */
        drop(node, "a reply to nothing that was asked", "");
        return;
    }
    switch (hello_take(&node->hello, reply, why)) {
    case HELLO_MORE:
        break;
    case HELLO_DONE:
        greeted(node);
        break;
    case HELLO_REFUSED:
        drop(node, why, "");
        break;
    }
}

static void send_as_eval(struct node *node, struct flight *flight)
{
    struct command eval = script_eval(flight->script, &flight->evalsha);

    flights_remove(&node->flights, flight);
    command_fini(&flight->evalsha);
    flight->script = NULL;
    launch(node, flight, &eval);
    command_fini(&eval);
}

/* The key is on another server of the cluster, or is about to be. */
static void take_elsewhere(struct node *node, struct flight *flight, const struct redisReply *reply,
                           struct mono arrived)
{
    if (node->ops->on_elsewhere == NULL) {
        drop(node, "the server is one of a cluster; write cluster://HOST[,HOST] as url", "");
        return;
    }
    node->useful = true;
    flights_remove(&node->flights, flight);
    node->calling = true;
    enum elsewhere what = node->ops->on_elsewhere(node->arg, flight, reply);
    node->calling = false;
    if (what != ELSEWHERE_TAKEN) {
        tell_owner(node, flight, what == ELSEWHERE_TOLD ? reply : NULL, arrived);
    }
}

static void take_answer(struct node *node, const struct redisReply *reply, struct mono arrived)
{
    struct flight *flight = flights_awaited(&node->flights);
    char code[REPLY_CODE_BYTES];

    if (flight == NULL) {
        drop(node, "a reply to nothing that was asked", "");
        return;
    }
    enum reply_kind kind = reply_judge(reply, code);
    node->grace = false;
    if (kind == REPLY_CANT_SERVE) {
        node->useful = false; /* whatever else it has answered */
        if (node->sentinel != NULL) {
            sentinel_doubt(node->sentinel);
        }
        drop(node, "the server can't serve: ", code);
    } else if (kind == REPLY_NOSCRIPT && flight->script != NULL && flight->call != NULL) {
        send_as_eval(node, flight);
    } else if (kind == REPLY_ELSEWHERE) {
        take_elsewhere(node, flight, reply, arrived);
    } else {
        node->useful = true;
        flight_end(node, flight, reply, arrived);
    }
}

static void on_bytes(void *arg, const char *bytes, size_t len, struct mono arrived)
{
    struct node *node = arg;
    struct redisReply *reply;
    const char *why;

    must_be(node, NODE_MAGIC);
    resp_feed(node->resp, bytes, len);
    while (node->resp != NULL) { /* until it is dropped or wants more */
        enum resp_result result = resp_next(node->resp, &reply, &why);
        if (result == RESP_BROKEN) {
            drop(node, why, "");
        }
        if (result != RESP_REPLY) {
            return;
        }
        if (node->state == LINK_LOADING) {
            take_hello(node, reply);
        } else {
            take_answer(node, reply, arrived);
        }
        freeReplyObject(reply);
    }
}

static void on_open(void *arg)
{
    struct node *node = arg;

    must_be(node, NODE_MAGIC);
    move(node, LINK_LOADING, node->conf.connect_timeout_us);
    node->resp = resp_new();
    hello_begin(&node->hello, &node->conf, &node->shared->scripts, node->out);
    transport_send(node->transport, node->out);
}

static void on_gone(void *arg, const char *why)
{
    struct node *node = arg;

    must_be(node, NODE_MAGIC);
    drop(node, why, "");
}

/* ---- timeouts ---- */

static void check_oldest(struct node *node, struct mono now)
{
    struct flight *oldest = TAILQ_FIRST(&node->flights.list);

    if (oldest == NULL) {
        return;
    }
    struct mono limit = mono_add(oldest->sent, node->conf.timeout_us);
    if (mono_before(now, limit)) {
        timer_set(node->loop, &node->timer, limit, timer_due);
    } else if (!node->grace) {
        node->grace = true;
        timer_set(node->loop, &node->timer, mono_add(now, GRACE_US), timer_due);
    } else {
        drop(node, "no answer in time", "");
    }
}

static void timer_due(struct timer *timer, struct mono now)
{
    struct node *node = container_of(timer, struct node, timer);

    must_be(node, NODE_MAGIC);
    switch (node->state) {
    case LINK_DOWN:
        dial(node);
        break;
    case LINK_CONNECTING:
        drop(node, "timed out: ", transport_waits_for(node->transport));
        break;
    case LINK_LOADING:
        drop(node, "timed out: handshake", "");
        break;
    case LINK_UP:
        check_oldest(node, now);
        break;
    }
}

/* ---- for owners ---- */

static const struct transport_ops transport_calls = {on_open, on_bytes, on_gone};

struct node *node_new(struct node_shared *shared, const struct redis_conf *conf, const struct node_ops *ops, void *arg)
{
    struct node *node = mem_zalloc(sizeof(*node));

    node->magic = NODE_MAGIC;
    node->state = LINK_DOWN;
    node->loop = shared->loop;
    node->shared = shared;
    node->ops = ops;
    node->arg = arg;
    node->changed = loop_now(shared->loop);
    redis_conf_copy(&node->conf, conf);
    node->transport = transport_new(shared->loop, &node->conf, shared->tls, &transport_calls, node);
    if (conf->kind == REDIS_SENTINEL) {
        node->sentinel = sentinel_new(shared->loop, conf, shared->tls, on_named, node);
    }
    node->out = evbuffer_new();
    must(node->out != NULL);
    flights_init(&node->flights);
    return node;
}

void node_free(struct node *node)
{
    must_be(node, NODE_MAGIC);
    must(!node->calling);
    timer_clear(&node->timer);
    loop_defer_cancel(&node->flush);
    transport_free(node->transport);
    if (node->sentinel != NULL) {
        sentinel_free(node->sentinel);
    }
    resp_free(node->resp);
    evbuffer_free(node->out);
    flights_fini(&node->flights);
    redis_conf_fini(&node->conf);
    node->magic = 0;
    mem_free(node);
}

void node_start(struct node *node)
{
    must_be(node, NODE_MAGIC);
    if (node->state == LINK_DOWN && !timer_is_set(&node->timer)) {
        dial(node);
    }
}

void node_stop(struct node *node, const char *why)
{
    must_be(node, NODE_MAGIC);
    must(!node->calling);
    if (node->state != LINK_DOWN) {
        drop(node, why, "");
    }
    timer_clear(&node->timer);
}

enum link_state node_state(const struct node *node)
{
    must_be(node, NODE_MAGIC);
    return node->state;
}

struct mono node_changed(const struct node *node)
{
    must_be(node, NODE_MAGIC);
    return node->changed;
}

const char *node_state_text(enum link_state state)
{
    return state_names[state];
}

const char *node_run_id(const struct node *node)
{
    must_be(node, NODE_MAGIC);
    return node->state == LINK_UP ? node->hello.run_id : "";
}

bool node_eval(struct node *node, struct link_call *call, const struct script *script, struct words keys,
               struct words args)
{
    must_be(node, NODE_MAGIC);
    if (node->state != LINK_UP) {
        return false;
    }
    struct flight *flight = flight_new(call);
    flight->script = script;
    flight->evalsha = script_evalsha(&node->shared->scripts, script, keys, args);
    launch(node, flight, &flight->evalsha);
    return true;
}

static void launch_words(struct node *node, struct flight *flight, struct words words)
{
    struct command command = command_make(&words, 1);

    launch(node, flight, &command);
    command_fini(&command);
}

bool node_command(struct node *node, struct link_call *call, struct words words)
{
    must_be(node, NODE_MAGIC);
    if (node->state != LINK_UP) {
        return false;
    }
    launch_words(node, flight_new(call), words);
    return true;
}

bool node_take_over(struct node *node, struct flight *flight, bool asking)
{
    static const char *const words[] = {"ASKING"};

    must_be(node, NODE_MAGIC);
    if (node->state != LINK_UP || flight->script == NULL) {
        return false;
    }
    if (asking) {
        launch_words(node, flight_new(NULL), (struct words){words, 1});
    }
    launch(node, flight, &flight->evalsha);
    return true;
}

void node_forget(struct node *node, struct link_call *call)
{
    must_be(node, NODE_MAGIC);
    flights_forget(&node->flights, call);
}
