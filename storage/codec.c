#include "storage/codec.h"

#include <lz4frame.h>
#include <snappy-c.h>
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
    LZ4_FLG_FIXED_MASK = 0xe1, /* Version, block independence, dictionary id. */
    LZ4_FLG_FIXED = 0x60,      /* Version 01, independent blocks, no dictionary. */
};

static const uint8_t XERIAL_MAGIC[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

/* Room to write decompressed bytes to: a piece of w, given in growing steps and cut to what was
 * used, under a limit that does not depend on what the input claims. */
struct out {
    struct wbuf *w;
    size_t start; /* w's size before. */
    size_t size_max;
    size_t hint;     /* First step: a guess at the output's size. */
    size_t step_min; /* Of room: what the codec needs to write there directly. */
    uint8_t *room;
    size_t room_size;
};

static struct out out_over(struct wbuf *w, size_t size_max, size_t hint)
{
    return (struct out){
        .w = w, .start = w->size, .size_max = size_max, .hint = hint, .step_min = OUT_STEP_MIN};
}

static enum err out_failure(const struct out *o)
{
    enum err e = wbuf_failure(o->w);
    return e == ERR_OK ? ERR_TOO_LARGE : e;
}

/* Appends exactly size bytes of room. */
static enum err out_exact(struct out *o, size_t size)
{
    if (size > o->size_max - (o->w->size - o->start)) {
        return ERR_TOO_LARGE;
    }
    o->room = wbuf_extend(o->w, size);
    o->room_size = size;
    return o->room == NULL ? out_failure(o) : ERR_OK;
}

/* Appends room for the next step. Doubling keeps the number of steps logarithmic. */
static enum err out_grow(struct out *o)
{
    size_t used = o->w->size - o->start;
    size_t step = used == 0 ? o->hint : used;
    if (step < o->step_min) {
        step = o->step_min;
    }
    size_t left = o->size_max - used;
    if (o->w->size_max - o->w->size < left) {
        left = o->w->size_max - o->w->size;
    }
    if (left == 0) {
        return ERR_TOO_LARGE;
    }
    return out_exact(o, step < left ? step : left);
}

/* The last unused bytes of the room were not needed after all. */
static void out_cut(struct out *o, size_t unused)
{
    assert(unused <= o->room_size);
    o->w->size -= unused;
    o->room_size = 0;
}

/* ---- gzip ---------------------------------------------------------------------------------- */

static enum err gzip_inflate(z_stream *z, struct out *o)
{
    while (true) {
        enum err e = out_grow(o);
        if (e != ERR_OK) {
            return e;
        }
        z->next_out = o->room;
        z->avail_out = (uInt)o->room_size;
        int result = Z_OK;
        /* Also with the room full to the byte: only the trailer tells whether that was the end. */
        while (result == Z_OK) {
            result = inflate(z, Z_NO_FLUSH);
            if (result == Z_STREAM_END && z->avail_in > 0) {
                result = inflateReset(z); /* The next member. */
            }
        }
        bool is_full = z->avail_out == 0;
        out_cut(o, z->avail_out);
        if (result == Z_STREAM_END) {
            return ERR_OK;
        }
        if (result == Z_MEM_ERROR) {
            return ERR_BUSY;
        }
        if (result != Z_BUF_ERROR || !is_full) {
            return ERR_CORRUPT;
        }
    }
}

static enum err gzip_decompress(struct slice in, struct out *o)
{
    if (in.size > UINT32_MAX) {
        return ERR_TOO_LARGE;
    }
    z_stream z = {.next_in = (z_const Bytef *)in.data, .avail_in = (uInt)in.size};
    if (inflateInit2(&z, GZIP_WINDOW_BITS) != Z_OK) {
        return ERR_BUSY;
    }
    enum err e = gzip_inflate(&z, o);
    (void)inflateEnd(&z);
    return e;
}

static enum err gzip_compress(struct slice in, struct out *o)
{
    z_stream z = {.next_in = (z_const Bytef *)in.data, .avail_in = (uInt)in.size};
    if (deflateInit2(&z,
                     Z_DEFAULT_COMPRESSION,
                     Z_DEFLATED,
                     GZIP_WINDOW_BITS,
                     GZIP_MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return ERR_BUSY;
    }
    enum err e = out_exact(o, deflateBound(&z, in.size));
    if (e == ERR_OK) {
        z.next_out = o->room;
        z.avail_out = (uInt)o->room_size;
        int result = deflate(&z, Z_FINISH);
        assert(result == Z_STREAM_END); /* deflateBound says that it fits. */
        out_cut(o, z.avail_out);
    }
    (void)deflateEnd(&z);
    return e;
}

/* ---- snappy -------------------------------------------------------------------------------- */

static enum err snappy_block_decompress(struct slice in, struct out *o)
{
    size_t size;
    if (snappy_uncompressed_length((const char *)in.data, in.size, &size) != SNAPPY_OK) {
        return ERR_CORRUPT;
    }
    enum err e = out_exact(o, size);
    if (e != ERR_OK) {
        return e;
    }
    if (snappy_uncompress((const char *)in.data, in.size, (char *)o->room, &size) != SNAPPY_OK) {
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

static bool is_xerial(struct slice in)
{
    return in.size >= XERIAL_HEADER_SIZE &&
           memcmp(in.data, XERIAL_MAGIC, sizeof(XERIAL_MAGIC)) == 0;
}

static enum err xerial_decompress(struct slice in, struct out *o)
{
    struct rbuf r = rbuf_over(in.data, in.size);
    while (rbuf_left(&r) > 0) {
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
        enum err e = snappy_block_decompress(block, o);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

static enum err snappy_decompress(struct slice in, struct out *o)
{
    return is_xerial(in) ? xerial_decompress(in, o) : snappy_block_decompress(in, o);
}

static enum err xerial_chunk_compress(struct slice chunk, struct out *o)
{
    size_t size_pos = wbuf_reserve(o->w, sizeof(uint32_t));
    enum err e = out_exact(o, snappy_max_compressed_length(chunk.size));
    if (e != ERR_OK) {
        return e;
    }
    size_t size = o->room_size;
    snappy_status status =
        snappy_compress((const char *)chunk.data, chunk.size, (char *)o->room, &size);
    assert(status == SNAPPY_OK); /* Fails only for lack of room. */
    out_cut(o, o->room_size - size);
    wbuf_patch_u32(o->w, size_pos, (uint32_t)size);
    return ERR_OK;
}

static enum err snappy_compress_xerial(struct slice in, struct out *o)
{
    wbuf_bytes(o->w, XERIAL_MAGIC, sizeof(XERIAL_MAGIC));
    wbuf_u32(o->w, 1); /* Version. */
    wbuf_u32(o->w, 1); /* Lowest version that can read this. */
    for (size_t pos = 0; pos < in.size; pos += XERIAL_CHUNK_SIZE) {
        size_t size = in.size - pos < XERIAL_CHUNK_SIZE ? in.size - pos : XERIAL_CHUNK_SIZE;
        enum err e = xerial_chunk_compress(slice_of(in.data + pos, size), o);
        if (e != ERR_OK) {
            return e;
        }
    }
    return wbuf_failure(o->w);
}

/* ---- lz4 ----------------------------------------------------------------------------------- */

static enum err lz4_frame_decompress(LZ4F_dctx *context, struct slice in, struct out *o)
{
    size_t in_pos = 0;
    size_t wanted = 1; /* 0 = the frame is complete. */
    while (wanted != 0) {
        enum err e = out_grow(o);
        if (e != ERR_OK) {
            return e;
        }
        size_t out_pos = 0;
        bool is_moving = true;
        while (is_moving && wanted != 0) {
            size_t out_size = o->room_size - out_pos;
            size_t in_size = in.size - in_pos;
            wanted = LZ4F_decompress(
                context, o->room + out_pos, &out_size, in.data + in_pos, &in_size, NULL);
            if (LZ4F_isError(wanted)) {
                return ERR_CORRUPT;
            }
            in_pos += in_size;
            out_pos += out_size;
            is_moving = in_size > 0 || out_size > 0;
        }
        bool is_full = out_pos == o->room_size;
        out_cut(o, o->room_size - out_pos);
        if (wanted != 0 && !is_full) {
            return ERR_CORRUPT; /* It had room, and stopped for lack of input. */
        }
    }
    /* Java's reader stops at the end of the first frame and would lose what follows. */
    return in_pos == in.size ? ERR_OK : ERR_CORRUPT;
}

static enum err lz4_decompress(struct slice in, struct out *o)
{
    if (in.size <= LZ4_BD_POS || (in.data[LZ4_FLG_POS] & LZ4_FLG_FIXED_MASK) != LZ4_FLG_FIXED) {
        return ERR_CORRUPT;
    }
    unsigned code = in.data[LZ4_BD_POS] >> LZ4_BLOCK_SIZE_SHIFT;
    if (code < LZ4_BLOCK_SIZE_CODE_MIN || code > LZ4_BLOCK_SIZE_CODE_MAX) {
        return ERR_CORRUPT;
    }
    /* With room for a whole block it decodes there, and not into memory of its own to copy from. */
    o->step_min = (size_t)LZ4_BLOCK_SIZE_MIN << 2 * (code - LZ4_BLOCK_SIZE_CODE_MIN);
    LZ4F_dctx *context;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) {
        return ERR_BUSY;
    }
    enum err e = lz4_frame_decompress(context, in, o);
    (void)LZ4F_freeDecompressionContext(context);
    return e;
}

static enum err lz4_compress(struct slice in, struct out *o)
{
    const LZ4F_preferences_t preferences = {
        .frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent},
    };
    enum err e = out_exact(o, LZ4F_compressFrameBound(in.size, &preferences));
    if (e != ERR_OK) {
        return e;
    }
    size_t size = LZ4F_compressFrame(o->room, o->room_size, in.data, in.size, &preferences);
    if (LZ4F_isError(size)) {
        return ERR_BUSY; /* The room suffices; what is left is its own memory. */
    }
    out_cut(o, o->room_size - size);
    return ERR_OK;
}

/* ---- zstd ---------------------------------------------------------------------------------- */

static enum err zstd_stream_decompress(ZSTD_DStream *stream, struct slice in, struct out *o)
{
    ZSTD_inBuffer source = {.src = in.data, .size = in.size};
    size_t wanted = 1; /* 0 = a frame is complete and all of it written. */
    while (wanted != 0 || source.pos < source.size) {
        enum err e = out_grow(o);
        if (e != ERR_OK) {
            return e;
        }
        ZSTD_outBuffer room = {.dst = o->room, .size = o->room_size};
        bool is_moving = true;
        while (is_moving && (wanted != 0 || source.pos < source.size)) {
            size_t moved_before = source.pos + room.pos;
            wanted = ZSTD_decompressStream(stream, &room, &source);
            if (ZSTD_isError(wanted)) {
                return ERR_CORRUPT;
            }
            is_moving = source.pos + room.pos > moved_before;
        }
        bool is_full = room.pos == room.size;
        out_cut(o, room.size - room.pos);
        if (wanted != 0 && !is_full) {
            return ERR_CORRUPT; /* It had room, and stopped for lack of input. */
        }
    }
    return ERR_OK;
}

static enum err zstd_decompress(struct slice in, struct out *o)
{
    /* The window that a frame may ask for is bounded by the library (128 MiB, what level 22 needs);
     * only the part that output was written to becomes real memory. */
    ZSTD_DStream *stream = ZSTD_createDStream();
    if (stream == NULL) {
        return ERR_BUSY;
    }
    /* If a size is given and true, it decodes to its place at once. */
    unsigned long long size = ZSTD_getFrameContentSize(in.data, in.size);
    if (size != ZSTD_CONTENTSIZE_UNKNOWN && size != ZSTD_CONTENTSIZE_ERROR && size > o->hint) {
        o->hint = size < o->size_max ? (size_t)size : o->size_max;
    }
    enum err e = zstd_stream_decompress(stream, in, o);
    (void)ZSTD_freeDStream(stream);
    return e;
}

static enum err zstd_compress(struct slice in, struct out *o)
{
    enum err e = out_exact(o, ZSTD_compressBound(in.size));
    if (e != ERR_OK) {
        return e;
    }
    size_t size = ZSTD_compress(o->room, o->room_size, in.data, in.size, ZSTD_CLEVEL_DEFAULT);
    if (ZSTD_isError(size)) {
        return ERR_BUSY;
    }
    out_cut(o, o->room_size - size);
    return ERR_OK;
}

/* ---- all ----------------------------------------------------------------------------------- */

static enum err copy(struct slice in, struct out *o)
{
    enum err e = out_exact(o, in.size);
    if (e == ERR_OK && in.size > 0) {
        memcpy(o->room, in.data, in.size);
    }
    return e;
}

struct codec {
    enum err (*decompress)(struct slice in, struct out *o);
    enum err (*compress)(struct slice in, struct out *o);
    size_t ratio; /* Typical, for the first guess at the output's size. */
};

static const struct codec codecs[CODEC_COUNT] = {
    [CODEC_NONE] = {copy, copy, 1},
    [CODEC_GZIP] = {gzip_decompress, gzip_compress, 4},
    [CODEC_SNAPPY] = {snappy_decompress, snappy_compress_xerial, 2},
    [CODEC_LZ4] = {lz4_decompress, lz4_compress, 3},
    [CODEC_ZSTD] = {zstd_decompress, zstd_compress, 4},
};

enum err codec_decompress(enum batch_codec codec, struct slice in, size_t size_max, struct wbuf *w)
{
    if (codec >= CODEC_COUNT) {
        return ERR_CODEC_UNSUPPORTED;
    }
    if (wbuf_failure(w) != ERR_OK) {
        return wbuf_failure(w);
    }
    struct out o = out_over(w, size_max, in.size * codecs[codec].ratio);
    enum err e = codecs[codec].decompress(in, &o);
    if (e != ERR_OK) {
        w->size = o.start;
    }
    return e;
}

enum err codec_compress(enum batch_codec codec, struct slice in, struct wbuf *w)
{
    if (codec >= CODEC_COUNT) {
        return ERR_CODEC_UNSUPPORTED;
    }
    if (wbuf_failure(w) != ERR_OK) {
        return wbuf_failure(w);
    }
    struct out o = out_over(w, w->size_max, 0);
    enum err e = codecs[codec].compress(in, &o);
    if (e != ERR_OK) {
        w->size = o.start;
    }
    return e;
}
