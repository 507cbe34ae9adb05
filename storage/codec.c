#include "storage/codec.h"

#include <lz4frame.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "core/assert.h"
#include "core/rbuf.h"

enum {
    OUT_STEP_MIN = 16 << 10,
    GZIP_WINDOW_BITS = 15 + 16, /* 32 KiB window, gzip wrapper. */
    GZIP_MEMORY_LEVEL = 8,      /* zlib's default. */
    XERIAL_HEADER_SIZE = 16,
    XERIAL_CHUNK_SIZE = 32 << 10,
    LZ4_FLG_POS = 4,
    LZ4_BD_POS = 5,
    LZ4_BLOCK_SIZE_SHIFT = 4, /* In the BD byte; code 4 = 64 KiB, each next one four times that. */
    LZ4_BLOCK_SIZE_CODE_MIN = 4,
    LZ4_BLOCK_SIZE_CODE_MAX = 7,
    LZ4_BLOCK_SIZE_MIN = 64 << 10,
    LZ4_LEVEL_FAST = 9,
    ZSTD_STEP_SIZE_MIN = 8 << 10,
    LZ4_FLG_FIXED_MASK = 0xe1, /* Version, block independence, dictionary id. */
    LZ4_FLG_FIXED = 0x60,      /* Version 01, independent blocks, no dictionary. */
};

