/* What compressed records look like when they come from outside: gzip's members, snappy's raw block
 * and xerial stream, lz4's and zstd's frames. The first byte names codec and direction, the second
 * how large the steps are, the third the level.
 *
 * Whatever comes in, no more comes out than was allowed; in steps the same comes out as at once;
 * and what was compressed can be read.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/codec.h"

#include "tests/fuzz/fuzz.h"

enum {
    OUTPUT_SIZE_MAX = 256 << 10,
    COMPRESSED_SIZE_MAX = 4 << 20,
    STEPS_MAX = 1 << 20,
    STEP_SIZE_MIN = 16,
};

static const char BEFORE[] = "what was there before";

static void begin(struct wbuf *w, size_t size_max)
{
    wbuf_init(w, size_max);
    wbuf_bytes(w, BEFORE, sizeof(BEFORE));
}

static struct slice added(const struct wbuf *w)
{
    assert_cmp(w->size, >=, sizeof(BEFORE));
    assert(memcmp(w->data, BEFORE, sizeof(BEFORE)) == 0);
    return slice_of(w->data + sizeof(BEFORE), w->size - sizeof(BEFORE));
}

static enum err in_steps(const struct codec_job *job, size_t step_size)
{
    struct codec_run *run = NULL;
    enum err e = codec_run_new(job, &run);
    if (e != ERR_OK) {
        return e;
    }
    bool is_done = false;
    for (int i = 0; e == ERR_OK && !is_done; i++) {
        assert_cmp(i, <, STEPS_MAX);
        e = codec_run_step(run, step_size, &is_done);
    }
    codec_run_free(run);
    return e;
}

static void decompress(enum batch_codec codec, size_t step_size, struct slice in)
{
    struct wbuf at_once;
    struct wbuf stepped;
    begin(&at_once, COMPRESSED_SIZE_MAX);
    begin(&stepped, COMPRESSED_SIZE_MAX);
    const enum err e = codec_decompress(codec, in, OUTPUT_SIZE_MAX, &at_once);
    const struct codec_job job = {
        .codec = codec, .in = in, .size_max = OUTPUT_SIZE_MAX, .w = &stepped};
    const enum err e_stepped = in_steps(&job, step_size);
    /* zstd without room for the whole frame takes an empty block for its end, whatever size the
     * frame declares. So it is too short then, also for the records that a batch declares. */
    const bool is_short = codec == CODEC_ZSTD && e == ERR_CORRUPT && e_stepped == ERR_OK;
    assert(is_short || (e == ERR_OK) == (e_stepped == ERR_OK));
    assert_cmp(added(&at_once).size, <=, OUTPUT_SIZE_MAX);
    assert_cmp(added(&stepped).size, <=, OUTPUT_SIZE_MAX);
    if (e == ERR_OK) {
        assert(slice_equal(added(&at_once), added(&stepped)));
    } else {
        assert_cmp(added(&at_once).size, ==, 0);
    }
    wbuf_done(&at_once);
    wbuf_done(&stepped);
}

static void expect_back(enum batch_codec codec, struct slice compressed, struct slice plain)
{
    struct wbuf w;
    begin(&w, COMPRESSED_SIZE_MAX);
    const enum err e = codec_decompress(codec, compressed, plain.size + 1, &w);
    assert_cmp(e, ==, ERR_OK);
    assert(slice_equal(added(&w), plain));
    wbuf_done(&w);
}

static void compress(enum batch_codec codec, size_t step_size, int32_t level, struct slice in)
{
    struct wbuf at_once;
    struct wbuf stepped;
    begin(&at_once, COMPRESSED_SIZE_MAX);
    begin(&stepped, COMPRESSED_SIZE_MAX);
    enum err e = codec_compress(codec, in, &at_once);
    assert_cmp(e, ==, ERR_OK);
    expect_back(codec, added(&at_once), in);
    const struct codec_job job = {
        .codec = codec,
        .is_compression = true,
        .level = level,
        .in = in,
        .size_max = COMPRESSED_SIZE_MAX,
        .w = &stepped,
    };
    e = in_steps(&job, step_size);
    assert_cmp(e, ==, ERR_OK);
    expect_back(codec, added(&stepped), in);
    wbuf_done(&at_once);
    wbuf_done(&stepped);
}

/* What Kafka's compression.<codec>.level may be. */
static int32_t level_of(enum batch_codec codec, uint8_t drawn)
{
    static const int32_t level_max[CODEC_COUNT] = {
        [CODEC_GZIP] = 9, [CODEC_LZ4] = 12, [CODEC_ZSTD] = 12};
    const int32_t max = level_max[codec];
    return max == 0 || drawn % 4 == 0 ? CODEC_LEVEL_DEFAULT : 1 + drawn % max;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    const enum batch_codec codec = (enum batch_codec)(data[0] % CODEC_COUNT);
    const size_t step_size = STEP_SIZE_MIN + ((size_t)data[1] << data[1] % 8);
    const struct slice in = slice_of(data + 3, size - 3);
    if (data[0] < 128) {
        decompress(codec, step_size, in);
    } else {
        compress(codec, step_size, level_of(codec, data[2]), in);
    }
    return 0;
}
