#ifndef SLUICE_SIM_FAKE_DATA_H
#define SLUICE_SIM_FAKE_DATA_H
/* Inside of fake_redis: what is kept, shared with the commands (fake_commands.c). */
#include "fake_redis.h"

#include <lauxlib.h>
#include <lua.h>
#include <uthash.h>

/* Everything is fields: a string has the field "", a list those named by numbers from `first` on. */
enum entry_kind { ENTRY_HASH, ENTRY_STRING, ENTRY_LIST };
struct field {
    char *name, *value;
    UT_hash_handle hh;
};
struct entry {
    char *key;
    enum entry_kind kind;
    int64_t first, count; /* of a list */
    struct field *fields;
    int64_t expires_us; /* INT64_MAX = never */
    UT_hash_handle hh;
};
struct fake_data {
    struct entry *entries;
};
struct compiled {
    const struct script *script;
    int reference;
};
enum { SCRIPTS_MAX = 16 };
struct fake_redis {
    lua_State *lua;
    struct fake_data *data;
    int64_t now_us;
    uint64_t calls;
    struct compiled compiled[SCRIPTS_MAX];
    unsigned compiled_count;
};

struct entry *fake_find(struct fake_redis *redis, const char *key);
struct entry *fake_find_or_make(struct fake_data *data, const char *key);
void fake_entry_free(struct fake_data *data, struct entry *entry);
void fake_field_free(struct entry *entry, struct field *field);
void fake_field_set(struct entry *entry, const char *name, const char *value);
/* redis.call: the first upvalue is the fake. */
int fake_call(lua_State *lua);
/* redis.pcall: an error is a table. */
int fake_pcall(lua_State *lua);

#endif
