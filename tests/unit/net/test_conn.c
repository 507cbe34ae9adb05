/* Connections over the fake transport: framing, order, limits, ends. */
#include "tests/unit/net/conn_rig.h"

/* --- framing ---------------------------------------------------------------------------------- */

/* However a pipelined byte sequence is cut in two, and when it comes byte by byte, the same
 * requests come out, and their answers in order. */
Test(conn, every_cut_gives_the_same_frames)
{
    uint8_t bytes[512];
    size_t size = put_frame(bytes, "p1", 0);
    size += put_frame(bytes + size, "b2", 40);
    size += put_frame(bytes + size, "S3", 0);
    size += put_frame(bytes + size, "p", 1);
    size += put_frame(bytes + size, "b5", 100);
    for (size_t cut = 0; cut <= size; cut++) {
        struct rig g;
        rig_init(&g, &default_limits);
        struct fake_peer *p = dial(&g);
        if (cut == 0) {
            for (size_t i = 0; i < size; i++) {
                fake_peer_send(p, bytes + i, 1);
            }
        } else {
            fake_peer_send(p, bytes, cut);
            fake_peer_send(p, bytes + cut, size - cut);
        }
        run(&g);
        expect_started(&g, "pbSpb");
        struct slice got = fake_peer_received(p);
        size_t silent_pos = 4 + 2 + 4 + 40; /* S3 has no answer; all else is echoed. */
        cr_assert(eq(sz, got.size, size - 6), "cut=%zu", cut);
        cr_assert(eq(int, memcmp(got.data, bytes, silent_pos), 0));
        cr_assert(eq(
            int, memcmp(got.data + silent_pos, bytes + silent_pos + 6, got.size - silent_pos), 0));
        rig_done(&g);
    }
}

/* A large body goes straight to its frame, whatever part of it came with the first bytes, and what
 * follows it is the next frame. */
Test(conn, large_frames_are_received_in_place)
{
    static uint8_t bytes[FRAME_SIZE_MAX + 64];
    size_t size = put_frame(bytes, "b1", FRAME_SIZE_MAX);
    size += put_frame(bytes + size, "b2", 0);
    const size_t cuts[] = {
        1, 3, 4, 5, 100, 70000, FRAME_SIZE_MAX - 40000, FRAME_SIZE_MAX, size - 1};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct rig g;
        rig_init(&g, &default_limits);
        struct fake_peer *p = dial(&g);
        fake_peer_send(p, bytes, cuts[i]);
        run(&g);
        fake_peer_send(p, bytes + cuts[i], size - cuts[i]);
        run(&g);
        expect_started(&g, "bb");
        struct slice got = fake_peer_received(p);
        cr_assert(eq(sz, got.size, size), "cut=%zu", cuts[i]);
        cr_assert(eq(int, memcmp(got.data, bytes, size), 0));
        /* Less than a page of it is no reason to have memory for all of it yet. */
        bool is_in_place = cuts[i] >= 4 + 4096 && cuts[i] <= FRAME_SIZE_MAX - 40000;
        cr_assert(
            eq(sz, fake_peer_into_size(p), is_in_place ? 4 + (size_t)FRAME_SIZE_MAX - cuts[i] : 0),
            "cut=%zu",
            cuts[i]);
        rig_done(&g);
    }
}

static const struct {
    const char *name;
    int32_t size;
    bool is_refused;
} size_rows[] = {
    {"empty", 0, true},
    {"negative", -1, true},
    {"most negative", INT32_MIN, true},
    {"above the limit", FRAME_SIZE_MAX + 1, true},
    {"an HTTP request", 0x47455420, true},
    {"at the limit", FRAME_SIZE_MAX, false},
    {"smallest", 1, false},
};

/* A length that cannot be closes the connection, after the answers that are due; one line tells the
 * limit and the peer. */
