/* Connections under random treatment, against a model.
 *
 * Some peers send frames of all sizes in random pieces; the test answers, aborts, drops frames
 * early, opens and shuts windows, takes memory away and closes, all drawn from a seed. The model
 * knows what each peer sent and says, after every step:
 *   - requests start in the order sent; a barrier starts alone, nothing starts beside it, and
 *     nothing after an abort
 *   - what a peer got is a prefix of the answers in the order sent, without those of silent
 *     requests, up to an abort
 * and at the end, when everything is let go: of peers that were not cut off, all of it.
 */
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
    PEERS = 3,
    FRAMES_MAX = 60,
    PARKED_MAX = PEERS * FRAMES_MAX,
    MEMORY_SIZE = 1 << 20,
    FRAME_SIZE_MAX = 200 << 10, /* Large enough for announcements to wait. */
    STEPS = 400,
    SEEDS = 150,
    HELD_MAX = 256,
};

struct frame {
    char kind; /* 'o' overlap, 'b' barrier, 's' overlap without an answer. */
    bool is_aborted;
    size_t size;
};

struct model_peer {
    struct fake_peer *peer;
    struct frame frames[FRAMES_MAX];
    uint32_t frames_count;
    uint32_t started_count;
    uint32_t running_count;
    bool is_barrier_running;
    bool has_aborted; /* Nothing starts any more. */
    bool is_cut;      /* By an abort or by the peer: not everything will be answered. */
    bool is_ended;    /* The peer sends no more, and is answered nevertheless. */
    uint8_t *bytes;   /* Made and not yet sent. */
    size_t bytes_size;
    size_t bytes_sent;
};

struct rig {
    struct test_shard ts;
    struct fake_transport *ft;
    struct conn_server *cs;
    struct rand rand;
    struct model_peer peers[PEERS];
    struct conn_request *parked[PARKED_MAX];
    uint32_t parked_count;
    struct buf *held[HELD_MAX];
    uint32_t held_count;
    bool is_stopped;
};

/* A frame is its kind, its number, and bytes that follow from both. */
static uint8_t byte_at(uint32_t number, size_t pos)
{
    return (uint8_t)(number * 37 + pos * 11 + pos / 255);
}

static struct model_peer *peer_of(struct rig *g, const struct conn_request *r)
{
    return &g->peers[conn_peer(r->conn)[0] - '0'];
}

static enum conn_class classify(void *context, struct slice frame)
{
    (void)context;
    return frame.data[0] == 'b' ? CONN_BARRIER : CONN_OVERLAP;
}

static void on_request(void *context, struct conn_request *r)
{
    struct rig *g = context;
    struct model_peer *m = peer_of(g, r);
    uint32_t number = m->started_count++;
    const struct frame *f = &m->frames[number];
    cr_assert(not(m->has_aborted));
    cr_assert(lt(u32, number, m->frames_count));
    cr_assert(eq(sz, r->frame.size, f->size));
    cr_assert(eq(chr, (char)r->frame.data[0], f->kind));
    for (size_t i = 2; i < f->size; i += 97) {
        cr_assert(eq(u8, r->frame.data[i], byte_at(number, i)));
    }
    if (f->kind == 'b') {
        cr_assert(eq(u32, m->running_count, 0));
    } else {
        cr_assert(not(m->is_barrier_running));
    }
    m->running_count++;
    m->is_barrier_running = f->kind == 'b';
    r->handler_state = (void *)(uintptr_t)number;
    g->parked[g->parked_count++] = r;
}

static void on_closed(void *context, struct conn *c)
{
    struct rig *g = context;
    struct model_peer *m = &g->peers[conn_peer(c)[0] - '0'];
    m->is_cut = m->is_cut || !m->is_ended;
}

static void on_stopped(void *context)
{
    ((struct rig *)context)->is_stopped = true;
}

static void run(struct rig *g)
{
    do {
        test_shard_run(&g->ts);
    } while (fake_transport_run(g->ft) > 0);
    test_shard_run(&g->ts);
}

static void answer_with_frame(struct conn_request *r)
{
    /* The answer outlives the frame if it is in memory of its own; as a piece it needs the buf. */
    size_t size = r->frame.size;
    uint8_t *copy = malloc(size);
    memcpy(copy, r->frame.data, size);
    if (size % 2 == 0) {
        conn_answer(r, copy, size);
        return;
    }
    const struct conn_piece pieces[2] = {{slice_of(copy, size / 2), NULL},
                                         {slice_of(copy + size / 2, size - size / 2), NULL}};
    conn_answer_pieces(r, copy, pieces, 2);
}

