/* From bytes to frames.
 *
 * The four bytes of the length come first, then the frame gets memory of its own. A length is only
 * a promise: a frame gets a page at first, and all it announces once that is filled (an honest
 * peer's first bytes fill it before anybody looks); and what large frames have announced and not
 * sent takes half of the shard's memory at most, so that promises make nobody wait but those who
 * promise.
 *
 * When a frame may not get memory (a limit, none there), the connection is blocked: the stream is
 * paused, and what the transport had read already is kept in the spill, at most one receive buffer
 * with the kernel's transport. The spills of a server are bounded together; where that bound is met
 * the connection ends.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "net/conn_priv.h"

static uint32_t prefix_length(const struct conn *c)
{
    return (uint32_t)c->prefix[0] << 24 | (uint32_t)c->prefix[1] << 16 |
           (uint32_t)c->prefix[2] << 8 | (uint32_t)c->prefix[3];
}

static void refuse_frame(struct conn *c, uint32_t length)
{
    struct conn_server *cs = c->server;
    cs->counters.frames_refused++;
    uint64_t held;
    if (log_limit_pass(&cs->log_frame, cs->shard->now_us, &held)) {
        log_warn(cs->shard->log,
                 "frame_refused",
                 "peer=%s size=%d frame_size_max=%u held_back=%llu action=closing "
                 "hint=\"not this protocol, or raise socket.request.max.bytes\"",
                 c->peer,
                 (int32_t)length,
                 cs->limits.frame_size_max,
                 (unsigned long long)held);
    }
    conn_end(c);
}

/* What lets it go on may come from another shard, quietly (core/xmsg.h). */
static void set_blocked(struct conn *c, bool is_blocked)
{
    struct shard *s = c->server->shard;
    if (is_blocked && !c->is_blocked) {
        s->quiet_waiters_count++;
    } else if (!is_blocked && c->is_blocked) {
        assert_cmp(s->quiet_waiters_count, >, 0);
        s->quiet_waiters_count--;
    }
    c->is_blocked = is_blocked;
}

static bool is_at_limit(const struct conn *c, uint32_t length)
{
    const struct conn_limits *l = &c->server->limits;
    if (c->requests_count >= l->requests_max) {
        return true;
    }
    /* A single frame is always let in: otherwise one above the limit would wait for ever. */
    return l->frames_size_max > 0 && c->frames_size > 0 &&
           c->frames_size + length > l->frames_size_max;
}

void conn_receive_wake_announcers(struct conn_server *cs)
{
    size_t size = cs->announced_size;
    while (size < cs->announced_size_max && !list_is_empty(&cs->announce_waiters)) {
        struct conn *c = container_of(cs->announce_waiters.next, struct conn, announce_link);
        list_remove(&c->announce_link);
        size += c->incoming != NULL ? c->incoming->frame.size : prefix_length(c);
        shard_post(cs->shard, &c->task);
    }
}

/* Memory of size for a frame of which missing bytes are to come. NULL: the connection is blocked
 * until it may be tried again. */
static struct buf *frame_alloc(struct conn *c, size_t size, size_t missing)
{
    struct conn_server *cs = c->server;
    const size_t announced = size < CONN_ANNOUNCED_SIZE_MIN ? 0 : missing;
    /* One is always let in: otherwise a frame above the limit would wait for ever. */
    if (announced > 0 && cs->announced_size > 0 &&
        cs->announced_size + announced > cs->announced_size_max) {
        set_blocked(c, true);
        list_push_back(&cs->announce_waiters, &c->announce_link);
        return NULL;
    }
    struct buf *b = buf_alloc(cs->shard->bufs, size, BUF_CLIENT);
    if (b == NULL) {
        set_blocked(c, true);
        buf_pool_wait(cs->shard->bufs, &c->waiter);
        return NULL;
    }
    c->announced_size = announced;
    cs->announced_size += announced;
    return b;
}

static void withdraw_announcement(struct conn *c)
{
    struct conn_server *cs = c->server;
    if (c->announced_size > 0) {
        cs->announced_size -= c->announced_size;
        c->announced_size = 0;
        conn_receive_wake_announcers(cs);
    }
}

/* The incoming frame has a page and waits to be worth more. */
static bool is_on_first_page(const struct conn *c)
{
    return c->incoming->frame_buf->capacity < c->incoming->frame.size;
}

static size_t first_size(const struct conn *c, uint32_t length, size_t size_at_hand)
{
    const struct conn_server *cs = c->server;
    const bool is_promise = length > CONN_FIRST_SIZE && size_at_hand < CONN_FIRST_SIZE;
    /* Pages that wait for more memory must not be all the memory there is. */
    const bool has_page = cs->first_size + CONN_FIRST_SIZE <= cs->first_size_max;
    return is_promise && has_page ? CONN_FIRST_SIZE : length;
}

