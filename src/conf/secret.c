/*
 * Passwords that are not in the settings: in a file of their own (a Docker or systemd secret), or in a variable of the
 * environment. They are read once, when the settings are; no message shows any of one.
 *
 * A file's last line end is not part of the password. A password that has another one in it, or none at all, is a
 * mistake: the file is the wrong one.
 */
#include "conf/secret.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_BYTES_MAX = 1024 };

/* Where a password may be written, and where it goes. */
struct source {
    const char *file_key, *env_key;
    const char *file, *env;
    char **password;
};

static struct place place_of(struct report *report, const struct section *section, const char *key)
{
    return (struct place){report, section_line_of(section, key), section->title, key};
}

static bool is_password(const char *text, size_t len)
{
    return len > 0 && len <= SECRET_BYTES_MAX && memchr(text, '\n', len) == NULL && memchr(text, '\0', len) == NULL;
}

static void warn_of_readers(const struct place *place, int fd)
{
    struct stat stat;

    if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && (stat.st_mode & S_IROTH) != 0) {
        report_warning(place, "every user of this machine can read it; chmod o-r");
    }
}

static void read_file(const struct place *place, const char *path, const char *what, char **password)
{
    char text[SECRET_BYTES_MAX + 3];
    size_t len = 0;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    while (fd >= 0 && len < sizeof(text) && (got = read(fd, text + len, sizeof(text) - len)) > 0) {
        len += (size_t)got;
    }
    if (fd < 0 || got < 0) {
        report_error(place, "%s cannot be read: %s", path, strerror(errno));
    } else {
        warn_of_readers(place, fd);
        len -= len > 0 && text[len - 1] == '\n';
        len -= len > 0 && text[len - 1] == '\r';
        if (is_password(text, len)) {
            *password = mem_strndup(text, len);
        } else {
            report_error(place, "%s does not hold one line of 1 to %d bytes, the %s", path, SECRET_BYTES_MAX, what);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    explicit_bzero(text, sizeof(text));
}

static void read_env(const struct place *place, const char *name, char **password)
{
    const char *text = getenv(name);

    if (text == NULL) {
        /* not shown: who takes the key for the password's own would see it in a log */
        report_error(place, "the environment has no variable of that name");
    } else if (!is_password(text, strlen(text))) {
        report_error(place, "the variable does not hold one line of 1 to %d bytes, the password", SECRET_BYTES_MAX);
    } else {
        *password = mem_strdup(text);
    }
}

static void take(const struct source *source, const struct section *section, struct report *report)
{
    struct place file = place_of(report, section, source->file_key), env = place_of(report, section, source->env_key);

    if (source->file != NULL && source->env != NULL) {
        report_error(&env, "the password is in %s already; set one of the two", source->file_key);
    } else if (*source->password != NULL && (source->file != NULL || source->env != NULL)) {
        report_error(source->file != NULL ? &file : &env, "there is a password in url already; set one of the two");
    } else if (source->file != NULL) {
        read_file(&file, source->file, "password", source->password);
    } else if (source->env != NULL) {
        read_env(&env, source->env, source->password);
    }
}

static void check_users(struct redis_conf *redis, const struct section *section, struct report *report)
{
    struct place user = place_of(report, section, "user");
    struct place sentinel_user = place_of(report, section, "sentinel_user");

    if (redis->user_name != NULL && redis->user != NULL) {
        report_error(&user, "there is a user in url already; set one of the two");
    } else if (redis->user_name != NULL && redis->password_file == NULL && redis->password_env == NULL) {
        report_error(&user, "a user needs a password: set password_file or password_env");
    } else if (redis->user_name != NULL) {
        redis->user = mem_strdup(redis->user_name);
    }
    if (redis->sentinel_user != NULL && redis->sentinel_password_file == NULL && redis->sentinel_password_env == NULL) {
        report_error(&sentinel_user, "a user needs a password: set sentinel_password_file or sentinel_password_env");
    }
}

static void check_effect(const struct redis_conf *redis, const struct section *section, struct report *report)
{
    static const char *const of_tls[] = {"ca_file", "client_cert", "client_key"}, *const of_sentinels[] = {
                                                                                      "sentinel_user",
                                                                                      "sentinel_password_file",
                                                                                      "sentinel_password_env"};
    struct place key = place_of(report, section, "client_key");

    for (size_t i = 0; !redis->tls && i < sizeof(of_tls) / sizeof(of_tls[0]); i++) {
        struct place place = place_of(report, section, of_tls[i]);
        if (place.line != 0) {
            report_warning(&place, "has no effect without TLS: rediss://, sentinels:// or clusters:// in url");
        }
    }
    for (size_t i = 0; redis->kind != REDIS_SENTINEL && i < sizeof(of_sentinels) / sizeof(of_sentinels[0]); i++) {
        struct place place = place_of(report, section, of_sentinels[i]);
        if (place.line != 0) {
            report_warning(&place, "has no effect without sentinel:// in url");
        }
    }
    if (redis->client_key != NULL && redis->client_cert == NULL) {
        report_error(&key, "a key without client_cert");
    }
}

void secret_fill(struct redis_conf *redis, const struct section *section, struct report *report)
{
    if (section == NULL || redis->url == NULL) {
        return; /* none, or a mistake that has been told */
    }
    const struct source server = {"password_file", "password_env", redis->password_file, redis->password_env,
                                  &redis->password};
    const struct source sentinels = {"sentinel_password_file", "sentinel_password_env", redis->sentinel_password_file,
                                     redis->sentinel_password_env, &redis->sentinel_password};

    check_users(redis, section, report);
    take(&server, section, report);
    take(&sentinels, section, report);
    check_effect(redis, section, report);
    if (redis->hash_secret_file != NULL) {
        struct place place = place_of(report, section, "hash_secret_file");
        read_file(&place, redis->hash_secret_file, "secret", &redis->hash_secret);
    }
}
