/* Writing: what is written reads back, limits stick, growth and fixed memory. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/rand.h"
#include "core/rbuf.h"
#include "core/wbuf.h"

static const struct uuid SOME_ID = {
    .bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

static void write_all(struct wbuf *w, uint64_t v)
{
    wbuf_i8(w, (int8_t)v);
    wbuf_i16(w, (int16_t)v);
    wbuf_u16(w, (uint16_t)v);
    wbuf_i32(w, (int32_t)v);
    wbuf_u32(w, (uint32_t)v);
    wbuf_i64(w, (int64_t)v);
    wbuf_u64(w, v);
    wbuf_f64(w, (double)v);
    wbuf_bool(w, v % 2 == 1);
    wbuf_uuid(w, &SOME_ID);
    wbuf_uvarint(w, (uint32_t)v);
    wbuf_uvarlong(w, v);
    wbuf_varint(w, (int32_t)v);
    wbuf_varlong(w, (int64_t)v);
    wbuf_bytes(w, "xyz", 3);
}

static void check_all(struct slice bytes, uint64_t v)
{
    struct rbuf r = rbuf_over(bytes.data, bytes.size);
    cr_assert(eq(i8, rbuf_i8(&r), (int8_t)v));
    cr_assert(eq(i16, rbuf_i16(&r), (int16_t)v));
    cr_assert(eq(u16, rbuf_u16(&r), (uint16_t)v));
    cr_assert(eq(i32, rbuf_i32(&r), (int32_t)v));
    cr_assert(eq(u32, rbuf_u32(&r), (uint32_t)v));
    cr_assert(eq(i64, rbuf_i64(&r), (int64_t)v));
    cr_assert(eq(u64, rbuf_u64(&r), v));
    double f = rbuf_f64(&r);
    double expected = (double)v;
    cr_assert(eq(int, memcmp(&f, &expected, sizeof(f)), 0));
    cr_assert(eq(int, rbuf_bool(&r), v % 2 == 1));
    struct uuid u = rbuf_uuid(&r);
    cr_assert(uuid_equal(&u, &SOME_ID));
    cr_assert(eq(u32, rbuf_uvarint(&r), (uint32_t)v));
    cr_assert(eq(u64, rbuf_uvarlong(&r), v));
    cr_assert(eq(i32, rbuf_varint(&r), (int32_t)v));
    cr_assert(eq(i64, rbuf_varlong(&r), (int64_t)v));
    cr_assert(slice_equal_string(rbuf_bytes(&r, 3), "xyz"));
    cr_assert(eq(int, rbuf_finish(&r), ERR_OK));
}

Test(wbuf, what_is_written_reads_back)
{
    struct rand r;
    rand_init_seed(&r, 3);
    for (int i = 0; i < 2000; i++) {
        uint64_t v = rand_u64(&r) >> rand_below(&r, 64);
        v = rand_one_in(&r, 2) ? v : ~v;
        struct wbuf w;
        wbuf_init(&w, 1 << 20);
        write_all(&w, v);
        cr_assert(eq(int, wbuf_failure(&w), ERR_OK));
        check_all(wbuf_slice(&w), v);
        wbuf_done(&w);
    }
}

/* However small the limit, the failure sticks, and the bytes before it are right. */
Test(wbuf, every_limit)
{
    struct wbuf whole;
    wbuf_init(&whole, 1 << 20);
    write_all(&whole, UINT64_MAX);
    for (size_t size_max = 0; size_max < whole.size; size_max++) {
        struct wbuf w;
        wbuf_init(&w, size_max);
        write_all(&w, UINT64_MAX);
        cr_assert(eq(int, wbuf_failure(&w), ERR_TOO_LARGE));
        cr_assert(le(sz, w.size, size_max));
        if (w.size > 0) {
            cr_assert(eq(int, memcmp(w.data, whole.data, w.size), 0));
        }
        wbuf_done(&w);

        uint8_t *memory = malloc(size_max + 1);
        memory[size_max] = 0x5a;
        wbuf_init_fixed(&w, memory, size_max);
        write_all(&w, UINT64_MAX);
        cr_assert(eq(int, wbuf_failure(&w), ERR_TOO_LARGE));
        cr_assert(eq(u8, memory[size_max], 0x5a));
        wbuf_done(&w);
        free(memory);
    }
    wbuf_done(&whole);
}

Test(wbuf, reserved_bytes_are_patched)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    size_t size_pos = wbuf_reserve(&w, 4);
    for (uint32_t i = 0; i < 1000; i++) { /* Through several growths. */
        wbuf_u32(&w, i);
    }
    wbuf_patch_i32(&w, size_pos, (int32_t)(w.size - 4));
    struct rbuf r = rbuf_over(w.data, w.size);
    cr_assert(eq(i32, rbuf_i32(&r), 4000));
    for (uint32_t i = 0; i < 1000; i++) {
        cr_assert(eq(u32, rbuf_u32(&r), i));
    }
    wbuf_done(&w);

    uint8_t small[2];
    wbuf_init_fixed(&w, small, sizeof(small));
    size_pos = wbuf_reserve(&w, 4);
    wbuf_patch_u32(&w, size_pos, 1);
    cr_assert(eq(int, wbuf_failure(&w), ERR_TOO_LARGE));
}

Test(wbuf, take_hands_the_memory_over)
{
    struct wbuf w;
    wbuf_init(&w, 100);
    wbuf_bytes(&w, "abc", 4);
    size_t size = 0;
    char *text = (char *)wbuf_take(&w, &size);
    cr_assert(eq(sz, size, 4));
    cr_assert(eq(str, text, "abc"));
    cr_assert(eq(sz, w.size, 0));
    wbuf_u32(&w, 1);
    cr_assert(eq(int, wbuf_failure(&w), ERR_OK));
    free(text);
    wbuf_done(&w);
}
