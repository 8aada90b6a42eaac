/*
 * llhttp would read trailers as if they were part of the head, and let a Content-Length there end in an error although
 * the message is over; here they are only lines.
 */
#include "trailers.h"

#include "chars.h"
#include "hop.h"

#include <string.h>

/* RFC 9110 section 7.6.1 speaks of header and trailer fields alike. */
static bool is_nominated(struct slice name, struct slice nominees)
{
    struct slice nominee;

    while (slice_next_element(&nominees, &nominee)) {
        if (slice_equal_nocase(name, nominee)) {
            return true;
        }
    }
    return false;
}

static bool read_line(struct slice line, struct slice nominees, struct buf *out)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    struct slice name, value;

    if (colon == NULL) {
        return false;
    }
    name = (struct slice){line.ptr, (size_t)(colon - line.ptr)};
    value = slice_trim((struct slice){colon + 1, line.len - name.len - 1});
    if (!chars_is_token(name)) {
        return false;
    }
    if (hop_is_trailer(name) && !is_nominated(name, nominees)) {
        buf_add(out, name.ptr, name.len);
        buf_add(out, ": ", 2);
        buf_add(out, value.ptr, value.len);
        buf_add(out, "\r\n", 2);
    }
    return true;
}

bool trailers_read(struct slice section, struct slice nominees, struct buf *out)
{
    const char *at = section.ptr, *end = section.ptr + section.len;

    while (end - at > 2) {
        const char *cr = memchr(at, '\r', (size_t)(end - at));
        if (!read_line((struct slice){at, (size_t)(cr - at)}, nominees, out)) {
            return false;
        }
        at = cr + 2;
    }
    return true;
}
