/* Idempotent producers: the rules of PROTOCOL 10, one row each, then the cache of five, wrap,
 * limits, expiry, and a walk against a plain model.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "core/rand.h"
#include "storage/producer_state.h"

static struct batch_header batch(int64_t id, int16_t epoch, int32_t first, int32_t count)
{
    return (struct batch_header){
        .producer_id = id,
        .producer_epoch = epoch,
        .base_sequence = first,
        .last_offset_delta = count - 1,
        .records_count = count,
        .max_timestamp = INT64_C(1000) + first,
    };
}

static struct producer_state *state_new(uint32_t producers_max)
{
    struct producer_state *ps;
    cr_assert(eq(int, producer_state_new(42, producers_max, &ps), ERR_OK));
    return ps;
}

static void
apply(struct producer_state *ps, const struct batch_header *h, int64_t base_offset, int64_t now_ms)
{
    producer_state_apply(ps, h, base_offset, producer_state_index(ps) + 1, now_ms);
    producer_state_assert_valid(ps);
}

enum {
    NEW = -1,
};

/* State before each row: producer 7, epoch 3, batches of 10 from sequence 0 on, at offset = 100 +
 * sequence; so many that the last five are 30-39 .. 70-79. */
Test(producer_state, rules_in_order)
{
    static const struct {
        const char *rule;
        int64_t id;
        int16_t epoch;
        int32_t first, count;
        enum err expected;
        int64_t offset; /* Of the original, or NEW. */
    } rows[] = {
        {"1: the last batch again", 7, 3, 70, 10, ERR_OK, 170},
        {"1: the oldest cached one again", 7, 3, 30, 10, ERR_OK, 130},
        {"1: any of the five", 7, 3, 50, 10, ERR_OK, 150},
        {"4: a duplicate older than five is out of order",
         7,
         3,
         20,
         10,
         ERR_SEQUENCE_OUT_OF_ORDER,
         0},
        {"4: same first, other last", 7, 3, 70, 9, ERR_SEQUENCE_OUT_OF_ORDER, 0},
        {"4: same last, other first", 7, 3, 71, 9, ERR_SEQUENCE_OUT_OF_ORDER, 0},
        {"2: a lower epoch, though the range is cached", 7, 2, 70, 10, ERR_PRODUCER_EPOCH_STALE, 0},
        {"2: a lower epoch with the next sequence", 7, 2, 80, 1, ERR_PRODUCER_EPOCH_STALE, 0},
        {"2: a lower epoch from 0", 7, 0, 0, 1, ERR_PRODUCER_EPOCH_STALE, 0},
        {"3: a higher epoch from 0", 7, 4, 0, 5, ERR_OK, NEW},
        {"3: any higher epoch (KIP-360)", 7, 30000, 0, 5, ERR_OK, NEW},
        {"3: a higher epoch not from 0", 7, 4, 80, 5, ERR_SEQUENCE_OUT_OF_ORDER, 0},
        {"3: a higher epoch, range cached under the old one",
         7,
         4,
         70,
         10,
         ERR_SEQUENCE_OUT_OF_ORDER,
         0},
        {"4: the next sequence", 7, 3, 80, 1, ERR_OK, NEW},
        {"4: a gap", 7, 3, 81, 1, ERR_SEQUENCE_OUT_OF_ORDER, 0},
        {"4: back to 0", 7, 3, 0, 1, ERR_SEQUENCE_OUT_OF_ORDER, 0},
        {"5: no state, any sequence", 8, 3, 12345, 1, ERR_OK, NEW},
        {"5: no state, any epoch", 8, 0, 0, 1, ERR_OK, NEW},
        {"no producer id", -1, -1, -1, 1, ERR_OK, NEW},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct producer_state *ps = state_new(10);
        for (int32_t first = 0; first < 80; first += 10) {
            struct batch_header h = batch(7, 3, first, 10);
            apply(ps, &h, 100 + first, 0);
        }
        /* Twice: a refused or repeated batch never changes the state. */
        for (int round = 0; round < 2; round++) {
            struct batch_header h = batch(rows[i].id, rows[i].epoch, rows[i].first, rows[i].count);
            struct producer_verdict v = {0};
            enum err e = producer_state_check(ps, &h, &v);
            cr_assert(eq(int, e, rows[i].expected), "%s", rows[i].rule);
            if (e == ERR_OK) {
                cr_assert(eq(int, v.is_duplicate, rows[i].offset != NEW), "%s", rows[i].rule);
            }
            if (e == ERR_OK && v.is_duplicate) {
                cr_assert(eq(i64, v.base_offset, rows[i].offset), "%s", rows[i].rule);
                cr_assert(eq(i64, v.timestamp, 1000 + rows[i].first), "%s", rows[i].rule);
            }
        }
        producer_state_free(ps);
    }
}

