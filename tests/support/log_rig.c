#include "tests/support/log_rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/rbuf.h"
#include "storage/batch.h"

static const char DIR[] = "/data";
static const struct partition_id ID = {.topic_id = {.bytes = {1, 2, 3, 4, 5, 6, 7, 8}}};

const struct log_options RIG_OPTIONS_TINY = {
    .segment_size_max = 64 << 10,
    .fill_step_min = 8 << 10,
    .fill_step_max = 32 << 10,
    .index_interval = 4 << 10,
    .index_size_max = 1 << 20,
    .segment_age_ms_max = INT64_MAX,
};

struct partition_id log_rig_id(void)
{
    return ID;
}

void log_rig_path(uint64_t base_index, const char *suffix, char path[256])
{
    char topic[UUID_TEXT_SIZE];
    uuid_format(&ID.topic_id, topic);
    (void)snprintf(
        path, 256, "%s/logs/%s-0/%020llu%s", DIR, topic, (unsigned long long)base_index, suffix);
}

/* ---- callbacks ---- */

static void on_flushed(void *context, uint64_t index)
{
    struct log_rig *rig = context;
    cr_assert(lt(u64, rig->flushed_index, index));
    cr_assert(eq(u64, index, log_flushed_index(rig->log)));
    rig->flushed_index = index;
    if (index > rig->acked_index) {
        rig->acked_index = index;
    }
}

static void on_room(void *context)
{
    struct log_rig *rig = context;
    rig->rooms_count++;
}

static void on_failed(void *context, enum err e)
{
    struct log_rig *rig = context;
    cr_assert(eq(int, rig->failure, ERR_OK), "told once");
    rig->failure = e;
}

static void entry_done(struct rig_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(entries[i].payload);
    }
}

static struct rig_entry *push(struct rig_entry **all, size_t *count, size_t *capacity)
{
    if (*count == *capacity) {
        *capacity = *capacity == 0 ? 64 : *capacity * 2;
        *all = realloc(*all, *capacity * sizeof(**all));
        assert(*all != NULL);
    }
    return &(*all)[(*count)++];
}

static enum err on_replay(void *context, const struct log_entry *entry)
{
    struct log_rig *rig = context;
    struct rig_entry *e = push(&rig->replayed, &rig->replayed_count, &rig->replayed_capacity);
    *e = (struct rig_entry){
        .type = entry->type,
        .index = entry->index,
        .term = entry->term,
        .base_offset = entry->base_offset,
        .next_offset = entry->next_offset,
        .max_timestamp = entry->max_timestamp,
        .payload = malloc(entry->payload.size + 1),
        .payload_size = entry->payload.size,
    };
    if (entry->payload.size > 0) {
        memcpy(e->payload, entry->payload.data, entry->payload.size);
    }
    return ERR_OK;
}

/* The owner's state: a checksum of all entries up to an index. */
static uint64_t state_of(const struct log_rig *rig, uint64_t index)
{
    uint64_t state = 0;
    for (uint64_t i = 0; i < index; i++) {
        const struct rig_entry *e = &rig->model[i];
        state = hash_bytes(state + e->index, e->payload, e->payload_size);
    }
    return state;
}

static void on_checkpoint(void *context, struct wbuf *out)
{
    struct log_rig *rig = context;
    cr_assert(eq(u64, log_last_index(rig->log), rig->model_count), "not between two appends");
    wbuf_u64(out, state_of(rig, rig->model_count));
    for (size_t size = rand_below(&rig->ss.rand, rig->state_size_max + 1); size > 0; size--) {
        wbuf_i8(out, (int8_t)size);
    }
}

static enum err on_restore(void *context, struct slice state, uint64_t index)
{
    struct log_rig *rig = context;
    cr_assert(eq(sz, rig->replayed_count, 0));
    cr_assert(eq(u64, rig->restored_index, 0));
    cr_assert(le(u64, index, rig->model_count));
    struct rbuf r = rbuf_over(state.data, state.size);
    cr_assert(eq(u64, rbuf_u64(&r), state_of(rig, index)));
    rig->restored_index = index;
    return ERR_OK;
}

static void on_opened(void *context, enum err e)
{
    struct log_rig *rig = context;
    rig->is_opened = true;
    rig->open_result = e;
}

