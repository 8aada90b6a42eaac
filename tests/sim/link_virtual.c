#include "link_virtual.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_US (500 * CLOCK_MS_US)
enum { LISTENERS_MAX = 8 };

struct message {
    TAILQ_ENTRY(message) link;
    struct link *owner;
    struct link_call *call; /* NULL: forgotten, or answered */
    unsigned connection;
    const struct script *script; /* NULL: TIME */
    char **texts;
    unsigned keys_count, texts_count;
    struct redisReply *reply;
    unsigned events; /* still to come; freed with the last */
};

struct link {
    struct loop *loop;
    struct server *server;
    struct link_conditions conditions;
    enum link_state state;
    unsigned connection; /* of this link, counted */
    unsigned generation; /* of the server it reached */
    char run_id[41];
    bool is_cut, is_free;
    struct link *moved_to;
    int64_t last_us[2]; /* latest delivery, there and back: TCP keeps the order */
    TAILQ_HEAD(message_list, message) flight;
    struct {
        const struct link_ops *ops;
        void *arg;
    } listeners[LISTENERS_MAX];
    unsigned listeners_count;
};

/* ---- the server ---- */

void server_init(struct server *server, struct world *world)
{
    *server = (struct server){.world = world, .redis = fake_redis_new(), .clock_us = SERVER_CLOCK_US};
    server_start(server, NULL);
}

void server_fini(struct server *server)
{
    fake_redis_free(server->redis);
}

void server_stop(struct server *server)
{
    server->is_up = false;
}

void server_start(struct server *server, struct fake_data *data)
{
    server->generation++;
    server->is_up = true;
    if (server->generation == 1 || !server->keeps_run_id) {
        snprintf(server->run_id, sizeof(server->run_id), "%040u", server->generation);
    }
    fake_redis_load(server->redis, data);
}

static int64_t server_time(const struct server *server)
{
    int64_t now = world_now(server->world);
    int64_t slewing = server->slew_ppm != 0 && now > server->slew_from_us ? now - server->slew_from_us : 0;
    return now + server->clock_us + slewing * server->slew_ppm / 1000000;
}

/* ---- connections ---- */

static int64_t arrival(struct link *link, int way)
{
    struct world *world = link->server->world;
    const struct link_conditions *c = &link->conditions;
    double delay = c->delay_us + world_exponential(world, c->jitter_us);

    if (c->spike_p > 0 && world_uniform(world, 0, 1) < c->spike_p) {
        delay += world_uniform(world, 0, c->spike_us);
    }
    int64_t at = world_now(world) + (int64_t)delay;
    link->last_us[way] = at > link->last_us[way] ? at : link->last_us[way];
    return link->last_us[way];
}

static void dial(void *arg);

static void dial_again(struct link *link)
{
    struct world *world = link->server->world;
    world_at(world, world_now(world) + (int64_t)world_uniform(world, 50000, 150000), dial, link);
}

static void connected(void *arg)
{
    struct link *link = arg;

    if (link->is_free) {
        return;
    }
    link->state = LINK_UP;
    link->generation = link->server->generation;
    snprintf(link->run_id, sizeof(link->run_id), "%s", link->server->run_id);
    for (unsigned i = 0; i < link->listeners_count; i++) {
        link->listeners[i].ops->on_up(link->listeners[i].arg, link->run_id);
    }
}

static void dial(void *arg)
{
    struct link *link = arg;

    if (link->is_free) {
        return;
    }
    if (link->is_cut || !link->server->is_up || link->server->stalled_until_us > world_now(link->server->world)) {
        dial_again(link);
    } else {
        loop_deliver(link->loop, connected, link);
    }
}

static void finish(struct message *message, const struct redisReply *reply)
{
    struct link_call *call = message->call;

    TAILQ_REMOVE(&message->owner->flight, message, link);
    message->call = NULL;
    call->in_flight = false;
    call->answered = loop_now(message->owner->loop);
    call->done(call, reply);
}

/* In the link's loop. */
static void drop(struct link *link)
{
    struct message *message;

    if (link->state != LINK_UP) {
        return;
    }
    link->state = LINK_DOWN;
    link->connection++;
    link->run_id[0] = '\0';
    while ((message = TAILQ_FIRST(&link->flight)) != NULL) {
        finish(message, NULL);
    }
    for (unsigned i = 0; i < link->listeners_count; i++) {
        link->listeners[i].ops->on_down(link->listeners[i].arg, "broken");
    }
    dial_again(link);
}

/* ---- messages ---- */

static bool is_current(const struct message *message)
{
    return message->call != NULL && !message->owner->is_free && message->connection == message->owner->connection;
}

static void message_put(struct message *message)
{
    if (--message->events > 0) {
        return;
    }
    for (unsigned i = 0; i < message->texts_count; i++) {
        mem_free(message->texts[i]);
    }
    mem_free(message->texts);
    fake_reply_free(message->reply);
    mem_free(message);
}

static void broken_in_loop(void *arg)
{
    struct message *message = arg;
    if (is_current(message)) {
        drop(message->owner);
    }
    message_put(message);
}

static void answered_in_loop(void *arg)
{
    struct message *message = arg;
    if (is_current(message)) {
        finish(message, message->reply);
    }
    message_put(message);
}

static void came_back(void *arg)
{
    struct message *message = arg;

    if (!is_current(message) || message->owner->is_cut) {
        message_put(message);
    } else {
        loop_deliver(message->owner->loop, message->reply != NULL ? answered_in_loop : broken_in_loop, message);
    }
}

