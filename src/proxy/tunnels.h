#ifndef SLUICE_PROXY_TUNNELS_H
#define SLUICE_PROXY_TUNNELS_H
/* How many metered tunnels each destination has. */
#include <stdbool.h>
#include <stdint.h>

struct tunnels;
struct tunnels_of; /* one destination's */

struct tunnels *tunnels_new(void);
void tunnels_free(struct tunnels *tunnels);
/* Counts one more; NULL when `most` are open already. */
struct tunnels_of *tunnels_enter(struct tunnels *tunnels, const char *destination, int64_t most);
void tunnels_leave(struct tunnels *tunnels, struct tunnels_of *of);
/* True the first time: what is worth one line for each destination, not for each tunnel. */
bool tunnels_first_h2(struct tunnels_of *of);

#endif
