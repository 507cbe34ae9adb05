/* Memory that peers announce or do not let go: who waits, who goes, who does not notice. */
#include "tests/unit/net/conn_rig.h"

static struct conn_limits crowd_limits(void)
{
    struct conn_limits limits = default_limits;
    limits.conns_max = 64;
    return limits;
}

/* In steps, so that the transport closes what is to be closed. */
static void pass_time(struct rig *g, uint64_t us)
{
    const uint64_t step_us = 100 * 1000;
    for (uint64_t passed_us = 0; passed_us < us; passed_us += step_us) {
        advance(g, step_us);
    }
}

enum {
    HALF_SIZE = 120 << 10, /* Of the frames that come in two parts. */
    HALF_SENT = 5000,
    HALVES = 16,
};

static const uint8_t *half_frame(void)
{
    static uint8_t bytes[4 + HALF_SIZE];
    put_frame(bytes, "b1", HALF_SIZE);
    return bytes;
}

/* Many peers announce frames and send little of them, until no memory is left for such. */
static void
fill_with_half_frames(struct rig *g, struct fake_peer **peers, size_t count, size_t sent_size)
{
    for (size_t i = 0; i < count; i++) {
        peers[i] = dial(g);
        fake_peer_send(peers[i], half_frame(), sent_size);
        run(g);
    }
}

/* In pieces, as a kernel's receive buffers would have it. */
static void send_rest(struct rig *g, struct fake_peer *p, size_t pos)
{
    while (pos < 4 + HALF_SIZE) {
        const size_t left = 4 + HALF_SIZE - pos;
        const size_t size = left < 16 << 10 ? left : 16 << 10;
        fake_peer_send(p, half_frame() + pos, size);
        run(g);
        pos += size;
    }
}

static uint64_t used_size(struct rig *g)
{
    struct buf_pool_stats memory;
    buf_pool_stats(g->ts.shard.bufs, &memory);
    return memory.used_size;
}

/* A length is only a promise: it takes a page, and nobody else waits. */
Test(conn_pressure, a_length_alone_takes_a_page)
{
    struct rig g;
    struct conn_limits limits = crowd_limits();
    rig_init(&g, &limits);
    struct fake_peer *peers[HALVES];
    fill_with_half_frames(&g, peers, HALVES, 6);
    cr_assert(eq(u64, used_size(&g), HALVES * 4096));
    struct fake_peer *p = dial(&g);
    send_frame(&g, p, "b2", FRAME_SIZE_MAX);
    cr_assert(eq(sz, fake_peer_received(p).size, 4 + FRAME_SIZE_MAX));
    pass_time(&g, 4 * CONN_PATIENCE_US_DEFAULT);
    for (size_t i = 0; i < HALVES; i++) {
        send_rest(&g, peers[i], 6);
        cr_assert(eq(sz, fake_peer_received(peers[i]).size, 4 + HALF_SIZE), "i=%zu", i);
    }
    cr_assert(eq(u64, used_size(&g), 0));
    rig_done(&g);
}

/* Pages that wait to become frames are bounded too: without one the frame waits for all of it. */
Test(conn_pressure, pages_of_promises_are_bounded)
{
    struct rig g;
    struct conn_limits limits = crowd_limits();
    rig_init(&g, &limits);
    struct fake_peer *peers[40];
    fill_with_half_frames(&g, peers, 40, 6);
    cr_assert(le(u64, used_size(&g), MEMORY_SIZE / 8 + MEMORY_SIZE / 2));
    for (size_t i = 0; i < 40; i++) {
        send_rest(&g, peers[i], 6);
    }
    for (size_t i = 0; i < 40; i++) {
        cr_assert(eq(sz, fake_peer_received(peers[i]).size, 4 + HALF_SIZE), "i=%zu", i);
    }
    rig_done(&g);
}

/* What large frames announce takes half of the memory; the others wait without being closed, and
 * small frames do not wait at all. */
