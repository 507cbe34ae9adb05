/* Searches by time against a walk over all records of the model: times in any order, equal ones,
 * none at all, compressed batches; from memory, from disk, after restarts, crashes and cuts, with
 * index files that are damaged or lie. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>

#include "storage/segment_format.h"
#include "storage/segment_index.h"

#include "tests/support/log_rig.h"

enum {
    RECORDS_MAX = 6,
    TIME_BASE = 1000,
    WINDOW_SIZE = 128 << 10, /* What one read of a walk brings. */
};

static struct log_rig *rig_new(uint64_t seed, bool is_cached)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->shared_options.cache_size_max = is_cached ? 64 << 20 : 0;
    rig->shared_options.index_size_max = 0;
    rig->options.segment_size_max = 32 << 10;
    rig->options.index_interval = 2 << 10;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    return rig;
}

static void rig_end(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

static void reopen(struct log_rig *rig)
{
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
}

/* Clocks of producers differ, and some have none. */
static int64_t draw_time(struct rand *r, int64_t around)
{
    return rand_one_in(r, 8) ? -1 : around + (int64_t)rand_below(r, 60) - 30;
}

static void append_some(struct log_rig *rig, int count)
{
    struct rand *r = &rig->ss.rand;
    for (int i = 0; i < count; i++) {
        int64_t timestamps[RECORDS_MAX];
        uint32_t records_count = 1 + (uint32_t)rand_below(r, RECORDS_MAX);
        for (uint32_t k = 0; k < records_count; k++) {
            timestamps[k] = draw_time(r, TIME_BASE + (int64_t)rig->model_count * 3);
        }
        const struct rig_batch b = {
            .timestamps = timestamps,
            .records_count = records_count,
            .value_size = rand_below(r, 200),
            .codec = rand_one_in(r, 2) ? CODEC_NONE : (enum batch_codec)rand_below(r, CODEC_COUNT),
        };
        cr_assert(eq(int, log_rig_append_batch(rig, &b), ERR_OK));
        if (rand_one_in(r, 20)) {
            cr_assert(eq(int, log_rig_append_other(rig, ENTRY_NOOP, 0), ERR_OK));
        }
        log_rig_flush(rig);
    }
    log_rig_settle(rig);
}

/* ---- the model ---- */

struct answer {
    int64_t offset;
    int64_t timestamp;
};

static void each_record(const struct log_rig *rig,
                        int64_t end_offset,
                        void *context,
                        bool (*on_record)(void *context, const struct record *record))
{
    for (size_t i = 0; i < rig->model_count; i++) {
        const struct rig_entry *m = &rig->model[i];
        if (m->type != ENTRY_DATA || m->next_offset > end_offset) {
            continue;
        }
        struct batch_header h;
        struct slice batch = slice_of(m->payload, m->payload_size);
        struct wbuf w;
        struct slice records;
        struct record_cursor cursor;
        struct record record;
        wbuf_init(&w, 64 << 20);
        cr_assert(eq(int, batch_header_decode(batch, &h), ERR_OK));
        cr_assert(eq(int, batch_records(batch, 64 << 20, &w, &records), ERR_OK));
        record_cursor_init(&cursor, &h, records);
        bool goes_on = true;
        while (goes_on && record_next(&cursor, &record) == ERR_OK) {
            goes_on = record.offset < log_start_offset(rig->log) || on_record(context, &record);
        }
        wbuf_done(&w);
        if (!goes_on) {
            return;
        }
    }
}

struct wish {
    int64_t timestamp;
    struct answer answer;
};

static bool is_not_it(void *context, const struct record *record)
{
    struct wish *w = context;
    if (record->timestamp < w->timestamp) {
        return true;
    }
    w->answer = (struct answer){record->offset, record->timestamp};
    return false;
}

static bool take_largest(void *context, const struct record *record)
{
    int64_t *largest = context;
    *largest = record->timestamp > *largest ? record->timestamp : *largest;
    return true;
}

static struct answer expected(const struct log_rig *rig, int64_t timestamp, int64_t end_offset)
{
    struct wish w = {.timestamp = timestamp, .answer = {-1, -1}};
    if (timestamp == LOG_TIME_LARGEST) {
        w.timestamp = -1;
        each_record(rig, end_offset, &w.timestamp, take_largest);
    }
    if (w.timestamp >= 0) {
        each_record(rig, end_offset, &w, is_not_it);
    }
    return w.answer;
}

/* ---- the log ---- */

struct query_wait {
    struct log_time_query query;
    bool is_done;
};

static void on_done(struct log_time_query *q)
{
    container_of(q, struct query_wait, query)->is_done = true;
}

static enum err
ask(struct log_rig *rig, int64_t timestamp, int64_t end_offset, struct answer *ret_answer)
{
    struct query_wait w = {
        .query = {.timestamp = timestamp, .end_offset = end_offset, .on_done = on_done}};
    log_time_query_begin(rig->log, &w.query);
    cr_assert(sim_shard_run_until(&rig->ss, &w.is_done));
    *ret_answer = (struct answer){w.query.ret_offset, w.query.ret_timestamp};
    return w.query.result;
}

static void expect(struct log_rig *rig, int64_t timestamp, int64_t end_offset)
{
    struct answer found;
    cr_assert(eq(int, ask(rig, timestamp, end_offset, &found), ERR_OK));
    const struct answer right = expected(rig, timestamp, end_offset);
    cr_assert(eq(i64, found.offset, right.offset), "time=%jd end=%jd", timestamp, end_offset);
    cr_assert(eq(i64, found.timestamp, right.timestamp), "time=%jd end=%jd", timestamp, end_offset);
}

static void expect_many(struct log_rig *rig, int count)
{
    const int64_t end = log_flushed_offset(rig->log);
    const int64_t last = TIME_BASE + (int64_t)rig->model_count * 3 + 50;
    expect(rig, 0, end);
    expect(rig, last, end);
    expect(rig, INT64_MAX, end);
    expect(rig, LOG_TIME_LARGEST, end);
    expect(rig, LOG_TIME_LARGEST, 0);
    for (int i = 0; i < count; i++) {
        const struct rig_entry *m = &rig->model[rand_below(&rig->ss.rand, rig->model_count)];
        int64_t around = m->max_timestamp + (int64_t)rand_below(&rig->ss.rand, 3) - 1;
        expect(rig, around < 0 ? 0 : around, end);
        expect(rig, (int64_t)rand_below(&rig->ss.rand, (uint64_t)last), m->next_offset);
        expect(rig, LOG_TIME_LARGEST, m->next_offset);
    }
}

/* C028 and C030, on the log itself. */
Test(log_times, c028_the_first_record_not_the_batch)
{
    static const int64_t first[] = {100, 200, 300, 400, 500};
    static const int64_t second[] = {150, 600};
    static const struct {
        int64_t asked;
        struct answer right;
    } rows[] = {
        {50, {0, 100}},
        {100, {0, 100}},
        {250, {2, 300}},
        {500, {4, 500}},
        {501, {6, 600}},
        {600, {6, 600}},
        {601, {-1, -1}}, /* C030 */
        {LOG_TIME_LARGEST, {6, 600}},
    };
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct log_rig *rig = rig_new(1, true);
        struct answer found;
        cr_assert(eq(int, ask(rig, 0, 0, &found), ERR_OK));
        cr_assert(eq(i64, found.offset, -1), "C030: an empty log");
        struct rig_batch b = {
            .timestamps = first, .records_count = 5, .codec = (enum batch_codec)codec};
        cr_assert(eq(int, log_rig_append_batch(rig, &b), ERR_OK));
        b = (struct rig_batch){
            .timestamps = second, .records_count = 2, .codec = (enum batch_codec)codec};
        cr_assert(eq(int, log_rig_append_batch(rig, &b), ERR_OK));
        log_rig_flush(rig);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            cr_assert(eq(int, ask(rig, rows[i].asked, 7, &found), ERR_OK));
            cr_assert(eq(i64, found.offset, rows[i].right.offset), "row=%zu", i);
            cr_assert(eq(i64, found.timestamp, rows[i].right.timestamp), "row=%zu", i);
        }
        rig_end(rig);
    }
}

