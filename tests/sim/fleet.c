#include "fleet.h"

#include "base/mem.h"
#include "outbound/outbound.h"
#include "policy_fixed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESTINATION "api.example.com"
#define WARM_UP_US (5 * CLOCK_SECOND_US)
#define BACKLOG_AT_START 20
#define ANSWER_TRAVELS_US CLOCK_MS_US
enum { REPLICAS_MAX = 48 };

struct replica {
    struct fleet *fleet;
    struct loop *loop;
    struct link *link;
    struct outbound *outbound;
    struct policy *policy, *route;
    TAILQ_HEAD(, guest) guests;
    unsigned entered;
    bool is_dead;
};

/* One request. */
struct guest {
    struct waiter waiter;
    struct replica *replica;
    TAILQ_ENTRY(guest) link;
    bool is_of_route;
    struct timer dialled, leaves, served;
};

struct planned {
    struct fleet *fleet;
    enum fault fault;
    unsigned who;
    int64_t amount;
    struct fake_data *data;
    struct planned *next;
};

struct fleet {
    struct fleet_conf conf;
    struct world *world;
    struct server server;
    struct replica replicas[REPLICAS_MAX];
    unsigned replicas_count;
    struct times {
        int64_t *at;
        size_t count, cap;
    } arrivals, ends, of_route;
    double wait_us;
    uint64_t late, wasted;
    struct planned *planned;
};

/* ---- the third party ---- */

static void note(struct times *times, int64_t at_us)
{
    if (times->count == times->cap) {
        times->cap = times->cap > 0 ? times->cap * 2 : 1024;
        times->at = mem_realloc(times->at, times->cap * sizeof(int64_t));
    }
    times->at[times->count++] = at_us;
}

/* ---- callers ---- */

static void guest_free(struct guest *guest)
{
    TAILQ_REMOVE(&guest->replica->guests, guest, link);
    timer_clear(&guest->dialled);
    timer_clear(&guest->leaves);
    timer_clear(&guest->served);
    mem_free(guest);
}

static void on_dialled(struct timer *timer, struct mono now)
{
    struct guest *guest = container_of(timer, struct guest, dialled);
    (void)now;
    bucket_ready(&guest->waiter, true);
}

static void on_near(struct waiter *waiter)
{
    struct guest *guest = container_of(waiter, struct guest, waiter);
    struct fleet *fleet = guest->replica->fleet;

    if (fleet->conf.dial_us == 0) {
        bucket_ready(waiter, true);
        return;
    }
    int64_t takes = (int64_t)world_uniform(fleet->world, (double)fleet->conf.dial_us / 2, (double)fleet->conf.dial_us);
    timer_set(guest->replica->loop, &guest->dialled, mono_add(loop_now(guest->replica->loop), takes), on_dialled);
}

static void on_served(struct timer *timer, struct mono now)
{
    struct guest *guest = container_of(timer, struct guest, served);
    (void)now;
    bucket_finish(&guest->waiter, 0);
    guest_free(guest);
}

static void on_release(struct waiter *waiter, struct mono now)
{
    struct guest *guest = container_of(waiter, struct guest, waiter);
    struct fleet *fleet = guest->replica->fleet;

    fleet->wait_us += (double)mono_diff(now, waiter->enqueued);
    int64_t travels = (int64_t)world_uniform(fleet->world, 0, (double)guest->replica->policy->path_jitter_us);
    note(&fleet->arrivals, world_now(fleet->world) + travels);
    if (guest->is_of_route) {
        note(&fleet->of_route, world_now(fleet->world) + travels);
    }
    if (fleet->conf.service_us == 0) {
        guest_free(guest);
        return;
    }
    double longest = (double)fleet->conf.service_us;
    int64_t takes = (int64_t)world_uniform(fleet->world, longest / 3, longest);
    note(&fleet->ends, world_now(fleet->world) + travels + takes);
    timer_clear(&guest->leaves);
    timer_set(guest->replica->loop, &guest->served, mono_add(now, travels + takes + ANSWER_TRAVELS_US), on_served);
}

