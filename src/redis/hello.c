/*
 * The first words, sent in one go:
 *
 *   AUTH [user] password   only with a password
 *   CLIENT SETNAME sluice  so that CLIENT LIST tells who this is
 *   SELECT database
 *   INFO server            run_id: a new one means a restart, and possibly lost state
 *   ROLE                   a replica would answer, with old data
 *   SCRIPT LOAD text       one for each script; the answer is its SHA-1
 *
 * Every answer has to be the expected one. Nothing of an error's text is passed on but its code: servers quote the
 * arguments of commands they don't know, the password among them.
 */
#include "redis/hello.h"

#include "redis/reply.h"

#include <event2/buffer.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum step { STEP_AUTH, STEP_NAME, STEP_SELECT, STEP_INFO, STEP_ROLE, STEP_SCRIPTS };

static const char *const step_names[] = {"AUTH", "CLIENT SETNAME", "SELECT", "INFO", "ROLE", "SCRIPT LOAD"};

static void say(struct evbuffer *out, const char *const *words, unsigned count)
{
    struct command command = command_make(&(struct words){words, count}, 1);

    must(evbuffer_add(out, command.bytes, command.len) == 0);
    command_fini(&command);
}
#define SAY(out, ...)                                                                                                  \
    say(out, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

void hello_begin(struct hello *hello, const struct redis_conf *conf, const struct script_set *scripts,
                 struct evbuffer *out)
{
    char database[24];

    *hello = (struct hello){.conf = conf, .scripts = scripts, .step = conf->password != NULL ? STEP_AUTH : STEP_NAME};
    if (conf->password != NULL && conf->user != NULL) {
        SAY(out, "AUTH", conf->user, conf->password);
    } else if (conf->password != NULL) {
        SAY(out, "AUTH", conf->password);
    }
    SAY(out, "CLIENT", "SETNAME", "sluice");
    snprintf(database, sizeof(database), "%" PRId64, conf->database);
    SAY(out, "SELECT", database);
    SAY(out, "INFO", "server");
    SAY(out, "ROLE");
    for (unsigned i = 0; i < scripts->count; i++) {
        SAY(out, "SCRIPT", "LOAD", scripts->entries[i].script->text);
    }
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The line "run_id:" and 40 hexadecimal digits. */
static bool take_run_id(struct hello *hello, const struct redisReply *reply)
{
    static const char name[] = "run_id:";
    size_t digits = 0;

    if (reply->type != REDIS_REPLY_STRING) {
        return false;
    }
    const char *line = reply->str; /* NUL-terminated by hiredis */
    while (line != NULL && strncmp(line, name, sizeof(name) - 1) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL) {
        return false;
    }
    line += sizeof(name) - 1;
    while (digits < HELLO_RUN_ID_BYTES - 1 && is_hex(line[digits])) {
        digits++;
    }
    char after = digits == HELLO_RUN_ID_BYTES - 1 ? line[digits] : 'x';
    if (after != '\r' && after != '\n' && after != '\0') {
        return false;
    }
    memcpy(hello->run_id, line, digits);
    hello->run_id[digits] = '\0';
    return true;
}

static enum hello_result refuse(char why[HELLO_WHY_BYTES], const char *text)
{
    snprintf(why, HELLO_WHY_BYTES, "%s", text);
    return HELLO_REFUSED;
}

static enum hello_result refuse_code(unsigned step, const char *code, char why[HELLO_WHY_BYTES])
{
    const char *name = step_names[step < STEP_SCRIPTS ? step : STEP_SCRIPTS];

    if (strcmp(code, "WRONGPASS") == 0) {
        return refuse(why, "wrong user or password (WRONGPASS)");
    }
    if (strcmp(code, "NOAUTH") == 0) {
        return refuse(why, "a password is required (NOAUTH)");
    }
    snprintf(why, HELLO_WHY_BYTES, "%s refused: %s", name, code[0] != '\0' ? code : "error");
    return HELLO_REFUSED;
}

static bool is_master(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply_is_text(reply->element[0], "master");
}

/* NULL when the answer is the expected one. */
static const char *check(struct hello *hello, const struct redisReply *reply)
{
    switch (hello->step) {
    case STEP_AUTH:
    case STEP_NAME:
    case STEP_SELECT:
        return reply_is_text(reply, "OK") ? NULL : "unexpected answer to the handshake";
    case STEP_INFO:
        return take_run_id(hello, reply) ? NULL : "no run_id in INFO";
    case STEP_ROLE:
        return is_master(reply) ? NULL : "not the primary";
    default:
        return reply_is_text(reply, hello->scripts->entries[hello->step - STEP_SCRIPTS].sha)
                   ? NULL
                   : "unexpected SHA-1 of a script";
    }
}

enum hello_result hello_take(struct hello *hello, const struct redisReply *reply, char why[HELLO_WHY_BYTES])
{
    char code[REPLY_CODE_BYTES];

    must(hello->step < STEP_SCRIPTS + hello->scripts->count);
    if (reply_judge(reply, code) != REPLY_FINE) {
        return refuse_code(hello->step, code, why);
    }
    const char *fault = check(hello, reply);
    if (fault != NULL) {
        return refuse(why, fault);
    }
    hello->step++;
    return hello->step == STEP_SCRIPTS + hello->scripts->count ? HELLO_DONE : HELLO_MORE;
}