Test(log_times, searches_agree_with_a_walk)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct log_rig *rig = rig_new(100 * seed, seed % 2 == 0);
        append_some(rig, 150);
        expect_many(rig, 30);
        log_rig_stop(rig);
        reopen(rig);
        expect_many(rig, 30);
        rig_end(rig);
    }
}

Test(log_times, searches_agree_with_a_walk_after_a_crash)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct log_rig *rig = rig_new(7000 + 100 * seed, false);
        append_some(rig, 100);
        (void)log_rig_append(rig, 3, 100, 5000);
        log_rig_crash(rig, NULL);
        reopen(rig);
        log_rig_expect_recovered(rig);
        expect_many(rig, 20);
        append_some(rig, 30);
        expect_many(rig, 20);
        rig_end(rig);
    }
}

/* What a cut removed answers nothing, and is not the largest. */
Test(log_times, searches_agree_with_a_walk_after_a_cut)
{
    for (uint64_t index = 1; index < 150; index += 7) {
        struct log_rig *rig = rig_new(9000 + 100 * index, index % 2 == 0);
        append_some(rig, 150);
        cr_assert(eq(int, log_rig_cut(rig, index), ERR_OK), "%s", rig->ss.log_text);
        if (rig->model_count > 0) {
            expect_many(rig, 10);
        }
        append_some(rig, 60);
        expect_many(rig, 20);
        rig_end(rig);
    }
}