static void on_give_up(struct waiter *waiter, enum give_up why)
{
    (void)why;
    guest_free(container_of(waiter, struct guest, waiter));
}

static const struct waiter_ops guest_ops = {on_near, on_release, on_give_up};

static void on_leave(struct timer *timer, struct mono now)
{
    struct guest *guest = container_of(timer, struct guest, leaves);
    (void)now;
    bucket_cancel(&guest->waiter);
    guest_free(guest);
}

static struct bucket *bucket_of(struct replica *replica)
{
    return outbound_bucket(replica->outbound, replica->policy, DESTINATION);
}

static struct bucket *bucket_for(struct replica *replica, const struct guest *guest)
{
    struct bucket_id route = {.destination = DESTINATION, .part = "r=route", .parent = "", .again = true};

    return guest->is_of_route ? outbound_part(replica->outbound, replica->route, &route) : bucket_of(replica);
}

static void guest_enters(void *arg)
{
    struct replica *replica = arg;
    const struct fleet_conf *conf = &replica->fleet->conf;
    struct guest *guest = mem_zalloc(sizeof(*guest));
    struct forecast forecast;

    guest->replica = replica;
    guest->waiter.ops = &guest_ops;
    guest->is_of_route = conf->route_count > 0 && replica->entered++ % 2 == 0;
    TAILQ_INSERT_TAIL(&replica->guests, guest, link);
    if (bucket_enqueue(bucket_for(replica, guest), &guest->waiter, replica->policy->max_wait_us, &forecast) != ENQUEUE_OK) {
        guest_free(guest);
    } else if (conf->patience_us > 0) {
        double stays = world_exponential(replica->fleet->world, (double)conf->patience_us);
        timer_set(replica->loop, &guest->leaves, mono_add(loop_now(replica->loop), (int64_t)stays), on_leave);
    }
}

static void next_guest(void *arg)
{
    struct replica *replica = arg;
    struct fleet *fleet = replica->fleet;
    double rate = fleet->conf.load * (double)fleet->conf.count / (double)fleet->conf.period_us / fleet->conf.replicas;

    if (!replica->is_dead) {
        loop_deliver(replica->loop, guest_enters, replica);
        world_at(fleet->world, world_now(fleet->world) + (int64_t)world_exponential(fleet->world, 1 / rate), next_guest,
                 replica);
    }
}

static void backlog_guest(void *arg)
{
    struct replica *replica = arg;
    loop_deliver(replica->loop, guest_enters, replica);
}

/* ---- replicas ---- */

static struct policy *policy_of(const struct fleet_conf *conf)
{
    struct policy *policy = policy_fixed(conf->count, conf->period_us);

    policy->feedback = (struct feedback_conf){.on = conf->hears,
                                              .pause_default_us = CLOCK_SECOND_US,
                                              .pause_growth = 2,
                                              .pause_max_us = 10 * CLOCK_SECOND_US,
                                              .adapt = true,
                                              .adapt_floor = 50,
                                              .adapt_return_us = 4 * CLOCK_SECOND_US};
    policy->strict = conf->is_gap ? STRICT_GAP : STRICT_WINDOW;
    policy->max_wait_us = conf->period_us * 30 > 30 * CLOCK_SECOND_US ? conf->period_us * 30 : 30 * CLOCK_SECOND_US;
    policy->on_redis_down = conf->mode;
    policy->cost = policy->cost_most = 1;
    policy->max_in_flight = conf->in_flight;
    policy->lease_us = conf->lease_us;
    if (conf->quotas_count > 0) {
        policy->quotas = mem_alloc(conf->quotas_count * sizeof(conf->quotas[0]));
        policy->quotas_count = conf->quotas_count;
        memcpy(policy->quotas, conf->quotas, conf->quotas_count * sizeof(conf->quotas[0]));
    }
    if (conf->permits > 0) {
        policy->on_redis_down = REDIS_DOWN_RESERVE;
        policy->outage_permits = conf->permits;
        policy->replicas_max = conf->replicas_max;
    }
    return policy;
}