Test(producer_state, the_sequence_wraps)
{
    struct producer_state *ps = state_new(10);
    struct producer_verdict v;
    struct batch_header h = batch(1, 0, INT32_MAX - 4, 5); /* Ends at the maximum. */
    apply(ps, &h, 0, 0);
    h = batch(1, 0, INT32_MAX, 1);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_SEQUENCE_OUT_OF_ORDER));
    h = batch(1, 0, 0, 3);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));

    h = batch(2, 0, INT32_MAX - 1, 5); /* Over the maximum: last is 2. */
    apply(ps, &h, 50, 0);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));
    cr_assert(v.is_duplicate);
    h = batch(2, 0, 3, 1);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));
    cr_assert(not(v.is_duplicate));
    producer_state_free(ps);
}

Test(producer_state, a_new_epoch_empties_the_cache)
{
    struct producer_state *ps = state_new(10);
    struct producer_verdict v;
    struct batch_header h = batch(1, 0, 0, 10);
    apply(ps, &h, 0, 0);
    h = batch(1, 1, 0, 5);
    apply(ps, &h, 10, 0);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));
    cr_assert(v.is_duplicate);
    cr_assert(eq(i64, v.base_offset, 10));
    h = batch(1, 1, 0, 10); /* The range of the old epoch. */
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_SEQUENCE_OUT_OF_ORDER));
    h = batch(1, 0, 0, 10);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_PRODUCER_EPOCH_STALE));
    producer_state_free(ps);
}

/* C048: batches 6 and 2 of six again: their offsets. Batch 1: out of order. */
Test(producer_state, retries_of_the_last_five_in_any_order)
{
    struct producer_state *ps = state_new(10);
    struct producer_verdict v;
    for (int i = 0; i < 6; i++) {
        struct batch_header h = batch(1, 0, i * 10, 10);
        cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));
        apply(ps, &h, i * 10, 0);
    }
    static const int again[] = {6, 2, 4, 3, 5, 2};
    for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
        struct batch_header h = batch(1, 0, (again[i] - 1) * 10, 10);
        cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));
        cr_assert(v.is_duplicate);
        cr_assert(eq(i64, v.base_offset, (again[i] - 1) * 10));
    }
    struct batch_header h = batch(1, 0, 0, 10);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_SEQUENCE_OUT_OF_ORDER));
    producer_state_free(ps);
}

Test(producer_state, control_batches_and_plain_ones_leave_no_trace)
{
    struct producer_state *ps = state_new(10);
    struct batch_header h = batch(5, 0, -1, 1);
    h.attributes = BATCH_CONTROL | BATCH_TRANSACTIONAL;
    apply(ps, &h, 0, 0);
    h = batch(-1, -1, -1, 1);
    apply(ps, &h, 1, 0);
    cr_assert(eq(u32, producer_state_count(ps), 0));
    cr_assert(eq(u64, producer_state_index(ps), 2));
    producer_state_free(ps);
}

Test(producer_state, at_the_limit_the_one_unused_for_longest_is_forgotten)
{
    struct producer_state *ps = state_new(100);
    struct producer_verdict v;
    for (int64_t id = 0; id < 100; id++) {
        struct batch_header h = batch(id, 0, 0, 1);
        apply(ps, &h, id, id);
    }
    struct batch_header h = batch(0, 0, 1, 1); /* 0 is used again. */
    apply(ps, &h, 100, 100);
    h = batch(1000, 0, 0, 1);
    apply(ps, &h, 101, 101);
    cr_assert(eq(u32, producer_state_count(ps), 100));
    h = batch(0, 0, 5, 1);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_SEQUENCE_OUT_OF_ORDER), "0 is known");
    h = batch(1, 0, 5, 1);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK), "1 is forgotten");
    h = batch(2, 0, 5, 1);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_SEQUENCE_OUT_OF_ORDER), "2 is known");
    producer_state_free(ps);
}

