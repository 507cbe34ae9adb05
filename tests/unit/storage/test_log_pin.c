/* Answers by reference. Goal: what a reader was given stays as it is until it gives it back,
 * whatever becomes of the log; what readers hold is counted once and has a limit, beyond which they
 * get copies; small batches are copied, in order. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "tests/support/log_rig.h"

enum {
    LARGE_SIZE = 4000,
    SMALL_SIZE = 100,
    PIECE_SIZE_MIN = 2000,
    READ_SIZE = 256 << 10,
};

struct rig_read {
    struct log_read read;
    uint8_t dst[READ_SIZE];
    bool is_done;
};

static const struct log_shared_stats *stats_of(const struct log_rig *rig)
{
    return log_shared_stats(rig->shared);
}

static struct log_rig *rig_open(uint64_t seed, size_t cache_size, size_t pinned_size)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->shared_options.cache_size_max = cache_size;
    rig->shared_options.pinned_size_max = pinned_size;
    rig->shared_options.piece_size_min = PIECE_SIZE_MIN;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    return rig;
}

static void rig_close(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

static void append_one(struct log_rig *rig, size_t value_size)
{
    while (log_rig_append(rig, 1, value_size, 1000) == ERR_BUSY) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    log_rig_flush(rig);
}

static void append_some(struct log_rig *rig, int count, size_t value_size)
{
    for (int i = 0; i < count; i++) {
        append_one(rig, value_size);
    }
}

static void on_done(struct log_read *r)
{
    container_of(r, struct rig_read, read)->is_done = true;
}

static struct rig_read *read_pieces(struct log_rig *rig, int64_t offset, uint32_t pieces_max)
{
    struct rig_read *rr = calloc(1, sizeof(*rr));
    rr->read = (struct log_read){
        .offset = offset,
        .end_offset = log_flushed_offset(rig->log),
        .dst = rr->dst,
        .dst_size = sizeof(rr->dst),
        .pieces_max = pieces_max,
        .on_done = on_done,
    };
    log_read_begin(rig->log, &rr->read);
    cr_assert(sim_shard_run_until(&rig->ss, &rr->is_done));
    cr_assert(eq(int, rr->read.result, ERR_OK));
    return rr;
}

/* The answer is the model's batches from offset on. */
static void expect_model(const struct log_rig *rig, const struct rig_read *rr, int64_t offset)
{
    uint8_t *all = malloc(rr->read.size);
    size_t size = 0;
    const struct log_pin *pin = rr->read.pin;
    if (pin == NULL) {
        memcpy(all, rr->dst, rr->read.size);
        size = rr->read.size;
    }
    for (uint32_t i = 0; pin != NULL && i < pin->pieces_count; i++) {
        memcpy(all + size, pin->pieces[i].data, pin->pieces[i].size);
        size += pin->pieces[i].size;
    }
    cr_assert(eq(sz, size, rr->read.size));
    for (size_t done = 0; done < size; offset++) {
        const struct rig_entry *m = &rig->model[offset]; /* One record each. */
        cr_assert(le(sz, m->payload_size, size - done));
        cr_assert(memcmp(all + done, m->payload, m->payload_size) == 0);
        done += m->payload_size;
    }
    free(all);
}

static void give_back(struct log_rig *rig, struct rig_read *rr)
{
    if (rr->read.pin != NULL) {
        log_pin_release(rig->ss.s, rr->read.pin);
        while (log_shared_is_pinned(rig->shared) && sim_shard_step(&rig->ss)) {
        }
    }
    free(rr);
}

Test(log_pin, tails_and_chunks_are_referred_to)
{
    for (int is_cached = 0; is_cached < 2; is_cached++) {
        struct log_rig *rig = rig_open(1, is_cached ? 64 << 20 : 0, 64 << 20);
        append_some(rig, 10, LARGE_SIZE);
        struct rig_read *rr = read_pieces(rig, 0, LOG_PIECES_MAX);
        cr_assert(ne(ptr, rr->read.pin, NULL), "is_cached=%d", is_cached);
        cr_assert(eq(u32, rr->read.pin->pieces_count, 10));
        cr_assert(eq(sz, rr->read.copied_size, 0));
        cr_assert(lt(u64, 10 * LARGE_SIZE, stats_of(rig)->pinned_size));
        expect_model(rig, rr, 0);
        give_back(rig, rr);
        cr_assert(eq(u64, stats_of(rig)->pinned_size, 0));
        rig_close(rig);
    }
}

