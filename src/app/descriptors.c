#include "app/descriptors.h"

#include "base/log.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SPARE_DESCRIPTORS = 64 };

/* The kernel doubles a process' table of descriptors as it fills, and makes a process with threads wait for that, 8 to
 * 16 ms each time: many slots at a high rate. So the table gets its size at the start. */
static void grow_descriptor_table(rlim_t size)
{
    int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)size - 1);

    if (last >= 0) {
        close(last);
    }
}

/* Two descriptors for each caller, at worst, and as many again for the inbound side; as many callers as that leaves
 * room for. */
int64_t descriptors_claim(const struct conf *conf)
{
    struct rlimit limit = {0, 0};
    rlim_t sides = conf->inbounds_count > 0 ? 2 : 1;
    rlim_t wanted = (rlim_t)conf->proxy.max_connections * 2 * sides + SPARE_DESCRIPTORS;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return conf->proxy.max_connections;
    }
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    grow_descriptor_table(limit.rlim_cur < wanted ? limit.rlim_cur : wanted);
    if (limit.rlim_cur >= wanted) {
        return conf->proxy.max_connections;
    }
    /* waiting callers need one each: only those near their turn have a connection to the third party */
    rlim_t spare = limit.rlim_cur / 8 > SPARE_DESCRIPTORS ? limit.rlim_cur / 8 : SPARE_DESCRIPTORS;
    int64_t fits = limit.rlim_cur > 2 * spare ? (int64_t)(limit.rlim_cur - spare) : (int64_t)limit.rlim_cur / 2;
    fits /= sides == 2 ? 3 : 1; /* nobody waits on the inbound side: two descriptors for each of its callers */
    return fits < conf->proxy.max_connections ? fits : conf->proxy.max_connections;
}

void descriptors_warn(const struct conf *conf, int64_t fits)
{
    if (fits < conf->proxy.max_connections) {
        log_line(LOG_WARN, "few_descriptors", LOG_INT("max_connections", conf->proxy.max_connections),
                 LOG_INT("used", fits), LOG_STR("cure", "raise ulimit -n"), LOG_END);
    }
}
