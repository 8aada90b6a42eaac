/*
 * A ring for each configured destination, and one for the hosts without a section together; so its size is known.
 */
#include "admin/history.h"

#include "base/mem.h"
#include "base/must.h"

#include <stdbool.h>
#include <string.h>
#include <uthash.h>

struct track {
    char *name;
    uint64_t arrived, released; /* as of the latest look */
    uint32_t came[HISTORY_SECONDS], left[HISTORY_SECONDS];
    UT_hash_handle hh;
};

struct history {
    struct track *by_name;
    unsigned now, count; /* index of the latest second, and how many there are */
};

struct history *history_new(void)
{
    return mem_zalloc(sizeof(struct history));
}

void history_free(struct history *history)
{
    struct track *track, *next;

    HASH_ITER(hh, history->by_name, track, next)
    {
        HASH_DEL(history->by_name, track);
        mem_free(track->name);
        mem_free(track);
    }
    mem_free(history);
}

void history_turn(struct history *history)
{
    history->now = (history->now + 1) % HISTORY_SECONDS;
    history->count += history->count < HISTORY_SECONDS;
    for (struct track *track = history->by_name; track != NULL; track = track->hh.next) {
        track->came[history->now] = track->left[history->now] = 0;
    }
}

static struct track *track_of(struct history *history, const char *name)
{
    struct track *track;

    HASH_FIND_STR(history->by_name, name, track);
    if (track == NULL) {
        track = mem_zalloc(sizeof(*track));
        track->name = mem_strdup(name);
        HASH_ADD_KEYPTR(hh, history->by_name, track->name, strlen(track->name), track);
    }
    return track;
}

void history_take(struct history *history, const char *name, uint64_t arrived, uint64_t released)
{
    struct track *track = track_of(history, name);

    must(arrived >= track->arrived && released >= track->released);
    track->came[history->now] = (uint32_t)(arrived - track->arrived);
    track->left[history->now] = (uint32_t)(released - track->released);
    track->arrived = arrived;
    track->released = released;
}

static json_t *series(const struct history *history, const uint32_t *ring)
{
    json_t *array = json_array();

    for (unsigned i = history->count; i-- > 0;) {
        json_array_append_new(array, json_integer(ring[(history->now + HISTORY_SECONDS - i) % HISTORY_SECONDS]));
    }
    return array;
}

static bool is_empty(const struct track *track)
{
    uint32_t any = 0;

    for (unsigned i = 0; i < HISTORY_SECONDS; i++) {
        any |= track->came[i] | track->left[i];
    }
    return any == 0;
}

json_t *history_json(const struct history *history, unsigned most)
{
    json_t *all = json_object();

    for (const struct track *track = history->by_name; track != NULL && most > 0; track = track->hh.next) {
        if (is_empty(track)) {
            continue;
        }
        most--;
        json_object_set_new(
            all, track->name,
            json_pack("{s:o, s:o}", "arrived", series(history, track->came), "released", series(history, track->left)));
    }
    return all;
}
