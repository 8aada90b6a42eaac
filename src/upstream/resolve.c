/*
 * Names to addresses.
 *
 *   resolve_get -> literal? -> remembered? -> [entry: one job for all who wait for the name] -> workers -> eventfd ->
 * done()
 *
 *   parked in           woken by                  given up by
 *   entry->waiting      the job's end             the lookup's own deadline (dns_timeout), resolve_cancel()
 *
 * getaddrinfo() tells no TTL, so a good answer is kept for dns_ttl and a bad one for a second, long enough that a burst
 * of callers asks once. The memory is bounded: the entry used longest ago goes first, but never one that is being asked
 * for. A lookup that hangs keeps its entry and its thread, nothing else; whoever waits for it is told after
 * dns_timeout; and when others wait behind it, another thread takes its place (workers.c).
 */
#include "resolve.h"

#include "base/mem.h"

#include <event2/event.h>
#include <netdb.h>
#include <string.h>
#include <uthash.h>

enum { BAD_ANSWER_US = 1000000, RELIEF_US = 250000 };

struct resolve_entry {
    UT_hash_handle hh;
    TAILQ_ENTRY(resolve_entry) age; /* only while not asked for */
    TAILQ_HEAD(, lookup) waiting;
    struct job *job; /* non-NULL while being asked for, and while the answer is handed out */
    struct mono fresh_until;
    enum upstream_error error;
    const char *detail;
    struct addr *addrs; /* owned */
    unsigned count;
    char host[];
};

struct resolver {
    struct loop *loop;
    struct workers *workers;
    struct event *finished;
    struct timer relief; /* set while jobs may be waiting behind lookups that hang */
    int64_t ttl_us, timeout_us;
    struct resolve_entry *entries;
    TAILQ_HEAD(, resolve_entry) by_age; /* used longest ago first */
    struct addr literal;
};

static void on_finished(evutil_socket_t fd, short what, void *arg);

struct resolver *resolve_new(struct loop *loop, const struct upstreams_conf *conf, workers_resolve resolve)
{
    struct resolver *resolver = mem_zalloc(sizeof(*resolver));

    resolver->loop = loop;
    resolve_set_times(resolver, conf);
    TAILQ_INIT(&resolver->by_age);
    resolver->workers = workers_new(conf->resolver_threads > 0 ? conf->resolver_threads : 1,
                                    resolve != NULL ? resolve : workers_system_resolve);
    resolver->finished =
        event_new(loop_base(loop), workers_fd(resolver->workers), EV_READ | EV_PERSIST, on_finished, resolver);
    must(resolver->finished != NULL);
    event_priority_set(resolver->finished, LOOP_PRIORITY_UPSTREAM);
    must(event_add(resolver->finished, NULL) == 0);
    return resolver;
}

void resolve_set_times(struct resolver *resolver, const struct upstreams_conf *conf)
{
    resolver->ttl_us = conf->dns_ttl_us;
    resolver->timeout_us = conf->dns_timeout_us;
}

static void forget(struct resolver *resolver, struct resolve_entry *entry)
{
    must(TAILQ_EMPTY(&entry->waiting));
    if (entry->job == NULL) {
        TAILQ_REMOVE(&resolver->by_age, entry, age);
    }
    HASH_DEL(resolver->entries, entry);
    mem_free(entry->addrs);
    mem_free(entry);
}

void resolve_free(struct resolver *resolver)
{
    struct resolve_entry *entry, *next;

    timer_clear(&resolver->relief);
    event_free(resolver->finished);
    workers_free(resolver->workers);
    HASH_ITER(hh, resolver->entries, entry, next)
    {
        forget(resolver, entry);
    }
    mem_free(resolver);
}

static struct answer answer_of(const struct resolve_entry *entry)
{
    return (struct answer){entry->error, entry->detail, entry->addrs, entry->count};
}

static struct answer no_room(const char *detail)
{
    return (struct answer){.error = UPSTREAM_BAD_RESOURCES, .detail = detail};
}

static struct resolve_entry *find(struct resolver *resolver, const char *host)
{
    struct resolve_entry *entry;

    HASH_FIND_STR(resolver->entries, host, entry);
    return entry;
}

/* NULL when every entry is being asked for. */
static struct resolve_entry *add(struct resolver *resolver, const char *host)
{
    if (HASH_COUNT(resolver->entries) >= RESOLVE_ENTRIES) {
        struct resolve_entry *oldest = TAILQ_FIRST(&resolver->by_age);
        if (oldest == NULL) {
            return NULL;
        }
        forget(resolver, oldest);
    }
    size_t host_bytes = strlen(host) + 1;
    struct resolve_entry *entry = mem_zalloc(sizeof(*entry) + host_bytes);
    memcpy(entry->host, host, host_bytes);
    TAILQ_INIT(&entry->waiting);
    HASH_ADD_STR(resolver->entries, host, entry);
    TAILQ_INSERT_TAIL(&resolver->by_age, entry, age);
    return entry;
}

static void relief_due(struct timer *timer, struct mono now)
{
    struct resolver *resolver = container_of(timer, struct resolver, relief);

    if (workers_relieve(resolver->workers, now)) {
        timer_set(resolver->loop, timer, mono_add(now, RELIEF_US), relief_due);
    }
}

static bool ask(struct resolver *resolver, struct resolve_entry *entry)
{
    struct job *job = job_new(entry->host, entry);

    if (!workers_submit(resolver->workers, job)) {
        job_free(job);
        return false;
    }
    entry->job = job;
    TAILQ_REMOVE(&resolver->by_age, entry, age);
    if (!timer_is_set(&resolver->relief)) {
        timer_set(resolver->loop, &resolver->relief, mono_add(loop_now(resolver->loop), RELIEF_US), relief_due);
    }
    return true;
}

