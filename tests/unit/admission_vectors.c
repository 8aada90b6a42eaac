#include "admission_vectors.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 7, LINE_BYTES = 1024 };

struct play {
    vectors_begin *begin;
    vectors_decide *decide;
    void *arg;
    struct inbound_rule rules[INBOUND_RULES_MOST]; /* by name, "a" first */
    char labels[INBOUND_RULES_MOST][2];
    char title[128];
    unsigned line, requests;
};

static int64_t number(const struct play *play, const char *text)
{
    uint64_t value;

    ck_assert_msg(str_parse_u64(slice_of(text), &value), "line %u: %s is no number", play->line, text);
    return (int64_t)value;
}

static enum inbound_algorithm algorithm_of(const struct play *play, const char *name)
{
    static const char *const names[] = {
        [ALGORITHM_TOKEN_BUCKET] = "token_bucket",
        [ALGORITHM_FIXED_WINDOW] = "fixed_window",
        [ALGORITHM_SLIDING_WINDOW_LOG] = "sliding_window_log",
        [ALGORITHM_SLIDING_WINDOW_COUNTER] = "sliding_window_counter",
        [ALGORITHM_SLIDING_WINDOW_STRICT] = "sliding_window_strict",
        [ALGORITHM_LEAKY_BUCKET] = "leaky_bucket",
    };
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return (enum inbound_algorithm)i;
        }
    }
    ck_abort_msg("line %u: no algorithm %s", play->line, name);
}

static unsigned index_of(const struct play *play, char name)
{
    ck_assert_msg(name >= 'a' && name < 'a' + INBOUND_RULES_MOST, "line %u: no limit %c", play->line, name);
    return (unsigned)(name - 'a');
}

static void take_limit(struct play *play, char **columns)
{
    unsigned i = index_of(play, columns[1][0]);

    snprintf(play->labels[i], sizeof(play->labels[i]), "%c", columns[1][0]);
    play->rules[i] = (struct inbound_rule){.label = play->labels[i],
                                           .algorithm = algorithm_of(play, columns[2]),
                                           .rate = {number(play, columns[3]), number(play, columns[4])},
                                           .capacity = number(play, columns[5]),
                                           .dry_run = strcmp(columns[6], "dry") == 0};
}

/* "a=1,b=3" */
static unsigned read_costs(struct play *play, char *text, const struct inbound_rule **rules, int64_t *costs)
{
    unsigned count = 0;
    char *rest = text, *part;

    while ((part = strsep(&rest, ",")) != NULL) {
        rules[count] = &play->rules[index_of(play, part[0])];
        costs[count++] = number(play, part + 2);
    }
    return count;
}

static void format_results(const struct admission_result *results, unsigned count, char out[LINE_BYTES])
{
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        char retry[24] = "never";
        if (results[i].retry_after_us != CLOCK_NEVER_US) {
            snprintf(retry, sizeof(retry), "%" PRId64, results[i].retry_after_us);
        }
        len += (size_t)snprintf(out + len, LINE_BYTES - len, "%s%d %" PRId64 " %s %" PRId64, i > 0 ? "," : "",
                                results[i].admitted, results[i].remaining, retry, results[i].reset_us);
    }
}

static void take_request(struct play *play, char **columns)
{
    const struct inbound_rule *rules[INBOUND_RULES_MOST];
    struct admission_result results[INBOUND_RULES_MOST];
    int64_t costs[INBOUND_RULES_MOST];
    char said[LINE_BYTES];
    bool all = true;

    unsigned count = read_costs(play, columns[2], rules, costs);
    bool admitted = play->decide(play->arg, rules, costs, count, number(play, columns[1]), results);
    format_results(results, count, said);
    ck_assert_msg(strcmp(said, columns[3]) == 0, "line %u (%s): said %s, not %s", play->line, play->title, said,
                  columns[3]);
    for (unsigned i = 0; i < count; i++) {
        all = all && (results[i].admitted || rules[i]->dry_run);
    }
    ck_assert_msg(admitted == all, "line %u: admitted %d", play->line, admitted);
    play->requests++;
}

static void take_line(struct play *play, char *line)
{
    char *columns[COLUMNS] = {NULL}, *rest = line, *part;

    for (unsigned i = 0; i < COLUMNS && (part = strsep(&rest, "\t")) != NULL; i++) {
        columns[i] = part;
    }
    if (strcmp(columns[0], "case") == 0) {
        snprintf(play->title, sizeof(play->title), "%s", columns[1]);
        play->begin(play->arg);
    } else if (strcmp(columns[0], "limit") == 0) {
        ck_assert_ptr_nonnull(columns[6]);
        take_limit(play, columns);
    } else {
        ck_assert_str_eq(columns[0], "at");
        ck_assert_ptr_nonnull(columns[3]);
        take_request(play, columns);
    }
}

unsigned vectors_play(vectors_begin *begin, vectors_decide *decide, void *arg)
{
    struct play play = {.begin = begin, .decide = decide, .arg = arg};
    FILE *file = fopen("tests/vectors/admission.tsv", "r");
    char line[LINE_BYTES];

    ck_assert_msg(file != NULL, "run from the top of the source tree");
    while (fgets(line, sizeof(line), file) != NULL) {
        play.line++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0' && line[0] != '#') {
            take_line(&play, line);
        }
    }
    ck_assert(fclose(file) == 0);
    return play.requests;
}
