/* Goal: the encodings below the messages, at their edges; mostly the tagged section. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "kafka/proto/wire.h"

struct row {
    const char *name;
    uint8_t bytes[16];
    size_t size;
    enum err expected;
};

static enum err skip_tags(const struct row *row)
{
    struct rbuf in = rbuf_over(row->bytes, row->size);
    struct wire_reader r = {.in = &in, .is_flexible = true};
    wire_skip_tags(&r);
    return rbuf_finish(&in);
}

Test(wire, tagged_sections)
{
    static const struct row rows[] = {
        {"empty section", {0}, 1, ERR_OK},
        {"one without a value", {1, 0, 0}, 3, ERR_OK},
        {"two, ascending", {2, 0, 1, 0xaa, 7, 2, 1, 2}, 8, ERR_OK},
        {"largest tag", {1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0}, 7, ERR_OK},
        {"same tag twice", {2, 3, 0, 3, 0}, 5, ERR_CORRUPT},
        {"descending tags", {2, 3, 0, 2, 0}, 5, ERR_CORRUPT},
        {"value past the end", {1, 0, 2, 0xaa}, 4, ERR_EOF},
        {"fewer fields than counted", {2, 0, 0}, 3, ERR_EOF},
        {"more fields than counted", {1, 0, 0, 1, 0}, 5, ERR_CORRUPT},
        {"huge count", {0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}, 7, ERR_EOF},
        {"huge size", {1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, 7, ERR_EOF},
        {"nothing", {0}, 0, ERR_EOF},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert(eq(int, skip_tags(&rows[i]), rows[i].expected), "%s", rows[i].name);
    }
}

/* A known field must take exactly the bytes it announces: too few means that the sender knows
 * another type under this tag. */
Test(wire, a_tagged_value_fills_its_size)
{
    static const struct {
        uint8_t size;
        enum err expected;
    } rows[] = {{4, ERR_OK}, {3, ERR_EOF}, {5, ERR_CORRUPT}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint8_t bytes[] = {1, 0, rows[i].size, 0, 0, 0, 9, 0, 0};
        struct rbuf in = rbuf_over(bytes, 3 + (size_t)rows[i].size);
        struct wire_reader r = {.in = &in, .is_flexible = true};
        struct wire_tags tags = wire_read_tags(&r);
        int32_t value = 0;
        while (wire_next_tag(&r, &tags)) {
            value = rbuf_i32(&in);
        }
        /* Not rbuf_finish, which would also object to what is left over. */
        cr_assert(eq(int, in.failure, rows[i].expected), "size=%u", rows[i].size);
        cr_assert(rows[i].expected != ERR_OK || value == 9);
    }
}

/* The size in front of a tagged value grows with it. */
Test(wire, tagged_values_of_all_sizes)
{
    static const size_t sizes[] = {0, 1, 127, 128, 129, 16383, 16384, 2097151, 2097152};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct wbuf out;
        wbuf_init(&out, 4 << 20);
        struct wire_writer w = {.out = &out, .is_flexible = true};
        wbuf_uvarint(&out, 1);
        const size_t pos = wire_begin_tag(&w, 300);
        for (size_t k = 0; k < sizes[i]; k++) {
            wbuf_i8(&out, (int8_t)k);
        }
        wire_end_tag(&w, pos);
        cr_assert(eq(int, wbuf_failure(&out), ERR_OK));

        struct rbuf in = rbuf_over(out.data, out.size);
        struct wire_reader r = {.in = &in, .is_flexible = true};
        struct wire_tags tags = wire_read_tags(&r);
        cr_assert(wire_next_tag(&r, &tags));
        cr_assert(eq(i64, tags.tag, 300));
        cr_assert(eq(sz, rbuf_left(&in), sizes[i]));
        for (size_t k = 0; k < sizes[i]; k++) {
            cr_assert(eq(i8, rbuf_i8(&in), (int8_t)k));
        }
        cr_assert(not(wire_next_tag(&r, &tags)));
        cr_assert(eq(int, rbuf_finish(&in), ERR_OK));
        wbuf_done(&out);
    }
}

static enum err read_string(const uint8_t *bytes, size_t size, bool is_flexible, bool is_nullable)
{
    struct rbuf in = rbuf_over(bytes, size);
    struct wire_reader r = {.in = &in, .is_flexible = is_flexible};
    (void)wire_read_string(&r, is_nullable);
    return rbuf_finish(&in);
}

