#include "redis_server.h"

#include "base/mem.h"

#include <event2/event.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { WORDS_MOST = 16, ANSWER_BYTES = 65536 };
static char answer[ANSWER_BYTES];

static pid_t spawn(const char *const *words)
{
    posix_spawn_file_actions_t files;
    pid_t pid;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    must(posix_spawnp(&pid, words[0], &files, NULL, (char *const *)(uintptr_t)words, environ) == 0);
    posix_spawn_file_actions_destroy(&files);
    return pid;
}

bool redis_server_is_there(void)
{
    return system("command -v redis-server >/dev/null 2>&1") == 0;
}

void redis_server_start(struct redis_server *server)
{
    const char *words[] = {"redis-server", "--unixsocket",    server->path, "--port",  "0", "--save", "",
                           "--dir",        server->directory, "--loglevel", "warning", NULL};

    server->pid = spawn(words);
}

void redis_server_kill(struct redis_server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    server->pid = 0;
}

static void on_up(void *arg, const char *run_id)
{
    (void)run_id;
    ((struct redis_server *)arg)->ups++;
}

static void on_down(void *arg, const char *why)
{
    (void)why;
    ((struct redis_server *)arg)->downs++;
}

void redis_server_open(struct redis_server *server, const struct script *const *scripts, unsigned count)
{
    static const struct link_ops events = {.on_up = on_up, .on_down = on_down};

    *server = (struct redis_server){.loop = loop_new()};
    snprintf(server->directory, sizeof(server->directory), "/tmp/sluice_redis.XXXXXX");
    must(mkdtemp(server->directory) != NULL);
    snprintf(server->path, sizeof(server->path), "%s/socket", server->directory);
    server->conf = (struct redis_conf){.unix_socket = true,
                                       .host = server->path,
                                       .timeout_us = 500 * CLOCK_MS_US,
                                       .connect_timeout_us = CLOCK_SECOND_US};
    redis_server_start(server);
    server->link = link_new(server->loop, &server->conf, scripts, count);
    link_listen(server->link, &events, server);
    link_start(server->link);
    redis_server_until(server, server->ups == 1);
}

void redis_server_close(struct redis_server *server)
{
    const char *const words[] = {"rm", "-r", server->directory, NULL};

    link_free(server->link);
    loop_free(server->loop);
    redis_server_kill(server);
    waitpid(spawn(words), NULL, 0);
}

void redis_server_turn(struct redis_server *server, struct mono since)
{
    must(mono_diff(loop_now(server->loop), since) < 20 * CLOCK_SECOND_US);
    must(event_base_loop(loop_base(server->loop), EVLOOP_ONCE) >= 0);
}

struct said {
    struct link_call call;
    bool done;
};

static void append(const struct redisReply *reply)
{
    size_t len = strlen(answer);

    if (reply->type == REDIS_REPLY_INTEGER) {
        snprintf(answer + len, sizeof(answer) - len, "%lld", reply->integer);
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++) {
            append(reply->element[i]);
            strncat(answer, "\n", sizeof(answer) - strlen(answer) - 1);
        }
    } else if (reply->str != NULL) {
        snprintf(answer + len, sizeof(answer) - len, "%s", reply->str);
    }
}

static void said_done(struct link_call *call, const struct redisReply *reply)
{
    answer[0] = '\0';
    if (reply != NULL) {
        append(reply);
    }
    container_of(call, struct said, call)->done = true;
}

const char *redis_server_say(struct redis_server *server, const char *command)
{
    struct said said = {.call.done = said_done};
    char *copy = mem_strdup(command), *rest = copy;
    const char *words[WORDS_MOST], *word;
    unsigned count = 0;

    while (count < WORDS_MOST && (word = strsep(&rest, " ")) != NULL) {
        words[count++] = word;
    }
    must(link_command(server->link, &said.call, words, count));
    mem_free(copy);
    redis_server_until(server, said.done);
    return answer;
}
