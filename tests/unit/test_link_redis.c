/* links: tests/unit/fake_redis.c src/redis/link.c src/redis/node.c src/redis/cluster.c src/redis/slotmap.c src/redis/sentinel.c src/redis/inquiry.c src/conf/redis_conf.c src/redis/flight.c src/redis/backoff.c src/redis/hello.c src/redis/resp.c src/redis/reply.c src/redis/script.c src/redis/command.c src/redis/transport.c src/redis/lookup.c src/redis/secure.c src/base/addr.c src/base/str.c src/base/mem.c src/base/must.c src/base/loop.c src/base/clock.c src/base/histogram.c src/base/err.c */
/* The link and a real redis-server, a child of each test. Skipped where there is none. */
#include "fake_redis.h"

#include "base/log.h"
#include "base/mem.h"
#include "redis/secure.h"
#include "redis/transport.h"

#include <event2/buffer.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct fake *fake; /* its server stays unused: the link goes to the real one */
static char directory[64], path[96];
static pid_t server;

static pid_t spawn(const char *const *words)
{
    posix_spawn_file_actions_t files;
    pid_t pid;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    ck_assert_int_eq(posix_spawnp(&pid, words[0], &files, NULL, (char *const *)(uintptr_t)words, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    return pid;
}

static void start_server(const char *option, const char *value)
{
    const char *words[] = {"redis-server", "--unixsocket", path,   "--port", "0", "--save", "",
                           "--dir",        directory,      option, value,    NULL};

    server = spawn(words);
}

static void stop_server(void)
{
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    server = 0;
}

static void setup(void)
{
    fake = fake_new();
    snprintf(directory, sizeof(directory), "/tmp/test_link_redis.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/socket", directory);
    mem_free(fake->conf.host);
    fake->conf.host = mem_strdup(path);
    fake->conf.unix_socket = true;
}

static void teardown(void)
{
    const char *const words[] = {"rm", "-r", directory, NULL};

    fake_free(fake);
    stop_server();
    waitpid(spawn(words), NULL, 0);
}

static void start_up(void)
{
    start_server("--loglevel", "warning");
    fake_start(fake);
    fake_until(fake, fake->ups == 1);
}

static void command(int i, const char *one, const char *two, const char *three)
{
    const char *const words[] = {one, two, three};

    ck_assert(link_command(fake->link, &fake->calls[i].call, words, three != NULL ? 3 : 2));
    fake_until(fake, fake->calls[i].done == 1);
}

static void assert_eval_works(int i)
{
    ck_assert(fake_eval(fake, i));
    fake_until(fake, fake->calls[i].done == 1);
    ck_assert(!fake->calls[i].lost);
}

START_TEST(scripts_run)
{
    start_up();
    ck_assert_uint_eq(strlen(fake->run_id), 40);
    assert_eval_works(0);
    ck_assert(link_eval(fake->link, &fake->calls[1].call, &script_two, NULL, 0, NULL, 0));
    fake_until(fake, fake->calls[1].done == 1);
    ck_assert_str_eq(fake->calls[1].text, ":2");
    command(2, "CLIENT", "GETNAME", NULL);
    ck_assert_str_eq(fake->calls[2].text, "sluice");
}
END_TEST

START_TEST(scripts_run_after_the_server_has_lost_them)
{
    start_up();
    command(0, "SCRIPT", "FLUSH", NULL);
    ck_assert_str_eq(fake->calls[0].text, "OK");
    for (int i = 1; i < 5; i++) {
        ck_assert(link_eval(fake->link, &fake->calls[i].call, &script_two, NULL, 0, NULL, 0));
    }
    fake_until(fake, fake->calls[4].done == 1);
    for (int i = 1; i < 5; i++) {
        ck_assert_str_eq(fake->calls[i].text, ":2");
    }
    ck_assert_int_eq(fake->downs, 0);
}
END_TEST

START_TEST(a_stopped_server_times_out_and_is_found_again)
{
    fake->conf.timeout_us = fake->conf.connect_timeout_us = 200 * CLOCK_MS_US;
    start_up();
    kill(server, SIGSTOP);
    ck_assert(fake_eval(fake, 0));
    fake_until(fake, fake->downs == 1);
    ck_assert(fake->calls[0].lost);
    ck_assert_str_eq(fake->why, "no answer in time");
    fake_until(fake, strcmp(fake->logged_why, "timed out: handshake") == 0);
    kill(server, SIGCONT);
    fake_until(fake, fake->ups == 2);
    assert_eval_works(1);
}
END_TEST

START_TEST(a_killed_server_comes_back_as_another)
{
    char before[64];

    start_up();
    snprintf(before, sizeof(before), "%s", fake->run_id);
    kill(server, SIGSTOP);
    ck_assert(fake_eval(fake, 0));
    fake_run_us(fake, CLOCK_MS_US);
    stop_server();
    fake_until(fake, fake->downs == 1);
    ck_assert(fake->calls[0].lost);
    start_server("--loglevel", "warning");
    fake_until(fake, fake->ups == 2);
    ck_assert_str_ne(before, fake->run_id);
    assert_eval_works(1);
}
END_TEST

START_TEST(a_required_password_is_given)
{
    start_server("--requirepass", "secret");
    fake_start(fake);
    fake_until(fake, strcmp(fake->logged_why, "a password is required (NOAUTH)") == 0);
    link_free(fake->link);
    fake->conf.password = mem_strdup("wrong");
    fake_start(fake);
    fake_until(fake, strcmp(fake->logged_why, "wrong user or password (WRONGPASS)") == 0);
    link_free(fake->link);
    mem_free(fake->conf.password);
    fake->conf.password = mem_strdup("secret");
    fake_start(fake);
    fake_until(fake, fake->ups == 1);
    assert_eval_works(0);
}
END_TEST

START_TEST(a_user_of_few_rights_is_enough)
{
    char acl[96];

    snprintf(acl, sizeof(acl), "%s/acl", directory);
    FILE *file = fopen(acl, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "user few on >pw ~* -@all +client|setname +select +info +role +script|load +evalsha +eval\n");
    fclose(file);
    start_server("--aclfile", acl);
    fake->conf.user = mem_strdup("few");
    fake->conf.password = mem_strdup("pw");
    fake_start(fake);
    fake_until(fake, fake->ups == 1);
    assert_eval_works(0);
    const char *const words[] = {"FLUSHALL"};
    ck_assert(link_command(fake->link, &fake->calls[1].call, words, 1));
    fake_until(fake, fake->downs == 1);
    ck_assert_str_eq(fake->why, "the server can't serve: NOPERM");
    ck_assert(fake->calls[1].lost);
}
END_TEST

START_TEST(a_replica_is_refused)
{
    start_server("--replicaof", "127.0.0.1 1");
    fake_start(fake);
    fake_until(fake, strcmp(fake->logged_why, "not the primary") == 0);
    ck_assert_int_eq(fake->ups, 0);
}
END_TEST

START_TEST(a_primary_that_turns_replica_is_dropped_at_the_next_write)
{
    start_up();
    command(0, "REPLICAOF", "127.0.0.1", "1");
    const char *const words[] = {"SET", "a", "b"};
    ck_assert(link_command(fake->link, &fake->calls[1].call, words, 3));
    fake_until(fake, fake->downs == 1);
    ck_assert_str_eq(fake->why, "the server can't serve: READONLY");
    fake_until(fake, strcmp(fake->logged_why, "not the primary") == 0);
}
END_TEST

/* ---- TLS ---- */

static char certificate[96], key[96];

static void make_certificate(const char *names)
{
    const char *const words[] = {
        "openssl", "req",   "-x509",    "-newkey",   "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes",  "-subj", "/CN=test", "-days",     "2",  "-addext",  names,
        "-keyout", key,     "-out",     certificate, NULL};
    int status = -1;

    snprintf(certificate, sizeof(certificate), "%s/cert.pem", directory);
    snprintf(key, sizeof(key), "%s/key.pem", directory);
    waitpid(spawn(words), &status, 0);
    ck_assert_int_eq(status, 0);
}

static int free_port(void)
{
    /* a server that was told port 0 would not say which one it took */
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sin);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
    close(fd);
    return ntohs(sin.sin_port);
}

static void start_tls_server(const char *names)
{
    char port_text[8];
    const char *words[] = {"redis-server",
                           "--port",
                           "0",
                           "--tls-port",
                           port_text,
                           "--bind",
                           "127.0.0.1",
                           "--save",
                           "",
                           "--dir",
                           directory,
                           "--tls-cert-file",
                           certificate,
                           "--tls-key-file",
                           key,
                           "--tls-auth-clients",
                           "no",
                           "--tls-ca-cert-file",
                           certificate,
                           NULL};

    make_certificate(names);
    fake->conf.port = (uint16_t)free_port();
    fake->conf.unix_socket = false;
    fake->conf.tls = true;
    snprintf(port_text, sizeof(port_text), "%u", fake->conf.port);
    server = spawn(words);
}

static void set_host(const char *host)
{
    mem_free(fake->conf.host);
    fake->conf.host = mem_strdup(host);
}

START_TEST(a_certificate_of_an_unknown_authority_is_refused)
{
    start_tls_server("subjectAltName=DNS:localhost,IP:127.0.0.1");
    set_host("localhost");
    setenv("SSL_CERT_FILE", certificate, 1); /* the environment decides nothing */
    fake_start(fake);
    fake_until(fake, strncmp(fake->logged_why, "TLS: ", 5) == 0);
    unsetenv("SSL_CERT_FILE");
    ck_assert_str_eq(fake->logged_why, "TLS: self-signed certificate");
    ck_assert_int_eq(fake->ups, 0);
}
END_TEST

struct stream {
    struct transport *transport;
    struct timer again;
    int opened, gone;
    char got[64], why[128];
};

static void stream_opened(void *arg)
{
    struct stream *stream = arg;
    struct evbuffer *ping = evbuffer_new();

    stream->opened++;
    evbuffer_add(ping, "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n", 28);
    transport_send(stream->transport, ping);
    evbuffer_free(ping);
}
static void stream_bytes(void *arg, const char *bytes, size_t len, struct mono arrived)
{
    struct stream *stream = arg;

    ck_assert_int_le(arrived.us, clock_mono_now().us);
    strncat(stream->got, bytes, len);
}
static void stream_again(struct timer *timer, struct mono now)
{
    (void)now;
    transport_dial(container_of(timer, struct stream, again)->transport);
}
static void stream_gone(void *arg, const char *why)
{
    struct stream *stream = arg;

    snprintf(stream->why, sizeof(stream->why), "%s", why);
    if (strncmp(why, "connect: ", 9) == 0) { /* the server is not there yet */
        timer_set(fake->loop, &stream->again, mono_add(loop_now(fake->loop), 20 * CLOCK_MS_US), stream_again);
    } else {
        stream->gone++;
    }
}

static const struct transport_ops stream_ops = {stream_opened, stream_bytes, stream_gone};

/* Dials `host` trusting `ca_file`, says PING and QUIT, and waits for the end. */
static void talk(struct stream *stream, const char *host, const char *ca_file)
{
    char why[SECURE_WHY_BYTES];
    struct redis_conf conf = {.tls = true, .ca_file = mem_strdup(ca_file)};
    SSL_CTX *tls = secure_context(&conf, why);

    mem_free(conf.ca_file);
    set_host(host);
    stream->transport = transport_new(fake->loop, &fake->conf, tls, &stream_ops, stream);
    SSL_CTX_free(tls);
    transport_dial(stream->transport);
    fake_until(fake, stream->gone == 1);
    transport_free(stream->transport);
}

START_TEST(a_trusted_certificate_for_the_name_or_the_address_is_taken)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1"};

    start_tls_server("subjectAltName=DNS:localhost,IP:127.0.0.1");
    for (int i = 0; i < 2; i++) {
        struct stream stream = {0};
        talk(&stream, hosts[i], certificate);
        ck_assert_int_eq(stream.opened, 1);
        ck_assert_str_eq(stream.got, "+PONG\r\n+OK\r\n");
        ck_assert_str_eq(stream.why, "connection closed");
    }
    fake_start(fake); /* for the teardown; it trusts nobody here */
}
END_TEST

