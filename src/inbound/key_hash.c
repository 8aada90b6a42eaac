#include "inbound/key_hash.h"

#include "base/mem.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>

struct key_hasher {
    EVP_MAC *mac;
    EVP_MAC_CTX *keyed; /* the secret is worked in once; each hash starts from there */
};

struct key_hasher *key_hasher_new(const void *secret, size_t secret_bytes)
{
    struct key_hasher *hasher = mem_zalloc(sizeof(*hasher));
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                           OSSL_PARAM_construct_end()};

    hasher->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    must(hasher->mac != NULL);
    hasher->keyed = EVP_MAC_CTX_new(hasher->mac);
    must(hasher->keyed != NULL);
    must(EVP_MAC_init(hasher->keyed, secret_bytes > 0 ? secret : "", secret_bytes, params) == 1);
    return hasher;
}

void key_hasher_free(struct key_hasher *hasher)
{
    EVP_MAC_CTX_free(hasher->keyed);
    EVP_MAC_free(hasher->mac);
    mem_free(hasher);
}

static void update(EVP_MAC_CTX *mac, const void *bytes, size_t len)
{
    must(EVP_MAC_update(mac, bytes, len) == 1);
}

struct key_hash key_hash(const struct key_hasher *hasher, const struct inbound_conf *inbound,
                         const struct inbound_rule *rule, struct slice key)
{
    int64_t shape[2] = {rule->algorithm, rule->rate.period_us};
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct key_hash hash;
    size_t len;

    must(EVP_MAC_init(hasher->keyed, NULL, 0, NULL) == 1);             /* the same secret again */
    update(hasher->keyed, inbound->label, strlen(inbound->label) + 1); /* the NUL parts one text from the next */
    update(hasher->keyed, rule->label, strlen(rule->label) + 1);
    update(hasher->keyed, shape, sizeof(shape));
    update(hasher->keyed, key.ptr, key.len);
    must(EVP_MAC_final(hasher->keyed, digest, &len, sizeof(digest)) == 1 && len >= sizeof(hash.bytes));
    memcpy(hash.bytes, digest, sizeof(hash.bytes));
    return hash;
}

void key_hash_text(const struct key_hash *hash, char out[KEY_HASH_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < sizeof(hash->bytes) / 2; i++) {
        out[2 * i] = digits[hash->bytes[i] >> 4];
        out[2 * i + 1] = digits[hash->bytes[i] & 15];
    }
    out[KEY_HASH_TEXT_BYTES - 1] = '\0';
}