static const uint8_t XERIAL_MAGIC[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

/* One run over one input. The output is a piece of w, given as room in growing steps and cut to
 * what was used, under a limit that does not depend on what the input claims. */
struct codec_run {
    const struct codec_ops *ops;
    int32_t level;
    struct slice in;
    size_t in_pos;
    bool is_done;

    struct wbuf *w;
    size_t start; /* w's size before. */
    size_t size_max;
    size_t hint;     /* First step: a guess at the output's size. */
    size_t step_min; /* Of room: what the codec needs to write there directly. */
    size_t step_max; /* Of plain bytes in one step. */
    uint8_t *room;
    size_t room_size;

    union {
        z_stream gzip;
        LZ4F_dctx *lz4_reader;
        LZ4F_cctx *lz4_writer;
        ZSTD_DStream *zstd_reader;
        ZSTD_CCtx *zstd_writer;
    } state;
};

/* An open that fails leaves nothing to close. A step moves about step_max plain bytes, and at least
 * one; it sets is_done. */
struct codec_ops {
    enum err (*open)(struct codec_run *run);
    enum err (*step)(struct codec_run *run);
    void (*close)(struct codec_run *run);
    size_t ratio; /* Readers: typical, for the first guess at the output's size. */
};

static enum err out_failure(const struct codec_run *run)
{
    enum err e = wbuf_failure(run->w);
    return e == ERR_OK ? ERR_TOO_LARGE : e;
}

static size_t out_used(const struct codec_run *run)
{
    return run->w->size - run->start;
}

/* Appends exactly size bytes of room. */
static enum err out_exact(struct codec_run *run, size_t size)
{
    if (size > run->size_max - out_used(run)) {
        return ERR_TOO_LARGE;
    }
    run->room = wbuf_extend(run->w, size);
    run->room_size = size;
    return run->room == NULL ? out_failure(run) : ERR_OK;
}

/* Appends room for the next step of a reader. Doubling keeps the number of steps logarithmic. */
static enum err out_grow(struct codec_run *run)
{
    size_t used = out_used(run);
    size_t step = used == 0 ? run->hint : used;
    step = step < run->step_max ? step : run->step_max;
    step = step > run->step_min ? step : run->step_min;
    size_t left = run->size_max - used;
    if (run->w->size_max - run->w->size < left) {
        left = run->w->size_max - run->w->size;
    }
    if (left == 0) {
        return ERR_TOO_LARGE;
    }
    return out_exact(run, step < left ? step : left);
}

/* The last unused bytes of the room were not needed after all. */
static void out_cut(struct codec_run *run, size_t unused)
{
    assert(unused <= run->room_size);
    run->w->size -= unused;
    run->room_size = 0;
}

/* The next piece of a writer's input; is_last is for the one that ends it, which may be empty. */
static struct slice take_in(struct codec_run *run, bool *ret_is_last)
{
    struct slice piece = slice_rest(run->in, run->in_pos);
    *ret_is_last = piece.size <= run->step_max;
    if (!*ret_is_last) {
        piece.size = run->step_max;
    }
    run->in_pos += piece.size;
    return piece;
}

static void close_nothing(struct codec_run *run)
{
    (void)run;
}

static enum err open_nothing(struct codec_run *run)
{
    (void)run;
    return ERR_OK;
}

/* ---- none ---------------------------------------------------------------------------------- */

static enum err copy_step(struct codec_run *run)
{
    struct slice piece = take_in(run, &run->is_done);
    if (piece.size == 0) {
        return ERR_OK;
    }
    enum err e = out_exact(run, piece.size);
    if (e == ERR_OK) {
        memcpy(run->room, piece.data, piece.size);
    }
    return e;
}

/* ---- gzip ---------------------------------------------------------------------------------- */

static enum err gzip_read_open(struct codec_run *run)
{
    if (run->in.size > UINT32_MAX) {
        return ERR_TOO_LARGE;
    }
    z_stream *z = &run->state.gzip;
    *z = (z_stream){.next_in = (z_const Bytef *)run->in.data, .avail_in = (uInt)run->in.size};
    return inflateInit2(z, GZIP_WINDOW_BITS) == Z_OK ? ERR_OK : ERR_BUSY;
}

static enum err gzip_read_step(struct codec_run *run)
{
    z_stream *z = &run->state.gzip;
    enum err e = out_grow(run);
    if (e != ERR_OK) {
        return e;
    }
    z->next_out = run->room;
    z->avail_out = (uInt)run->room_size;
    int result = Z_OK;
    /* Also with the room full to the byte: only the trailer tells whether that was the end. */
    while (result == Z_OK) {
        result = inflate(z, Z_NO_FLUSH);
        if (result == Z_STREAM_END && z->avail_in > 0) {
            result = inflateReset(z); /* The next member. */
        }
    }
    bool is_full = z->avail_out == 0;
    out_cut(run, z->avail_out);
    run->is_done = result == Z_STREAM_END;
    if (result == Z_STREAM_END) {
        return ERR_OK;
    }
    if (result == Z_MEM_ERROR) {
        return ERR_BUSY;
    }
    return result == Z_BUF_ERROR && is_full ? ERR_OK : ERR_CORRUPT;
}

static void gzip_read_close(struct codec_run *run)
{
    (void)inflateEnd(&run->state.gzip);
}

static enum err gzip_write_open(struct codec_run *run)
{
    if (run->in.size > UINT32_MAX) {
        return ERR_TOO_LARGE;
    }
    z_stream *z = &run->state.gzip;
    *z = (z_stream){0};
    int level = run->level == CODEC_LEVEL_DEFAULT ? Z_DEFAULT_COMPRESSION : run->level;
    if (deflateInit2(
            z, level, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        return ERR_BUSY;
    }
    enum err e = out_exact(run, deflateBound(z, run->in.size));
    if (e != ERR_OK) {
        (void)deflateEnd(z);
        return e;
    }
    /* All of the room at once: with it, deflate never stops for lack of output. */
    z->next_out = run->room;
    z->avail_out = (uInt)run->room_size;
    return ERR_OK;
}

static enum err gzip_write_step(struct codec_run *run)
{
    z_stream *z = &run->state.gzip;
    bool is_last;
    struct slice piece = take_in(run, &is_last);
    z->next_in = (z_const Bytef *)piece.data;
    z->avail_in = (uInt)piece.size;
    int result = deflate(z, is_last ? Z_FINISH : Z_NO_FLUSH);
    assert(result == (is_last ? Z_STREAM_END : Z_OK)); /* deflateBound says that it fits. */
    assert(z->avail_in == 0);
    if (is_last) {
        out_cut(run, z->avail_out);
        run->is_done = true;
    }
    return ERR_OK;
}

static void gzip_write_close(struct codec_run *run)
{
    (void)deflateEnd(&run->state.gzip);
}

/* ---- snappy -------------------------------------------------------------------------------- */

static enum err snappy_block_decompress(struct codec_run *run, struct slice block)
{
    size_t size;
    if (snappy_uncompressed_length((const char *)block.data, block.size, &size) != SNAPPY_OK) {
        return ERR_CORRUPT;
    }
    enum err e = out_exact(run, size);
    if (e != ERR_OK) {
        return e;
    }
    if (snappy_uncompress((const char *)block.data, block.size, (char *)run->room, &size) !=
        SNAPPY_OK) {
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

static bool is_xerial(struct slice in)
{
    return in.size >= XERIAL_HEADER_SIZE &&
           memcmp(in.data, XERIAL_MAGIC, sizeof(XERIAL_MAGIC)) == 0;
}

/* Chunks are as large as their writer made them, a raw block is a whole batch: snappy is fast
 * enough for that. */
static enum err xerial_read_step(struct codec_run *run)
{
    struct rbuf r = rbuf_over(run->in.data, run->in.size);
    const size_t used = out_used(run);
    rbuf_skip(&r, run->in_pos);
    while (rbuf_left(&r) > 0 && out_used(run) - used < run->step_max) {
        /* Writers that append to a stream begin with a header again. */
        if (is_xerial(slice_of(r.cursor, rbuf_left(&r)))) {
            rbuf_skip(&r, XERIAL_HEADER_SIZE);
            continue;
        }
        uint32_t size = rbuf_u32(&r);
        struct slice block = rbuf_bytes(&r, size);
        if (r.failure != ERR_OK) {
            return ERR_CORRUPT;
        }
        enum err e = snappy_block_decompress(run, block);
        if (e != ERR_OK) {
            return e;
        }
    }
    run->in_pos = run->in.size - rbuf_left(&r);
    run->is_done = rbuf_left(&r) == 0;
    return ERR_OK;
}

static enum err snappy_read_step(struct codec_run *run)
{
    if (is_xerial(run->in)) {
        return xerial_read_step(run);
    }
    run->is_done = true;
    return snappy_block_decompress(run, run->in);
}

static enum err snappy_write_open(struct codec_run *run)
{
    wbuf_bytes(run->w, XERIAL_MAGIC, sizeof(XERIAL_MAGIC));
    wbuf_u32(run->w, 1); /* Version. */
    wbuf_u32(run->w, 1); /* Lowest version that can read this. */
    return wbuf_failure(run->w);
}

static enum err xerial_chunk_write(struct codec_run *run)
{
    size_t left = run->in.size - run->in_pos;
    size_t chunk_size = left < XERIAL_CHUNK_SIZE ? left : XERIAL_CHUNK_SIZE;
    size_t size_pos = wbuf_reserve(run->w, sizeof(uint32_t));
    enum err e = out_exact(run, snappy_max_compressed_length(chunk_size));
    if (e != ERR_OK) {
        return e;
    }
    size_t size = run->room_size;
    snappy_status status = snappy_compress(
        (const char *)run->in.data + run->in_pos, chunk_size, (char *)run->room, &size);
    assert(status == SNAPPY_OK); /* Fails only for lack of room. */
    out_cut(run, run->room_size - size);
    wbuf_patch_u32(run->w, size_pos, (uint32_t)size);
    run->in_pos += chunk_size;
    return ERR_OK;
}

static enum err snappy_write_step(struct codec_run *run)
{
    const size_t pos_before = run->in_pos;
    while (run->in_pos < run->in.size && run->in_pos - pos_before < run->step_max) {
        enum err e = xerial_chunk_write(run);
        if (e != ERR_OK) {
            return e;
        }
    }
    run->is_done = run->in_pos == run->in.size;
    return ERR_OK;
}

/* ---- lz4 ----------------------------------------------------------------------------------- */

static enum err lz4_read_open(struct codec_run *run)
{
    const struct slice in = run->in;
    if (in.size <= LZ4_BD_POS || (in.data[LZ4_FLG_POS] & LZ4_FLG_FIXED_MASK) != LZ4_FLG_FIXED) {
        return ERR_CORRUPT;
    }
    unsigned code = in.data[LZ4_BD_POS] >> LZ4_BLOCK_SIZE_SHIFT;
    if (code < LZ4_BLOCK_SIZE_CODE_MIN || code > LZ4_BLOCK_SIZE_CODE_MAX) {
        return ERR_CORRUPT;
    }
    /* With room for a whole block it decodes there, and not into memory of its own to copy from. */
    run->step_min = (size_t)LZ4_BLOCK_SIZE_MIN << 2 * (code - LZ4_BLOCK_SIZE_CODE_MIN);
    return LZ4F_isError(LZ4F_createDecompressionContext(&run->state.lz4_reader, LZ4F_VERSION))
               ? ERR_BUSY
               : ERR_OK;
}

static enum err lz4_read_step(struct codec_run *run)
{
    enum err e = out_grow(run);
    if (e != ERR_OK) {
        return e;
    }
    size_t wanted = 1; /* 0 = the frame is complete. */
    size_t out_pos = 0;
    bool is_moving = true;
    while (is_moving && wanted != 0) {
        size_t out_size = run->room_size - out_pos;
        size_t in_size = run->in.size - run->in_pos;
        wanted = LZ4F_decompress(run->state.lz4_reader,
                                 run->room + out_pos,
                                 &out_size,
                                 run->in.data + run->in_pos,
                                 &in_size,
                                 NULL);
        if (LZ4F_isError(wanted)) {
            return ERR_CORRUPT;
        }
        run->in_pos += in_size;
        out_pos += out_size;
        is_moving = in_size > 0 || out_size > 0;
    }
    bool is_full = out_pos == run->room_size;
    out_cut(run, run->room_size - out_pos);
    run->is_done = wanted == 0;
    if (run->is_done) {
        /* Java's reader stops at the end of the first frame and would lose what follows. */
        return run->in_pos == run->in.size ? ERR_OK : ERR_CORRUPT;
    }
    return is_full ? ERR_OK : ERR_CORRUPT; /* It had room, and stopped for lack of input. */
}

static void lz4_read_close(struct codec_run *run)
{
    (void)LZ4F_freeDecompressionContext(run->state.lz4_reader);
}

/* Level 9, the default of compression.lz4.level, is the fast compressor in Kafka too; others, from
 * 3 on, are the thorough one. */
static LZ4F_preferences_t lz4_preferences(int32_t level)
{
    return (LZ4F_preferences_t){
        .frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent},
        .compressionLevel = level == CODEC_LEVEL_DEFAULT || level == LZ4_LEVEL_FAST ? 0 : level,
    };
}

static enum err lz4_write_open(struct codec_run *run)
{
    const LZ4F_preferences_t preferences = lz4_preferences(run->level);
    if (LZ4F_isError(LZ4F_createCompressionContext(&run->state.lz4_writer, LZ4F_VERSION))) {
        return ERR_BUSY;
    }
    enum err e = out_exact(run, LZ4F_HEADER_SIZE_MAX);
    if (e == ERR_OK) {
        size_t size =
            LZ4F_compressBegin(run->state.lz4_writer, run->room, run->room_size, &preferences);
        out_cut(run, LZ4F_isError(size) ? run->room_size : run->room_size - size);
        e = LZ4F_isError(size) ? ERR_BUSY : ERR_OK; /* Its own memory. */
    }
    if (e != ERR_OK) {
        (void)LZ4F_freeCompressionContext(run->state.lz4_writer);
    }
    return e;
}

/* Appends what LZ4F made of size bytes of room at most. */
static enum err lz4_take_out(struct codec_run *run, size_t made)
{
    if (LZ4F_isError(made)) {
        return ERR_BUSY; /* The room suffices; what is left is its own memory. */
    }
    out_cut(run, run->room_size - made);
    return ERR_OK;
}

static enum err lz4_write_step(struct codec_run *run)
{
    const LZ4F_preferences_t preferences = lz4_preferences(run->level);
    LZ4F_cctx *context = run->state.lz4_writer;
    bool is_last;
    struct slice piece = take_in(run, &is_last);
    enum err e = out_exact(run, LZ4F_compressBound(piece.size, &preferences));
    if (e == ERR_OK) {
        e = lz4_take_out(
            run,
            LZ4F_compressUpdate(context, run->room, run->room_size, piece.data, piece.size, NULL));
    }
    if (e != ERR_OK || !is_last) {
        return e;
    }
    run->is_done = true;
    e = out_exact(run, LZ4F_compressBound(0, &preferences)); /* What it kept, and the end mark. */
    return e != ERR_OK
               ? e
               : lz4_take_out(run, LZ4F_compressEnd(context, run->room, run->room_size, NULL));
}

static void lz4_write_close(struct codec_run *run)
{
    (void)LZ4F_freeCompressionContext(run->state.lz4_writer);
}

/* ---- zstd ---------------------------------------------------------------------------------- */

static enum err zstd_read_open(struct codec_run *run)
{
    /* The window that a frame may ask for is bounded by the library (128 MiB, what level 22 needs);
     * only the part that output was written to becomes real memory. */
    run->state.zstd_reader = ZSTD_createDStream();
    if (run->state.zstd_reader == NULL) {
        return ERR_BUSY;
    }
    /* If a size is given and true, it decodes to its place at once. */
    unsigned long long size = ZSTD_getFrameContentSize(run->in.data, run->in.size);
    if (size != ZSTD_CONTENTSIZE_UNKNOWN && size != ZSTD_CONTENTSIZE_ERROR && size > run->hint) {
        run->hint = size < run->size_max ? (size_t)size : run->size_max;
    }
    return ERR_OK;
}

static enum err zstd_read_step(struct codec_run *run)
{
    enum err e = out_grow(run);
    if (e != ERR_OK) {
        return e;
    }
    ZSTD_inBuffer source = {.src = run->in.data, .size = run->in.size, .pos = run->in_pos};
    ZSTD_outBuffer room = {.dst = run->room, .size = run->room_size};
    size_t wanted = 1; /* 0 = a frame is complete and all of it written. */
    bool is_moving = true;
    while (is_moving && (wanted != 0 || source.pos < source.size)) {
        size_t moved_before = source.pos + room.pos;
        wanted = ZSTD_decompressStream(run->state.zstd_reader, &room, &source);
        if (ZSTD_isError(wanted)) {
            return ERR_CORRUPT;
        }
        is_moving = source.pos + room.pos > moved_before;
    }
    bool is_full = room.pos == room.size;
    out_cut(run, room.size - room.pos);
    run->in_pos = source.pos;
    run->is_done = wanted == 0 && source.pos == source.size;
    /* Not full: it had room, and stopped for lack of input. */
    return run->is_done || is_full ? ERR_OK : ERR_CORRUPT;
}

static void zstd_read_close(struct codec_run *run)
{
    (void)ZSTD_freeDStream(run->state.zstd_reader);
}

static enum err zstd_write_open(struct codec_run *run)
{
    enum err e = out_exact(run, ZSTD_compressBound(run->in.size));
    if (e != ERR_OK) {
        return e;
    }
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (context == NULL) {
        return ERR_BUSY;
    }
    int level = run->level == CODEC_LEVEL_DEFAULT ? ZSTD_CLEVEL_DEFAULT : run->level;
    /* With the size known, its tables are no larger than the input needs. */
    if (ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level)) ||
        ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(context, run->in.size))) {
        (void)ZSTD_freeCCtx(context);
        return ERR_BUSY;
    }
    run->state.zstd_writer = context;
    return ERR_OK;
}

