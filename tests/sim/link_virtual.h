#ifndef SLUICE_SIM_LINK_VIRTUAL_H
#define SLUICE_SIM_LINK_VIRTUAL_H
#define SERVER_CLOCK_US INT64_C(1700000000000000)
/* Another implementation of redis/link.h: messages of one world to a fake server, over links that delay, lose and
 * break. */
#include "fake_redis.h"
#include "loop_virtual.h"

struct server {
    struct world *world;
    struct fake_redis *redis;
    char run_id[41];
    unsigned generation; /* connections to another one are reset */
    bool is_up;
    int64_t stalled_until_us;
    int64_t clock_us; /* its wall clock minus the world's time */
    int64_t slew_from_us;
    int slew_ppm;      /* its clock gains that much from slew_from_us on */
    bool keeps_run_id; /* a control: restarts can't be told */
};
void server_init(struct server *server, struct world *world);
void server_fini(struct server *server);
void server_stop(struct server *server);
/* Another process with these data. */
void server_start(struct server *server, struct fake_data *data);

struct link_conditions {
    double delay_us, jitter_us; /* one way */
    double spike_p, spike_us;
    double lost_p; /* the connection breaks after the script ran */
};
struct link *link_virtual(struct loop *loop, struct server *server, const struct link_conditions *conditions);
void link_set_conditions(struct link *link, const struct link_conditions *conditions);
/* All keys are on the server of `to` from now on, as in a cluster; NULL: on this link's own again. */
void link_move(struct link *link, struct link *to);
/* Cut: everything sent either way vanishes. */
void link_cut(struct link *link, bool is_cut);

#endif
