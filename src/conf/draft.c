/*
 * Names: which sections there are, which keys may stand in them, and neither twice.
 *
 * A section whose header is refused stays as an ignored one, so that its keys are neither taken for those of the
 * section before nor reported as misplaced: one mistake, one message.
 */
#include "conf/draft.h"

#include "base/mem.h"

#include <string.h>
#define uthash_malloc(bytes) mem_alloc(bytes)
#define uthash_free(ptr, bytes) mem_free(ptr)
#define uthash_fatal(why) wrong(why)
#include <uthash.h>

struct section_name {
    unsigned line;
    UT_hash_handle hh;
    char name[]; /* lower case: [destination A] and [destination a] are one */
};

static const char *const kinds[] = {"proxy",   "redis",        "default", "destination", "route",
                                    "inbound", "inbound-rule", "admin",   NULL};
static const enum key_scope scopes[] = {IN_PROXY, IN_REDIS,   IN_DEFAULT,      IN_DESTINATION,
                                        IN_ROUTE, IN_INBOUND, IN_INBOUND_RULE, IN_ADMIN};
/* The kinds that take a name. */
#define NAMED (IN_DESTINATION | IN_ROUTE | IN_INBOUND | IN_INBOUND_RULE)

static unsigned kind_index(enum key_scope scope)
{
    unsigned i = 0;

    while (scopes[i] != scope) {
        i++;
    }
    return i;
}

size_t draft_open_ignored(struct draft *draft, unsigned line)
{
    struct section *section = mem_zalloc(sizeof *section);

    section->line = line;
    section->ignored = true;
    if (draft->count == draft->cap) {
        draft->cap = draft->cap * 2 + 8;
        draft->sections = mem_realloc(draft->sections, draft->cap * sizeof(struct section *));
    }
    draft->sections[draft->count] = section;
    return draft->count++;
}

static void refuse_kind(const struct place *place, struct slice kind)
{
    char *name = mem_strndup(kind.ptr, kind.len);
    const char *nearest = str_nearest(name, kinds);
    size_t i = 0;

    while (nearest != NULL && kinds[i] != nearest) {
        i++;
    }
    if (nearest != NULL) {
        report_error(place, "unknown section; did you mean [%s%s]?", nearest, (scopes[i] & NAMED) != 0 ? " NAME" : "");
    } else if (memchr(kind.ptr, '.', kind.len) != NULL) {
        report_error(place, "unknown section; a host's section is [destination %s]", name);
    } else {
        report_error(place, "unknown section; there are [proxy], [redis], [default], [destination NAME], [route NAME], "
                            "[inbound NAME], [inbound-rule NAME] and [admin]");
    }
    mem_free(name);
}

/* Splits "destination edgar" and finds the kind; 0 when there is none such. */
static enum key_scope kind_of(const struct place *place, struct slice title, struct slice *label)
{
    size_t len = 0;

    while (len < title.len && title.ptr[len] != ' ' && title.ptr[len] != '\t') {
        len++;
    }
    struct slice kind = {title.ptr, len};
    *label = slice_trim((struct slice){title.ptr + len, title.len - len});
    for (size_t i = 0; kinds[i] != NULL; i++) {
        if (slice_is(kind, kinds[i])) {
            return scopes[i];
        }
    }
    refuse_kind(place, kind);
    return 0;
}

/* The name is part of a path, of keys in Redis and of header fields. */
static bool is_plain_label(struct slice label)
{
    for (size_t i = 0; i < label.len; i++) {
        char c = label.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr(".-_", c) == NULL)) {
            return false;
        }
    }
    return label.len <= 64;
}

static bool label_fits(const struct place *place, enum key_scope scope, struct slice label)
{
    if ((scope & NAMED) == 0 && label.len > 0) {
        report_error(place, "this section takes no name");
        return false;
    }
    if ((scope & NAMED) != 0 && label.len == 0) {
        report_error(place, "a name is missing: [%s %s]", kinds[kind_index(scope)],
                     scope == IN_DESTINATION ? "api.example.com" : "my-api");
        return false;
    }
    if (slice_is_nocase(label, "default") && scope == IN_DESTINATION) {
        report_error(place, "a destination cannot be named default, that is the name of [default]");
        return false;
    }
    if (slice_is_nocase(label, "default") && scope == IN_INBOUND_RULE) {
        report_error(place, "a rule cannot be named default, that is the name of the [inbound]'s own limit");
        return false;
    }
    if ((scope & (IN_ROUTE | IN_INBOUND | IN_INBOUND_RULE)) != 0 && !is_plain_label(label)) {
        report_error(place, "a name is up to 64 letters, digits and .-_");
        return false;
    }
    return true;
}

