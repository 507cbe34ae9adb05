/* A server of connections over the fake transport, for the tests of net/conn.h. The first byte of a
 * frame tells the test's handler what it is and what to do with it:
 *
 *   B  a barrier, parked: the test ends it      b  a barrier, answered at once with its own frame
 *   P  may overlap, parked                      p  may overlap, answered at once
 *   S  may overlap, no answer, at once          A  a barrier, aborted at once
 *   X  refused by classify
 */
#pragma once

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "net/conn.h"

#include "tests/support/fake_transport.h"
#include "tests/support/test_shard.h"
enum {
    PARKED_MAX = 64,
    MEMORY_SIZE = 1 << 20,
    FRAME_SIZE_MAX = 200 << 10,
};

struct rig {
    struct test_shard ts;
    struct fake_transport *ft;
    struct conn_server *cs;
    uint16_t port;
    struct conn_request
        *parked[PARKED_MAX]; /* By the second byte of the frame, a digit or letter. */
    uint32_t parked_count;
    char started[256]; /* First bytes of the frames, in order of start. */
    uint32_t eof_count;
    uint32_t behind_count;
    uint32_t closed_count;
    bool is_stopped;
    bool is_in_callback;
};

static inline enum conn_class classify(void *context, struct slice frame)
{
    (void)context;
    switch (frame.data[0]) {
    case 'P':
    case 'p':
    case 'S':
        return CONN_OVERLAP;
    case 'X':
        return CONN_REFUSE;
    default:
        return CONN_BARRIER;
    }
}

static inline void answer_frame(struct conn_request *r)
{
    uint8_t *data = malloc(r->frame.size);
    size_t size = r->frame.size;
    memcpy(data, r->frame.data, size);
    conn_answer(r, data, size);
}

static inline void on_request(void *context, struct conn_request *r)
{
    struct rig *g = context;
    assert(!g->is_in_callback);
    g->is_in_callback = true;
    char kind = (char)r->frame.data[0];
    size_t length = strlen(g->started);
    if (length + 1 < sizeof(g->started)) {
        g->started[length] = kind;
    }
    switch (kind) {
    case 'b':
    case 'p':
        answer_frame(r);
        break;
    case 'S':
        conn_answer_nothing(r);
        break;
    case 'A':
        conn_abort(r);
        break;
    default:
        assert(g->parked_count < PARKED_MAX);
        g->parked[g->parked_count++] = r;
    }
    g->is_in_callback = false;
}

static inline void on_eof(void *context, struct conn *c)
{
    struct rig *g = context;
    g->eof_count++;
    cr_assert(conn_is_ending(c));
}

static inline void on_behind(void *context, struct conn *c)
{
    struct rig *g = context;
    (void)c;
    g->behind_count++;
}

static inline void on_closed(void *context, struct conn *c)
{
    struct rig *g = context;
    g->closed_count++;
    cr_assert(eq(ptr, conn_state(c), NULL));
}

static inline void on_stopped(void *context)
{
    ((struct rig *)context)->is_stopped = true;
}

static const struct conn_limits default_limits = {
    .frame_size_max = FRAME_SIZE_MAX,
    .requests_max = 20,
    .conns_max = 4,
};

static inline void rig_init(struct rig *g, const struct conn_limits *limits)
{
    memset(g, 0, sizeof(*g));
    test_shard_init(&g->ts, MEMORY_SIZE);
    g->ft = fake_transport_new();
    struct conn_server_options o = {
        .shard = &g->ts.shard,
        .transport = fake_transport_of(g->ft),
        .limits = *limits,
        .handler = {.context = g,
                    .classify = classify,
                    .on_request = on_request,
                    .on_behind = on_behind,
                    .on_eof = on_eof,
                    .on_closed = on_closed},
    };
    cr_assert(eq(int, conn_server_new(&o, &g->cs), ERR_OK));
    struct net_address a = {.host = "any"};
    char why[NET_WHY_SIZE];
    cr_assert(eq(int, conn_server_listen(g->cs, &a, 7, &g->port, why), ERR_OK));
}

static inline void run(struct rig *g)
{
    do {
        test_shard_run(&g->ts);
    } while (fake_transport_run(g->ft) > 0);
    test_shard_run(&g->ts);
}

