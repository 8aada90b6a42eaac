/*
 * Behind us the API sees one caller, us. What these fields say is believed there, so what an untrusted caller wrote
 * into them is left out, and only what a trusted proxy wrote is continued.
 */
#include "proxy/forwarded.h"

#include "base/mem.h"

#include <string.h>

enum { ADDED_MOST = 4 };

static const char *const about_callers[] = {"X-Forwarded-For", "Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto",
                                            "X-Real-IP"};
enum { CONTINUED = 2, ABOUT_CALLERS = sizeof about_callers / sizeof about_callers[0] };

static unsigned row_of(struct slice name)
{
    unsigned row = 0;

    while (row < ABOUT_CALLERS && !slice_is_nocase(name, about_callers[row])) {
        row++;
    }
    return row;
}

/* Lists that we continue are written anew, as one field. */
static bool is_kept(const struct inbound_request *request, const struct field *field)
{
    unsigned row = row_of(field->name);

    return row == ABOUT_CALLERS || (request->trusted && row >= CONTINUED);
}

static void add_so_far(struct buf *out, const struct inbound_request *request, const char *name)
{
    for (unsigned i = 0; request->trusted && i < request->message->fields_count; i++) {
        const struct field *field = &request->message->fields[i];
        if (slice_is_nocase(field->name, name) && field->value.len > 0) {
            buf_add(out, field->value.ptr, field->value.len);
            buf_add_str(out, ", ");
        }
    }
}

/* RFC 7239 section 4: a colon, and so every IPv6 address and every port, needs quotes. */
static void add_forwarded(struct buf *out, const char *peer, struct slice host)
{
    bool v6 = strchr(peer, ':') != NULL;
    bool plain = host.len > 0 && memchr(host.ptr, ':', host.len) == NULL;

    buf_printf(out, v6 ? "for=\"[%s]\"" : "for=%s", peer);
    if (host.len > 0) {
        buf_printf(out, plain ? ";host=%.*s" : ";host=\"%.*s\"", (int)host.len, host.ptr);
    }
    buf_add_str(out, ";proto=http");
}

struct adding {
    struct forwarded *to;
    const char *names[ADDED_MOST];
    size_t ends[ADDED_MOST];
    unsigned count;
};

static void added(struct adding *a, const char *name)
{
    a->names[a->count] = name;
    a->ends[a->count++] = buf_len(&a->to->text);
}

static void add_all(struct adding *a, const struct inbound_request *request, struct slice host)
{
    struct buf *text = &a->to->text;
    char peer[ADDR_TEXT_BYTES];

    addr_format(request->peer, true, peer);
    add_so_far(text, request, "X-Forwarded-For");
    buf_add_str(text, peer);
    added(a, "X-Forwarded-For");
    if (host.len > 0 && (!request->trusted || message_field(request->message, "X-Forwarded-Host") == NULL)) {
        buf_add(text, host.ptr, host.len);
        added(a, "X-Forwarded-Host");
    }
    if (!request->trusted || message_field(request->message, "X-Forwarded-Proto") == NULL) {
        buf_add_str(text, "http");
        added(a, "X-Forwarded-Proto");
    }
    add_so_far(text, request, "Forwarded");
    add_forwarded(text, peer, host);
    added(a, "Forwarded");
}

void forwarded_init(struct forwarded *forwarded, const struct inbound_request *request, struct slice host)
{
    const struct message *from = request->message;
    struct adding adding = {.to = forwarded};
    struct message *to = &forwarded->message;

    forwarded->text = (struct buf){0};
    *to = *from;
    to->fields = mem_alloc((from->fields_count + ADDED_MOST) * sizeof(struct field));
    to->fields_count = 0;
    for (unsigned i = 0; i < from->fields_count; i++) {
        if (is_kept(request, &from->fields[i])) {
            to->fields[to->fields_count++] = from->fields[i];
        }
    }
    add_all(&adding, request, host);
    for (unsigned i = 0; i < adding.count; i++) { /* now that the text no longer moves */
        size_t start = i > 0 ? adding.ends[i - 1] : 0;
        to->fields[to->fields_count++] =
            (struct field){slice_of(adding.names[i]), {buf_ptr(&forwarded->text) + start, adding.ends[i] - start}};
    }
}

void forwarded_fini(struct forwarded *forwarded)
{
    mem_free(forwarded->message.fields);
    buf_fini(&forwarded->text);
    memset(&forwarded->message, 0, sizeof(forwarded->message));
}
