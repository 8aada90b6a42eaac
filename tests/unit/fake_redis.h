#ifndef SLUICE_TESTS_FAKE_REDIS_H
#define SLUICE_TESTS_FAKE_REDIS_H
/*
 * A Redis that answers what a test wants, on a loopback port of the same loop as the link under test; and that link,
 * with everything that came out of it written down. Log lines are written down too: link this in place of
 * src/base/log.c.
 */
#include "base/loop.h"
#include "redis/link.h"

#include <check.h>

struct bufferevent;
struct event;
struct evbuffer;
struct redisReader;

#define FAKE_RUN_ID "0123456789abcdef0123456789abcdef01234567"
enum { FAKE_CALLS = 16, FAKE_ANSWERS = 32 };

struct fake_call {
    struct link_call call;
    struct fake *fake;
    int done; /* how often `done` was called */
    bool lost;
    char text[64];                        /* the reply, ":1" for integers, "-ERR ..." for errors */
    void (*then)(struct fake_call *call); /* in `done` */
};

struct fake {
    struct loop *loop;
    struct link *link;
    struct redis_conf conf;
    /* the server */
    int fd;
    struct event *accept;
    struct bufferevent *peer;
    struct redisReader *reader;
    struct evbuffer *bytes; /* all that came on this connection */
    int reads;              /* in how many pieces, since the handshake */
    int accepted;
    struct mono accepted_at[16];
    char commands[4096]; /* since the handshake, words joined by spaces, one line each */
    int commands_count;
    bool mute, close_on_accept, answer_bytewise;
    const char *auth, *name, *select, *info, *role, *load; /* raw answers; NULL for the right one */
    const char *answers[FAKE_ANSWERS];                     /* raw, to the calls in order; NULL for no answer */
    int answered;
    /* the link */
    struct fake_call calls[FAKE_CALLS];
    int ups, downs;
    char run_id[64], why[192];
    void (*on_up)(struct fake *), (*on_down)(struct fake *);
    int logged_down;
    char logged_why[192];
    struct timer guard, alarm;
    bool rang;
};

extern const struct script script_one, script_two;

/* With a listening server; change conf or the answers, then fake_start(). */
struct fake *fake_new(void);
void fake_start(struct fake *fake);
void fake_free(struct fake *fake);
/* Raw bytes to the link. */
void fake_say(struct fake *fake, const char *text);
void fake_hang_up(struct fake *fake);
/* Calls number `i`: EVALSHA of script_one with key "k" and argument "a<i>". */
bool fake_eval(struct fake *fake, int i);

/* Turns the loop until `cond`; ten seconds are a failure. */
#define fake_until(fake, cond)                                                                                         \
    do {                                                                                                               \
        while (!(cond)) {                                                                                              \
            fake_turn(fake, #cond);                                                                                    \
        }                                                                                                              \
    } while (0)
void fake_turn(struct fake *fake, const char *what);
/* Turns it for this long: for things that must not happen. */
void fake_run_us(struct fake *fake, int64_t us);

#endif