Test(producer_state, tells_of_as_many_as_there_is_room_for)
{
    struct producer_state *ps = state_new(100);
    for (int64_t id = 0; id < 5; id++) {
        struct batch_header h = batch(id, (int16_t)id, 0, 3);
        h.max_timestamp = 1000 + id;
        apply(ps, &h, 3 * id, id);
    }
    struct batch_header h = batch(0, 0, 3, 4);
    h.max_timestamp = 7; /* The last one, though not the largest. */
    apply(ps, &h, 100, 100);
    struct producer_view views[6] = {{0}};
    cr_assert(eq(u32, producer_state_view(ps, NULL, 0), 5));
    cr_assert(eq(u32, producer_state_view(ps, views, 2), 5));
    cr_assert(eq(i64, views[1].id, 2));
    cr_assert(eq(i64, views[2].last_timestamp, 0), "no room");
    cr_assert(eq(u32, producer_state_view(ps, views, 6), 5));
    for (int64_t i = 0; i < 4; i++) {
        cr_assert(eq(i64, views[i].id, i + 1));
        cr_assert(eq(i16, views[i].epoch, (int16_t)(i + 1)));
        cr_assert(eq(i32, views[i].last_sequence, 2));
        cr_assert(eq(i64, views[i].last_timestamp, 1001 + i));
    }
    cr_assert(eq(i64, views[4].id, 0), "the one used last");
    cr_assert(eq(i32, views[4].last_sequence, 6));
    cr_assert(eq(i64, views[4].last_timestamp, 7));
    producer_state_free(ps);
}

Test(producer_state, ids_expire_without_writes)
{
    struct producer_state *ps = state_new(100);
    for (int64_t id = 0; id < 10; id++) {
        struct batch_header h = batch(id, 0, 0, 1);
        apply(ps, &h, id, id * 1000);
    }
    producer_state_expire(ps, 5000, 5000);
    cr_assert(eq(u32, producer_state_count(ps), 10), "not longer than");
    producer_state_expire(ps, 5001, 5000);
    cr_assert(eq(u32, producer_state_count(ps), 9));
    producer_state_expire(ps, 8001, 5000);
    cr_assert(eq(u32, producer_state_count(ps), 6));
    producer_state_expire(ps, 1000000, 5000);
    cr_assert(eq(u32, producer_state_count(ps), 0));
    producer_state_expire(ps, 1000000, 5000);
    producer_state_free(ps);
}

/* The log was cut: clear and replay give the state as if the rest had never been. */
Test(producer_state, rolls_back_by_clear_and_replay)
{
    struct producer_state *ps = state_new(10);
    struct producer_verdict v;
    for (int i = 0; i < 8; i++) {
        struct batch_header h = batch(1, 0, i, 1);
        apply(ps, &h, i, 0);
    }
    producer_state_clear(ps);
    cr_assert(eq(u32, producer_state_count(ps), 0));
    for (int i = 0; i < 4; i++) {
        struct batch_header h = batch(1, 0, i, 1);
        apply(ps, &h, i, 0);
    }
    struct batch_header h = batch(1, 0, 4, 1);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));
    cr_assert(not(v.is_duplicate), "what was cut may be written again");
    h = batch(1, 0, 0, 1);
    cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));
    cr_assert(v.is_duplicate);
    producer_state_free(ps);
}

enum {
    MODEL_IDS = 40,
};

struct model_producer {
    int epoch; /* -1 = unknown. */
    int32_t next;
    int count;
    struct {
        int32_t first, last;
        int64_t offset;
    } batches[PRODUCER_BATCHES];
};

static enum err
model_check(const struct model_producer *m, const struct batch_header *h, int64_t *ret_offset)
{
    *ret_offset = NEW;
    if (m->epoch == -1) {
        return ERR_OK;
    }
    for (int i = 0; i < m->count && m->epoch == h->producer_epoch; i++) {
        if (m->batches[i].first == h->base_sequence &&
            m->batches[i].last == h->base_sequence + h->last_offset_delta) {
            *ret_offset = m->batches[i].offset;
            return ERR_OK;
        }
    }
    if (h->producer_epoch < m->epoch) {
        return ERR_PRODUCER_EPOCH_STALE;
    }
    int32_t expected = h->producer_epoch > m->epoch ? 0 : m->next;
    return h->base_sequence == expected ? ERR_OK : ERR_SEQUENCE_OUT_OF_ORDER;
}

static void model_apply(struct model_producer *m, const struct batch_header *h, int64_t offset)
{
    if (m->epoch != h->producer_epoch) {
        *m = (struct model_producer){.epoch = h->producer_epoch};
    }
    if (m->count == PRODUCER_BATCHES) {
        memmove(m->batches, m->batches + 1, sizeof(m->batches) - sizeof(m->batches[0]));
        m->count--;
    }
    m->batches[m->count].first = h->base_sequence;
    m->batches[m->count].last = h->base_sequence + h->last_offset_delta;
    m->batches[m->count].offset = offset;
    m->count++;
    m->next = h->base_sequence + h->last_offset_delta + 1;
}

