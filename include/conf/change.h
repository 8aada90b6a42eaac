#ifndef SLUICE_CONF_CHANGE_H
#define SLUICE_CONF_CHANGE_H
/* New settings in place of those in force: how whoever asked for a reload hears of its end. */
#include "base/err.h"
#include "conf/policy.h"

/* How a reload ended. With mistakes nothing was changed. */
struct reload_result {
    bool applied;
    unsigned changes;       /* keys and sections that differ */
    unsigned needs_restart; /* of those, the ones that wait for a restart */
    const struct err *lines; /* the mistakes; or the warnings, and "needs a restart: redis.url" */
};
typedef void reload_done(void *arg, const struct reload_result *result);
/* Reads the settings again; never waits. `done` (NULL: nobody) comes from the loop, once, and not from inside. */
typedef void reload_start(void *arg, reload_done *done, void *done_arg);

#endif
