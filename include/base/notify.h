#ifndef SLUICE_BASE_NOTIFY_H
#define SLUICE_BASE_NOTIFY_H
/* Telling a service manager how we are, as sd_notify(3) does: one datagram to the socket that NOTIFY_SOCKET names. */
#include "base/must.h"

#include <stdint.h>

/* Lines like "READY=1". No effect where nobody listens. */
void notify_tell(const char *lines);
/* How often "WATCHDOG=1" is expected of this process (WATCHDOG_USEC, WATCHDOG_PID), 0 = never. */
int64_t notify_watchdog_us(void);

#endif