Test(conn, frame_size_limits)
{
    for (size_t i = 0; i < sizeof(size_rows) / sizeof(size_rows[0]); i++) {
        struct rig g;
        rig_init(&g, &default_limits);
        struct fake_peer *p = dial(&g);
        send_frames(&g, p, "B0");
        uint32_t size = (uint32_t)size_rows[i].size;
        uint8_t prefix[4] = {
            (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
        fake_peer_send(p, prefix, 4);
        run(&g);
        cr_assert(not(fake_peer_is_closed(p)));
        cr_assert(eq(int,
                     test_shard_has_logged(&g.ts, "frame_refused: peer=192.0.2.1:5000"),
                     size_rows[i].is_refused),
                  "%s",
                  size_rows[i].name);
        cr_assert(eq(
            int, test_shard_has_logged(&g.ts, "frame_size_max=204800"), size_rows[i].is_refused));
        answer(&g, "B0");
        expect_answers(p, "B0");
        cr_assert(eq(int, fake_peer_is_closed(p), size_rows[i].is_refused));
        rig_done(&g);
    }
}

/* Many bad peers, few lines. */
Test(conn, refused_frames_are_logged_once_per_second)
{
    struct rig g;
    rig_init(&g, &default_limits);
    for (int i = 0; i < 3; i++) {
        struct fake_peer *p = dial(&g);
        fake_peer_send(p, "\0\0\0\0", 4);
        run(&g);
        cr_assert(fake_peer_is_closed(p));
    }
    cr_assert(eq(ptr, strstr(strstr(g.ts.log_text, "frame_refused") + 1, "frame_refused"), NULL));
    advance(&g, 1000 * 1000);
    struct fake_peer *p = dial(&g);
    fake_peer_send(p, "\0\0\0\0", 4);
    run(&g);
    cr_assert(test_shard_has_logged(&g.ts, "held_back=2"));
    rig_done(&g);
}

/* --- order ------------------------------------------------------------------------------------ */

static const struct {
    const char *frames;
    const char *started;  /* At first. */
    const char *ended;    /* Parked requests, ended in this order ... */
    const char *answered; /* ... what the peer has got after each, separated by |. */
} order_rows[] = {
    {"B1", "B", "B1", "B1"},
    {"B1 B2", "B", "B1 B2", "B1|B1 B2"},
    {"B1 P2", "B", "B1 P2", "B1|B1 P2"},
    {"P1 B2", "P", "P1 B2", "P1|P1 B2"},
    {"P1 P2 P3", "PPP", "P3 P2 P1", "||P1 P2 P3"},
    {"P1 P2 P3", "PPP", "P1 P3 P2", "P1|P1|P1 P2 P3"},
    {"P1 P2 B3 P4", "PP", "P2 P1 B3 P4", "|P1 P2|P1 P2 B3|P1 P2 B3 P4"},
    {"P1 b2 P3", "P", "P1 P3", "P1 b2|P1 b2 P3"},
    {"P1 p2 P3", "PpP", "P3 P1", "|P1 p2 P3"},
    {"b1 b2 P3 b4", "bbP", "P3", "b1 b2 P3 b4"},
    {"P1 S2 P3", "PSP", "P1 P3", "P1|P1 P3"},
    {"S1 B2", "SB", "B2", "B2"},
};

/* Overlap may run beside overlap, everything else alone; answers leave in order of the requests. */
Test(conn, order_of_starts_and_answers)
{
    for (size_t i = 0; i < sizeof(order_rows) / sizeof(order_rows[0]); i++) {
        struct rig g;
        rig_init(&g, &default_limits);
        struct fake_peer *p = dial(&g);
        send_frames(&g, p, order_rows[i].frames);
        expect_started(&g, order_rows[i].started);
        char ended[64];
        strcpy(ended, order_rows[i].ended);
        const char *expected = order_rows[i].answered;
        for (char *save, *t = strtok_r(ended, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
            answer(&g, t);
            char now[64];
            size_t size = strcspn(expected, "|");
            snprintf(now, sizeof(now), "%.*s", (int)size, expected);
            expected += size + (expected[size] == '|' ? 1 : 0);
            cr_assert(eq(str, (char *)answers(p), now), "row=%zu after=%s", i, t);
        }
        cr_assert(eq(u32, g.parked_count, 0));
        rig_done(&g);
    }
}

/* A barrier is told once that somebody waits for it; what may overlap never is. */
Test(conn, barriers_know_of_requests_behind)
{
    static const struct {
        const char *frames;
        uint32_t told;
    } rows[] = {
        {"B1", 0},
        {"B1 b2", 1},
        {"B1 p2 b3", 1},
        {"P1 b2", 0},
        {"P1 P2", 0},
        {"b1 b2 B3", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig g;
        rig_init(&g, &default_limits);
        struct fake_peer *p = dial(&g);
        send_frames(&g, p, rows[i].frames);
        cr_assert(eq(u32, g.behind_count, rows[i].told), "row=%zu", i);
        while (g.parked_count > 0) {
            answer(&g,
                   (const char[]){
                       (char)g.parked[0]->frame.data[0], (char)g.parked[0]->frame.data[1], '\0'});
        }
        rig_done(&g);
    }
}

/* The next barrier is told of its own. */
Test(conn, each_barrier_is_told)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "B1 B2 B3");
    cr_assert(eq(u32, g.behind_count, 1));
    cr_assert(conn_is_behind(g.parked[0]->conn), "also for who asks later");
    answer(&g, "B1");
    cr_assert(eq(u32, g.behind_count, 2));
    answer(&g, "B2");
    cr_assert(eq(u32, g.behind_count, 2));
    cr_assert(not(conn_is_behind(g.parked[0]->conn)));
    answer(&g, "B3");
    rig_done(&g);
}

/* Answers that became ready together leave together. */
Test(conn, answers_are_coalesced)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "P1 P2 P3 P4");
    answer_frame(take(&g, "P2"));
    answer_frame(take(&g, "P3"));
    answer_frame(take(&g, "P1"));
    run(&g);
    expect_answers(p, "P1 P2 P3");
    cr_assert(eq(sz, fake_peer_flushes_count(p), 1));
    answer(&g, "P4");
    cr_assert(eq(sz, fake_peer_flushes_count(p), 2));
    rig_done(&g);
}

