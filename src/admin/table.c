#include "admin/table.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

enum { FIRST_RIGHT = 2 }; /* columns from here on are numbers */

const char *const table_heads[TABLE_COLUMNS] = {"DESTINATION", "STATE", "RATE",  "WAITING", "WAIT",
                                                "OLDEST",      "IN/s",  "OUT/s", "MOST",    "ANSWERS"};

static int64_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static const char *text(const json_t *object, const char *name)
{
    const char *found = json_string_value(json_object_get(object, name));
    return found != NULL ? found : "";
}

void table_span(int64_t us, char *out, size_t out_bytes)
{
    int64_t s = us / CLOCK_SECOND_US;

    if (us < CLOCK_SECOND_US) {
        snprintf(out, out_bytes, us < 10 * CLOCK_MS_US ? "%.1f ms" : "%.0f ms", (double)us / 1000.0);
    } else if (s < 60) {
        snprintf(out, out_bytes, "%.1f s", (double)us / 1e6);
    } else if (s < 3600) {
        snprintf(out, out_bytes, "%" PRId64 " min %02" PRId64 " s", s / 60, s % 60);
    } else if (s < 2 * 86400) {
        snprintf(out, out_bytes, "%" PRId64 " h %02" PRId64 " min", s / 3600, s / 60 % 60);
    } else {
        snprintf(out, out_bytes, "%" PRId64 " days", s / 86400);
    }
}

static void put_rate(const json_t *row, char *out)
{
    const json_t *rate = json_object_get(row, "rate");
    char period[32];

    str_format_duration(number(rate, "period_us"), period);
    snprintf(out, TABLE_CELL_BYTES, "%" PRId64 "/%s", number(rate, "count"), strcmp(period, "1s") == 0 ? "s" : period);
}

static void put_state(const json_t *row, char *out)
{
    const char *mode = text(row, "mode");
    char left[32];

    if (strcmp(text(row, "kind"), "unlisted") == 0 && number(row, "paused_us") == 0) {
        snprintf(out, TABLE_CELL_BYTES, "each host");
    } else if (strcmp(mode, "open") == 0) {
        snprintf(out, TABLE_CELL_BYTES, "UNPACED");
    } else if (number(row, "paused_us") > 0) {
        table_span(number(row, "paused_us"), left, sizeof(left));
        snprintf(out, TABLE_CELL_BYTES, "paused %s", left);
    } else if (strcmp(mode, "paced") != 0) {
        snprintf(out, TABLE_CELL_BYTES, "no Redis: %s", mode);
    } else {
        snprintf(out, TABLE_CELL_BYTES, number(row, "waiting") > 0 ? "waiting" : "flowing");
    }
}

static void put_speed(const json_t *row, const json_t *before, const char *name, char *out)
{
    if (before != NULL) {
        snprintf(out, TABLE_CELL_BYTES, "%" PRId64, number(row, name) - number(before, name));
    }
}

static void put_answers(const json_t *row, char *out)
{
    static const char *const classes[] = {"2xx", "3xx", "4xx", "5xx"};
    int64_t sums[4] = {0};
    size_t index, at = 0;
    const json_t *one;

    json_array_foreach(json_object_get(row, "requests"), index, one)
    {
        for (int i = 0; i < 4; i++) {
            sums[i] += strcmp(text(one, "status"), classes[i]) == 0 ? number(one, "count") : 0;
        }
    }
    for (int i = 0; i < 4; i++) {
        if (sums[i] > 0 && at < TABLE_CELL_BYTES) {
            at += (size_t)snprintf(out + at, TABLE_CELL_BYTES - at, "%s%s:%" PRId64, at > 0 ? " " : "", classes[i],
                                   sums[i]);
        }
    }
}

void table_row(const json_t *row, const json_t *before, struct table_line *out)
{
    *out = (struct table_line){0};
    snprintf(out->cell[TABLE_NAME], TABLE_CELL_BYTES, "%s", text(row, "name"));
    if (strcmp(text(row, "kind"), "nowhere") != 0) {
        put_state(row, out->cell[TABLE_STATE]);
        put_rate(row, out->cell[2]);
        snprintf(out->cell[3], TABLE_CELL_BYTES, "%" PRId64, number(row, "waiting"));
        put_speed(row, before, "arrived", out->cell[6]);
        put_speed(row, before, "released", out->cell[7]);
        snprintf(out->cell[8], TABLE_CELL_BYTES, "%" PRId64 " of %" PRId64, number(row, "most_in_window"),
                 number(json_object_get(row, "rate"), "count"));
    }
    if (number(row, "expected_wait_us") > 0) {
        table_span(number(row, "expected_wait_us"), out->cell[4], TABLE_CELL_BYTES);
    }
    if (number(row, "oldest_us") > 0) {
        table_span(number(row, "oldest_us"), out->cell[5], TABLE_CELL_BYTES);
    }
    put_answers(row, out->cell[9]);
}

