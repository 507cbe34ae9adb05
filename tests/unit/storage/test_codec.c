/* Codecs: every codec gives back what it got, in every framing that clients write; output never
 * exceeds its bound; every cut and every flipped bit of a stream is an error or the same bytes,
 * never a crash.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <zstd.h>

#include "core/rand.h"
#include "storage/codec.h"

enum {
    SIZE_MAX_TEST = 4 << 20,
};

/* Compressible, but not to nothing. */
static uint8_t *make_text(size_t size)
{
    struct rand r;
    rand_init_seed(&r, size + 1);
    uint8_t *text = malloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        text[i] = (uint8_t)('a' + rand_below(&r, i % 64 < 8 ? 26 : 2));
    }
    return text;
}

static void expect_round_trip(enum batch_codec codec, size_t size)
{
    uint8_t *text = make_text(size);
    struct wbuf packed;
    struct wbuf plain;
    wbuf_init(&packed, SIZE_MAX_TEST * 2);
    wbuf_init(&plain, SIZE_MAX_TEST * 2);
    wbuf_bytes(&packed, "head", 4); /* Both append. */
    wbuf_bytes(&plain, "head", 4);
    cr_assert(eq(int, codec_compress(codec, slice_of(text, size), &packed), ERR_OK));
    struct slice stream = slice_of(packed.data + 4, packed.size - 4);
    cr_assert(eq(int, codec_decompress(codec, stream, size > 0 ? size : 1, &plain), ERR_OK),
              "codec=%d size=%zu: the bound is exact",
              codec,
              size);
    cr_assert(slice_equal(slice_of(plain.data + 4, plain.size - 4), slice_of(text, size)));
    if (size > 0) {
        enum err e = codec_decompress(codec, stream, size - 1, &plain);
        cr_assert(eq(int, e, ERR_TOO_LARGE), "codec=%d size=%zu", codec, size);
        cr_assert(eq(sz, plain.size, size + 4), "an error leaves the size alone");
    }
    wbuf_done(&packed);
    wbuf_done(&plain);
    free(text);
}

Test(codec, what_goes_in_comes_out_and_the_bound_is_exact)
{
    static const size_t sizes[] = {
        0, 1, 2, 100, 4095, 4096, 16384, 16385, 32768, 32769, 65536, 65537, 200000, 1 << 20};
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            expect_round_trip((enum batch_codec)codec, sizes[i]);
        }
    }
}

static enum err unpack(enum batch_codec codec, struct slice in, struct wbuf *ret_plain)
{
    wbuf_init(ret_plain, SIZE_MAX_TEST);
    return codec_decompress(codec, in, SIZE_MAX_TEST, ret_plain);
}

static void expect_text(enum batch_codec codec, struct slice in, const char *text)
{
    struct wbuf plain;
    cr_assert(eq(int, unpack(codec, in, &plain), ERR_OK));
    cr_assert(slice_equal_string(wbuf_slice(&plain), text));
    wbuf_done(&plain);
}

static void expect_error(enum batch_codec codec, struct slice in, enum err expected)
{
    struct wbuf plain;
    cr_assert(eq(int, unpack(codec, in, &plain), expected));
    cr_assert(eq(sz, plain.size, 0));
    wbuf_done(&plain);
}

/* librdkafka, franz-go, rskafka: one raw block and no header. */
Test(codec, snappy_as_one_raw_block)
{
    char block[256];
    size_t size = sizeof(block);
    cr_assert(eq(int, snappy_compress("hello hello hello", 17, block, &size), SNAPPY_OK));
    expect_text(CODEC_SNAPPY, slice_of(block, size), "hello hello hello");
}

/* A snappy block that claims more than it may, in both framings. */
Test(codec, snappy_claims_are_not_believed)
{
    static const uint8_t raw[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'x'};
    expect_error(CODEC_SNAPPY, slice_of(raw, sizeof(raw)), ERR_TOO_LARGE);
    static const uint8_t chunk_too_long[] = {0x82, 'S', 'N', 'A', 'P', 'P',  'Y',  0,    0,    0, 0,
                                             1,    0,   0,   0,   1,   0x7f, 0xff, 0xff, 0xff, 1};
    expect_error(CODEC_SNAPPY, slice_of(chunk_too_long, sizeof(chunk_too_long)), ERR_CORRUPT);
}

/* A stream that was appended to: header, chunk, header, chunk. */
Test(codec, xerial_streams_may_follow_each_other)
{
    struct wbuf w;
    wbuf_init(&w, SIZE_MAX_TEST);
    cr_assert(eq(int, codec_compress(CODEC_SNAPPY, slice_of_string("one,"), &w), ERR_OK));
    cr_assert(eq(int, codec_compress(CODEC_SNAPPY, slice_of_string("two"), &w), ERR_OK));
    expect_text(CODEC_SNAPPY, wbuf_slice(&w), "one,two");
    wbuf_done(&w);
}

