/*
 * The link: one connection, the calls in flight on it, and what happens when it is lost.
 *
 *   link_eval -> flight -> FIFO ---------------------------------------> reply -> done(call, reply)
 *                    \-> out (bytes) -> [once per turn] -> transport ->/
 *
 * Redis answers in order, so the FIFO is all there is to tell whose a reply is, and nothing can be repaired: the first
 * odd byte, missing or surplus reply drops the connection with every call on it. A lost call is never sent again, since
 * it may have run.
 *
 *   parked in    woken by                      given up by
 *   DOWN         timer (back-off)              -
 *   CONNECTING   transport: open or gone       timer (connect timeout)
 *   LOADING      the handshake's last answer   timer (connect timeout), a wrong answer, gone
 *   UP           -                             timer (the oldest call's timeout), an odd reply, gone
 *
 * The one timer belongs to the state. In UP it is set lazily: it fires for a call that has been answered meanwhile and
 * is then set for the one that is the oldest now. A process that was stopped for a while finds the timer due before it
 * has read what came meanwhile; the first finding is therefore given GRACE_US, time for a look at the socket.
 *
 * link_eval and link_command only append to `out`, which leaves in one write by a deferred call. All callbacks are made
 * from the transport's deferred step, the timer or the announcement, never from a function of link.h.
 *
 * Back-off starts anew only after a connection that was of use (answered a call, or stayed up for as long as the
 * longest back-off): a server that greets well but can't serve would otherwise be dialled every 50 ms.
 */
#include "redis/link.h"

#include "base/log.h"
#include "base/mem.h"
#include "redis/backoff.h"
#include "redis/flight.h"
#include "redis/hello.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "redis/script.h"
#include "redis/transport.h"

#include <event2/buffer.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#define LINK_MAGIC 0x6c696e6bu
#define GRACE_US (5 * CLOCK_MS_US)
enum { LISTENERS_MAX = 8, WHY_BYTES = 160 };

struct listener {
    const struct link_ops *ops;
    void *arg;
    bool told_up;
};

struct link {
    uint32_t magic;
    enum link_state state;
    struct loop *loop;
    struct redis_conf conf; /* own copy: settings may be loaded again */
    struct script_set scripts;
    struct transport *transport;
    struct timer timer; /* the state's */

    struct hello hello;
    struct resp *resp;    /* non-NULL in LOADING and UP */
    struct evbuffer *out; /* to be sent at the end of this turn */
    struct defer flush;
    struct flights flights;
    bool grace; /* the oldest call was found overdue once */

    struct mono up_since, changed; /* the latter: between UP and anything else */
    uint64_t ups, lost;
    struct histogram trips;
    bool useful; /* this connection has answered a call */
    struct backoff backoff;
    char logged[WHY_BYTES]; /* the last reason in the log */

