#ifndef SLUICE_SRC_REDIS_COMMAND_H
#define SLUICE_SRC_REDIS_COMMAND_H
/* One command as the bytes that go over the wire. */
#include <stddef.h>

struct command {
    char *bytes; /* owned; NULL when there is none */
    size_t len;
};

/* Some words of a command, NUL-terminated. */
struct words {
    const char *const *word;
    unsigned count;
};

/* All words of all `parts`, in order. */
struct command command_make(const struct words *parts, unsigned parts_count);
void command_fini(struct command *command);

#endif
