#include "tests/sim/batches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"

enum {
    BATCH_SIZE_MAX = 8 << 20,
    VALUE_SIZE_MAX = 64 << 10,
};

static int64_t draw_timestamp(struct sim *sim, int64_t wall_ms)
{
    const uint32_t spread_ms = sim->swarm.timestamp_spread_ms;
    if (sim_chance(sim, sim->swarm.timestamp_none_percent)) {
        return -1;
    }
    return wall_ms + (int64_t)rand_below(&sim->rand, spread_ms) - spread_ms / 2;
}

static enum batch_codec draw_codec(struct sim *sim, bool is_zstd_allowed)
{
    const uint64_t last = is_zstd_allowed ? CODEC_ZSTD : CODEC_LZ4;
    return sim_chance(sim, sim->swarm.compressed_percent)
               ? (enum batch_codec)sim_between(sim, CODEC_GZIP, last)
               : CODEC_NONE;
}

/* Into made; the batch's own numbers and what its records are, but for their count. */
static void finish(struct sim *sim,
                   struct batch_builder *builder,
                   const struct batch_wish *wish,
                   int16_t attributes,
                   struct made_batch *made)
{
    struct wbuf w;
    wbuf_init(&w, BATCH_SIZE_MAX);
    const bool is_control = (attributes & BATCH_CONTROL) != 0;
    const enum batch_codec codec = is_control ? CODEC_NONE : draw_codec(sim, wish->is_zstd_allowed);
    enum err e = batch_builder_finish(builder, codec, &wish->identity, &w);
    sim_check(sim, e == ERR_OK, "batch_builder_finish: %s", err_name(e));
    if (attributes != 0) {
        struct batch_header h;
        e = batch_header_decode(wbuf_slice(&w), &h);
        sim_check(sim, e == ERR_OK, "batch_header_decode: %s", err_name(e));
        h.attributes |= attributes;
        batch_header_encode(&h, batch_records_part(wbuf_slice(&w)), w.data);
    }
    made->bytes = wbuf_take(&w, &made->size);
    batch_builder_done(builder);
}

/* Room for count records. */
static struct made_batch made_new(int32_t count, bool has_keys)
{
    struct made_batch made = {.records_count = count, .max_timestamp = -1};
    made.timestamps = malloc((size_t)count * sizeof(made.timestamps[0]));
    assert(made.timestamps != NULL);
    if (has_keys) {
        made.records = malloc((size_t)count * sizeof(made.records[0]));
        assert(made.records != NULL);
    }
    return made;
}

static void add(struct sim *sim,
                struct batch_builder *builder,
                const struct batch_record *record,
                struct made_batch *made)
{
    made->timestamps[builder->records_count] = record->timestamp;
    if (record->timestamp > made->max_timestamp) {
        made->max_timestamp = record->timestamp;
    }
    enum err e = batch_builder_add(builder, record);
    sim_check(sim, e == ERR_OK, "batch_builder_add: %s", err_name(e));
}

enum {
    KEY_SIZE_MAX = 64,
};

static struct made_record draw_record(struct sim *sim, const struct batch_wish *wish)
{
    /* Some come all the time; the others stay where they are for long. */
    const uint32_t count =
        wish->keys_count > 2 && rand_one_in(&sim->rand, 2) ? 2 : wish->keys_count;
    return (struct made_record){
        .key = (uint32_t)rand_below(&sim->rand, count),
        .is_tombstone = sim_chance(sim, sim->swarm.tombstone_percent),
    };
}

struct made_batch batch_make(struct sim *sim, const struct batch_wish *wish)
{
    struct made_batch made = made_new(wish->records_count, wish->keys_count > 0);
    struct batch_builder builder;
    batch_builder_init(&builder, BATCH_SIZE_MAX);
    static_assert(VALUE_SIZE_MAX >= 1 << 16, "record_size_max fits");
    uint8_t *value = malloc(VALUE_SIZE_MAX);
    assert(value != NULL);
    for (int32_t i = 0; i < wish->records_count; i++) {
        char key[KEY_SIZE_MAX];
        (void)snprintf(key, sizeof(key), "%s-%" PRIu64 "-%d", wish->label, wish->number, i);
        const size_t value_size = (size_t)sim_between(sim, 0, wish->record_size_max);
        assert_cmp(value_size, <=, VALUE_SIZE_MAX);
        rand_bytes(&sim->rand, value, value_size);
        struct batch_record record = {.timestamp = draw_timestamp(sim, wish->wall_ms),
                                      .value = slice_of(value, value_size)};
        if (made.records != NULL) {
            made.records[i] = draw_record(sim, wish);
            (void)snprintf(key, sizeof(key), "k%u", made.records[i].key);
            record.value = made.records[i].is_tombstone ? (struct slice){0} : record.value;
        }
        record.key = slice_of_string(key);
        add(sim, &builder, &record, &made);
    }
    finish(sim, &builder, wish, wish->is_transactional ? BATCH_TRANSACTIONAL : 0, &made);
    free(value);
    return made;
}

struct made_batch batch_make_marker(struct sim *sim,
                                    const struct batch_identity *identity,
                                    int64_t wall_ms,
                                    bool is_commit)
{
    struct made_batch made = made_new(1, false);
    struct batch_builder builder;
    batch_builder_init(&builder, BATCH_SIZE_MAX);
    const uint8_t key[4] = {0, 0, 0, is_commit}; /* Version and type (PROTOCOL 7). */
    const uint8_t value[6] = {0};                /* Version and epoch of the coordinator. */
    add(sim,
        &builder,
        &(struct batch_record){.timestamp = wall_ms,
                               .key = slice_of(key, sizeof(key)),
                               .value = slice_of(value, sizeof(value))},
        &made);
    const struct batch_wish wish = {.identity = *identity};
    finish(sim, &builder, &wish, BATCH_CONTROL | BATCH_TRANSACTIONAL, &made);
    return made;
}

void batch_unmake(struct made_batch *b)
{
    free(b->bytes);
    free(b->timestamps);
    free(b->records);
    *b = (struct made_batch){0};
}