    struct listener listeners[LISTENERS_MAX];
    unsigned listeners_count;
    struct defer announce;
    bool calling; /* a callback is running */
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
static void move(struct link *link, enum link_state to, int64_t timeout_us)
{
    must(move_is_legal(link->state, to));
    log_line(LOG_DEBUG, "redis_state", LOG_STR("from", state_names[link->state]), LOG_STR("to", state_names[to]),
             LOG_END);
    if (to == LINK_UP || link->state == LINK_UP) {
        link->changed = loop_now(link->loop);
    }
    link->state = to;
    if (timeout_us == CLOCK_NEVER_US) {
        timer_clear(&link->timer);
    } else {
        timer_set(link->loop, &link->timer, mono_add(loop_now(link->loop), timeout_us), timer_due);
    }
}

/* ---- flights ---- */

/* Out of the FIFO, then the owner's callback; the reply is NULL for a lost call. */
static void flight_end(struct link *link, struct flight *flight, const struct redisReply *reply, struct mono answered)
{
    struct link_call *call = flight->call;

    flights_remove(&link->flights, flight);
    flight_free(flight);
    if (call != NULL) {
        if (reply != NULL) {
            histogram_add(&link->trips, mono_diff(answered, call->sent));
        } else {
            link->lost++;
        }
        call->answered = answered;
        call->in_flight = false;
        link->calling = true;
        call->done(call, reply);
        link->calling = false;
    }
}

static void flush(struct defer *defer)
{
    struct link *link = container_of(defer, struct link, flush);

    must_be(link, LINK_MAGIC);
    flights_mark_sent(&link->flights, loop_now(link->loop));
    transport_send(link->transport, link->out);
}

/* Puts a flight at the end of the FIFO and its bytes in the next write. */
static void launch(struct link *link, struct flight *flight, const struct command *command)
{
    must(evbuffer_add(link->out, command->bytes, command->len) == 0);
    flights_push(&link->flights, flight, loop_now(link->loop));
    if (!timer_is_set(&link->timer)) {
        timer_set(link->loop, &link->timer, mono_add(flight->sent, link->conf.timeout_us), timer_due);
    }
    loop_defer(link->loop, &link->flush, flush);
}

/* ---- listeners ---- */

static void tell_up(struct link *link)
{
    for (unsigned i = 0; i < link->listeners_count && link->state == LINK_UP; i++) {
        struct listener *listener = &link->listeners[i];
        if (!listener->told_up) {
            listener->told_up = true;
            link->calling = true;
            listener->ops->on_up(listener->arg, link->hello.run_id);
            link->calling = false;
        }
    }
}

static void tell_down(struct link *link, const char *why)
{
    for (unsigned i = 0; i < link->listeners_count; i++) {
        struct listener *listener = &link->listeners[i];
        if (listener->told_up) {
            listener->told_up = false;
            link->calling = true;
            listener->ops->on_down(listener->arg, why);
            link->calling = false;
        }
    }
}

static void announce(struct defer *defer)
{
    struct link *link = container_of(defer, struct link, announce);

    must_be(link, LINK_MAGIC);
    tell_up(link);
}

/* ---- going down and up ---- */

static void forgive_if_useful(struct link *link)
{
    bool long_up = link->state == LINK_UP && mono_diff(loop_now(link->loop), link->up_since) >= BACKOFF_MAX_US;

    if (link->useful || long_up) {
        backoff_reset(&link->backoff);
        link->logged[0] = '\0';
    }
    link->useful = false;
}

static void log_reason(struct link *link, const char *why)
{
    if (strcmp(link->logged, why) != 0) {
        snprintf(link->logged, sizeof(link->logged), "%s", why);
        log_line(LOG_WARN, "redis_down", LOG_STR("why", why), LOG_STR("host", link->conf.host),
                 link->conf.unix_socket ? LOG_END : LOG_INT("port", link->conf.port), LOG_END);
    }
}

/* The connection and all that is on it are gone, because of `what` and `detail`. */
static void drop(struct link *link, const char *what, const char *detail)
{
    struct flight *flight;
    char why[WHY_BYTES];

    snprintf(why, sizeof(why), "%s%s", what, detail);
    transport_close(link->transport);
    loop_defer_cancel(&link->flush);
    resp_free(link->resp);
    link->resp = NULL;
    evbuffer_drain(link->out, evbuffer_get_length(link->out));
    link->flights.unsent = NULL;
    forgive_if_useful(link);
    log_reason(link, why);
    move(link, LINK_DOWN, backoff_next_us(&link->backoff));
    struct mono now = loop_now(link->loop);
    while ((flight = TAILQ_FIRST(&link->flights.list)) != NULL) { /* anew each time: the owner may forget others */
        flight_end(link, flight, NULL, now);
    }
    tell_down(link, why);
}

static void dial(struct link *link)
{
    move(link, LINK_CONNECTING, link->conf.connect_timeout_us);
    transport_dial(link->transport);
}

static void come_up(struct link *link)
{
    move(link, LINK_UP, CLOCK_NEVER_US);
    transport_prefer(link->transport);
    link->up_since = loop_now(link->loop);
    link->ups++;
    link->grace = false;
    log_line(LOG_INFO, "redis_up", LOG_STR("host", link->conf.host), LOG_STR("run_id", link->hello.run_id), LOG_END);
    tell_up(link);
}

/* ---- replies ---- */

static void take_hello(struct link *link, const struct redisReply *reply)
{
    char why[HELLO_WHY_BYTES];

    switch (hello_take(&link->hello, reply, why)) {
    case HELLO_MORE:
        break;
    case HELLO_DONE:
        come_up(link);
        break;
    case HELLO_REFUSED:
        drop(link, why, "");
        break;
    }
}

static void send_as_eval(struct link *link, struct flight *flight)
{
    struct command eval = script_eval(flight->script, &flight->evalsha);

    flights_remove(&link->flights, flight);
    command_fini(&flight->evalsha);
    flight->script = NULL;
    launch(link, flight, &eval);
    command_fini(&eval);
}

static void take_answer(struct link *link, const struct redisReply *reply, struct mono arrived)
{
    struct flight *flight = flights_awaited(&link->flights);
    char code[REPLY_CODE_BYTES];

    if (flight == NULL) {
        drop(link, "a reply to nothing that was asked", "");
        return;
    }
    enum reply_kind kind = reply_judge(reply, code);
    link->grace = false;
    if (kind == REPLY_CANT_SERVE) {
        drop(link, "the server can't serve: ", code);
    } else if (kind == REPLY_NOSCRIPT && flight->script != NULL && flight->call != NULL) {
        send_as_eval(link, flight);
    } else {
        link->useful = true;
        flight_end(link, flight, reply, arrived);
    }
}

static void on_bytes(void *arg, const char *bytes, size_t len, struct mono arrived)
{
    struct link *link = arg;
    struct redisReply *reply;
    const char *why;

    must_be(link, LINK_MAGIC);
    resp_feed(link->resp, bytes, len);
    while (link->resp != NULL) { /* until it is dropped or wants more */
        enum resp_result result = resp_next(link->resp, &reply, &why);
        if (result == RESP_BROKEN) {
            drop(link, why, "");
        }
        if (result != RESP_REPLY) {
            return;
        }
        if (link->state == LINK_LOADING) {
            take_hello(link, reply);
        } else {
            take_answer(link, reply, arrived);
        }
        freeReplyObject(reply);
    }
}

static void on_open(void *arg)
{
    struct link *link = arg;

    must_be(link, LINK_MAGIC);
    move(link, LINK_LOADING, link->conf.connect_timeout_us);
    link->resp = resp_new();
    hello_begin(&link->hello, &link->conf, &link->scripts, link->out);
    transport_send(link->transport, link->out);
}

static void on_gone(void *arg, const char *why)
{
    struct link *link = arg;

    must_be(link, LINK_MAGIC);
    drop(link, why, "");
}

/* ---- timeouts ---- */

static void check_oldest(struct link *link, struct mono now)
{
    struct flight *oldest = TAILQ_FIRST(&link->flights.list);

    if (oldest == NULL) {
        return;
    }
    struct mono limit = mono_add(oldest->sent, link->conf.timeout_us);
    if (mono_before(now, limit)) {
        timer_set(link->loop, &link->timer, limit, timer_due);
    } else if (!link->grace) {
        link->grace = true;
        timer_set(link->loop, &link->timer, mono_add(now, GRACE_US), timer_due);
    } else {
        drop(link, "no answer in time", "");
    }
}

static void timer_due(struct timer *timer, struct mono now)
{
    struct link *link = container_of(timer, struct link, timer);

    must_be(link, LINK_MAGIC);
    switch (link->state) {
    case LINK_DOWN:
        dial(link);
        break;
    case LINK_CONNECTING:
        drop(link, "timed out: ", transport_waits_for(link->transport));
        break;
    case LINK_LOADING:
        drop(link, "timed out: handshake", "");
        break;
    case LINK_UP:
        check_oldest(link, now);
        break;
    }
}

/* ---- for owners ---- */

static const struct transport_ops transport_calls = {on_open, on_bytes, on_gone};

static void copy_conf(struct redis_conf *to, const struct redis_conf *from)
{
    *to = *from;
    to->url = to->prefix = NULL; /* not the link's business */
    to->host = mem_strdup(from->host);
    to->user = from->user != NULL ? mem_strdup(from->user) : NULL;
    to->password = from->password != NULL ? mem_strdup(from->password) : NULL;
}

struct link *link_new(struct loop *loop, const struct redis_conf *conf, const struct script *const *scripts,
                      unsigned scripts_count)
{
    struct link *link = mem_zalloc(sizeof(*link));

    link->magic = LINK_MAGIC;
    link->state = LINK_DOWN;
    link->loop = loop;
    link->changed = loop_now(loop);
    histogram_init(&link->trips, &histogram_trips);
    copy_conf(&link->conf, conf);
    script_set_init(&link->scripts, scripts, scripts_count);
    link->transport = transport_new(loop, &link->conf, NULL, &transport_calls, link);
    link->out = evbuffer_new();
    must(link->out != NULL);
    flights_init(&link->flights);
    return link;
}

void link_free(struct link *link)
{
    must_be(link, LINK_MAGIC);
    must(!link->calling);
    timer_clear(&link->timer);
    loop_defer_cancel(&link->flush);
    loop_defer_cancel(&link->announce);
    transport_free(link->transport);
    resp_free(link->resp);
    evbuffer_free(link->out);
    flights_fini(&link->flights);
    script_set_fini(&link->scripts);
    mem_free(link->conf.host);
    mem_free(link->conf.user);
    mem_free(link->conf.password);
    link->magic = 0;
    mem_free(link);
}

void link_listen(struct link *link, const struct link_ops *ops, void *arg)
{
    must_be(link, LINK_MAGIC);
    must(link->listeners_count < LISTENERS_MAX);
    link->listeners[link->listeners_count++] = (struct listener){.ops = ops, .arg = arg};
    if (link->state == LINK_UP) {
        loop_defer(link->loop, &link->announce, announce);
    }
}

void link_start(struct link *link)
{
    must_be(link, LINK_MAGIC);
    must(link->state == LINK_DOWN && !timer_is_set(&link->timer)); /* once */
    dial(link);
}

enum link_state link_state(const struct link *link)
{
    must_be(link, LINK_MAGIC);
    return link->state;
}

const char *link_state_text(enum link_state state)
{
    return state_names[state];
}

void link_stats(const struct link *link, struct link_stats *out)
{
    must_be(link, LINK_MAGIC);
    *out = (struct link_stats){.state = link->state,
                               .since = link->changed,
                               .ups = link->ups,
                               .lost = link->lost,
                               .trips = &link->trips};
}

const char *link_run_id(const struct link *link)
{
    must_be(link, LINK_MAGIC);
    return link->state == LINK_UP ? link->hello.run_id : "";
}

bool link_eval(struct link *link, struct link_call *call, const struct script *script, const char *const *keys,
               unsigned keys_count, const char *const *args, unsigned args_count)
{
    must_be(link, LINK_MAGIC);
    if (link->state != LINK_UP) {
        return false;
    }
    struct flight *flight = flight_new(call);
    flight->script = script;
    flight->evalsha =
        script_evalsha(&link->scripts, script, (struct words){keys, keys_count}, (struct words){args, args_count});
    launch(link, flight, &flight->evalsha);
    return true;
}

bool link_command(struct link *link, struct link_call *call, const char *const *words, unsigned words_count)
{
    must_be(link, LINK_MAGIC);
    if (link->state != LINK_UP) {
        return false;
    }
    struct command command = command_make(&(struct words){words, words_count}, 1);
    launch(link, flight_new(call), &command);
    command_fini(&command);
    return true;
}

void link_forget(struct link *link, struct link_call *call)
{
    must_be(link, LINK_MAGIC);
    if (call->in_flight) {
        flights_forget(&link->flights, call);
    }
}
