#ifndef SLUICE_TESTS_REDIS_SERVER_H
#define SLUICE_TESTS_REDIS_SERVER_H
/* A real redis-server on a socket in a directory of its own, and a link to it. */
#include "base/loop.h"
#include "redis/link.h"

#include <sys/types.h>

struct redis_server {
    char directory[64], path[96];
    pid_t pid; /* 0: not running */
    struct loop *loop;
    struct link *link;
    struct redis_conf conf;
    int ups, downs;
};

bool redis_server_is_there(void);
/* Starts it, and the link with these scripts; turns the loop until the link is up. */
void redis_server_open(struct redis_server *server, const struct script *const *scripts, unsigned count);
/* What uses the link must be gone. */
void redis_server_close(struct redis_server *server);
void redis_server_start(struct redis_server *server);
void redis_server_kill(struct redis_server *server);
/* One turn of the loop; aborts when turning has gone on for 20 seconds after `since`. */
void redis_server_turn(struct redis_server *server, struct mono since);
#define redis_server_until(server, cond)                                                                               \
    do {                                                                                                               \
        struct mono since_ = loop_now((server)->loop);                                                                 \
        while (!(cond)) {                                                                                              \
            redis_server_turn((server), since_);                                                                       \
        }                                                                                                              \
    } while (0)
/* Runs a command, words parted by single spaces, and gives its reply as text: numbers as digits, lists by lines. Valid
 * until the next one. */
const char *redis_server_say(struct redis_server *server, const char *command);

#endif
