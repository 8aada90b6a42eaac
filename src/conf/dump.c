/*
 * Settings as text again. conf_dump() writes what a file would say, from the fields and not from the file, so it shows
 * what is really in force; reading it gives the same settings, except for passwords.
 *
 * conf_help() writes each key on a line that starts with its section, "[proxy] listen = 127.0.0.1:3128", and everything
 * about it on indented lines below, so that a script finds all keys with: sed -n 's/^\[\([a-z-]*\)\] \([a-z_]*\) =.*$/\1
 * \2/p'
 */
#include "base/buf.h"
#include "conf/build.h"
#include "conf/load.h"
#include "conf/value.h"

static void dump_key(const struct key *key, const void *record, FILE *out)
{
    struct buf value = {0};

    if (value_print(key, record, &value)) {
        (void)fprintf(out, "%s = %.*s\n", key->name, (int)buf_len(&value), buf_ptr(&value));
    } else {
        (void)fprintf(out, "# %s is not set\n", key->name);
    }
    buf_fini(&value);
}

static void dump_section(const char *kind, const char *label, enum key_scope scope, const void *record, FILE *out)
{
    size_t count;
    const struct key *keys = keys_all(&count);

    (void)fprintf(out, "\n[%s%s]\n", kind, label);
    for (size_t i = 0; i < count; i++) {
        if ((keys[i].scope & scope) != 0) {
            dump_key(&keys[i], record, out);
        }
    }
}

static void dump_inbound(const struct inbound_conf *inbound, FILE *out)
{
    for (unsigned i = 0; i < inbound->rules_count; i++) {
        struct inbound_record record = inbound_view(inbound, i);
        if (i == 0) {
            dump_section("inbound ", inbound->label, IN_INBOUND, &record, out);
        } else {
            dump_section("inbound-rule ", inbound->rules[i]->label, IN_INBOUND_RULE, &record, out);
        }
    }
}

void conf_dump(const struct conf *conf, FILE *out)
{
    (void)fprintf(out, "# Settings in force.\n");
    dump_section("proxy", "", IN_PROXY, &conf->proxy, out);
    if (conf->redis.url != NULL) {
        dump_section("redis", "", IN_REDIS, &conf->redis, out);
    } else {
        (void)fprintf(out, "\n# No [redis]: this process alone keeps the rates.\n");
    }
    dump_section("default", "", IN_DEFAULT, conf->fallback, out);
    for (unsigned i = 0; i < conf->policies_count; i++) {
        dump_section("destination ", conf->policies[i]->label, IN_DESTINATION, conf->policies[i], out);
    }
    for (unsigned i = 0; i < conf->routes_count; i++) {
        dump_section("route ", conf->routes[i]->label, IN_ROUTE, conf->routes[i], out);
    }
    for (unsigned i = 0; i < conf->inbounds_count; i++) {
        dump_inbound(conf->inbounds[i], out);
    }
    if (conf->admin.listen_count > 0) {
        dump_section("admin", "", IN_ADMIN, &conf->admin, out);
    } else {
        (void)fprintf(out, "\n# No [admin]: nothing listens for operators.\n");
    }
}

static void help_choices(const struct key *key, FILE *out)
{
    for (size_t i = 0; key->choices[i] != NULL; i++) {
        (void)fprintf(out, "%s%s", i > 0 ? " | " : "    one of: ", key->choices[i]);
    }
    (void)fprintf(out, "\n");
}

/* The section that the manual shows a key under. */
static const char *section_of(const struct key *key)
{
    if (key->scope & IN_PROXY) {
        return "proxy";
    }
    if (key->scope & IN_REDIS) {
        return "redis";
    }
    if (key->scope & IN_ADMIN) {
        return "admin";
    }
    if (key->scope & (IN_INBOUND | IN_INBOUND_RULE)) {
        return key->scope & IN_INBOUND ? "inbound" : "inbound-rule";
    }
    return key->scope & IN_DEFAULT ? "default" : key->scope & IN_DESTINATION ? "destination" : "route";
}

static void help_key(const struct key *key, FILE *out)
{
    char range[80];

    (void)fprintf(out, "[%s] %s =%s%s\n", section_of(key), key->name, key->initial != NULL ? " " : "",
                  key->initial != NULL ? key->initial : "");
    (void)fprintf(out, "    %s\n", key->help);
    if (key->choices != NULL) {
        help_choices(key, out);
    } else if (key_range(key, range)) {
        (void)fprintf(out, "    %s, %s\n", key->unit, range);
    } else {
        (void)fprintf(out, "    %s\n", key->unit);
    }
    (void)fprintf(out, "    %s\n", key->reloadable ? "changes on reload" : "changes on restart only");
}

void conf_help(FILE *out)
{
    size_t count;
    const struct key *keys = keys_all(&count);

    (void)fprintf(out, "# Every key: [section] key = default. A key of [default] may stand in [destination NAME] too, "
                       "for that one alone;\n"
                       "# a key of [inbound NAME] for limits in [inbound-rule NAME].\n"
                       "# Durations: 250ms 1.5s 5m 1h 1d. Sizes: 512 64k 10m 1g. Rates: 10/s 2.5/s 100/1m 5000/1h. "
                       "Lists: by comma.\n");
    for (size_t i = 0; i < count; i++) {
        help_key(&keys[i], out);
    }
}