static const struct log_callbacks CALLBACKS = {
    .on_flushed = on_flushed,
    .on_room = on_room,
    .on_failed = on_failed,
    .on_replay = on_replay,
    .on_checkpoint = on_checkpoint,
    .on_restore = on_restore,
    .on_opened = on_opened,
};

static void on_store_opened(void *context, enum err e, struct store *st)
{
    struct log_rig *rig = context;
    rig->is_store_opened = true;
    rig->store_result = e;
    rig->store = st;
}

static void on_flusher_failed(void *context, enum err e)
{
    struct log_rig *rig = context;
    if (rig->shared != NULL) {
        log_shared_fail(rig->shared, e);
    }
}

/* ---- life ---- */

void log_rig_init(struct log_rig *rig, uint64_t seed)
{
    memset(rig, 0, sizeof(*rig));
    rig->disk = sim_disk_new();
    rig->options = RIG_OPTIONS_TINY;
    rig->shared_options = LOG_SHARED_OPTIONS_DEFAULT;
    rig->shared_options.files_idle_us = 0; /* Its timer would be what a rig at rest waits for. */
    rig->seed = seed;
    rig->term = 1;
}

void log_rig_done(struct log_rig *rig)
{
    entry_done(rig->model, rig->model_count);
    entry_done(rig->replayed, rig->replayed_count);
    free(rig->model);
    free(rig->replayed);
    disk_sim_free(rig->disk);
}

static void make_dir(struct log_rig *rig)
{
    struct io_op op = {.kind = IO_MKDIR, .path = DIR};
    enum err e = io_call(&rig->ss.s->io, &op);
    assert(e == ERR_OK || e == ERR_EXISTS);
    op = (struct io_op){.kind = IO_FSYNC_DIR, .path = "/"};
    (void)io_call(&rig->ss.s->io, &op);
}

/* ---- decoy ---- */

static struct log_rig *rig_of_decoy(struct flush_client *c)
{
    return (struct log_rig *)((char *)c - offsetof(struct log_rig, decoy.client));
}

static void on_decoy_written(struct io_op *op)
{
    struct log_rig *rig = (struct log_rig *)((char *)op - offsetof(struct log_rig, decoy.op));
    flusher_write_done(rig->flusher, op->result);
}

static void decoy_write(struct flush_client *c)
{
    struct log_rig *rig = rig_of_decoy(c);
    rig->decoy.op = (struct io_op){
        .kind = IO_WRITE,
        .fd = rig->decoy.fd,
        .buf = rig->decoy.block->data,
        .size = IO_ALIGN,
        .on_done = on_decoy_written,
    };
    flusher_write_started(rig->flusher, rig->decoy.fd);
    io_submit(&rig->ss.s->io, &rig->decoy.op);
}

static void decoy_flushed(struct flush_client *c)
{
    struct log_rig *rig = rig_of_decoy(c);
    if (rig->log != NULL && log_flushed_index(rig->log) < log_last_index(rig->log)) {
        flusher_ask(rig->flusher, c);
    }
}

static void decoy_start(struct log_rig *rig)
{
    static const struct flush_client_ops ops = {.write = decoy_write, .on_flushed = decoy_flushed};
    struct io *io = &rig->ss.s->io;
    flush_client_init(&rig->decoy.client, &ops);
    rig->decoy.block = buf_alloc(rig->ss.s->bufs, IO_ALIGN, BUF_RESERVED);
    memset(rig->decoy.block->data, 1, IO_ALIGN);
    struct io_op op = {
        .kind = IO_OPEN,
        .path = "/data/decoy",
        .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_DIRECT,
    };
    enum err e = io_call(io, &op);
    assert(e == ERR_OK);
    rig->decoy.fd = op.result_fd;
    op = (struct io_op){
        .kind = IO_WRITE, .fd = rig->decoy.fd, .buf = rig->decoy.block->data, .size = IO_ALIGN};
    e = io_call(io, &op);
    assert(e == ERR_OK);
    op = (struct io_op){.kind = IO_FSYNC, .fd = rig->decoy.fd};
    e = io_call(io, &op);
    assert(e == ERR_OK);
}