/* Through bytes and back, as a restart does it. */
static struct producer_state *reborn(struct producer_state *ps, uint32_t producers_max)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    producer_state_encode(ps, &w);
    struct producer_state *back = state_new(producers_max);
    enum err e = producer_state_restore(back, wbuf_slice(&w), producer_state_index(ps));
    cr_assert(eq(int, e, ERR_OK));
    cr_assert(eq(u64, producer_state_index(back), producer_state_index(ps)));
    producer_state_assert_valid(back);
    wbuf_done(&w);
    producer_state_free(ps);
    return back;
}

Test(producer_state, with_less_room_the_least_recently_used_ids_are_not_restored)
{
    struct producer_state *ps = state_new(10);
    for (int i = 0; i < 10; i++) {
        struct batch_header h = batch(i, 0, 0, 1);
        apply(ps, &h, i, i);
    }
    ps = reborn(ps, 4);
    cr_assert(eq(u32, producer_state_count(ps), 4));
    struct producer_verdict v;
    for (int i = 0; i < 10; i++) {
        struct batch_header h = batch(i, 0, 0, 1);
        cr_assert(eq(int, producer_state_check(ps, &h, &v), ERR_OK));
        cr_assert(eq(int, v.is_duplicate, i >= 6), "id=%d", i);
    }
    producer_state_free(ps);
}

Test(producer_state, other_bytes_leave_it_empty)
{
    struct producer_state *ps = state_new(10);
    for (int i = 0; i < 12; i++) {
        struct batch_header h = batch(i % 3, 0, i / 3, 1);
        apply(ps, &h, i, i);
    }
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    producer_state_encode(ps, &w);
    struct producer_state *back = state_new(10);
    for (size_t size = 0; size < w.size; size++) {
        enum err e = producer_state_restore(back, slice_of(w.data, size), 1);
        cr_assert(eq(int, e, ERR_CORRUPT), "size=%zu", size);
        cr_assert(eq(u32, producer_state_count(back), 0));
    }
    wbuf_i8(&w, 0);
    cr_assert(eq(int, producer_state_restore(back, wbuf_slice(&w), 1), ERR_CORRUPT));
    w.data[1]++;
    cr_assert(eq(int, producer_state_restore(back, wbuf_slice(&w), 1), ERR_NEWER_FORMAT));
    cr_assert(eq(u32, producer_state_count(back), 0));
    wbuf_done(&w);
    producer_state_free(back);
    producer_state_free(ps);
}

Test(producer_state, agrees_with_a_plain_model)
{
    struct producer_state *ps = state_new(MODEL_IDS);
    struct model_producer model[MODEL_IDS];
    struct rand rand;
    int duplicates = 0;
    rand_init_seed(&rand, 17);
    for (int i = 0; i < MODEL_IDS; i++) {
        model[i] = (struct model_producer){.epoch = -1};
    }
    for (int64_t step = 0; step < 100000; step++) {
        int64_t id = (int64_t)rand_below(&rand, MODEL_IDS);
        struct model_producer *m = &model[id];
        struct batch_header h = batch(id, (int16_t)(m->epoch < 0 ? 0 : m->epoch), m->next, 1);
        h.last_offset_delta = (int32_t)rand_below(&rand, 3);
        if (rand_one_in(&rand, 10)) {
            h.producer_epoch = (int16_t)(h.producer_epoch + (int)rand_below(&rand, 3) - 1);
            h.producer_epoch = h.producer_epoch < 0 ? 0 : h.producer_epoch;
            h.base_sequence = rand_one_in(&rand, 2) ? 0 : h.base_sequence;
        } else if (rand_one_in(&rand, 4)) {
            h.base_sequence -= (int32_t)rand_below(&rand, 12);
            h.base_sequence = h.base_sequence < 0 ? 0 : h.base_sequence;
        }
        if (rand_one_in(&rand, 1000)) {
            ps = reborn(ps, MODEL_IDS);
        }
        struct producer_verdict v;
        int64_t offset;
        enum err expected = model_check(m, &h, &offset);
        cr_assert(eq(int, producer_state_check(ps, &h, &v), expected));
        if (expected != ERR_OK) {
            continue;
        }
        cr_assert(eq(int, v.is_duplicate, offset != NEW));
        if (v.is_duplicate) {
            cr_assert(eq(i64, v.base_offset, offset));
            duplicates++;
            continue;
        }
        model_apply(m, &h, step);
        apply(ps, &h, step, step);
    }
    cr_assert(lt(int, 1000, duplicates));
    producer_state_free(ps);
}