/* Moves the clock in small steps, so that the transport takes part. */
static inline void advance(struct rig *g, uint64_t us)
{
    test_shard_advance(&g->ts, us);
    run(g);
}

static inline void rig_done(struct rig *g)
{
    if (!g->is_stopped) {
        conn_server_stop(g->cs, g, on_stopped);
        run(g);
        advance(g, CONN_STOP_TIMEOUT_US_DEFAULT);
    }
    cr_assert(g->is_stopped);
    cr_assert(eq(u32, conn_server_count(g->cs), 0));
    conn_server_free(g->cs);
    fake_transport_of(g->ft)->ops->destroy(fake_transport_of(g->ft));
    struct buf_pool_stats memory;
    buf_pool_stats(g->ts.shard.bufs, &memory);
    cr_assert(eq(sz, memory.used_size, 0));
    test_shard_done(&g->ts);
}

static inline struct fake_peer *dial(struct rig *g)
{
    struct fake_peer *p = fake_transport_dial(g->ft, g->port, "192.0.2.1:5000");
    run(g);
    return p;
}

/* Appends one frame of size bytes that begins with text; returns the bytes written. */
static inline size_t put_frame(uint8_t *dst, const char *text, size_t size)
{
    size_t text_size = strlen(text);
    size = size < text_size ? text_size : size;
    dst[0] = (uint8_t)(size >> 24);
    dst[1] = (uint8_t)(size >> 16);
    dst[2] = (uint8_t)(size >> 8);
    dst[3] = (uint8_t)size;
    for (size_t i = 0; i < size; i++) {
        dst[4 + i] = i < text_size ? (uint8_t)text[i] : (uint8_t)(i * 31 + i / 251);
    }
    return 4 + size;
}

static inline void send_frame(struct rig *g, struct fake_peer *p, const char *text, size_t size)
{
    uint8_t *bytes = malloc(size + strlen(text) + 4);
    size_t bytes_size = put_frame(bytes, text, size);
    fake_peer_send(p, bytes, bytes_size);
    free(bytes);
    run(g);
}

/* texts: frames separated by spaces, sent in one piece. */
static inline void send_frames(struct rig *g, struct fake_peer *p, const char *texts)
{
    uint8_t bytes[4096];
    size_t size = 0;
    char copy[512];
    strcpy(copy, texts);
    for (char *save, *t = strtok_r(copy, " ", &save); t != NULL; t = strtok_r(NULL, " ", &save)) {
        size += put_frame(bytes + size, t, 0);
    }
    fake_peer_send(p, bytes, size);
    run(g);
}

/* The text answers the peer got, separated by spaces. Each must be whole. */
static inline const char *answers(struct fake_peer *p)
{
    static char text[4096];
    struct slice s = fake_peer_received(p);
    size_t pos = 0;
    size_t length = 0;
    while (pos < s.size) {
        cr_assert(ge(sz, s.size - pos, 4));
        size_t size = (size_t)s.data[pos] << 24 | (size_t)s.data[pos + 1] << 16 |
                      (size_t)s.data[pos + 2] << 8 | s.data[pos + 3];
        cr_assert(ge(sz, s.size - pos - 4, size));
        length += (size_t)snprintf(text + length,
                                   sizeof(text) - length,
                                   "%s%.*s",
                                   length == 0 ? "" : " ",
                                   (int)(size < 8 ? size : 8),
                                   s.data + pos + 4);
        pos += 4 + size;
    }
    text[length] = '\0';
    return text;
}

static inline void expect_answers(struct fake_peer *p, const char *expected)
{
    cr_assert(eq(str, (char *)answers(p), (char *)expected));
}

static inline void expect_started(struct rig *g, const char *expected)
{
    cr_assert(eq(str, g->started, (char *)expected));
}

/* The parked request whose frame is text; it is no longer parked. */
static inline struct conn_request *take(struct rig *g, const char *text)
{
    for (uint32_t i = 0; i < g->parked_count; i++) {
        struct conn_request *r = g->parked[i];
        if (slice_equal_string(r->frame, text)) {
            g->parked[i] = g->parked[--g->parked_count];
            return r;
        }
    }
    cr_fatal("not parked: %s", text);
    return NULL;
}

static inline void answer(struct rig *g, const char *text)
{
    answer_frame(take(g, text));
    run(g);
}
