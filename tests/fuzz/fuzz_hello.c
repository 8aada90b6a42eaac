/* links: src/upstream/hello.c src/base/buf.c src/base/mem.c src/base/must.c */
/* Both hellos of any bytes. What is said of a ClientHello must not depend on how much of what follows is there: "more"
 * until one byte, and from there on always the same; a name is clean or called bad. */
#include "base/must.h"
#include "upstream/hello.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const struct client_hello *hello)
{
    size_t len = strnlen(hello->sni, sizeof(hello->sni));

    must(len < sizeof(hello->sni));
    must(!hello->bad_sni || (hello->has_sni && len == 0));
    must(len == 0 || hello->has_sni);
    for (size_t i = 0; i < len; i++) {
        must(hello->sni[i] > ' ' && hello->sni[i] < 0x7f && !(hello->sni[i] >= 'A' && hello->sni[i] <= 'Z'));
    }
}

/* From memory that ends where the bytes do. */
static enum hello read_part(const uint8_t *data, size_t len, struct client_hello *hello)
{
    uint8_t *exact = malloc(len > 0 ? len : 1);

    memcpy(exact, data, len);
    enum hello result = hello_read_client(exact, len, hello);
    free(exact);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client_hello whole, part;
    bool tls13;
    enum hello result = read_part(data, size, &whole);
    size_t step = size > 512 ? size / 256 : 1;

    if (result == HELLO_DONE) {
        check_name(&whole);
    }
    for (size_t len = 0; len < size; len += step) {
        enum hello early = read_part(data, len, &part);
        must(early == HELLO_MORE || early == result);
        must(early != HELLO_DONE || (part.offers_h2 == whole.offers_h2 && strcmp(part.sni, whole.sni) == 0));
    }
    if (hello_read_server(data, size, &tls13) != HELLO_DONE) {
        return 0;
    }
    must(!tls13 || size > 40);
    return 0;
}
