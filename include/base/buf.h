#ifndef SLUICE_BASE_BUF_H
#define SLUICE_BASE_BUF_H
/* Bytes on their way: appended at the end, consumed from the front. Zero-initialised memory is an empty buf. */
#include "base/must.h"

#include <stddef.h>

struct buf {
    char *data;   /* owned; NULL while nothing was ever added */
    size_t start; /* first byte not yet consumed */
    size_t end;   /* one past the last byte */
    size_t cap;
};

static inline size_t buf_len(const struct buf *b)
{
    return b->end - b->start;
}
static inline const char *buf_ptr(const struct buf *b)
{
    return b->data + b->start;
}
void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_add_str(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
/* Room for `len` more bytes at the end; write there, then buf_grew(). */
char *buf_reserve(struct buf *b, size_t len);
void buf_grew(struct buf *b, size_t len);
/* Drops `len` bytes from the front; the memory goes when the last byte does. */
void buf_consume(struct buf *b, size_t len);
void buf_fini(struct buf *b);

#endif