/* The log start may stand in the middle of a segment and of a batch (DeleteRecords): what is below
 * it answers nothing, however late it is. */
Test(log_times, searches_agree_with_a_walk_from_the_log_start_on)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct log_rig *rig = rig_new(11000 + 100 * seed, seed % 2 == 0);
        append_some(rig, 40);
        /* The latest of all comes early. */
        cr_assert(eq(int, log_rig_append(rig, 5, 100, 1000000), ERR_OK));
        append_some(rig, 100);
        log_set_commit(rig->log, log_last_index(rig->log));
        while (log_start_offset(rig->log) < log_next_offset(rig->log)) {
            const int64_t start = log_start_offset(rig->log);
            const int64_t end = log_next_offset(rig->log);
            int64_t step = 1 + (int64_t)rand_below(&rig->ss.rand, 20);
            log_set_start(rig->log, start + step < end ? start + step : end);
            log_rig_settle(rig);
            expect(rig, LOG_TIME_LARGEST, end);
            expect(rig, 0, end);
            expect(rig, TIME_BASE + (int64_t)rand_below(&rig->ss.rand, 450), end);
        }
        rig_end(rig);
    }
}

/* The log start goes over the largest timestamp while it is searched for: the answer is that of
 * before or of after, never that there is none. */
Test(log_times, the_largest_goes_while_it_is_searched_for)
{
    for (int steps = 0; steps < 60; steps++) {
        struct log_rig *rig = rig_new(13000 + (uint64_t)steps, false);
        append_some(rig, 20);
        cr_assert(eq(int, log_rig_append(rig, 1, 100, 1000000), ERR_OK));
        append_some(rig, 100);
        const int64_t end = log_flushed_offset(rig->log);
        const struct answer before = expected(rig, LOG_TIME_LARGEST, end);
        struct query_wait w = {
            .query = {.timestamp = LOG_TIME_LARGEST, .end_offset = end, .on_done = on_done}};
        log_time_query_begin(rig->log, &w.query);
        for (int i = 0; i < steps && !w.is_done; i++) {
            (void)sim_shard_step(&rig->ss);
        }
        log_rig_set_start(rig, end - 50);
        cr_assert(lt(u64, 21, log_first_index(rig->log)));
        cr_assert(sim_shard_run_until(&rig->ss, &w.is_done));
        const struct answer after = expected(rig, LOG_TIME_LARGEST, end);
        const bool is_before = w.query.ret_offset == before.offset;
        cr_assert(eq(int, w.query.result, ERR_OK));
        cr_assert(is_before || w.query.ret_offset == after.offset,
                  "steps=%d offset=%jd",
                  steps,
                  w.query.ret_offset);
        rig_end(rig);
    }
}

