#include "fake_redis.h"

#include "base/log.h"
#include "base/mem.h"
#include "redis/script.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const struct script script_one = {"one", "return {KEYS[1], ARGV[1]}\n", 0};
const struct script script_two = {"two", "return 2\n", 0};

static struct fake *current; /* for the log: one test at a time */

void log_fields(enum log_level level, const char *event, const struct log_field *fields)
{
    (void)level;
    if (current == NULL || strcmp(event, "redis_down") != 0) {
        return;
    }
    current->logged_down++;
    for (; fields->kind != LOG_KIND_END; fields++) {
        if (strcmp(fields->name, "why") == 0) {
            snprintf(current->logged_why, sizeof(current->logged_why), "%s", fields->text.ptr);
        }
    }
}

/* ---- the server ---- */

void fake_say(struct fake *fake, const char *text)
{
    ck_assert_ptr_nonnull(fake->peer);
    bufferevent_write(fake->peer, text, strlen(text));
}

void fake_hang_up(struct fake *fake)
{
    if (fake->peer != NULL) {
        bufferevent_free(fake->peer);
        redisReaderFree(fake->reader);
    }
    fake->peer = NULL;
    fake->reader = NULL;
}

static void answer_load(struct fake *fake, const char *text)
{
    struct script script = {"", text, 0};
    const struct script *scripts[] = {&script};
    struct script_set set;
    char bulk[64];

    script_set_init(&set, scripts, 1);
    snprintf(bulk, sizeof(bulk), "$40\r\n%s\r\n", set.entries[0].sha);
    fake_say(fake, bulk);
    script_set_fini(&set);
}

static bool answer_handshake(struct fake *fake, redisReply *command)
{
    const char *word = command->element[0]->str;

    if (strcmp(word, "AUTH") == 0) {
        fake_say(fake, fake->auth != NULL ? fake->auth : "+OK\r\n");
    } else if (strcmp(word, "CLIENT") == 0) {
        fake_say(fake, fake->name != NULL ? fake->name : "+OK\r\n");
    } else if (strcmp(word, "SELECT") == 0) {
        fake_say(fake, fake->select != NULL ? fake->select : "+OK\r\n");
    } else if (strcmp(word, "INFO") == 0) {
        fake_say(fake, fake->info != NULL ? fake->info : "$64\r\n# Server\r\nrun_id:" FAKE_RUN_ID "\r\nx:1\r\n\r\n");
    } else if (strcmp(word, "ROLE") == 0) {
        fake_say(fake, fake->role != NULL ? fake->role : "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    } else if (strcmp(word, "SCRIPT") == 0 && fake->load != NULL) {
        fake_say(fake, fake->load);
    } else if (strcmp(word, "SCRIPT") == 0) {
        answer_load(fake, command->element[2]->str);
    } else {
        return false;
    }
    return true;
}

static void note(struct fake *fake, redisReply *command)
{
    for (size_t i = 0; i < command->elements; i++) {
        strncat(fake->commands, command->element[i]->str, sizeof(fake->commands) - strlen(fake->commands) - 1);
        strncat(fake->commands, i + 1 < command->elements ? " " : "\n",
                sizeof(fake->commands) - strlen(fake->commands) - 1);
    }
    fake->commands_count++;
}

static void take_command(struct fake *fake, redisReply *command)
{
    if (fake->mute || answer_handshake(fake, command)) {
        return;
    }
    note(fake, command);
    if (fake->answered < FAKE_ANSWERS && fake->answers[fake->answered] != NULL) {
        fake_say(fake, fake->answers[fake->answered++]);
    }
}

static void peer_read(struct bufferevent *peer, void *arg)
{
    struct fake *fake = arg;
    char chunk[4096];
    size_t len;
    void *command;

    fake->reads++;
    while ((len = bufferevent_read(peer, chunk, sizeof(chunk))) > 0) {
        evbuffer_add(fake->bytes, chunk, len);
        redisReaderFeed(fake->reader, chunk, len);
    }
    while (redisReaderGetReply(fake->reader, &command) == REDIS_OK && command != NULL) {
        take_command(fake, command);
        freeReplyObject(command);
    }
}

static void peer_event(struct bufferevent *peer, short what, void *arg)
{
    (void)what;
    (void)arg;
    bufferevent_disable(peer, EV_READ | EV_WRITE);
}

static void peer_came(evutil_socket_t fd, short what, void *arg)
{
    struct fake *fake = arg;
    int peer = accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)what;
    ck_assert_int_ge(peer, 0);
    if (fake->accepted < 16) {
        fake->accepted_at[fake->accepted] = loop_now(fake->loop);
    }
    fake->accepted++;
    if (fake->close_on_accept) {
        close(peer);
        return;
    }
    fake_hang_up(fake);
    evbuffer_drain(fake->bytes, evbuffer_get_length(fake->bytes));
    fake->reader = redisReaderCreate();
    fake->peer = bufferevent_socket_new(loop_base(fake->loop), peer, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(fake->peer, peer_read, NULL, peer_event, fake);
    if (fake->answer_bytewise) {
        bufferevent_set_max_single_write(fake->peer, 1);
    }
    bufferevent_enable(fake->peer, EV_READ | EV_WRITE);
}

static void listen_on_loopback(struct fake *fake)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);

    fake->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fake->fd, 0);
    ck_assert_int_eq(bind(fake->fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
    ck_assert_int_eq(listen(fake->fd, 16), 0);
    ck_assert_int_eq(getsockname(fake->fd, (struct sockaddr *)&sin, &len), 0);
    fake->conf.port = ntohs(sin.sin_port);
    fake->accept = event_new(loop_base(fake->loop), fake->fd, EV_READ | EV_PERSIST, peer_came, fake);
    event_add(fake->accept, NULL);
}

/* ---- the link ---- */

static void went_up(void *arg, const char *run_id)
{
    struct fake *fake = arg;

    fake->ups++;
    snprintf(fake->run_id, sizeof(fake->run_id), "%s", run_id);
    fake->reads = 0;
    if (fake->on_up != NULL) {
        fake->on_up(fake);
    }
}

static void went_down(void *arg, const char *why)
{
    struct fake *fake = arg;

    fake->downs++;
    ck_assert_int_eq(link_state(fake->link), LINK_DOWN);
    snprintf(fake->why, sizeof(fake->why), "%s", why);
    if (fake->on_down != NULL) {
        fake->on_down(fake);
    }
}

static void call_done(struct link_call *call, const struct redisReply *reply)
{
    struct fake_call *mine = container_of(call, struct fake_call, call);

    mine->done++;
    mine->lost = reply == NULL;
    ck_assert(!call->in_flight);
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER) {
        snprintf(mine->text, sizeof(mine->text), ":%lld", reply->integer);
    } else if (reply != NULL && reply->str != NULL) {
        snprintf(mine->text, sizeof(mine->text), "%s%s", reply->type == REDIS_REPLY_ERROR ? "-" : "", reply->str);
    }
    if (mine->then != NULL) {
        mine->then(mine);
    }
}

