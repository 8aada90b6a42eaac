#ifndef SLUICE_CONF_REPORT_H
#define SLUICE_CONF_REPORT_H
/* Mistakes and warnings found while loading, each with its line of the file, handed out in the order of the file. */
#include "base/err.h"
#include "base/str.h"

struct remark {
    unsigned line; /* 0 = the file as a whole */
    char *text;
};
struct remarks {
    struct remark *list;
    size_t count, cap;
};
struct report {
    const char *name; /* of the file */
    struct remarks errors, warnings;
};
/* Where a remark is about. */
struct place {
    struct report *report;
    unsigned line;
    const char *section; /* "destination edgar"; NULL = outside */
    const char *key;     /* NULL = the section itself */
};

/* A mistake: the file will be refused. */
void report_error(const struct place *place, const char *format, ...) PRINTF_LIKE(2, 3);
void report_warning(const struct place *place, const char *format, ...) PRINTF_LIKE(2, 3);
/* Moves everything into `err` and `warnings` (may be NULL), sorted by line, and frees the rest. */
void report_finish(struct report *report, struct err *err, struct err *warnings);

/* A value from the file cut to what a message can hold, for "%.*s": REPORT_SHOWN(slice). */
int report_shown_bytes(struct slice text);
#define REPORT_SHOWN(s) report_shown_bytes(s), (s).ptr

#endif