Test(log_times, records_without_time_are_not_found)
{
    struct log_rig *rig = rig_new(3, true);
    static const int64_t none[] = {-1, -1, -1};
    const struct rig_batch b = {.timestamps = none, .records_count = 3};
    for (int i = 0; i < 50; i++) {
        cr_assert(eq(int, log_rig_append_batch(rig, &b), ERR_OK));
    }
    log_rig_flush(rig);
    expect(rig, 0, log_flushed_offset(rig->log));
    expect(rig, LOG_TIME_LARGEST, log_flushed_offset(rig->log));
    rig_end(rig);
}

/* ---- index files ---- */

struct index_file {
    char path[256];
    uint8_t *bytes;
    uint64_t size;
    struct segment_index_header header;
    struct segment_points points;
};

static void index_file_read(struct log_rig *rig, struct index_file *f)
{
    *f = (struct index_file){0};
    log_rig_path(1, ".index", f->path);
    cr_assert(eq(int, disk_sim_file_size(rig->disk, f->path, &f->size), ERR_OK));
    f->bytes = malloc(f->size);
    cr_assert(eq(int, disk_sim_peek(rig->disk, f->path, 0, f->bytes, f->size), ERR_OK));
    enum err e = segment_index_decode(slice_of(f->bytes, f->size), &f->header, &f->points);
    cr_assert(eq(int, e, ERR_OK));
    cr_assert(lt(u32, 4, f->points.count));
}

static void index_file_write(struct log_rig *rig, struct index_file *f)
{
    segment_index_encode(&f->header, &f->points, f->bytes);
    cr_assert(eq(int, disk_sim_damage(rig->disk, f->path, 0, f->bytes, f->size), ERR_OK));
    segment_points_done(&f->points);
    free(f->bytes);
}

/* No flipped bit of what a file says of times is believed. */
Test(log_times, damaged_times_are_made_anew)
{
    for (uint32_t at = 0; at < 8; at++) {
        struct log_rig *rig = rig_new(40 + at, false);
        append_some(rig, 120);
        log_rig_stop(rig);
        struct index_file f;
        index_file_read(rig, &f);
        const uint64_t pos = sizeof(struct segment_index_header) +
                             (at / 2) * sizeof(struct segment_point) +
                             offsetof(struct segment_point, max_timestamp);
        cr_assert(eq(int, disk_sim_flip_bit(rig->disk, f.path, pos + at % 2, 7), ERR_OK));
        segment_points_done(&f.points);
        free(f.bytes);
        reopen(rig);
        expect_many(rig, 20);
        cr_assert(ge(u64, log_stats(rig->log)->index_rebuilds, 1));
        rig_end(rig);
    }
}

/* Good checksums, wrong times. A stretch that is not as late as it says is found out when it is
 * looked at; what says that a segment is later or earlier than the log knows is not taken at all.
 */