/* Each step ends a block. Left to itself zstd gathers 128 KiB for one, which takes tens of
 * milliseconds at high levels; the window goes on over blocks, so that smaller ones cost little. */
static enum err zstd_write_step(struct codec_run *run)
{
    if (run->step_max < ZSTD_STEP_SIZE_MIN) {
        run->step_max = ZSTD_STEP_SIZE_MIN;
    }
    bool is_last;
    struct slice piece = take_in(run, &is_last);
    ZSTD_inBuffer source = {.src = piece.data, .size = piece.size};
    ZSTD_outBuffer room = {.dst = run->room, .size = run->room_size};
    size_t left = 1;
    while (left != 0) {
        left = ZSTD_compressStream2(
            run->state.zstd_writer, &room, &source, is_last ? ZSTD_e_end : ZSTD_e_flush);
        if (ZSTD_isError(left)) {
            return ERR_BUSY; /* The room suffices; what is left is its own memory. */
        }
    }
    run->room += room.pos;
    run->room_size -= room.pos;
    if (is_last) {
        out_cut(run, run->room_size);
        run->is_done = true;
    }
    return ERR_OK;
}

static void zstd_write_close(struct codec_run *run)
{
    (void)ZSTD_freeCCtx(run->state.zstd_writer);
}

/* ---- all ----------------------------------------------------------------------------------- */

