#ifndef SLUICE_PROXY_USERS_H
#define SLUICE_PROXY_USERS_H
/*
 * Who may use the proxy: an htpasswd file (bcrypt or SHA-crypt, through libcrypt) against Proxy-Authorization: Basic
 * (RFC 7617). Hashing is slow on purpose, so verdicts are remembered under a keyed hash of the credentials: a caller
 * pays once, and the loop too.
 */
#include "base/err.h"
#include "base/str.h"

struct users;

struct users *users_load(const char *path, struct err *err) MUST_CHECK;
void users_free(struct users *users);
/* `credentials`: the value of Proxy-Authorization. */
bool users_allow(struct users *users, struct slice credentials);
/* The user that they name, whether or not it is one. False when they name none, or one that does not fit. */
bool users_name(struct slice credentials, char *out, size_t room) MUST_CHECK;

#endif
