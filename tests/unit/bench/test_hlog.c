/* HdrHistogram's V2 encoding: against bytes worked out by hand, and against what its own library
 * wrote (tests/golden/hlog). */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "perf/bench/hlog.h"

enum {
    HEADER_SIZE = 40,
    COUNTS_SIZE_POS = 4,
    TEXT_SIZE_MAX = 1 << 20,
};

static struct hdr h;
static struct wbuf plain;

static void setup(void)
{
    hdr_reset(&h);
    wbuf_init(&plain, TEXT_SIZE_MAX);
}

static void teardown(void)
{
    wbuf_done(&plain);
}

TestSuite(bench_hlog, .init = setup, .fini = teardown);

static void expect_counts(const uint8_t *bytes, size_t size)
{
    plain.size = 0;
    cr_assert(hlog_encode(&h, &plain) == ERR_OK);
    cr_assert(eq(sz, plain.size, HEADER_SIZE + size));
    cr_assert(eq(int, plain.data[COUNTS_SIZE_POS + 3], (int)size));
    cr_assert(memcmp(plain.data + HEADER_SIZE, bytes, size) == 0);
}

Test(bench_hlog, the_header_names_the_layout)
{
    static const uint8_t header[HEADER_SIZE] = {
        0x1c, 0x84, 0x93, 0x13, 0, 0, 0, 1, 0,    0,    0,    0, 0,    0,    0, 3, 0, 0, 0, 0,
        0,    0,    0,    1,    0, 0, 0, 0, 0xd6, 0x93, 0xa4, 0, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0};
    cr_assert(hlog_encode(&h, &plain) == ERR_OK);
    cr_assert(eq(sz, plain.size, HEADER_SIZE + 1));
    cr_assert(memcmp(plain.data, header, HEADER_SIZE) == 0);
}

/* Zigzag: n becomes 2n, a run of n zeros 2n - 1; a single zero stays 0. */
Test(bench_hlog, counts_and_runs_of_zeros)
{
    expect_counts((const uint8_t[]){0}, 1);
    hdr_record(&h, 1, 1);
    hdr_record(&h, 5, 2);
    expect_counts((const uint8_t[]){0, 2, 5, 4}, 4);
    hdr_record(&h, 0, 64);
    expect_counts((const uint8_t[]){0x80, 0x01, 2, 5, 4}, 5);
    hdr_record(&h, 4096, 1); /* Bucket 3072: 3066 zeros before it. */
    expect_counts((const uint8_t[]){0x80, 0x01, 2, 5, 4, 0xf3, 0x2f, 2}, 8);
}

/* The longest word: nine bytes, the last of them whole. */
Test(bench_hlog, the_largest_counts_take_nine_bytes)
{
    hdr_record(&h, 0, INT64_MAX);
    expect_counts((const uint8_t[]){0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 9);
}

/* ---- base64, as a reader takes it apart ---- */

static int sextet(char c)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = strchr(letters, c);
    return at == NULL || c == '\0' ? 0 : (int)(at - letters);
}

static size_t unbase64(const char *text, size_t size, uint8_t *out)
{
    size_t out_size = 0;
    for (size_t i = 0; i + 3 < size; i += 4) {
        const int group = sextet(text[i]) << 18 | sextet(text[i + 1]) << 12 |
                          sextet(text[i + 2]) << 6 | sextet(text[i + 3]);
        out[out_size++] = (uint8_t)(group >> 16);
        if (text[i + 2] != '=') {
            out[out_size++] = (uint8_t)(group >> 8);
        }
        if (text[i + 3] != '=') {
            out[out_size++] = (uint8_t)group;
        }
    }
    return out_size;
}

/* What a compressed histogram holds. */
static size_t unpack(const char *text, size_t size, uint8_t *out, size_t capacity)
{
    static uint8_t packed[TEXT_SIZE_MAX];
    const size_t packed_size = unbase64(text, size, packed);
    static const uint8_t cookie[] = {0x1c, 0x84, 0x93, 0x14};
    cr_assert(lt(sz, 8, packed_size));
    cr_assert(memcmp(packed, cookie, sizeof(cookie)) == 0);
    uLongf out_size = capacity;
    cr_assert(eq(int, uncompress(out, &out_size, packed + 8, packed_size - 8), Z_OK));
    return out_size;
}

static uint8_t unpacked[TEXT_SIZE_MAX];

Test(bench_hlog, base64_holds_the_same_compressed)
{
    struct wbuf text;
    wbuf_init(&text, TEXT_SIZE_MAX);
    for (uint64_t v = 1; v < 100000; v = v * 3 / 2 + 1) { /* So that all three endings occur. */
        hdr_record(&h, v, v);
        plain.size = 0;
        text.size = 0;
        cr_assert(hlog_encode(&h, &plain) == ERR_OK);
        cr_assert(hlog_encode_base64(&h, &text) == ERR_OK);
        const size_t size = unpack((const char *)text.data, text.size, unpacked, sizeof(unpacked));
        cr_assert(eq(sz, size, plain.size));
        cr_assert(memcmp(unpacked, plain.data, size) == 0);
    }
    wbuf_done(&text);
}

Test(bench_hlog, a_line_is_an_interval)
{
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    hdr_record(&h, 2500, 1);
    hlog_begin(file, 1700000000123);
    const struct hlog_interval interval = {
        .tag = "publish", .from_s = 1, .length_s = 0.5, .histogram = &h};
    cr_assert(hlog_write(file, &interval) == ERR_OK);
    (void)fclose(file);
    cr_assert(strstr(out, "#[Histogram log format version 1.3]\n") != NULL);
    cr_assert(strstr(out,
                     "#[StartTime: 1700000000.123 (seconds since epoch), Tue Nov 14 22:13:20 UTC "
                     "2023]\n") != NULL);
    const char *line = strstr(out, "\nTag=publish,1.000,0.500,2.500,HISTFAAA");
    cr_assert(line != NULL, "%s", out);
    free(out);
}

/* Lines of `values.txt`: VALUE COUNT; `encoded.txt` is what the reference library made of them. */
static char *read_golden(const char *name, size_t *ret_size)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/hlog/%s", GOLDEN_DIR, name);
    FILE *file = fopen(path, "re");
    cr_assert(file != NULL, "%s", path);
    char *text = calloc(1, TEXT_SIZE_MAX);
    *ret_size = fread(text, 1, TEXT_SIZE_MAX - 1, file);
    (void)fclose(file);
    return text;
}

Test(bench_hlog, the_reference_library_encodes_the_same)
{
    size_t values_size;
    size_t encoded_size;
    char *values = read_golden("values.txt", &values_size);
    char *encoded = read_golden("encoded.txt", &encoded_size);
    char *at = values;
    for (;;) {
        char *end = NULL;
        const uint64_t value = strtoull(at, &end, 10);
        if (end == at) {
            break;
        }
        at = end;
        hdr_record(&h, value, strtoull(at, &at, 10));
    }
    cr_assert(lt(u64, 100, h.count));
    cr_assert(hlog_encode(&h, &plain) == ERR_OK);
    const size_t size = unpack(encoded, strcspn(encoded, "\n"), unpacked, sizeof(unpacked));
    cr_assert(eq(sz, size, plain.size));
    cr_assert(memcmp(unpacked, plain.data, size) == 0);
    free(values);
    free(encoded);
}
