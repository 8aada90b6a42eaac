#ifndef SLUICE_ADMIN_PROM_H
#define SLUICE_ADMIN_PROM_H
/* The text exposition format of Prometheus, version 0.0.4. */
#include "base/buf.h"
#include "base/histogram.h"

struct prom_label {
    const char *name, *value;
};
enum { PROM_LABELS_MOST = 4 };
/* Up to PROM_LABELS_MOST; the first without a name ends them. */
struct prom_labels {
    struct prom_label at[PROM_LABELS_MOST];
};

enum prom_unit { PROM_PLAIN, PROM_SECONDS /* of microseconds */ };

/* The HELP and TYPE lines that come before the samples of a name. */
void prom_family(struct buf *out, const char *name, const char *type, const char *help);
void prom_sample(struct buf *out, const char *name, const struct prom_labels *labels, enum prom_unit unit,
                 int64_t value);
void prom_histogram(struct buf *out, const char *name, const struct prom_labels *labels,
                    const struct histogram *histogram);

#endif
