#ifndef SLUICE_OUTBOUND_WORD_OF_H
#define SLUICE_OUTBOUND_WORD_OF_H
/* Inside of a bucket: what its third party said. Borrows everything it is given. */
#include "outbound/pacer.h"
#include "outbound/slots_redis.h"
#include "outbound/strikes.h"
#include "outbound/word.h"

struct word_call;

struct word {
    uint32_t magic;
    struct loop *loop;
    struct slots_redis *redis; /* NULL: this process alone */
    const char *name;          /* of the bucket */
    struct pacer *pacer;
    char *keys[2];          /* the word, the bucket */
    struct strikes strikes; /* on our clock */
    struct mono told;       /* when something was last said here that others have to hear */
    struct mono looked;
    struct timer tick;
    TAILQ_HEAD(, word_call) calls;
    unsigned calls_count;
    bool looking; /* a look is under way */
};

/* `stem`: how its keys in Redis begin. */
void word_init(struct word *word, struct loop *loop, struct slots_redis *redis, const char *stem, const char *name,
               struct pacer *pacer);
void word_fini(struct word *word);
/* Nothing would be lost by forgetting it. */
bool word_is_idle(const struct word *word);
/* Somebody came to the bucket. */
void word_used(struct word *word);
/* Maybe somebody else was told of a pause. */
void word_doubted(void *word, bool denied);
/* An operator ended the pause. */
void word_resumed(struct word *word);
int64_t word_tell(struct word *word, const struct answer *answer);
enum stop word_stopped(const struct word *word, int64_t *left_us);

#endif