/* Pieces in memory, in bufs, empty: one answer; every reference is given back. */
Test(conn, answers_in_pieces)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "B1");
    struct buf *b = buf_alloc(g.ts.shard.bufs, 4096, BUF_CLIENT);
    memcpy(b->data, "buffer", 6);
    buf_ref(b);
    buf_ref(b);
    char *memory = strdup("head,tail");
    const struct conn_piece pieces[] = {
        {slice_of(memory, 5), NULL},
        {slice_of(b->data, 3), b},
        {slice_of(b->data, 0), b},
        {slice_of(b->data + 3, 3), b},
        {slice_of(memory + 4, 5), NULL},
    };
    conn_answer_pieces(take(&g, "B1"), memory, pieces, 5);
    run(&g);
    struct slice got = fake_peer_received(p);
    cr_assert(eq(sz, got.size, 4 + 16));
    cr_assert(eq(int, memcmp(got.data, "\0\0\0\x10head,buffer,tail", 20), 0));
    rig_done(&g);
}

struct counted_release {
    struct conn_release release;
    uint32_t runs;
};

static void count_release(struct conn_release *rel)
{
    container_of(rel, struct counted_release, release)->runs++;
}

/* Whoever lent memory to an answer gets it back once: when it was sent, or its connection went. */
Test(conn, lenders_of_an_answer_are_told_once)
{
    for (int is_gone = 0; is_gone < 2; is_gone++) {
        struct rig g;
        rig_init(&g, &default_limits);
        struct fake_peer *p = dial(&g);
        send_frames(&g, p, "B1");
        struct conn_request *r = take(&g, "B1");
        if (is_gone) {
            fake_peer_close(p, ERR_CLOSED);
            run(&g);
        }
        struct counted_release lenders[2] = {
            {.release.run = count_release},
            {.release.run = count_release},
        };
        conn_request_on_release(r, &lenders[0].release);
        conn_request_on_release(r, &lenders[1].release);
        const struct conn_piece piece = {slice_of("lent", 4), NULL};
        conn_answer_pieces(r, NULL, &piece, 1);
        cr_assert(eq(u32, lenders[0].runs, is_gone ? 1 : 0), "is_gone=%d", is_gone);
        run(&g);
        cr_assert(eq(u32, lenders[0].runs, 1));
        cr_assert(eq(u32, lenders[1].runs, 1));
        rig_done(&g);
    }
}

