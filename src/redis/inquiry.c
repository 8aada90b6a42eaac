/*
 * One question, several servers, in turn:
 *
 *   start -> next host: dial -> [AUTH] question -> reply -> take() -> fine: done(NULL); this host is asked first next
 * time ^         \--------- no connection, error, refused, time is up ---------/
 *               '-- and when it was the last one: done(why of it)
 *
 * A connection for each question, since they are rare and what they are about is servers that come and go: nothing has
 * to be kept alive, and a server that went silent costs one wait and not a reconnect of its own. The wait is short
 * where there are others to ask.
 *
 * Of a refused answer only the error's code is shown: servers quote what they were sent, a password among it.
 */
#include "redis/inquiry.h"

#include "base/mem.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "redis/transport.h"

#include <event2/buffer.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#define INQUIRY_MAGIC 0x696e7175u
#define WAIT_MOST_US CLOCK_SECOND_US

struct inquiry {
    uint32_t magic;
    struct loop *loop;
    struct redis_conf conf; /* own copy; host and port are those being asked */
    const char *who;
    struct command question;
    const struct inquiry_ops *ops;
    void *arg;
    struct redis_host *hosts;
    unsigned count, first, tried;
    bool running;
    struct transport *transport;
    struct resp *resp;
    bool greeting; /* the next reply is AUTH's */
    struct timer timer;
    char why[INQUIRY_WHY_BYTES];
};

static void try_next(struct inquiry *inquiry);

static void hang_up(struct inquiry *inquiry)
{
    timer_clear(&inquiry->timer);
    transport_close(inquiry->transport);
    resp_free(inquiry->resp);
    inquiry->resp = NULL;
}

static void end(struct inquiry *inquiry, const char *why)
{
    inquiry->running = false;
    inquiry->ops->done(inquiry->arg, why);
}

/* This one is of no use. */
static void give_up(struct inquiry *inquiry, const char *why)
{
    hang_up(inquiry);
    snprintf(inquiry->why, sizeof(inquiry->why), "%s %s:%u: %s", inquiry->who, inquiry->conf.host, inquiry->conf.port,
             why);
    try_next(inquiry);
}

static void time_is_up(struct timer *timer, struct mono now)
{
    struct inquiry *inquiry = container_of(timer, struct inquiry, timer);
    must_be(inquiry, INQUIRY_MAGIC);

    (void)now;
    give_up(inquiry, "no answer in time");
}

static void try_next(struct inquiry *inquiry)
{
    int64_t wait_us = inquiry->conf.connect_timeout_us < WAIT_MOST_US ? inquiry->conf.connect_timeout_us : WAIT_MOST_US;

    if (inquiry->tried == inquiry->count) {
        end(inquiry, inquiry->why);
        return;
    }
    const struct redis_host *host = &inquiry->hosts[(inquiry->first + inquiry->tried++) % inquiry->count];
    mem_free(inquiry->conf.host);
    inquiry->conf.host = mem_strdup(host->host);
    inquiry->conf.port = host->port;
    transport_forget(inquiry->transport);
    timer_set(inquiry->loop, &inquiry->timer, mono_add(loop_now(inquiry->loop), wait_us), time_is_up);
    transport_dial(inquiry->transport);
}

/* ---- replies ---- */

static void take_error(struct inquiry *inquiry, const char *code)
{
    char why[REPLY_CODE_BYTES + 96];

    if (strcmp(code, "WRONGPASS") == 0) {
        give_up(inquiry, "wrong user or password (WRONGPASS)");
    } else if (strcmp(code, "NOAUTH") == 0) {
        give_up(inquiry, "a password is required (NOAUTH)");
    } else {
        snprintf(why, sizeof(why), "%s: %s", inquiry->greeting ? "AUTH refused" : inquiry->ops->refused,
                 code[0] != '\0' ? code : "error");
        give_up(inquiry, why);
    }
}

static void take_reply(struct inquiry *inquiry, const struct redisReply *reply)
{
    char code[REPLY_CODE_BYTES];
    unsigned at = (inquiry->first + inquiry->tried - 1) % inquiry->count;

    if (reply_judge(reply, code) != REPLY_FINE) {
        take_error(inquiry, code);
        return;
    }
    if (inquiry->greeting) {
        inquiry->greeting = false;
        return;
    }
    const char *why = inquiry->ops->take(inquiry->arg, reply, &inquiry->hosts[at]);
    if (why != NULL) {
        give_up(inquiry, why);
        return;
    }
    hang_up(inquiry);
    inquiry->first = at;
    end(inquiry, NULL);
}

