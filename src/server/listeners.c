#include "server/listeners.h"

#include "base/mem.h"

#include <sys/queue.h>

struct entry {
    TAILQ_ENTRY(entry) link;
    struct listeners *owner;
    struct addr address;
    struct listener *listener; /* NULL: not open yet */
    void *tag, *next_tag;
    bool is_new, wanted;
};

struct listeners {
    struct loop *loop;
    TAILQ_HEAD(, entry) entries;
    listeners_accept *on_accept;
    void *arg;
    struct timer retired;
    void (*closed)(void *arg);
};

/* Longer than most handshakes take. */
#define RETIRE_US (50 * CLOCK_MS_US)

static void accepted(void *arg, int fd, const struct addr *peer, const struct addr *local)
{
    struct entry *entry = arg;

    entry->owner->on_accept(entry->owner->arg, entry->tag, fd, peer, local);
}

struct listeners *listeners_new(struct loop *loop, listeners_accept *on_accept, void *arg)
{
    struct listeners *listeners = mem_zalloc(sizeof(*listeners));

    listeners->loop = loop;
    listeners->on_accept = on_accept;
    listeners->arg = arg;
    TAILQ_INIT(&listeners->entries);
    return listeners;
}

static void drop(struct entry *entry)
{
    TAILQ_REMOVE(&entry->owner->entries, entry, link);
    listener_free(entry->listener);
    mem_free(entry);
}

void listeners_free(struct listeners *listeners)
{
    struct entry *entry;

    if (listeners == NULL) {
        return;
    }
    timer_clear(&listeners->retired);
    while ((entry = TAILQ_FIRST(&listeners->entries)) != NULL) {
        drop(entry);
    }
    mem_free(listeners);
}

void listeners_want(struct listeners *listeners, const struct addr *address, void *tag)
{
    struct entry *entry;

    TAILQ_FOREACH(entry, &listeners->entries, link)
    {
        if (!entry->wanted && entry->listener != NULL && listener_is_for(entry->listener, address)) {
            break;
        }
    }
    if (entry == NULL) {
        entry = mem_zalloc(sizeof(*entry));
        entry->owner = listeners;
        entry->address = *address;
        entry->is_new = true;
        TAILQ_INSERT_TAIL(&listeners->entries, entry, link);
    }
    entry->wanted = true;
    entry->next_tag = tag;
}

bool listeners_open(struct listeners *listeners, struct sockets *sockets, const char *key, struct err *err)
{
    struct entry *entry;
    bool good = true;

    TAILQ_FOREACH(entry, &listeners->entries, link)
    {
        if (entry->is_new) {
            entry->listener = listener_new(listeners->loop, sockets, &entry->address, key, accepted, entry, err);
            good = good && entry->listener != NULL;
        }
    }
    return good;
}

void listeners_abandon(struct listeners *listeners)
{
    struct entry *entry = TAILQ_FIRST(&listeners->entries);

    while (entry != NULL) {
        struct entry *next = TAILQ_NEXT(entry, link);
        entry->wanted = false;
        if (entry->is_new) {
            drop(entry);
        }
        entry = next;
    }
}

static void tell(const struct entry *entry, listeners_told *told, bool opened)
{
    if (told != NULL) {
        told(entry->owner->arg, entry->tag, entry->listener, opened);
    }
}

void listeners_commit(struct listeners *listeners, listeners_told *told)
{
    struct entry *entry = TAILQ_FIRST(&listeners->entries);

    while (entry != NULL) {
        struct entry *next = TAILQ_NEXT(entry, link);
        if (!entry->wanted) {
            tell(entry, told, false);
            listener_finish(entry->listener);
            drop(entry);
        } else {
            entry->tag = entry->next_tag;
            entry->wanted = false;
            if (entry->is_new) {
                entry->is_new = false;
                listener_start(entry->listener);
                tell(entry, told, true);
            }
        }
        entry = next;
    }
}

static void retired_due(struct timer *timer, struct mono now)
{
    struct listeners *listeners = container_of(timer, struct listeners, retired);

    (void)now;
    listeners_close(listeners);
    listeners->closed(listeners->arg);
}

void listeners_retire(struct listeners *listeners, void (*closed)(void *arg))
{
    struct entry *entry;

    TAILQ_FOREACH(entry, &listeners->entries, link)
    {
        listener_point_away(entry->listener);
    }
    listeners->closed = closed;
    timer_set(listeners->loop, &listeners->retired, mono_add(loop_now(listeners->loop), RETIRE_US), retired_due);
}

void listeners_close(struct listeners *listeners)
{
    struct entry *entry;

    timer_clear(&listeners->retired);
    while ((entry = TAILQ_FIRST(&listeners->entries)) != NULL) {
        listener_finish(entry->listener);
        drop(entry);
    }
}

uint64_t listeners_starved(const struct listeners *listeners)
{
    const struct entry *entry;
    uint64_t starved = 0;

    TAILQ_FOREACH(entry, &listeners->entries, link)
    {
        starved += entry->listener != NULL ? listener_starved(entry->listener) : 0;
    }
    return starved;
}