Test(log_times, times_that_lie_are_made_anew)
{
    for (uint32_t row = 0; row < 4; row++) {
        struct log_rig *rig = rig_new(60 + row, false);
        append_some(rig, 120);
        log_rig_stop(rig);
        struct index_file f;
        index_file_read(rig, &f);
        for (uint32_t i = 0; i < f.points.count; i++) {
            if (row == 0) {
                f.points.all[i].max_timestamp = f.header.max_timestamp;
            }
        }
        if (row == 1) {
            f.points.all[2].max_timestamp = f.header.max_timestamp;
        }
        f.header.max_timestamp += row == 2 ? 1 : 0;
        f.header.generation += row == 3 ? 1 : 0;
        index_file_write(rig, &f);
        reopen(rig);
        expect(rig, expected(rig, LOG_TIME_LARGEST, 200).timestamp, 200);
        expect_many(rig, 20);
        cr_assert(ge(u64, log_stats(rig->log)->index_rebuilds, 1), "row=%u", row);
        cr_assert(eq(u64, log_stats(rig->log)->corrupt_reads, 0));
        rig_end(rig);
    }
}

/* A stretch that says less than it holds is found out by whoever reads it. */
Test(log_times, an_entry_later_than_its_stretch_exposes_the_index)
{
    struct log_rig *rig = rig_new(80, false);
    for (int i = 0; i < 120; i++) { /* The later, the later. */
        cr_assert(eq(int, log_rig_append(rig, 1, 300, 1000 + 10 * i), ERR_OK));
        if (i % 20 == 19) {
            log_rig_flush(rig);
        }
    }
    log_rig_flush(rig);
    log_rig_settle(rig);
    log_rig_stop(rig);
    struct index_file f;
    index_file_read(rig, &f);
    const int64_t asked = f.points.all[3].max_timestamp - 22;
    f.points.all[3].max_timestamp -= 21;
    index_file_write(rig, &f);
    reopen(rig);
    expect(rig, asked, log_flushed_offset(rig->log));
    cr_assert(
        eq(u64, log_stats(rig->log)->index_rebuilds, 1), "asked=%jd %s", asked, rig->ss.log_text);
    rig_end(rig);
}

/* A block that lost its write reads as zeros, which also stand behind the last entry of a segment:
 * a search that meets them in the middle must not take them for that and answer with what follows.
 */
Test(log_times, a_hole_of_zeros_is_no_end)
{
    for (uint64_t block = 1; block < 7; block++) {
        struct log_rig *rig = rig_new(200 + block, false);
        for (int i = 0; i < 60; i++) { /* A block each. */
            cr_assert(eq(int, log_rig_append(rig, 1, 500, 1000 + i), ERR_OK));
            log_rig_flush(rig);
        }
        log_rig_settle(rig);
        char path[256];
        static const uint8_t zeros[4096];
        log_rig_path(1, ".log", path);
        enum err e = disk_sim_damage(rig->disk, path, block * 4096, zeros, sizeof(zeros));
        cr_assert(eq(int, e, ERR_OK));
        struct answer found;
        const int64_t lost = 1000 + (int64_t)block - 1;
        e = ask(rig, lost, log_flushed_offset(rig->log), &found);
        cr_assert(eq(int, e, ERR_CORRUPT), "block=%ju found=%jd", (uintmax_t)block, found.offset);
        e = ask(rig, LOG_TIME_LARGEST, lost - 1000 + 1, &found);
        cr_assert(eq(int, e, ERR_CORRUPT));
        expect(rig, 1030, log_flushed_offset(rig->log));
        expect(rig, LOG_TIME_LARGEST, log_flushed_offset(rig->log));
        rig_end(rig);
    }
}

/* ---- what it costs ---- */

/* A segment is not walked for a time, wherever that stands in it; the largest timestamp costs
 * nothing but the answer. */