/* Turns the complete prefix into an incoming frame, of which size_at_hand bytes are there. False:
 * refused, or blocked. */
static bool begin_frame(struct conn *c, size_t size_at_hand)
{
    struct conn_server *cs = c->server;
    uint32_t length = prefix_length(c);
    if (length == 0 || length > cs->limits.frame_size_max) { /* Negative is above any maximum. */
        refuse_frame(c, length);
        return false;
    }
    if (is_at_limit(c, length)) {
        set_blocked(c, true);
        return false;
    }
    struct buf *b = frame_alloc(c, first_size(c, length, size_at_hand), length);
    if (b == NULL) {
        return false;
    }
    struct conn_request *r = conn_request_new(c);
    if (r == NULL) {
        buf_unref(b);
        withdraw_announcement(c);
        set_blocked(c, true);
        buf_pool_wait(cs->shard->bufs, &c->waiter);
        return false;
    }
    r->frame_buf = b;
    r->frame = slice_of(b->data, length);
    r->received_us = cs->shard->now_us; /* Of its start; that of its end comes with that. */
    c->frames_size += b->capacity;
    c->incoming = r;
    c->incoming_size = 0;
    c->prefix_size = 0;
    cs->first_size += is_on_first_page(c) ? CONN_FIRST_SIZE : 0;
    return true;
}

/* The first page is full: the frame gets all of its memory. False: blocked. */
static bool extend_frame(struct conn *c)
{
    struct conn_request *r = c->incoming;
    const size_t size = r->frame.size;
    struct buf *b = frame_alloc(c, size, size - c->incoming_size);
    if (b == NULL) {
        return false;
    }
    memcpy(b->data, r->frame_buf->data, c->incoming_size);
    c->server->first_size -= CONN_FIRST_SIZE;
    c->frames_size += b->capacity - r->frame_buf->capacity;
    buf_unref(r->frame_buf);
    r->frame_buf = b;
    r->frame = slice_of(b->data, size);
    r->received_us =
        c->server->shard->now_us; /* It did not keep this memory from anybody before. */
    return true;
}

static void complete_frame(struct conn *c)
{
    struct conn_server *cs = c->server;
    struct conn_request *r = c->incoming;
    assert_cmp(c->incoming_size, ==, r->frame.size);
    c->incoming = NULL;
    withdraw_announcement(c);
    c->active_us = cs->shard->now_us;
    cs->counters.requests++;

    r->received_us = cs->shard->now_us;
    r->class = cs->handler.classify(cs->handler.context, r->frame);
    if (r->class == CONN_REFUSE) {
        conn_request_free(r);
        conn_end(c);
        return;
    }
    list_push_back(&c->waiting, &r->link);
}

/* How many bytes the incoming frame's memory takes yet. */
static size_t missing_in_memory(const struct conn *c)
{
    const struct conn_request *r = c->incoming;
    const size_t size = is_on_first_page(c) ? r->frame_buf->capacity : r->frame.size;
    return size - c->incoming_size;
}

/* Makes frames of bytes until they are used up, or the connection is blocked or ends. Returns how
 * many were used. */
static size_t consume(struct conn *c, const uint8_t *data, size_t size)
{
    size_t pos = 0;
    while (c->state == CONN_OPEN) {
        if (c->incoming == NULL) {
            while (c->prefix_size < CONN_PREFIX_SIZE && pos < size) {
                c->prefix[c->prefix_size++] = data[pos++];
            }
            if (c->prefix_size < CONN_PREFIX_SIZE || !begin_frame(c, size - pos)) {
                break;
            }
        } else if (c->incoming_size == c->incoming->frame_buf->capacity && !extend_frame(c)) {
            break;
        }
        size_t missing = missing_in_memory(c);
        size_t taken = missing < size - pos ? missing : size - pos;
        if (taken > 0) {
            memcpy(c->incoming->frame_buf->data + c->incoming_size, data + pos, taken);
        }
        c->incoming_size += taken;
        pos += taken;
        if (taken < missing) {
            break;
        }
        if (!is_on_first_page(c)) {
            complete_frame(c);
        }
    }
    return pos;
}

static void spill_free(struct conn *c)
{
    c->server->spill_size -= c->spill_size;
    free(c->spill);
    c->spill = NULL;
    c->spill_size = 0;
    c->spill_pos = 0;
}

