#ifndef SLUICE_HTTP_HEAD_H
#define SLUICE_HTTP_HEAD_H
/* What the bytes of a head say: start line, fields, framing. */
#include "grammar.h"
#include "http/parse.h"

/* A start line without its CR LF; for section_kind.first_line. */
enum parse_error head_check_request_line(struct slice line);
enum parse_error head_check_status_line(struct slice line);

/* A whole response head without the whitespace between a field's name and its colon, which a proxy must not pass on (RFC
 * 9112 section 5.1). Answers the new length. */
size_t head_close_names(char *head, size_t len);

/* Fills in a message that has only `head` and `head_bytes`; the head holds `fields_count` field lines. `to_head`: it
 * answers a HEAD request. `g` has just begun, and is ready for a chunked body afterwards. */
enum parse_error head_read_request(struct grammar *g, struct message *m, unsigned fields_count);
enum parse_error head_read_response(struct grammar *g, struct message *m, unsigned fields_count, bool to_head);

#endif
