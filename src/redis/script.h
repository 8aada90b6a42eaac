#ifndef SLUICE_SRC_REDIS_SCRIPT_H
#define SLUICE_SRC_REDIS_SCRIPT_H
/* The Lua scripts of a link under the name Redis knows them by: the SHA-1 of their text. */
#include "redis/command.h"
#include "redis/link.h"

#define SCRIPT_SHA_BYTES 41

struct script_entry {
    const struct script *script;
    char sha[SCRIPT_SHA_BYTES];
};
struct script_set {
    struct script_entry *entries; /* owned */
    unsigned count;
};

void script_set_init(struct script_set *set, const struct script *const *scripts, unsigned count);
void script_set_fini(struct script_set *set);

/* EVALSHA of a script of the set. */
struct command script_evalsha(const struct script_set *set, const struct script *script, struct words keys,
                              struct words args);
/* The same call as EVAL, which carries the text. */
struct command script_eval(const struct script *script, const struct command *evalsha);

#endif
