/* The compaction engine, without a disk: entries in, verdicts out, against rules and a naive model.
 * A log here is an array of entries; a run is what log_compact.c does with it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rand.h"
#include "storage/compaction.h"

enum {
    ENTRIES_MAX = 512,
    BATCH_SIZE_MAX = 1 << 20,
    RECORDS_MAX = 16,
};

static const uint64_t SECRET[2] = {1, 2};

struct stored {
    struct entry_header h;
    uint8_t *payload;
};

struct mini_log {
    struct stored entries[ENTRIES_MAX];
    size_t count;
    uint64_t next_index;
    int64_t next_offset;
    int64_t clean_offset;
    uint64_t clean_index;
    int64_t now_ms;
    int64_t delete_retention_ms;
    uint64_t keys_size_max;
    int64_t last_producer_id; /* Whose last batch ends with last_producer_offset. */
    int64_t last_producer_offset;
    struct compaction_counters counters;
};

static void mini_init(struct mini_log *l)
{
    *l = (struct mini_log){
        .next_index = 1,
        .now_ms = 1000,
        .delete_retention_ms = 100,
        .keys_size_max = 1 << 20,
        .last_producer_id = -1,
    };
}

static void mini_done(struct mini_log *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->entries[i].payload);
    }
}

struct kv {
    const char *key;   /* NULL = none */
    const char *value; /* NULL = tombstone */
};

struct how {
    enum batch_codec codec;
    int64_t producer_id; /* 0 = none. */
    int16_t attributes;
};

static struct slice text(const char *s)
{
    return s == NULL ? (struct slice){0} : slice_of_string(s);
}

static void add_batch(struct mini_log *l, const struct how *how, const struct kv *kvs, size_t count)
{
    struct batch_builder b;
    batch_builder_init(&b, BATCH_SIZE_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct batch_record r = {
            .timestamp = l->now_ms + (int64_t)i,
            .key = text(kvs[i].key),
            .value = text(kvs[i].value),
        };
        cr_assert(eq(int, batch_builder_add(&b, &r), ERR_OK));
    }
    struct wbuf w;
    wbuf_init(&w, BATCH_SIZE_MAX);
    const bool has_producer = how->producer_id != 0;
    const struct batch_identity id = {
        .producer_id = has_producer ? how->producer_id : -1,
        .producer_epoch = has_producer ? 0 : -1,
        .base_sequence = has_producer ? (int32_t)l->next_offset : -1,
    };
    cr_assert(eq(int, batch_builder_finish(&b, how->codec, &id, &w), ERR_OK));
    batch_builder_done(&b);

    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(wbuf_slice(&w), &h), ERR_OK));
    h.attributes |= how->attributes;
    h.base_offset = l->next_offset;
    batch_header_encode(
        &h, slice_of(w.data + BATCH_HEADER_SIZE, w.size - BATCH_HEADER_SIZE), w.data);

    cr_assert(lt(sz, l->count, ENTRIES_MAX));
    struct stored *s = &l->entries[l->count++];
    s->h = (struct entry_header){
        .payload_size = (uint32_t)w.size,
        .salt = 1,
        .type = ENTRY_DATA,
        .index = l->next_index++,
        .term = 1,
        .base_offset = l->next_offset,
        .next_offset = l->next_offset + (int64_t)count,
        .max_timestamp = h.max_timestamp,
    };
    s->payload = wbuf_take(&w, &(size_t){0});
    l->next_offset = s->h.next_offset;
}

static void add(struct mini_log *l, const char *key, const char *value)
{
    add_batch(l, &(struct how){0}, &(struct kv){key, value}, 1);
}

