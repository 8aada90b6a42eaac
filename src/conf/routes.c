/*
 * [route NAME]: a tighter rule inside a destination. It has everything of its destination that its section does not say
 * otherwise, and is bound by the limits of both.
 */
#include "base/mem.h"
#include "conf/build.h"

#include <string.h>

static struct policy *find(const struct conf *conf, const char *label)
{
    for (unsigned i = 0; i < conf->policies_count; i++) {
        if (strcasecmp(conf->policies[i]->label, label) == 0) {
            return conf->policies[i];
        }
    }
    return NULL;
}

/* The text of a key, or an empty slice. */
static struct slice text_of(const struct section *section, const char *key, unsigned *line)
{
    for (size_t i = 0; i < section->count; i++) {
        if (strcmp(section->entries[i].key->name, key) == 0) {
            *line = section->entries[i].line;
            return section->entries[i].value;
        }
    }
    return slice_of("");
}

static struct policy *destination_of(const struct conf *conf, const struct section *section, struct report *report)
{
    struct place place = {report, section->line, section->title, NULL};
    struct slice text = text_of(section, "destination", &place.line);

    if (text.len == 0) {
        report_error(&place, "which destination is it a route of? Set destination = NAME");
        return NULL;
    }
    char *label = mem_strndup(text.ptr, text.len);
    struct policy *found = find(conf, label);
    if (found == NULL) {
        const char **labels = mem_zalloc((conf->policies_count + 1) * sizeof(labels[0]));
        for (unsigned i = 0; i < conf->policies_count; i++) {
            labels[i] = conf->policies[i]->label;
        }
        const char *nearest = str_nearest(label, labels);
        place.key = "destination";
        report_error(&place, nearest != NULL ? "there is no [destination %s]; did you mean %s?" : "there is no [destination %s]",
                     label, nearest);
        mem_free((void *)labels);
    }
    mem_free(label);
    return found;
}

static bool same_match(const struct policy *a, const struct policy *b)
{
    bool same = a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;

    /* a route for every method leaves nothing to one behind it */
    same = same && (a->methods_count == 0 || a->methods_count == b->methods_count);
    for (unsigned i = 0; same && i < a->methods_count; i++) {
        same = strcmp(a->methods[i], b->methods[i]) == 0;
    }
    return same;
}

static void check(const struct policy *route, const struct section *section, struct report *report)
{
    struct place place = {report, section->line, section->title, NULL};
    const struct policy *destination = route->parent;

    if (section_line_of(section, "match") == 0) {
        report_error(&place, "which requests is it for? Set match = PATTERN, as in GET /search/*");
        return;
    }
    place.line = section_line_of(section, "match");
    place.key = "match";
    for (unsigned i = 0; i < destination->routes_count; i++) {
        const struct policy *before = destination->routes[i];
        bool all = before->path != NULL && before->methods_count == 0 &&
                   (strcmp(before->path, "*") == 0 || strcmp(before->path, "/*") == 0);
        if (all || same_match(before, route)) {
            report_error(&place, "nothing reaches this: [route %s] on line %u is for the same requests", before->label,
                         before->line);
            return;
        }
    }
    if (destination->https == HTTPS_TUNNEL) {
        report_warning(&place, "requests inside a CONNECT to [destination %s] can't be told apart: the route is for http:// "
                               "only, unless https = originate or intercept",
                       destination->label);
    }
}

static void build_route(struct conf *conf, const struct section *section, struct report *report)
{
    struct policy *destination = destination_of(conf, section, report);

    if (destination == NULL) {
        return;
    }
    struct policy *route = policy_inherit_route(destination, section->label, section->line);
    section_apply(report, section, route);
    conf->routes[conf->routes_count++] = route;
    check(route, section, report);
    destination->routes =
        mem_realloc((void *)destination->routes, (destination->routes_count + 1) * sizeof(destination->routes[0]));
    destination->routes[destination->routes_count++] = route;
}

static int64_t max2(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t largest_cost(const struct policy *policy)
{
    bool is_said = policy->cost_header != NULL || (policy->cost_answer != NULL && !policy->cost_is_left);

    return is_said ? max2(policy->cost, policy->cost_most) : policy->cost;
}

/* What is lost with a clock may have been as large as the largest cost of anything that shares the slots. */
static void settle_costs(struct policy *policy)
{
    int64_t most = largest_cost(policy);

    for (unsigned i = 0; i < policy->routes_count; i++) {
        most = max2(most, largest_cost(policy->routes[i]));
    }
    policy->cost_most = most;
    for (unsigned i = 0; i < policy->routes_count; i++) {
        policy->routes[i]->cost_most = most;
    }
}

void routes_build(struct conf *conf, const struct draft *draft, struct report *report)
{
    conf->routes = mem_alloc((draft->count + 1) * sizeof(conf->routes[0]));
    for (size_t i = 0; i < draft->count; i++) {
        if (!draft->sections[i]->ignored && draft->sections[i]->scope == IN_ROUTE) {
            build_route(conf, draft->sections[i], report);
        }
    }
    settle_costs(conf->fallback);
    for (unsigned i = 0; i < conf->policies_count; i++) {
        settle_costs(conf->policies[i]);
    }
}

void routes_unbuild(struct conf *conf)
{
    for (unsigned i = 0; i < conf->routes_count; i++) {
        policy_put(conf->routes[i]);
    }
    mem_free((void *)conf->routes);
}
