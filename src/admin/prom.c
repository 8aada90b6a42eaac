#include "admin/prom.h"

#include <inttypes.h>
#include <stdio.h>

/* Backslash, quote and newline are all that a label's value must escape. */
static void add_value(struct buf *out, const char *text)
{
    buf_add_str(out, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            buf_add_str(out, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\') {
            buf_add(out, "\\", 1);
        }
        buf_add(out, text, 1);
    }
    buf_add_str(out, "\"");
}

static void add_labels(struct buf *out, const struct prom_labels *labels, const char *bound)
{
    const char *before = "{";

    for (int i = 0; labels != NULL && i < PROM_LABELS_MOST && labels->at[i].name != NULL; i++) {
        buf_printf(out, "%s%s=", before, labels->at[i].name);
        add_value(out, labels->at[i].value);
        before = ",";
    }
    if (bound != NULL) {
        buf_printf(out, "%sle=\"%s\"", before, bound);
        before = ",";
    }
    if (*before == ',') {
        buf_add_str(out, "}");
    }
}

/* Seconds without zeros that say nothing: 0.05, 1, 2.5. */
static void format_seconds(int64_t us, char out[32])
{
    int len = snprintf(out, 32, "%" PRId64 ".%06" PRId64, us / 1000000, us % 1000000);

    while (out[len - 1] == '0') {
        len--;
    }
    out[out[len - 1] == '.' ? len - 1 : len] = '\0';
}

void prom_family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void prom_sample(struct buf *out, const char *name, const struct prom_labels *labels, enum prom_unit unit,
                 int64_t value)
{
    char text[32];

    if (unit == PROM_SECONDS) {
        format_seconds(value > 0 ? value : 0, text);
    } else {
        snprintf(text, sizeof(text), "%" PRId64, value);
    }
    buf_add_str(out, name);
    add_labels(out, labels, NULL);
    buf_printf(out, " %s\n", text);
}

void prom_histogram(struct buf *out, const char *name, const struct prom_labels *labels,
                    const struct histogram *histogram)
{
    uint64_t below = 0;
    char text[32];

    for (unsigned i = 0; i < histogram->bounds->count; i++) {
        below += histogram->counts[i];
        format_seconds(histogram->bounds->us[i], text);
        buf_printf(out, "%s_bucket", name);
        add_labels(out, labels, text);
        buf_printf(out, " %" PRIu64 "\n", below);
    }
    buf_printf(out, "%s_bucket", name);
    add_labels(out, labels, "+Inf");
    buf_printf(out, " %" PRIu64 "\n", histogram->total);
    format_seconds(histogram->sum_us, text);
    buf_printf(out, "%s_sum", name);
    add_labels(out, labels, NULL);
    buf_printf(out, " %s\n%s_count", text, name);
    add_labels(out, labels, NULL);
    buf_printf(out, " %" PRIu64 "\n", histogram->total);
}
