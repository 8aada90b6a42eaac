#include "server/listener.h"

#include "base/mem.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096, REST_US = 50000, ACCEPTS_PER_TURN = 64 };

struct listener {
    struct loop *loop;
    int fd;
    struct addr address;
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

static void accept_some(struct listener *l, int fd)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct addr peer = {.len = sizeof(peer.any)};
        struct addr local = {.len = sizeof(local.any)};
        int caller = accept4(fd, &peer.sa, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (caller < 0 && is_starved(errno)) {
            l->starved++;
            event_del(&l->event);
            timer_set(l->loop, &l->rest, mono_add(loop_now(l->loop), REST_US), rest_over);
            return;
        }
        if (caller < 0) {
            return; /* nobody there, or gone before we came */
        }
        if (getsockname(caller, &local.sa, &local.len) != 0) {
            close(caller);
            continue;
        }
        l->on_accept(l->arg, caller, &peer, &local);
    }
}

static void acceptable(evutil_socket_t fd, short what, void *arg)
{
    struct listener *l = arg;
    struct loop *loop = l->loop;

    (void)what;
    loop_enter_io(loop);
    accept_some(l, (int)fd);
    loop_leave_io(loop);
}

static int bind_and_listen(const struct addr *address)
{
    int yes = 1;
    int fd = socket(address->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (address->sa.sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
    }
    if (bind(fd, &address->sa, address->len) != 0 || listen(fd, BACKLOG) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

struct listener *listener_new(struct loop *loop, const struct addr *address,
                              void (*on_accept)(void *arg, int fd, const struct addr *peer, const struct addr *local),
                              void *arg, struct err *err)
{
    char text[ADDR_TEXT_BYTES];
    int fd = bind_and_listen(address);

    if (fd < 0) {
        int error = errno;
        addr_format(address, false, text);
        err_add(err, "can't listen on %s: %s%s", text, strerror(error),
                error == EADDRINUSE ? " (another program has this port: stop it, or change [proxy] listen)" : "");
        return NULL;
    }
    struct listener *l = mem_zalloc(sizeof(*l));
    l->loop = loop;
    l->fd = fd;
    l->on_accept = on_accept;
    l->arg = arg;
    l->address.len = sizeof(l->address.any);
    must(getsockname(fd, &l->address.sa, &l->address.len) == 0);
    event_assign(&l->event, loop_base(loop), fd, EV_READ | EV_PERSIST, acceptable, l);
    event_priority_set(&l->event, LOOP_PRIORITY_IO);
    event_add(&l->event, NULL);
    return l;
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
    event_del(&listener->event);
    timer_clear(&listener->rest);
    close(listener->fd);
    mem_free(listener);
}
