#ifndef SLUICE_ADMIN_SELF_H
#define SLUICE_ADMIN_SELF_H
/* What this process takes of the machine; 0 where the kernel does not tell. */
#include <stdint.h>

struct self {
    int64_t resident_bytes, virtual_bytes;
    int64_t descriptors, descriptors_most;
    int64_t cpu_us;
};
void self_look(struct self *out);

#endif
