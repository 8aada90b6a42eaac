/*
 * Calls go out as EVALSHA. A server that has lost its scripts (SCRIPT FLUSH, a failover) answers NOSCRIPT, having run
 * nothing; the call is then sent once more as EVAL, which also makes the server keep the script. Keys and arguments are
 * not kept apart for that: the two forms differ in their first two words only, so the rest of the bytes sent is used
 * again:
 *
 *   *5 CRLF | $7 CRLF EVALSHA CRLF | $40 CRLF <sha> CRLF          | $1 CRLF 1 CRLF ...
 *   *5 CRLF | $4 CRLF EVAL CRLF    | $<len> CRLF <text> CRLF      | (the same bytes)
 */
#include "redis/script.h"

#include "base/mem.h"
#include "base/must.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVALSHA_WORD "$7\r\nEVALSHA\r\n"
#define SHA_HEAD "$40\r\n"

static void sha_of(const char *text, char out[SCRIPT_SHA_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA_DIGEST_LENGTH];

    must(SHA1((const unsigned char *)text, strlen(text), digest) != NULL);
    for (unsigned i = 0; i < SHA_DIGEST_LENGTH; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[SCRIPT_SHA_BYTES - 1] = '\0';
}

void script_set_init(struct script_set *set, const struct script *const *scripts, unsigned count)
{
    set->count = count;
    set->entries = mem_zalloc((count > 0 ? count : 1) * sizeof(set->entries[0]));
    for (unsigned i = 0; i < count; i++) {
        set->entries[i].script = scripts[i];
        sha_of(scripts[i]->text, set->entries[i].sha);
    }
}

void script_set_fini(struct script_set *set)
{
    mem_free(set->entries);
    *set = (struct script_set){0};
}

static const char *sha_in(const struct script_set *set, const struct script *script)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->entries[i].script == script) {
            return set->entries[i].sha;
        }
    }
    wrong("a script that was not given to link_new");
}

struct command script_evalsha(const struct script_set *set, const struct script *script, struct words keys,
                              struct words args)
{
    char keys_count[16];
    const char *const head[] = {"EVALSHA", sha_in(set, script), keys_count};

    snprintf(keys_count, sizeof(keys_count), "%u", keys.count);
    return command_make((const struct words[]){{head, 3}, keys, args}, 3);
}

struct command script_eval(const struct script *script, const struct command *evalsha)
{
    const char *line_end = memchr(evalsha->bytes, '\n', evalsha->len);
    must(line_end != NULL);
    size_t count_len = (size_t)(line_end + 1 - evalsha->bytes);
    size_t skipped = count_len + strlen(EVALSHA_WORD) + strlen(SHA_HEAD) + SCRIPT_SHA_BYTES - 1 + 2;
    must(evalsha->len > skipped && memcmp(line_end + 1, EVALSHA_WORD, strlen(EVALSHA_WORD)) == 0);
    size_t text_len = strlen(script->text), tail_len = evalsha->len - skipped;
    char head[64];
    size_t head_len = (size_t)snprintf(head, sizeof(head), "$4\r\nEVAL\r\n$%zu\r\n", text_len);

    struct command eval = {.len = count_len + head_len + text_len + 2 + tail_len};
    char *at = eval.bytes = malloc(eval.len); /* not mem_alloc: command_fini frees as hiredis does */
    must(at != NULL);
    at = mempcpy(at, evalsha->bytes, count_len);
    at = mempcpy(at, head, head_len);
    at = mempcpy(at, script->text, text_len);
    at = mempcpy(at, "\r\n", 2);
    memcpy(at, evalsha->bytes + skipped, tail_len);
    return eval;
}
