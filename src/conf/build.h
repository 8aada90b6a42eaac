#ifndef SLUICE_CONF_BUILD_H
#define SLUICE_CONF_BUILD_H
/* The pieces a struct conf is built from and taken apart with. */
#include "conf/draft.h"
#include "conf/inbound_record.h"
#include "conf/policy.h"

/* An unfilled policy with one reference. */
struct policy *policy_new(const char *label, unsigned line);
/* A policy that has everything of `from` except its label, line and hosts. */
struct policy *policy_inherit(const struct policy *from, const char *label, unsigned line);

/* Sets every field that keys of that kind of section have to its default. */
void section_initial(struct report *report, enum key_scope scope, void *record);
/* Sets the fields of `record` that the section has; NULL = none. */
void section_apply(struct report *report, const struct section *section, void *record);
void order_terms_fini(struct order_terms *terms);
struct order_terms order_terms_copy(const struct order_terms *from);

/* A route of it: everything but its quotas and requests in flight, which limit the route as a part of the whole. */
struct policy *policy_inherit_route(struct policy *from, const char *label, unsigned line);
/* Builds conf->routes from the sections, checked; the destinations are there already. */
void routes_build(struct conf *conf, const struct draft *draft, struct report *report);
void routes_unbuild(struct conf *conf);

/* Indexes the patterns of conf->policies; a pattern that two of them claim is reported. `sections[i]` is where
 * policies[i] comes from. */
void route_build(struct conf *conf, const struct section *const *sections, struct report *report);
void route_free(struct conf_route_index *index);

/* Reports settings that contradict each other, and warnings. */
void check_conf(const struct conf *conf, const struct draft *draft, const struct section *const *sections,
                struct report *report);

/* Builds conf->inbounds from the sections, checked; conf->fallback is there already. */
void inbound_build(struct conf *conf, const struct draft *draft, struct report *report);
void inbound_unbuild(struct conf *conf);
/* One limit of a place as its section filled it, for printing; owns nothing. */
struct inbound_record inbound_view(const struct inbound_conf *inbound, unsigned rule);

#endif