static void reached_server(void *arg)
{
    struct message *message = arg;
    struct link *link = message->owner;
    struct server *server = link->server;
    struct world *world = server->world;

    /* What was sent runs even if the sender has gone meanwhile; only a broken network stops it. */
    if (link->is_cut || link->is_free) {
        message_put(message);
        return;
    }
    if (server->stalled_until_us > world_now(world) && server->is_up) {
        world_at(world, server->stalled_until_us, reached_server, message);
        return;
    }
    if (server->is_up && message->connection == link->connection && link->generation == server->generation) {
        fake_redis_set_time(server->redis, server_time(server));
        const char *const *texts = (const char *const *)message->texts;
        message->reply = message->script == NULL
                             ? fake_redis_time(server->redis)
                             : fake_redis_eval(server->redis, message->script, texts, message->keys_count,
                                               texts + message->keys_count, message->texts_count - message->keys_count);
        if (link->conditions.lost_p > 0 && world_uniform(world, 0, 1) < link->conditions.lost_p) {
            fake_reply_free(message->reply);
            message->reply = NULL;
        }
    }
    world_at(world, arrival(link, 1), came_back, message);
}

static void timed_out(void *arg)
{
    struct message *message = arg;

    if (is_current(message)) {
        loop_deliver(message->owner->loop, broken_in_loop, message);
    } else {
        message_put(message);
    }
}

static bool post(struct link *link, struct link_call *call, const struct script *script, const char *const *keys,
                 unsigned keys_count, const char *const *args, unsigned args_count)
{
    struct world *world = link->server->world;

    if (link->state != LINK_UP) {
        return false;
    }
    must(!call->in_flight && call->done != NULL);
    struct message *message = mem_zalloc(sizeof(*message));
    message->owner = link;
    message->call = call;
    message->connection = link->connection;
    message->script = script;
    message->keys_count = keys_count;
    message->texts_count = keys_count + args_count;
    message->texts = mem_zalloc(message->texts_count * sizeof(char *));
    for (unsigned i = 0; i < message->texts_count; i++) {
        message->texts[i] = mem_strdup(i < keys_count ? keys[i] : args[i - keys_count]);
    }
    call->in_flight = true;
    call->sent = loop_now(link->loop);
    TAILQ_INSERT_TAIL(&link->flight, message, link);
    message->events = 2;
    world_at(world, arrival(link, 0), reached_server, message);
    world_at(world, world_now(world) + TIMEOUT_US, timed_out, message);
    return true;
}

/* ---- redis/link.h ---- */

struct link *link_virtual(struct loop *loop, struct server *server, const struct link_conditions *conditions)
{
    struct link *link = mem_zalloc(sizeof(*link));

    link->loop = loop;
    link->server = server;
    link->conditions = *conditions;
    TAILQ_INIT(&link->flight);
    return link;
}

void link_set_conditions(struct link *link, const struct link_conditions *conditions)
{
    link->conditions = *conditions;
}

void link_cut(struct link *link, bool is_cut)
{
    link->is_cut = is_cut;
}

static void moved_in_loop(void *arg)
{
    struct link *link = arg;

    for (unsigned i = 0; i < link->listeners_count; i++) {
        if (link->listeners[i].ops->on_moved != NULL) {
            link->listeners[i].ops->on_moved(link->listeners[i].arg);
        }
    }
}

/* Who began to listen while it was up is the last. */
static void late_in_loop(void *arg)
{
    struct link *link = arg;
    unsigned last = link->listeners_count - 1;

    if (link->state == LINK_UP) {
        link->listeners[last].ops->on_up(link->listeners[last].arg, link->run_id);
    }
}

void link_move(struct link *link, struct link *to)
{
    link->moved_to = to;
    loop_deliver(link->loop, moved_in_loop, link);
}

/* The memory stays until the world ends: messages under way point at it. */
void link_free(struct link *link)
{
    link->is_free = true;
}

void link_listen(struct link *link, const struct link_ops *ops, void *arg)
{
    must(link->listeners_count < LISTENERS_MAX);
    link->listeners[link->listeners_count].ops = ops;
    link->listeners[link->listeners_count++].arg = arg;
    if (link->state == LINK_UP) {
        loop_deliver(link->loop, late_in_loop, link);
    }
}

void link_start(struct link *link)
{
    world_at(link->server->world, world_now(link->server->world), dial, link);
}

enum link_state link_state(const struct link *link)
{
    return link->state;
}

struct link *link_for(struct link *link, const char *key)
{
    (void)key;
    return link->moved_to != NULL ? link->moved_to : link;
}

const char *link_run_id(const struct link *link)
{
    return link->run_id;
}

bool link_eval(struct link *link, struct link_call *call, const struct script *script, const char *const *keys,
               unsigned keys_count, const char *const *args, unsigned args_count)
{
    return post(link, call, script, keys, keys_count, args, args_count);
}

bool link_command(struct link *link, struct link_call *call, const char *const *words, unsigned words_count)
{
    must(words_count == 1 && strcmp(words[0], "TIME") == 0);
    return post(link, call, NULL, NULL, 0, NULL, 0);
}

void link_forget(struct link *link, struct link_call *call)
{
    struct message *message;

    TAILQ_FOREACH(message, &link->flight, link)
    {
        if (message->call == call) {
            TAILQ_REMOVE(&link->flight, message, link);
            message->call = NULL;
            call->in_flight = false;
            return;
        }
    }
}
