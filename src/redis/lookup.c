/*
 * One name, one detached thread, one eventfd.
 *
 *   loop   lookup_start ------------------------- found: takes the result, puts its reference
 *   thread             \-- getaddrinfo -- eventfd, puts its reference
 *
 * getaddrinfo() can't be cancelled and may take half a minute, so the question (what is shared between the two) has two
 * references and outlives whoever loses interest first. The descriptor belongs to the question: a late thread never
 * writes to somebody else's.
 */
#include "redis/lookup.h"

#include "base/mem.h"

#include <event2/event.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOKUP_MAGIC 0x6c6f6f6bu

struct question {
    atomic_int refs;
    char *host;
    char port[8];
    int fd;
    int error; /* getaddrinfo's; this and `list` are the thread's until it has written to fd */
    struct addrinfo *list;
};

struct lookup {
    uint32_t magic;
    struct question *question;
    struct event *event;
    bool done;
    void (*on_done)(void *arg);
    void *arg;
};

static void question_put(struct question *question)
{
    if (atomic_fetch_sub(&question->refs, 1) > 1) {
        return;
    }
    if (question->list != NULL) {
        freeaddrinfo(question->list);
    }
    close(question->fd);
    mem_free(question->host);
    mem_free(question);
}

static void *ask(void *arg)
{
    struct question *question = arg;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const uint64_t one = 1;

    question->error = getaddrinfo(question->host, question->port, &hints, &question->list);
    must(write(question->fd, &one, sizeof(one)) == sizeof(one));
    question_put(question);
    return NULL;
}

static bool start_thread(struct question *question)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;

    /* signals are for the loop's thread */
    sigfillset(&all);
    must(pthread_attr_init(&attr) == 0);
    must(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    bool started = pthread_create(&thread, &attr, ask, question) == 0;
    must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    pthread_attr_destroy(&attr);
    return started;
}

static void found(evutil_socket_t fd, short what, void *arg)
{
    struct lookup *lookup = arg;
    uint64_t count;

    (void)what;
    must_be(lookup, LOOKUP_MAGIC);
    if (read((int)fd, &count, sizeof(count)) == sizeof(count)) {
        lookup->done = true;
        lookup->on_done(lookup->arg);
    }
}

struct lookup *lookup_start(struct loop *loop, const char *host, uint16_t port, void (*on_done)(void *arg), void *arg)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    struct question *question = mem_zalloc(sizeof(*question));
    question->fd = fd;
    question->host = mem_strdup(host);
    snprintf(question->port, sizeof(question->port), "%u", (unsigned)port);
    atomic_init(&question->refs, 2);
    if (!start_thread(question)) {
        atomic_store(&question->refs, 1);
        question_put(question);
        return NULL;
    }
    struct lookup *lookup = mem_zalloc(sizeof(*lookup));
    *lookup = (struct lookup){.magic = LOOKUP_MAGIC, .question = question, .on_done = on_done, .arg = arg};
    lookup->event = event_new(loop_base(loop), fd, EV_READ, found, lookup);
    must(lookup->event != NULL && event_add(lookup->event, NULL) == 0);
    return lookup;
}

bool lookup_is_done(const struct lookup *lookup)
{
    must_be(lookup, LOOKUP_MAGIC);
    return lookup->done;
}

unsigned lookup_result(const struct lookup *lookup, struct addr *out, unsigned out_count, char why[LOOKUP_WHY_BYTES])
{
    unsigned count = 0;

    must_be(lookup, LOOKUP_MAGIC);
    must(lookup->done);
    for (struct addrinfo *info = lookup->question->list; info != NULL && count < out_count; info = info->ai_next) {
        if ((info->ai_family == AF_INET || info->ai_family == AF_INET6) && info->ai_addrlen <= sizeof(out->any)) {
            memcpy(&out[count].any, info->ai_addr, info->ai_addrlen);
            out[count++].len = info->ai_addrlen;
        }
    }
    const char *text = lookup->question->error != 0 ? gai_strerror(lookup->question->error) : "no address";
    snprintf(why, LOOKUP_WHY_BYTES, "name lookup: %s", text);
    return count;
}

void lookup_free(struct lookup *lookup)
{
    if (lookup == NULL) {
        return;
    }
    must_be(lookup, LOOKUP_MAGIC);
    event_free(lookup->event);
    question_put(lookup->question);
    lookup->magic = 0;
    mem_free(lookup);
}
