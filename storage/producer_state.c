#include "storage/producer_state.h"

#include <stdlib.h>

#include "core/assert.h"
#include "core/ids.h"
#include "core/list.h"
#include "core/rbuf.h"

enum {
    BUCKETS_MIN = 8,
    STATE_VERSION = 1,
};

struct producer_batch {
    int32_t first_sequence;
    int32_t last_sequence;
    int64_t base_offset;
    int64_t timestamp; /* Max timestamp of the batch, ms. */
};

/* Invariant: at least one batch, in the order they were applied. */
struct producer {
    struct list link; /* By last_ms: the one unused for longest is first. */
    struct producer *hash_next;
    int64_t id;
    int64_t last_ms;
    int16_t epoch;
    uint8_t batches_count;
    struct producer_batch batches[PRODUCER_BATCHES];
};

struct producer_state {
    uint64_t hash_seed;
    uint32_t producers_max;
    uint32_t count;
    uint32_t buckets_count; /* A power of two. */
    struct producer **buckets;
    struct list by_use;
    /* Memory for the next new id, so that applying never fails. NULL only if there was no memory
     * for it; then count > 0, and the oldest gives up its own. */
    struct producer *spare;
    uint64_t index;
};

enum err producer_state_new(uint64_t hash_seed, uint32_t producers_max, struct producer_state **ret)
{
    assert(producers_max > 0);
    struct producer_state *ps = calloc(1, sizeof(*ps));
    if (ps == NULL) {
        return ERR_BUSY;
    }
    ps->hash_seed = hash_seed;
    ps->producers_max = producers_max;
    ps->buckets_count = BUCKETS_MIN;
    ps->buckets = calloc(ps->buckets_count, sizeof(ps->buckets[0]));
    ps->spare = malloc(sizeof(*ps->spare));
    list_init(&ps->by_use);
    if (ps->buckets == NULL || ps->spare == NULL) {
        producer_state_free(ps);
        return ERR_BUSY;
    }
    *ret = ps;
    return ERR_OK;
}

static struct producer **bucket_of(const struct producer_state *ps, int64_t id)
{
    return &ps->buckets[hash_bytes(ps->hash_seed, &id, sizeof(id)) & (ps->buckets_count - 1)];
}

static struct producer *find(const struct producer_state *ps, int64_t id)
{
    struct producer *p = *bucket_of(ps, id);
    while (p != NULL && p->id != id) {
        p = p->hash_next;
    }
    return p;
}

static void hash_insert(struct producer_state *ps, struct producer *p)
{
    struct producer **bucket = bucket_of(ps, p->id);
    p->hash_next = *bucket;
    *bucket = p;
}

/* Without memory the table just stays as small as it is. */
static void hash_grow(struct producer_state *ps)
{
    assert(ps->buckets_count > 0);
    struct producer **buckets = calloc((size_t)ps->buckets_count * 2, sizeof(buckets[0]));
    if (buckets == NULL) {
        return;
    }
    free(ps->buckets);
    ps->buckets = buckets;
    ps->buckets_count *= 2;
    list_for_each (node, &ps->by_use) {
        hash_insert(ps, container_of(node, struct producer, link));
    }
}

static struct producer *unlink_oldest(struct producer_state *ps)
{
    struct producer *p = container_of(ps->by_use.next, struct producer, link);
    struct producer **at = bucket_of(ps, p->id);
    while (*at != p) {
        at = &(*at)->hash_next;
    }
    *at = p->hash_next;
    list_remove(&p->link);
    ps->count--;
    return p;
}

static void forget_oldest(struct producer_state *ps)
{
    struct producer *p = unlink_oldest(ps);
    if (ps->spare == NULL) {
        ps->spare = p;
    } else {
        free(p);
    }
}

void producer_state_clear(struct producer_state *ps)
{
    while (ps->count > 0) {
        forget_oldest(ps);
    }
    ps->index = 0;
}

void producer_state_free(struct producer_state *ps)
{
    if (ps == NULL) {
        return;
    }
    producer_state_clear(ps);
    free(ps->spare);
    free(ps->buckets);
    free(ps);
}

uint32_t producer_state_count(const struct producer_state *ps)
{
    return ps->count;
}

uint64_t producer_state_index(const struct producer_state *ps)
{
    return ps->index;
}

/* ---- rules --------------------------------------------------------------------------------- */

