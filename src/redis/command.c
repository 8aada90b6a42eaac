#include "redis/command.h"

#include "base/mem.h"
#include "base/must.h"

#include <hiredis/hiredis.h>
#include <limits.h>

enum { WORDS_INLINE = 32 };

struct command command_make(const struct words *parts, unsigned parts_count)
{
    const char *inline_words[WORDS_INLINE];
    const char **all = inline_words;
    struct command command = {0};
    size_t total = 0, at = 0;

    for (unsigned p = 0; p < parts_count; p++) {
        total += parts[p].count;
    }
    must(total > 0 && total < INT_MAX);
    if (total > WORDS_INLINE) {
        all = mem_alloc(total * sizeof(all[0]));
    }
    for (unsigned p = 0; p < parts_count; p++) {
        for (unsigned w = 0; w < parts[p].count; w++) {
            all[at++] = parts[p].word[w];
        }
    }
    long long len = redisFormatCommandArgv(&command.bytes, (int)total, all, NULL);
    must(len > 0); /* the only failure is memory */
    command.len = (size_t)len;
    if (all != inline_words) {
        mem_free(all);
    }
    return command;
}

void command_fini(struct command *command)
{
    if (command->bytes != NULL) {
        redisFreeCommand(command->bytes);
    }
    *command = (struct command){0};
}
