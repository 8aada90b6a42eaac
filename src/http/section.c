/*
 * One pass over every byte of a head, before any grammar (RFC 9112 section 2.2):
 *
 *   - a line ends with CR LF; a CR or an LF on its own is refused, since one reader takes it for the end of a line and
 *     the next doesn't, and between the two a whole request can hide (CVE-2023-30589, CVE-2025-23167);
 *   - control bytes are refused, NUL first of all; bytes above 0x7f are not (obs-text);
 *   - a line that begins with a space or tab would continue the one before (obs-fold, section 5.2): refused;
 *   - size and number of lines are bounded before memory is spent on them.
 *
 * The verdict depends on the bytes alone and never on the pieces they came in: faults are found in the order of bytes,
 * and a limit takes effect at the byte that exceeds it.
 *
 * Most heads come in one piece. They are looked at where they lie and copied once, at their end, into memory of their
 * size. Only a head that is not whole yet is kept in a buffer that grows.
 */
#include "section.h"

#include "base/mem.h"
#include "chars.h"

#include <string.h>

enum { LEAST_ROOM_BYTES = 512 };

static void keep(struct section *s, const char *in, size_t len, bool exact)
{
    size_t needed = s->kept + len;

    if (needed > s->room || exact) {
        s->room = exact || needed > s->room * 2 ? needed : s->room * 2;
        if (!exact && s->room < LEAST_ROOM_BYTES) {
            s->room = LEAST_ROOM_BYTES;
        }
        s->bytes = mem_realloc(s->bytes, s->room);
    }
    memcpy(s->bytes + s->kept, in, len);
    s->kept = needed;
}

/* A byte inside a line. */
static enum parse_error look_at(struct section *s, const struct section_kind *kind, unsigned char c)
{
    bool first = s->lines == 0 && kind->first_line != NULL;

    if (s->cr) {
        return kind->line_ends;
    }
    if (c == '\r') {
        s->cr = true;
        return PARSE_OK;
    }
    if (chars_is_control(c)) {
        return first ? kind->first_control : kind->control;
    }
    if (s->column == 0 && !first && (c == ' ' || c == '\t')) {
        return kind->fold;
    }
    s->column++;
    return PARSE_OK;
}

/* Up to the end of a line or of the input; answers the number of bytes. */
static size_t look_at_line(struct section *s, const struct section_kind *kind, const char *in, size_t len)
{
    const char *lf = memchr(in, '\n', len);
    size_t text = lf != NULL ? (size_t)(lf - in) : len;
    size_t i = 0;

    while (i < text) {
        s->error = look_at(s, kind, (unsigned char)in[i]);
        if (s->error != PARSE_OK) {
            return i;
        }
        i++;
        if (s->cr || s->column == 0) {
            continue;
        }
        size_t from = i;
        while (i < text && !chars_is_control((unsigned char)in[i])) {
            i++;
        }
        s->column += i - from;
    }
    if (lf == NULL) {
        return text;
    }
    if (!s->cr) {
        s->error = kind->line_ends;
    }
    return text + 1;
}

static void end_line(struct section *s, const struct section_kind *kind, const struct parse_limits *limits)
{
    unsigned fields;

    s->whole = s->column == 0;
    s->lines += s->whole ? 0 : 1;
    s->column = 0;
    s->cr = false;
    fields = s->lines - (kind->first_line != NULL && s->lines > 0 ? 1 : 0);
    if (fields > limits->max_fields) {
        s->error = kind->too_many;
    }
}

/* `len` bytes of `in` are looked at and end a line, the first one. Answers how many of them it kept. */
static size_t end_first_line(struct section *s, const struct section_kind *kind, const char *in, size_t len)
{
    size_t kept = 0;

    if (s->kept > 0) {
        keep(s, in, len, false);
        kept = len;
    }
    s->error = kind->first_line((struct slice){s->kept > 0 ? s->bytes : in, s->total - 2});
    return kept;
}

size_t section_take(struct section *s, const struct section_kind *kind, const struct parse_limits *limits,
                    const char *in, size_t len)
{
    size_t most = limits->max_head_bytes > s->total ? limits->max_head_bytes - s->total : 0;
    size_t end = len < most ? len : most;
    size_t done = 0, kept = 0;

    while (done < end && !s->whole && s->error == PARSE_OK) {
        size_t n = look_at_line(s, kind, in + done, end - done);
        done += n;
        s->total += n;
        if (s->error != PARSE_OK || n == 0 || in[done - 1] != '\n') {
            continue;
        }
        if (s->lines == 0 && kind->first_line != NULL) {
            kept = end_first_line(s, kind, in, done);
        }
        if (s->error == PARSE_OK) {
            end_line(s, kind, limits);
        }
    }
    if (s->error == PARSE_OK && !s->whole && len > most) {
        s->error = s->lines == 0 ? kind->first_too_long : kind->too_long;
    }
    if (s->error == PARSE_OK) {
        keep(s, in + kept, done - kept, s->whole);
    }
    return done;
}

char *section_give(struct section *s)
{
    char *bytes = s->bytes;

    *s = (struct section){0};
    return bytes;
}

void section_fini(struct section *s)
{
    mem_free(s->bytes);
    *s = (struct section){0};
}
