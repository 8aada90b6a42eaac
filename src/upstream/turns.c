/*
 * Turns. HTTP/1.1 without pipelining takes turns: a request leaves only after the answer to the one before it came. TLS
 * hides what is said but not who speaks: record headers (type, length) are in the clear. So the caller's first
 * application data after the server's begins a request, and what follows before the server speaks again belongs to it.
 *
 *                    caller                                   server
 *   handshake        22 22 20 ...                             22 ...  (TLS 1.3: 23 23 23)
 *   TLS 1.3 tail     23 of 53 or 69 bytes: Finished
 *   turn             23 ---- held until granted ----> 23 23   ......
 *                                                             23 23 23   the server has spoken
 *   turn             23 ---- held until granted ---->
 *
 * TLS 1.3 dresses everything behind ServerHello up as type 23 (RFC 8446 section 5.2). The caller's Finished is told by
 * its size, 4 + 32 or 48 bytes and 17 of record overhead; once, and not where 0-RTT was offered. A record of up to 22
 * bytes holds an alert or a key update (19, 22) and no request, yet a request could be cut into such pieces, so only
 * one of them passes for free in each turn.
 *
 * Whatever is unclear is counted: an unreadable ServerHello makes it TLS 1.2, where every record of type 23 counts;
 * bytes that are no records count by direction alone. So the errors are on one side. One turn too many is counted where
 * the server speaks in the middle of an upload (100 Continue; session tickets of TLS 1.3), and one or two where TLS 1.3
 * shows a client certificate: its records can't be told from a request, and a request behind them must not be free.
 *
 * Too few are counted where requests do not wait for answers: HTTP/2, pipelining. A request may leave later than its
 * slot where the answer to the one before came while that was still being sent: the rest of it takes the slot, and the
 * next request, which no word of the server sets apart from it, follows when the caller likes.
 */
#include "upstream/turns.h"

#include <string.h>

enum { TYPE_LEAST = 20, TYPE_HANDSHAKE = 22, TYPE_DATA = 23, TYPE_MOST = 24 };
enum { RECORD_BODY_MAX = 16384 + 2048, SERVER_HELLO_MAX = 4096 };
enum { FINISHED_SHA256 = 53, FINISHED_SHA384 = 69, SMALL_MOST = 22, SHOWN_MOST = 3 };

struct record {
    uint8_t type;
    size_t len;
};

void turns_init(struct turns *t)
{
    memset(t, 0, sizeof(*t));
    t->spoken = true; /* the first request is a turn like any other */
}

void turns_fini(struct turns *t)
{
    buf_fini(&t->server_hello);
}

/* False when this begins no record, hence these bytes are not TLS. */
static bool read_header(const uint8_t *header, struct record *record)
{
    record->type = header[0];
    record->len = (size_t)header[3] << 8 | header[4];
    return header[0] >= TYPE_LEAST && header[0] <= TYPE_MOST && header[1] == 3 && record->len <= RECORD_BODY_MAX;
}

/* ---- the caller ---- */

/* The caller's own handshake messages may be still to come, as application data. */
static bool shakes_hands(const struct turns *t)
{
    return t->tls13 && !t->finished && !t->hello.early_data;
}

static bool is_finished(const struct turns *t, const struct record *record)
{
    return shakes_hands(t) && (record->len == FINISHED_SHA256 || record->len == FINISHED_SHA384);
}

static bool is_small(const struct turns *t, const struct record *record)
{
    return t->tls13 && record->len <= SMALL_MOST && !t->small;
}

static bool begins_turn(const struct turns *t, const struct record *record)
{
    return record->type == TYPE_DATA && t->spoken && !t->granted && !is_finished(t, record) && !is_small(t, record);
}

/* The first record of a turn. While hands are shaken it is taken for a piece of a client certificate, and the next one
 * is judged anew, as it may be the request. */
static void begin_turn(struct turns *t)
{
    t->granted = false;
    t->spoken = shakes_hands(t) && ++t->shown < SHOWN_MOST;
    t->finished = !t->spoken;
}

static void enter_record(struct turns *t, const struct record *record)
{
    if (record->type == TYPE_DATA && t->granted) {
        begin_turn(t);
    } else if (record->type == TYPE_DATA && t->spoken) {
        if (is_finished(t, record)) {
            t->finished = true;
        } else {
            t->small = true;
        }
    }
    t->caller_left = record->len;
}