Test(conn_pressure, announced_frames_take_half_of_the_memory)
{
    for (int is_one_closed = 0; is_one_closed <= 1; is_one_closed++) {
        struct rig g;
        struct conn_limits limits = crowd_limits();
        rig_init(&g, &limits);
        struct fake_peer *peers[HALVES];
        fill_with_half_frames(&g, peers, HALVES, HALF_SENT);
        cr_assert(le(u64, used_size(&g), MEMORY_SIZE / 2 + HALVES * 8192));
        struct fake_peer *p = dial(&g);
        send_frame(&g, p, "b2", 30 << 10);
        cr_assert(eq(sz, fake_peer_received(p).size, 4 + (30 << 10)));
        for (int i = 0; i < is_one_closed; i++) {
            fake_peer_close(peers[0], ERR_IO);          /* One that has its memory, */
            fake_peer_close(peers[HALVES - 1], ERR_IO); /* and one that waits. */
            run(&g);
        }
        for (size_t i = 0; i < HALVES; i++) {
            if (!fake_peer_is_closed(peers[i])) {
                send_rest(&g, peers[i], HALF_SENT);
            }
        }
        for (size_t i = 0; i < HALVES; i++) {
            const bool is_gone = is_one_closed == 1 && (i == 0 || i == HALVES - 1);
            cr_assert(
                eq(sz, fake_peer_received(peers[i]).size, is_gone ? 0 : 4 + HALF_SIZE), "i=%zu", i);
        }
        cr_assert(eq(u64, used_size(&g), 0));
        rig_done(&g);
    }
}

/* A half frame holds its memory against nobody who waits for it. */
Test(conn_pressure, half_frames_give_way_when_memory_is_short)
{
    struct rig g;
    struct conn_limits limits = crowd_limits();
    rig_init(&g, &limits);
    struct fake_peer *peers[HALVES];
    fill_with_half_frames(&g, peers, HALVES, HALF_SENT);
    struct fake_peer *p = dial(&g);
    send_frame(&g, p, "b2", 100 << 10);
    pass_time(&g, CONN_PATIENCE_US_DEFAULT / 2);
    cr_assert(eq(sz, fake_peer_received(p).size, 0));
    pass_time(&g, 2 * CONN_PATIENCE_US_DEFAULT);
    cr_assert(eq(sz, fake_peer_received(p).size, 4 + (100 << 10)));
    cr_assert(fake_peer_is_closed(peers[0]));
    cr_assert(not(fake_peer_is_closed(p)));
    rig_done(&g);
}

/* While there is memory for all, nobody is hurried. */
Test(conn_pressure, half_frames_may_wait_while_there_is_memory)
{
    struct rig g;
    struct conn_limits limits = crowd_limits();
    rig_init(&g, &limits);
    struct fake_peer *peers[2];
    fill_with_half_frames(&g, peers, 2, HALF_SENT);
    pass_time(&g, 4 * CONN_PATIENCE_US_DEFAULT);
    cr_assert(not(fake_peer_is_closed(peers[0])));
    cr_assert(not(fake_peer_is_closed(peers[1])));
    rig_done(&g);
}

/* The same for answers that a peer does not take. */
Test(conn_pressure, untaken_answers_give_way_when_memory_is_short)
{
    struct rig g;
    struct conn_limits limits = crowd_limits();
    rig_init(&g, &limits);
    struct fake_peer *slow = dial(&g);
    fake_peer_set_window(slow, 0);
    send_frame(&g, slow, "b1", 120 << 10);
    pass_time(&g, 2 * CONN_PATIENCE_US_DEFAULT);
    cr_assert(not(fake_peer_is_closed(slow)));
    struct fake_peer *peers[HALVES];
    fill_with_half_frames(&g, peers, HALVES, HALF_SENT);
    pass_time(&g, CONN_PATIENCE_US_DEFAULT / 2);
    cr_assert(fake_peer_is_closed(slow));
    rig_done(&g);
}
