#ifndef SLUICE_APP_PARTS_H
#define SLUICE_APP_PARTS_H
/* Parts that are made at the start or, where settings ask for them only later, by a reload. */
#include "app/state.h"

void parts_make_admission(struct app *app);
/* The inbound side, when there is none yet; without any place so far. */
void parts_make_inbound(struct app *app, const struct conf *conf, int64_t max_callers);
/* Settings as the connections to third parties, and to our own API, see them. */
struct upstreams_conf parts_upstreams_conf(const struct conf *conf);
struct upstreams_conf parts_inbound_upstreams_conf(const struct conf *conf);

#endif