static void decoy_stop(struct log_rig *rig)
{
    struct io_op op = {.kind = IO_CLOSE, .fd = rig->decoy.fd};
    (void)io_call(&rig->ss.s->io, &op);
    buf_unref(rig->decoy.block);
}

void log_rig_start(struct log_rig *rig)
{
    sim_shard_init(&rig->ss, rig->disk, ++rig->seed);
    make_dir(rig);
    enum err e = flusher_new(rig->ss.s,
                             &(struct flusher_options){
                                 .is_shared = true, .context = rig, .on_failed = on_flusher_failed},
                             &rig->flusher);
    assert(e == ERR_OK);
    if (rig->has_decoy) {
        decoy_start(rig);
    }
    rig->is_store_opened = false;
    rig->shared = NULL;
    rig->store = NULL;
    e = store_open_begin(rig->ss.s,
                         &(struct store_open){
                             .dir = DIR,
                             .flusher = rig->flusher,
                             .context = rig,
                             .on_opened = on_store_opened,
                         });
    assert(e == ERR_OK);
    bool is_opened = sim_shard_run_until(&rig->ss, &rig->is_store_opened);
    cr_assert(is_opened);
    cr_assert(eq(int, rig->store_result, ERR_OK), "store: %s", rig->ss.log_text);
    e = log_shared_new(rig->ss.s, rig->store, &rig->shared_options, &rig->shared);
    assert(e == ERR_OK);
    rig->env = (struct log_env){
        .s = rig->ss.s,
        .dir = DIR,

        .store = rig->store,
        .flusher = rig->flusher,
        .shared = rig->shared,
    };
    if (rig->has_recycling) {
        e = log_shared_recycle(&rig->env);
        assert(e == ERR_OK);
    }
}

void log_rig_open_begin(struct log_rig *rig)
{
    entry_done(rig->replayed, rig->replayed_count);
    rig->replayed_count = 0;
    rig->restored_index = 0;
    rig->is_opened = false;
    rig->failure = ERR_OK;
    rig->callbacks = CALLBACKS;
    rig->callbacks.is_last_of_producer = rig->is_last_of_producer;
    enum err e = log_open(
        &(struct log_open){
            .env = &rig->env,
            .id = ID,
            .name = "topic-0",
            .options = rig->options,
            .tier = rig->tier,
            .callbacks = &rig->callbacks,
            .context = rig,
            .is_replay_strict = rig->is_replay_strict,
            .is_all_read = rig->is_all_read,
            .accepts_loss = rig->accepts_loss,
        },
        &rig->log);
    assert(e == ERR_OK);
    if (rig->has_compaction) {
        log_set_compaction(rig->log, &rig->compaction);
    }
}

enum err log_rig_open(struct log_rig *rig)
{
    log_rig_open_begin(rig);
    bool is_opened = sim_shard_run_until(&rig->ss, &rig->is_opened);
    cr_assert(is_opened, "%s", rig->ss.log_text);
    if (rig->open_result != ERR_OK) {
        rig->log = NULL;
        return rig->open_result;
    }
    rig->flushed_index = log_flushed_index(rig->log);
    return ERR_OK;
}

static void on_closed(void *context)
{
    struct log_rig *rig = context;
    rig->is_closed = true;
}

void log_rig_stop(struct log_rig *rig)
{
    if (rig->log != NULL) {
        rig->is_closed = false;
        log_close(rig->log, rig, on_closed);
        bool is_closed = sim_shard_run_until(&rig->ss, &rig->is_closed);
        cr_assert(is_closed, "%s", rig->ss.log_text);
        rig->log = NULL;
    }
    while (log_shared_is_busy(rig->shared)) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    log_shared_free(rig->shared);
    rig->shared = NULL;
    if (!flusher_is_failed(rig->flusher)) {
        sim_shard_settle(&rig->ss);
    }
    while (rig->ss.s->io.in_flight_count > 0 && sim_shard_step(&rig->ss)) {
    }
    store_free(rig->store);
    sim_shard_settle(&rig->ss);
    if (rig->has_decoy) {
        decoy_stop(rig);
    }
    flusher_free(rig->flusher);
    sim_shard_done(&rig->ss);
}