static void end_one(struct rig *g)
{
    if (g->parked_count == 0) {
        return;
    }
    uint32_t index = (uint32_t)rand_below(&g->rand, g->parked_count);
    struct conn_request *r = g->parked[index];
    g->parked[index] = g->parked[--g->parked_count];
    struct model_peer *m = peer_of(g, r);
    struct frame *f = &m->frames[(uintptr_t)r->handler_state];
    m->running_count--;
    m->is_barrier_running = false;
    if (rand_one_in(&g->rand, 60)) {
        f->is_aborted = true;
        m->has_aborted = true;
        m->is_cut = true;
        conn_abort(r);
    } else if (f->kind == 's') {
        if (rand_one_in(&g->rand, 2)) {
            conn_request_drop_frame(r);
        }
        conn_answer_nothing(r);
    } else {
        answer_with_frame(r);
    }
}

static void make_frame(struct rig *g, struct model_peer *m)
{
    if (m->frames_count == FRAMES_MAX || m->is_ended) {
        return;
    }
    size_t size =
        rand_one_in(&g->rand, 5)
            ? 2 + rand_below(&g->rand, rand_one_in(&g->rand, 4) ? FRAME_SIZE_MAX - 2 : 60 << 10)
            : 2 + rand_below(&g->rand, 100);
    uint32_t number = m->frames_count++;
    struct frame *f = &m->frames[number];
    *f = (struct frame){.kind = "obs"[rand_below(&g->rand, 3)], .size = size};
    m->bytes = realloc(m->bytes, m->bytes_size + 4 + size);
    uint8_t *at = m->bytes + m->bytes_size;
    at[0] = (uint8_t)(size >> 24);
    at[1] = (uint8_t)(size >> 16);
    at[2] = (uint8_t)(size >> 8);
    at[3] = (uint8_t)size;
    for (size_t i = 0; i < size; i++) {
        at[4 + i] = byte_at(number, i);
    }
    at[4] = (uint8_t)f->kind;
    m->bytes_size += 4 + size;
}

static void send_some(struct rig *g, struct model_peer *m)
{
    size_t left = m->bytes_size - m->bytes_sent;
    if (left == 0) {
        return;
    }
    size_t size = rand_one_in(&g->rand, 3) ? left : 1 + rand_below(&g->rand, left);
    fake_peer_send(m->peer, m->bytes + m->bytes_sent, size);
    m->bytes_sent += size;
}

static void end_if_all_is_sent(struct model_peer *m)
{
    if (m->bytes_sent == m->bytes_size && !m->is_ended) {
        m->is_ended = true;
        fake_peer_end(m->peer);
    }
}

static void take_or_give_memory(struct rig *g)
{
    if (rand_one_in(&g->rand, 3)) {
        while (g->held_count > 0) {
            buf_unref(g->held[--g->held_count]);
        }
        return;
    }
    uint64_t wanted = rand_below(&g->rand, HELD_MAX);
    for (uint64_t i = 0; i < wanted && g->held_count < HELD_MAX; i++) {
        struct buf *b = buf_alloc(g->ts.shard.bufs, 4096, BUF_CLIENT);
        if (b == NULL) {
            return;
        }
        g->held[g->held_count++] = b;
    }
}

/* What m's peer got is a prefix of what it should get; all of it if is_whole. */
static void check_received(const struct model_peer *m, bool is_whole)
{
    struct slice got = fake_peer_received(m->peer);
    size_t pos = 0;
    size_t sent_pos = 0;
    for (uint32_t i = 0; i < m->frames_count; i++) {
        const struct frame *f = &m->frames[i];
        if (f->is_aborted) {
            break;
        }
        size_t size = 4 + f->size;
        if (f->kind != 's') {
            struct slice there = slice_rest(got, pos);
            there.size = there.size < size ? there.size : size;
            cr_assert(slice_equal(there, slice_of(m->bytes + sent_pos, there.size)), "i=%u", i);
            pos += there.size;
        }
        sent_pos += size;
    }
    cr_assert(eq(sz, pos, got.size));
    if (is_whole) {
        cr_assert(eq(u32, m->started_count, m->frames_count));
        size_t expected = 0;
        for (uint32_t i = 0; i < m->frames_count; i++) {
            expected += m->frames[i].kind == 's' ? 0 : 4 + m->frames[i].size;
        }
        cr_assert(eq(sz, got.size, expected));
    }
}

