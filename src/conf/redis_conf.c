#include "base/mem.h"
#include "conf/policy.h"

#include <string.h>

static void copy_text(char **field)
{
    *field = *field != NULL ? mem_strdup(*field) : NULL;
}

static void forget_secret(char *secret)
{
    if (secret != NULL) {
        explicit_bzero(secret, strlen(secret));
    }
    mem_free(secret);
}

void redis_conf_copy(struct redis_conf *to, const struct redis_conf *from)
{
    *to = *from;
    char **const texts[] = {&to->url,           &to->host,
                            &to->master,        &to->user,
                            &to->password,      &to->user_name,
                            &to->password_file, &to->password_env,
                            &to->sentinel_user, &to->sentinel_password,
                            &to->ca_file,       &to->sentinel_password_file,
                            &to->client_cert,   &to->sentinel_password_env,
                            &to->client_key,    &to->prefix,
                            &to->hash_secret,   &to->hash_secret_file};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        copy_text(texts[i]);
    }
    if (from->hosts_count > 0) {
        to->hosts = mem_alloc(from->hosts_count * sizeof(to->hosts[0]));
    }
    for (unsigned i = 0; i < from->hosts_count; i++) {
        to->hosts[i] = (struct redis_host){mem_strdup(from->hosts[i].host), from->hosts[i].port};
    }
}

void redis_conf_fini(struct redis_conf *redis)
{
    char *const texts[] = {redis->url,          redis->host,          redis->master,
                           redis->user,         redis->user_name,     redis->password_file,
                           redis->password_env, redis->sentinel_user, redis->sentinel_password_file,
                           redis->ca_file,      redis->client_cert,   redis->sentinel_password_env,
                           redis->client_key,   redis->prefix,        redis->hash_secret_file};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        mem_free(texts[i]);
    }
    for (unsigned i = 0; i < redis->hosts_count; i++) {
        mem_free(redis->hosts[i].host);
    }
    mem_free(redis->hosts);
    forget_secret(redis->password);
    forget_secret(redis->hash_secret);
    forget_secret(redis->sentinel_password);
    memset(redis, 0, sizeof(*redis));
}

char *secret_for_hashes(const struct redis_conf *redis, const char *purpose)
{
    const char *secret = redis->hash_secret != NULL ? redis->hash_secret : redis->password;

    return mem_printf("sluice %s %s %s", purpose, redis->prefix, secret != NULL ? secret : "");
}
