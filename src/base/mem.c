#include "base/mem.h"

#include "base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *ptr)
{
    if (ptr == NULL) {
        wrong("out of memory");
    }
    return ptr;
}

void *mem_alloc(size_t bytes)
{
    return checked(malloc(bytes > 0 ? bytes : 1));
}

void *mem_zalloc(size_t bytes)
{
    return checked(calloc(1, bytes > 0 ? bytes : 1));
}

void *mem_realloc(void *ptr, size_t bytes)
{
    return checked(realloc(ptr, bytes > 0 ? bytes : 1));
}

char *mem_strndup(const char *text, size_t len)
{
    char *copy = mem_alloc(len + 1);

    if (len > 0) {
        memcpy(copy, text, len);
    }
    copy[len] = '\0';
    return copy;
}

char *mem_strdup(const char *text)
{
    return mem_strndup(text, strlen(text));
}

char *mem_printf(const char *format, ...)
{
    va_list args;
    char *text = NULL;

    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    must(len >= 0);
    return checked(text);
}

void mem_free(void *ptr)
{
    free(ptr);
}