static void on_deleted(void *context, enum err e)
{
    struct log_rig *rig = context;
    rig->is_closed = true;
    rig->delete_result = e;
}

void log_rig_delete(struct log_rig *rig)
{
    rig->is_closed = false;
    log_delete(rig->log, rig, on_deleted);
    bool is_deleted = sim_shard_run_until(&rig->ss, &rig->is_closed);
    cr_assert(is_deleted, "%s", rig->ss.log_text);
    rig->log = NULL;
}

void log_rig_crash(struct log_rig *rig, const struct disk_sim_crash *how)
{
    sim_shard_crash(&rig->ss, how);
    rig->log = NULL;
}

static void count_value(void *context, uint64_t sub, struct slice value)
{
    (void)sub;
    (void)value;
    (*(size_t *)context)++;
}

size_t log_rig_store_count(const struct log_rig *rig)
{
    static const enum store_kind kinds[] = {
        STORE_DURABLE, STORE_SEGMENT, STORE_CUT, STORE_CHECKPOINT};
    size_t count = 0;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        store_each(rig->store, &ID, kinds[k], &count, count_value);
    }
    return count;
}

/* ---- work ---- */

static enum err append(struct log_rig *rig, const struct log_entry *entry)
{
    if (rig->has_decoy) {
        flusher_ask(rig->flusher, &rig->decoy.client);
    }
    uint64_t index;
    enum err e = log_append(rig->log, entry, &index);
    if (e != ERR_OK) {
        return e;
    }
    cr_assert(eq(u64, index, log_last_index(rig->log)));
    struct rig_entry *m = push(&rig->model, &rig->model_count, &rig->model_capacity);
    *m = (struct rig_entry){
        .type = entry->type,
        .index = index,
        .term = entry->term,
        .base_offset = entry->base_offset,
        .next_offset = entry->next_offset,
        .max_timestamp = entry->max_timestamp,
        .payload_size = entry->payload.size + entry->payload_rest.size,
    };
    m->payload = malloc(m->payload_size + 1);
    memcpy(m->payload, entry->payload.data, entry->payload.size);
    if (entry->payload_rest.size > 0) {
        memcpy(
            m->payload + entry->payload.size, entry->payload_rest.data, entry->payload_rest.size);
    }
    cr_assert(eq(u64, index, rig->model_count));
    return ERR_OK;
}

enum err log_rig_append_bytes(struct log_rig *rig, struct slice batch)
{
    struct batch_header h;
    enum err e = batch_header_decode(batch, &h);
    assert(e == ERR_OK);
    int64_t base_offset = log_next_offset(rig->log);
    uint8_t head[BATCH_HEAD_SIZE];
    memcpy(head, batch.data, sizeof(head));
    batch_stamp(head, base_offset, (int32_t)rig->term);
    const struct log_entry entry = {
        .type = ENTRY_DATA,
        .term = rig->term,
        .base_offset = base_offset,
        .next_offset = base_offset + h.last_offset_delta + 1,
        .max_timestamp = h.max_timestamp,
        .payload = slice_of(head, sizeof(head)),
        .payload_rest = slice_of(batch.data + sizeof(head), batch.size - sizeof(head)),
    };
    return append(rig, &entry);
}

static void build(struct log_rig *rig, const struct rig_batch *batch, struct wbuf *w)
{
    uint8_t *value = malloc(batch->value_size + 1);
    rand_bytes(&rig->ss.rand, value, batch->value_size);
    struct batch_builder b;
    batch_builder_init(&b, 64 << 20);
    enum err e = ERR_OK;
    for (uint32_t i = 0; i < batch->records_count && e == ERR_OK; i++) {
        e = batch_builder_add(&b,
                              &(struct batch_record){
                                  .timestamp = batch->timestamps[i],
                                  .key = slice_of_string("key"),
                                  .value = slice_of(value, batch->value_size),
                              });
    }
    assert(e == ERR_OK);
    wbuf_init(w, 64 << 20);
    e = batch_builder_finish(&b, batch->codec, NULL, w);
    assert(e == ERR_OK);
    batch_builder_done(&b);
    free(value);
}

enum err log_rig_append_batch(struct log_rig *rig, const struct rig_batch *batch)
{
    struct wbuf w;
    build(rig, batch, &w);
    enum err e = log_rig_append_bytes(rig, wbuf_slice(&w));
    wbuf_done(&w);
    return e;
}