Test(log_pin, small_batches_are_copied_in_order)
{
    struct log_rig *rig = rig_open(2, 64 << 20, 64 << 20);
    for (int i = 0; i < 6; i++) {
        append_some(rig, 2, SMALL_SIZE);
        append_some(rig, 1, LARGE_SIZE);
    }
    /* Copy, reference, copy, reference ... */
    struct {
        uint32_t pieces_max;
        uint32_t pieces;
    } rows[] = {{0, 0}, {1, 0}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {12, 12}, {13, 12}, {32, 12}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig_read *rr = read_pieces(rig, 0, rows[i].pieces_max);
        const uint32_t pieces = rr->read.pin == NULL ? 0 : rr->read.pin->pieces_count;
        cr_assert(eq(u32, pieces, rows[i].pieces), "row=%zu", i);
        expect_model(rig, rr, 0);
        give_back(rig, rr);
    }
    rig_close(rig);
}

/* Where nothing can follow, nothing has to be left for it. */
Test(log_pin, the_last_batch_takes_the_last_piece)
{
    struct log_rig *rig = rig_open(6, 64 << 20, 64 << 20);
    append_some(rig, 2, LARGE_SIZE);
    for (int64_t offset = 0; offset < 2; offset++) {
        struct rig_read *rr = read_pieces(rig, offset, 1);
        cr_assert(eq(int, rr->read.pin != NULL, offset == 1));
        cr_assert(eq(sz, rr->read.copied_size > 0, offset == 0));
        expect_model(rig, rr, offset);
        give_back(rig, rr);
    }
    rig_close(rig);
}

Test(log_pin, a_buffer_counts_once)
{
    struct log_rig *rig = rig_open(3, 64 << 20, 64 << 20);
    append_some(rig, 3, LARGE_SIZE);
    struct rig_read *first = read_pieces(rig, 0, LOG_PIECES_MAX);
    const uint64_t size = stats_of(rig)->pinned_size;
    struct rig_read *second = read_pieces(rig, 0, LOG_PIECES_MAX);
    cr_assert(eq(u64, stats_of(rig)->pinned_size, size));
    log_pin_release(rig->ss.s, first->read.pin);
    first->read.pin = NULL;
    sim_shard_step(&rig->ss);
    cr_assert(eq(u64, stats_of(rig)->pinned_size, size));
    expect_model(rig, second, 0);
    give_back(rig, first);
    give_back(rig, second);
    cr_assert(eq(u64, stats_of(rig)->pinned_size, 0));
    rig_close(rig);
}

Test(log_pin, beyond_the_limit_it_is_a_copy)
{
    enum { LIMIT = 64 << 10 };
    struct log_rig *rig = rig_open(4, 64 << 20, LIMIT);
    append_some(rig, 60, LARGE_SIZE);
    struct rig_read *reads[60];
    for (int i = 0; i < 60; i++) {
        reads[i] = read_pieces(rig, i, LOG_PIECES_MAX);
        cr_assert(le(u64, stats_of(rig)->pinned_size, LIMIT));
    }
    cr_assert(lt(u64, 0, stats_of(rig)->pinned_bytes));
    cr_assert(lt(u64, 0, stats_of(rig)->unpinned_bytes));
    for (int i = 0; i < 60; i++) {
        expect_model(rig, reads[i], i);
        give_back(rig, reads[i]);
    }
    cr_assert(eq(u64, stats_of(rig)->pinned_size, 0));
    rig_close(rig);
}

/* Pages leave, entries are cut and written anew, the log is deleted: the reader still has what it
 * was given. */
Test(log_pin, it_outlives_everything)
{
    enum { WAYS = 4 };
    for (int way = 0; way < WAYS; way++) {
        struct log_rig *rig = rig_open(5, 64 << 20, 64 << 20);
        append_some(rig, 20, LARGE_SIZE);
        struct rig_read *rr = read_pieces(rig, 0, LOG_PIECES_MAX);
        uint8_t before[20][LARGE_SIZE];
        const struct log_pin *pin = rr->read.pin;
        for (uint32_t i = 0; i < 10; i++) {
            memcpy(before[i], pin->pieces[i].data, LARGE_SIZE);
        }
        if (way == 0) {
            append_some(rig, 200, LARGE_SIZE);
            log_rig_set_start(rig, 150);
            log_rig_settle(rig);
        } else if (way == 1) {
            cr_assert(eq(int, log_rig_cut(rig, 2), ERR_OK));
            append_some(rig, 40, LARGE_SIZE + 1);
        } else if (way == 2) {
            log_rig_delete(rig);
        }
        /* Whoever gets memory now does not get this. */
        struct buf *b = buf_alloc(rig->ss.s->bufs, 1 << 20, BUF_RESERVED);
        cr_assert(ne(ptr, b, NULL));
        memset(b->data, 0xee, b->capacity);
        buf_unref(b);
        for (uint32_t i = 0; i < 10; i++) {
            cr_assert(memcmp(before[i], pin->pieces[i].data, LARGE_SIZE) == 0, "way=%d", way);
        }
        give_back(rig, rr);
        cr_assert(eq(u64, stats_of(rig)->pinned_size, 0));
        rig_close(rig);
    }
}
