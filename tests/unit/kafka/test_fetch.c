/* Fetch: when it waits, what it grants, and that nothing of it is left behind. The test plays the
 * partitions: each has `available` bytes in one batch after offset 0. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "kafka/proto/error_codes.h"
#include "kafka/proto/fetch.h"
#include "kafka/request.h"
#include "storage/batch.h"

#include "tests/support/kafka_rig.h"

enum {
    VERSION = 11,
    PARTS_MAX = 40,
    MAX_WAIT_MS = 1000,
};

struct wish {
    int32_t parts_count;
    int32_t min_bytes;
    int32_t max_bytes;
    int32_t partition_max_bytes;
    bool opens_session;
};

static const struct wish plain = {
    .parts_count = 1,
    .min_bytes = 1,
    .max_bytes = 1 << 20,
    .partition_max_bytes = 1 << 20,
};

static void send_fetch(struct kafka_rig *g, const struct wish *w)
{
    struct fetch_request_partition parts[PARTS_MAX];
    for (int32_t i = 0; i < w->parts_count; i++) {
        fetch_request_partition_init(&parts[i]);
        parts[i].partition = i;
        parts[i].partition_max_bytes = w->partition_max_bytes;
    }
    struct fetch_request_topic t;
    fetch_request_topic_init(&t);
    t.topic = slice_of_string("topic");
    t.partitions = parts;
    t.partitions_count = (size_t)w->parts_count;
    struct fetch_request in;
    fetch_request_init(&in);
    in.max_wait_ms = MAX_WAIT_MS;
    in.session_epoch = w->opens_session ? 0 : -1;
    in.min_bytes = w->min_bytes;
    in.max_bytes = w->max_bytes;
    in.topics = &t;
    in.topics_count = 1;
    kafka_rig_send(g, &FETCH_API, VERSION, &in);
}

static void setup(struct kafka_rig *g)
{
    kafka_rig_init(g);
    fake_cluster_add_topic(&g->cluster, "topic", PARTS_MAX);
}

static struct partition_op *
expect_op(struct kafka_rig *g, int32_t partition, enum partition_op_kind kind)
{
    struct partition_op *op = fake_cluster_op(&g->cluster, partition);
    cr_assert(eq(int, op->kind, kind));
    return op;
}

static void end_peek(struct kafka_rig *g, int32_t partition, size_t readable_size)
{
    struct partition_op *op = expect_op(g, partition, PARTITION_PEEK);
    op->out.fetch.size = readable_size;
    fake_cluster_end_op(&g->cluster, op, ERR_OK, readable_size > 0 ? 1 : 0);
}

static void end_wait(struct kafka_rig *g, int32_t partition)
{
    fake_cluster_end_op(&g->cluster, expect_op(g, partition, PARTITION_WAIT), ERR_OK, 1);
}

/* The read gets size bytes, each of the partition's number, or learns what it needs. */
static void end_read(struct kafka_rig *g, int32_t partition, size_t size)
{
    struct partition_op *op = expect_op(g, partition, PARTITION_READ);
    if (size > op->in.fetch.dst_size) {
        op->out.fetch.size_needed = size;
        fake_cluster_end_op(&g->cluster, op, ERR_TOO_LARGE, 1);
        return;
    }
    memset(op->in.fetch.dst, partition, size);
    op->out.fetch.size = size;
    fake_cluster_end_op(&g->cluster, op, ERR_OK, 1);
}

static const struct fetch_response *answer(struct kafka_rig *g)
{
    return kafka_rig_answer(g, &FETCH_API, VERSION);
}

static void expect_records(const struct fetch_response *out, int32_t partition, size_t size)
{
    const struct fetch_response_partition *p = &out->responses[0].partitions[partition];
    cr_assert(eq(int, p->error_code, KAFKA_NONE));
    cr_assert(eq(i32, p->partition_index, partition));
    cr_assert(eq(sz, p->records.size, size), "partition %d", partition);
    for (size_t i = 0; i < size; i++) {
        cr_assert(eq(u8, p->records.data[i], (uint8_t)partition));
    }
}

static void end_cancels(struct kafka_rig *g)
{
    while (g->cluster.cancels_count > 0) {
        fake_cluster_end_cancel(&g->cluster);
        kafka_rig_run(g);
    }
}

