/*
 * A ring of the release times of the latest period: what this process can swear to about its own rate. One more than
 * the limit is kept, so that breaking it shows; very large limits are counted up to METER_MOST.
 */
#include "outbound/meter.h"

#include "base/mem.h"

enum { METER_MOST = 4096, METER_FIRST = 16 };

void meter_init(struct meter *meter, int64_t period_us, int64_t expected)
{
    must(period_us > 0);
    meter->period_us = period_us;
    meter->cap_max = expected + 1 < METER_MOST ? (unsigned)expected + 1 : METER_MOST;
}

void meter_fini(struct meter *meter)
{
    mem_free(meter->ring);
    *meter = (struct meter){0};
}

static int64_t *at_index(const struct meter *meter, unsigned index)
{
    return &meter->ring[(meter->start + index) % meter->cap];
}

static void grow(struct meter *meter)
{
    unsigned cap = meter->cap == 0 ? METER_FIRST : meter->cap * 2;
    int64_t *ring = mem_alloc(cap * sizeof(*ring));

    for (unsigned i = 0; i < meter->count; i++) {
        ring[i] = *at_index(meter, i);
    }
    mem_free(meter->ring);
    meter->ring = ring;
    meter->start = 0;
    meter->cap = cap;
}

static void drop_oldest(struct meter *meter)
{
    meter->start = (meter->start + 1) % meter->cap;
    meter->count--;
}

void meter_add(struct meter *meter, struct mono at)
{
    while (meter->count > 0 && (at.us - *at_index(meter, 0) >= meter->period_us || meter->count >= meter->cap_max)) {
        drop_oldest(meter);
    }
    if (meter->count == meter->cap) {
        grow(meter);
    }
    meter->count++;
    *at_index(meter, meter->count - 1) = at.us;
    meter->most = meter->count > meter->most ? meter->count : meter->most;
}

void meter_undo(struct meter *meter, struct mono at)
{
    for (unsigned i = meter->count; i-- > 0;) {
        if (*at_index(meter, i) == at.us) {
            for (; i + 1 < meter->count; i++) {
                *at_index(meter, i) = *at_index(meter, i + 1);
            }
            meter->count--;
            return;
        }
    }
}
