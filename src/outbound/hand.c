#include "outbound/hand.h"

#include "base/mem.h"

#include <string.h>

void hand_fini(struct hand *hand)
{
    mem_free(hand->held);
    *hand = (struct hand){0};
}

void hand_add(struct hand *hand, const struct window *window, struct asker *from)
{
    unsigned at = hand->count;

    must(window->first.us <= window->last.us);
    if (at == hand->cap) {
        hand->cap = at == 0 ? 4 : at * 2;
        hand->held = mem_realloc(hand->held, hand->cap * sizeof(hand->held[0]));
    }
    for (; at > 0 && window->first.us < hand->held[at - 1].window.first.us; at--) {
        hand->held[at] = hand->held[at - 1];
    }
    hand->held[at] = (struct held){*window, from, false};
    hand->count++;
}

struct window hand_take(struct hand *hand)
{
    must(hand->count > 0);
    struct window window = hand->held[0].window;

    hand->count--;
    memmove(&hand->held[0], &hand->held[1], hand->count * sizeof(hand->held[0]));
    return window;
}

unsigned hand_newest_run(const struct hand *hand, unsigned most)
{
    must(hand->count > 0 && most > 0 && most <= hand->count);
    const struct held *held = hand->held;
    unsigned last = hand->count - 1, run = 1;

    while (run < most && held[last - run].from == held[last].from &&
           held[last - run].window.slot.tat_us == held[last - run + 1].window.slot.first_us) {
        run++;
    }
    return run;
}
