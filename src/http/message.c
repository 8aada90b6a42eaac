#include "http/message.h"

#include "base/mem.h"

void message_free(struct message *message)
{
    if (message != NULL) {
        mem_free(message->fields);
        mem_free(message->head);
        mem_free(message);
    }
}

const struct field *message_field(const struct message *message, const char *name)
{
    struct slice wanted = slice_of(name);

    for (unsigned i = 0; i < message->fields_count; i++) {
        if (slice_equal_nocase(message->fields[i].name, wanted)) {
            return &message->fields[i];
        }
    }
    return NULL;
}

static bool list_has(struct slice list, struct slice token)
{
    struct slice element;

    while (slice_next_element(&list, &element)) {
        if (slice_equal_nocase(element, token)) {
            return true;
        }
    }
    return false;
}

bool message_has_token(const struct message *message, const char *name, const char *token)
{
    struct slice wanted = slice_of(name), sought = slice_of(token);

    for (unsigned i = 0; i < message->fields_count; i++) {
        const struct field *field = &message->fields[i];
        if (slice_equal_nocase(field->name, wanted) && list_has(field->value, sought)) {
            return true;
        }
    }
    return false;
}

/* Those of that name from the index `from` on. */
static void drop_from(struct message *message, const char *name, unsigned from)
{
    struct slice wanted = slice_of(name);
    unsigned kept = from;

    for (unsigned i = from; i < message->fields_count; i++) {
        if (!slice_equal_nocase(message->fields[i].name, wanted)) {
            message->fields[kept++] = message->fields[i];
        }
    }
    message->fields_count = kept;
}

void message_drop_field(struct message *message, const char *name)
{
    drop_from(message, name, 0);
}

void message_set_field(struct message *message, const char *name, const char *value)
{
    const struct field *first = message_field(message, name);
    unsigned at = first != NULL ? (unsigned)(first - message->fields) : message->fields_count;

    if (first != NULL) {
        drop_from(message, name, at + 1);
    } else {
        message->fields = mem_realloc(message->fields, (message->fields_count + 1) * sizeof(message->fields[0]));
        message->fields_count++;
    }
    message->fields[at] = (struct field){slice_of(name), slice_of(value)};
}

/* What came lies in the head. */
bool message_is_ours(const struct message *message, const struct field *field)
{
    uintptr_t at = (uintptr_t)field->name.ptr, head = (uintptr_t)message->head;

    return message->head != NULL && (at < head || at > head + message->head_bytes);
}
