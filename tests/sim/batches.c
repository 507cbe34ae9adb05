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

struct made_batch batch_make(struct sim *sim, const struct batch_wish *wish)
{
    struct made_batch made = {.records_count = wish->records_count, .max_timestamp = -1};
    made.timestamps = malloc((size_t)wish->records_count * sizeof(int64_t));
    assert(made.timestamps != NULL);

    struct batch_builder builder;
    batch_builder_init(&builder, BATCH_SIZE_MAX);
    static_assert(VALUE_SIZE_MAX >= 1 << 16, "record_size_max fits");
    uint8_t *value = malloc(VALUE_SIZE_MAX);
    assert(value != NULL);
    for (int32_t i = 0; i < wish->records_count; i++) {
        char key[64];
        int key_size =
            snprintf(key, sizeof(key), "%s-%" PRIu64 "-%d", wish->label, wish->number, i);
        size_t value_size = (size_t)sim_between(sim, 0, wish->record_size_max);
        assert_cmp(value_size, <=, VALUE_SIZE_MAX);
        rand_bytes(&sim->rand, value, value_size);
        int64_t timestamp = draw_timestamp(sim, wish->wall_ms);
        made.timestamps[i] = timestamp;
        made.max_timestamp = timestamp > made.max_timestamp ? timestamp : made.max_timestamp;
        enum err e =
            batch_builder_add(&builder,
                              &(struct batch_record){.timestamp = timestamp,
                                                     .key = slice_of(key, (size_t)key_size),
                                                     .value = slice_of(value, value_size)});
        sim_check(sim, e == ERR_OK, "batch_builder_add: %s", err_name(e));
    }
    struct wbuf w;
    wbuf_init(&w, BATCH_SIZE_MAX);
    const enum batch_codec codec = draw_codec(sim, wish->is_zstd_allowed);
    enum err e = batch_builder_finish(&builder, codec, &wish->identity, &w);
    sim_check(sim, e == ERR_OK, "batch_builder_finish: %s", err_name(e));
    made.bytes = wbuf_take(&w, &made.size);
    batch_builder_done(&builder);
    free(value);
    return made;
}

void batch_unmake(struct made_batch *b)
{
    free(b->bytes);
    free(b->timestamps);
    *b = (struct made_batch){0};
}