static void add_marker(struct mini_log *l, int64_t producer_id, bool is_commit)
{
    /* Version and type, big-endian; the cast to text cannot carry the zeros. */
    struct batch_builder b;
    batch_builder_init(&b, BATCH_SIZE_MAX);
    const uint8_t key[4] = {0, 0, 0, is_commit};
    const struct batch_record r = {
        .timestamp = l->now_ms,
        .key = slice_of(key, sizeof(key)),
        .value = slice_of("\0\0\0\0\0\0", 6),
    };
    cr_assert(eq(int, batch_builder_add(&b, &r), ERR_OK));
    struct wbuf w;
    wbuf_init(&w, BATCH_SIZE_MAX);
    const struct batch_identity id = {producer_id, 0, -1};
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &id, &w), ERR_OK));
    batch_builder_done(&b);
    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(wbuf_slice(&w), &h), ERR_OK));
    h.attributes |= BATCH_CONTROL | BATCH_TRANSACTIONAL;
    h.base_offset = l->next_offset;
    batch_header_encode(
        &h, slice_of(w.data + BATCH_HEADER_SIZE, w.size - BATCH_HEADER_SIZE), w.data);
    struct stored *s = &l->entries[l->count++];
    s->h = (struct entry_header){
        .payload_size = (uint32_t)w.size,
        .type = ENTRY_DATA,
        .index = l->next_index++,
        .base_offset = l->next_offset,
        .next_offset = l->next_offset + 1,
        .max_timestamp = h.max_timestamp,
    };
    s->payload = wbuf_take(&w, &(size_t){0});
    l->next_offset++;
}

static struct slice payload_of(const struct stored *s)
{
    return slice_of(s->payload, s->h.payload_size);
}

static bool is_last_of_producer(void *context, const struct batch_header *h)
{
    const struct mini_log *l = context;
    return h->producer_id == l->last_producer_id &&
           h->base_offset + h->last_offset_delta == l->last_producer_offset;
}

static void learn(struct mini_log *l, struct compaction *c)
{
    for (size_t i = 0; i < l->count; i++) {
        if (!compaction_learn_keys(c, &l->entries[i].h, payload_of(&l->entries[i]))) {
            return;
        }
    }
}

static void judge_all(struct mini_log *l, struct compaction *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct stored *s = &l->entries[i];
        struct compaction_result result;
        compaction_judge(c, &s->h, payload_of(s), &result);
        if (result.verdict == COMPACTION_REMOVE) {
            free(s->payload);
            continue;
        }
        if (result.verdict == COMPACTION_REWRITE) {
            uint8_t *copy = malloc(result.payload.size);
            memcpy(copy, result.payload.data, result.payload.size);
            free(s->payload);
            s->payload = copy;
            s->h.payload_size = (uint32_t)result.payload.size;
            s->h.max_timestamp = result.max_timestamp;
            cr_assert(entry_payload_matches(&s->h, payload_of(s)));
        }
        l->entries[kept++] = *s;
    }
    l->count = kept;
}

/* One run over everything below end_offset. */
static void run_to(struct mini_log *l, int64_t end_offset)
{
    const struct compaction_options o = {
        .clean_offset = l->clean_offset,
        .end_offset = end_offset,
        .clean_index = l->clean_index,
        .now_ms = l->now_ms,
        .delete_retention_ms = l->delete_retention_ms,
        .keys_size_max = l->keys_size_max,
        .secret = {SECRET[0], SECRET[1]},
        .is_last_of_producer = is_last_of_producer,
        .context = l,
    };
    struct compaction c;
    cr_assert(eq(int, compaction_init(&c, &o), ERR_OK));
    learn(l, &c);
    if (c.has_txns) {
        cr_assert(eq(int, compaction_begin_outcomes(&c), ERR_OK));
        for (size_t i = 0; i < l->count; i++) {
            const struct stored *s = &l->entries[i];
            if (s->h.next_offset > l->clean_offset &&
                !compaction_learn_outcome(&c, &s->h, payload_of(s))) {
                break;
            }
        }
        compaction_end_outcomes(&c);
        learn(l, &c);
    }
    judge_all(l, &c);
    l->clean_offset = c.keys_end;
    l->clean_index = l->next_index;
    for (size_t i = l->count; i > 0 && l->entries[i - 1].h.base_offset >= c.keys_end; i--) {
        l->clean_index = l->entries[i - 1].h.index;
    }
    l->counters = c.counters;
    compaction_done(&c);
}