static struct policy *route_of(const struct fleet_conf *conf, struct policy *parent)
{
    struct policy *route = policy_fixed(conf->route_count, conf->period_us);

    route->max_wait_us = parent->max_wait_us;
    route->cost = route->cost_most = 1;
    route->lease_us = parent->lease_us;
    route->parent = policy_get(parent);
    return route;
}

static void add_replica(struct fleet *fleet)
{
    const struct fleet_conf *conf = &fleet->conf;
    struct world *world = fleet->world;
    struct link_conditions conditions = {conf->delay_us, conf->jitter_us, conf->spike_p, conf->spike_us, conf->lost_p};
    char name[16];

    must(fleet->replicas_count < REPLICAS_MAX);
    struct replica *replica = &fleet->replicas[fleet->replicas_count++];
    snprintf(name, sizeof(name), "r%u", fleet->replicas_count);
    replica->fleet = fleet;
    TAILQ_INIT(&replica->guests);
    replica->loop = world_loop(world, (int64_t)world_uniform(world, 0, 1e10), (int)world_uniform(world, -50, 50));
    loop_set_lateness(replica->loop, conf->late_us, conf->stall_p, conf->stall_us);
    replica->link = link_virtual(replica->loop, &fleet->server, &conditions);
    replica->policy = policy_of(conf);
    replica->route = conf->route_count > 0 ? route_of(conf, replica->policy) : NULL;
    replica->outbound = outbound_new(replica->loop, replica->link, "sluice", name);
    outbound_warm(replica->outbound, replica->policy, DESTINATION);
    link_start(replica->link);
    for (int i = 0; i < BACKLOG_AT_START && conf->load > 1; i++) {
        world_at(world, world_now(world) + 1000 * i, backlog_guest, replica);
    }
    world_at(world, world_now(world) + 1000, next_guest, replica);
}

static void count_windows(void *arg, const struct bucket_stats *stats)
{
    struct fleet *fleet = arg;
    fleet->late += stats->late_windows;
    fleet->wasted += stats->wasted_windows;
}

/* As kill -9: what it holds and who waits there is gone, what it sent is on its way. */
static void kill_replica(struct replica *replica)
{
    struct guest *guest;

    if (replica->is_dead) {
        return;
    }
    replica->is_dead = true;
    outbound_each(replica->outbound, count_windows, replica->fleet);
    while ((guest = TAILQ_FIRST(&replica->guests)) != NULL) {
        bucket_cancel(&guest->waiter);
        guest_free(guest);
    }
    outbound_free(replica->outbound);
    if (replica->route != NULL) {
        policy_put(replica->route);
    }
    policy_put(replica->policy);
    link_free(replica->link);
    loop_kill(replica->loop);
}

/* ---- faults ---- */

static void restart(void *arg)
{
    struct planned *planned = arg;
    struct fleet *fleet = planned->fleet;

    if (planned->fault == FAULT_DOWN && planned->data == NULL) {
        planned->data = fake_redis_copy(fleet->server.redis);
    }
    if (!fleet->server.is_up) {
        server_start(&fleet->server, planned->data);
        planned->data = NULL;
    }
}

static void join_again(void *arg)
{
    link_cut(arg, false);
}

static void storm(struct replica *replica, int64_t percent)
{
    struct guest *guest = TAILQ_FIRST(&replica->guests), *next;

    for (; guest != NULL; guest = next) {
        next = TAILQ_NEXT(guest, link);
        if ((int64_t)(world_random(replica->fleet->world) % 100) < percent) {
            bucket_cancel(&guest->waiter);
            guest_free(guest);
        }
    }
}

