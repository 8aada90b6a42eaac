/*
 * Lines for inih.
 *
 * inih as Debian builds it works in a buffer of 200 bytes: it cuts longer lines and takes the rest for new ones, even
 * the rest of a comment; cuts section names at 49 bytes; stops a header at its first ']' (so not at that of [::1]);
 * takes an indented line for another value of the key before; drops what follows " ;"; and tells its handler no line
 * number. It does all that without an error. So it is never shown the file. read_line() takes whole physical lines,
 * checks them, and hands inih a line that none of the above can happen to:
 *
 *     [destination a-very-long-name.example.com]   becomes   [0]       index of the section
 *         rate = 10/s                              becomes   rate=17   number of the line, whose value is kept here
 *
 * inih calls the handler for a line before it asks for the next one, so the value of the line asked for last is enough.
 *
 * Accepted: UTF-8 with or without a byte order mark, lines ending in LF or CR LF. Everything else that an editor may
 * leave behind (UTF-16, NUL, control characters, a lone CR) is named and refused, for it is invisible to whoever looks
 * for it.
 */
#include "conf/reader.h"

#include <ini.h>
#include <stdio.h>
#include <string.h>

/* Room for a list of some hundred hosts. */
#define LINE_BYTES_MAX 16384
/* Far from what inih cuts; no key is half as long. */
#define NAME_BYTES_MAX 60

struct reader {
    struct draft *draft;
    struct slice left; /* not yet read */
    unsigned line;
    struct slice value; /* of the line last handed out */
};

static void refuse(const struct reader *reader, const char *why)
{
    struct place place = {reader->draft->report, reader->line, NULL, NULL};

    report_error(&place, "%s", why);
}

/* The length of the character at `s`, 0 when it is not UTF-8 (RFC 3629 section 4). */
static size_t utf8_bytes(struct slice s)
{
    const unsigned char *b = (const unsigned char *)s.ptr;
    size_t len = b[0] < 0x80 ? 1 : b[0] >= 0xc2 && b[0] <= 0xdf ? 2 : (b[0] & 0xf0) == 0xe0 ? 3 : 4;

    if (b[0] > 0xf4 || (b[0] >= 0x80 && b[0] < 0xc2) || len > s.len) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((b[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) || (b[0] == 0xf0 && b[1] < 0x90) ||
        (b[0] == 0xf4 && b[1] > 0x8f)) {
        return 0;
    }
    return len;
}

static const char *bad_byte(char byte)
{
    if (byte == '\0') {
        return "a NUL byte; is this a text file?";
    }
    if (byte == '\r') {
        return "a carriage return inside the line; lines end in LF or CR LF";
    }
    if (((unsigned char)byte < ' ' && byte != '\t') || byte == 0x7f) {
        return "a control character";
    }
    return NULL;
}

/* What is wrong with the bytes of a line, or NULL. */
static const char *bad_bytes(struct slice line)
{
    if (line.len > LINE_BYTES_MAX) {
        return "the line is longer than 16384 bytes";
    }
    while (line.len > 0) {
        const char *why = bad_byte(line.ptr[0]);
        size_t len = why == NULL ? utf8_bytes(line) : 0;

        if (len == 0) {
            return why != NULL ? why : "bytes that are not UTF-8";
        }
        line.ptr += len;
        line.len -= len;
    }
    return NULL;
}

/* The next physical line, without its end. */
static bool next_line(struct reader *reader, struct slice *line)
{
    struct slice *left = &reader->left;

    if (left->len == 0) {
        return false;
    }
    const char *end = memchr(left->ptr, '\n', left->len);
    *line = (struct slice){left->ptr, end != NULL ? (size_t)(end - left->ptr) : left->len};
    size_t used = end != NULL ? line->len + 1 : line->len;
    left->ptr += used;
    left->len -= used;
    if (line->len > 0 && line->ptr[line->len - 1] == '\r') {
        line->len--;
    }
    reader->line++;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_comment_mark(char c)
{
    return c == ';' || c == '#';
}

/* "10/s ; why": many take this for a comment, and a parser that doesn't would take it for the value. */
static bool has_trailing_comment(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (is_comment_mark(text.ptr[i]) && (i == 0 || is_blank(text.ptr[i - 1]))) {
            return true;
        }
    }
    return false;
}

static size_t open_section(struct reader *reader, struct slice line)
{
    const char *why = NULL;

    if (has_trailing_comment(line)) {
        why = "comments go on lines of their own";
    } else if (memchr(line.ptr, ']', line.len) == NULL) {
        why = "the section's closing ] is missing";
    } else if (line.ptr[line.len - 1] != ']') {
        why = "nothing may follow a section's closing ]";
    }
    if (why != NULL) {
        refuse(reader, why);
        return draft_open_ignored(reader->draft, reader->line);
    }
    return draft_open(reader->draft, slice_trim((struct slice){line.ptr + 1, line.len - 2}), reader->line);
}

static bool is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) {
            return false;
        }
    }
    return name.len > 0 && name.len <= NAME_BYTES_MAX;
}