Test(codec, gzip_members_and_zstd_frames_may_follow_each_other)
{
    static const enum batch_codec codecs[] = {CODEC_GZIP, CODEC_ZSTD};
    for (int i = 0; i < 2; i++) {
        struct wbuf w;
        wbuf_init(&w, SIZE_MAX_TEST);
        cr_assert(eq(int, codec_compress(codecs[i], slice_of_string("one,"), &w), ERR_OK));
        cr_assert(eq(int, codec_compress(codecs[i], slice_of_string(""), &w), ERR_OK));
        cr_assert(eq(int, codec_compress(codecs[i], slice_of_string("two"), &w), ERR_OK));
        expect_text(codecs[i], wbuf_slice(&w), "one,two");
        wbuf_i8(&w, 0x55);
        expect_error(codecs[i], wbuf_slice(&w), ERR_CORRUPT);
        wbuf_done(&w);
    }
}

/* Java streams zstd without a content size. */
Test(codec, zstd_without_content_size)
{
    uint8_t *text = make_text(300000);
    size_t bound = ZSTD_compressBound(300000);
    uint8_t *packed = malloc(bound);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    size_t size = ZSTD_compress2(context, packed, bound, text, 300000);
    cr_assert(not(ZSTD_isError(size)));
    struct wbuf plain;
    cr_assert(eq(int, unpack(CODEC_ZSTD, slice_of(packed, size), &plain), ERR_OK));
    cr_assert(slice_equal(wbuf_slice(&plain), slice_of(text, 300000)));
    wbuf_done(&plain);
    ZSTD_freeCCtx(context);
    free(packed);
    free(text);
}

/* PROTOCOL 7: Java's reader takes one frame of independent blocks, and nothing else. */
Test(codec, lz4_that_java_could_not_read_is_refused)
{
    struct wbuf w;
    wbuf_init(&w, SIZE_MAX_TEST);
    cr_assert(eq(int, codec_compress(CODEC_LZ4, slice_of_string("one"), &w), ERR_OK));
    cr_assert(eq(int, w.data[4] & 0xe1, 0x60), "version 01, independent blocks, no dictionary");
    cr_assert(eq(int, w.data[5] >> 4, 4), "64 KiB blocks");
    expect_text(CODEC_LZ4, wbuf_slice(&w), "one");
    cr_assert(eq(int, codec_compress(CODEC_LZ4, slice_of_string("two"), &w), ERR_OK));
    expect_error(CODEC_LZ4, wbuf_slice(&w), ERR_CORRUPT); /* A second frame. */
    wbuf_done(&w);

    const LZ4F_preferences_t linked = {
        .frameInfo = {.blockMode = LZ4F_blockLinked, .blockSizeID = LZ4F_max64KB}};
    uint8_t *text = make_text(200000);
    size_t bound = LZ4F_compressFrameBound(200000, &linked);
    uint8_t *packed = malloc(bound);
    size_t size = LZ4F_compressFrame(packed, bound, text, 200000, &linked);
    expect_error(CODEC_LZ4, slice_of(packed, size), ERR_CORRUPT);
    free(packed);
    free(text);
}

Test(codec, unknown_codecs_are_refused)
{
    for (int codec = CODEC_COUNT; codec < 8; codec++) {
        struct wbuf w;
        wbuf_init(&w, 100);
        struct slice in = slice_of_string("x");
        enum batch_codec c = (enum batch_codec)codec;
        cr_assert(eq(int, codec_decompress(c, in, 100, &w), ERR_CODEC_UNSUPPORTED));
        cr_assert(eq(int, codec_compress(c, in, &w), ERR_CODEC_UNSUPPORTED));
        wbuf_done(&w);
    }
}

/* 100 KiB that would become 100 MiB: refused within the bound, without the memory. */
Test(codec, bombs_are_bounded)
{
    static uint8_t zeros[16 << 20];
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        struct wbuf w;
        wbuf_init(&w, sizeof(zeros) * 2);
        struct slice in = slice_of(zeros, sizeof(zeros));
        cr_assert(eq(int, codec_compress((enum batch_codec)codec, in, &w), ERR_OK));
        struct wbuf plain;
        wbuf_init(&plain, SIZE_MAX);
        struct slice bomb = wbuf_slice(&w);
        enum err e = codec_decompress((enum batch_codec)codec, bomb, 1 << 20, &plain);
        cr_assert(eq(int, e, ERR_TOO_LARGE));
        cr_assert(le(sz, plain.capacity, 2 << 20));
        wbuf_done(&plain);
        wbuf_done(&w);
    }
}

