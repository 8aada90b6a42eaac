#include "base/notify.h"

#include "base/str.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_tell(const char *lines)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = path != NULL ? strlen(path) : 0;

    if (len == 0 || len >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(to.sun_path, path, len);
    if (path[0] == '@') {
        to.sun_path[0] = '\0'; /* the abstract namespace, unix(7) */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        /* who does not listen is not waited for */
        (void)sendto(fd, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
        close(fd);
    }
}

int64_t notify_watchdog_us(void)
{
    const char *every = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t us, whose;

    if (every == NULL || !str_parse_u64(slice_of(every), &us) || us == 0 || us > INT64_MAX) {
        return 0;
    }
    if (pid != NULL && (!str_parse_u64(slice_of(pid), &whose) || whose != (uint64_t)getpid())) {
        return 0;
    }
    return (int64_t)us;
}
