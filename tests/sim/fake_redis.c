#include "fake_redis.h"

#include "base/mem.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct field {
    char *name, *value;
    UT_hash_handle hh;
};
struct entry {
    char *key;
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

/* ---- data ---- */

static void field_free(struct entry *entry, struct field *field)
{
    HASH_DEL(entry->fields, field);
    mem_free(field->name);
    mem_free(field->value);
    mem_free(field);
}

static void entry_free(struct fake_data *data, struct entry *entry)
{
    struct field *field, *next;

    HASH_ITER (hh, entry->fields, field, next) {
        field_free(entry, field);
    }
    HASH_DEL(data->entries, entry);
    mem_free(entry->key);
    mem_free(entry);
}

static void data_free(struct fake_data *data)
{
    struct entry *entry, *next;

    HASH_ITER (hh, data->entries, entry, next) {
        entry_free(data, entry);
    }
    mem_free(data);
}

static struct entry *find(struct fake_redis *redis, const char *key)
{
    struct entry *entry;

    HASH_FIND_STR(redis->data->entries, key, entry);
    if (entry != NULL && entry->expires_us <= redis->now_us) {
        entry_free(redis->data, entry);
        entry = NULL;
    }
    return entry;
}

static struct entry *find_or_make(struct fake_data *data, const char *key)
{
    struct entry *entry;

    HASH_FIND_STR(data->entries, key, entry);
    if (entry == NULL) {
        entry = mem_zalloc(sizeof(*entry));
        entry->key = mem_strdup(key);
        entry->expires_us = INT64_MAX;
        HASH_ADD_KEYPTR(hh, data->entries, entry->key, strlen(entry->key), entry);
    }
    return entry;
}

static void set(struct entry *entry, const char *name, const char *value)
{
    struct field *field;

    HASH_FIND_STR(entry->fields, name, field);
    if (field == NULL) {
        field = mem_zalloc(sizeof(*field));
        field->name = mem_strdup(name);
        HASH_ADD_KEYPTR(hh, entry->fields, field->name, strlen(field->name), field);
    }
    mem_free(field->value);
    field->value = mem_strdup(value);
}

static const char *get(struct fake_redis *redis, const char *key, const char *name)
{
    struct entry *entry = find(redis, key);
    struct field *field = NULL;

    if (entry != NULL) {
        HASH_FIND_STR(entry->fields, name, field);
    }
    return field != NULL ? field->value : NULL;
}

const char *fake_redis_field(struct fake_redis *redis, const char *key, const char *field)
{
    return get(redis, key, field);
}

void fake_redis_set(struct fake_redis *redis, const char *key, const char *field, const char *value)
{
    find(redis, key);
    set(find_or_make(redis->data, key), field, value);
}

int64_t fake_redis_ttl_ms(struct fake_redis *redis, const char *key)
{
    struct entry *entry = find(redis, key);

    if (entry == NULL) {
        return -2;
    }
    return entry->expires_us == INT64_MAX ? -1 : (entry->expires_us - redis->now_us + 999) / 1000;
}

struct fake_data *fake_redis_copy(const struct fake_redis *redis)
{
    struct fake_data *copy = mem_zalloc(sizeof(*copy));
    struct entry *entry, *next_entry;
    struct field *field, *next_field;

    HASH_ITER (hh, redis->data->entries, entry, next_entry) {
        struct entry *made = find_or_make(copy, entry->key);
        made->expires_us = entry->expires_us;
        HASH_ITER (hh, entry->fields, field, next_field) {
            set(made, field->name, field->value);
        }
    }
    return copy;
}

void fake_redis_load(struct fake_redis *redis, struct fake_data *data)
{
    data_free(redis->data);
    redis->data = data != NULL ? data : mem_zalloc(sizeof(*data));
}

/* ---- redis.call ---- */

typedef int command(struct fake_redis *redis, lua_State *lua);

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
    return push_text(lua, get(redis, luaL_checkstring(lua, 2), luaL_checkstring(lua, 3)));
}