/* Every prefix of a stream is an error, or (a whole gzip member, frame or chunk) a shorter text. */
Test(codec, every_cut_and_every_flipped_bit_is_survived)
{
    uint8_t *text = make_text(3000);
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        struct wbuf w;
        wbuf_init(&w, SIZE_MAX_TEST);
        enum batch_codec c = (enum batch_codec)codec;
        cr_assert(eq(int, codec_compress(c, slice_of(text, 3000), &w), ERR_OK));
        for (size_t cut = 0; cut < w.size; cut++) {
            uint8_t *exact = malloc(cut + 1); /* So that a read beyond it is noticed. */
            memcpy(exact + 1, w.data, cut);
            struct wbuf plain;
            enum err e = unpack(c, slice_of(exact + 1, cut), &plain);
            bool is_only_header = codec == CODEC_SNAPPY && cut == 16;
            cr_assert(eq(int, e == ERR_OK, is_only_header), "codec=%d cut=%zu", codec, cut);
            wbuf_done(&plain);
            free(exact);
        }
        for (size_t bit = 0; bit < w.size * 8; bit++) {
            w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            struct wbuf plain;
            enum err e = unpack(c, wbuf_slice(&w), &plain);
            cr_assert(e == ERR_OK || e == ERR_CORRUPT || e == ERR_TOO_LARGE,
                      "codec=%d e=%s",
                      codec,
                      err_name(e));
            wbuf_done(&plain);
            w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        wbuf_done(&w);
    }
    free(text);
}

/* One codec in steps of step_size plain bytes; what was made is appended to w. */
static void run_in_steps(struct codec_job job, size_t step_size, size_t *ret_steps)
{
    struct codec_run *run;
    cr_assert(eq(int, codec_run_new(&job, &run), ERR_OK));
    bool is_done = false;
    for (*ret_steps = 0; !is_done; (*ret_steps)++) {
        cr_assert(eq(int, codec_run_step(run, step_size, &is_done), ERR_OK));
    }
    codec_run_free(run);
}

Test(codec, steps_of_any_size_give_the_same)
{
    static const size_t sizes[] = {0, 1, 65536, 65537, 300000};
    static const size_t step_sizes[] = {1000, 4096, 65536, 100000, SIZE_MAX};
    for (int i = 0; i < CODEC_COUNT * 25; i++) {
        const enum batch_codec codec = (enum batch_codec)(i / 25);
        const size_t size = sizes[i / 5 % 5];
        const size_t step_size = step_sizes[i % 5];
        uint8_t *text = make_text(size);
        struct wbuf packed;
        struct wbuf plain;
        wbuf_init(&packed, SIZE_MAX_TEST);
        wbuf_init(&plain, SIZE_MAX_TEST);
        const struct codec_job write = {
            codec, true, CODEC_LEVEL_DEFAULT, slice_of(text, size), SIZE_MAX, &packed};
        size_t steps_count;
        run_in_steps(write, step_size, &steps_count);
        const size_t piece_size = codec == CODEC_ZSTD && step_size < 8192 ? 8192 : step_size;
        cr_assert(codec == CODEC_SNAPPY || steps_count >= size / piece_size, "codec=%d", codec);
        if (codec == CODEC_LZ4 || codec == CODEC_ZSTD) {
            cr_assert(lt(sz, packed.size, size * 9 / 10 + 100), "steps cost no compression");
        }
        const struct codec_job read = {codec, false, 0, wbuf_slice(&packed), SIZE_MAX_TEST, &plain};
        run_in_steps(read, step_size, &steps_count);
        cr_assert(slice_equal(wbuf_slice(&plain), slice_of(text, size)),
                  "codec=%d size=%zu step=%zu",
                  codec,
                  size,
                  step_size);
        cr_assert(codec == CODEC_SNAPPY || size < 100000 || step_size > size / 4 || steps_count > 3,
                  "codec=%d size=%zu step=%zu: %zu steps",
                  codec,
                  size,
                  step_size,
                  steps_count);
        wbuf_done(&packed);
        wbuf_done(&plain);
        free(text);
    }
}

Test(codec, levels_are_those_of_kafka)
{
    static const struct {
        enum batch_codec codec;
        int32_t level;
    } rows[] = {
        {CODEC_GZIP, -1},
        {CODEC_GZIP, 1},
        {CODEC_GZIP, 9},
        {CODEC_LZ4, 1},
        {CODEC_LZ4, 9},
        {CODEC_LZ4, 17},
        {CODEC_ZSTD, -131072},
        {CODEC_ZSTD, 3},
        {CODEC_ZSTD, 22},
    };
    uint8_t *text = make_text(200000);
    size_t last_size = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wbuf packed;
        wbuf_init(&packed, SIZE_MAX_TEST);
        const struct codec_job write = {
            rows[i].codec, true, rows[i].level, slice_of(text, 200000), SIZE_MAX, &packed};
        size_t steps_count;
        run_in_steps(write, SIZE_MAX, &steps_count);
        struct wbuf plain;
        cr_assert(eq(int, unpack(rows[i].codec, wbuf_slice(&packed), &plain), ERR_OK));
        cr_assert(eq(sz, plain.size, 200000));
        if (i > 0 && rows[i].codec == rows[i - 1].codec && rows[i - 1].level != -1) {
            /* 9 of lz4 is the fast one. */
            const bool is_fast_lz4 = rows[i].codec == CODEC_LZ4 && rows[i].level == 9;
            cr_assert(is_fast_lz4 ? packed.size == last_size : packed.size < last_size,
                      "codec=%d level=%d: %zu, before %zu",
                      rows[i].codec,
                      rows[i].level,
                      packed.size,
                      last_size);
        }
        last_size = packed.size;
        wbuf_done(&packed);
        wbuf_done(&plain);
    }
    free(text);
}
