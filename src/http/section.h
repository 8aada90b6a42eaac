#ifndef SLUICE_HTTP_SECTION_H
#define SLUICE_HTTP_SECTION_H
/*
 * Lines up to a blank one: a head, or the trailer section of a chunked body. Collects them whatever pieces they come
 * in, and refuses on the way what must never reach a more forgiving reader.
 */
#include "http/parse.h"

/* What to call each fault: they have other names in a head than in a trailer section. */
struct section_kind {
    /* Looks at the first line as soon as it is there; NULL: the first line is a field like all others. */
    enum parse_error (*first_line)(struct slice line);
    enum parse_error line_ends;     /* a CR or LF on its own */
    enum parse_error first_control; /* a control byte in the first line */
    enum parse_error control;       /* in any other */
    enum parse_error fold;
    enum parse_error first_too_long; /* the first line alone is more than there is room for */
    enum parse_error too_long;
    enum parse_error too_many;
};

/* Zero-initialised memory is an empty section. */
struct section {
    char *bytes; /* owned; what came so far, or NULL when nothing had to be kept */
    size_t kept;
    size_t room;
    size_t total;   /* bytes looked at */
    size_t column;  /* of the current line */
    unsigned lines; /* complete ones, without the blank one */
    bool cr;        /* the last byte was a CR */
    bool whole;     /* the blank line came */
    enum parse_error error;
};

/* Takes bytes up to the blank line at most, and answers how many. Then `whole`, or `error`, or everything was taken. */
size_t section_take(struct section *s, const struct section_kind *kind, const struct parse_limits *limits,
                    const char *in, size_t len);
/* The bytes of a whole section in memory of just that size, for the caller to free; the section is empty again. */
char *section_give(struct section *s);
void section_fini(struct section *s);

#endif
