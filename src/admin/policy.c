#include "admin/page.h"
#include "base/mem.h"
#include "base/must.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <string.h>

enum { HASH_TEXT_BYTES = 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1 };

/* Of what stands between `begin` and `end`, which the page has once each. */
static void hash_between(const char *begin, const char *end, char out[HASH_TEXT_BYTES])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    const char *first = strstr(admin_page, begin);

    must(first != NULL);
    first += strlen(begin);
    const char *last = strstr(first, end);
    must(last != NULL);
    SHA256((const unsigned char *)first, (size_t)(last - first), digest);
    EVP_EncodeBlock((unsigned char *)out, digest, sizeof(digest));
}

char *page_policy(void)
{
    char script[HASH_TEXT_BYTES], style[HASH_TEXT_BYTES];

    hash_between("<script>", "</script>", script);
    hash_between("<style>", "</style>", style);
    return mem_printf(
        "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        script, style);
}
