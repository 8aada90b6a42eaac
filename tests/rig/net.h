#ifndef RIG_NET_H
#define RIG_NET_H
/* What the rig's two network programs share. Both are test tools: whatever goes wrong ends them with a message. */
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define NS_PER_S 1000000000LL
#define NS_PER_MS 1000000LL

int64_t monotonic_ns(void);
int64_t realtime_ns(void);

/* "127.0.0.1:3128"; anything else ends the program. */
struct sockaddr_in parse_addr(const char *text);
long parse_count(const char *text, long min, long max);

/* As many descriptors as the hard limit allows. */
void raise_descriptor_limit(void);
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