bool fake_eval(struct fake *fake, int i)
{
    const char *const keys[] = {"k"};
    char arg[8];
    const char *const args[] = {arg};

    snprintf(arg, sizeof(arg), "a%d", i);
    return link_eval(fake->link, &fake->calls[i].call, &script_one, keys, 1, args, 1);
}

struct fake *fake_new(void)
{
    struct fake *fake = mem_zalloc(sizeof(*fake));

    signal(SIGPIPE, SIG_IGN);
    current = fake;
    fake->loop = loop_new();
    fake->bytes = evbuffer_new();
    fake->conf.host = mem_strdup("127.0.0.1");
    fake->conf.timeout_us = fake->conf.connect_timeout_us = 5 * CLOCK_SECOND_US;
    for (int i = 0; i < FAKE_CALLS; i++) {
        fake->calls[i].fake = fake;
        fake->calls[i].call.done = call_done;
    }
    listen_on_loopback(fake);
    return fake;
}

static const struct link_ops ops = {.on_up = went_up, .on_down = went_down};

void fake_start(struct fake *fake)
{
    const struct script *const scripts[] = {&script_one, &script_two};

    fake->link = link_new(fake->loop, &fake->conf, scripts, 2);
    link_listen(fake->link, &ops, fake);
    link_start(fake->link);
}

void fake_free(struct fake *fake)
{
    current = NULL;
    timer_clear(&fake->guard);
    timer_clear(&fake->alarm);
    link_free(fake->link);
    fake_hang_up(fake);
    event_free(fake->accept);
    close(fake->fd);
    evbuffer_free(fake->bytes);
    loop_free(fake->loop);
    mem_free(fake->conf.host);
    mem_free(fake->conf.user);
    mem_free(fake->conf.password);
    mem_free(fake);
}

/* ---- turning the loop ---- */

static void guard_due(struct timer *timer, struct mono now)
{
    (void)timer;
    (void)now;
}

void fake_turn(struct fake *fake, const char *what)
{
    if (fake->guard.at.us == 0) {
        timer_set(fake->loop, &fake->guard, mono_add(loop_now(fake->loop), 10 * CLOCK_SECOND_US), guard_due);
    }
    ck_assert_msg(timer_is_set(&fake->guard), "never came: %s (state %d, down for \"%s\")", what,
                  link_state(fake->link), fake->logged_why);
    ck_assert_int_ge(event_base_loop(loop_base(fake->loop), EVLOOP_ONCE), 0);
}

static void alarm_due(struct timer *timer, struct mono now)
{
    (void)now;
    container_of(timer, struct fake, alarm)->rang = true;
}

void fake_run_us(struct fake *fake, int64_t us)
{
    fake->rang = false;
    timer_set(fake->loop, &fake->alarm, mono_add(loop_now(fake->loop), us), alarm_due);
    fake_until(fake, fake->rang);
}
