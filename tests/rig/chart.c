/*
 * chart - draws in a terminal when calls came to the proxy and when they reached the third party, one above the other
 * on the same two scales, and says how far apart they were.
 *
 *   chart -r N/SECONDS -c CAME.csv [-c CAME.csv ...] -l LEFT.csv
 *
 * CAME is what burst writes (its second column is when a call was sent), LEFT what origin writes. Exit 1 when more than
 * N arrived within some SECONDS. Blocks of eighths where the locale speaks UTF-8, '#' and '_' elsewhere.
 */
#include "net.h"
#include "series.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, EIGHTHS = 8, MARGIN = 12, COLUMNS_MIN = 40, COLUMNS_MAX = 100 };

struct canvas {
    int64_t start_ns, end_ns;
    size_t columns;
    size_t peak; /* calls in the fullest column of either line: the top of both scales */
    bool utf8;
};

static bool locale_is_utf8(void)
{
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != 0)
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL;
    }
    return false;
}

static size_t terminal_columns(void)
{
    const char *text = getenv("COLUMNS");
    long columns = (text != NULL ? strtol(text, NULL, 10) : 92) - MARGIN;
    return (size_t)(columns < COLUMNS_MIN ? COLUMNS_MIN : columns > COLUMNS_MAX ? COLUMNS_MAX : columns);
}

static size_t *count_columns(const struct canvas *canvas, const struct series *calls)
{
    size_t *counts = calloc(canvas->columns, sizeof(*counts));
    if (counts == NULL)
        abort();
    for (size_t i = 0; i < calls->count; i++) {
        double share = (double)(calls->at_ns[i] - canvas->start_ns) / (double)(canvas->end_ns - canvas->start_ns);
        size_t column = (size_t)(share * (double)canvas->columns);
        counts[column < canvas->columns ? column : canvas->columns - 1]++;
    }
    return counts;
}

static void raise_peak(struct canvas *canvas, const size_t *counts)
{
    for (size_t i = 0; i < canvas->columns; i++)
        if (counts[i] > canvas->peak)
            canvas->peak = counts[i];
}

static const char *cell(const struct canvas *canvas, size_t count, size_t row)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t eighths = count * ROWS * EIGHTHS / canvas->peak;
    if (count > 0 && eighths == 0)
        eighths = 1;
    size_t below = row * EIGHTHS;
    size_t here = eighths <= below ? 0 : eighths - below > EIGHTHS ? EIGHTHS : eighths - below;
    if (canvas->utf8)
        return blocks[here];
    return here == 0 ? " " : here == EIGHTHS ? "#" : "_";
}

static void draw_line(const struct canvas *canvas, const char *name, const size_t *counts)
{
    for (size_t row = ROWS; row-- > 0;) {
        if (row == ROWS - 1)
            printf("  %-5s%3zu %s", name, canvas->peak, canvas->utf8 ? "┤" : "|");
        else
            printf("  %8s %s", row == 0 ? "calls" : "", canvas->utf8 ? "│" : "|");
        for (size_t column = 0; column < canvas->columns; column++)
            fputs(cell(canvas, counts[column], row), stdout);
        fputc('\n', stdout);
    }
}

static size_t column_of_second(const struct canvas *canvas, int second)
{
    return (size_t)((double)second * 1e9 * (double)canvas->columns / (double)(canvas->end_ns - canvas->start_ns));
}

static void draw_axis(const struct canvas *canvas)
{
    int next = 0;
    printf("  %8s %s", "", canvas->utf8 ? "└" : "+");
    for (size_t column = 0; column < canvas->columns; column++) {
        bool tick = column == column_of_second(canvas, next);
        next += tick;
        fputs(tick ? (canvas->utf8 ? "┴" : "+") : (canvas->utf8 ? "─" : "-"), stdout);
    }
    printf("\n  %9s", "");
    for (size_t second = 0, at = 0; column_of_second(canvas, (int)second) + 2 < canvas->columns; second++) {
        size_t wanted = column_of_second(canvas, (int)second) + 1;
        if (wanted < at)
            continue;
        at += (size_t)printf("%*s%zu s", (int)(wanted - at), "", second);
    }
    fputc('\n', stdout);
}

static void tell_numbers(const struct series *came, const struct series *left, long count, int64_t window_ns)
{
    struct series gaps = series_gaps(left);
    printf("  interval between departures: min %.1f ms, median %.1f ms, max %.1f ms\n",
           (double)series_quantile(&gaps, 0) / 1e6, (double)series_quantile(&gaps, 0.5) / 1e6,
           (double)series_quantile(&gaps, 1) / 1e6);
    printf("  most in any %g s: %zu came, %zu left (allowed: %ld)\n", (double)window_ns / 1e9,
           series_most_in(came, window_ns), series_most_in(left, window_ns), count);
    series_free(&gaps);
}

static void draw(struct canvas *canvas, const struct series *came, const struct series *left)
{
    canvas->start_ns = came->at_ns[0] < left->at_ns[0] ? came->at_ns[0] : left->at_ns[0];
    canvas->end_ns = left->at_ns[left->count - 1] + 50 * NS_PER_MS;
    size_t *above = count_columns(canvas, came), *below = count_columns(canvas, left);
    raise_peak(canvas, above);
    raise_peak(canvas, below);
    draw_line(canvas, "came", above);
    draw_axis(canvas);
    draw_line(canvas, "left", below);
    draw_axis(canvas);
    free(above);
    free(below);
}

int main(int argc, char **argv)
{
    struct series came = {0}, left = {0};
    long count = 0;
    int64_t window_ns = 0;
    char *slash;
    for (int option; (option = getopt(argc, argv, "r:c:l:")) != -1;) {
        if (option == 'r') {
            count = strtol(optarg, &slash, 10);
            window_ns = *slash == '/' ? (int64_t)(strtod(slash + 1, NULL) * 1e9) : 0;
        } else if (option == 'c') {
            series_read(&came, optarg, 1);
        } else if (option == 'l') {
            series_read(&left, optarg, 0);
        } else {
            return 2;
        }
    }
    series_sort(&came);
    series_sort(&left);
    if (count <= 0 || window_ns <= 0 || came.count == 0 || left.count == 0) {
        fprintf(stderr, "chart: nothing to draw (%zu came, %zu left)\n", came.count, left.count);
        return 2;
    }
    struct canvas canvas = {.columns = terminal_columns(), .utf8 = locale_is_utf8()};
    draw(&canvas, &came, &left);
    tell_numbers(&came, &left, count, window_ns);
    bool over = series_most_in(&left, window_ns) > (size_t)count;
    series_free(&came);
    series_free(&left);
    return over;
}
