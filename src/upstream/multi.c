/*
 * The only file that calls curl_multi_*.
 *
 *   libcurl's socket callback -> a struct watch per descriptor -> libevent -> curl_multi_socket_action()
 *   libcurl's timer callback  -> one loop timer                -> curl_multi_socket_action(TIMEOUT)
 *   after either              -> a deferred call takes what is done and calls transfer->done()
 *
 * libcurl may not be called from inside its callbacks, and adding a handle may finish it on the spot. So the callbacks
 * here only set events and timers, and done() always comes from a deferred call, where everything is allowed. An event
 * must leave epoll before libcurl closes its descriptor: POLL_REMOVE comes before that and is obeyed at once, while
 * CLOSESOCKETFUNCTION is not called for sockets cancelled while connecting (7.88 to 8.2), so nothing relies on it.
 */
#include "multi.h"

#include "base/mem.h"

#include <event2/event.h>
#include <event2/event_struct.h>

/* Above any max_connections: libcurl must never close a connection of ours to make room for another. */
enum { MULTI_CONNECTIONS = 1000000 };
enum { MULTI_MAGIC = 0x4d554c54 };

struct multi {
    uint32_t magic;
    struct loop *loop;
    CURLM *curl;
    struct timer timeout;
    struct defer harvest;
    unsigned transfers;
};

struct watch {
    struct multi *multi;
    struct event event;
};

static void take_finished(struct defer *defer)
{
    struct multi *multi = container_of(defer, struct multi, harvest);
    CURLMsg *message;
    int left;

    must_be(multi, MULTI_MAGIC);
    while ((message = curl_multi_info_read(multi->curl, &left)) != NULL) {
        CURLcode code = message->data.result;
        struct transfer *transfer = NULL;
        if (message->msg == CURLMSG_DONE) {
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
            must(transfer != NULL);
            transfer->done(transfer, code);
        }
    }
}

static void act(struct multi *multi, curl_socket_t fd, int what)
{
    int running;

    curl_multi_socket_action(multi->curl, fd, what, &running);
    loop_defer(multi->loop, &multi->harvest, take_finished);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct watch *watch = arg;
    struct multi *multi = watch->multi; /* the watch may be gone after act() */

    must_be(multi, MULTI_MAGIC);
    act(multi, fd, ((what & EV_READ) ? CURL_CSELECT_IN : 0) | ((what & EV_WRITE) ? CURL_CSELECT_OUT : 0));
}

static void timeout_due(struct timer *timer, struct mono now)
{
    (void)now;
    act(container_of(timer, struct multi, timeout), CURL_SOCKET_TIMEOUT, 0);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct multi *multi = arg;
    struct watch *watch = socket_arg;

    (void)easy;
    must_be(multi, MULTI_MAGIC);
    if (watch != NULL) {
        event_del(&watch->event);
    }
    if (what == CURL_POLL_REMOVE) {
        curl_multi_assign(multi->curl, fd, NULL);
        mem_free(watch);
        return 0;
    }
    if (watch == NULL) {
        watch = mem_zalloc(sizeof(*watch));
        watch->multi = multi;
        curl_multi_assign(multi->curl, fd, watch);
    }
    short events = (short)(((what & CURL_POLL_IN) ? EV_READ : 0) | ((what & CURL_POLL_OUT) ? EV_WRITE : 0));
    event_assign(&watch->event, loop_base(multi->loop), fd, events | EV_PERSIST, on_event, watch);
    event_priority_set(&watch->event, LOOP_PRIORITY_UPSTREAM);
    event_add(&watch->event,
              NULL); /* failing, the attempt times out; telling libcurl would end every connection here */
    return 0;
}

static int on_timer(CURLM *curl, long timeout_ms, void *arg)
{
    struct multi *multi = arg;

    (void)curl;
    must_be(multi, MULTI_MAGIC);
    if (timeout_ms < 0) {
        timer_clear(&multi->timeout);
    } else {
        timer_set(multi->loop, &multi->timeout, mono_add(loop_now(multi->loop), timeout_ms * CLOCK_MS_US), timeout_due);
    }
    return 0;
}

struct multi *multi_new(struct loop *loop)
{
    struct multi *multi = mem_zalloc(sizeof(*multi));

    multi->magic = MULTI_MAGIC;
    multi->loop = loop;
    multi->curl = curl_multi_init();
    if (multi->curl == NULL) { /* no descriptors or memory */
        mem_free(multi);
        return NULL;
    }
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_MAXCONNECTS, (long)MULTI_CONNECTIONS);
    return multi;
}

void multi_free(struct multi *multi)
{
    must_be(multi, MULTI_MAGIC);
    must(multi->transfers == 0);
    curl_multi_cleanup(multi->curl);
    timer_clear(&multi->timeout);
    loop_defer_cancel(&multi->harvest);
    multi->magic = 0;
    mem_free(multi);
}

void multi_add(struct multi *multi, struct transfer *transfer)
{
    must_be(multi, MULTI_MAGIC);
    must(transfer->done != NULL);
    curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
    must(curl_multi_add_handle(multi->curl, transfer->easy) == CURLM_OK);
    multi->transfers++;
    act(multi, CURL_SOCKET_TIMEOUT, 0); /* saves a turn of the loop: libcurl has just asked for a timer of 0 ms */
}

void multi_remove(struct multi *multi, struct transfer *transfer)
{
    must_be(multi, MULTI_MAGIC);
    must(multi->transfers > 0);
    must(curl_multi_remove_handle(multi->curl, transfer->easy) == CURLM_OK);
    multi->transfers--;
}
