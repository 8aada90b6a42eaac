/* Which state may follow which, what a waiting exchange costs in memory, its way into the queue, what is counted of it,
 * and its end. */
#include "proxy/exchange_state.h"

#include "base/log.h"
#include "base/mem.h"
#include "proxy/order.h"
#include "proxy/part.h"

static const char *state_names[] = {
#define X(state, name) [EXCHANGE_##state] = name,
    EXCHANGE_STATES(X)
#undef X
};

static bool move_is_legal(enum exchange_state from, enum exchange_state to)
{
    static const unsigned legal[] = {
        [EXCHANGE_ADMIT] = 1U << EXCHANGE_WAIT | 1U << EXCHANGE_DIAL | 1U << EXCHANGE_OVER,
        [EXCHANGE_WAIT] = 1U << EXCHANGE_TRANSFER | 1U << EXCHANGE_TUNNEL | 1U << EXCHANGE_OVER,
        [EXCHANGE_DIAL] = 1U << EXCHANGE_TRANSFER | 1U << EXCHANGE_TUNNEL | 1U << EXCHANGE_OVER,
        /* back: the connection was dead before any byte left */
        [EXCHANGE_TRANSFER] = 1U << EXCHANGE_WAIT | 1U << EXCHANGE_DIAL | 1U << EXCHANGE_TUNNEL | 1U << EXCHANGE_OVER,
        [EXCHANGE_TUNNEL] = 1U << EXCHANGE_OVER,
        [EXCHANGE_OVER] = 0,
    };
    return (legal[from] >> to & 1U) != 0;
}

/* What a waiting exchange holds in user space counts against max_queued_bytes. */
void exchange_hold_bytes(struct exchange *e, size_t bytes)
{
    e->env->queued_bytes += (int64_t)bytes - e->held_bytes;
    e->counts->stats.held_bytes += (int64_t)bytes - e->held_bytes;
    e->held_bytes = (int64_t)bytes;
}

static size_t waiting_bytes(const struct exchange *e)
{
    return e->request->head_bytes + e->request->fields_count * sizeof(struct field) + conn_input_bytes(e->caller->conn) +
           buf_len(&e->transfer.kept);
}

static void count_state(struct destination_stats *stats, enum exchange_state state, int more)
{
    stats->in_flight += state == EXCHANGE_TRANSFER ? more : 0;
    stats->tunnels += state == EXCHANGE_TUNNEL ? more : 0;
}

void exchange_set_state(struct exchange *e, enum exchange_state to)
{
    must_be(e, EXCHANGE_MAGIC);
    must(move_is_legal(e->state, to));
    log_line(LOG_DEBUG, "exchange", LOG_STR("from", state_names[e->state]), LOG_STR("to", state_names[to]), LOG_END);
    count_state(&e->counts->stats, e->state, -1);
    e->state = to;
    count_state(&e->counts->stats, to, 1);
    exchange_hold_bytes(e, to == EXCHANGE_WAIT || to == EXCHANGE_DIAL ? waiting_bytes(e) : 0);
}

struct bucket *exchange_bucket(const struct exchange *e)
{
    struct bucket_id id = {e->bucket_name, e->part, e->parent_part, true};

    return outbound_part(e->env->outbound, e->policy, &id);
}

enum verdict exchange_enter_queue(struct exchange *e)
{
    static const enum verdict verdicts[] = {
        [ENQUEUE_OK] = VERDICT_FORWARDED,
        [ENQUEUE_FULL] = VERDICT_QUEUE_FULL,
        [ENQUEUE_TOO_LONG] = VERDICT_WAIT_TOO_LONG,
        [ENQUEUE_REDIS_DOWN] = VERDICT_REDIS_DOWN,
        [ENQUEUE_QUOTA] = VERDICT_QUOTA,
        [ENQUEUE_COST] = VERDICT_COST,
    };
    struct bucket_id id = {e->bucket_name, e->part, e->parent_part, false};
    struct bucket *bucket = outbound_part(e->env->outbound, e->policy, &id);

    if (bucket == NULL) {
        return VERDICT_BUCKETS;
    }
    order_place(e);
    return verdicts[bucket_enqueue(bucket, &e->waiter, e->patience_us, &e->forecast)];
}

bool exchange_queue_is_heavy(const struct exchange *e, size_t more)
{
    return e->env->queued_bytes + (int64_t)more > e->env->conf->proxy.max_queued_bytes;
}

void exchange_set_timing(struct exchange *e)
{
    if (e->env->conf->proxy.server_timing && e->timing == NULL) {
        e->timing =
            mem_printf("Server-Timing: sluice;dur=%.1f\r\n", (double)mono_diff(e->released, e->arrived) / 1000.0);
    }
    e->transfer.extra = e->timing;
}

void exchange_warn_of_h2(const struct exchange *e)
{
    if (tunnels_first_h2(e->tunnels_of)) {
        log_line(LOG_WARN, "tunnel_h2", LOG_STR("destination", e->bucket_name), LOG_STR("host", e->target.host),
                 LOG_STR("meaning",
                         "callers offer HTTP/2: several requests may share one turn, so the rate may be exceeded"),
                 LOG_STR("cure", "HTTP/1.1 in the callers, or tunnel_h2 = refuse, or https = originate"), LOG_END);
    }
}

void exchange_free(struct exchange *e)
{
    message_free(e->request);
    transfer_fini(&e->transfer);
    if (e->relay != NULL) {
        relay_fini(e->relay);
        mem_free(e->relay);
    }
    part_forget(e);
    mem_free(e->bucket_name);
    mem_free(e->timing);
    mem_free(e->wanted);
    if (e->policy != NULL) {
        policy_put(e->policy);
    }
    e->magic = 0;
    mem_free(e);
}

void exchange_count_begin(struct exchange *e)
{
    struct buf name = {0};

    e->counts = counters_of(e->env->counters, e->policy);
    if (!order_add_user(&name, e)) {
        order_add_address(&name, e);
    }
    busiest_count(counters_busiest(e->env->counters), (struct slice){buf_ptr(&name), buf_len(&name)}, e->arrived);
    buf_fini(&name);
}

void exchange_count_end(const struct exchange *e)
{
    struct destination_stats *stats = &e->counts->stats;

    counts_ended(e->counts, e->verdict, e->status);
    stats->bytes_in += e->bytes_in;
    stats->bytes_out += e->bytes_out;
    if (e->released.us != 0 && e->paced && !e->metered) {
        histogram_add(&stats->wait, mono_diff(e->released, e->arrived));
    }
    if (e->transfer.first_byte.us != 0) {
        histogram_add(&stats->upstream, mono_diff(e->transfer.first_byte, e->released));
    }
}
