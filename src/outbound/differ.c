/*
 * Different limits on different replicas.
 *
 * The slots of a bucket are one sequence, and the space behind each is that of the replica that took it. When one
 * replica was told 10/s and another 20/s, the third party gets something in between, and the one who was told 10/s is
 * wrong without knowing. So each replica says its limits with the calls that count waiters, or twice a minute where
 * nobody waits, and hears of those who say otherwise: it logs both when that lasts and then once a minute, and takes
 * over the larger interval. That holds the whole fleet to the strictest of its settings, as it does no harm: intervals
 * only grow by it.
 *
 * A replica that ended says nothing any more, but its word stays for a minute. One that starts in its place therefore
 * hears only those that have spoken since (members.lua), or every change of a rate would be shouted about. A rate that
 * is changed while all run reaches one a moment before the other: so one whose limits change says so at once, and a
 * difference is shouted about only when it lasts.
 */
#include "outbound/differ.h"

#include "base/log.h"

#define SAY_EVERY_US (30 * CLOCK_SECOND_US)
#define WARN_EVERY_US (60 * CLOCK_SECOND_US)
#define SETTLE_US (3 * CLOCK_SECOND_US)

void differ_init(struct differ *differ)
{
    *differ =
        (struct differ){.said = {WINDOW_LONG_AGO_US}, .warned = {WINDOW_LONG_AGO_US}, .since = {WINDOW_LONG_AGO_US}};
}

void differ_changed(struct differ *differ)
{
    differ->said.us = WINDOW_LONG_AGO_US;
    differ->since.us = WINDOW_LONG_AGO_US;
}

bool differ_is_due(const struct differ *differ, struct mono now)
{
    bool looks_again = differ->since.us > differ->warned.us && mono_diff(now, differ->since) >= SETTLE_US &&
                       mono_diff(now, differ->said) >= SETTLE_US;

    return looks_again || mono_diff(now, differ->said) >= SAY_EVERY_US;
}

static void warn(const struct slots_spec *spec, const char *name, const struct grant_other *other)
{
    log_line(LOG_ERROR, "limits_differ", LOG_STR("destination", spec->tag), LOG_STR("part", spec->levels[0].part),
             LOG_STR("replica", name), LOG_STR("limits", spec->says), LOG_SLICE("other_replica", other->name),
             LOG_SLICE("other_limits", other->limits),
             LOG_STR("what_to_do", "give every replica the same settings for this destination; until then the larger "
                                   "interval is kept"),
             LOG_END);
}

void differ_take(struct differ *differ, const struct redisReply *reply, const struct slots_spec *spec, const char *name,
                 struct mono now)
{
    struct grant_other other;

    if (!grant_parse_other(reply, &other)) {
        differ->interval_us = 0;
        differ->since.us = WINDOW_LONG_AGO_US;
        return;
    }
    differ->interval_us = other.interval_us;
    differ->since = differ->since.us == WINDOW_LONG_AGO_US ? now : differ->since;
    if (mono_diff(now, differ->since) < SETTLE_US) {
        return; /* perhaps one is about to follow the other */
    }
    differ->count++;
    if (mono_diff(now, differ->warned) >= WARN_EVERY_US) {
        differ->warned = now;
        warn(spec, name, &other);
    }
}