/* False when the name was there before. */
static bool claim_name(struct draft *draft, const struct place *place)
{
    size_t len = strlen(place->section);
    struct section_name *name = mem_zalloc(sizeof *name + len + 1), *before;

    for (size_t i = 0; i < len; i++) {
        char c = place->section[i];
        name->name[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    name->line = place->line;
    HASH_FIND(hh, draft->names, name->name, len, before);
    if (before != NULL) {
        report_error(place, "this section is there twice, first on line %u", before->line);
        mem_free(name);
        return false;
    }
    HASH_ADD_KEYPTR(hh, draft->names, name->name, len, name);
    return true;
}

size_t draft_open(struct draft *draft, struct slice title, unsigned line)
{
    size_t index = draft_open_ignored(draft, line);
    struct section *section = draft->sections[index];
    struct slice label;

    section->title = mem_strndup(title.ptr, title.len);
    struct place place = {draft->report, line, section->title, NULL};
    section->scope = kind_of(&place, title, &label);
    if (section->scope == 0 || !label_fits(&place, section->scope, label)) {
        return index;
    }
    section->label = mem_strndup(label.ptr, label.len);
    if (label.len > 0) { /* one space, however many there were */
        mem_free(section->title);
        section->title = mem_printf("%s %s", kinds[kind_index(section->scope)], section->label);
        place.section = section->title;
    }
    section->ignored = !claim_name(draft, &place);
    return index;
}

static void refuse_key(const struct place *place, enum key_scope scope, struct slice name)
{
    const char *home = key_home(name), *nearest = key_nearest(scope, place->key);

    if (home != NULL) {
        report_error(place, "this key belongs in %s", home);
    } else if (nearest != NULL) {
        report_error(place, "unknown key; did you mean %s?", nearest);
    } else {
        report_error(place, "unknown key; sluice --help-config lists all");
    }
}

void draft_add(struct draft *draft, struct section *section, const char *name, struct slice value, unsigned line)
{
    struct place place = {draft->report, line, section != NULL ? section->title : NULL, name};

    if (section == NULL) {
        report_error(&place, "%s: a key outside any section; [proxy] or another header has to come first", name);
        return;
    }
    if (section->ignored) {
        return;
    }
    const struct key *key = key_find(section->scope, slice_of(name));
    if (key == NULL) {
        refuse_key(&place, section->scope, slice_of(name));
        return;
    }
    unsigned before = section_line_of(section, key->name);
    if (before != 0 && !key_repeats(key)) {
        report_error(&place, "this key is there twice, first on line %u", before);
        return;
    }
    if (section->count == section->cap) {
        section->cap = section->cap * 2 + 4;
        section->entries = mem_realloc(section->entries, section->cap * sizeof(struct entry));
    }
    section->entries[section->count++] = (struct entry){key, value, line};
}

void draft_init(struct draft *draft, struct report *report)
{
    *draft = (struct draft){.report = report};
}

void draft_fini(struct draft *draft)
{
    struct section_name *name, *next;

    HASH_ITER(hh, draft->names, name, next)
    {
        HASH_DEL(draft->names, name);
        mem_free(name);
    }
    for (size_t i = 0; i < draft->count; i++) {
        struct section *section = draft->sections[i];
        mem_free(section->title);
        mem_free(section->label);
        mem_free(section->entries);
        mem_free(section);
    }
    mem_free(draft->sections);
    *draft = (struct draft){NULL, NULL, 0, 0, NULL};
}

const struct section *draft_find(const struct draft *draft, enum key_scope scope)
{
    for (size_t i = 0; i < draft->count; i++) {
        if (!draft->sections[i]->ignored && draft->sections[i]->scope == scope) {
            return draft->sections[i];
        }
    }
    return NULL;
}

unsigned section_line_of(const struct section *section, const char *key)
{
    for (size_t i = 0; section != NULL && i < section->count; i++) {
        if (strcmp(section->entries[i].key->name, key) == 0) {
            return section->entries[i].line;
        }
    }
    return 0;
}