Test(log_times, a_search_reads_little)
{
    struct log_rig *rig = rig_new(5, false);
    log_rig_stop(rig);
    rig->options.segment_size_max = 4 << 20;
    rig->options.fill_step_max = 1 << 20;
    rig->options.index_interval = 64 << 10;
    reopen(rig);
    for (int i = 0; i < 3000; i++) {
        enum err e = log_rig_append(rig, 2, 1000, 1000 + i);
        log_rig_flush(rig);
        cr_assert(eq(int, e, ERR_OK));
    }
    log_rig_settle(rig);
    cr_assert(lt(u64, 6 << 20, log_size(rig->log)));
    for (int64_t timestamp = 1000; timestamp < 4100; timestamp += 250) {
        uint64_t before = log_stats(rig->log)->disk_read_bytes;
        struct answer found;
        cr_assert(eq(int, ask(rig, timestamp, log_flushed_offset(rig->log), &found), ERR_OK));
        cr_assert(le(u64, log_stats(rig->log)->disk_read_bytes - before, 2 * WINDOW_SIZE));
    }
    for (int64_t end = 2000; end <= 6000; end += 500) {
        uint64_t before = log_stats(rig->log)->disk_read_bytes;
        struct answer found;
        cr_assert(eq(int, ask(rig, LOG_TIME_LARGEST, end, &found), ERR_OK));
        cr_assert(eq(i64, found.timestamp, 1000 + end / 2));
        cr_assert(le(u64, log_stats(rig->log)->disk_read_bytes - before, 4 * WINDOW_SIZE));
    }
    rig_end(rig);
}

/* ---- descriptors ---- */

/* Searches that need the indexes of many segments at once load a few at a time. */
Test(log_times, index_files_are_opened_a_few_at_a_time)
{
    enum { SEARCHES = 40 };
    struct log_rig *rig = rig_new(6, false);
    for (uint32_t i = 0; i < SEARCHES * 45; i++) {
        cr_assert(eq(int, log_rig_append(rig, 1, 600, 1000 + i), ERR_OK));
        log_rig_flush(rig);
    }
    log_rig_settle(rig);
    cr_assert(lt(u64, SEARCHES, log_stats(rig->log)->rolls));
    const uint32_t others =
        disk_sim_open_count(rig->disk) - (uint32_t)log_shared_stats(rig->shared)->files_open;
    struct query_wait waits[SEARCHES];
    for (uint32_t i = 0; i < SEARCHES; i++) {
        waits[i] = (struct query_wait){.query = {.timestamp = 1000 + 45 * i,
                                                 .end_offset = log_flushed_offset(rig->log),
                                                 .on_done = on_done}};
        log_time_query_begin(rig->log, &waits[i].query);
    }
    uint32_t indexes_max = 0;
    uint32_t done_count = 0;
    while (done_count < SEARCHES && sim_shard_step(&rig->ss)) {
        const uint64_t files = log_shared_stats(rig->shared)->files_open;
        const uint32_t open = disk_sim_open_count(rig->disk);
        const uint32_t indexes = open - others > files ? open - others - (uint32_t)files : 0;
        indexes_max = files == 0 && indexes > indexes_max ? indexes : indexes_max;
        done_count = 0;
        for (uint32_t i = 0; i < SEARCHES; i++) {
            done_count += waits[i].is_done;
        }
    }
    for (uint32_t i = 0; i < SEARCHES; i++) {
        cr_assert(waits[i].is_done);
        cr_assert(eq(i64, waits[i].query.ret_timestamp, 1000 + 45 * i));
    }
    cr_assert(le(u32, indexes_max, 8), "%u at once", indexes_max);
    rig_end(rig);
}

/* Without a descriptor an index waits for one; to walk the segment instead would take one, too. */
Test(log_times, without_a_descriptor_an_index_waits)
{
    for (uint32_t at = 1; at < 4; at++) {
        struct log_rig *rig = rig_new(90 + at, false);
        append_some(rig, 120);
        io_fault_add(&rig->ss.io_fault,
                     &(struct io_fault_rule){
                         .kind = IO_OPEN,
                         .fd = IO_FAULT_ANY,
                         .path_part = ".index",
                         .at = at,
                         .count = 5,
                         .action = IO_FAULT_FAIL,
                         .code = EMFILE,
                     });
        expect_many(rig, 10);
        cr_assert(eq(u64, log_stats(rig->log)->index_rebuilds, 0));
        rig_end(rig);
    }
}