static void refuse_spill(struct conn *c)
{
    struct conn_server *cs = c->server;
    cs->counters.spill_refused++;
    uint64_t held;
    if (log_limit_pass(&cs->log_spill, cs->shard->now_us, &held)) {
        log_warn(cs->shard->log,
                 "connection_memory_out",
                 "peer=%s spill_size_max=%zu held_back=%llu action=closing hint=\"raise --memory\"",
                 c->peer,
                 cs->spill_size_max,
                 (unsigned long long)held);
    }
    conn_end(c);
}

static void spill_add(struct conn *c, const uint8_t *data, size_t size)
{
    struct conn_server *cs = c->server;
    if (cs->spill_size + size > cs->spill_size_max) {
        refuse_spill(c);
        return;
    }
    uint8_t *grown = realloc(c->spill, c->spill_size + size);
    if (grown == NULL) {
        refuse_spill(c);
        return;
    }
    memcpy(grown + c->spill_size, data, size);
    c->spill = grown;
    c->spill_size += size;
    cs->spill_size += size;
}

/* Tells the transport what is wanted next. */
static void settle(struct conn *c)
{
    bool wants_data = c->state == CONN_OPEN && !c->is_blocked;
    if (!wants_data) {
        if (!c->is_paused && c->state < CONN_CLOSING) {
            c->is_paused = true;
            c->server->counters.blocked++;
            stream_pause(c->stream);
        }
        return;
    }
    if (c->incoming != NULL && !c->is_receiving_into) {
        size_t missing = missing_in_memory(c);
        if (missing >= CONN_RECEIVE_INTO_SIZE_MIN) {
            c->is_receiving_into = true;
            stream_receive_into(
                c->stream, c->incoming->frame_buf->data + c->incoming_size, missing);
        }
    }
    if (c->is_paused) {
        c->is_paused = false;
        stream_resume(c->stream);
    }
}

void conn_receive_data(struct conn *c, const uint8_t *data, size_t size)
{
    c->server->counters.receive_bytes += size;
    assert(!c->is_receiving_into);
    if (c->state != CONN_OPEN) {
        return;
    }
    if (c->is_blocked) {
        spill_add(c, data, size);
    } else {
        size_t used = consume(c, data, size);
        if (c->is_blocked && used < size) {
            spill_add(c, data + used, size - used);
        }
    }
    settle(c);
}

void conn_receive_done(struct conn *c)
{
    assert(c->is_receiving_into);
    c->is_receiving_into = false;
    c->server->counters.receive_bytes += c->incoming->frame.size - c->incoming_size;
    c->incoming_size = c->incoming->frame.size;
    if (c->state != CONN_OPEN) {
        conn_receive_drop(c);
        return;
    }
    complete_frame(c);
    settle(c);
}

void conn_receive_eof(struct conn *c)
{
    c->is_eof = true;
    if (c->is_receiving_into) {
        c->is_receiving_into = false;
        conn_receive_drop(c); /* Its rest never comes. */
    }
}

bool conn_receive_retry(struct conn *c)
{
    const bool is_waiting = c->waiter.is_waiting || !list_is_empty(&c->announce_link);
    if (!c->is_blocked || is_waiting || c->state != CONN_OPEN) {
        return false;
    }
    set_blocked(c, false);
    size_t left = c->spill_size - c->spill_pos;
    size_t used = consume(c, left == 0 ? NULL : c->spill + c->spill_pos, left);
    if (c->state != CONN_OPEN) {
        return true; /* The spill went with the end of reading. */
    }
    c->spill_pos += used;
    if (!c->is_blocked) {
        assert_cmp(c->spill_pos, ==, c->spill_size);
        spill_free(c);
    }
    settle(c);
    return !c->is_blocked || used > 0;
}

void conn_receive_on_memory(struct buf_waiter *w)
{
    struct conn *c = container_of(w, struct conn, waiter);
    shard_post(c->server->shard, &c->task);
}

void conn_receive_drop(struct conn *c)
{
    assert(!c->is_receiving_into || c->state == CONN_CLOSED);
    if (c->incoming != NULL) {
        c->server->first_size -= is_on_first_page(c) ? CONN_FIRST_SIZE : 0;
        conn_request_free(c->incoming);
        c->incoming = NULL;
        withdraw_announcement(c);
    }
}

void conn_receive_stop(struct conn *c)
{
    buf_pool_cancel_wait(c->server->shard->bufs, &c->waiter);
    list_remove(&c->announce_link);
    set_blocked(c, false);
    spill_free(c);
    if (!c->is_receiving_into) {
        conn_receive_drop(c);
    }
    if (!c->is_paused && c->state < CONN_CLOSING) {
        c->is_paused = true;
        stream_pause(c->stream);
    }
}
