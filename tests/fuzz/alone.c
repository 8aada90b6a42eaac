/*
 * alone - gives a fuzz target its inputs without libFuzzer, for machines that have gcc only: every file of a corpus,
 * then what comes of them when bytes are changed, cut out, doubled and mixed, for a time. Always in the same order, so
 * what failed once fails again; the input that did is left behind.
 *
 *   fuzz_X SECONDS FAILED [CORPUS]     FAILED: the file for an input that failed
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SEEDS_MOST = 1024, INPUT_MOST = 8192, SEED_MOST = 4096, RUN_SECONDS = 20, RUNS_PER_LOOK = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

struct seed {
    size_t len;
    uint8_t bytes[SEED_MOST];
};

static struct seed *seeds;
static size_t seeds_count;
static uint64_t random_state = 0x9e3779b97f4a7c15;
static uint8_t input[INPUT_MOST];
static size_t input_len;
static const char *failed_path;

/* Only calls that a signal handler may make. */
static void keep_input(void)
{
    int fd = open(failed_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd >= 0) {
        (void)!write(fd, input, input_len);
        close(fd);
    }
}

static void on_signal(int number)
{
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

/* xorshift */
static size_t below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return limit > 0 ? (size_t)(random_state % limit) : 0;
}

/* From memory of just that size, so that one byte too many is seen. */
static void run(void)
{
    uint8_t *exact = malloc(input_len > 0 ? input_len : 1);

    memcpy(exact, input, input_len);
    LLVMFuzzerTestOneInput(exact, input_len);
    free(exact);
}

/* Moves what is behind `at` by `by` bytes, in bounds; false when that can't be. */
static int move_rest(size_t at, ptrdiff_t by)
{
    if (at > input_len || (by < 0 && (size_t)-by > input_len - at) || (by > 0 && input_len + (size_t)by > INPUT_MOST)) {
        return 0;
    }
    size_t from = by < 0 ? at + (size_t)-by : at;
    memmove(input + from + by, input + from, input_len - from);
    input_len = (size_t)((ptrdiff_t)input_len + by);
    return 1;
}

static void insert(size_t at, const uint8_t *bytes, size_t len)
{
    uint8_t copy[256];

    len = len < sizeof(copy) ? len : sizeof(copy);
    memcpy(copy, bytes, len);
    if (move_rest(at, (ptrdiff_t)len)) {
        memcpy(input + at, copy, len);
    }
}

static void change(void)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '\r', '\n', ' ', ':', 0x16, 0x17, 3, 4};
    size_t at = below(input_len), len = 1 + below(16);
    const struct seed *other = &seeds[below(seeds_count)];

    switch (below(7)) {
    case 0:
        input[at] ^= (uint8_t)(1 << below(8));
        break;
    case 1:
        input[at] = odd[below(sizeof(odd))];
        break;
    case 2:
        input[at] = (uint8_t)below(256);
        break;
    case 3:
        (void)move_rest(at, -(ptrdiff_t)len);
        break;
    case 4:
        insert(at, &odd[below(sizeof(odd))], 1);
        break;
    case 5: /* a part of it once more */
        insert(below(input_len + 1), input + at, len * 8 < input_len - at ? len * 8 : input_len - at);
        break;
    case 6: /* a part of another */
        at = below(other->len);
        len = 1 + below(other->len - at);
        insert(below(input_len + 1), other->bytes + at, len <= other->len - at ? len : other->len - at);
        break;
    }
}

static void read_seed(const char *dir, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (file != NULL && seeds_count < SEEDS_MOST) {
        seeds[seeds_count].len = fread(seeds[seeds_count].bytes, 1, SEED_MOST, file);
        seeds_count++;
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* In the order of their names: readdir's is the file system's. */
static void read_corpus(const char *dir)
{
    struct dirent **names = NULL;
    int count = scandir(dir, &names, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') {
            read_seed(dir, names[i]->d_name);
        }
        free(names[i]);
    }
    free(names);
}

static void run_seed(const struct seed *seed, int changes)
{
    memcpy(input, seed->bytes, seed->len);
    input_len = seed->len;
    for (int i = 0; i < changes; i++) {
        if (input_len > 0) {
            change();
        }
    }
    run();
}

int main(int argc, char **argv)
{
    unsigned long runs = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: %s SECONDS FAILED [CORPUS]\n", argv[0]);
        return 2;
    }
    failed_path = argv[2];
    seeds = calloc(SEEDS_MOST, sizeof(*seeds));
    if (argc > 3) {
        read_corpus(argv[3]);
    }
    size_t given = seeds_count;
    seeds_count += seeds_count == 0; /* the empty one */
    signal(SIGABRT, on_signal);
    signal(SIGALRM, on_signal); /* it hangs */
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(keep_input);
    }
    alarm(RUN_SECONDS);
    for (size_t i = 0; i < seeds_count; i++, runs++) {
        run_seed(&seeds[i], 0);
    }
    for (time_t end = time(NULL) + atoi(argv[1]); time(NULL) < end; alarm(RUN_SECONDS)) {
        for (int i = 0; i < RUNS_PER_LOOK; i++, runs++) {
            run_seed(&seeds[below(seeds_count)], 1 + (int)below(8));
        }
    }
    printf("%s: %lu inputs from %zu files, nothing found\n", argv[0], runs, given);
    free(seeds);
    return 0;
}