Test(fetch, data_there_is_answered_at_once)
{
    struct kafka_rig g;
    setup(&g);
    send_fetch(&g, &plain);
    end_peek(&g, 0, 500);
    end_read(&g, 0, 500);
    expect_records(answer(&g), 0, 500);
    kafka_rig_done(&g);
}

/* More is committed between the look and the read: what is answered with the records covers them.
 */
Test(fetch, records_come_with_the_high_watermark_they_were_read_under)
{
    struct kafka_rig g;
    setup(&g);
    send_fetch(&g, &plain);
    struct partition_op *op = expect_op(&g, 0, PARTITION_PEEK);
    op->out.fetch.size = 500;
    fake_cluster_end_op(&g.cluster, op, ERR_OK, 10);
    op = expect_op(&g, 0, PARTITION_READ);
    memset(op->in.fetch.dst, 0, 500);
    op->out.fetch.size = 500;
    fake_cluster_end_op(&g.cluster, op, ERR_OK, 25);
    const struct fetch_response *out = answer(&g);
    expect_records(out, 0, 500);
    cr_assert(eq(i64, out->responses[0].partitions[0].high_watermark, 25));
    cr_assert(eq(i64, out->responses[0].partitions[0].last_stable_offset, 25));
    kafka_rig_done(&g);
}

Test(fetch, waits_for_the_first_commit)
{
    struct kafka_rig g;
    setup(&g);
    struct wish w = plain;
    w.parts_count = 2;
    send_fetch(&g, &w);
    end_peek(&g, 0, 0);
    end_peek(&g, 1, 0);
    kafka_rig_advance(&g, 100 * 1000);
    cr_assert(eq(ptr, (void *)answer(&g), NULL));
    end_wait(&g, 1);
    end_peek(&g, 1, 300); /* Only the one that moved is asked again. */
    cr_assert(eq(u32, g.cluster.cancels_count, 1));
    end_cancels(&g);
    end_read(&g, 1, 300);
    const struct fetch_response *out = answer(&g);
    expect_records(out, 0, 0);
    expect_records(out, 1, 300);
    kafka_rig_done(&g);
}

Test(fetch, too_little_is_waited_on)
{
    struct kafka_rig g;
    setup(&g);
    struct wish w = plain;
    w.min_bytes = 1000;
    send_fetch(&g, &w);
    end_peek(&g, 0, 300);
    end_wait(&g, 0);
    end_peek(&g, 0, 600);
    cr_assert(eq(ptr, (void *)answer(&g), NULL));
    end_wait(&g, 0);
    end_peek(&g, 0, 1200);
    end_read(&g, 0, 1200);
    expect_records(answer(&g), 0, 1200);
    kafka_rig_done(&g);
}

Test(fetch, max_wait_ends_it_with_what_there_is)
{
    struct kafka_rig g;
    setup(&g);
    struct wish w = plain;
    w.min_bytes = 1000;
    w.parts_count = 2;
    send_fetch(&g, &w);
    end_peek(&g, 0, 300);
    end_peek(&g, 1, 0);
    kafka_rig_advance(&g, MAX_WAIT_MS * 1000 + 1);
    end_cancels(&g);
    end_read(&g, 0, 300);
    const struct fetch_response *out = answer(&g);
    expect_records(out, 0, 300);
    expect_records(out, 1, 0);
    kafka_rig_done(&g);
}

/* Public case C174: the wall clock jumps, timers go by the time that passes. */
Test(fetch, c174_max_wait_minds_no_wall_clock)
{
    static const int64_t jumps_ms[] = {-86400000, 86400000};
    for (size_t i = 0; i < sizeof(jumps_ms) / sizeof(jumps_ms[0]); i++) {
        struct kafka_rig g;
        setup(&g);
        send_fetch(&g, &plain);
        end_peek(&g, 0, 0);
        g.ts.clock.wall_ms_at_zero += jumps_ms[i];
        kafka_rig_advance(&g, MAX_WAIT_MS * 900);
        cr_assert(eq(ptr, (void *)answer(&g), NULL), "not before");
        kafka_rig_advance(&g, MAX_WAIT_MS * 100 + 1);
        end_cancels(&g);
        cr_assert(ne(ptr, (void *)answer(&g), NULL), "and not later");
        kafka_rig_done(&g);
    }
}