enum err log_rig_append(struct log_rig *rig, uint32_t records_count, size_t value_size, int64_t ts)
{
    int64_t *timestamps = malloc((records_count + 1) * sizeof(timestamps[0]));
    for (uint32_t i = 0; i < records_count; i++) {
        timestamps[i] = ts + i;
    }
    enum err e = log_rig_append_batch(rig,
                                      &(struct rig_batch){
                                          .timestamps = timestamps,
                                          .records_count = records_count,
                                          .value_size = value_size,
                                      });
    free(timestamps);
    return e;
}

enum err log_rig_append_other(struct log_rig *rig, enum entry_type type, size_t size)
{
    uint8_t *payload = malloc(size + 1);
    rand_bytes(&rig->ss.rand, payload, size);
    int64_t offset = log_next_offset(rig->log);
    const struct log_entry entry = {
        .type = type,
        .term = rig->term,
        .base_offset = offset,
        .next_offset = offset,
        .max_timestamp = -1,
        .payload = slice_of(payload, size),
    };
    enum err e = append(rig, &entry);
    free(payload);
    return e;
}

void log_rig_flush(struct log_rig *rig)
{
    while (rig->failure == ERR_OK && log_flushed_index(rig->log) < log_last_index(rig->log) &&
           sim_shard_step(&rig->ss)) {
    }
}

void log_rig_settle(struct log_rig *rig)
{
    sim_shard_settle(&rig->ss);
}

struct cut_wait {
    struct log_cut cut;
    bool is_done;
};

static void on_cut(struct log_cut *c)
{
    container_of(c, struct cut_wait, cut)->is_done = true;
}

enum err log_rig_cut(struct log_rig *rig, uint64_t index)
{
    struct cut_wait w = {.cut = {.index = index, .on_cut = on_cut}};
    log_cut_begin(rig->log, &w.cut);
    bool is_done = sim_shard_run_until(&rig->ss, &w.is_done);
    cr_assert(is_done, "%s", rig->ss.log_text);
    if (w.cut.result == ERR_OK) {
        log_rig_model_cut(rig, index);
        rig->flushed_index = log_flushed_index(rig->log);
    }
    return w.cut.result;
}

void log_rig_model_cut(struct log_rig *rig, uint64_t index)
{
    while (rig->model_count > 0 && rig->model[rig->model_count - 1].index >= index) {
        free(rig->model[--rig->model_count].payload);
    }
    if (rig->acked_index > rig->model_count) {
        rig->acked_index = rig->model_count;
    }
}

void log_rig_set_start(struct log_rig *rig, int64_t offset)
{
    log_set_commit(rig->log, log_flushed_index(rig->log));
    log_set_start(rig->log, offset);
    cr_assert(eq(i64, log_start_offset(rig->log), offset));
}

struct read_wait {
    struct log_read read;
    bool is_done;
};

static void on_read(struct log_read *r)
{
    container_of(r, struct read_wait, read)->is_done = true;
}

enum err log_rig_read(struct log_rig *rig,
                      int64_t offset,
                      int64_t end_offset,
                      uint8_t *dst,
                      size_t dst_size,
                      size_t *ret_size)
{
    struct read_wait w = {
        .read =
            {
                .offset = offset,
                .end_offset = end_offset,
                .dst = dst,
                .dst_size = dst_size,
                .on_done = on_read,
            },
    };
    log_read_begin(rig->log, &w.read);
    cr_assert(not(w.is_done), "never inside the call");
    bool is_done = sim_shard_run_until(&rig->ss, &w.is_done);
    cr_assert(is_done, "%s", rig->ss.log_text);
    *ret_size = w.read.result == ERR_TOO_LARGE ? w.read.size_needed : w.read.size;
    return w.read.result;
}

/* ---- expectations ---- */