static int call_hmget(struct fake_redis *redis, lua_State *lua)
{
    int count = lua_gettop(lua) - 2;

    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        push_text(lua, get(redis, luaL_checkstring(lua, 2), luaL_checkstring(lua, 3 + i)));
        lua_rawseti(lua, -2, i + 1);
    }
    return 1;
}

static int call_hset(struct fake_redis *redis, lua_State *lua)
{
    int top = lua_gettop(lua);
    const char *key = luaL_checkstring(lua, 2);

    find(redis, key); /* an expired one goes first */
    for (int i = 3; i + 1 <= top; i += 2) {
        set(find_or_make(redis->data, key), luaL_checkstring(lua, i), luaL_checkstring(lua, i + 1));
    }
    lua_pushnumber(lua, (top - 2) / 2);
    return 1;
}

static int call_hgetall(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = find(redis, luaL_checkstring(lua, 2));
    struct field *field, *next;
    int at = 0;

    lua_newtable(lua);
    if (entry != NULL) {
        HASH_ITER (hh, entry->fields, field, next) {
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
    struct entry *entry = find(redis, luaL_checkstring(lua, 2));
    struct field *field = NULL;

    if (entry != NULL) {
        HASH_FIND_STR(entry->fields, luaL_checkstring(lua, 3), field);
    }
    if (field != NULL) {
        field_free(entry, field);
        if (entry->fields == NULL) {
            entry_free(redis->data, entry);
        }
    }
    lua_pushnumber(lua, field != NULL);
    return 1;
}

static int call_pexpire(struct fake_redis *redis, lua_State *lua)
{
    struct entry *entry = find(redis, luaL_checkstring(lua, 2));
    lua_Number ms = luaL_checknumber(lua, 3);

    if (ms != (lua_Number)(int64_t)ms) {
        return luaL_error(lua, "ERR value is not an integer or out of range");
    }
    if (entry != NULL) {
        entry->expires_us = redis->now_us + (int64_t)ms * 1000;
    }
    lua_pushnumber(lua, entry != NULL);
    return 1;
}

static int call_pttl(struct fake_redis *redis, lua_State *lua)
{
    lua_pushnumber(lua, (lua_Number)fake_redis_ttl_ms(redis, luaL_checkstring(lua, 2)));
    return 1;
}

static int call(lua_State *lua)
{
    static const struct {
        const char *name;
        command *run;
    } commands[] = {
        {"TIME", call_time},       {"HGET", call_hget}, {"HMGET", call_hmget},     {"HSET", call_hset},
        {"HGETALL", call_hgetall}, {"HDEL", call_hdel}, {"PEXPIRE", call_pexpire}, {"PTTL", call_pttl},
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

/* ---- scripts ---- */

static void open_library(lua_State *lua, lua_CFunction open, const char *name)
{
    lua_pushcfunction(lua, open);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
}

/* Globals are forbidden, as in Redis. */
static void forbid_globals(lua_State *lua)
{
    static const char code[] = "setmetatable(_G, {__newindex = function(_, k) error('global ' .. k) end,"
                               " __index = function(_, k) error('no global ' .. k) end})";
    must(luaL_dostring(lua, code) == 0);
}

struct fake_redis *fake_redis_new(void)
{
    struct fake_redis *redis = mem_zalloc(sizeof(*redis));
    lua_State *lua = luaL_newstate();

    must(lua != NULL);
    redis->lua = lua;
    redis->data = mem_zalloc(sizeof(*redis->data));
    open_library(lua, luaopen_base, "");
    open_library(lua, luaopen_string, LUA_STRLIBNAME);
    open_library(lua, luaopen_table, LUA_TABLIBNAME);
    open_library(lua, luaopen_math, LUA_MATHLIBNAME);
    lua_createtable(lua, 0, 1);
    lua_pushlightuserdata(lua, redis);
    lua_pushcclosure(lua, call, 1);
    lua_setfield(lua, -2, "call");
    lua_setglobal(lua, "redis");
    forbid_globals(lua);
    return redis;
}

void fake_redis_free(struct fake_redis *redis)
{
    lua_close(redis->lua);
    data_free(redis->data);
    mem_free(redis);
}

void fake_redis_set_time(struct fake_redis *redis, int64_t us)
{
    redis->now_us = us;
}

uint64_t fake_redis_calls(const struct fake_redis *redis)
{
    return redis->calls;
}

static void push_script(struct fake_redis *redis, const struct script *script)
{
    for (unsigned i = 0; i < redis->compiled_count; i++) {
        if (redis->compiled[i].script == script) {
            lua_rawgeti(redis->lua, LUA_REGISTRYINDEX, redis->compiled[i].reference);
            return;
        }
    }
    if (luaL_loadbuffer(redis->lua, script->text, strlen(script->text), script->name) != 0) {
        wrong(lua_tostring(redis->lua, -1));
    }
    must(redis->compiled_count < SCRIPTS_MAX);
    lua_pushvalue(redis->lua, -1);
    redis->compiled[redis->compiled_count++] =
        (struct compiled){script, luaL_ref(redis->lua, LUA_REGISTRYINDEX)};
}

static void set_list(lua_State *lua, const char *name, const char *const *texts, unsigned count)
{
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)count, 0);
    for (unsigned i = 0; i < count; i++) {
        lua_pushstring(lua, texts[i]);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

/* ---- replies ---- */

static struct redisReply *reply_text(const char *text)
{
    struct redisReply *reply = mem_zalloc(sizeof(*reply));
    reply->type = REDIS_REPLY_STRING;
    reply->str = mem_strdup(text);
    reply->len = strlen(text);
    return reply;
}

static struct redisReply *reply_of(lua_State *lua, int at)
{
    struct redisReply *reply;

    if (lua_type(lua, at) == LUA_TSTRING) {
        return reply_text(lua_tostring(lua, at));
    }
    reply = mem_zalloc(sizeof(*reply));
    if (lua_type(lua, at) == LUA_TNUMBER) {
        reply->type = REDIS_REPLY_INTEGER;
        reply->integer = (long long)lua_tonumber(lua, at);
    } else if (lua_type(lua, at) == LUA_TTABLE) {
        reply->type = REDIS_REPLY_ARRAY;
        reply->elements = lua_objlen(lua, at);
        reply->element = mem_zalloc(reply->elements * sizeof(struct redisReply *));
        for (size_t i = 0; i < reply->elements; i++) {
            lua_rawgeti(lua, at, (int)i + 1);
            reply->element[i] = reply_of(lua, lua_gettop(lua));
            lua_pop(lua, 1);
        }
    } else {
        reply->type = REDIS_REPLY_NIL;
    }
    return reply;
}

struct redisReply *fake_redis_eval(struct fake_redis *redis, const struct script *script, const char *const *keys,
                                   unsigned keys_count, const char *const *args, unsigned args_count)
{
    lua_State *lua = redis->lua;

    redis->calls++;
    lua_settop(lua, 0);
    set_list(lua, "KEYS", keys, keys_count);
    set_list(lua, "ARGV", args, args_count);
    push_script(redis, script);
    if (lua_pcall(lua, 0, 1, 0) != 0) {
        wrong(lua_tostring(lua, -1));
    }
    struct redisReply *reply = reply_of(lua, 1);
    lua_settop(lua, 0);
    return reply;
}

struct redisReply *fake_redis_time(const struct fake_redis *redis)
{
    struct redisReply *reply = mem_zalloc(sizeof(*reply));
    char text[24];

    reply->type = REDIS_REPLY_ARRAY;
    reply->elements = 2;
    reply->element = mem_zalloc(2 * sizeof(struct redisReply *));
    snprintf(text, sizeof(text), "%" PRId64, redis->now_us / CLOCK_SECOND_US);
    reply->element[0] = reply_text(text);
    snprintf(text, sizeof(text), "%" PRId64, redis->now_us % CLOCK_SECOND_US);
    reply->element[1] = reply_text(text);
    return reply;
}

void fake_reply_free(struct redisReply *reply)
{
    if (reply != NULL) {
        for (size_t i = 0; i < reply->elements; i++) {
            fake_reply_free(reply->element[i]);
        }
        mem_free(reply->element);
        mem_free(reply->str);
        mem_free(reply);
    }
}
