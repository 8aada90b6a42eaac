/* links: tests/unit/redis_server.c src/inbound/admission.c src/inbound/admission_redis.c src/inbound/health.c src/inbound/local.c src/inbound/limit.c src/inbound/drain.c src/inbound/windows.c src/inbound/sliding_log.c src/inbound/key_hash.c src/lua/admit.lua src/lua/members.lua src/redis/link.c src/redis/node.c src/redis/cluster.c src/redis/slotmap.c src/redis/sentinel.c src/redis/inquiry.c src/conf/redis_conf.c src/redis/flight.c src/redis/backoff.c src/redis/hello.c src/redis/resp.c src/redis/reply.c src/redis/script.c src/redis/command.c src/redis/transport.c src/redis/lookup.c src/redis/secure.c src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c src/base/loop.c src/base/clock.c src/base/log.c src/base/log_line.c src/base/histogram.c src/base/err.c */
/*
 * How many decisions a second one process gets through admission, without HTTP: through a real redis-server on a
 * socket, with so many checks under way at any time, for callers picked at random; and by itself. Then what one caller
 * costs in Redis' memory.
 *
 *   build/bench/admission [SECONDS [IN_FLIGHT [CALLERS]]]      a table; with JSON=1 in the environment, JSON lines
 *
 * cpu is processor time per decision: of this process, and of the server. With both on one machine they share its
 * cores.
 */
#include "inbound/admission.h"
#include "../unit/redis_server.h"
#include "base/log.h"
#include "base/mem.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

extern const struct script script_admit, script_members;
enum { IN_FLIGHT_MOST = 4096, LATENCIES = 1 << 16 };

struct bench;
struct lane {
    struct admission_check check;
    struct bench *bench;
    char key[16];
    struct defer again; /* not from inside the callback: one turn's checks go out together */
};

struct bench {
    struct loop *loop;
    struct admission *admission;
    struct inbound_rule rules[3];
    struct inbound_conf inbound;
    struct lane *lanes;
    unsigned in_flight, callers, rules_count;
    uint64_t random, decided, admitted, unchecked;
    int32_t latencies[LATENCIES];
    struct mono until;
    unsigned running;
};

static void start_lane(struct lane *lane)
{
    struct bench *bench = lane->bench;

    bench->random = bench->random * 6364136223846793005u + 1442695040888963407u;
    snprintf(lane->key, sizeof(lane->key), "%" PRIu64, (bench->random >> 33) % bench->callers);
    lane->check.count = bench->rules_count;
    for (unsigned i = 0; i < bench->rules_count; i++) {
        lane->check.rules[i] = &bench->rules[i];
        lane->check.keys[i] = slice_of(lane->key);
        lane->check.costs[i] = 1;
    }
    admission_start(bench->admission, &lane->check);
}

static void again(struct defer *defer)
{
    start_lane(container_of(defer, struct lane, again));
}

static void done(struct admission_check *check)
{
    struct lane *lane = container_of(check, struct lane, check);
    struct bench *bench = lane->bench;
    struct mono now = loop_now(bench->loop);

    bench->latencies[bench->decided++ % LATENCIES] = (int32_t)mono_diff(now, check->started);
    bench->admitted += check->admitted;
    bench->unchecked += check->unchecked;
    if (mono_before(now, bench->until)) {
        loop_defer(bench->loop, &lane->again, again);
    } else {
        bench->running--;
    }
}