static void run(struct mini_log *l)
{
    run_to(l, l->next_offset);
}

/* "<key><value>@<offset> ..." of all records; "-" for a null value, "[]" for an empty batch, and
 * "{..}" around those of control batches. */
static const char *show(const struct mini_log *l, char out[4096])
{
    size_t size = 0;
    out[0] = '\0';
    for (size_t i = 0; i < l->count; i++) {
        struct batch_header h;
        cr_assert(eq(int, batch_header_decode(payload_of(&l->entries[i]), &h), ERR_OK));
        struct wbuf plain;
        wbuf_init(&plain, BATCH_SIZE_MAX);
        struct slice records;
        cr_assert(eq(int,
                     batch_records(payload_of(&l->entries[i]), BATCH_SIZE_MAX, &plain, &records),
                     ERR_OK));
        struct record_cursor cursor;
        struct record r;
        record_cursor_init(&cursor, &h, records);
        const char *gap = size == 0 ? "" : " ";
        if (h.records_count == 0) {
            size += (size_t)snprintf(out + size, 4096 - size, "%s[]", gap);
        }
        while (record_next(&cursor, &r) == ERR_OK) {
            gap = size == 0 ? "" : " ";
            if ((h.attributes & BATCH_CONTROL) != 0) {
                size += (size_t)snprintf(out + size,
                                         4096 - size,
                                         "%s{%s@%d}",
                                         gap,
                                         r.key.data[3] == 1 ? "commit" : "abort",
                                         (int)r.offset);
                continue;
            }
            size += (size_t)snprintf(out + size,
                                     4096 - size,
                                     "%s%.*s%.*s@%d",
                                     gap,
                                     (int)r.key.size,
                                     r.key.size == 0 ? "" : (const char *)r.key.data,
                                     slice_is_null(r.value) ? 1 : (int)r.value.size,
                                     slice_is_null(r.value) ? "-" : (const char *)r.value.data,
                                     (int)r.offset);
        }
        wbuf_done(&plain);
    }
    return out;
}

#define expect(l, wanted)                                        \
    do {                                                         \
        char shown_[4096];                                       \
        cr_assert(eq(str, (char *)show((l), shown_), (wanted))); \
    } while (0)

static const struct kv worked[] = {
    {"A", "1"},
    {"B", "2"},
    {"A", "3"},
    {"C", "4"},
    {"B", "5"},
    {"A", "6"},
    {"D", "7"},
    {"C", "8"},
};
enum { WORKED_COUNT = sizeof(worked) / sizeof(worked[0]) };

Test(compaction, the_worked_example)
{
    for (size_t per_batch = 1; per_batch <= WORKED_COUNT; per_batch *= 2) {
        for (int codec = 0; codec < CODEC_COUNT; codec++) {
            struct mini_log l;
            mini_init(&l);
            for (size_t i = 0; i < WORKED_COUNT; i += per_batch) {
                const struct how how = {.codec = (enum batch_codec)codec};
                add_batch(&l, &how, &worked[i], per_batch);
            }
            run(&l);
            expect(&l, "B5@4 A6@5 D7@6 C8@7");
            cr_assert(eq(u64, l.counters.records_removed, 4));
            struct batch_header h;
            cr_assert(eq(int, batch_header_decode(payload_of(&l.entries[0]), &h), ERR_OK));
            cr_assert(eq(int, batch_codec(&h), codec));
            run(&l); /* Nothing more to do. */
            expect(&l, "B5@4 A6@5 D7@6 C8@7");
            cr_assert(eq(u64, l.counters.records_removed, 0));
            mini_done(&l);
        }
    }
}

