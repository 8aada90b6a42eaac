/*
 * judge - holds a log of arrivals against the rate that was allowed.
 *
 *   judge -r N/SECONDS [-t NAME] FILE...     a row of a table, exit 1 when any window holds more than N
 *   judge -H                                 the table's heading
 *
 * most     arrivals in the fullest half-open window of SECONDS, wherever it begins; above N is a breach
 * used     arrivals per time against N per SECONDS: what a backlog gets out of the allowance
 * gap      from one arrival to the next: the smallest and the middle one
 * jitter   how far gaps are from the middle one: half of them less than the first figure, 99 % less than the second
 */
#include "net.h"
#include "series.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rate {
    long count;
    int64_t window_ns;
    char text[32];
};

static void heading(void)
{
    printf("| %-26s | %9s | %8s | %5s | %5s | %7s | %10s | %10s | %13s | %13s |\n", "who", "allowed", "arrivals",
           "most", "over", "used %", "gap min ms", "gap p50 ms", "jitter p50 ms", "jitter p99 ms");
    printf("|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|\n", "----------------------------", "----------:", "---------:", "------:",
           "------:", "--------:", "-----------:", "-----------:", "--------------:", "--------------:");
}

static struct rate parse_rate(const char *text)
{
    struct rate rate;
    char *slash;
    snprintf(rate.text, sizeof(rate.text), "%s", text);
    rate.count = strtol(text, &slash, 10);
    rate.window_ns = *slash == '/' ? (int64_t)(strtod(slash + 1, NULL) * 1e9) : 0;
    if (rate.count <= 0 || rate.window_ns <= 0) {
        fprintf(stderr, "judge: '%s' is not N/SECONDS\n", text);
        exit(2);
    }
    return rate;
}

static struct series distances(const struct series *gaps, int64_t from_ns)
{
    struct series result = {0};
    for (size_t i = 0; i < gaps->count; i++)
        series_add(&result, llabs(gaps->at_ns[i] - from_ns));
    series_sort(&result);
    return result;
}

static size_t row(const char *name, const struct rate *rate, const struct series *arrivals)
{
    struct series gaps = series_gaps(arrivals);
    int64_t middle_ns = series_quantile(&gaps, 0.5);
    struct series jitter = distances(&gaps, middle_ns);
    size_t most = series_most_in(arrivals, rate->window_ns);
    size_t over = most > (size_t)rate->count ? most - (size_t)rate->count : 0;
    double span_ns = (double)(arrivals->at_ns[arrivals->count - 1] - arrivals->at_ns[0]);
    double due = span_ns / (double)rate->window_ns * (double)rate->count;
    printf("| %-26s | %7s s | %8zu | %5zu | %5zu | %7.2f | %10.3f | %10.3f | %13.3f | %13.3f |\n", name, rate->text,
           arrivals->count, most, over, due > 0 ? 100 * (double)(arrivals->count - 1) / due : 0,
           (double)series_quantile(&gaps, 0) / 1e6, (double)middle_ns / 1e6,
           (double)series_quantile(&jitter, 0.5) / 1e6, (double)series_quantile(&jitter, 0.99) / 1e6);
    series_free(&gaps);
    series_free(&jitter);
    return over;
}

int main(int argc, char **argv)
{
    const char *name = "", *rate_text = "";
    for (int option; (option = getopt(argc, argv, "r:t:H")) != -1;) {
        if (option == 'r')
            rate_text = optarg;
        else if (option == 't')
            name = optarg;
        else if (option == 'H')
            return heading(), 0;
        else
            return 2;
    }
    struct rate rate = parse_rate(rate_text);
    struct series arrivals = {0};
    for (; optind < argc; optind++)
        series_read(&arrivals, argv[optind], 0);
    series_sort(&arrivals);
    if (arrivals.count == 0) {
        printf("| %-26s | %7s s | %8d |\n", name, rate.text, 0);
        return 2;
    }
    size_t over = row(name, &rate, &arrivals);
    series_free(&arrivals);
    return over > 0;
}
