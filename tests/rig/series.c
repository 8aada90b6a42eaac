#include "series.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void series_add(struct series *series, int64_t at_ns)
{
    if (series->count == series->room) {
        series->room = series->room != 0 ? series->room * 2 : 1024;
        series->at_ns = realloc(series->at_ns, series->room * sizeof(*series->at_ns));
        if (series->at_ns == NULL)
            abort();
    }
    series->at_ns[series->count++] = at_ns;
}

static const char *nth_column(const char *line, unsigned column)
{
    for (; column > 0 && line != NULL; column--) {
        line = strchr(line, ',');
        line = line != NULL ? line + 1 : NULL;
    }
    return line;
}

void series_read(struct series *series, const char *name, unsigned column)
{
    char line[1024];
    FILE *file = fopen(name, "r");
    if (file == NULL) {
        perror(name);
        exit(2);
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *text = nth_column(line, column);
        char *end;
        long long value = text != NULL ? strtoll(text, &end, 10) : 0;
        if (text != NULL && end != text && value > 0)
            series_add(series, value);
    }
    fclose(file);
}

static int ascending(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

void series_sort(struct series *series)
{
    if (series->count > 0)
        qsort(series->at_ns, series->count, sizeof(*series->at_ns), ascending);
}

void series_free(struct series *series)
{
    free(series->at_ns);
    *series = (struct series){0};
}

size_t series_most_in(const struct series *series, int64_t window_ns)
{
    size_t most = 0;
    for (size_t first = 0, last = 0; last < series->count; last++) {
        while (series->at_ns[last] - series->at_ns[first] >= window_ns)
            first++;
        if (last - first + 1 > most)
            most = last - first + 1;
    }
    return most;
}

struct series series_gaps(const struct series *series)
{
    struct series gaps = {0};
    for (size_t i = 1; i < series->count; i++)
        series_add(&gaps, series->at_ns[i] - series->at_ns[i - 1]);
    series_sort(&gaps);
    return gaps;
}

int64_t series_quantile(const struct series *series, double share)
{
    if (series->count == 0)
        return 0;
    return series->at_ns[(size_t)(share * (double)(series->count - 1) + 0.5)];
}
