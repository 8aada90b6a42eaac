#ifndef SLUICE_APP_APP_H
#define SLUICE_APP_APP_H
/* The program between its options and its exit code: everything is made, runs, and is taken apart. */
#include "conf/policy.h"

#ifndef SLUICE_VERSION
#define SLUICE_VERSION "0.1.0"
#endif

/* Runs until a signal ends it. Takes `conf`, which was read from `file`; the exit code. */
int app_run(struct conf *conf, const char *file);
/* What `--check` does: says what would happen, and whether all files that are named can be read. Takes `conf`. */
int app_check(struct conf *conf);

enum { APP_BAD_CONFIG = 2 }; /* exit code */

#endif
