#ifndef SLUICE_UPSTREAM_MULTI_H
#define SLUICE_UPSTREAM_MULTI_H
/* libcurl's multi handle on our loop. One per origin, since libcurl walks all connections of a handle quite often. */
#include "base/loop.h"

#include <curl/curl.h>

struct multi;

/* One easy handle in a multi, embedded in its owner; the handle's CURLOPT_PRIVATE points to it. */
struct transfer {
    CURL *easy;
    void (*done)(struct transfer *transfer, CURLcode code); /* from the loop, never inside libcurl or multi_add() */
};

/* NULL without descriptors or memory. */
struct multi *multi_new(struct loop *loop);
/* Every transfer must be removed. */
void multi_free(struct multi *multi);
/* Begins at once. */
void multi_add(struct multi *multi, struct transfer *transfer);
/* Ends the connection of a CONNECT_ONLY handle, too. Our own events on its descriptor must be gone before. */
void multi_remove(struct multi *multi, struct transfer *transfer);

#endif