START_TEST(a_trusted_certificate_for_another_name_is_refused)
{
    static const struct {
        const char *host, *why;
    } hosts[] = {{"localhost", "TLS: hostname mismatch"}, {"127.0.0.1", "TLS: IP address mismatch"}};

    start_tls_server("subjectAltName=DNS:elsewhere.test,IP:127.0.0.9");
    for (int i = 0; i < 2; i++) {
        struct stream stream = {0};
        talk(&stream, hosts[i].host, certificate);
        ck_assert_int_eq(stream.opened, 0);
        ck_assert_str_eq(stream.why, hosts[i].why);
    }
    fake_start(fake);
}
END_TEST

START_TEST(a_missing_file_of_authorities_is_named)
{
    struct stream stream = {0};

    fake->conf.unix_socket = false;
    fake->conf.tls = true;
    talk(&stream, "127.0.0.1", "/does/not/exist.pem");
    ck_assert_str_eq(stream.why, "TLS: ca_file, client_cert or client_key can't be used");
    fake_start(fake);
}
END_TEST

static bool has_redis(void)
{
    return system("command -v redis-server >/dev/null 2>&1") == 0;
}

int main(void)
{
    if (!has_redis()) {
        printf("test_link_redis: skipped, there is no redis-server here\n");
        return EXIT_SUCCESS;
    }
    Suite *suite = suite_create("link_redis");
    TCase *tc = tcase_create("redis");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, scripts_run);
    tcase_add_test(tc, scripts_run_after_the_server_has_lost_them);
    tcase_add_test(tc, a_stopped_server_times_out_and_is_found_again);
    tcase_add_test(tc, a_killed_server_comes_back_as_another);
    tcase_add_test(tc, a_required_password_is_given);
    tcase_add_test(tc, a_user_of_few_rights_is_enough);
    tcase_add_test(tc, a_replica_is_refused);
    tcase_add_test(tc, a_primary_that_turns_replica_is_dropped_at_the_next_write);
    tcase_add_test(tc, a_certificate_of_an_unknown_authority_is_refused);
    tcase_add_test(tc, a_trusted_certificate_for_the_name_or_the_address_is_taken);
    tcase_add_test(tc, a_trusted_certificate_for_another_name_is_refused);
    tcase_add_test(tc, a_missing_file_of_authorities_is_named);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
