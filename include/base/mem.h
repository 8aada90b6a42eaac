#ifndef SLUICE_BASE_MEM_H
#define SLUICE_BASE_MEM_H
/*
 * Memory that is always there: running out aborts. Caps on connections, waiters and queued bytes make
 * that not happen. Free with mem_free().
 */
#include <stddef.h>

void *mem_alloc(size_t bytes) __attribute__((malloc, returns_nonnull));
/* Zeroed memory. */
void *mem_zalloc(size_t bytes) __attribute__((malloc, returns_nonnull));
void *mem_realloc(void *ptr, size_t bytes) __attribute__((returns_nonnull));
/* A NUL-terminated copy of `len` bytes. */
char *mem_strndup(const char *text, size_t len) __attribute__((malloc, returns_nonnull));
char *mem_strdup(const char *text) __attribute__((malloc, returns_nonnull));
/* A formatted string, owned by the caller. */
char *mem_printf(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
void mem_free(void *ptr);

#endif
