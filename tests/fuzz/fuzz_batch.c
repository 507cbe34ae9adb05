/* A record batch from a client: the leader's checks, then whoever reads it. The CRC is made right
 * first, so that what is behind it is reached. Whatever the checks accept has to walk to its end.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/batch.h"
#include "storage/codec.h"
#include "storage/recode.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seal.h"

enum {
    OUTPUT_SIZE_MAX = 1 << 20,
    RECODE_STEP_NS = 20 * 1000,
};

/* Reads everything; ERR_EOF if it is all there. */
static enum err walk(struct slice batch)
{
    struct batch_header h;
    struct slice records;
    struct wbuf w;
    wbuf_init(&w, OUTPUT_SIZE_MAX);
    enum err e = batch_header_decode(batch, &h);
    if (e == ERR_OK) {
        e = batch_records(batch, OUTPUT_SIZE_MAX, &w, &records);
    }
    if (e == ERR_OK) {
        struct record_cursor c;
        struct record r;
        record_cursor_init(&c, &h, records);
        while ((e = record_next(&c, &r)) == ERR_OK) {
            struct record_header header;
            while ((e = record_next_header(&r, &header)) == ERR_OK) {
            }
            if (e != ERR_EOF) {
                break;
            }
        }
    }
    wbuf_done(&w);
    return e;
}

/* In steps, towards another codec: says the same as the check at once, but for the size that comes
 * of it, and what it accepts has the same records. */
static void recode(struct slice batch, const struct batch_rules *rules, enum err at_once)
{
    struct batch_header h;
    struct batch_fault f;
    if (batch_check_head(batch, rules, &h, &f) != ERR_OK) {
        assert(at_once != ERR_OK);
        return;
    }
    const struct recode_wish wish = {
        .batch = batch,
        .header = &h,
        .rules = rules,
        .codec = (enum batch_codec)(batch.data[batch.size - 1] % CODEC_COUNT),
        .level = CODEC_LEVEL_DEFAULT,
    };
    struct recode *r;
    enum err e = recode_new(&wish, &r);
    assert(e == ERR_OK);
    while (!recode_is_done(r)) {
        (void)recode_step(r, RECODE_STEP_NS);
    }
    e = recode_result(r, &h, &f);
    assert(e == at_once || e == ERR_TOO_LARGE || at_once == ERR_OK);
    if (e == ERR_OK) {
        const struct slice records = recode_records(r);
        uint8_t *stored = malloc(BATCH_HEADER_SIZE + records.size);
        assert(stored != NULL);
        batch_header_encode(&h, records, stored);
        if (records.size > 0) {
            memcpy(stored + BATCH_HEADER_SIZE, records.data, records.size);
        }
        enum err e_walk = walk(slice_of(stored, BATCH_HEADER_SIZE + records.size));
        assert(e_walk == ERR_EOF || e_walk == ERR_TOO_LARGE);
        free(stored);
    }
    recode_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct batch_rules rules = {
        .size_max = OUTPUT_SIZE_MAX,
        .produce_version = 9,
        .is_compacted = size % 2 == 0,
        .wall_ms = 1700000000000,
        .timestamp_before_ms_max = INT64_MAX,
        .timestamp_after_ms_max = INT64_MAX,
    };
    struct batch_header h;
    struct batch_fault f;
    uint8_t *bytes = malloc(size + 1);
    assert(bytes != NULL);
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    (void)batch_check_produced(slice_of(bytes, size), &rules, &h, &f);
    if (size > BATCH_HEADER_SIZE) {
        seal_batch(bytes, size);
        struct slice batch = slice_of(bytes, size);
        enum err e = batch_check_produced(batch, &rules, &h, &f);
        enum err e_walk = walk(batch);
        recode(batch, &rules, e);
        if (e == ERR_OK && (batch_codec(&h) == CODEC_NONE || rules.is_compacted)) {
            assert(e_walk == ERR_EOF || e_walk == ERR_TOO_LARGE);
        }
    }
    free(bytes);
    return 0;
}
