#include "proxy/users.h"

#include "base/mem.h"

#include <crypt.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { REMEMBERED = 4096, DIGEST_BYTES = 32, MAX_CREDENTIALS_BYTES = 1024, MAX_LINE_BYTES = 1024 };

struct user {
    char *name;
    char *hash;
};
struct remembered {
    unsigned char digest[DIGEST_BYTES];
    bool filled, allowed;
};
struct users {
    struct user *list;
    size_t count;
    unsigned char secret[DIGEST_BYTES];
    struct crypt_data *crypt;
    struct remembered cache[REMEMBERED];
};

static bool hash_is_known(const char *hash)
{
    return strncmp(hash, "$2y$", 4) == 0 || strncmp(hash, "$2b$", 4) == 0 || strncmp(hash, "$2a$", 4) == 0 ||
           strncmp(hash, "$5$", 3) == 0 || strncmp(hash, "$6$", 3) == 0 || strncmp(hash, "$y$", 3) == 0;
}

static void load_line(struct users *users, const char *path, unsigned number, char *line, struct err *err)
{
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#') {
        return;
    }
    char *colon = strchr(line, ':');
    if (colon == NULL || colon == line) {
        err_add(err, "%s:%u: not of the form NAME:HASH", path, number);
        return;
    }
    *colon = '\0';
    if (!hash_is_known(colon + 1)) {
        err_add(err, "%s:%u: the hash of user \"%s\" is neither bcrypt nor SHA-crypt; make it with `htpasswd -B`", path,
                number, line);
        return;
    }
    users->list = mem_realloc(users->list, (users->count + 1) * sizeof(users->list[0]));
    users->list[users->count++] = (struct user){mem_strdup(line), mem_strdup(colon + 1)};
}

struct users *users_load(const char *path, struct err *err)
{
    size_t before = err->count;
    char line[MAX_LINE_BYTES];
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        err_add(err, "[proxy] auth: can't read %s: %s", path, strerror(errno));
        return NULL;
    }
    struct users *users = mem_zalloc(sizeof(*users));
    users->crypt = mem_zalloc(sizeof(*users->crypt));
    must(getrandom(users->secret, sizeof(users->secret), 0) == (ssize_t)sizeof(users->secret));
    for (unsigned number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        load_line(users, path, number, line, err);
    }
    fclose(file);
    if (users->count == 0 && err->count == before) {
        err_add(err, "[proxy] auth: %s names no user, so nobody could use the proxy", path);
    }
    if (err->count > before) {
        users_free(users);
        return NULL;
    }
    return users;
}

void users_free(struct users *users)
{
    if (users == NULL) {
        return;
    }
    for (size_t i = 0; i < users->count; i++) {
        mem_free(users->list[i].name);
        mem_free(users->list[i].hash);
    }
    mem_free(users->list);
    mem_free(users->crypt);
    OPENSSL_cleanse(users->secret, sizeof(users->secret));
    mem_free(users);
}

static bool hash_matches(struct users *users, const char *password, const char *expected)
{
    const char *made = crypt_rn(password, expected, users->crypt, (int)sizeof(*users->crypt));

    return made != NULL && strlen(made) == strlen(expected) && CRYPTO_memcmp(made, expected, strlen(expected)) == 0;
}

/* An unknown name costs as much as a known one, so that names can't be found out by timing. */
static bool check(struct users *users, const char *name, const char *password)
{
    const struct user *found = NULL;

    for (size_t i = 0; i < users->count; i++) {
        if (strcmp(users->list[i].name, name) == 0) {
            found = &users->list[i];
        }
    }
    bool matches = hash_matches(users, password, found != NULL ? found->hash : users->list[0].hash);
    return found != NULL && matches;
}

/* "Basic dXNlcjpwYXNz" -> "user:pass", NUL-terminated, in `out`. */
static bool decode_basic(struct slice credentials, char out[MAX_CREDENTIALS_BYTES])
{
    unsigned char padded[MAX_CREDENTIALS_BYTES + 4];

    if (credentials.len < 6 || strncasecmp(credentials.ptr, "Basic ", 6) != 0) {
        return false;
    }
    struct slice b64 = slice_trim((struct slice){credentials.ptr + 6, credentials.len - 6});
    if (b64.len == 0 || b64.len % 4 != 0 || b64.len >= MAX_CREDENTIALS_BYTES) {
        return false;
    }
    int len = EVP_DecodeBlock(padded, (const unsigned char *)b64.ptr, (int)b64.len);
    if (len < 0) {
        return false;
    }
    len -= b64.ptr[b64.len - 1] == '=' ? 1 : 0;
    len -= b64.ptr[b64.len - 2] == '=' ? 1 : 0;
    memcpy(out, padded, (size_t)len);
    out[len] = '\0';
    return strlen(out) == (size_t)len && strchr(out, ':') != NULL;
}

bool users_allow(struct users *users, struct slice credentials)
{
    char text[MAX_CREDENTIALS_BYTES];
    unsigned char digest[DIGEST_BYTES];

    if (!decode_basic(credentials, text)) {
        return false;
    }
    must(HMAC(EVP_sha256(), users->secret, sizeof(users->secret), (const unsigned char *)text, strlen(text), digest,
              NULL) != NULL);
    struct remembered *place = &users->cache[(digest[0] | digest[1] << 8) % REMEMBERED];
    if (!place->filled || CRYPTO_memcmp(place->digest, digest, sizeof(digest)) != 0) {
        char *colon = strchr(text, ':');
        *colon = '\0';
        place->allowed = check(users, text, colon + 1);
        place->filled = true;
        memcpy(place->digest, digest, sizeof(digest));
    }
    OPENSSL_cleanse(text, sizeof(text));
    return place->allowed;
}

bool users_name(struct slice credentials, char *out, size_t room)
{
    char text[MAX_CREDENTIALS_BYTES];
    bool fits = decode_basic(credentials, text);
    size_t len = fits ? (size_t)(strchr(text, ':') - text) : 0;

    fits = len > 0 && len < room;
    if (fits) {
        memcpy(out, text, len);
        out[len] = '\0';
    }
    OPENSSL_cleanse(text, sizeof(text));
    return fits;
}
