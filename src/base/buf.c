#include "base/buf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BUF_LEAST_BYTES = 512, BUF_PRINTF_BYTES = 128 };

char *buf_reserve(struct buf *b, size_t len)
{
    if (b->cap - b->end >= len && b->data != NULL) {
        return b->data + b->end;
    }
    size_t held = buf_len(b);
    if (b->start >= held && b->cap - held >= len && b->data != NULL) { /* moves less than was consumed */
        memmove(b->data, b->data + b->start, held);
    } else {
        size_t cap = b->cap > 0 ? b->cap : BUF_LEAST_BYTES;
        while (cap < held + len) {
            cap *= 2;
        }
        char *data = mem_alloc(cap);
        if (held > 0) {
            memcpy(data, b->data + b->start, held);
        }
        mem_free(b->data);
        b->data = data;
        b->cap = cap;
    }
    b->start = 0;
    b->end = held;
    return b->data + b->end;
}

void buf_grew(struct buf *b, size_t len)
{
    must(len <= b->cap - b->end);
    b->end += len;
}

void buf_add(struct buf *b, const void *bytes, size_t len)
{
    if (len > 0) {
        memcpy(buf_reserve(b, len), bytes, len);
        b->end += len;
    }
}

void buf_add_str(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *format, ...)
{
    size_t room = BUF_PRINTF_BYTES;

    for (;;) {
        va_list args;
        va_start(args, format);
        int len = vsnprintf(buf_reserve(b, room), room, format, args);
        va_end(args);
        must(len >= 0);
        if ((size_t)len < room) {
            b->end += (size_t)len;
            return;
        }
        room = (size_t)len + 1;
    }
}

void buf_consume(struct buf *b, size_t len)
{
    must(len <= buf_len(b));
    b->start += len;
    if (b->start == b->end) {
        buf_fini(b);
    }
}

void buf_fini(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf){0};
}
