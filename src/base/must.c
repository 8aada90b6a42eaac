#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>

void must_fail(const char *what, const char *file, int line, const char *function)
{
    fprintf(stderr, "sluice: broken invariant in %s (%s:%d): %s\n", function, file, line, what);
    abort();
}
