#ifndef SLUICE_ADMIN_SHOW_H
#define SLUICE_ADMIN_SHOW_H
#include "admin/rows.h"

#include <jansson.h>

/* A destination, or a queue, into a buffer of all of them. */
void show_row(void *rows, const struct row *row);
/* Everything that the page shows, as JSON; takes what is in `rows`. */
void show_status(const struct admin *admin, struct buf *rows, struct buf *out);
/* As text, to be freed with free(). Takes over the reference. */
char *show_text(json_t *json);

#endif