static void on_bytes(void *arg, const char *bytes, size_t len, struct mono arrived)
{
    struct inquiry *inquiry = arg;
    struct resp *resp = inquiry->resp;
    struct redisReply *reply;
    const char *why;

    must_be(inquiry, INQUIRY_MAGIC);
    (void)arrived;
    resp_feed(resp, bytes, len);
    while (inquiry->resp == resp && resp != NULL) { /* until it has hung up or wants more */
        enum resp_result result = resp_next(resp, &reply, &why);
        if (result == RESP_BROKEN) {
            give_up(inquiry, why);
            return;
        }
        if (result != RESP_REPLY) {
            return;
        }
        take_reply(inquiry, reply);
        freeReplyObject(reply);
    }
}

static void add_auth(const struct redis_conf *conf, struct evbuffer *out)
{
    const char *const with_user[] = {"AUTH", conf->user, conf->password}, *const alone[] = {"AUTH", conf->password};
    struct words words = conf->user != NULL ? (struct words){with_user, 3} : (struct words){alone, 2};
    struct command command = command_make(&words, 1);

    must(evbuffer_add(out, command.bytes, command.len) == 0);
    command_fini(&command);
}

static void on_open(void *arg)
{
    struct inquiry *inquiry = arg;
    struct evbuffer *out = evbuffer_new();

    must_be(inquiry, INQUIRY_MAGIC);
    must(out != NULL);
    inquiry->resp = resp_new();
    inquiry->greeting = inquiry->conf.password != NULL;
    if (inquiry->greeting) {
        add_auth(&inquiry->conf, out);
    }
    must(evbuffer_add(out, inquiry->question.bytes, inquiry->question.len) == 0);
    transport_send(inquiry->transport, out);
    evbuffer_free(out);
}

static void on_gone(void *arg, const char *why)
{
    struct inquiry *inquiry = arg;

    must_be(inquiry, INQUIRY_MAGIC);
    give_up(inquiry, why);
}

/* ---- for owners ---- */

static const struct transport_ops transport_calls = {on_open, on_bytes, on_gone};

struct inquiry *inquiry_new(struct loop *loop, const struct redis_conf *conf, SSL_CTX *tls, const char *who,
                            struct words question, const struct inquiry_ops *ops, void *arg)
{
    struct inquiry *inquiry = mem_zalloc(sizeof(*inquiry));

    inquiry->magic = INQUIRY_MAGIC;
    inquiry->loop = loop;
    redis_conf_copy(&inquiry->conf, conf);
    inquiry->who = who;
    inquiry->question = command_make(&question, 1);
    inquiry->ops = ops;
    inquiry->arg = arg;
    inquiry->transport = transport_new(loop, &inquiry->conf, tls, &transport_calls, inquiry);
    return inquiry;
}

static void drop_hosts(struct inquiry *inquiry)
{
    for (unsigned i = 0; i < inquiry->count; i++) {
        mem_free(inquiry->hosts[i].host);
    }
    mem_free(inquiry->hosts);
    inquiry->hosts = NULL;
    inquiry->count = 0;
}

void inquiry_free(struct inquiry *inquiry)
{
    must_be(inquiry, INQUIRY_MAGIC);
    inquiry_stop(inquiry);
    transport_free(inquiry->transport);
    drop_hosts(inquiry);
    command_fini(&inquiry->question);
    redis_conf_fini(&inquiry->conf);
    inquiry->magic = 0;
    mem_free(inquiry);
}

void inquiry_set_hosts(struct inquiry *inquiry, const struct redis_host *hosts, unsigned count)
{
    must_be(inquiry, INQUIRY_MAGIC);
    must(!inquiry->running && count > 0);
    struct redis_host *copies = mem_alloc(count * sizeof(copies[0]));
    unsigned first = count;

    for (unsigned i = 0; i < count; i++) {
        bool was_first = inquiry->count > 0 && inquiry->hosts[inquiry->first].port == hosts[i].port &&
                         strcmp(inquiry->hosts[inquiry->first].host, hosts[i].host) == 0;
        first = was_first && first == count ? i : first;
        copies[i] = (struct redis_host){mem_strdup(hosts[i].host), hosts[i].port};
    }
    drop_hosts(inquiry);
    inquiry->hosts = copies;
    inquiry->count = count;
    inquiry->first = first < count ? first : 0;
}

void inquiry_start(struct inquiry *inquiry)
{
    must_be(inquiry, INQUIRY_MAGIC);
    must(inquiry->count > 0);
    if (!inquiry->running) {
        inquiry->running = true;
        inquiry->tried = 0;
        try_next(inquiry);
    }
}

void inquiry_stop(struct inquiry *inquiry)
{
    must_be(inquiry, INQUIRY_MAGIC);
    if (inquiry->running) {
        inquiry->running = false;
        hang_up(inquiry);
    }
}

void inquiry_doubt(struct inquiry *inquiry)
{
    must_be(inquiry, INQUIRY_MAGIC);
    if (inquiry->count > 0 && !inquiry->running) {
        inquiry->first = (inquiry->first + 1) % inquiry->count;
    }
}

bool inquiry_is_running(const struct inquiry *inquiry)
{
    must_be(inquiry, INQUIRY_MAGIC);
    return inquiry->running;
}