static const struct codec_ops readers[CODEC_COUNT] = {
    [CODEC_NONE] = {open_nothing, copy_step, close_nothing, 1},
    [CODEC_GZIP] = {gzip_read_open, gzip_read_step, gzip_read_close, 4},
    [CODEC_SNAPPY] = {open_nothing, snappy_read_step, close_nothing, 2},
    [CODEC_LZ4] = {lz4_read_open, lz4_read_step, lz4_read_close, 3},
    [CODEC_ZSTD] = {zstd_read_open, zstd_read_step, zstd_read_close, 4},
};

static const struct codec_ops writers[CODEC_COUNT] = {
    [CODEC_NONE] = {open_nothing, copy_step, close_nothing, 0},
    [CODEC_GZIP] = {gzip_write_open, gzip_write_step, gzip_write_close, 0},
    [CODEC_SNAPPY] = {snappy_write_open, snappy_write_step, close_nothing, 0},
    [CODEC_LZ4] = {lz4_write_open, lz4_write_step, lz4_write_close, 0},
    [CODEC_ZSTD] = {zstd_write_open, zstd_write_step, zstd_write_close, 0},
};

static enum err run_open(struct codec_run *run, const struct codec_job *job)
{
    if (job->codec >= CODEC_COUNT) {
        return ERR_CODEC_UNSUPPORTED;
    }
    if (wbuf_failure(job->w) != ERR_OK) {
        return wbuf_failure(job->w);
    }
    const struct codec_ops *ops = job->is_compression ? &writers[job->codec] : &readers[job->codec];
    *run = (struct codec_run){
        .ops = ops,
        .level = job->level,
        .in = job->in,
        .w = job->w,
        .start = job->w->size,
        .size_max = job->size_max,
        .hint = job->in.size * ops->ratio,
        .step_min = OUT_STEP_MIN,
        .step_max = SIZE_MAX,
    };
    enum err e = ops->open(run);
    if (e != ERR_OK) {
        run->w->size = run->start;
    }
    return e;
}