Test(compaction, what_a_batch_keeps_keeps_its_place_and_time)
{
    struct mini_log l;
    mini_init(&l);
    const struct how how = {.codec = CODEC_ZSTD, .producer_id = 7};
    add_batch(&l, &how, (struct kv[]){{"a", "1"}, {"b", "2"}, {"c", "3"}}, 3);
    add(&l, "a", "4");
    add(&l, "c", "5");
    run(&l);
    expect(&l, "b2@1 a4@3 c5@4");
    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(payload_of(&l.entries[0]), &h), ERR_OK));
    cr_assert(eq(i64, h.base_offset, 0));
    cr_assert(eq(i32, h.last_offset_delta, 2));
    cr_assert(eq(i64, h.base_timestamp, 1000));
    cr_assert(eq(i64, h.max_timestamp, 1001)); /* Of what is left. */
    cr_assert(eq(i64, l.entries[0].h.max_timestamp, 1001));
    cr_assert(eq(i64, h.producer_id, 7));
    cr_assert(eq(i32, h.base_sequence, 0));
    cr_assert(eq(i32, h.records_count, 1));
    mini_done(&l);
}

Test(compaction, records_without_key_go)
{
    struct mini_log l;
    mini_init(&l);
    add_batch(&l, &(struct how){0}, (struct kv[]){{NULL, "1"}, {"b", "2"}}, 2);
    add(&l, NULL, "3");
    run(&l);
    expect(&l, "b2@1");
    mini_done(&l);
}

/* KIP-534: seen first, then kept for delete.retention.ms, then dropped by a later run. */
Test(compaction, a_tombstone_waits_for_its_horizon_and_for_the_clean_index)
{
    struct mini_log l;
    mini_init(&l);
    add(&l, "a", "1");
    add_batch(&l, &(struct how){0}, (struct kv[]){{"a", NULL}, {"b", "2"}}, 2);
    run(&l);
    expect(&l, "a-@1 b2@2");
    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(payload_of(&l.entries[0]), &h), ERR_OK));
    cr_assert(ne(int, h.attributes &BATCH_DELETE_HORIZON, 0));
    cr_assert(eq(i64, h.base_timestamp, 1100));
    cr_assert(eq(i64, h.max_timestamp, 1001)); /* Times of the records did not move. */
    l.now_ms = 1099;
    run(&l);
    expect(&l, "a-@1 b2@2");
    l.now_ms = 1100;
    const uint64_t clean_index = l.clean_index;
    l.clean_index = 2; /* A replica may still hold what the tombstone, index 2, removed. */
    run(&l);
    expect(&l, "a-@1 b2@2");
    l.clean_index = clean_index;
    run(&l);
    expect(&l, "b2@2");
    cr_assert(eq(u64, l.counters.tombstones_removed, 1));
    mini_done(&l);
}

Test(compaction, a_tombstone_is_never_dropped_by_the_run_that_first_sees_it)
{
    struct mini_log l;
    mini_init(&l);
    l.delete_retention_ms = 0;
    add(&l, "a", "1");
    add(&l, "a", NULL);
    run(&l);
    expect(&l, "a-@1");
    run(&l);
    expect(&l, "");
    mini_done(&l);
}

Test(compaction, the_last_batch_of_a_producer_stays_without_records)
{
    struct mini_log l;
    mini_init(&l);
    const struct how how = {.codec = CODEC_GZIP, .producer_id = 9};
    add_batch(&l, &how, &(struct kv){"a", "1"}, 1);
    add_batch(&l, &how, (struct kv[]){{"a", "2"}, {"a", "3"}}, 2);
    add(&l, "a", "4");
    l.last_producer_id = 9;
    l.last_producer_offset = 2;
    run(&l);
    expect(&l, "[] a4@3");
    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(payload_of(&l.entries[0]), &h), ERR_OK));
    cr_assert(eq(i64, h.base_offset, 1));
    cr_assert(eq(i32, h.last_offset_delta, 1));
    cr_assert(eq(i32, h.base_sequence, 1));
    cr_assert(eq(i64, h.producer_id, 9));
    cr_assert(eq(int, batch_codec(&h), CODEC_NONE));
    cr_assert(eq(i64, l.entries[0].h.max_timestamp, -1));
    l.last_producer_offset = 77; /* It wrote again, elsewhere. */
    run(&l);
    expect(&l, "a4@3");
    mini_done(&l);
}

