/*
 * How much a third party says is left: plain numbers of several kinds, and the fields that the IETF's draft has had in
 * its versions. Strict: one error voids the whole field (RFC 9651 section 1.1), as a half-read budget is a wrong one.
 */
#include "http/budget.h"

#include "http/chars.h"
#include "http/when.h"

#include <string.h>

/* ---- what is left ---- */

static bool read_whole(struct slice text, int64_t *out)
{
    int64_t millionths;

    if (!when_decimal(text, &millionths)) {
        return false;
    }
    *out = millionths / CLOCK_SECOND_US;
    return true;
}

bool budget_remaining(struct slice value, int64_t *out)
{
    const char *equals = memrchr(value.ptr, '=', value.len);
    struct slice text = value;
    int64_t used, all;

    if (equals != NULL) {
        text = (struct slice){equals + 1, value.len - (size_t)(equals + 1 - value.ptr)};
    }
    const char *slash = memchr(text.ptr, '/', text.len);
    if (slash == NULL) {
        bool negative = text.len > 1 && text.ptr[0] == '-';
        if (equals != NULL || !read_whole(negative ? (struct slice){text.ptr + 1, text.len - 1} : text, out)) {
            return false;
        }
        *out = negative ? 0 : *out;
        return true;
    }
    struct slice before = {text.ptr, (size_t)(slash - text.ptr)};
    struct slice after = {slash + 1, text.len - before.len - 1};
    if (!read_whole(before, &used) || !read_whole(after, &all)) {
        return false;
    }
    *out = all > used ? all - used : 0;
    return true;
}

/* ---- the IETF fields ---- */

static bool take_mark(struct slice *text, char mark)
{
    if (text->len == 0 || text->ptr[0] != mark) {
        return false;
    }
    text->ptr++;
    text->len--;
    return true;
}

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || chars_is_digit((unsigned char)c) || c == '_' ||
           c == '-' || c == '.' || c == '*';
}

static void skip_blanks(struct slice *text)
{
    while (text->len > 0 && (text->ptr[0] == ' ' || text->ptr[0] == '\t')) {
        text->ptr++;
        text->len--;
    }
}

static struct slice take_key(struct slice *text)
{
    struct slice key = {text->ptr, 0};

    while (key.len < text->len && is_key_char(text->ptr[key.len])) {
        key.len++;
    }
    text->ptr += key.len;
    text->len -= key.len;
    return key;
}

/* A string or a byte sequence: from one mark to the next. */
static bool skip_quoted(struct slice *text, char mark)
{
    size_t i = 1;

    while (i < text->len && text->ptr[i] != mark) {
        i += text->ptr[i] == '\\' && mark == '"' ? 2 : 1;
    }
    if (i >= text->len) {
        return false;
    }
    text->ptr += i + 1;
    text->len -= i + 1;
    return true;
}

/* The value behind "=": a number, or anything else that is one token, a string or bytes. */
static bool take_value(struct slice *text, bool *is_number, int64_t *number)
{
    *is_number = false;
    if (text->len > 0 && (text->ptr[0] == '"' || text->ptr[0] == ':')) {
        return skip_quoted(text, text->ptr[0]);
    }
    bool negative = take_mark(text, '-');
    struct slice word = take_key(text);
    *is_number = read_whole(word, number);
    *number = negative && *is_number ? 0 : *number;
    return word.len > 0;
}

static void note(struct budget_item *item, struct slice key, int64_t number)
{
    if (slice_is(key, "r") || slice_is_nocase(key, "remaining")) {
        item->remaining = number;
    } else if (slice_is(key, "t") || slice_is_nocase(key, "reset") || slice_is_nocase(key, "resets")) {
        item->reset_us = number > WHEN_FOREVER_US / CLOCK_SECOND_US ? WHEN_FOREVER_US : number * CLOCK_SECOND_US;
    }
}

/* key, or key=value */
static bool take_pair(struct slice *text, struct budget_item *item)
{
    struct slice key = take_key(text);
    bool is_number = true;
    int64_t number = 0;

    skip_blanks(text);
    if (key.len == 0) {
        return false;
    }
    if (!take_mark(text, '=')) {
        return true;
    }
    skip_blanks(text);
    if (!take_value(text, &is_number, &number)) {
        return false;
    }
    if (is_number) {
        note(item, key, number);
    }
    skip_blanks(text);
    return true;
}

static bool is_said(const struct budget_item *item)
{
    return item->remaining >= 0 && item->reset_us >= 0;
}

unsigned budget_items(struct slice text, struct budget_item *out, unsigned most)
{
    static const struct budget_item nothing = {-1, -1};
    struct budget_item item = nothing;
    unsigned count = 0;

    for (skip_blanks(&text); text.len > 0;) {
        bool named = text.ptr[0] == '"';
        if (named) { /* a new policy; without a name, commas separate parts of the one there is */
            item = nothing;
        }
        if (named ? !skip_quoted(&text, '"') : !take_pair(&text, &item)) {
            return 0;
        }
        for (skip_blanks(&text); take_mark(&text, ';'); skip_blanks(&text)) {
            skip_blanks(&text);
            if (!take_pair(&text, &item)) {
                return 0;
            }
        }
        if (text.len > 0 && !take_mark(&text, ',')) {
            return 0;
        }
        skip_blanks(&text);
        if (is_said(&item) && count < most) {
            out[count++] = item;
            item = nothing;
        }
    }
    return count;
}