static void strike_replica(struct planned *planned)
{
    struct fleet *fleet = planned->fleet;
    struct replica *replica = &fleet->replicas[planned->who % fleet->replicas_count];
    int64_t now = world_now(fleet->world);

    if (replica->is_dead) {
        return;
    }
    switch (planned->fault) {
    case FAULT_FREEZE:
        loop_freeze(replica->loop, planned->amount);
        break;
    case FAULT_CRASH:
        kill_replica(replica);
        break;
    case FAULT_CUT:
        link_cut(replica->link, true);
        world_at(fleet->world, now + planned->amount, join_again, replica->link);
        break;
    case FAULT_PAUSE:
        bucket_pause(bucket_of(replica), planned->amount);
        break;
    case FAULT_WORD:
        bucket_told(bucket_of(replica), &(struct answer){TOLD_THROTTLED, loop_now(replica->loop), planned->amount, 0});
        break;
    default:
        storm(replica, planned->amount);
        break;
    }
}

static void strike(void *arg)
{
    struct planned *planned = arg;
    struct fleet *fleet = planned->fleet;
    struct server *server = &fleet->server;
    int64_t now = world_now(fleet->world);

    switch (planned->fault) {
    case FAULT_ADD:
        add_replica(fleet);
        break;
    case FAULT_STALL:
        server->stalled_until_us = now + planned->amount;
        break;
    case FAULT_DOWN:
    case FAULT_EMPTY:
        server_stop(server);
        world_at(fleet->world, now + planned->amount, restart, planned);
        break;
    case FAULT_FLUSH:
        fake_redis_load(server->redis, NULL);
        break;
    case FAULT_EVICT:
        fake_redis_delete(server->redis, "sluice:{" DESTINATION "}:b");
        break;
    case FAULT_STEP:
        server->clock_us += planned->amount;
        break;
    case FAULT_SLEW:
        server->slew_from_us = now;
        server->slew_ppm = (int)planned->amount;
        break;
    default:
        strike_replica(planned);
        break;
    }
}

static struct planned *plan(struct fleet *fleet, enum fault fault, unsigned who, int64_t amount)
{
    struct planned *planned = mem_zalloc(sizeof(*planned));

    *planned = (struct planned){fleet, fault, who, amount, NULL, fleet->planned};
    fleet->planned = planned;
    return planned;
}

void fleet_fault(struct fleet *fleet, int64_t at_us, enum fault fault, unsigned who, int64_t amount)
{
    world_at(fleet->world, at_us, strike, plan(fleet, fault, who, amount));
}

static void copy_data(void *arg)
{
    struct planned *planned = arg;
    planned->data = fake_redis_copy(planned->fleet->server.redis);
}

void fleet_failover(struct fleet *fleet, int64_t at_us, int64_t down_us, int64_t lost_us)
{
    struct planned *planned = plan(fleet, FAULT_DOWN, 0, down_us);
    world_at(fleet->world, at_us - lost_us, copy_data, planned);
    world_at(fleet->world, at_us, strike, planned);
}

/* ---- a run ---- */

struct fleet *fleet_new(const struct fleet_conf *conf, uint64_t seed)
{
    struct fleet *fleet = mem_zalloc(sizeof(*fleet));

