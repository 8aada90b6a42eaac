/* The command line of those who operate: each command becomes one request to the [admin] of a running sluice. */
#include "admin/remote.h"

#include "admin/ask.h"
#include "admin/table.h"
#include "admin/top.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "sluice status [DESTINATION]           who waits, for what, how long; exit code 1 when it is not ready\n"
    "sluice top                            the same every second; q ends it\n"
    "sluice pause DESTINATION [--for 5m]   nothing leaves, on any replica; an hour without --for, and at most\n"
    "sluice resume DESTINATION             ends a pause, also one that the third party asked for\n"
    "sluice set-rate DESTINATION RATE [--for 2h]\n"
    "                                      another rate on every replica, an hour without --for, at most 7d; then the "
    "configured\n"
    "                                      one again, at once with RATE = configured\n"
    "sluice purge DESTINATION              who waits there gets 503, on every replica\n"
    "sluice drain                          that replica takes no more calls, finishes those under way, and ends\n"
    "sluice reload                         that replica reads its settings again\n"
    "sluice log-level LEVEL                of that replica: debug, info, warn, error\n\n"
    "  --admin URL        where sluice's [admin] listens; else $SLUICE_ADMIN, else http://127.0.0.1:3129\n"
    "  --token-file FILE  its first token is shown; else $SLUICE_ADMIN_TOKEN_FILE, else none\n"
    "  --json             print the answer as it came\n\n"
    "DESTINATION is a name that `sluice status` shows: a section of the settings, \"default\" for all hosts without "
    "one,\n"
    "\"default:HOST\" for one of them, or a queue of a destination that has keys or routes.\n"
    "Exit codes: 0 done, 1 refused (or not ready), 2 wrong use, 3 not reachable, 4 no or wrong token.\n";

struct wish;

enum { NO_WORDS, ONE_WORD, TWO_WORDS };

struct command {
    const char *word;
    int words_least, words_most;
    bool takes_for;
    enum ask_exit (*run)(struct ask *ask, const struct wish *wish);
};

/* What the command line says. */
struct wish {
    const char *words[2];
    int64_t seconds; /* 0: it does not say */
    bool json;
    const char *admin, *token_file;
    const struct command *command;
};

static void print_json(const json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_ENCODE_ANY);

    if (text != NULL) {
        puts(text);
    }
    free(text);
}

static enum ask_exit failed(enum ask_exit code, char *why, json_t *answer)
{
    const json_t *lines = json_object_get(answer, "lines"), *line;
    size_t index;

    fprintf(stderr, "sluice: %s\n", why);
    json_array_foreach(lines, index, line)
    {
        fprintf(stderr, "sluice: %s\n", json_string_value(line));
    }
    json_decref(answer);
    mem_free(why);
    return code;
}

static enum ask_exit run_status(struct ask *ask, const struct wish *wish)
{
    json_t *status;
    char *why;
    enum ask_exit code = ask_json(ask, "status.json", NULL, &status, &why);

    if (code != ASK_DONE) {
        return failed(code, why, status);
    }
    if (wish->json) {
        print_json(status);
    } else if (table_print(status, wish->words[0], stdout) == 0 && wish->words[0] != NULL) {
        return failed(ASK_REFUSED, mem_printf("there is no destination \"%s\" with anything going on", wish->words[0]),
                      status);
    }
    code = json_array_size(json_object_get(status, "not_ready")) > 0 ? ASK_REFUSED : ASK_DONE;
    json_decref(status);
    return code;
}

static enum ask_exit run_top(struct ask *ask, const struct wish *wish)
{
    (void)wish;
    return top_run(ask);
}

static void print_done(const json_t *answer)
{
    const char *detail = json_string_value(json_object_get(answer, "detail"));
    const json_t *lines = json_object_get(answer, "lines"), *line;
    int64_t replicas = json_integer_value(json_object_get(answer, "replicas"));
    size_t index;

    if (detail != NULL) {
        printf("done, but: %s\n", detail);
    } else if (replicas > 1) {
        printf("done, on all %lld replicas\n", (long long)replicas);
    } else {
        puts("done");
    }
    json_array_foreach(lines, index, line)
    {
        puts(json_string_value(line));
    }
}

/* Takes over the body. */
static enum ask_exit post(struct ask *ask, const struct wish *wish, json_t *body)
{
    char *path = mem_printf("control/%s", wish->command->word), *why;
    json_t *answer;

