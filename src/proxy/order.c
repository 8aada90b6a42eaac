/*
 * Whose turn it is: from a request and its caller to a class, a flow and its weight (conf/order.c has the rules' form).
 *
 * A user is who Proxy-Authorization names. Without `auth` nobody has checked that, which is enough to tell one's own
 * workers apart and no more. Inside an intercepted CONNECT it is the CONNECT's.
 */
#include "proxy/order.h"

#include "base/buf.h"
#include "base/mem.h"
#include "proxy/inbound_match.h"
#include "proxy/users.h"

#include <string.h>

enum { USER_BYTES = 256 };

/* What is known of an exchange's sender. */
struct sender {
    const struct exchange *e;
    char user[USER_BYTES]; /* "" = none */
    char address[ADDR_TEXT_BYTES];
};

static bool user_of(const struct exchange *e, char user[USER_BYTES])
{
    const struct field *credentials = message_field(e->request, "Proxy-Authorization");

    return credentials != NULL && users_name(credentials->value, user, USER_BYTES);
}

void order_keep_user(struct exchange *e)
{
    char user[USER_BYTES];

    mem_free(e->caller->user);
    e->caller->user = user_of(e, user) ? mem_strdup(user) : NULL;
}

static struct sender sender_of(const struct exchange *e)
{
    struct sender sender = {.e = e};
    const struct caller *caller = e->caller;

    addr_format(conn_peer(caller->conn), true, sender.address);
    if (caller->inside && caller->user != NULL) {
        (void)snprintf(sender.user, sizeof(sender.user), "%s", caller->user);
    } else if (caller->inside || !user_of(e, sender.user)) {
        sender.user[0] = '\0';
    }
    return sender;
}

bool order_add_user(struct buf *out, const struct exchange *e)
{
    struct sender sender = sender_of(e);

    buf_add_str(out, sender.user);
    return sender.user[0] != '\0';
}

void order_add_address(struct buf *out, const struct exchange *e)
{
    struct sender sender = sender_of(e);

    buf_add_str(out, sender.address);
}

/* What the request has of that kind; empty when it has none. */
static struct slice value_of(const struct sender *sender, const struct order_term *term)
{
    const struct field *field;

    switch (term->by) {
    case BY_PROXY_USER:
        return slice_of(sender->user);
    case BY_CLIENT_IP:
        return slice_of(sender->address);
    case BY_HEADER:
        field = message_field(sender->e->request, term->name);
        return field != NULL ? field->value : slice_of("");
    case BY_PATH:
        break;
    }
    return sender->e->connect ? slice_of("") : sender->e->target.path;
}

static bool path_matches(const char *pattern, struct slice path)
{
    struct buf plain = {0};

    inbound_plain_path(&plain, path);
    bool matches = inbound_glob(pattern, (struct slice){buf_ptr(&plain), buf_len(&plain)});
    buf_fini(&plain);
    return matches;
}

static bool matches_any(const struct sender *sender, const struct order_terms *terms)
{
    for (unsigned i = 0; i < terms->count; i++) {
        const struct order_term *term = &terms->list[i];
        struct slice value = value_of(sender, term);
        if (value.len > 0 && (term->by == BY_PATH ? path_matches(term->value, value) : slice_is(value, term->value))) {
            return true;
        }
    }
    return false;
}

/* FNV-1a: flows that meet by chance share their turns, and one who makes them meet shares his own. */
static uint64_t hash(uint64_t seed, struct slice text)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ seed;

    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

static unsigned weight_of(const struct policy *policy, struct slice value)
{
    for (unsigned i = 0; i < policy->fair_weights.count; i++) {
        if (slice_is(value, policy->fair_weights.list[i].value)) {
            return policy->fair_weights.list[i].weight;
        }
    }
    return 1;
}

void order_place(struct exchange *e)
{
    const struct policy *policy = e->policy;
    struct sender sender = sender_of(e);
    struct slice value = {"", 0};
    unsigned i;

    e->waiter.class = matches_any(&sender, &policy->priority_high)  ? WAITER_HIGH
                      : matches_any(&sender, &policy->priority_low) ? WAITER_LOW
                                                                    : WAITER_NORMAL;
    if (policy->order != ORDER_FAIR) {
        return;
    }
    for (i = 0; i < policy->fair_by.count && value.len == 0; i++) {
        value = value_of(&sender, &policy->fair_by.list[i]);
    }
    e->waiter.flow = hash(i, value);
    e->waiter.weight = weight_of(policy, value);
}