static const char *bad_value(struct slice value)
{
    if (value.len == 0) {
        return "the value is empty; leave the line out to keep the default";
    }
    if (has_trailing_comment(value)) {
        return "comments go on lines of their own";
    }
    if (value.len > 1 && (value.ptr[0] == '"' || value.ptr[0] == '\'') && value.ptr[value.len - 1] == value.ptr[0]) {
        return "values are written without quotes";
    }
    return NULL;
}

static void refuse_value(const struct reader *reader, struct slice name, const char *why)
{
    const struct draft *draft = reader->draft;
    const struct section *section = draft->count > 0 ? draft->sections[draft->count - 1] : NULL;

    if (section == NULL || section->title == NULL) {
        refuse(reader, why);
        return;
    }
    char key[NAME_BYTES_MAX + 1];
    (void)snprintf(key, sizeof key, "%.*s", (int)name.len, name.ptr);
    report_error(&(struct place){draft->report, reader->line, section->title, key}, "%s", why);
}

/* Splits "name = value"; false when the line is refused. */
static bool split_pair(struct reader *reader, struct slice line, struct slice *name)
{
    const char *equals = memchr(line.ptr, '=', line.len);

    if (equals == NULL) {
        refuse(reader, "neither a [section] nor key = value");
        return false;
    }
    *name = slice_trim((struct slice){line.ptr, (size_t)(equals - line.ptr)});
    reader->value = slice_trim((struct slice){equals + 1, line.len - (size_t)(equals - line.ptr) - 1});
    if (!is_name(*name)) {
        refuse(reader, "what stands before = is not a key; keys are letters, digits and underscores");
        return false;
    }
    const char *why = bad_value(reader->value);
    if (why != NULL) {
        refuse_value(reader, *name, why);
    }
    return why == NULL;
}

/* fgets() for inih: the next line that says something. */
static char *read_line(char *out, int size, void *stream)
{
    struct reader *reader = stream;
    struct slice line, name;

    while (next_line(reader, &line)) {
        const char *why = bad_bytes(line);
        line = slice_trim(line);
        if (why != NULL) {
            refuse(reader, why);
        } else if (line.len == 0 || is_comment_mark(line.ptr[0])) {
            continue;
        } else if (line.ptr[0] == '[') {
            (void)snprintf(out, (size_t)size, "[%zu]\n", open_section(reader, line));
            return out;
        } else if (split_pair(reader, line, &name)) {
            (void)snprintf(out, (size_t)size, "%.*s=%u\n", (int)name.len, name.ptr, reader->line);
            return out;
        }
    }
    return NULL;
}

static int on_entry(void *user, const char *alias, const char *name, const char *line)
{
    struct reader *reader = user;
    struct section *section = NULL;
    uint64_t number;

    must(str_parse_u64(slice_of(line), &number) && number == reader->line);
    if (alias[0] != '\0') {
        must(str_parse_u64(slice_of(alias), &number) && number < reader->draft->count);
        section = reader->draft->sections[number];
    }
    draft_add(reader->draft, section, name, reader->value, reader->line);
    return 1;
}

static bool starts_with(struct slice text, const char *bytes, size_t len)
{
    return text.len >= len && memcmp(text.ptr, bytes, len) == 0;
}

void reader_run(struct draft *draft, struct slice text)
{
    struct reader reader = {draft, text, 0, {NULL, 0}};

    if (starts_with(text, "\xff\xfe", 2) || starts_with(text, "\xfe\xff", 2)) {
        refuse(&reader, "the file is UTF-16; save it as UTF-8");
        return;
    }
    if (starts_with(text, "\xef\xbb\xbf", 3)) {
        reader.left = (struct slice){text.ptr + 3, text.len - 3};
    }
    if (ini_parse_stream(read_line, &reader, on_entry, &reader) != 0) {
        refuse(&reader, "the INI parser gave up");
    }
}