/* The last one to wait has gone: a job nobody has begun is not worth doing. */
static void leave(struct lookup *lookup)
{
    struct resolve_entry *entry = lookup->entry;
    struct resolver *resolver = lookup->resolver;

    timer_clear(&lookup->deadline);
    TAILQ_REMOVE(&entry->waiting, lookup, link);
    lookup->entry = NULL;
    if (TAILQ_EMPTY(&entry->waiting) && entry->job != NULL && workers_withdraw(resolver->workers, entry->job)) {
        job_free(entry->job);
        forget(resolver, entry);
    }
}

static void deadline_due(struct timer *timer, struct mono now)
{
    struct lookup *lookup = container_of(timer, struct lookup, deadline);
    struct answer answer = {.error = UPSTREAM_BAD_DNS_TIMEOUT, .detail = "no answer in time"};

    (void)now;
    leave(lookup);
    lookup->done(lookup, &answer);
}

bool resolve_get(struct resolver *resolver, const char *host, struct lookup *lookup, struct answer *out)
{
    struct mono now = loop_now(resolver->loop);

    must(lookup->entry == NULL && lookup->done != NULL);
    if (addr_parse_literal(slice_of(host), 0, &resolver->literal)) {
        *out = (struct answer){.error = UPSTREAM_OK, .addrs = &resolver->literal, .count = 1};
        return true;
    }
    struct resolve_entry *entry = find(resolver, host);
    if (entry != NULL && entry->job == NULL && mono_before(now, entry->fresh_until)) {
        TAILQ_REMOVE(&resolver->by_age, entry, age);
        TAILQ_INSERT_TAIL(&resolver->by_age, entry, age);
        *out = answer_of(entry);
        return true;
    }
    if (entry == NULL && (entry = add(resolver, host)) == NULL) {
        *out = no_room("too many names are being resolved");
        return true;
    }
    if (entry->job == NULL && !ask(resolver, entry)) {
        forget(resolver, entry);
        *out = no_room("the resolver's queue is full");
        return true;
    }
    lookup->resolver = resolver;
    lookup->entry = entry;
    TAILQ_INSERT_TAIL(&entry->waiting, lookup, link);
    timer_set(resolver->loop, &lookup->deadline, mono_add(now, resolver->timeout_us), deadline_due);
    return false;
}

void resolve_cancel(struct lookup *lookup)
{
    if (lookup->entry != NULL) {
        leave(lookup);
    }
}

void resolve_prefer(struct resolver *resolver, const char *host, const struct addr *addr)
{
    struct resolve_entry *entry = find(resolver, host);

    for (unsigned i = 1; entry != NULL && entry->job == NULL && i < entry->count; i++) {
        char good[ADDR_TEXT_BYTES], other[ADDR_TEXT_BYTES];
        addr_format(addr, true, good);
        addr_format(&entry->addrs[i], true, other);
        if (strcmp(good, other) == 0) {
            struct addr first = entry->addrs[i];
            memmove(&entry->addrs[1], &entry->addrs[0], i * sizeof(first));
            entry->addrs[0] = first;
            return;
        }
    }
}

/* The families in turns, starting with the one the system put first (RFC 8305 section 4), each in the system's order:
 * when one family is a dead end, the second attempt already finds the other. */
static void interleave(const struct addr *from, unsigned count, struct addr *to)
{
    unsigned at[2] = {0, 0}; /* next index to look at, of the first family and of the others */

    for (unsigned filled = 0; filled < count;) {
        for (unsigned turn = 0; turn < 2; turn++) {
            while (at[turn] < count && (from[at[turn]].sa.sa_family != from[0].sa.sa_family) != (turn == 1)) {
                at[turn]++;
            }
            if (at[turn] < count) {
                to[filled++] = from[at[turn]++];
            }
        }
    }
}

static void store(struct resolver *resolver, struct resolve_entry *entry, const struct job *job)
{
    bool good = job->status == 0 && job->count > 0;

    mem_free(entry->addrs);
    entry->addrs = NULL;
    entry->count = 0;
    entry->error = good ? UPSTREAM_OK : job->status == EAI_MEMORY ? UPSTREAM_BAD_RESOURCES : UPSTREAM_BAD_DNS;
    entry->detail = good ? NULL : job->status != 0 ? gai_strerror(job->status) : "no address";
    if (good) {
        must(job->count <= WORKERS_ADDRS);
        entry->addrs = mem_alloc(job->count * sizeof(entry->addrs[0]));
        entry->count = job->count;
        interleave(job->addrs, job->count, entry->addrs);
    }
    entry->fresh_until = mono_add(loop_now(resolver->loop), good ? resolver->ttl_us : BAD_ANSWER_US);
}

/* The entry still counts as asked for while the answer is handed out, so that nothing a callback does can remove it. */
static void hand_out(struct resolver *resolver, struct job *job)
{
    struct resolve_entry *entry = job->owner;
    struct lookup *lookup;

    must(entry->job == job);
    store(resolver, entry, job);
    struct answer answer = answer_of(entry);
    while ((lookup = TAILQ_FIRST(&entry->waiting)) != NULL) {
        TAILQ_REMOVE(&entry->waiting, lookup, link);
        timer_clear(&lookup->deadline);
        lookup->entry = NULL;
        lookup->done(lookup, &answer);
    }
    entry->job = NULL;
    TAILQ_INSERT_TAIL(&resolver->by_age, entry, age);
    job_free(job);
}

static void on_finished(evutil_socket_t fd, short what, void *arg)
{
    struct resolver *resolver = arg;
    struct job *job;

    (void)fd;
    (void)what;
    while ((job = workers_take(resolver->workers)) != NULL) {
        hand_out(resolver, job);
    }
}
