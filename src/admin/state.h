#ifndef SLUICE_ADMIN_STATE_H
#define SLUICE_ADMIN_STATE_H
/* Shared by the files of this directory. */
#include "admin/admin.h"
#include "admin/guard.h"
#include "admin/history.h"
#include "base/buf.h"

#include <event2/http.h>
#include <sys/queue.h>

struct later;
struct stream;
struct walk;

struct admin {
    uint32_t magic;
    struct admin_sources sources;
    struct evhttp *http;
    struct guard_tokens tokens; /* none: none is asked for */
    char *page_policy;
    struct mono born;
    struct wall born_wall;
    enum log_level level;
    struct history *history;
    struct timer tick;
    TAILQ_HEAD(, stream) streams;
    unsigned streams_count;
    struct timer drain; /* while the answer to its verb leaves */
    TAILQ_HEAD(, walk) walks;
    bool is_telling; /* a status for the streams is being put together */
    TAILQ_HEAD(, later) laters; /* answers still to come */
};

#endif