Test(compaction, aborted_records_go_and_hide_nothing)
{
    struct mini_log l;
    mini_init(&l);
    const struct how txn = {.producer_id = 5, .attributes = BATCH_TRANSACTIONAL};
    const struct how other = {.producer_id = 6, .attributes = BATCH_TRANSACTIONAL};
    add(&l, "a", "1");
    add_batch(&l, &txn, &(struct kv){"a", "2"}, 1);
    add_batch(&l, &other, &(struct kv){"b", "3"}, 1);
    add_marker(&l, 5, false);
    add_marker(&l, 6, true);
    run(&l);
    expect(&l, "a1@0 b3@2 {abort@3} {commit@4}");
    /* Nothing of the aborted one is left: its marker gets its horizon, the other one's does not. */
    run(&l);
    expect(&l, "a1@0 b3@2 {abort@3} {commit@4}");
    l.now_ms += l.delete_retention_ms;
    run(&l);
    expect(&l, "a1@0 b3@2 {commit@4}");
    cr_assert(eq(u64, l.counters.markers_removed, 1));
    mini_done(&l);
}

Test(compaction, nothing_is_decided_about_an_open_transaction)
{
    struct mini_log l;
    mini_init(&l);
    const struct how txn = {.producer_id = 5, .attributes = BATCH_TRANSACTIONAL};
    add(&l, "a", "1");
    add(&l, "a", "2");
    add_batch(&l, &txn, &(struct kv){"a", "3"}, 1);
    add(&l, "a", "4");
    run(&l);
    expect(&l, "a2@1 a3@2 a4@3");
    cr_assert(eq(i64, l.clean_offset, 2));
    add_marker(&l, 5, true);
    run(&l);
    expect(&l, "a4@3 {commit@4}");
    mini_done(&l);
}

Test(compaction, no_ops_go_and_other_entries_stay)
{
    struct mini_log l;
    mini_init(&l);
    const struct compaction_options o = {.end_offset = 10, .keys_size_max = 4096};
    struct compaction c;
    cr_assert(eq(int, compaction_init(&c, &o), ERR_OK));
    for (int type = ENTRY_NOOP; type < ENTRY_TYPE_COUNT; type++) {
        const struct entry_header h = {.type = (uint8_t)type, .index = 1};
        struct compaction_result result;
        compaction_judge(&c, &h, (struct slice){0}, &result);
        const bool goes = type == ENTRY_NOOP || type == ENTRY_GAP;
        cr_assert(eq(int, result.verdict, goes ? COMPACTION_REMOVE : COMPACTION_KEEP));
    }
    compaction_done(&c);
}

/* ---- against a model ---- */

struct model_value {
    int64_t offset;
    bool is_tombstone;
};

static void random_batch(struct mini_log *l, struct rand *r, uint32_t keys)
{
    static char names[64][8];
    struct kv kvs[RECORDS_MAX];
    const size_t count = 1 + rand_below(r, RECORDS_MAX);
    for (size_t i = 0; i < count; i++) {
        const uint32_t key = (uint32_t)rand_below(r, keys);
        (void)snprintf(names[key], sizeof(names[key]), "k%u", key);
        kvs[i] = (struct kv){names[key], rand_one_in(r, 5) ? NULL : "value"};
    }
    const struct how how = {.codec = (enum batch_codec)rand_below(r, CODEC_COUNT)};
    add_batch(l, &how, kvs, count);
}

/* What is there is a part of what was, in order, and the latest record of every key below end is
 * there unless it is a tombstone. */
