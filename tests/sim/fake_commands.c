/* The commands that the scripts use. Numbers come as doubles: what is not whole is refused, as Redis does. */
#include "fake_data.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t whole(lua_State *lua, int at)
{
    lua_Number x = luaL_checknumber(lua, at);

    if (x != (lua_Number)(int64_t)x) {
        luaL_error(lua, "ERR value is not an integer or out of range");
    }
    return (int64_t)x;
}

static int push_text(lua_State *lua, const char *text)
{
    if (text != NULL) {
        lua_pushstring(lua, text);
    } else {
        lua_pushboolean(lua, 0); /* what nil becomes in a script */
    }
    return 1;
}

static int call_time(struct fake_redis *redis, lua_State *lua)
{
    char text[24];

    lua_createtable(lua, 2, 0);
    snprintf(text, sizeof(text), "%" PRId64, redis->now_us / CLOCK_SECOND_US);
    lua_pushstring(lua, text);
    lua_rawseti(lua, -2, 1);
    snprintf(text, sizeof(text), "%" PRId64, redis->now_us % CLOCK_SECOND_US);
    lua_pushstring(lua, text);
    lua_rawseti(lua, -2, 2);
    return 1;
}

static int call_hget(struct fake_redis *redis, lua_State *lua)
{
    return push_text(lua, fake_redis_field(redis, luaL_checkstring(lua, 2), luaL_checkstring(lua, 3)));
}

static int call_hmget(struct fake_redis *redis, lua_State *lua)
{
    int count = lua_gettop(lua) - 2;

    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        push_text(lua, fake_redis_field(redis, luaL_checkstring(lua, 2), luaL_checkstring(lua, 3 + i)));
        lua_rawseti(lua, -2, i + 1);
    }
    return 1;
}

static int call_hset(struct fake_redis *redis, lua_State *lua)
{
    int top = lua_gettop(lua);
    const char *key = luaL_checkstring(lua, 2);

    fake_find(redis, key); /* an expired one goes first */
    for (int i = 3; i + 1 <= top; i += 2) {
        fake_field_set(fake_find_or_make(redis->data, key), luaL_checkstring(lua, i), luaL_checkstring(lua, i + 1));
    }
    lua_pushnumber(lua, (top - 2) / 2);
    return 1;
}

static int call_hgetall(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = fake_find(redis, luaL_checkstring(lua, 2));
    struct field *field, *next;
    int at = 0;

    lua_newtable(lua);
    if (entry != NULL) {
        HASH_ITER(hh, entry->fields, field, next)
        {
            lua_pushstring(lua, field->name);
            lua_rawseti(lua, -2, ++at);
            lua_pushstring(lua, field->value);
            lua_rawseti(lua, -2, ++at);
        }
    }
    return 1;
}

static int call_hdel(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = fake_find(redis, luaL_checkstring(lua, 2));
    struct field *field = NULL;

    if (entry != NULL) {
        HASH_FIND_STR(entry->fields, luaL_checkstring(lua, 3), field);
    }
    if (field != NULL) {
        fake_field_free(entry, field);
        if (entry->fields == NULL) {
            fake_entry_free(redis->data, entry);
        }
    }
    lua_pushnumber(lua, field != NULL);
    return 1;
}

static int call_pexpire(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = fake_find(redis, luaL_checkstring(lua, 2));
    int64_t ms = whole(lua, 3);

    if (entry != NULL) {
        entry->expires_us = redis->now_us + ms * 1000;
    }
    lua_pushnumber(lua, entry != NULL);
    return 1;
}

static int call_pttl(struct fake_redis *redis, lua_State *lua)
{
    lua_pushnumber(lua, (lua_Number)fake_redis_ttl_ms(redis, luaL_checkstring(lua, 2)));
    return 1;
}

/* ---- strings and lists ---- */

static struct entry *find_as(struct fake_redis *redis, lua_State *lua, enum entry_kind kind)
{
    struct entry *entry = fake_find(redis, luaL_checkstring(lua, 2));

