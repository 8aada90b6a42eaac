#ifndef SLUICE_ADMIN_HISTORY_H
#define SLUICE_ADMIN_HISTORY_H
/* The latest two minutes of each destination, second by second: so many came, so many left. */
#include <jansson.h>
#include <stdint.h>

struct history;

enum { HISTORY_SECONDS = 120 };

struct history *history_new(void);
void history_free(struct history *history);
/* Once a second: begins the next second, and then takes in each destination's counters. */
void history_turn(struct history *history);
void history_take(struct history *history, const char *name, uint64_t arrived, uint64_t released);
/* {"NAME": {"arrived": [oldest, ...], "released": [...]}, ...}: at most `most` of those of which there is anything to tell. */
json_t *history_json(const struct history *history, unsigned most);

#endif
