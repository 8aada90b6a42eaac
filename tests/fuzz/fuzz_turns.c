/* links: src/upstream/turns.c src/upstream/hello.c src/base/buf.c src/base/mem.c src/base/must.c */
/* A tunnel's bytes in both directions: each piece is a byte (high bit: the server speaks; else its length), then bytes.
 * Never may more pass than came, nor may the server's first word after a turn fail to make the next one count. */
#include "upstream/turns.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void caller(struct turns *t, struct buf *held)
{
    enum turns_want want = TURNS_PASSED;
    int hellos = 0;

    while (buf_len(held) > 0 && want != TURNS_MORE) {
        size_t n = turns_caller(t, buf_ptr(held), buf_len(held), &want);
        must(n <= buf_len(held));
        must(want != TURNS_PASSED || n == buf_len(held));
        must(want != TURNS_HELLO || ++hellos == 1);
        buf_consume(held, n);
        if (want == TURNS_TURN) {
            must(t->spoken);
            turns_grant(t);
            n = turns_caller(t, buf_ptr(held), buf_len(held), &want);
            must(n > 0 && n <= buf_len(held)); /* a granted turn moves on */
            buf_consume(held, n);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct turns t;
    struct buf held = {0};
    size_t at = 0;

    turns_init(&t);
    while (at < size) {
        uint8_t head = data[at++];
        size_t len = head & 0x7f;
        len = len < size - at ? len : size - at;
        if (head & 0x80) {
            turns_server(&t, data + at, len);
        } else {
            buf_add(&held, data + at, len);
            caller(&t, &held);
        }
        at += len;
    }
    buf_fini(&held);
    turns_fini(&t);
    return 0;
}
