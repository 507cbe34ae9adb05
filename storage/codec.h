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

#include <stddef.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "storage/batch.h"

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
