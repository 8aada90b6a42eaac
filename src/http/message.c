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