static void expect_same(const struct rig_entry *a, const struct rig_entry *b)
{
    cr_assert(eq(u64, a->index, b->index));
    cr_assert(eq(int, (int)a->type, (int)b->type), "index=%llu", (unsigned long long)a->index);
    cr_assert(eq(u64, a->term, b->term));
    cr_assert(eq(i64, a->base_offset, b->base_offset));
    cr_assert(eq(i64, a->next_offset, b->next_offset));
    cr_assert(eq(i64, a->max_timestamp, b->max_timestamp));
    cr_assert(eq(sz, a->payload_size, b->payload_size));
    cr_assert(memcmp(a->payload, b->payload, a->payload_size) == 0,
              "index=%llu",
              (unsigned long long)a->index);
}

/* The end of each term, and the largest term up to it. */
static void expect_terms(const struct log_rig *rig)
{
    uint64_t expected_term = 0;
    int64_t expected_offset = 0;
    size_t at = 0;
    for (uint64_t term = 1; term <= rig->term; term++) {
        for (; at < rig->model_count && rig->model[at].term <= term; at++) {
            expected_term = rig->model[at].term;
            expected_offset = rig->model[at].next_offset;
        }
        uint64_t found_term = 0;
        int64_t found_offset = 0;
        bool is_found = log_term_end(rig->log, term, &found_term, &found_offset);
        cr_assert(eq(int, is_found, expected_term != 0));
        cr_assert(eq(u64, found_term, expected_term));
        cr_assert(eq(i64, found_offset, expected_offset));
    }
}

void log_rig_expect_recovered(struct log_rig *rig)
{
    uint64_t last_index = log_last_index(rig->log);
    cr_assert(ge(u64, last_index, rig->acked_index), "acknowledged is lost\n%s", rig->ss.log_text);
    cr_assert(le(u64, last_index, rig->model_count), "more than was appended");
    cr_assert(eq(u64, rig->restored_index, log_checkpoint_index(rig->log)));
    const uint64_t first_index = log_first_index(rig->log);
    const uint64_t skipped =
        rig->restored_index >= first_index ? rig->restored_index : first_index - 1;
    cr_assert(eq(u64, skipped + rig->replayed_count, last_index));
    for (size_t i = 0; i < rig->replayed_count; i++) {
        expect_same(&rig->model[skipped + i], &rig->replayed[i]);
    }
    cr_assert(eq(u64, log_flushed_index(rig->log), last_index));
    log_rig_model_cut(rig, last_index + 1);
    rig->acked_index = last_index; /* Opening reported it as flushed. */
    int64_t next_offset = last_index == 0 ? 0 : rig->model[last_index - 1].next_offset;
    cr_assert(eq(i64, log_next_offset(rig->log), next_offset));
    cr_assert(eq(i64, log_flushed_offset(rig->log), next_offset));
    if (last_index > 0) {
        cr_assert(eq(u64, log_last_term(rig->log), rig->model[last_index - 1].term));
    }
    if (first_index == 1) {
        expect_terms(rig);
    }
}

void log_rig_expect_readable(struct log_rig *rig, size_t piece_size)
{
    uint8_t *piece = malloc(piece_size);
    int64_t offset = log_start_offset(rig->log);
    int64_t end_offset = log_flushed_offset(rig->log);
    size_t at = 0;
    while (offset < end_offset) {
        size_t size;
        enum err e = log_rig_read(rig, offset, end_offset, piece, piece_size, &size);
        if (e == ERR_TOO_LARGE) {
            cr_assert(lt(sz, piece_size, size));
            piece_size = size;
            piece = realloc(piece, piece_size);
            continue;
        }
        cr_assert(eq(int, e, ERR_OK), "offset=%lld\n%s", (long long)offset, rig->ss.log_text);
        cr_assert(lt(sz, 0, size), "offset=%lld", (long long)offset);
        for (size_t done = 0; done < size;) {
            while (rig->model[at].type != ENTRY_DATA || rig->model[at].next_offset <= offset) {
                at++;
            }
            const struct rig_entry *m = &rig->model[at++];
            cr_assert(le(i64, m->base_offset, offset)); /* Less at a log start inside a batch. */
            cr_assert(le(sz, m->payload_size, size - done));
            cr_assert(memcmp(piece + done, m->payload, m->payload_size) == 0,
                      "offset=%lld",
                      (long long)offset);
            done += m->payload_size;
            offset = m->next_offset;
        }
    }
    cr_assert(eq(i64, offset, end_offset));
    free(piece);
}
