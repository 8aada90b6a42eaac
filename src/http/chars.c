#include "chars.h"

enum { TOKEN = 1, HOST = 2, BOTH = TOKEN | HOST };

/* RFC 9110 section 5.6.2 (tchar) and RFC 3986 section 3.2 (host and port). The comma is a sub-delim, but a Host with
 * one in it is two Hosts to whoever joins lists, so it isn't let through. */
static const unsigned char classes[256] = {
    ['0' ... '9'] = BOTH, ['A' ... 'Z'] = BOTH, ['a' ... 'z'] = BOTH, ['!'] = BOTH,  ['#'] = TOKEN,
    ['$'] = BOTH,         ['%'] = BOTH,         ['&'] = BOTH,         ['\''] = BOTH, ['*'] = BOTH,
    ['+'] = BOTH,         ['-'] = BOTH,         ['.'] = BOTH,         ['^'] = TOKEN, ['_'] = BOTH,
    ['`'] = TOKEN,        ['|'] = TOKEN,        ['~'] = BOTH,         ['('] = HOST,  [')'] = HOST,
    [';'] = HOST,         ['='] = HOST,         [':'] = HOST,         ['['] = HOST,  [']'] = HOST,
};

static bool all_are(struct slice s, unsigned char wanted)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!(classes[(unsigned char)s.ptr[i]] & wanted)) {
            return false;
        }
    }
    return true;
}

bool chars_is_token(struct slice s)
{
    return s.len > 0 && all_are(s, TOKEN);
}

bool chars_is_visible(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c <= 0x20 || c >= 0x7f) {
            return false;
        }
    }
    return s.len > 0;
}

bool chars_is_host(struct slice s)
{
    return all_are(s, HOST);
}
