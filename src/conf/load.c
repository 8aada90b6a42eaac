/*
 * From a file to a struct conf.
 *
 *     text --reader--> lines --inih--> draft (names checked) --value_set--> fields --check_conf--> conf
 *
 * Every step goes on after a mistake, so that one reading shows all of them; nothing is handed out unless there were
 * none. Sections are applied in the order they depend on each other, not that of the file: the table's defaults, then
 * [default], then each destination as a copy of that. So [default] may stand anywhere.
 */
#include "conf/load.h"

#include "base/mem.h"
#include "conf/build.h"
#include "conf/reader.h"
#include "conf/secret.h"
#include "conf/value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CONF_MAGIC 0x434f4e46u
/* A file that never ends (/dev/zero) must not take all memory. */
#define FILE_BYTES_MAX ((size_t)64 << 20)

/* Labels name buckets in Redis, metrics and logs. */
static bool is_label(struct slice label)
{
    for (size_t i = 0; i < label.len; i++) {
        char c = label.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr(".-_:*[]", c) == NULL)) {
            return false;
        }
    }
    return label.len > 0 && label.len <= 255;
}

/* Without hosts = the label is the host, and becomes the one spelling of it. */
static void host_from_label(struct report *report, const struct section *section, struct policy *policy)
{
    struct place place = {report, section->line, section->title, NULL};
    struct buf label = {0};

    if (memchr(section->label, ',', strlen(section->label)) != NULL) {
        report_error(&place, "several hosts go into hosts =, the section has one name");
    } else if (hosts_set(&place, slice_of(section->label), policy)) {
        hosts_print(policy, &label);
        mem_free(policy->label);
        policy->label = mem_strndup(buf_ptr(&label), buf_len(&label));
    }
    buf_fini(&label);
}

static struct policy *build_destination(struct report *report, const struct section *section,
                                        const struct policy *fallback)
{
    struct policy *policy = policy_inherit(fallback, section->label, section->line);

    section_apply(report, section, policy);
    if (section_line_of(section, "hosts") == 0) {
        host_from_label(report, section, policy);
    } else if (!is_label(slice_of(section->label))) {
        report_error(&(struct place){report, section->line, section->title, NULL},
                     "a name is up to 255 letters, digits and .-_:*[]");
    }
    return policy;
}

static const struct section **build_destinations(struct report *report, const struct draft *draft, struct conf *conf)
{
    const struct section **sections = mem_alloc(draft->count * sizeof(struct section *));

    conf->policies = mem_alloc(draft->count * sizeof(struct policy *));
    for (size_t i = 0; i < draft->count; i++) {
        const struct section *section = draft->sections[i];
        if (!section->ignored && section->scope == IN_DESTINATION) {
            sections[conf->policies_count] = section;
            conf->policies[conf->policies_count++] = build_destination(report, section, conf->fallback);
        }
    }
    return sections;
}

static struct conf *build(struct report *report, const struct draft *draft)
{
    struct conf *conf = mem_zalloc(sizeof *conf);
    const struct section *fallback = draft_find(draft, IN_DEFAULT);

    conf->magic = CONF_MAGIC;
    section_initial(report, IN_PROXY, &conf->proxy);
    section_apply(report, draft_find(draft, IN_PROXY), &conf->proxy);
    section_initial(report, IN_REDIS, &conf->redis);
    section_apply(report, draft_find(draft, IN_REDIS), &conf->redis);
    secret_fill(&conf->redis, draft_find(draft, IN_REDIS), report);
    if (draft_find(draft, IN_ADMIN) != NULL) {
        section_initial(report, IN_ADMIN, &conf->admin);
        section_apply(report, draft_find(draft, IN_ADMIN), &conf->admin);
    }
    conf->fallback = policy_new("default", fallback != NULL ? fallback->line : 0);
    section_initial(report, IN_DEFAULT, conf->fallback);
    section_apply(report, fallback, conf->fallback);

    const struct section **sections = build_destinations(report, draft, conf);
    routes_build(conf, draft, report);
    route_build(conf, sections, report);
    check_conf(conf, draft, sections, report);
    inbound_build(conf, draft, report);
    mem_free((void *)sections);
    return conf;
}

struct conf *conf_load_text(const char *name, const char *text, size_t len, struct err *err, struct err *warnings)
{
    struct report report = {.name = name};
    struct draft draft;

    must(name != NULL && err != NULL);
    draft_init(&draft, &report);
    reader_run(&draft, (struct slice){text, len});
    struct conf *conf = build(&report, &draft);
    draft_fini(&draft);
    if (report.errors.count > 0) {
        conf_free(conf);
        conf = NULL;
    }
    report_finish(&report, err, warnings);
    return conf;
}

/* The whole file, or NULL with the reason in `err`. */
static char *read_file(const char *path, FILE *file, size_t *len, struct err *err)
{
    size_t cap = 65536;
    char *text = mem_alloc(cap);

    *len = 0;
    for (;;) {
        size_t got = fread(text + *len, 1, cap - *len, file);
        *len += got;
        if (got == 0) {
            break;
        }
        if (*len == cap) {
            cap *= 2;
            text = mem_realloc(text, cap);
        }
        if (*len > FILE_BYTES_MAX) {
            err_add(err, "%s: larger than 64 MiB, is this a settings file?", path);
            mem_free(text);
            return NULL;
        }
    }
    if (ferror(file)) {
        err_add(err, "%s: cannot be read: %s", path, strerror(errno));
        mem_free(text);
        return NULL;
    }
    return text;
}

struct conf *conf_load(const char *path, struct err *err, struct err *warnings)
{
    FILE *file = fopen(path, "re");
    struct conf *conf = NULL;
    size_t len;

    if (file == NULL) {
        err_add(err, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    char *text = read_file(path, file, &len, err);
    (void)fclose(file);
    if (text != NULL) {
        conf = conf_load_text(path, text, len, err, warnings);
        explicit_bzero(text, len); /* may hold the password of Redis */
        mem_free(text);
    }
    return conf;
}

void conf_set_version(struct conf *conf, uint64_t version)
{
    must_be(conf, CONF_MAGIC);
    conf->version = conf->fallback->version = version;
    for (unsigned i = 0; i < conf->policies_count; i++) {
        conf->policies[i]->version = version;
    }
    for (unsigned i = 0; i < conf->routes_count; i++) {
        conf->routes[i]->version = version;
    }
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        conf->inbounds[i]->version = conf->inbounds[i]->policy->version = version;
    }
}

void conf_free(struct conf *conf)
{
    if (conf == NULL) {
        return;
    }
    must_be(conf, CONF_MAGIC);
    route_free(conf->index);
    routes_unbuild(conf);
    for (unsigned i = 0; i < conf->policies_count; i++) {
        policy_put(conf->policies[i]);
    }
    mem_free(conf->policies);
    inbound_unbuild(conf);
    policy_put(conf->fallback);
    proxy_conf_fini(&conf->proxy);
    redis_conf_fini(&conf->redis);
    mem_free(conf->admin.listen);
    mem_free(conf->admin.token_file);
    conf->magic = ~CONF_MAGIC;
    mem_free(conf);
}