static enum err run_whole(const struct codec_job *job)
{
    struct codec_run run;
    enum err e = run_open(&run, job);
    if (e != ERR_OK) {
        return e;
    }
    while (e == ERR_OK && !run.is_done) {
        e = run.ops->step(&run);
    }
    run.ops->close(&run);
    if (e != ERR_OK) {
        run.w->size = run.start;
    }
    return e;
}

enum err codec_decompress(enum batch_codec codec, struct slice in, size_t size_max, struct wbuf *w)
{
    return run_whole(&(struct codec_job){.codec = codec, .in = in, .size_max = size_max, .w = w});
}

enum err codec_compress(enum batch_codec codec, struct slice in, struct wbuf *w)
{
    return run_whole(&(struct codec_job){
        .codec = codec,
        .is_compression = true,
        .level = CODEC_LEVEL_DEFAULT,
        .in = in,
        .size_max = SIZE_MAX,
        .w = w,
    });
}

enum err codec_run_new(const struct codec_job *job, struct codec_run **ret_run)
{
    struct codec_run *run = malloc(sizeof(*run));
    if (run == NULL) {
        return ERR_BUSY;
    }
    enum err e = run_open(run, job);
    if (e != ERR_OK) {
        free(run);
        return e;
    }
    *ret_run = run;
    return ERR_OK;
}

enum err codec_run_step(struct codec_run *run, size_t size_max, bool *ret_is_done)
{
    assert(!run->is_done);
    assert(size_max > 0);
    run->step_max = size_max;
    enum err e = run->ops->step(run);
    if (e == ERR_OK) {
        *ret_is_done = run->is_done;
    }
    return e;
}

void codec_run_free(struct codec_run *run)
{
    if (run != NULL) {
        run->ops->close(run);
        free(run);
    }
}
