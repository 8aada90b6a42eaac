/*
 * One line of the log, as logfmt or JSON:
 *
 *   time=2026-01-31T23:59:59.123Z level=info event=listening address=127.0.0.1:3128
 *   {"time":"2026-01-31T23:59:59.123Z","level":"info","event":"listening","address":"127.0.0.1:3128"}
 *
 * Values come from anywhere, so whatever they hold, a line stays one line, a field stays one field and a terminal stays
 * unharmed. UTF-8 passes; control characters and bytes that are not UTF-8 do not. A field that does not fit is left out
 * as a whole, never cut in half, so JSON stays JSON.
 */
#include "base/log_line.h"

#include "base/must.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    VALUE_BYTES = 512,
    LINE_ROOM = LOG_LINE_BYTES - 2, /* "}" and the newline always find room */
};

static void put(struct log_line *line, const char *text, size_t len)
{
    if (line->full || len > LINE_ROOM - line->len) {
        line->full = true;
        return;
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void PRINTF_LIKE(2, 3) put_format(struct log_line *line, const char *format, ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    must(len >= 0 && (size_t)len < sizeof(text));
    put(line, text, (size_t)len);
}

/* The length of the UTF-8 character at `at` (RFC 3629 section 4), 0 when there is none. */
static size_t utf8_len(const unsigned char *at, size_t left)
{
    size_t len = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;

    if (len > left) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xed && at[1] > 0x9f;
    bool beyond = at[0] == 0xf4 && at[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : len;
}

/* C0 and DEL, and C1 which some terminals obey as well. */
static bool is_control(const unsigned char *at, size_t len)
{
    return (len == 1 && (at[0] < 0x20 || at[0] == 0x7f)) || (len == 2 && at[0] == 0xc2 && at[1] < 0xa0);
}

/* Inside quotes; the escapes are JSON's (RFC 8259 section 7), which readers of logfmt know too. A byte that is not
 * UTF-8 becomes the replacement character. */
static void put_escaped(struct log_line *line, struct slice s)
{
    const unsigned char *at = (const unsigned char *)s.ptr;

    for (size_t i = 0, len; i<s.len; i += len> 0 ? len : 1) {
        len = utf8_len(at + i, s.len - i);
        if (len == 0) {
            put(line, "\\ufffd", 6);
        } else if (at[i] == '"' || at[i] == '\\') {
            put_format(line, "\\%c", at[i]);
        } else if (at[i] == '\n' || at[i] == '\r' || at[i] == '\t') {
            put_format(line, "\\%c", at[i] == '\n' ? 'n' : at[i] == '\r' ? 'r' : 't');
        } else if (is_control(at + i, len)) {
            put_format(line, "\\u%04x", len == 1 ? at[i] : at[i + 1]); /* U+0080 to U+009f are c2 80 to c2 9f */
        } else {
            put(line, s.ptr + i, len);
        }
    }
}

static bool is_plain(struct slice s)
{
    const unsigned char *at = (const unsigned char *)s.ptr;

    for (size_t i = 0, len; i < s.len; i += len) {
        len = utf8_len(at + i, s.len - i);
        if (len == 0 || is_control(at + i, len) || strchr(" \"=\\", at[i]) != NULL) {
            return false;
        }
    }
    return s.len > 0;
}

/* At most VALUE_BYTES, without half a character at the end. */
static struct slice cut_value(struct slice s)
{
    if (s.len > VALUE_BYTES) {
        s.len = VALUE_BYTES;
        for (int i = 0; i < 3 && ((unsigned char)s.ptr[s.len] & 0xc0) == 0x80; i++) {
            s.len--;
        }
    }
    return s;
}

static void put_value(struct log_line *line, struct slice s)
{
    struct slice cut = cut_value(s);

    if (line->format == LOG_LOGFMT && cut.len == s.len && is_plain(s)) {
        put(line, s.ptr, s.len);
        return;
    }
    put(line, "\"", 1);
    put_escaped(line, cut);
    if (cut.len < s.len) {
        put(line, "...", 3);
    }
    put(line, "\"", 1);
}

static void put_name(struct log_line *line, const char *name)
{
    bool json = line->format == LOG_JSON;

    if (line->len > 0) {
        put(line, json ? "," : " ", 1);
    } else if (json) {
        put(line, "{", 1);
    }
    put(line, json ? "\"" : "", json ? 1 : 0);
    put(line, name, strlen(name));
    put(line, json ? "\":" : "=", json ? 2 : 1);
}

static void put_field(struct log_line *line, const struct log_field *field)
{
    size_t len = line->len;
    struct slice text = field->text;

    if (field->kind == LOG_KIND_STR) {
        if (text.ptr == NULL) {
            return; /* not known, not said */
        }
        text = slice_of(text.ptr);
    }
    put_name(line, field->name);
    if (field->kind == LOG_KIND_INT) {
        put_format(line, "%" PRId64, field->number);
    } else {
        put_value(line, text);
    }
    if (line->full) {
        line->len = len;
    }
}

/* RFC 3339 section 5.6, UTC. */
static void put_time(struct log_line *line, struct wall now)
{
    time_t seconds = (time_t)(now.us / CLOCK_SECOND_US);
    struct tm tm;
    char text[40];

    must(gmtime_r(&seconds, &tm) != NULL);
    size_t len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    must(len > 0);
    snprintf(text + len, sizeof(text) - len, ".%03dZ", (int)(now.us % CLOCK_SECOND_US / CLOCK_MS_US));
    put_field(line, &LOG_STR("time", text));
}

void log_line_compose(struct log_line *line, enum log_format format, struct wall now, enum log_level level,
                      const char *event, const struct log_field *fields)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};

    line->format = format;
    line->len = 0;
    line->full = false;
    put_time(line, now);
    put_field(line, &LOG_STR("level", names[level]));
    put_field(line, &LOG_STR("event", event));
    for (; fields->kind != LOG_KIND_END; fields++) {
        put_field(line, fields);
        line->full = false; /* a shorter one may still fit */
    }
    if (line->format == LOG_JSON) {
        line->text[line->len++] = '}';
    }
    line->text[line->len++] = '\n';
}
