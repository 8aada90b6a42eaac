/*
 * Whose turn it is, as a file says it:
 *
 *   fair_by = proxy_user, header:X-Team, client_ip         the first that a request has
 *   fair_weights = checkout=4, 10.0.0.7=2                  by the value of that
 *   priority_high = proxy_user=web, header:X-Priority=interactive, path=/v1/chat*
 */
#include "conf/value.h"

#include "base/mem.h"
#include "conf/build.h"

#include <string.h>

enum { WEIGHT_MOST = 1000, TERMS_MOST = 1000 };

static const struct {
    const char *word;
    enum order_by by;
    bool named; /* header:NAME */
    enum { WHO = 1, WHICH = 2 } use;
} words[] = {{"proxy_user", BY_PROXY_USER, false, WHO | WHICH},
             {"client_ip", BY_CLIENT_IP, false, WHO},
             {"header", BY_HEADER, true, WHO | WHICH},
             {"path", BY_PATH, false, WHICH}};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

/* Cuts `text` at the first `mark`; what is behind it, or a NULL slice. */
static struct slice cut(struct slice *text, char mark)
{
    const char *at = text->len > 0 ? memchr(text->ptr, mark, text->len) : NULL;
    struct slice rest = {NULL, 0};

    if (at != NULL) {
        rest = (struct slice){at + 1, text->len - (size_t)(at + 1 - text->ptr)};
        text->len = (size_t)(at - text->ptr);
    }
    return rest;
}

static bool is_token(struct slice text)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    size_t i = 0;

    while (i < text.len && text.ptr[i] != '\0' && strchr(token, text.ptr[i]) != NULL) {
        i++;
    }
    return text.len > 0 && i == text.len;
}

static char *text_of(struct slice text)
{
    return text.ptr != NULL ? mem_strndup(text.ptr, text.len) : NULL;
}

static bool parse_weight(const struct place *place, struct slice text, struct order_term *out)
{
    struct slice value = text, number = cut(&value, '=');
    uint64_t weight;

    if (number.ptr == NULL || value.len == 0 || !str_parse_u64(number, &weight) || weight < 1 || weight > WEIGHT_MOST) {
        report_error(place, "%.*s is not VALUE=WEIGHT with a weight from 1 to %d, as in checkout=4", REPORT_SHOWN(text),
                     WEIGHT_MOST);
        return false;
    }
    out->value = text_of(value);
    out->weight = (unsigned)weight;
    return true;
}

static bool parse_term(const struct place *place, struct slice text, int use, struct order_term *out)
{
    struct slice word = text;
    struct slice value = use == WHICH ? cut(&word, '=') : (struct slice){NULL, 0};
    struct slice name = cut(&word, ':');

    for (size_t i = 0; i < WORDS; i++) {
        bool fits = slice_is(word, words[i].word) && (words[i].use & use) != 0 &&
                    (words[i].named ? is_token(name) : name.ptr == NULL) && (use == WHO || value.len > 0);
        if (fits) {
            out->by = words[i].by;
            out->name = text_of(name);
            out->value = text_of(value);
            return true;
        }
    }
    report_error(place,
                 use == WHO ? "%.*s is not proxy_user, client_ip or header:NAME"
                            : "%.*s is not proxy_user=NAME, header:NAME=VALUE or path=PATTERN",
                 REPORT_SHOWN(text));
    return false;
}

bool order_set(const struct place *place, const struct key *key, struct slice text, struct order_terms *terms)
{
    struct order_terms made = {NULL, 0};
    struct slice element;
    bool good = true;

    while (slice_next_element(&text, &element) && made.count < TERMS_MOST) {
        struct order_term term = {.weight = 1};
        bool right = key->type == KEY_WEIGHTS ? parse_weight(place, element, &term)
                                              : parse_term(place, element, key->type == KEY_SHARERS ? WHO : WHICH, &term);
        good = good && right;
        if (right) {
            made.list = mem_realloc(made.list, (made.count + 1) * sizeof(made.list[0]));
            made.list[made.count++] = term;
        }
    }
    if (made.count == 0 && good) {
        report_error(place, "the list is empty");
        good = false;
    }
    if (!good) {
        order_terms_fini(&made);
        return false;
    }
    order_terms_fini(terms);
    *terms = made;
    return true;
}

bool order_print(const struct key *key, const struct order_terms *terms, struct buf *out)
{
    for (unsigned i = 0; i < terms->count; i++) {
        const struct order_term *term = &terms->list[i];
        buf_add_str(out, i > 0 ? ", " : "");
        if (key->type == KEY_WEIGHTS) {
            buf_printf(out, "%s=%u", term->value, term->weight);
            continue;
        }
        for (size_t row = 0; row < WORDS; row++) {
            buf_add_str(out, words[row].by == term->by ? words[row].word : "");
        }
        if (term->name != NULL) {
            buf_printf(out, ":%s", term->name);
        }
        if (term->value != NULL) {
            buf_printf(out, "=%s", term->value);
        }
    }
    return terms->count > 0;
}
