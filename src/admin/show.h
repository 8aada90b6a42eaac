#ifndef SLUICE_ADMIN_SHOW_H
#define SLUICE_ADMIN_SHOW_H
#include "admin/state.h"

#include <jansson.h>

/* Everything that the page shows, the destinations at most `most` of them. */
json_t *show_status(const struct admin *admin, unsigned most);
/* As text, to be freed with free(). */
char *show_text(json_t *json);

#endif