    fleet->conf = *conf;
    fleet->world = world_new(seed);
    server_init(&fleet->server, fleet->world);
    for (unsigned i = 0; i < conf->replicas; i++) {
        add_replica(fleet);
    }
    return fleet;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static unsigned most_in(const struct times *times, int64_t period_us)
{
    size_t oldest = 0, most = 0;

    for (size_t i = 0; i < times->count; i++) {
        while (times->at[i] - times->at[oldest] >= period_us) {
            oldest++;
        }
        most = i - oldest + 1 > most ? i - oldest + 1 : most;
    }
    return (unsigned)most;
}

/* By the wall clock that Redis began with. */
static unsigned most_in_calendar(const struct fleet *fleet, const struct quota_limit *quota)
{
    const struct times *times = &fleet->arrivals;
    int64_t offset = SERVER_CLOCK_US + quota->offset_us, window = -1;
    unsigned count = 0, most = 0;

    for (size_t i = 0; i < times->count; i++) {
        int64_t its = (times->at[i] + offset) / quota->period_us;
        count = its == window ? count + 1 : 1;
        window = its;
        most = count > most ? count : most;
    }
    return most;
}

static unsigned most_at_once(const struct times *begun, const struct times *ended)
{
    size_t most = 0, over = 0;

    for (size_t i = 0; i < begun->count; i++) {
        while (over < ended->count && ended->at[over] <= begun->at[i]) {
            over++;
        }
        most = i + 1 - over > most ? i + 1 - over : most;
    }
    return (unsigned)most;
}

static void count_limits(struct fleet *fleet, struct fleet_result *result)
{
    const struct fleet_conf *conf = &fleet->conf;

    for (unsigned i = 0; i < conf->quotas_count; i++) {
        const struct quota_limit *quota = &conf->quotas[i];
        result->most_of_quota[i] =
            quota->aligned ? most_in_calendar(fleet, quota) : most_in(&fleet->arrivals, quota->period_us);
    }
    result->most_in_flight = conf->service_us > 0 ? most_at_once(&fleet->arrivals, &fleet->ends) : 0;
    result->most_of_route = most_in(&fleet->of_route, conf->period_us);
    result->of_route = (unsigned)fleet->of_route.count;
}

static void count_arrivals(const struct fleet *fleet, struct fleet_result *result)
{
    const int64_t *at = fleet->arrivals.at;
    size_t warm = 0;

    result->least_gap_us = INT64_MAX;
    result->most = most_in(&fleet->arrivals, fleet->conf.period_us);
    for (size_t i = 0; i < fleet->arrivals.count; i++) {
        if (i > 0 && at[i] - at[i - 1] < result->least_gap_us) {
            result->least_gap_us = at[i] - at[i - 1];
        }
        warm += at[i] >= WARM_UP_US;
    }
    double periods = (double)(fleet->conf.for_us - WARM_UP_US) / (double)fleet->conf.period_us;
    result->used = (double)warm / (periods * (double)fleet->conf.count);
}

static void sort(struct times *times)
{
    if (times->count > 0) {
        qsort(times->at, times->count, sizeof(int64_t), by_time);
    }
}

struct fleet_result fleet_run(struct fleet *fleet)
{
    struct fleet_result result = {0};

    world_run(fleet->world, fleet->conf.for_us);
    sort(&fleet->arrivals);
    sort(&fleet->ends);
    sort(&fleet->of_route);
    count_arrivals(fleet, &result);
    count_limits(fleet, &result);
    for (unsigned i = 0; i < fleet->replicas_count; i++) {
        if (!fleet->replicas[i].is_dead) {
            outbound_each(fleet->replicas[i].outbound, count_windows, fleet);
        }
    }
    result.released = fleet->arrivals.count;
    result.late = fleet->late;
    result.wasted = fleet->wasted;
    if (result.released > 0) {
        result.mean_wait_s = fleet->wait_us / 1e6 / (double)result.released;
        result.calls_per_release = (double)fake_redis_calls(fleet->server.redis) / (double)result.released;
    }
    return result;
}

/* Messages still under way are let arrive, at nobody, so that they free themselves. */
void fleet_free(struct fleet *fleet)
{
    struct planned *planned;

    for (unsigned i = 0; i < fleet->replicas_count; i++) {
        kill_replica(&fleet->replicas[i]);
    }
    world_run(fleet->world, 600 * CLOCK_SECOND_US);
    for (unsigned i = 0; i < fleet->replicas_count; i++) {
        loop_free(fleet->replicas[i].loop);
        mem_free(fleet->replicas[i].link);
    }
    while ((planned = fleet->planned) != NULL) {
        fleet->planned = planned->next;
        if (planned->data != NULL) {
            fake_redis_load(fleet->server.redis, planned->data);
        }
        mem_free(planned);
    }
    server_fini(&fleet->server);
    world_free(fleet->world);
    mem_free(fleet->arrivals.at);
    mem_free(fleet->ends.at);
    mem_free(fleet->of_route.at);
    mem_free(fleet);
}
