/*
 * Server-sent events (HTML Living Standard, section 9.2). The first is the history, the others are what /status.json
 * says. A watcher that does not take what it is sent is skipped until it does.
 *
 * The status is put together once for all watchers, a few destinations at a time, and only while there are any. It is
 * bounded, and so is the history, so that a file with thousands of destinations does not make slots late because
 * somebody looks.
 */
#include "admin/events.h"

#include "admin/look.h"
#include "admin/show.h"
#include "base/mem.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <string.h>

enum { STREAMS_MOST = 16, DESTINATIONS_SHOWN = 200, HISTORIES_SHOWN = 100, UNSENT_MOST_BYTES = 1 << 20 };

struct stream {
    TAILQ_ENTRY(stream) link;
    struct admin *admin;
    struct evhttp_request *request;
};

static void closed(struct evhttp_connection *connection, void *arg)
{
    struct stream *stream = arg;

    (void)connection;
    TAILQ_REMOVE(&stream->admin->streams, stream, link);
    stream->admin->streams_count--;
    if (evhttp_request_get_connection(stream->request) == NULL) {
        evhttp_send_reply_end(stream->request); /* the connection failed and let go of it: nobody else frees it */
    }
    mem_free(stream);
}

static void send_event(struct stream *stream, const char *name, const char *data, size_t len)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(stream->request);
    struct bufferevent *bev = evhttp_connection_get_bufferevent(connection);
    struct evbuffer *chunk;

    if (evbuffer_get_length(bufferevent_get_output(bev)) > UNSENT_MOST_BYTES) {
        return;
    }
    chunk = evbuffer_new();
    must(chunk != NULL);
    evbuffer_add_printf(chunk, "event: %s\ndata: ", name);
    evbuffer_add(chunk, data, len);
    evbuffer_add(chunk, "\n\n", 2);
    evhttp_send_reply_chunk(stream->request, chunk);
    evbuffer_free(chunk);
}

static void take_queue(void *arg, const struct bucket_stats *queue)
{
    history_take(arg, queue->name, queue->tally->counts[TALLY_ARRIVED], queue->tally->counts[TALLY_RELEASED]);
}

static void sample(struct admin *admin)
{
    const struct tally *unlisted = outbound_unlisted(admin->sources.outbound);

    history_turn(admin->history);
    outbound_each_kept(admin->sources.outbound, take_queue, admin->history);
    history_take(admin->history, admin->sources.conf->fallback->label, unlisted->counts[TALLY_ARRIVED],
                 unlisted->counts[TALLY_RELEASED]);
}

static void tell_all(struct admin *admin, const struct buf *status)
{
    struct stream *stream;

    admin->is_telling = false;
    TAILQ_FOREACH(stream, &admin->streams, link)
    {
        send_event(stream, "status", buf_ptr(status), buf_len(status));
    }
}

static void tick_due(struct timer *timer, struct mono now)
{
    struct admin *admin = container_of(timer, struct admin, tick);

    sample(admin);
    if (!TAILQ_EMPTY(&admin->streams) && !admin->is_telling) {
        admin->is_telling = true;
        look_status(admin, DESTINATIONS_SHOWN, tell_all);
    }
    timer_set(admin->sources.loop, &admin->tick, mono_add(now, CLOCK_SECOND_US), tick_due);
}

void events_start(struct admin *admin)
{
    TAILQ_INIT(&admin->streams);
    admin->history = history_new();
    timer_set(admin->sources.loop, &admin->tick, mono_add(loop_now(admin->sources.loop), CLOCK_SECOND_US), tick_due);
}

void events_stop(struct admin *admin)
{
    must(TAILQ_EMPTY(&admin->streams));
    timer_clear(&admin->tick);
    history_free(admin->history);
}

bool events_watch(struct admin *admin, struct evhttp_request *request)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(request);
    const struct timeval patience = {30, 0};

    if (admin->streams_count == STREAMS_MOST) {
        return false;
    }
    struct stream *stream = mem_zalloc(sizeof(*stream));
    stream->admin = admin;
    stream->request = request;
    TAILQ_INSERT_TAIL(&admin->streams, stream, link);
    admin->streams_count++;
    /* a watcher says nothing more */
    bufferevent_set_timeouts(evhttp_connection_get_bufferevent(connection), NULL, &patience);
    evhttp_connection_set_closecb(connection, closed, stream);
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "text/event-stream");
    evhttp_send_reply_start(request, 200, "OK");
    char *history = show_text(history_json(admin->history, HISTORIES_SHOWN));
    send_event(stream, "history", history, strlen(history));
    free(history);
    if (!admin->is_telling) {
        admin->is_telling = true;
        look_status(admin, DESTINATIONS_SHOWN, tell_all);
    }
    return true;
}
