#ifndef SLUICE_PROXY_EXCHANGE_STATE_H
#define SLUICE_PROXY_EXCHANGE_STATE_H
#include "proxy/exchange.h"

enum { EXCHANGE_MAGIC = 0x65786368 };

/* A move that is legal; what is held in memory is counted anew. */
void exchange_set_state(struct exchange *exchange, enum exchange_state to);
/* What it holds in user space while it waits counts against max_queued_bytes. */
void exchange_hold_bytes(struct exchange *exchange, size_t bytes);
/* True when that much more would be too much. */
bool exchange_queue_is_heavy(const struct exchange *exchange, size_t more);
/* The bucket that it takes its slots from. */
struct bucket *exchange_bucket(const struct exchange *exchange); /* that it has entered */
/* Puts its waiter into the destination's queue and fills in the forecast: VERDICT_FORWARDED, or why not. */
enum verdict exchange_enter_queue(struct exchange *exchange);
/* The line of the answer that says how long it waited, where [proxy] server_timing asks for one. */
void exchange_set_timing(struct exchange *exchange);
/* Once for each destination. */
void exchange_warn_of_h2(const struct exchange *exchange);
/* Frees it and what it still owns, when nothing of it is on the stack any more. */
void exchange_free(struct exchange *exchange);
/* It is over: into the counters of its destination. */
/* Where it counts, and whose request it is. */
void exchange_count_begin(struct exchange *e);
void exchange_count_end(const struct exchange *exchange);

#endif
