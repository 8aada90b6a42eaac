#ifndef SLUICE_CONF_READER_H
#define SLUICE_CONF_READER_H
/* The only caller of inih. */
#include "conf/draft.h"

/* Takes `text` apart, into `draft` through draft_open() and draft_add(); the report names the file. Entries point into
 * `text`. */
void reader_run(struct draft *draft, struct slice text);

#endif
