#ifndef SLUICE_APP_RELOAD_H
#define SLUICE_APP_RELOAD_H
#include "app/state.h"
#include "conf/change.h"

struct reload *reload_new(struct app *app);
/* Waits for the thread, if one is reading. */
void reload_free(struct reload *reload);
/* A reload_start (conf/change.h); `app` is the struct app. Asked for while one is under way, another follows it. */
void reload_ask(void *app, reload_done *done, void *done_arg);

#endif
