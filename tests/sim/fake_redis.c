#include "fake_data.h"

#include "base/mem.h"

#include <inttypes.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data ---- */

void fake_field_free(struct entry *entry, struct field *field)
{
    HASH_DEL(entry->fields, field);
    mem_free(field->name);
    mem_free(field->value);
    mem_free(field);
}

void fake_entry_free(struct fake_data *data, struct entry *entry)
{
    struct field *field, *next;

    HASH_ITER(hh, entry->fields, field, next)
    {
        fake_field_free(entry, field);
    }
    HASH_DEL(data->entries, entry);
    mem_free(entry->key);
    mem_free(entry);
}

static void data_free(struct fake_data *data)
{
    struct entry *entry, *next;

    HASH_ITER(hh, data->entries, entry, next)
    {
        fake_entry_free(data, entry);
    }
    mem_free(data);
}

struct entry *fake_find(struct fake_redis *redis, const char *key)
{
    struct entry *entry;

    HASH_FIND_STR(redis->data->entries, key, entry);
    if (entry != NULL && entry->expires_us <= redis->now_us) {
        fake_entry_free(redis->data, entry);
        entry = NULL;
    }
    return entry;
}

struct entry *fake_find_or_make(struct fake_data *data, const char *key)
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

void fake_field_set(struct entry *entry, const char *name, const char *value)
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
    struct entry *entry = fake_find(redis, key);
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
    fake_find(redis, key);
    fake_field_set(fake_find_or_make(redis->data, key), field, value);
}

void fake_redis_delete(struct fake_redis *redis, const char *key)
{
    struct entry *entry = fake_find(redis, key);

    if (entry != NULL) {
        fake_entry_free(redis->data, entry);
    }
}

void fake_redis_set_text(struct fake_redis *redis, const char *key, bool as_list, const char *text)
{
    struct entry *entry = fake_find(redis, key);
    char *words = mem_strdup(text), *rest = words, *word;

    if (entry != NULL) {
        fake_entry_free(redis->data, entry);
    }
    entry = fake_find_or_make(redis->data, key);
    entry->kind = as_list ? ENTRY_LIST : ENTRY_STRING;
    if (!as_list) {
        fake_field_set(entry, "", text);
    }
    while (as_list && (word = strsep(&rest, " ")) != NULL) {
        char name[24];
        snprintf(name, sizeof(name), "%" PRId64, entry->count++);
        fake_field_set(entry, name, word);
    }
    mem_free(words);
}

int64_t fake_redis_ttl_ms(struct fake_redis *redis, const char *key)
{
    struct entry *entry = fake_find(redis, key);

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

    HASH_ITER(hh, redis->data->entries, entry, next_entry)
    {
        struct entry *made = fake_find_or_make(copy, entry->key);
        made->expires_us = entry->expires_us;
        made->kind = entry->kind;
        made->first = entry->first;
        made->count = entry->count;
        HASH_ITER(hh, entry->fields, field, next_field)
        {
            fake_field_set(made, field->name, field->value);
        }
    }
    return copy;
}

void fake_redis_load(struct fake_redis *redis, struct fake_data *data)
{
    data_free(redis->data);
    redis->data = data != NULL ? data : mem_zalloc(sizeof(*data));
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
    lua_createtable(lua, 0, 2);
    lua_pushlightuserdata(lua, redis);
    lua_pushcclosure(lua, fake_call, 1);
    lua_setfield(lua, -2, "call");
    lua_pushlightuserdata(lua, redis);
    lua_pushcclosure(lua, fake_pcall, 1);
    lua_setfield(lua, -2, "pcall");
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
    redis->compiled[redis->compiled_count++] = (struct compiled){script, luaL_ref(redis->lua, LUA_REGISTRYINDEX)};
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
