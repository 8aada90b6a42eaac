/*
 * One entry for each destination that has tunnels. It stays when the last one closes, so that what was said once is not
 * said again; only when there are very many (unlisted hosts, each a destination of its own) unused ones go.
 */
#include "proxy/tunnels.h"

#include "base/mem.h"
#include "base/must.h"

#include <string.h>
#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#define uthash_fatal(why) wrong(why)
#include <uthash.h>

enum { KEPT_MOST = 4096 };

struct tunnels_of {
    UT_hash_handle hh;
    char *destination;
    int64_t open;
    bool h2_seen;
};

struct tunnels {
    struct tunnels_of *by_destination;
};

struct tunnels *tunnels_new(void)
{
    return mem_zalloc(sizeof(struct tunnels));
}

static void drop(struct tunnels *tunnels, struct tunnels_of *of)
{
    HASH_DEL(tunnels->by_destination, of);
    mem_free(of->destination);
    mem_free(of);
}

void tunnels_free(struct tunnels *tunnels)
{
    struct tunnels_of *of, *next;

    HASH_ITER(hh, tunnels->by_destination, of, next)
    {
        drop(tunnels, of);
    }
    mem_free(tunnels);
}

struct tunnels_of *tunnels_enter(struct tunnels *tunnels, const char *destination, int64_t most)
{
    struct tunnels_of *of;

    HASH_FIND_STR(tunnels->by_destination, destination, of);
    if (of == NULL) {
        of = mem_zalloc(sizeof(*of));
        of->destination = mem_strdup(destination);
        HASH_ADD_KEYPTR(hh, tunnels->by_destination, of->destination, strlen(of->destination), of);
    }
    if (of->open >= most) {
        return NULL;
    }
    of->open++;
    return of;
}

void tunnels_leave(struct tunnels *tunnels, struct tunnels_of *of)
{
    must(of->open > 0);
    of->open--;
    if (of->open == 0 && HASH_COUNT(tunnels->by_destination) > KEPT_MOST) {
        drop(tunnels, of);
    }
}

bool tunnels_first_h2(struct tunnels_of *of)
{
    bool first = !of->h2_seen;

    of->h2_seen = true;
    return first;
}