Test(conn, an_empty_answer_is_four_bytes)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "B1");
    conn_answer(take(&g, "B1"), NULL, 0);
    run(&g);
    cr_assert(eq(int, slice_equal(fake_peer_received(p), slice_of("\0\0\0\0", 4)), 1));
    rig_done(&g);
}

/* --- limits and back-pressure ----------------------------------------------------------------- */

/* At requests_max the stream is paused; each answer lets one more in, none is lost. */
Test(conn, requests_max_pauses_reading)
{
    struct rig g;
    struct conn_limits limits = default_limits;
    limits.requests_max = 2;
    rig_init(&g, &limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "P1 P2 P3 P4 p5");
    expect_started(&g, "PP");
    cr_assert(fake_peer_is_paused(p));
    send_frames(&g, p, "p6");
    answer(&g, "P2");
    expect_started(&g, "PP");
    answer(&g, "P1");
    expect_started(&g, "PPPP");
    cr_assert(fake_peer_is_paused(p));
    answer(&g, "P3");
    expect_started(&g, "PPPPp");
    answer(&g, "P4");
    expect_started(&g, "PPPPpp");
    cr_assert(not(fake_peer_is_paused(p)));
    expect_answers(p, "P1 P2 P3 P4 p5 p6");
    rig_done(&g);
}

/* The same for the bytes of frames; dropping a frame early makes room before its answer. */
Test(conn, frames_size_max_pauses_reading)
{
    struct rig g;
    struct conn_limits limits = default_limits;
    limits.frames_size_max = 100 << 10;
    rig_init(&g, &limits);
    struct fake_peer *p = dial(&g);
    send_frame(&g, p, "P1", 60 << 10);
    send_frame(&g, p, "P2", 60 << 10);
    send_frame(&g, p, "P3", 150 << 10);
    expect_started(&g, "P");
    cr_assert(fake_peer_is_paused(p));
    cr_assert(eq(u32, g.ts.shard.quiet_waiters_count, 1), "another shard is to tell at once");
    struct conn_request *first = g.parked[0];
    conn_request_drop_frame(first);
    conn_request_drop_frame(first);
    run(&g);
    expect_started(&g, "PP");
    answer_frame(g.parked[1]);
    run(&g);
    cr_assert(fake_peer_is_paused(p)); /* P2's answer waits for P1's: its frame is still there. */
    conn_answer_nothing(first);
    run(&g);
    expect_started(&g, "PPP"); /* Above the limit, but alone. */
    cr_assert(eq(u32, g.ts.shard.quiet_waiters_count, 0));
    answer_frame(g.parked[2]);
    rig_done(&g);
}

/* Without memory for the next frame reading waits, and goes on by itself when memory comes back. */
Test(conn, no_memory_pauses_reading)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct buf *taken[256];
    size_t taken_count = 0;
    while ((taken[taken_count] = buf_alloc(g.ts.shard.bufs, 4096, BUF_CLIENT)) != NULL) {
        taken_count++;
    }
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "p1 p2 B3 p4");
    expect_started(&g, "");
    cr_assert(fake_peer_is_paused(p));
    buf_unref(taken[--taken_count]);
    run(&g);
    expect_started(&g, "ppB");
    cr_assert(fake_peer_is_paused(p));
    answer(&g, "B3");
    expect_started(&g, "ppBp");
    cr_assert(not(fake_peer_is_paused(p)));
    expect_answers(p, "p1 p2 B3 p4");
    while (taken_count > 0) {
        buf_unref(taken[--taken_count]);
    }
    rig_done(&g);
}

