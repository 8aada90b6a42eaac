#ifndef SLUICE_UPSTREAM_WORKERS_H
#define SLUICE_UPSTREAM_WORKERS_H
/* Threads that look names up, so that the loop never waits for getaddrinfo(). Used by resolve.c alone. */
#include "base/addr.h"
#include "base/clock.h"

#include <stdbool.h>
#include <sys/queue.h>

enum { WORKERS_ADDRS = 16, WORKERS_QUEUE = 1024, WORKERS_THREADS_MOST = 64 };
#define WORKERS_STUCK_US CLOCK_SECOND_US

/* Looks `host` up, blocking: fills up to WORKERS_ADDRS addresses (ports 0); 0 or an EAI_ code. Called in a thread. */
typedef int (*workers_resolve)(const char *host, struct addr addrs[WORKERS_ADDRS], unsigned *count);

struct job {
    TAILQ_ENTRY(job) link;
    void *owner; /* the submitter's */
    char *host;  /* owned */
    int status;
    unsigned count;
    struct addr addrs[WORKERS_ADDRS];
};
struct job *job_new(const char *host, void *owner);
void job_free(struct job *job);

struct workers;

/* At most `threads` threads, started when needed, besides those that are stuck in a lookup. */
struct workers *workers_new(unsigned threads, workers_resolve resolve);
/* Never waits: a thread stuck in a lookup is left behind and cleans up after itself. Jobs not taken yet are freed. */
void workers_free(struct workers *workers);
/* Readable when finished jobs can be taken. */
int workers_fd(const struct workers *workers);
/* False when the queue is full or no thread can be had: the job stays the caller's. */
bool workers_submit(struct workers *workers, struct job *job) MUST_CHECK;
/* Stands in for threads that are stuck while jobs wait. True when jobs wait, even so: to be called again. */
bool workers_relieve(struct workers *workers, struct mono now);
unsigned workers_threads(struct workers *workers);
/* True when nobody had begun the job: it is the caller's again. */
bool workers_withdraw(struct workers *workers, struct job *job) MUST_CHECK;
/* The next finished job, now the caller's, or NULL. */
struct job *workers_take(struct workers *workers);
/* The system's own way: /etc/hosts, DNS and whatever else nsswitch.conf names. */
int workers_system_resolve(const char *host, struct addr addrs[WORKERS_ADDRS], unsigned *count);

#endif
