#ifndef SLUICE_CONF_DRAFT_H
#define SLUICE_CONF_DRAFT_H
/* A settings file taken apart: its sections and the entries in each, names checked, values not yet looked at. */
#include "conf/keys.h"
#include "conf/report.h"

#include <stdbool.h>
#include <stddef.h>

struct entry {
    const struct key *key;
    struct slice value; /* in the text that was read */
    unsigned line;
};

struct section {
    enum key_scope scope;
    bool ignored; /* its header was refused; keys in it are skipped */
    unsigned line;
    char *title; /* "destination edgar" */
    char *label; /* "edgar", where the kind takes a name */
    struct entry *entries;
    size_t count, cap;
};

struct section_name; /* for finding one that is there twice */

struct draft {
    struct report *report;
    struct section **sections; /* in the order of the file */
    size_t count, cap;
    struct section_name *names;
};

/* Empty, for the reader to fill. Every mistake of form, and every unknown, misplaced or repeated name, is reported. */
void draft_init(struct draft *draft, struct report *report);
void draft_fini(struct draft *draft);

/* The section of that kind that is there once at most, or NULL. */
const struct section *draft_find(const struct draft *draft, enum key_scope scope);
/* The line a key of the section is set on, or 0; `section` may be NULL. */
unsigned section_line_of(const struct section *section, const char *key);

/* What the reader calls. */
/* A header "[title]" with the brackets off; the index to name it by. */
size_t draft_open(struct draft *draft, struct slice title, unsigned line);
/* A header that cannot be read: what follows belongs nowhere. */
size_t draft_open_ignored(struct draft *draft, unsigned line);
/* `section` NULL: before any header. */
void draft_add(struct draft *draft, struct section *section, const char *name, struct slice value, unsigned line);

#endif