/* A connection that waits for memory may go away. */
Test(conn, closing_while_waiting_for_memory)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct buf *taken[256];
    size_t taken_count = 0;
    while ((taken[taken_count] = buf_alloc(g.ts.shard.bufs, 4096, BUF_CLIENT)) != NULL) {
        taken_count++;
    }
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "p1 p2");
    fake_peer_close(p, ERR_IO);
    run(&g);
    cr_assert(eq(u32, conn_server_count(g.cs), 0));
    while (taken_count > 0) {
        buf_unref(taken[--taken_count]);
    }
    run(&g);
    expect_started(&g, "");
    rig_done(&g);
}

/* A peer that does not take its answers gets nothing more started, and so pins a bounded amount. */
Test(conn, unread_answers_hold_back_requests)
{
    struct rig g;
    struct conn_limits limits = default_limits;
    limits.answers_size_max = 10;
    rig_init(&g, &limits);
    struct fake_peer *p = dial(&g);
    fake_peer_set_window(p, 0);
    send_frames(&g, p, "b1 b2 b3 b4");
    expect_started(&g, "bb");
    fake_peer_set_window(p, 6);
    run(&g);
    expect_started(&g, "bbb");
    fake_peer_set_window(p, SIZE_MAX);
    run(&g);
    expect_answers(p, "b1 b2 b3 b4");
    rig_done(&g);
}

/* Further connections are closed at accept, with a line; a place is free again after a close. */
Test(conn, conns_max_refuses)
{
    struct rig g;
    struct conn_limits limits = default_limits;
    limits.conns_max = 2;
    rig_init(&g, &limits);
    struct fake_peer *a = dial(&g);
    struct fake_peer *b = dial(&g);
    struct fake_peer *c = dial(&g);
    cr_assert(not(fake_peer_is_refused(a)));
    cr_assert(not(fake_peer_is_refused(b)));
    cr_assert(fake_peer_is_refused(c));
    cr_assert(test_shard_has_logged(&g.ts, "connection_refused: peer=192.0.2.1:5000"));
    fake_peer_close(a, ERR_CLOSED);
    run(&g);
    cr_assert(eq(u32, conn_server_count(g.cs), 1));
    cr_assert(not(fake_peer_is_refused(dial(&g))));
    rig_done(&g);
}

/* A configured frame size that could never get memory is lowered, aloud. */
Test(conn, frame_size_max_fits_memory)
{
    struct rig g;
    struct conn_limits limits = default_limits;
    limits.frame_size_max = 100 << 20;
    rig_init(&g, &limits);
    cr_assert(test_shard_has_logged(&g.ts, "frame_size_max_lowered"));
    struct fake_peer *p = dial(&g);
    send_frame(&g, p, "b1", MEMORY_SIZE / 2);
    expect_started(&g, "b");
    fake_peer_send(p, "\0\x08\0\1", 4);
    run(&g);
    cr_assert(fake_peer_is_closed(p));
    rig_done(&g);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* An abort lets earlier answers leave, drops what came later, and closes. */
Test(conn, abort_keeps_earlier_answers)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "P1 P2 P3 b4");
    conn_abort(take(&g, "P2"));
    run(&g);
    send_frames(&g, p, "P5");
    cr_assert(not(fake_peer_is_closed(p)));
    answer(&g, "P1");
    expect_answers(p, "P1");
    cr_assert(fake_peer_is_closed(p));
    cr_assert(eq(u32, g.closed_count, 1));
    cr_assert(eq(u32, conn_server_count(g.cs), 1)); /* P3 is with the handler. */
    answer(&g, "P3");
    expect_answers(p, "P1");
    expect_started(&g, "PPP");
    cr_assert(eq(u32, conn_server_count(g.cs), 0));
    rig_done(&g);
}

Test(conn, abort_at_once)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "b1 A2 b3");
    expect_answers(p, "b1");
    expect_started(&g, "bA");
    cr_assert(fake_peer_is_closed(p));
    rig_done(&g);
}

