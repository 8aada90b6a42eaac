#ifndef SLUICE_BASE_MUST_H
#define SLUICE_BASE_MUST_H
/*
 * Asserts that stay on in release builds. They catch our own mistakes only: no byte from a caller,
 * an upstream, Redis or a file may ever be the reason for one.
 */
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* Aborts with a message on standard error when `x` is false. */
#define must(x) ((x) ? (void)0 : must_fail(#x, __FILE__, __LINE__, __func__))
/* A branch that can't be reached. */
#define wrong(why) must_fail(why, __FILE__, __LINE__, __func__)

/* Long-lived structs start with `uint32_t magic`; callbacks that take a void * check it. */
#define must_be(ptr, expected) must((ptr) != NULL && (ptr)->magic == (expected))

_Noreturn void must_fail(const char *what, const char *file, int line, const char *function);

/* The struct of `type` whose member `member` is at `ptr`. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