static bool has_sequence(const struct batch_header *h)
{
    return h->producer_id >= 0 && h->base_sequence >= 0 && (h->attributes & BATCH_CONTROL) == 0;
}

static const struct producer_batch *
find_batch(const struct producer *p, int32_t first_sequence, int32_t last_sequence)
{
    for (uint8_t i = 0; i < p->batches_count; i++) {
        const struct producer_batch *b = &p->batches[i];
        if (b->first_sequence == first_sequence && b->last_sequence == last_sequence) {
            return b;
        }
    }
    return NULL;
}

static int32_t next_sequence(const struct producer *p)
{
    int32_t last = p->batches[p->batches_count - 1].last_sequence;
    return last == INT32_MAX ? 0 : last + 1;
}

/* PROTOCOL 10, rules 1 to 4, for a producer that is known. */
static enum err
check(const struct producer *p, const struct batch_header *h, struct producer_verdict *ret_verdict)
{
    if (h->producer_epoch == p->epoch) {
        int32_t last = batch_last_sequence(h->base_sequence, h->last_offset_delta);
        const struct producer_batch *b = find_batch(p, h->base_sequence, last);
        if (b != NULL) {
            *ret_verdict = (struct producer_verdict){
                .is_duplicate = true, .base_offset = b->base_offset, .timestamp = b->timestamp};
            return ERR_OK;
        }
    }
    if (h->producer_epoch < p->epoch) {
        return ERR_PRODUCER_EPOCH_STALE;
    }
    int32_t expected = h->producer_epoch > p->epoch ? 0 : next_sequence(p);
    if (h->base_sequence != expected) {
        return ERR_SEQUENCE_OUT_OF_ORDER;
    }
    *ret_verdict = (struct producer_verdict){.is_duplicate = false};
    return ERR_OK;
}

enum err producer_state_check(const struct producer_state *ps,
                              const struct batch_header *h,
                              struct producer_verdict *ret_verdict)
{
    const struct producer *p = has_sequence(h) ? find(ps, h->producer_id) : NULL;
    if (p != NULL) {
        return check(p, h, ret_verdict);
    }
    *ret_verdict = (struct producer_verdict){.is_duplicate = false};
    return ERR_OK;
}

/* ---- changes ------------------------------------------------------------------------------- */

static struct producer *add(struct producer_state *ps, int64_t id)
{
    if (ps->count == ps->producers_max || ps->spare == NULL) {
        forget_oldest(ps);
    }
    struct producer *p = ps->spare;
    ps->spare = malloc(sizeof(*ps->spare));
    *p = (struct producer){.id = id};
    list_init(&p->link);
    if (ps->count == ps->buckets_count) {
        hash_grow(ps);
    }
    hash_insert(ps, p);
    ps->count++;
    return p;
}

static void remember(struct producer *p, const struct producer_batch *b)
{
    if (p->batches_count == PRODUCER_BATCHES) {
        memmove(&p->batches[0], &p->batches[1], sizeof(p->batches) - sizeof(p->batches[0]));
        p->batches_count--;
    }
    p->batches[p->batches_count++] = *b;
}

void producer_state_apply(struct producer_state *ps,
                          const struct batch_header *h,
                          int64_t base_offset,
                          uint64_t index,
                          int64_t now_ms)
{
    assert_cmp(index, >, ps->index);
    ps->index = index;
    if (!has_sequence(h)) {
        return;
    }
    struct producer *p = find(ps, h->producer_id);
    if (p == NULL) {
        p = add(ps, h->producer_id);
    }
    if (h->producer_epoch != p->epoch) {
        p->epoch = h->producer_epoch;
        p->batches_count = 0;
    }
    remember(p,
             &(struct producer_batch){
                 .first_sequence = h->base_sequence,
                 .last_sequence = batch_last_sequence(h->base_sequence, h->last_offset_delta),
                 .base_offset = base_offset,
                 .timestamp = h->max_timestamp,
             });
    p->last_ms = now_ms;
    list_remove(&p->link);
    list_push_back(&ps->by_use, &p->link);
    assert_slow((producer_state_assert_valid(ps), true));
}

uint32_t producer_state_view(const struct producer_state *ps,
                             struct producer_view *ret_views,
                             uint32_t views_max)
{
    uint32_t count = 0;
    list_for_each (node, &ps->by_use) {
        if (count == views_max) {
            break;
        }
        const struct producer *p = container_of(node, struct producer, link);
        const struct producer_batch *last = &p->batches[p->batches_count - 1];
        ret_views[count++] = (struct producer_view){
            .id = p->id,
            .last_timestamp = last->timestamp,
            .last_sequence = last->last_sequence,
            .epoch = p->epoch,
        };
    }
    return ps->count;
}

