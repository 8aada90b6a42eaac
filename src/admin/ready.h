#ifndef SLUICE_ADMIN_READY_H
#define SLUICE_ADMIN_READY_H
#include "admin/state.h"

/* Why this replica should get no new callers: how many reasons there are; `each` may be NULL. */
unsigned ready_reasons(const struct admin *admin, void (*each)(void *arg, const char *reason), void *arg);

#endif
