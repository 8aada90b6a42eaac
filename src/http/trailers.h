#ifndef SLUICE_HTTP_TRAILERS_H
#define SLUICE_HTTP_TRAILERS_H
/* The trailer section of a chunked body (RFC 9112 section 7.1.2). */
#include "base/buf.h"
#include "base/str.h"

/* Reads a whole section, blank line included, each line ending in CR LF; adds the fields that may be passed on to `out`
 * as "Name: value\r\n" lines. `nominees` is a list of those that the head's Connection named, which may not. False when
 * a line is no field. */
bool trailers_read(struct slice section, struct slice nominees, struct buf *out);

#endif