static void expect_sound(const struct mini_log *l,
                         const struct model_value latest[64],
                         int64_t end,
                         bool is_unique)
{
    int64_t seen[64];
    memset(seen, -1, sizeof(seen));
    for (size_t i = 0; i < l->count; i++) {
        struct batch_header h;
        struct wbuf plain;
        struct slice records;
        wbuf_init(&plain, BATCH_SIZE_MAX);
        cr_assert(eq(int, batch_header_decode(payload_of(&l->entries[i]), &h), ERR_OK));
        cr_assert(eq(int,
                     batch_records(payload_of(&l->entries[i]), BATCH_SIZE_MAX, &plain, &records),
                     ERR_OK));
        struct record_cursor cursor;
        struct record rec;
        record_cursor_init(&cursor, &h, records);
        while (record_next(&cursor, &rec) == ERR_OK) {
            const int key = atoi((const char *)rec.key.data + 1);
            if (is_unique && rec.offset < end) {
                cr_assert(eq(i64, seen[key], -1), "key %d is there twice", key);
            }
            cr_assert(lt(i64, seen[key], rec.offset));
            seen[key] = rec.offset;
        }
        wbuf_done(&plain);
    }
    for (int key = 0; key < 64; key++) {
        if (latest[key].offset >= 0 && !latest[key].is_tombstone) {
            cr_assert(eq(i64, seen[key], latest[key].offset), "key %d", key);
        }
    }
}

Test(compaction, random_logs_keep_the_latest_of_every_key)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rand r;
        rand_init_seed(&r, seed);
        struct mini_log l;
        mini_init(&l);
        /* Small maps make many runs of what would be one. */
        l.keys_size_max = rand_one_in(&r, 2) ? 24 * 16 : 1 << 16;
        l.delete_retention_ms = (int64_t)rand_below(&r, 50);
        struct model_value latest[64];
        memset(latest, -1, sizeof(latest));
        const uint32_t keys = 1 + (uint32_t)rand_below(&r, 60);
        for (int step = 0; step < 60 && l.count + 2 < ENTRIES_MAX; step++) {
            if (!rand_one_in(&r, 4)) {
                random_batch(&l, &r, keys);
                struct batch_header h;
                const struct stored *s = &l.entries[l.count - 1];
                struct wbuf plain;
                struct slice records;
                wbuf_init(&plain, BATCH_SIZE_MAX);
                cr_assert(eq(int, batch_header_decode(payload_of(s), &h), ERR_OK));
                cr_assert(eq(
                    int, batch_records(payload_of(s), BATCH_SIZE_MAX, &plain, &records), ERR_OK));
                struct record_cursor cursor;
                struct record rec;
                record_cursor_init(&cursor, &h, records);
                while (record_next(&cursor, &rec) == ERR_OK) {
                    latest[atoi((const char *)rec.key.data + 1)] =
                        (struct model_value){rec.offset, slice_is_null(rec.value)};
                }
                wbuf_done(&plain);
                continue;
            }
            l.now_ms += (int64_t)rand_below(&r, 40);
            const int64_t dirty = l.next_offset - l.clean_offset;
            const int64_t end = l.clean_offset + (int64_t)rand_below(&r, (uint64_t)dirty + 1);
            run_to(&l, end);
            cr_assert(le(i64, l.clean_offset, end));
            expect_sound(&l, latest, l.clean_offset, true);
        }
        for (int more = 0; more < 400 && l.clean_offset < l.next_offset; more++) {
            run(&l);
        }
        cr_assert(eq(i64, l.clean_offset, l.next_offset));
        expect_sound(&l, latest, l.next_offset, true);
        mini_done(&l);
    }
}

/* ---- when ---- */

