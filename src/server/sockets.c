/*
 * Addresses are matched exactly: a socket unit's ListenStream= has to say what `listen` says. systemd's sockets come
 * bound and listening, so an address below 1024 needs no privilege here, and none is lost while one process ends and
 * the next begins, since the socket outlives both.
 *
 * SO_REUSEPORT lets two processes of one user listen at once; the kernel deals new callers out among them. Whether
 * somebody else is there is found out by trying to bind without it first, which a listener on the same address
 * refuses. Started twice by mistake, that is told in the log.
 */
#include "server/sockets.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096, FIRST_FD = 3, HANDED_MOST = 256 };

struct handed {
    int fd;
    struct addr address;
    bool used;
};

struct sockets {
    struct handed *handed;
    unsigned count;
};

static bool is_listening(int fd, struct addr *address)
{
    int listening = 0;
    socklen_t len = sizeof(listening);

    address->len = sizeof(address->any);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening != 0 &&
           getsockname(fd, &address->sa, &address->len) == 0;
}

static bool number_of(const char *name, uint64_t *out)
{
    const char *text = getenv(name);

    return text != NULL && str_parse_u64(slice_of(text), out);
}

struct sockets *sockets_new(void)
{
    struct sockets *sockets = mem_zalloc(sizeof(*sockets));
    uint64_t pid, count;

    if (number_of("LISTEN_PID", &pid) && number_of("LISTEN_FDS", &count) && pid == (uint64_t)getpid()) {
        count = count < HANDED_MOST ? count : HANDED_MOST;
        sockets->handed = mem_zalloc((size_t)count * sizeof(sockets->handed[0]) + 1);
        for (int fd = FIRST_FD; fd < FIRST_FD + (int)count; fd++) {
            struct handed *next = &sockets->handed[sockets->count];
            if (is_listening(fd, &next->address)) {
                next->fd = fd;
                sockets->count++;
                fcntl(fd, F_SETFD, FD_CLOEXEC);
            }
        }
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return sockets;
}

void sockets_free(struct sockets *sockets)
{
    for (unsigned i = 0; i < sockets->count; i++) {
        close(sockets->handed[i].fd);
    }
    mem_free(sockets->handed);
    mem_free(sockets);
}

static bool same_address(const struct addr *a, const struct addr *b)
{
    char left[ADDR_TEXT_BYTES], right[ADDR_TEXT_BYTES];

    addr_format(a, false, left);
    addr_format(b, false, right);
    return strcmp(left, right) == 0;
}

/* A copy of the descriptor, -1 when none was handed down for that address. */
static int take_handed(struct sockets *sockets, const struct addr *address)
{
    for (unsigned i = 0; i < sockets->count; i++) {
        struct handed *handed = &sockets->handed[i];
        int fd = same_address(&handed->address, address) ? fcntl(handed->fd, F_DUPFD_CLOEXEC, FIRST_FD) : -1;
        if (fd >= 0) {
            handed->used = true;
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
            return fd;
        }
    }
    return -1;
}

/* -1 and errno. */
static int bind_to(const struct addr *address, bool reuse_port)
{
    int yes = 1;
    int fd = socket(address->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (reuse_port) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes));
    }
    if (address->sa.sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
    }
    if (bind(fd, &address->sa, address->len) != 0 || (reuse_port && listen(fd, BACKLOG) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool is_taken(const struct addr *address)
{
    int fd = addr_port(address) != 0 ? bind_to(address, false) : -1;

    if (fd >= 0) {
        close(fd);
        return false;
    }
    return addr_port(address) != 0 && errno == EADDRINUSE;
}

int sockets_listen(struct sockets *sockets, const struct addr *address, const char *key, bool *shared, struct err *err)
{
    char text[ADDR_TEXT_BYTES];
    int fd = sockets != NULL ? take_handed(sockets, address) : -1;

    if (shared != NULL) {
        *shared = fd < 0 && is_taken(address);
    }
    if (fd < 0) {
        fd = bind_to(address, true);
    }
    if (fd >= 0) { /* who left before us may have pointed elsewhere, see listener_point_away() */
        int none = 0;
        (void)setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &none, sizeof(none));
    } else {
        int error = errno;
        addr_format(address, false, text);
        err_add(err, "can't listen on %s: %s%s%s%s", text, strerror(error),
                error == EADDRINUSE ? " (another program has this port: stop it, or change " : "",
                error == EADDRINUSE ? key : "", error == EADDRINUSE ? ")" : "");
    }
    return fd;
}

void sockets_each_unused(const struct sockets *sockets, void (*each)(void *arg, const struct addr *address), void *arg)
{
    for (unsigned i = 0; i < sockets->count; i++) {
        if (!sockets->handed[i].used) {
            each(arg, &sockets->handed[i].address);
        }
    }
}
