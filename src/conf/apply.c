/* From the table's defaults, and from what a section says, to the fields of a record. */
#include "conf/build.h"
#include "conf/value.h"

void section_initial(struct report *report, enum key_scope scope, void *record)
{
    size_t count;
    const struct key *keys = keys_all(&count);

    for (size_t i = 0; i < count; i++) {
        struct place place = {report, 0, "defaults", keys[i].name};
        if ((keys[i].scope & scope) != 0 && keys[i].initial != NULL) {
            must(value_set(&place, &keys[i], slice_of(keys[i].initial), record));
        }
    }
}

void section_apply(struct report *report, const struct section *section, void *record)
{
    for (size_t i = 0; section != NULL && i < section->count; i++) {
        const struct entry *entry = &section->entries[i];
        struct place place = {report, entry->line, section->title, entry->key->name};
        if (key_repeats(entry->key) && section_line_of(section, entry->key->name) == entry->line) {
            feedback_value_clear(entry->key, record);
        }
        (void)value_set(&place, entry->key, entry->value, record); /* a mistake is in the report */
    }
}