Test(compaction, a_run_is_due_by_ratio_or_by_lag)
{
    static const struct {
        const char *rule;
        struct compaction_config config;
        int64_t clean_offset;
        int64_t bound_offset;
        bool is_due;
        int64_t end_offset;
    } rows[] = {
        {"half is dirty", {.dirty_ratio_min = 0.5, .lag_ms_max = INT64_MAX}, 20, 100, true, 40},
        {"less is", {.dirty_ratio_min = 0.6, .lag_ms_max = INT64_MAX}, 20, 100, false, 40},
        {"nothing is", {.dirty_ratio_min = 0, .lag_ms_max = 1}, 40, 100, false, 40},
        {"late", {.dirty_ratio_min = 1, .lag_ms_max = 650}, 20, 100, true, 40},
        {"not yet late", {.dirty_ratio_min = 1, .lag_ms_max = 700}, 20, 100, false, 40},
        {"too young",
         {.dirty_ratio_min = 0, .lag_ms_min = 700, .lag_ms_max = 800},
         0,
         100,
         true,
         30},
        {"all too young",
         {.dirty_ratio_min = 0, .lag_ms_min = 900, .lag_ms_max = 999},
         0,
         100,
         false,
         0},
        {"a bound inside", {.dirty_ratio_min = 0.1, .lag_ms_max = INT64_MAX}, 0, 15, true, 15},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct compaction_tally t = {
            .config = &rows[i].config,
            .clean_offset = rows[i].clean_offset,
            .bound_offset = rows[i].bound_offset,
            .now_ms = 1000,
            .dirty_since_ms = -1,
        };
        for (int64_t base = 0; base < 40; base += 10) {
            compaction_tally_add(&t,
                                 &(struct compaction_segment){
                                     .base_offset = base,
                                     .next_offset = base + 10,
                                     .size = 100,
                                     .first_timestamp = base == 20 ? 300 : 200,
                                     .max_timestamp = base == 30 ? 400 : 200 + base / 10,
                                 });
        }
        cr_assert(eq(int, compaction_is_due(&t), rows[i].is_due), "%s", rows[i].rule);
        cr_assert(eq(i64, t.end_offset, rows[i].end_offset), "%s", rows[i].rule);
    }
}

/* ---- the key map ---- */

/* Vectors of the SipHash reference code, 128 bits: key 00..0f, input 00, 01, ... */
Test(compaction, siphash_vectors)
{
    uint64_t secret[2];
    uint8_t bytes[16];
    for (uint8_t i = 0; i < 16; i++) {
        bytes[i] = i;
    }
    memcpy(secret, bytes, sizeof(secret));
    static const uint8_t wanted[2][16] = {
        {0xa3,
         0x81,
         0x7f,
         0x04,
         0xba,
         0x25,
         0xa8,
         0xe6,
         0x6d,
         0xf6,
         0x72,
         0x14,
         0xc7,
         0x55,
         0x02,
         0x93},
        {0xda,
         0x87,
         0xc1,
         0xd8,
         0x6b,
         0x99,
         0xaf,
         0x44,
         0x34,
         0x76,
         0x59,
         0x11,
         0x9b,
         0x22,
         0xfc,
         0x45},
    };
    for (size_t size = 0; size < 2; size++) {
        uint64_t hash[2];
        key_map_hash(secret, slice_of(bytes, size), hash);
        cr_assert(eq(int, memcmp(hash, wanted[size], 16), 0), "size=%zu", size);
    }
}

Test(compaction, a_full_map_takes_known_keys_only)
{
    struct key_map m;
    cr_assert(eq(int, key_map_init(&m, UINT64_MAX, 24 * 64, SECRET), ERR_OK));
    cr_assert(eq(u64, key_map_size(&m), 24 * 64));
    uint64_t taken = 0;
    for (uint64_t key = 0; key < 100; key++) {
        taken += key_map_put(&m, slice_of(&key, sizeof(key)), (int64_t)key);
    }
    cr_assert(eq(u64, taken, 48));
    for (uint64_t key = 0; key < 100; key++) {
        const struct slice k = slice_of(&key, sizeof(key));
        cr_assert(eq(i64, key_map_get(&m, k), key < 48 ? (int64_t)key : -1));
        cr_assert(eq(int, key_map_put(&m, k, 1000), key < 48));
    }
    key_map_clear(&m);
    cr_assert(eq(i64, key_map_get(&m, slice_of_string("x")), -1));
    key_map_done(&m);
}