/* A wait that ends while it is being cancelled: the partition is looked at once more. */
Test(fetch, commit_and_timeout_may_cross)
{
    struct kafka_rig g;
    setup(&g);
    send_fetch(&g, &plain);
    end_peek(&g, 0, 0);
    kafka_rig_advance(&g, MAX_WAIT_MS * 1000 + 1);
    cr_assert(eq(u32, g.cluster.cancels_count, 1));
    end_wait(&g, 0);
    end_cancels(&g);
    end_peek(&g, 0, 100);
    end_read(&g, 0, 100);
    expect_records(answer(&g), 0, 100);
    kafka_rig_done(&g);
}

/* Limits are granted in the order of the request. */
Test(fetch, grants_follow_the_requests_order)
{
    struct kafka_rig g;
    setup(&g);
    const struct wish w = {
        .parts_count = 3, .min_bytes = 1, .max_bytes = 700, .partition_max_bytes = 500};
    send_fetch(&g, &w);
    for (int32_t i = 2; i >= 0; i--) {
        end_peek(&g, i, 1000);
    }
    cr_assert(eq(sz, expect_op(&g, 0, PARTITION_READ)->in.fetch.dst_size, 500));
    cr_assert(eq(sz, expect_op(&g, 1, PARTITION_READ)->in.fetch.dst_size, 200));
    cr_assert(eq(u32, g.cluster.ops_count, 2), "nothing is left for the third");
    end_read(&g, 1, 150);
    end_read(&g, 0, 450);
    const struct fetch_response *out = answer(&g);
    expect_records(out, 0, 450);
    expect_records(out, 1, 150);
    expect_records(out, 2, 0);
    kafka_rig_done(&g);
}

/* The first partition with data gets its first batch whole, however little was asked for; the
 * others get nothing that does not fit. */
Test(fetch, the_first_batch_always_fits)
{
    struct kafka_rig g;
    setup(&g);
    const struct wish w = {
        .parts_count = 3, .min_bytes = 1, .max_bytes = 300, .partition_max_bytes = 150};
    send_fetch(&g, &w);
    end_peek(&g, 0, 0);
    end_peek(&g, 1, 5000);
    end_peek(&g, 2, 5000);
    end_read(&g, 1, 5000);
    end_read(&g, 2, 5000);
    cr_assert(eq(sz, expect_op(&g, 1, PARTITION_READ)->in.fetch.dst_size, 5000));
    end_read(&g, 1, 5000);
    const struct fetch_response *out = answer(&g);
    expect_records(out, 1, 5000);
    expect_records(out, 2, 0);
    kafka_rig_done(&g);
}

/* More large reads than an answer has pieces: the rest is copied in small parts, and nobody is left
 * out. */
Test(fetch, many_large_partitions_share_one_answer)
{
    struct kafka_rig g;
    setup(&g);
    struct wish w = plain;
    w.parts_count = PARTS_MAX;
    w.partition_max_bytes = 20000;
    send_fetch(&g, &w);
    for (int32_t i = 0; i < PARTS_MAX; i++) {
        end_peek(&g, i, 20000);
    }
    size_t sizes[PARTS_MAX];
    for (int32_t i = 0; i < PARTS_MAX; i++) {
        sizes[i] = expect_op(&g, i, PARTITION_READ)->in.fetch.dst_size;
        cr_assert(ge(sz, sizes[i], 16000), "partition %d: %zu", i, sizes[i]);
        end_read(&g, i, sizes[i]);
    }
    const struct fetch_response *out = answer(&g);
    for (int32_t i = 0; i < PARTS_MAX; i++) {
        expect_records(out, i, sizes[i]);
    }
    kafka_rig_done(&g);
}

/* All pieces are taken when the first part, whose grant was small, learns that its batch is large:
 * there is room for that one, too. */
Test(fetch, a_large_first_batch_fits_beside_all_others)
{
    for (int32_t parts = 2; parts <= PARTS_MAX; parts++) {
        struct kafka_rig g;
        setup(&g);
        struct wish w = plain;
        w.parts_count = parts;
        w.max_bytes = 64 << 20;
        send_fetch(&g, &w);
        end_peek(&g, 0, 1); /* An estimate. */
        for (int32_t i = 1; i < parts; i++) {
            end_peek(&g, i, 20 << 10);
        }
        end_read(&g, 0, 40 << 10); /* It does not fit. */
        while (g.cluster.ops_count > 0 && g.cluster.ops[0]->id.partition != 0) {
            const struct partition_op *op = g.cluster.ops[0];
            end_read(&g, op->id.partition, op->in.fetch.dst_size);
        }
        const struct partition_op *op = expect_op(&g, 0, PARTITION_READ);
        cr_assert(eq(u32, op->in.fetch.pieces_max, 0), "not all pieces are its own");
        end_read(&g, 0, 40 << 10);
        expect_records(answer(&g), 0, 40 << 10);
        kafka_rig_done(&g);
    }
}

