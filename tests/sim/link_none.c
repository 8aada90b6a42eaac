/* No Redis at all: what links the outbound of a process that has none. */
#include "redis/link.h"

void link_listen(struct link *link, const struct link_ops *ops, void *arg)
{
    (void)link, (void)ops, (void)arg;
    wrong("there is no Redis here");
}

struct link *link_for(struct link *link, const char *key)
{
    (void)key;
    return link;
}

const char *link_run_id(const struct link *link)
{
    (void)link;
    return "";
}

bool link_eval(struct link *link, struct link_call *call, const struct script *script, const char *const *keys,
               unsigned keys_count, const char *const *args, unsigned args_count)
{
    (void)link, (void)call, (void)script, (void)keys, (void)keys_count, (void)args, (void)args_count;
    return false;
}

bool link_command(struct link *link, struct link_call *call, const char *const *words, unsigned words_count)
{
    (void)link, (void)call, (void)words, (void)words_count;
    return false;
}

void link_forget(struct link *link, struct link_call *call)
{
    (void)link, (void)call;
}