Test(wire, string_lengths)
{
    static const struct {
        const char *name;
        uint8_t bytes[8];
        size_t size;
        bool is_flexible;
        bool is_nullable;
        enum err expected;
    } rows[] = {
        {"null", {0xff, 0xff}, 2, false, true, ERR_OK},
        {"null, not allowed", {0xff, 0xff}, 2, false, false, ERR_CORRUPT},
        {"below null", {0xff, 0xfe}, 2, false, true, ERR_CORRUPT},
        {"empty", {0, 0}, 2, false, false, ERR_OK},
        {"one", {0, 1, 'a'}, 3, false, false, ERR_OK},
        {"cut", {0, 2, 'a'}, 3, false, false, ERR_EOF},
        {"compact null", {0}, 1, true, true, ERR_OK},
        {"compact null, not allowed", {0}, 1, true, false, ERR_CORRUPT},
        {"compact empty", {1}, 1, true, false, ERR_OK},
        {"compact one", {2, 'a'}, 2, true, false, ERR_OK},
        {"compact, longer than any string", {0x81, 0x80, 0x02}, 3, true, false, ERR_CORRUPT},
        {"compact, largest number", {0xff, 0xff, 0xff, 0xff, 0x0f}, 5, true, false, ERR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const enum err e =
            read_string(rows[i].bytes, rows[i].size, rows[i].is_flexible, rows[i].is_nullable);
        cr_assert(eq(int, e, rows[i].expected), "%s", rows[i].name);
    }
}

Test(wire, a_string_that_is_too_long_is_refused)
{
    static uint8_t text[WIRE_STRING_SIZE_MAX + 1];
    for (int is_flexible = 0; is_flexible <= 1; is_flexible++) {
        struct wbuf out;
        wbuf_init(&out, 1 << 20);
        struct wire_writer w = {.out = &out, .is_flexible = is_flexible == 1};
        wire_write_string(&w, slice_of(text, WIRE_STRING_SIZE_MAX), false);
        cr_assert(eq(int, wbuf_failure(&out), ERR_OK));
        wire_write_string(&w, slice_of(text, WIRE_STRING_SIZE_MAX + 1), false);
        cr_assert(eq(int, wbuf_failure(&out), ERR_INVALID));
        wbuf_done(&out);
    }
}

/* What a definition calls long: in compact form alone. */
Test(wire, a_long_string_may_be_too_long)
{
    static uint8_t text[2 * WIRE_STRING_SIZE_MAX];
    for (int is_flexible = 0; is_flexible <= 1; is_flexible++) {
        struct wbuf out;
        wbuf_init(&out, 1 << 20);
        struct wire_writer w = {.out = &out, .is_flexible = is_flexible == 1};
        wire_write_long_string(&w, slice_of(text, sizeof(text)), false);
        cr_assert(eq(int, wbuf_failure(&out), is_flexible == 1 ? ERR_OK : ERR_INVALID));
        struct rbuf in = rbuf_over(out.data, out.size);
        struct wire_reader r = {.in = &in, .is_flexible = true};
        if (is_flexible == 1) {
            cr_assert(eq(sz, wire_read_long_string(&r, false).size, sizeof(text)));
            in = rbuf_over(out.data, out.size - 1);
            cr_assert(slice_is_null(wire_read_long_string(&r, false)));
            cr_assert(eq(int, in.failure, ERR_EOF));
        }
        wbuf_done(&out);
    }
}

/* A count is believed only as far as the bytes go; no memory is taken before. */
Test(wire, counts_are_capped_by_the_bytes_left)
{
    static const uint8_t huge[] = {0x77, 0x35, 0x94, 0x00, 1, 2, 3, 4};
    static const uint8_t fits[] = {0, 0, 0, 2, 1, 2, 3, 4};
    struct arena a;
    arena_init(&a, 1 << 20);
    struct rbuf in = rbuf_over(huge, sizeof(huge));
    struct wire_reader r = {.in = &in, .arena = &a};
    struct wire_array array = wire_read_array(&r, true, 1000, 2);
    cr_assert(eq(int, in.failure, ERR_EOF));
    cr_assert(zero(ptr, array.items));
    cr_assert(eq(sz, a.used_size, 0));

    in = rbuf_over(fits, sizeof(fits));
    array = wire_read_array(&r, true, 1000, 2);
    cr_assert(eq(sz, array.count, 2));
    in = rbuf_over(fits, sizeof(fits));
    array = wire_read_array(&r, true, 1000, 3);
    cr_assert(eq(int, in.failure, ERR_EOF));
    arena_done(&a);
}
