#ifndef SLUICE_SRC_REDIS_CLUSTER_H
#define SLUICE_SRC_REDIS_CLUSTER_H
/* The servers of a cluster: which there are, which has a key, and calls that meet the wrong one. */
#include "redis/node.h"

struct cluster;

/* One primary, or what was one; lives as long as the cluster. */
struct member {
    TAILQ_ENTRY(member) link;
    struct cluster *cluster;
    struct node *node;
    struct redis_host host;
    struct mono wanted_until; /* has keys on their way to it, whatever the map says */
    bool in_map;
    void *view; /* the owner's */
};

/* Always from the loop. */
struct cluster_ops {
    void (*on_up)(void *arg, struct member *member);
    void (*on_down)(void *arg, struct member *member, const char *why);
    void (*on_moved)(void *arg); /* cluster_find() of some keys is another one now */
};

/* `conf`, of REDIS_CLUSTER, is copied. */
struct cluster *cluster_new(struct node_shared *shared, const struct redis_conf *conf, const struct cluster_ops *ops,
                            void *arg);
void cluster_free(struct cluster *cluster);
void cluster_start(struct cluster *cluster);
/* Who has the key, as far as is known; NULL: nobody. */
struct member *cluster_find(const struct cluster *cluster, const char *key);

#endif