/* What classify refuses closes the connection, after what came before it was answered. */
Test(conn, refused_by_classify)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "P1 B2 X3 b4");
    answer(&g, "P1");
    answer(&g, "B2");
    expect_answers(p, "P1 B2");
    expect_started(&g, "PB");
    cr_assert(fake_peer_is_closed(p));
    rig_done(&g);
}

/* The stream fails with requests at the handler: they are answered to nobody, and only then the
 * connection's memory goes. */
Test(conn, closed_with_requests_in_flight)
{
    const enum err reasons[] = {ERR_CLOSED, ERR_IO};
    for (size_t i = 0; i < 2; i++) {
        struct rig g;
        rig_init(&g, &default_limits);
        struct fake_peer *p = dial(&g);
        send_frames(&g, p, "P1 P2 P3 P4 B5");
        answer(&g, "P2"); /* Answered, not sent. */
        fake_peer_close(p, reasons[i]);
        run(&g);
        cr_assert(eq(u32, g.closed_count, 1));
        cr_assert(eq(u32, conn_server_count(g.cs), 1));
        expect_started(&g, "PPPP");
        answer(&g, "P3");
        conn_answer_nothing(take(&g, "P4"));
        cr_assert(eq(u32, conn_server_count(g.cs), 1));
        conn_abort(take(&g, "P1"));
        run(&g);
        cr_assert(eq(u32, conn_server_count(g.cs), 0));
        expect_answers(p, "");
        rig_done(&g);
    }
}

/* A peer that half-closes still gets what it asked for, also what had to wait, and the stream is
 * closed behind it. What it sent only half of is forgotten. */
Test(conn, half_closed_peers_are_answered)
{
    static const struct {
        const char *name;
        const char *sent;
        const char *answered[4];
        size_t half_size; /* Of one more frame, of which 1000 bytes come. */
        const char *answers;
    } cases[] = {
        {"answered at once", "b1 p2", {NULL}, 0, "b1 p2"},
        {"parked", "B1", {"B1"}, 0, "B1"},
        {"behind a barrier", "P1 B2 P3 b4", {"P1", "B2", "P3"}, 0, "P1 B2 P3 b4"},
        {"silent", "S1 b2", {NULL}, 0, "b2"},
        {"half a frame", "B1", {"B1"}, 2000, "B1"},
        {"half a frame in place", "B1", {"B1"}, FRAME_SIZE_MAX, "B1"},
        {"more than may wait",
         "P1 p2 p3 p4 p5 p6 p7 p8 p9 pa pb pc pd pe pf pg ph pi pj pk pl pm",
         {"P1"},
         0,
         "P1 p2 p3 p4 p5 p6 p7 p8 p9 pa pb pc pd pe pf pg ph pi pj pk pl pm"},
        {"nothing", "", {NULL}, 0, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig g;
        rig_init(&g, &default_limits);
        struct fake_peer *p = dial(&g);
        send_frames(&g, p, cases[i].sent);
        if (cases[i].half_size > 0) {
            static uint8_t bytes[FRAME_SIZE_MAX + 4];
            put_frame(bytes, "b9", cases[i].half_size);
            fake_peer_send(p, bytes, 1000);
        }
        fake_peer_end(p);
        run(&g);
        for (size_t k = 0; k < 4 && cases[i].answered[k] != NULL; k++) {
            cr_assert(eq(u32, g.closed_count, 0), "%s", cases[i].name);
            answer(&g, cases[i].answered[k]);
        }
        expect_answers(p, cases[i].answers);
        cr_assert(eq(u32, g.eof_count, 1), "%s", cases[i].name);
        cr_assert(eq(u32, conn_server_count(g.cs), 0), "%s", cases[i].name);
        rig_done(&g);
    }
}

/* The peer goes while an answer is half sent and while a frame is half received. */
Test(conn, closed_in_the_middle)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    fake_peer_set_window(p, 3);
    send_frames(&g, p, "b1");
    static uint8_t bytes[FRAME_SIZE_MAX + 4];
    put_frame(bytes, "b2", FRAME_SIZE_MAX);
    fake_peer_send(p, bytes, 5000);
    run(&g);
    fake_peer_send(p, bytes + 5000, 1000);
    run(&g);
    cr_assert(eq(sz, fake_peer_into_size(p), 1000));
    fake_peer_close(p, ERR_CLOSED);
    run(&g);
    cr_assert(eq(u32, conn_server_count(g.cs), 0));
    rig_done(&g);
}

