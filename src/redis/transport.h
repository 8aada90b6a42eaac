#ifndef SLUICE_SRC_REDIS_TRANSPORT_H
#define SLUICE_SRC_REDIS_TRANSPORT_H
/* A byte stream to the Redis server: TCP, TLS or a Unix socket; one at a time. Nothing here blocks, and nothing calls
 * back at once. */
#include "base/loop.h"
#include "conf/policy.h"

#include <openssl/types.h>

struct evbuffer;
struct transport;

/* All of them from the loop, outside of any library's callback: transport_close() is fine in each. */
struct transport_ops {
    void (*on_open)(void *arg);
    void (*on_bytes)(void *arg, const char *bytes, size_t len, struct mono arrived); /* at most 16 KiB */
    void (*on_gone)(void *arg, const char *why); /* closed already; valid during the call */
};

/* `conf` stays the caller's. `tls`: from secure_context(), or NULL; the transport keeps a reference. */
struct transport *transport_new(struct loop *loop, const struct redis_conf *conf, SSL_CTX *tls,
                                const struct transport_ops *ops, void *arg);
void transport_free(struct transport *transport);
/* Only while closed. on_open or on_gone follows; how long to wait for that is up to the caller. */
void transport_dial(struct transport *transport);
/* Takes all of `bytes`; only between on_open and on_gone or transport_close(). */
void transport_send(struct transport *transport, struct evbuffer *bytes);
/* The server at the other end is the right one: the next dial begins with the same address. */
void transport_prefer(struct transport *transport);
/* No effect while closed. */
void transport_close(struct transport *transport);
/* conf->host or port is another one now. Only while closed. */
void transport_forget(struct transport *transport);
/* What a dial waits for: "name lookup", "connect" or "TLS handshake". */
const char *transport_waits_for(const struct transport *transport);

#endif