    if (wish->seconds > 0) {
        json_object_set_new(body, "seconds", json_integer(wish->seconds));
    }
    enum ask_exit code = ask_json(ask, path, body, &answer, &why);
    json_decref(body);
    mem_free(path);
    if (wish->json && answer != NULL) {
        print_json(answer);
    } else if (code == ASK_DONE) {
        print_done(answer);
    }
    if (code != ASK_DONE) {
        return failed(code, why, answer);
    }
    json_decref(answer);
    return code;
}

static enum ask_exit run_destination(struct ask *ask, const struct wish *wish)
{
    return post(ask, wish, json_pack("{s:s}", "destination", wish->words[0]));
}

static enum ask_exit run_set_rate(struct ask *ask, const struct wish *wish)
{
    return post(ask, wish, json_pack("{s:s, s:s}", "destination", wish->words[0], "rate", wish->words[1]));
}

static enum ask_exit run_plain(struct ask *ask, const struct wish *wish)
{
    return post(ask, wish, json_object());
}

static enum ask_exit run_log_level(struct ask *ask, const struct wish *wish)
{
    return post(ask, wish, json_pack("{s:s}", "level", wish->words[0]));
}

static const struct command commands[] = {
    {"status", NO_WORDS, ONE_WORD, false, run_status},       {"top", NO_WORDS, NO_WORDS, false, run_top},
    {"pause", ONE_WORD, ONE_WORD, true, run_destination},    {"resume", ONE_WORD, ONE_WORD, false, run_destination},
    {"set-rate", TWO_WORDS, TWO_WORDS, true, run_set_rate},  {"purge", ONE_WORD, ONE_WORD, false, run_destination},
    {"drain", NO_WORDS, NO_WORDS, false, run_plain},         {"reload", NO_WORDS, NO_WORDS, false, run_plain},
    {"log-level", ONE_WORD, ONE_WORD, false, run_log_level},
};

static const struct command *find(const char *word)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(word, commands[i].word) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

bool remote_knows(const char *word)
{
    return find(word) != NULL;
}

static bool set_seconds(struct wish *wish, const char *text)
{
    int64_t us;

    if (!wish->command->takes_for) {
        fprintf(stderr, "sluice: %s takes no --for\n", wish->command->word);
        return false;
    }
    if (!str_parse_duration_us(slice_of(text), &us) || us < CLOCK_SECOND_US) {
        fprintf(stderr, "sluice: --for %s: a time is written 30s, 5m or 2h, and is a second at least\n", text);
        return false;
    }
    wish->seconds = us / CLOCK_SECOND_US;
    return true;
}

enum { OPTION_ADMIN = 256, OPTION_TOKEN, OPTION_JSON, OPTION_FOR };

/* False: told on standard error. */
static bool take_option(struct wish *wish, int found)
{
    switch (found) {
    case OPTION_ADMIN:
        wish->admin = optarg;
        return true;
    case OPTION_TOKEN:
        wish->token_file = optarg;
        return true;
    case OPTION_JSON:
        wish->json = true;
        return true;
    case OPTION_FOR:
        return set_seconds(wish, optarg);
    default:
        fprintf(stderr, "try: sluice %s --help\n", wish->command->word);
        return false;
    }
}

static bool take_words(struct wish *wish, int argc, char **argv)
{
    int count = argc - optind;

    if (count < wish->command->words_least || count > wish->command->words_most) {
        fprintf(stderr, "sluice: %s: %s; try: sluice %s --help\n", wish->command->word,
                count < wish->command->words_least ? "something is missing" : "that is too much", wish->command->word);
        return false;
    }
    for (int i = 0; i < count; i++) {
        wish->words[i] = argv[optind + i];
    }
    return true;
}

int remote_command(int argc, char **argv)
{
    static const struct option known[] = {{"admin", required_argument, NULL, OPTION_ADMIN},
                                          {"token-file", required_argument, NULL, OPTION_TOKEN},
                                          {"json", no_argument, NULL, OPTION_JSON},
                                          {"for", required_argument, NULL, OPTION_FOR},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *admin = getenv("SLUICE_ADMIN");
    struct wish wish = {.admin = admin != NULL ? admin : "http://127.0.0.1:3129",
                        .token_file = getenv("SLUICE_ADMIN_TOKEN_FILE"),
                        .command = find(argv[0])};
    struct ask ask;
    int found;

    while ((found = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (found == 'h') {
            fputs(help, stdout);
            return ASK_DONE;
        }
        if (!take_option(&wish, found)) {
            return ASK_BAD_USE;
        }
    }
    if (!take_words(&wish, argc, argv) || !ask_init(&ask, wish.admin, wish.token_file)) {
        return ASK_BAD_USE;
    }
    enum ask_exit code = wish.command->run(&ask, &wish);
    ask_fini(&ask);
    return code;
}