static void step(struct rig *g)
{
    struct model_peer *m = &g->peers[rand_below(&g->rand, PEERS)];
    switch (rand_below(&g->rand, 10)) {
    case 0:
    case 1:
        make_frame(g, m);
        break;
    case 2:
    case 3:
    case 4:
        send_some(g, m);
        break;
    case 5:
    case 6:
    case 7:
        end_one(g);
        break;
    case 8:
        fake_peer_set_window(
            m->peer, rand_one_in(&g->rand, 2) ? SIZE_MAX : rand_below(&g->rand, FRAME_SIZE_MAX));
        break;
    default:
        take_or_give_memory(g);
        if (rand_one_in(&g->rand, 30)) {
            fake_peer_close(m->peer, rand_one_in(&g->rand, 2) ? ERR_CLOSED : ERR_IO);
            m->is_cut = true;
        } else if (rand_one_in(&g->rand, 30)) {
            end_if_all_is_sent(m);
        }
    }
    if (!rand_one_in(&g->rand, 3)) {
        run(g);
        for (int i = 0; i < PEERS; i++) {
            check_received(&g->peers[i], false);
        }
    }
}

/* Everything is let go: what was not cut off has to come to its end. */
static void finish(struct rig *g)
{
    while (g->held_count > 0) {
        buf_unref(g->held[--g->held_count]);
    }
    bool any = true;
    while (any) {
        any = g->parked_count > 0;
        for (int i = 0; i < PEERS; i++) {
            struct model_peer *m = &g->peers[i];
            fake_peer_set_window(m->peer, SIZE_MAX);
            any |= m->bytes_sent < m->bytes_size;
            send_some(g, m);
            if (rand_one_in(&g->rand, 3)) {
                end_if_all_is_sent(m);
            }
        }
        end_one(g);
        run(g);
        any |= g->parked_count > 0;
    }
    for (int i = 0; i < PEERS; i++) {
        check_received(&g->peers[i], !g->peers[i].is_cut);
    }
}

static void rig_init(struct rig *g, uint64_t seed)
{
    memset(g, 0, sizeof(*g));
    rand_init_seed(&g->rand, seed);
    test_shard_init(&g->ts, MEMORY_SIZE);
    g->ft = fake_transport_new();
    struct conn_server_options o = {
        .shard = &g->ts.shard,
        .transport = fake_transport_of(g->ft),
        .limits = {.frame_size_max = FRAME_SIZE_MAX,
                   .requests_max = 1 + (uint32_t)rand_below(&g->rand, 10),
                   .conns_max = PEERS,
                   .frames_size_max = rand_one_in(&g->rand, 2) ? 0 : 100 << 10,
                   .answers_size_max = rand_one_in(&g->rand, 2) ? 0 : 1000},
        .handler = {.context = g,
                    .classify = classify,
                    .on_request = on_request,
                    .on_closed = on_closed},
    };
    cr_assert(eq(int, conn_server_new(&o, &g->cs), ERR_OK));
    const struct net_address a = {.host = "any"};
    uint16_t port;
    char why[NET_WHY_SIZE];
    cr_assert(eq(int, conn_server_listen(g->cs, &a, 0, &port, why), ERR_OK));
    for (int i = 0; i < PEERS; i++) {
        const char name[2] = {(char)('0' + i), '\0'};
        g->peers[i].peer = fake_transport_dial(g->ft, port, name);
    }
    run(g);
}

static void rig_done(struct rig *g)
{
    conn_server_stop(g->cs, g, on_stopped);
    run(g);
    cr_assert(g->is_stopped);
    conn_server_free(g->cs);
    fake_transport_of(g->ft)->ops->destroy(fake_transport_of(g->ft));
    struct buf_pool_stats memory;
    buf_pool_stats(g->ts.shard.bufs, &memory);
    cr_assert(eq(sz, memory.used_size, 0));
    test_shard_done(&g->ts);
    for (int i = 0; i < PEERS; i++) {
        free(g->peers[i].bytes);
    }
}

Test(conn_random, keeps_its_promises, .timeout = 100)
{
    static struct rig g;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig_init(&g, seed);
        for (int i = 0; i < STEPS; i++) {
            step(&g);
        }
        finish(&g);
        rig_done(&g);
    }
}