static int by_size(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

static double cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double server_cpu_us(struct redis_server *server)
{
    const char *info = redis_server_say(server, "INFO cpu");
    const char *system = strstr(info, "used_cpu_sys:"), *user = strstr(info, "used_cpu_user:");

    must(system != NULL && user != NULL);
    return (strtod(system + strlen("used_cpu_sys:"), NULL) + strtod(user + strlen("used_cpu_user:"), NULL)) * 1e6;
}

static void run(struct bench *bench, struct redis_server *server, int64_t for_us)
{
    bench->decided = bench->admitted = bench->unchecked = 0;
    bench->until = mono_add(loop_now(bench->loop), for_us);
    bench->running = bench->in_flight;
    for (unsigned i = 0; i < bench->in_flight; i++) {
        bench->lanes[i].bench = bench;
        bench->lanes[i].check.inbound = &bench->inbound;
        bench->lanes[i].check.done = done;
        start_lane(&bench->lanes[i]);
    }
    struct mono start = loop_now(bench->loop);
    while (bench->running > 0) {
        redis_server_turn(server, start);
    }
}

/* Bytes of the key of a caller that has used all of its 100. */
static double memory_of_key(struct bench *bench, struct redis_server *server)
{
    unsigned in_flight = bench->in_flight, callers = bench->callers;
    char command[256] = "";

    redis_server_say(server, "FLUSHALL");
    bench->in_flight = 100;
    bench->callers = 1;
    run(bench, server, 0);
    bench->in_flight = in_flight;
    bench->callers = callers;
    while (strstr(command, "{bench}") == NULL) { /* not that by which replicas count each other */
        snprintf(command, sizeof(command), "MEMORY USAGE %s SAMPLES 0", redis_server_say(server, "RANDOMKEY"));
    }
    return strtod(redis_server_say(server, command), NULL);
}

static void report(struct bench *bench, const char *name, double seconds, double own_us, double redis_us)
{
    size_t kept = bench->decided < LATENCIES ? bench->decided : LATENCIES;
    double decided = (double)bench->decided;

    qsort(bench->latencies, kept, sizeof(bench->latencies[0]), by_size);
    const char *format = getenv("JSON") != NULL
                             ? "{\"what\":\"%s\",\"decisions_per_s\":%.0f,\"admitted\":%.3f,\"unchecked\":%" PRIu64
                               ",\"p50_us\":%d,\"p99_us\":%d,\"cpu_us\":%.2f,\"redis_cpu_us\":%.2f,"
                             : "%-24s %10.0f %9.3f %9" PRIu64 " %8d %8d %8.2f %9.2f";
    printf(format, name, decided / seconds, (double)bench->admitted / decided, bench->unchecked,
           bench->latencies[kept / 2], bench->latencies[kept * 99 / 100], own_us / decided, redis_us / decided);
    fflush(stdout);
}

static void measure(struct bench *bench, struct redis_server *server, const char *name, bool with_redis, int64_t for_us)
{
    bench->admission = admission_new(bench->loop, with_redis ? server->link : NULL, "sluice", "bench", "secret", 6);
    redis_server_say(server, "FLUSHALL");
    double redis_before = server_cpu_us(server), own_before = cpu_us();
    struct mono start = loop_now(bench->loop);
    run(bench, server, for_us);
    double seconds = (double)mono_diff(loop_now(bench->loop), start) / 1e6, own = cpu_us() - own_before;
    double redis = with_redis ? server_cpu_us(server) - redis_before : 0;
    report(bench, name, seconds, own, redis);
    printf(getenv("JSON") != NULL ? "\"bytes_per_key\":%.0f}\n" : " %9.0f\n",
           with_redis && bench->rules_count == 1 ? memory_of_key(bench, server) : 0);
    admission_free(bench->admission);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static struct redis_server server;
    static char label[] = "bench", labels[3][8] = {"one", "two", "three"};
    static const struct script *const scripts[] = {&script_admit, &script_members};
    static const struct {
        const char *name;
        enum inbound_algorithm algorithm;
    } rows[] = {
        {"token_bucket", ALGORITHM_TOKEN_BUCKET},
        {"leaky_bucket", ALGORITHM_LEAKY_BUCKET},
        {"fixed_window", ALGORITHM_FIXED_WINDOW},
        {"sliding_window_counter", ALGORITHM_SLIDING_WINDOW_COUNTER},
        {"sliding_window_strict", ALGORITHM_SLIDING_WINDOW_STRICT},
        {"sliding_window_log", ALGORITHM_SLIDING_WINDOW_LOG},
    };
    int64_t for_us = argc > 1 ? (int64_t)(strtod(argv[1], NULL) * 1e6) : 2 * CLOCK_SECOND_US;

    if (!redis_server_is_there()) {
        printf("admission: skipped, there is no redis-server here\n");
        return 0;
    }
    bench.in_flight = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 256;
    bench.in_flight = bench.in_flight < IN_FLIGHT_MOST ? bench.in_flight : IN_FLIGHT_MOST;
    bench.callers = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 10000;
    bench.lanes = mem_zalloc(IN_FLIGHT_MOST * sizeof(bench.lanes[0]));
    bench.inbound = (struct inbound_conf){.label = label, .timeout_us = CLOCK_SECOND_US};
    must(log_open(NULL, LOG_LOGFMT, LOG_ERROR));
    redis_server_open(&server, scripts, 2);
    bench.loop = server.loop;
    if (getenv("JSON") == NULL) {
        printf("%-24s %10s %9s %9s %8s %8s %8s %9s %9s\n", "", "decisions", "admitted", "unchecked", "p50", "p99",
               "cpu", "redis cpu", "memory");
        printf("%-24s %10s %9s %9s %8s %8s %8s %9s %9s\n", "", "per s", "", "", "us", "us", "us", "us", "B per key");
    }
    for (unsigned i = 0; i < 3; i++) {
        bench.rules[i] =
            (struct inbound_rule){.label = labels[i], .rate = {100, 60 * CLOCK_SECOND_US}, .capacity = 100, .cost = 1};
    }
    bench.rules_count = 1;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bench.rules[0].algorithm = rows[i].algorithm;
        measure(&bench, &server, rows[i].name, true, for_us);
    }
    bench.rules_count = 3;
    bench.rules[0].algorithm = ALGORITHM_TOKEN_BUCKET;
    bench.rules[1].algorithm = bench.rules[2].algorithm = ALGORITHM_SLIDING_WINDOW_COUNTER;
    measure(&bench, &server, "three limits", true, for_us);
    bench.rules_count = 1;
    measure(&bench, &server, "token_bucket, no Redis", false, for_us);
    redis_server_close(&server);
    mem_free(bench.lanes);
    log_close();
    return 0;
}
