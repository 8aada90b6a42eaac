#ifndef SLUICE_CONF_READER_H
#define SLUICE_CONF_READER_H
/* The only caller of inih. */
#include "conf/draft.h"

/* Reads `text` into `draft` through draft_open() and draft_add(). */
void reader_run(struct draft *draft, struct slice text);

#endif
