#include "perf/bench/replay.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    RECORD_OVERHEAD = 12, /* About what a record takes beside key and value. */
    BATCH_SIZE_MAX = 128 << 20,
};

/* Where the values lie, so that they can be stamped again. */
static enum err find_values(struct replay_batch *b)
{
    const struct slice records = batch_records_part(wbuf_slice(&b->bytes));
    const size_t count = (size_t)b->header.records_count;
    b->value_pos = calloc(count, sizeof(*b->value_pos));
    b->value_size = calloc(count, sizeof(*b->value_size));
    if (b->value_pos == NULL || b->value_size == NULL) {
        return ERR_BUSY;
    }
    struct record_cursor cursor;
    record_cursor_init(&cursor, &b->header, records);
    for (size_t i = 0; i < count; i++) {
        struct record record;
        enum err e = record_next(&cursor, &record);
        assert(e == ERR_OK);
        b->value_pos[i] = (uint32_t)(record.value.data - b->bytes.data);
        b->value_size[i] = (uint32_t)record.value.size;
    }
    return ERR_OK;
}

static enum err fill(struct batch_builder *builder, const struct replay *r, struct workload *w)
{
    enum err e = ERR_OK;
    for (int32_t i = 0; e == ERR_OK && i < r->records_count; i++) {
        struct client_message m;
        workload_next(w, 0, &m);
        const struct batch_record record = {.key = m.key, .value = m.value};
        e = batch_builder_add(builder, &record);
    }
    return e;
}

static enum err
encode(struct replay_batch *b, const struct replay *r, const struct replay_options *options)
{
    const struct batch_identity nobody = {-1, -1, -1};
    struct batch_builder builder;
    batch_builder_init(&builder, BATCH_SIZE_MAX);
    enum err e = fill(&builder, r, options->workload);
    if (e == ERR_OK) {
        e = batch_builder_finish(&builder, (enum batch_codec)options->codec, &nobody, &b->bytes);
    }
    batch_builder_done(&builder);
    if (e == ERR_OK) {
        e = batch_header_decode(wbuf_slice(&b->bytes), &b->header);
        assert(e == ERR_OK);
    }
    return e == ERR_OK && options->codec == CLIENT_CODEC_NONE ? find_values(b) : e;
}

enum err replay_init(struct replay *r, const struct replay_options *options)
{
    const struct workload_options *o = &options->workload->options;
    *r = (struct replay){.run_id = o->run_id};
    const uint32_t key_size = o->keys == WORKLOAD_KEYS_NONE ? 0 : o->key_size;
    r->record_size = ((double)o->value_size_min + o->value_size_max) / 2 + key_size;
    const double count = (double)options->batch_size / (r->record_size + RECORD_OVERHEAD);
    r->records_count = count < 1 ? 1 : (int32_t)count;
    const double size = r->record_size * r->records_count;
    size_t wanted = (size_t)(REPLAY_SIZE_MAX / (size + 1));
    wanted = wanted < 1 ? 1 : wanted > REPLAY_BATCHES_MAX ? REPLAY_BATCHES_MAX : wanted;
    enum err e = ERR_OK;
    while (e == ERR_OK && r->batches_count < wanted) {
        struct replay_batch *b = &r->batches[r->batches_count++];
        wbuf_init(&b->bytes, BATCH_SIZE_MAX);
        e = encode(b, r, options);
    }
    return e;
}

void replay_done(struct replay *r)
{
    for (size_t i = 0; i < r->batches_count; i++) {
        wbuf_done(&r->batches[i].bytes);
        free(r->batches[i].value_pos);
        free(r->batches[i].value_size);
    }
    r->batches_count = 0;
}

static void stamp(struct replay_batch *b, uint64_t run_id, uint64_t due_us)
{
    for (int32_t i = 0; i < b->header.records_count; i++) {
        workload_stamp(b->bytes.data + b->value_pos[i], b->value_size[i], run_id, due_us);
    }
}

/* The CRC covers stamps and timestamps. Those of the records are relative to the batch's, by
 * nothing here. */
struct slice replay_next(struct replay *r, uint64_t due_us, int64_t wall_ms)
{
    struct replay_batch *b = &r->batches[r->next];
    r->next = (r->next + 1) % r->batches_count;
    if (b->value_pos != NULL) {
        stamp(b, r->run_id, due_us);
    }
    b->header.base_timestamp = wall_ms;
    b->header.max_timestamp = wall_ms;
    batch_header_encode(&b->header, batch_records_part(wbuf_slice(&b->bytes)), b->bytes.data);
    return wbuf_slice(&b->bytes);
}