static size_t caller_records(struct turns *t, const uint8_t *bytes, size_t len, enum turns_want *want)
{
    size_t at = 0;
    struct record record;

    while (at < len) {
        size_t part = t->caller_left < len - at ? t->caller_left : len - at;
        t->caller_left -= part;
        at += part;
        if (at == len) {
            break;
        }
        if (len - at < HELLO_RECORD_HEADER_BYTES) {
            *want = TURNS_MORE;
            return at;
        }
        if (!read_header(bytes + at, &record)) {
            t->kind = TURNS_OTHER;
            return at;
        }
        if (begins_turn(t, &record)) {
            *want = TURNS_TURN;
            return at;
        }
        enter_record(t, &record);
        at += HELLO_RECORD_HEADER_BYTES;
    }
    return at;
}

static void decide_kind(struct turns *t, const uint8_t *bytes, size_t len, enum turns_want *want)
{
    if (bytes[0] != TYPE_HANDSHAKE) {
        t->kind = TURNS_OTHER;
        return;
    }
    switch (hello_read_client(bytes, len, &t->hello)) {
    case HELLO_MORE:
        *want = TURNS_MORE;
        break;
    case HELLO_BAD:
        t->kind = TURNS_OTHER;
        t->hello_bad = true;
        *want = TURNS_HELLO;
        break;
    case HELLO_DONE:
        t->kind = TURNS_TLS;
        *want = TURNS_HELLO;
        break;
    }
}

size_t turns_caller(struct turns *t, const void *bytes, size_t len, enum turns_want *want)
{
    size_t passed = 0;

    *want = TURNS_PASSED;
    if (len == 0) {
        return 0;
    }
    if (t->kind == TURNS_UNDECIDED) {
        decide_kind(t, bytes, len, want);
    }
    if (t->kind == TURNS_TLS && *want == TURNS_PASSED) {
        passed = caller_records(t, bytes, len, want);
    }
    if (t->kind != TURNS_OTHER || *want != TURNS_PASSED) {
        return passed;
    }
    if (t->spoken) {
        *want = TURNS_TURN;
        return passed;
    }
    return len;
}

void turns_grant(struct turns *t)
{
    t->granted = t->kind == TURNS_TLS;
    t->spoken = t->granted; /* until its first record is here */
    t->small = false;
    t->count++;
}

/* ---- the server ---- */

static void read_server_hello(struct turns *t, const uint8_t *bytes, size_t len)
{
    buf_add(&t->server_hello, bytes, len);
    enum hello result =
        hello_read_server((const uint8_t *)buf_ptr(&t->server_hello), buf_len(&t->server_hello), &t->tls13);

    if (result != HELLO_MORE || buf_len(&t->server_hello) > SERVER_HELLO_MAX) {
        t->version_known = true;
        t->tls13 = t->tls13 && result == HELLO_DONE;
        buf_fini(&t->server_hello);
    }
}

static size_t server_header(struct turns *t, const uint8_t *bytes, size_t len)
{
    struct turns_side *side = &t->server;
    size_t part = HELLO_RECORD_HEADER_BYTES - side->header_len;
    struct record record;

    part = part < len ? part : len;
    memcpy(side->header + side->header_len, bytes, part);
    side->header_len += (unsigned)part;
    if (side->header_len < HELLO_RECORD_HEADER_BYTES) {
        return part;
    }
    if (!read_header(side->header, &record)) {
        t->kind = TURNS_OTHER;
        t->spoken = true;
        return part;
    }
    side->left = record.len;
    if (record.len == 0) {
        side->header_len = 0;
    }
    if (record.type == TYPE_DATA) {
        t->spoken = true;
        t->finished = t->finished || t->shown > 0;
    }
    return part;
}

static size_t server_body(struct turns *t, const uint8_t *bytes, size_t len)
{
    struct turns_side *side = &t->server;
    size_t part = side->left < len ? side->left : len;

    if (!t->version_known && side->header[0] == TYPE_HANDSHAKE) {
        read_server_hello(t, bytes, part);
    }
    side->left -= part;
    if (side->left == 0) {
        side->header_len = 0;
    }
    return part;
}

void turns_server(struct turns *t, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    if (t->kind == TURNS_UNDECIDED && len > 0) {
        t->kind = TURNS_OTHER; /* it speaks first, which TLS never does */
    }
    while (len > 0 && t->kind == TURNS_TLS) {
        size_t part = t->server.left > 0 ? server_body(t, at, len) : server_header(t, at, len);
        at += part;
        len -= part;
    }
    if (len > 0) {
        t->spoken = true;
    }
}