static void top_redis(const json_t *status, char *out)
{
    const json_t *redis = json_object_get(status, "redis"), *fleet = json_object_get(status, "fleet");
    char since[32], trip[32];

    if (!json_is_object(redis)) {
        snprintf(out, TABLE_TOP_BYTES, "no Redis: this process alone");
        return;
    }
    table_span(number(redis, "for_us"), since, sizeof(since));
    table_span(number(json_object_get(redis, "round_trip"), "p99_us"), trip, sizeof(trip));
    snprintf(out, TABLE_TOP_BYTES, "Redis %s for %s, 99 %% answered in %s; replicas alive: %" PRId64,
             text(redis, "state"), since, trip, number(fleet, "replicas"));
}

static void top_busiest(const json_t *status, char *out)
{
    const json_t *callers = json_object_get(json_object_get(status, "busiest"), "callers"), *one;
    size_t index, at = (size_t)snprintf(out, TABLE_TOP_BYTES, "busiest callers:");

    json_array_foreach(callers, index, one)
    {
        if (index < 4 && at < TABLE_TOP_BYTES) {
            at += (size_t)snprintf(out + at, TABLE_TOP_BYTES - at, "%s %s %" PRId64, index > 0 ? "," : "",
                                   text(one, "name"), number(one, "requests"));
        }
    }
    if (json_array_size(callers) == 0) {
        snprintf(out, TABLE_TOP_BYTES, "nobody has called lately");
    }
}

void table_top(const json_t *status, char out[TABLE_TOP_LINES][TABLE_TOP_BYTES])
{
    const json_t *reasons = json_object_get(status, "not_ready"), *reason;
    char up[32];
    size_t index;

    table_span(number(json_object_get(status, "process"), "up_us"), up, sizeof(up));
    int at = snprintf(out[0], TABLE_TOP_BYTES, "sluice %s, up %s, %" PRId64 " callers, %s", text(status, "version"), up,
                      number(status, "callers"), json_array_size(reasons) == 0 ? "ready" : "NOT READY:");
    json_array_foreach(reasons, index, reason)
    {
        if (at > 0 && at < TABLE_TOP_BYTES) {
            at += snprintf(out[0] + at, (size_t)(TABLE_TOP_BYTES - at), "%s %s", index > 0 ? "," : "",
                           json_string_value(reason));
        }
    }
    top_redis(status, out[1]);
    top_busiest(status, out[2]);
}

static void print_line(const struct table_line *line, const size_t widths[TABLE_COLUMNS], FILE *out)
{
    for (int c = 0; c < TABLE_COLUMNS; c++) {
        int width = (int)widths[c];
        if (width > 0 && c == TABLE_COLUMNS - 1) {
            (void)fprintf(out, "%s", line->cell[c]);
        } else if (width > 0) {
            (void)fprintf(out, c >= FIRST_RIGHT ? "%*s  " : "%-*s  ", width, line->cell[c]);
        }
    }
    (void)fputc('\n', out);
}

/* Columns without anything in them are left out. */
static void widen(const struct table_line *line, size_t widths[TABLE_COLUMNS])
{
    for (int c = 0; c < TABLE_COLUMNS; c++) {
        size_t len = strlen(line->cell[c]);
        size_t head = strlen(table_heads[c]);
        if (len > 0) {
            widths[c] = len > widths[c] ? len : widths[c];
            widths[c] = head > widths[c] ? head : widths[c];
        }
    }
}

unsigned table_print(const json_t *status, const char *only, FILE *out)
{
    const json_t *rows = json_object_get(status, "destinations"), *row;
    char top[TABLE_TOP_LINES][TABLE_TOP_BYTES];
    size_t widths[TABLE_COLUMNS] = {0}, index;
    struct table_line line, heads = {0};
    unsigned shown = 0;

    table_top(status, top);
    for (int i = 0; only == NULL && i < TABLE_TOP_LINES; i++) {
        (void)fprintf(out, "%s\n", top[i]);
    }
    json_array_foreach(rows, index, row)
    {
        table_row(row, NULL, &line);
        widen(&line, widths);
    }
    for (int c = 0; c < TABLE_COLUMNS; c++) {
        snprintf(heads.cell[c], TABLE_CELL_BYTES, "%s", table_heads[c]);
    }
    if (only == NULL) {
        (void)fputc('\n', out);
    }
    print_line(&heads, widths, out);
    json_array_foreach(rows, index, row)
    {
        if (only == NULL || strcmp(only, text(row, "name")) == 0) {
            table_row(row, NULL, &line);
            print_line(&line, widths, out);
            shown++;
        }
    }
    return shown;
}
