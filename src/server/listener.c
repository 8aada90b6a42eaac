#include "server/listener.h"

#include "base/mem.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REST_US = 50000, ACCEPTS_PER_TURN = 64 };

struct listener {
    struct loop *loop;
    int fd;
    struct addr wanted, address;
    bool started, shared;
    struct event event;
    struct timer rest;
    void (*on_accept)(void *arg, int fd, const struct addr *peer, const struct addr *local);
    void *arg;
    uint64_t starved;
};

static void rest_over(struct timer *timer, struct mono now)
{
    struct listener *l = container_of(timer, struct listener, rest);

    (void)now;
    event_add(&l->event, NULL);
}

static bool is_starved(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* How many came. */
static int accept_some(struct listener *l)
{
    int i;

    for (i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct addr peer = {.len = sizeof(peer.any)};
        struct addr local = {.len = sizeof(local.any)};
        int caller = accept4(l->fd, &peer.sa, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (caller < 0 && is_starved(errno)) {
            l->starved++;
            event_del(&l->event);
            timer_set(l->loop, &l->rest, mono_add(loop_now(l->loop), REST_US), rest_over);
            break;
        }
        if (caller < 0) {
            break; /* nobody there, or gone before we came */
        }
        if (getsockname(caller, &local.sa, &local.len) != 0) {
            close(caller);
            continue;
        }
        l->on_accept(l->arg, caller, &peer, &local);
    }
    return i;
}

static void acceptable(evutil_socket_t fd, short what, void *arg)
{
    struct listener *l = arg;
    struct loop *loop = l->loop;

    (void)fd;
    (void)what;
    loop_enter_io(loop);
    accept_some(l);
    loop_leave_io(loop);
}

struct listener *listener_new(struct loop *loop, struct sockets *sockets, const struct addr *address, const char *key,
                              void (*on_accept)(void *arg, int fd, const struct addr *peer, const struct addr *local),
                              void *arg, struct err *err)
{
    bool shared;
    int fd = sockets_listen(sockets, address, key, &shared, err);

    if (fd < 0) {
        return NULL;
    }
    struct listener *l = mem_zalloc(sizeof(*l));
    l->loop = loop;
    l->fd = fd;
    l->shared = shared;
    l->wanted = *address;
    l->on_accept = on_accept;
    l->arg = arg;
    l->address.len = sizeof(l->address.any);
    must(getsockname(fd, &l->address.sa, &l->address.len) == 0);
    event_assign(&l->event, loop_base(loop), fd, EV_READ | EV_PERSIST, acceptable, l);
    event_priority_set(&l->event, LOOP_PRIORITY_IO);
    return l;
}

void listener_start(struct listener *listener)
{
    event_add(&listener->event, NULL);
    listener->started = true;
}

bool listener_is_for(const struct listener *listener, const struct addr *address)
{
    return listener->wanted.len == address->len && memcmp(&listener->wanted.any, &address->any, address->len) == 0;
}

bool listener_is_shared(const struct listener *listener)
{
    return listener->shared;
}

/* In a group of sockets on one address (SO_REUSEPORT) those who came later lie behind: who is about to leave points at the
 * next one. Where there is none, the kernel goes on as if nothing had been said. */
void listener_point_away(struct listener *listener)
{
    struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, 1)};
    struct sock_fprog program = {1, code};

    (void)setsockopt(listener->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

void listener_finish(struct listener *listener)
{
    if (listener->started) {
        while (accept_some(listener) == ACCEPTS_PER_TURN) {
        }
    }
}

const struct addr *listener_address(const struct listener *listener)
{
    return &listener->address;
}

uint64_t listener_starved(const struct listener *listener)
{
    return listener->starved;
}

void listener_free(struct listener *listener)
{
    if (listener == NULL) {
        return;
    }
    event_del(&listener->event); /* no effect on one that was never started */
    timer_clear(&listener->rest);
    close(listener->fd);
    mem_free(listener);
}