    if (entry != NULL && entry->kind != kind) {
        luaL_error(lua, "WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    return entry;
}

static const char *field_of(struct entry *entry, const char *name)
{
    struct field *field = NULL;

    if (entry != NULL) {
        HASH_FIND_STR(entry->fields, name, field);
    }
    return field != NULL ? field->value : NULL;
}

static int call_get(struct fake_redis *redis, lua_State *lua)
{
    return push_text(lua, field_of(find_as(redis, lua, ENTRY_STRING), ""));
}

static int call_del(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = fake_find(redis, luaL_checkstring(lua, 2));

    if (entry != NULL) {
        fake_entry_free(redis->data, entry);
    }
    lua_pushnumber(lua, entry != NULL);
    return 1;
}

/* SET key value PX milliseconds: whatever was there. */
static int call_set(struct fake_redis *redis, lua_State *lua)
{
    const char *key = luaL_checkstring(lua, 2);
    struct entry *entry = fake_find(redis, key);
    int64_t ms = whole(lua, 5);

    if (strcmp(luaL_checkstring(lua, 4), "PX") != 0 || ms <= 0) {
        return luaL_error(lua, "ERR invalid expire time in 'set' command");
    }
    if (entry != NULL) {
        fake_entry_free(redis->data, entry);
    }
    entry = fake_find_or_make(redis->data, key);
    entry->kind = ENTRY_STRING;
    entry->expires_us = redis->now_us + ms * 1000;
    fake_field_set(entry, "", luaL_checkstring(lua, 3));
    return push_text(lua, "OK");
}

static int call_llen(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = find_as(redis, lua, ENTRY_LIST);

    lua_pushnumber(lua, entry != NULL ? (lua_Number)entry->count : 0);
    return 1;
}

static void item_name(const struct entry *entry, int64_t i, char out[24])
{
    snprintf(out, 24, "%" PRId64, entry->first + i);
}

static int call_rpush(struct fake_redis *redis, lua_State *lua)
{
    int top = lua_gettop(lua);
    struct entry *entry = find_as(redis, lua, ENTRY_LIST);
    char name[24];

    if (entry == NULL) {
        entry = fake_find_or_make(redis->data, luaL_checkstring(lua, 2));
        entry->kind = ENTRY_LIST;
    }
    for (int i = 3; i <= top; i++) {
        item_name(entry, entry->count++, name);
        fake_field_set(entry, name, luaL_checkstring(lua, i));
    }
    lua_pushnumber(lua, (lua_Number)entry->count);
    return 1;
}

static int64_t position(const struct entry *entry, int64_t at)
{
    int64_t count = entry != NULL ? entry->count : 0;
    return at < 0 ? (count + at > 0 ? count + at : 0) : at;
}

static int call_lrange(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = find_as(redis, lua, ENTRY_LIST);
    int64_t from = position(entry, whole(lua, 3)), to = position(entry, whole(lua, 4));
    char name[24];
    int at = 0;

    lua_newtable(lua);
    for (int64_t i = from; entry != NULL && i <= to && i < entry->count; i++) {
        item_name(entry, i, name);
        push_text(lua, field_of(entry, name));
        lua_rawseti(lua, -2, ++at);
    }
    return 1;
}

/* From the front only. */
static int call_ltrim(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = find_as(redis, lua, ENTRY_LIST);
    int64_t from = whole(lua, 3);
    char name[24];

    must(from >= 0 && whole(lua, 4) == -1);
    for (; entry != NULL && from > 0 && entry->count > 0; from--) {
        struct field *field;
        item_name(entry, 0, name);
        HASH_FIND_STR(entry->fields, name, field);
        must(field != NULL);
        fake_field_free(entry, field);
        entry->first++;
        entry->count--;
    }
    if (entry != NULL && entry->count == 0) {
        fake_entry_free(redis->data, entry);
    }
    return push_text(lua, "OK");
}

/* ---- redis.call ---- */

int fake_call(lua_State *lua)
{
    typedef int command(struct fake_redis * redis, lua_State * lua);
    static const struct {
        const char *name;
        command *run;
    } commands[] = {
        {"TIME", call_time},       {"HGET", call_hget},     {"HMGET", call_hmget},     {"HSET", call_hset},
        {"HGETALL", call_hgetall}, {"HDEL", call_hdel},     {"PEXPIRE", call_pexpire}, {"PTTL", call_pttl},
        {"GET", call_get},         {"SET", call_set},       {"DEL", call_del},         {"LLEN", call_llen},
        {"RPUSH", call_rpush},     {"LRANGE", call_lrange}, {"LTRIM", call_ltrim},
    };
    struct fake_redis *redis = lua_touserdata(lua, lua_upvalueindex(1));
    const char *name = luaL_checkstring(lua, 1);

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(redis, lua);
        }
    }
    return luaL_error(lua, "no command %s here", name);
}

int fake_pcall(lua_State *lua)
{
    int words = lua_gettop(lua);

    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_pushcclosure(lua, fake_call, 1);
    lua_insert(lua, 1);
    if (lua_pcall(lua, words, 1, 0) != 0) {
        lua_createtable(lua, 0, 1);
        lua_insert(lua, -2);
        lua_setfield(lua, -2, "err");
    }
    return 1;
}
