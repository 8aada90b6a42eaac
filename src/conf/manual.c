/*
 * The manual page sluice.ini(5), from the key table, as troff for the man macros (man(7)): one paragraph for each key, under the
 * section that it belongs in. What is printed is text of ours and defaults that were checked, yet it is escaped: a line
 * that begins with a dot would be a request, and a plain hyphen could not be searched for.
 */
#include "base/must.h"
#include "conf/keys.h"
#include "conf/load.h"

#include <stddef.h>
#include <string.h>

static void put_text(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (at == text && (*at == '.' || *at == '\'')) {
            (void)fputs("\\&", out);
        }
        if (*at == '\\') {
            (void)fputs("\\e", out);
        } else if (*at == '-') {
            (void)fputs("\\-", out);
        } else {
            (void)fputc(*at, out);
        }
    }
}

static void put_line(FILE *out, const char *before, const char *text, const char *after)
{
    (void)fputs(before, out);
    put_text(out, text);
    (void)fprintf(out, "%s\n", after);
}

static void put_choices(FILE *out, const struct key *key)
{
    (void)fprintf(out, "One of: ");
    for (size_t i = 0; key->choices[i] != NULL; i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        put_text(out, key->choices[i]);
    }
    (void)fputs(".\n", out);
}

static void put_key(FILE *out, const struct key *key)
{
    char range[80];

    (void)fputs(".TP\n.B ", out);
    put_text(out, key->name);
    if (key->initial != NULL) {
        (void)fputs(" = ", out);
        put_text(out, key->initial);
    }
    (void)fputc('\n', out);
    put_line(out, "", key->help, "");
    (void)fputs(".br\n", out);
    if (key->choices != NULL) {
        put_choices(out, key);
    } else if (key_range(key, range)) {
        put_line(out, "", key->unit, ",");
        put_line(out, "", range, ".");
    } else {
        put_line(out, "", key->unit, ".");
    }
    (void)fputs(key->reloadable ? "Changes on reload.\n" : "Changes on restart only.\n", out);
}

static void put_section(FILE *out, const char *title, const char *about, unsigned scope, unsigned other)
{
    size_t count;
    const struct key *keys = keys_all(&count);

    put_line(out, ".SH \"", title, "\"");
    put_line(out, "", about, "");
    for (size_t i = 0; i < count; i++) {
        if ((keys[i].scope & scope) != 0 && (keys[i].scope & other) == 0) {
            put_key(out, &keys[i]);
        }
    }
}

static const char head[] =
    ".TH SLUICE.INI 5 \"\" sluice \"File formats\"\n"
    ".SH NAME\n"
    "sluice.ini \\- settings of the sluice proxy\n"
    ".SH DESCRIPTION\n"
    "Sections in brackets, keys below them as\n"
    ".IR \"key \" = \" value\" ,\n"
    "each on a line of its own, UTF\\-8.\n"
    "Comments begin with # or ; and stand on lines of their own.\n"
    "Unknown keys, and values out of range, are refused with file, line and the nearest name.\n"
    "Defaults are shown with each key; a line left out keeps its default.\n"
    ".PP\n"
    "Durations are written 250ms, 1.5s, 5m, 1h or 1d; sizes 512, 64k, 10m or 1g; rates 10/s, 2.5/s, 100/1m or 5000/1h;\n"
    "lists are separated by commas.\n"
    ".PP\n"
    ".B sluice \\-c\n"
    ".I FILE\n"
    ".B \\-\\-check\n"
    "says what the settings mean, destination by destination.\n"
    "On SIGHUP they are read again: all are put in force, or, after any mistake, none.\n"
    "Keys that change on restart only keep their value, and the log names them.\n";

static const char tail[] = ".SH FILES\n"
                           ".TP\n"
                           ".I /etc/sluice/sluice.ini\n"
                           "what the service reads\n"
                           ".SH SEE ALSO\n"
                           ".BR sluice (8)\n";

void conf_manual(FILE *out)
{
    (void)fputs(head, out);
    put_section(out, "[proxy]", "Where callers come in, who may, and what is common to all.", IN_PROXY, 0);
    put_section(out, "[redis]", "Without this section, this process alone keeps the rates.", IN_REDIS, 0);
    put_section(out, "[default]", "For every destination. Each key may stand in [destination NAME] as well, for that one alone.",
                IN_DEFAULT, 0);
    put_section(out, "[destination NAME]", "One third party. Besides the keys of [default]:", IN_DESTINATION, IN_DEFAULT);
    put_section(out, "[route NAME]", "Some of a destination's requests, with limits of their own. Besides keys of [default]:",
                IN_ROUTE, IN_DEFAULT | IN_DESTINATION);
    put_section(out, "[inbound NAME]", "An API of our own, and its first limit.", IN_INBOUND, 0);
    put_section(out, "[inbound-rule NAME]", "A further limit. Besides the keys of [inbound NAME] that describe a limit:",
                IN_INBOUND_RULE, IN_INBOUND);
    put_section(out, "[admin]", "Where operators look and act. Without this section: nowhere.", IN_ADMIN, 0);
    (void)fputs(tail, out);
}
