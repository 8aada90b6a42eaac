#ifndef SLUICE_CONF_INBOUND_RECORD_H
#define SLUICE_CONF_INBOUND_RECORD_H
/* What an [inbound] or [inbound-rule] section fills, before rules are put where they belong. */
#include "conf/inbound.h"

/* More than that can't be counted exactly by the script. */
#define INBOUND_COUNT_MOST (INT64_C(1) << 26)

struct inbound_record {
    struct inbound_rule rule;  /* the section's own limit */
    struct inbound_conf place; /* [inbound] only */
    int64_t ipv6_prefix;       /* [inbound] only */
    char *inbound;             /* [inbound-rule] only: which it belongs to */
};

#endif