Test(fetch, an_error_ends_the_wait_of_all)
{
    struct kafka_rig g;
    setup(&g);
    struct wish w = plain;
    w.parts_count = 2;
    send_fetch(&g, &w);
    end_peek(&g, 0, 0);
    end_peek(&g, 1, 0);
    /* The topic is deleted. */
    fake_cluster_end_op(&g.cluster, expect_op(&g, 1, PARTITION_WAIT), ERR_NOT_FOUND, 0);
    end_cancels(&g);
    const struct fetch_response *out = answer(&g);
    const struct fetch_response_partition *p = &out->responses[0].partitions[1];
    cr_assert(eq(int, p->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
    cr_assert(eq(i64, p->high_watermark, -1));
    cr_assert(not(slice_is_null(p->records)));
    kafka_rig_done(&g);
}

/* The Java consumer gives up on codes it does not expect from a fetch. */
Test(fetch, errors_are_those_that_consumers_know)
{
    static const struct {
        enum err result;
        enum kafka_error code;
    } rows[] = {
        {ERR_OUT_OF_RANGE, KAFKA_OFFSET_OUT_OF_RANGE},
        {ERR_LEADER_EPOCH_FENCED, KAFKA_FENCED_LEADER_EPOCH},
        {ERR_LEADER_EPOCH_UNKNOWN, KAFKA_UNKNOWN_LEADER_EPOCH},
        {ERR_FAILED, KAFKA_KAFKA_STORAGE_ERROR},
        {ERR_CORRUPT, KAFKA_CORRUPT_MESSAGE},
        {ERR_CANCELLED, KAFKA_NOT_LEADER_OR_FOLLOWER},
        {ERR_BUSY, KAFKA_NOT_LEADER_OR_FOLLOWER},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kafka_rig g;
        setup(&g);
        send_fetch(&g, &plain);
        fake_cluster_end_op(&g.cluster, expect_op(&g, 0, PARTITION_PEEK), rows[i].result, 0);
        const struct fetch_response *out = answer(&g);
        cr_assert(eq(int, out->responses[0].partitions[0].error_code, rows[i].code));
        kafka_rig_done(&g);
    }
}

/* With no memory left the answer waits for some, as for data, and not longer than for data. */
Test(fetch, waits_for_memory)
{
    for (int is_late = 0; is_late <= 1; is_late++) {
        struct kafka_rig g;
        setup(&g);
        send_fetch(&g, &plain);
        struct buf *hog[64];
        size_t hog_count = 0;
        for (size_t size = RIG_MEMORY_SIZE; size >= BUF_SIZE_MIN; size /= 2) {
            struct buf *b = NULL;
            while (hog_count < 64 && (b = buf_alloc(g.ts.shard.bufs, size, BUF_CLIENT)) != NULL) {
                hog[hog_count++] = b;
            }
        }
        end_peek(&g, 0, 500);
        cr_assert(eq(u32, g.cluster.ops_count, 0), "nothing to read into");
        cr_assert(eq(ptr, (void *)answer(&g), NULL));
        if (is_late) {
            kafka_rig_advance(&g, MAX_WAIT_MS * 1000 + 1);
            expect_records(answer(&g), 0, 0);
        }
        for (size_t i = 0; i < hog_count; i++) {
            buf_unref(hog[i]);
        }
        kafka_rig_run(&g);
        if (!is_late) {
            end_read(&g, 0, 500);
            expect_records(answer(&g), 0, 500);
        }
        kafka_rig_done(&g);
    }
}

/* Other fetches that wait hold what requests may take of memory: a further one waits for room, and
 * is answered in time if there comes none. It closed the connection once, with "too many
 * partitions". */
Test(fetch, waits_for_room_among_the_requests)
{
    enum { LEFT = 16 << 10 };
    for (int is_late = 0; is_late <= 1; is_late++) {
        struct kafka_rig g;
        setup(&g);
        struct arena_budget *all = &g.dispatch->arenas;
        const size_t held_size = all->size_max - all->size - LEFT;
        all->size += held_size;
        struct wish many = plain;
        many.parts_count = PARTS_MAX;
        send_fetch(&g, &many);
        kafka_rig_advance(&g, (MAX_WAIT_MS - 100) * 1000);
        cr_assert(eq(u32, g.cluster.ops_count, 0));
        cr_assert(eq(ptr, (void *)answer(&g), NULL), "it would spin");
        if (is_late) {
            kafka_rig_advance(&g, 200 * 1000);
            const struct fetch_response *out = answer(&g);
            cr_assert(out != NULL, "the connection is there");
            cr_assert(eq(int, out->error_code, KAFKA_NONE));
            cr_assert(eq(sz, out->responses_count, 0));
        }
        all->size -= held_size;
        if (!is_late) {
            kafka_rig_advance(&g, 50 * 1000);
            for (int32_t i = 0; i < PARTS_MAX; i++) {
                end_peek(&g, i, i == 3 ? 500 : 0);
            }
            while (g.cluster.cancels_count > 0) {
                end_cancels(&g);
            }
            end_read(&g, 3, 500);
            expect_records(answer(&g), 3, 500);
        }
        kafka_rig_done(&g);
    }
}

/* The shard of a part had no memory to read with: what this round gives back is no reason to ask
 * again at once, or both would run for ever. */
Test(fetch, a_shard_without_memory_is_asked_again_later)
{
    struct kafka_rig g;
    setup(&g);
    send_fetch(&g, &plain);
    end_peek(&g, 0, 500);
    for (int i = 0; i < 3; i++) {
        fake_cluster_end_op(&g.cluster, expect_op(&g, 0, PARTITION_READ), ERR_BUSY, 1);
        kafka_rig_run(&g);
        cr_assert(eq(u32, g.cluster.ops_count, 0));
        kafka_rig_advance(&g, MAX_WAIT_MS * 1000 / 50);
    }
    end_read(&g, 0, 500);
    expect_records(answer(&g), 0, 500);
    kafka_rig_done(&g);

    setup(&g);
    send_fetch(&g, &plain);
    end_peek(&g, 0, 500);
    kafka_rig_advance(&g, MAX_WAIT_MS * 1000 - 1000);
    fake_cluster_end_op(&g.cluster, expect_op(&g, 0, PARTITION_READ), ERR_BUSY, 1);
    kafka_rig_advance(&g, 2000);
    expect_records(answer(&g), 0, 0); /* Not longer than for data. */
    kafka_rig_done(&g);
}

/* With little memory grants shrink instead. */
Test(fetch, grants_shrink_with_the_memory)
{
    struct kafka_rig g;
    setup(&g);
    struct wish w = plain;
    w.partition_max_bytes = 1 << 20;
    send_fetch(&g, &w);
    struct buf *hog[4096];
    size_t hog_count = 0;
    struct buf *b = NULL;
    while ((b = buf_alloc(g.ts.shard.bufs, BUF_SIZE_MIN, BUF_CLIENT)) != NULL) {
        hog[hog_count++] = b;
    }
    buf_unref(hog[--hog_count]);
    end_peek(&g, 0, 1 << 20);
    cr_assert(eq(sz, expect_op(&g, 0, PARTITION_READ)->in.fetch.dst_size, BUF_SIZE_MIN));
    end_read(&g, 0, 4000);
    expect_records(answer(&g), 0, 4000);
    while (hog_count > 0) {
        buf_unref(hog[--hog_count]);
    }
    kafka_rig_done(&g);
}

/* A half-closed client cannot ask again, and may as well be gone: its fetch does not wait, whether
 * it waits already or comes to it later. */
Test(fetch, half_closed_clients_do_not_wait)
{
    for (int is_early = 0; is_early <= 1; is_early++) {
        struct kafka_rig g;
        setup(&g);
        struct wish w = plain;
        w.min_bytes = 100;
        send_fetch(&g, &w);
        if (is_early == 1) {
            fake_peer_end(g.peer);
            kafka_rig_run(&g);
        }
        end_peek(&g, 0, 50);
        if (is_early == 0) {
            expect_op(&g, 0, PARTITION_WAIT);
            fake_peer_end(g.peer);
            kafka_rig_run(&g);
            end_cancels(&g);
        }
        end_read(&g, 0, 50);
        expect_records(answer(&g), 0, 50);
        kafka_rig_run(&g);
        cr_assert(fake_peer_is_closed(g.peer));
        kafka_rig_done(&g);
    }
}

/* The client goes, or the broker stops, whatever the fetch waits for. */
Test(fetch, may_be_ended_at_any_point)
{
    for (int is_stop = 0; is_stop <= 1; is_stop++) {
        for (int steps = 0; steps <= 3; steps++) {
            struct kafka_rig g;
            setup(&g);
            struct wish w = plain;
            w.parts_count = 2;
            w.min_bytes = 100;
            send_fetch(&g, &w);
            if (steps >= 1) {
                end_peek(&g, 0, 0);
                end_peek(&g, 1, 0);
            }
            if (steps >= 2) {
                end_wait(&g, 0);
            }
            if (steps >= 3) {
                end_peek(&g, 0, 50);
            }
            if (is_stop) {
                dispatch_stop(g.dispatch);
            } else {
                fake_peer_close(g.peer, ERR_CLOSED);
            }
            kafka_rig_run(&g);
            /* What is in flight ends, one way or the other. */
            for (int rounds = 0; rounds < 10; rounds++) {
                end_cancels(&g);
                if (g.cluster.ops_count > 0) {
                    struct partition_op *op = g.cluster.ops[0];
                    op->out.fetch.size = 0;
                    fake_cluster_end_op(&g.cluster, op, ERR_OK, 0);
                    kafka_rig_run(&g);
                }
            }
            if (is_stop) {
                cr_assert(ne(ptr, (void *)answer(&g), NULL), "steps=%d", steps);
            }
            kafka_rig_done(&g);
        }
    }
}

Test(fetch, sessions_that_nobody_opened_are_refused)
{
    struct kafka_rig g;
    setup(&g);
    struct fetch_request in;
    fetch_request_init(&in);
    in.session_id = 77;
    in.session_epoch = 1;
    kafka_rig_send(&g, &FETCH_API, VERSION, &in);
    const struct fetch_response *out = answer(&g);
    cr_assert(eq(int, out->error_code, KAFKA_FETCH_SESSION_ID_NOT_FOUND));
    cr_assert(eq(i32, out->session_id, 0));
    kafka_rig_done(&g);
}

/* There is no memory for the partitions of a session: it is waited for, as for data, and the
 * session stays. It was closed once, with an answer at once, and so every second time. */
Test(fetch, a_session_waits_for_room)
{
    enum { LEFT = 4 << 10 };
    struct kafka_rig g;
    setup(&g);
    struct wish first = plain;
    first.parts_count = PARTS_MAX;
    first.opens_session = true;
    send_fetch(&g, &first);
    for (int32_t i = 0; i < PARTS_MAX; i++) {
        end_peek(&g, i, i == 3 ? 500 : 0);
    }
    end_cancels(&g);
    end_read(&g, 3, 500);
    const int32_t session_id = answer(&g)->session_id;
    cr_assert(ne(i32, session_id, 0));

    struct arena_budget *all = &g.dispatch->arenas;
    const size_t held_size = all->size_max - all->size - LEFT;
    all->size += held_size;
    struct fetch_request next;
    fetch_request_init(&next);
    next.session_id = session_id;
    next.session_epoch = 1;
    next.max_wait_ms = MAX_WAIT_MS;
    next.min_bytes = 1;
    kafka_rig_send(&g, &FETCH_API, VERSION, &next);
    kafka_rig_advance(&g, (MAX_WAIT_MS - 100) * 1000);
    cr_assert(eq(ptr, (void *)answer(&g), NULL), "it would spin");
    kafka_rig_advance(&g, 200 * 1000);
    const struct fetch_response *out = answer(&g);
    cr_assert(out != NULL);
    cr_assert(eq(int, out->error_code, KAFKA_NONE));
    cr_assert(eq(i32, out->session_id, session_id));
    cr_assert(eq(sz, out->responses_count, 0), "nothing changed");

    next.session_epoch = 2;
    kafka_rig_send(&g, &FETCH_API, VERSION, &next);
    all->size -= held_size;
    kafka_rig_advance(&g, 50 * 1000);
    cr_assert(eq(u32, g.cluster.ops_count, (uint32_t)PARTS_MAX), "it goes on when there is some");
    for (int32_t i = 0; i < PARTS_MAX; i++) {
        end_peek(&g, i, i == 3 ? 500 : 0);
    }
    end_cancels(&g);
    end_read(&g, 3, 500);
    out = answer(&g);
    cr_assert(eq(sz, out->responses[0].partitions_count, 1), "what changed");
    cr_assert(eq(i32, out->responses[0].partitions[0].partition_index, 3));
    kafka_rig_done(&g);
}