/* ---- as bytes ---- */

void producer_state_encode(const struct producer_state *ps, struct wbuf *out)
{
    wbuf_u16(out, STATE_VERSION);
    wbuf_u32(out, ps->count);
    list_for_each (node, &ps->by_use) {
        const struct producer *p = container_of(node, struct producer, link);
        wbuf_i64(out, p->id);
        wbuf_i64(out, p->last_ms);
        wbuf_i16(out, p->epoch);
        wbuf_i8(out, (int8_t)p->batches_count);
        for (uint8_t i = 0; i < p->batches_count; i++) {
            wbuf_i32(out, p->batches[i].first_sequence);
            wbuf_i32(out, p->batches[i].last_sequence);
            wbuf_i64(out, p->batches[i].base_offset);
            wbuf_i64(out, p->batches[i].timestamp);
        }
    }
}

/* The least recently used one comes first. */
static void restore_producer(struct producer_state *ps, struct rbuf *r)
{
    int64_t id = rbuf_i64(r);
    int64_t last_ms = rbuf_i64(r);
    int16_t epoch = rbuf_i16(r);
    int8_t batches_count = rbuf_i8(r);
    if (id < 0 || batches_count <= 0 || batches_count > PRODUCER_BATCHES || find(ps, id) != NULL) {
        rbuf_fail(r, ERR_CORRUPT);
        return;
    }
    struct producer *p = add(ps, id);
    p->last_ms = last_ms;
    p->epoch = epoch;
    for (int8_t i = 0; i < batches_count; i++) {
        struct producer_batch b;
        b.first_sequence = rbuf_i32(r);
        b.last_sequence = rbuf_i32(r);
        b.base_offset = rbuf_i64(r);
        b.timestamp = rbuf_i64(r);
        remember(p, &b);
    }
    list_push_back(&ps->by_use, &p->link);
}

enum err producer_state_restore(struct producer_state *ps, struct slice bytes, uint64_t index)
{
    assert_cmp(ps->count, ==, 0);
    struct rbuf r = rbuf_over(bytes.data, bytes.size);
    uint16_t version = rbuf_u16(&r);
    if (version > STATE_VERSION) {
        return ERR_NEWER_FORMAT;
    }
    for (uint32_t left = rbuf_u32(&r); left > 0 && r.failure == ERR_OK; left--) {
        restore_producer(ps, &r);
    }
    if (version != STATE_VERSION || rbuf_finish(&r) != ERR_OK) {
        producer_state_clear(ps);
        return ERR_CORRUPT;
    }
    ps->index = index;
    assert_slow((producer_state_assert_valid(ps), true));
    return ERR_OK;
}

bool producer_state_is_last(const struct producer_state *ps,
                            const struct batch_header *h,
                            int64_t end_offset)
{
    const struct producer *p = has_sequence(h) ? find(ps, h->producer_id) : NULL;
    if (p == NULL) {
        return false; /* Forgotten: no sequence is asked of it. */
    }
    for (uint8_t i = p->batches_count; i > 0; i--) {
        if (p->batches[i - 1].base_offset < end_offset) {
            return p->batches[i - 1].base_offset == h->base_offset;
        }
    }
    /* All that is remembered may still be cut, and the one before is forgotten. */
    return true;
}

void producer_state_expire(struct producer_state *ps, int64_t now_ms, int64_t expiration_ms)
{
    while (ps->count > 0) {
        const struct producer *oldest = container_of(ps->by_use.next, struct producer, link);
        if (now_ms - oldest->last_ms <= expiration_ms) {
            break;
        }
        forget_oldest(ps);
    }
}

void producer_state_assert_valid(const struct producer_state *ps)
{
    uint32_t count = 0;
    list_for_each (node, &ps->by_use) {
        const struct producer *p = container_of(node, struct producer, link);
        assert(find(ps, p->id) == p);
        assert_cmp(p->batches_count, >, 0);
        assert_cmp(p->batches_count, <=, PRODUCER_BATCHES);
        count++;
    }
    assert_cmp(count, ==, ps->count);
    assert_cmp(count, <=, ps->producers_max);
    assert(ps->spare != NULL || ps->count > 0);
}
