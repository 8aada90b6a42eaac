#ifndef SLUICE_CONF_CHANGE_H
#define SLUICE_CONF_CHANGE_H
/* New settings in place of those in force: what differs, what has to stay as it is until a restart, and how whoever
 * asked for a reload hears of its end. */
#include "base/err.h"
#include "conf/policy.h"

/* One key whose value differs, or a whole section that came or went. */
struct change {
    const char *section; /* "proxy", "destination edgar" */
    const char *key;     /* NULL: the section */
    const char *from, *to; /* as one would write them, passwords masked; "" = not set */
    bool live;             /* can be changed without a restart */
};
typedef void change_visit(void *arg, const struct change *change);
/* Calls `each` for every difference, in the order of the key table, destinations in the order of their files. What a
 * destination merely inherits from [default] is told of [default] alone. */
void change_each(const struct conf *from, const struct conf *to, change_visit *each, void *arg);
/* Gives `next` the values of `running` for all keys that can't be changed live, and `running` those of `next`. */
void change_keep_fixed(struct conf *running, struct conf *next);

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
