/* The compression of a batch's records part, as Kafka's clients write it (PROTOCOL 7).
 *
 *   gzip    RFC 1952, one or more members
 *   snappy  one raw block, or the xerial stream (magic, versions, chunks of length + raw block)
 *   lz4     one frame with independent blocks, no dictionary: what Java's reader takes
 *   zstd    one or more frames, the content size in their headers is not relied on
 *
 * Bytes come from outside: output is always bounded by the caller, memory with it.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "storage/batch.h"

enum {
    CODEC_LEVEL_DEFAULT = INT32_MIN, /* The codec's own. */
};

/* Appends what in decompresses to, at most size_max bytes, to w. On error w->size is as before.
 *   ERR_CORRUPT            not a whole and valid stream
 *   ERR_TOO_LARGE          more than size_max, or than w takes
 *   ERR_BUSY               no memory
 *   ERR_CODEC_UNSUPPORTED  no such codec
 */
enum err codec_decompress(enum batch_codec codec, struct slice in, size_t size_max, struct wbuf *w);

/* Appends the compressed form of in to w: levels are the codecs' defaults, framing is what every
 * client reads (xerial for snappy, 64 KiB independent blocks for lz4). CODEC_NONE copies. On error
 * w->size is as before. ERR_TOO_LARGE, ERR_BUSY, ERR_CODEC_UNSUPPORTED */
enum err codec_compress(enum batch_codec codec, struct slice in, struct wbuf *w);

/* Either of the two in steps, for what would hold up a turn of the loop. */
struct codec_job {
    enum batch_codec codec;
    bool is_compression;
    int32_t level; /* Of compression; CODEC_LEVEL_DEFAULT, or as Kafka's compression.<codec>.level:
                      9 of lz4 is its fast compressor. */
    struct slice in; /* Valid until the run is freed, and so is w. */
    size_t size_max; /* Of what is appended. */
    struct wbuf *w;  /* Used by nobody else meanwhile. */
};
struct codec_run;
/* Errors as above. */
enum err codec_run_new(const struct codec_job *job, struct codec_run **ret_run);
/* Goes on by about size_max plain bytes; zstd compresses no less than 8 KiB, lz4 by its block
 * of 64 KiB, and a raw snappy block is one piece. After an error, or when it is done, only
 * codec_run_free may follow; after an error w holds anything. */
enum err codec_run_step(struct codec_run *run, size_t size_max, bool *ret_is_done);
/* Accepts NULL. */
void codec_run_free(struct codec_run *run);
