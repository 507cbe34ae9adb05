#include "perf/bench/hlog.h"

#include <stdlib.h>
#include <time.h>
#include <zlib.h>

#include "core/assert.h"

enum {
    COOKIE_ENCODED = 0x1c849313, /* V2, words of 1 to 9 bytes. */
    COOKIE_COMPRESSED = 0x1c849314,
    ENCODED_SIZE_MAX = 9 * HDR_COUNTS + 64,
    WORD_BYTES_MAX = 9,
};

/* LEB128 of the zigzag value in at most 9 bytes: the ninth holds 8 bits. */
static void put_word(struct wbuf *w, int64_t value)
{
    uint64_t rest = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (int i = 1; i < WORD_BYTES_MAX && rest > 0x7F; i++) {
        wbuf_i8(w, (int8_t)(uint8_t)((rest & 0x7F) | 0x80));
        rest >>= 7;
    }
    wbuf_i8(w, (int8_t)(uint8_t)rest);
}

/* Counts up to the highest value's; what is behind is zero. */
static void put_counts(struct wbuf *w, const struct hdr *h)
{
    const uint32_t end = hdr_index(h->value_max) + 1;
    uint32_t i = 0;
    while (i < end) {
        const uint64_t count = h->counts[i++];
        if (count > 0) {
            put_word(w, (int64_t)count);
            continue;
        }
        int64_t zeros = 1;
        while (i < end && h->counts[i] == 0) {
            zeros++;
            i++;
        }
        put_word(w, zeros > 1 ? -zeros : 0);
    }
}

enum err hlog_encode(const struct hdr *h, struct wbuf *w)
{
    wbuf_i32(w, COOKIE_ENCODED);
    const size_t size_pos = wbuf_reserve(w, 4);
    wbuf_i32(w, 0); /* Not shifted. */
    wbuf_i32(w, HDR_DIGITS);
    wbuf_i64(w, 1);
    wbuf_u64(w, HDR_VALUE_MAX);
    wbuf_f64(w, 1.0);
    const size_t counts_pos = w->size;
    put_counts(w, h);
    if (wbuf_failure(w) == ERR_OK) {
        wbuf_patch_i32(w, size_pos, (int32_t)(w->size - counts_pos));
    }
    return wbuf_failure(w);
}

static enum err compress_into(struct slice plain, struct wbuf *w)
{
    uLongf size = compressBound(plain.size);
    uint8_t *compressed = malloc(size);
    if (compressed == NULL) {
        return ERR_BUSY;
    }
    const int result = compress(compressed, &size, plain.data, plain.size);
    if (result == Z_OK) {
        wbuf_i32(w, COOKIE_COMPRESSED);
        wbuf_i32(w, (int32_t)size);
        wbuf_bytes(w, compressed, size);
    }
    free(compressed);
    return result == Z_OK ? wbuf_failure(w) : ERR_BUSY;
}

static void put_base64(struct slice bytes, struct wbuf *w)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.size; i += 3) {
        const size_t left = bytes.size - i;
        const uint32_t group = (uint32_t)bytes.data[i] << 16 |
                               (left > 1 ? (uint32_t)bytes.data[i + 1] << 8 : 0) |
                               (left > 2 ? (uint32_t)bytes.data[i + 2] : 0);
        const char text[4] = {
            letters[group >> 18],
            letters[group >> 12 & 63],
            left > 1 ? letters[group >> 6 & 63] : '=',
            left > 2 ? letters[group & 63] : '=',
        };
        wbuf_bytes(w, text, sizeof(text));
    }
}

enum err hlog_encode_base64(const struct hdr *h, struct wbuf *w)
{
    struct wbuf plain;
    struct wbuf compressed;
    wbuf_init(&plain, ENCODED_SIZE_MAX);
    wbuf_init(&compressed, 2 * ENCODED_SIZE_MAX);
    enum err e = hlog_encode(h, &plain);
    if (e == ERR_OK) {
        e = compress_into(wbuf_slice(&plain), &compressed);
    }
    if (e == ERR_OK) {
        put_base64(wbuf_slice(&compressed), w);
        e = wbuf_failure(w);
    }
    wbuf_done(&plain);
    wbuf_done(&compressed);
    return e == ERR_OK ? ERR_OK : ERR_BUSY;
}

void hlog_begin(FILE *out, int64_t start_wall_ms)
{
    const time_t seconds = (time_t)(start_wall_ms / 1000);
    struct tm utc;
    char date[64] = "";
    if (gmtime_r(&seconds, &utc) != NULL) {
        (void)strftime(date, sizeof(date), "%a %b %d %H:%M:%S UTC %Y", &utc);
    }
    (void)fprintf(out,
                  "#[Logged with coreflume bench; values are microseconds]\n"
                  "#[Histogram log format version 1.3]\n"
                  "#[StartTime: %.3f (seconds since epoch), %s]\n"
                  "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
                  "\"Interval_Compressed_Histogram\"\n",
                  (double)start_wall_ms / 1000,
                  date);
    (void)fflush(out);
}

enum err hlog_write(FILE *out, const struct hlog_interval *i)
{
    struct wbuf text;
    wbuf_init(&text, 4 * ENCODED_SIZE_MAX);
    enum err e = hlog_encode_base64(i->histogram, &text);
    if (e == ERR_OK) {
        (void)fprintf(out,
                      "Tag=%s,%.3f,%.3f,%.3f,%.*s\n",
                      i->tag,
                      i->from_s,
                      i->length_s,
                      (double)i->histogram->value_max / 1000,
                      (int)text.size,
                      (const char *)text.data);
        (void)fflush(out);
    }
    wbuf_done(&text);
    return e;
}