enum {
    IDLE_US = 10 * 1000 * 1000,
};

static struct conn_limits idle_limits(void)
{
    struct conn_limits limits = default_limits;
    limits.idle_timeout_us = IDLE_US;
    return limits;
}

/* Idle counts from the last request; a started frame alone is no sign of life. */
Test(conn, idle_connections_are_closed)
{
    struct rig g;
    struct conn_limits limits = idle_limits();
    rig_init(&g, &limits);
    struct fake_peer *p = dial(&g);
    advance(&g, IDLE_US / 2);
    send_frames(&g, p, "p1");
    advance(&g, IDLE_US - 1);
    cr_assert(not(fake_peer_is_closed(p)));
    fake_peer_send(p, "\0\0", 2);
    run(&g);
    advance(&g, 1);
    cr_assert(fake_peer_is_closed(p));
    cr_assert(eq(u32, conn_server_count(g.cs), 0));
    rig_done(&g);
}

/* Waiting for the handler is not idle; not taking an answer is. */
Test(conn, idle_while_waiting)
{
    struct rig g;
    struct conn_limits limits = idle_limits();
    rig_init(&g, &limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "B1");
    fake_peer_set_window(p, 0);
    advance(&g, 3 * IDLE_US + IDLE_US / 2);
    cr_assert(not(fake_peer_is_closed(p)));
    answer(&g, "B1");
    advance(&g, 2 * IDLE_US);
    cr_assert(fake_peer_is_closed(p));
    rig_done(&g);
}

/* Stop: what runs is answered, what waits is dropped, nothing is accepted. */
Test(conn, stop_lets_answers_leave)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    struct fake_peer *idle = dial(&g);
    send_frames(&g, p, "P1 B2 B3");
    conn_server_stop(g.cs, &g, on_stopped);
    run(&g);
    cr_assert(fake_peer_is_closed(idle));
    cr_assert(not(fake_peer_is_closed(p)));
    cr_assert(not(g.is_stopped));
    cr_assert(fake_peer_is_refused(dial(&g)));
    answer(&g, "P1");
    cr_assert(g.is_stopped);
    expect_answers(p, "P1");
    expect_started(&g, "P");
    rig_done(&g);
}

/* Stop does not wait for peers that take nothing, but for the handler. */
Test(conn, stop_cuts_after_its_timeout)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    struct fake_peer *slow = dial(&g);
    send_frames(&g, p, "B1");
    fake_peer_set_window(slow, 1);
    send_frames(&g, slow, "b2");
    conn_server_stop(g.cs, &g, on_stopped);
    run(&g);
    advance(&g, CONN_STOP_TIMEOUT_US_DEFAULT - 1);
    cr_assert(not(fake_peer_is_closed(slow)));
    advance(&g, 1);
    cr_assert(fake_peer_is_closed(slow));
    cr_assert(not(g.is_stopped));
    answer(&g, "B1");
    cr_assert(g.is_stopped);
    rig_done(&g);
}

/* Accessors. */
Test(conn, knows_where_it_came_from)
{
    struct rig g;
    rig_init(&g, &default_limits);
    struct fake_peer *p = dial(&g);
    send_frames(&g, p, "B1");
    struct conn_request *r = take(&g, "B1");
    struct conn *c = r->conn;
    cr_assert(eq(u32, conn_listener_index(c), 7));
    cr_assert(eq(str, (char *)conn_peer(c), "192.0.2.1:5000"));
    conn_set_state(c, &g);
    cr_assert(eq(ptr, conn_state(c), &g));
    conn_set_state(c, NULL);
    answer_frame(r);
    rig_done(&g);
}
