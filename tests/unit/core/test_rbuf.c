/* Reading: known encodings, every cut of a message, and hostile lengths. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "core/rbuf.h"
#include "core/wbuf.h"

struct varint_row {
    int64_t value;
    const char *hex;
};

static size_t from_hex(const char *hex, uint8_t *ret_bytes)
{
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++) {
        unsigned byte;
        cr_assert(eq(int, sscanf(hex + 2 * i, "%2x", &byte), 1));
        ret_bytes[i] = (uint8_t)byte;
    }
    return size;
}

/* The null value, and nothing taken from it. */
Test(rbuf, the_null_value_reads_as_empty)
{
    struct rbuf r = rbuf_over(NULL, 0);
    cr_assert(eq(sz, rbuf_left(&r), 0));
    cr_assert(eq(sz, rbuf_bytes(&r, 0).size, 0));
    cr_assert(eq(int, rbuf_finish(&r), ERR_OK));
}

/* The vectors of the protocol notes, section 26. */
Test(rbuf, zigzag_vectors)
{
    const struct varint_row rows[] = {
        {0, "00"},
        {-1, "01"},
        {1, "02"},
        {63, "7e"},
        {64, "8001"},
        {-64, "7f"},
        {-65, "8101"},
        {300, "d804"},
        {2147483647, "feffffff0f"},
        {-2147483648ll, "ffffffff0f"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[16];
        size_t size = from_hex(rows[i].hex, bytes);
        struct rbuf r = rbuf_over(bytes, size);
        cr_assert(eq(i32, rbuf_varint(&r), (int32_t)rows[i].value));
        cr_assert(eq(int, rbuf_finish(&r), ERR_OK));
        r = rbuf_over(bytes, size);
        cr_assert(eq(i64, rbuf_varlong(&r), rows[i].value));
        cr_assert(eq(int, rbuf_finish(&r), ERR_OK));
    }
}

Test(rbuf, unsigned_vectors)
{
    const struct varint_row rows[] = {
        {0, "00"}, {127, "7f"}, {128, "8001"}, {300, "ac02"}, {16384, "808001"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[16];
        size_t size = from_hex(rows[i].hex, bytes);
        struct rbuf r = rbuf_over(bytes, size);
        cr_assert(eq(u32, rbuf_uvarint(&r), (uint32_t)rows[i].value));
        cr_assert(eq(int, rbuf_finish(&r), ERR_OK));
        cr_assert(eq(sz, uvarint_size((uint32_t)rows[i].value), size));
    }
}

struct bad_row {
    const char *hex;
    bool is_long;
    enum err failure;
};

Test(rbuf, varints_that_do_not_fit_or_do_not_end)
{
    const struct bad_row rows[] = {
        {"ffffffff10", false, ERR_CORRUPT},   /* bit 32 */
        {"ffffffffff01", false, ERR_CORRUPT}, /* six bytes */
        {"8080808080", false, ERR_CORRUPT},   /* five, and more to come */
        {"ffffffff", false, ERR_EOF},
        {"", false, ERR_EOF},
        {"ffffffffffffffffff02", true, ERR_CORRUPT},   /* bit 64 */
        {"ffffffffffffffffffff01", true, ERR_CORRUPT}, /* eleven bytes */
        {"ffffffffffffffffff", true, ERR_EOF},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[16];
        struct rbuf r = rbuf_over(bytes, from_hex(rows[i].hex, bytes));
        if (rows[i].is_long) {
            cr_assert(eq(u64, rbuf_uvarlong(&r), 0));
        } else {
            cr_assert(eq(u32, rbuf_uvarint(&r), 0));
        }
        cr_assert(eq(int, rbuf_finish(&r), rows[i].failure), "%s", rows[i].hex);
    }
}

static void read_all(struct rbuf *r)
{
    (void)rbuf_i8(r);
    (void)rbuf_i16(r);
    (void)rbuf_u16(r);
    (void)rbuf_i32(r);
    (void)rbuf_u32(r);
    (void)rbuf_i64(r);
    (void)rbuf_u64(r);
    (void)rbuf_f64(r);
    (void)rbuf_bool(r);
    (void)rbuf_uuid(r);
    (void)rbuf_uvarint(r);
    (void)rbuf_varlong(r);
    (void)rbuf_bytes(r, 3);
    rbuf_skip(r, 2);
}

Test(rbuf, every_cut_fails_and_nothing_is_left_over)
{
    uint8_t message[128];
    memset(message, 1, sizeof(message));
    struct rbuf r = rbuf_over(message, sizeof(message));
    read_all(&r);
    size_t size = sizeof(message) - rbuf_left(&r);
    for (size_t cut = 0; cut < size; cut++) {
        r = rbuf_over(message, cut);
        read_all(&r);
        cr_assert(eq(int, rbuf_finish(&r), ERR_EOF), "cut=%zu", cut);
        cr_assert(eq(sz, rbuf_left(&r), 0));
    }
    r = rbuf_over(message, size);
    read_all(&r);
    cr_assert(eq(int, rbuf_finish(&r), ERR_OK));
    r = rbuf_over(message, size + 1);
    read_all(&r);
    cr_assert(eq(int, rbuf_finish(&r), ERR_CORRUPT), "a byte too many");
}

Test(rbuf, the_first_failure_stays_and_reads_give_zero)
{
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct rbuf r = rbuf_over(bytes, sizeof(bytes));
    rbuf_fail(&r, ERR_TOO_LARGE);
    rbuf_fail(&r, ERR_CORRUPT);
    cr_assert(eq(i32, rbuf_i32(&r), 0));
    cr_assert(slice_is_null(rbuf_bytes(&r, 0)));
    cr_assert(eq(int, rbuf_finish(&r), ERR_TOO_LARGE));

    r = rbuf_over(bytes, sizeof(bytes));
    cr_assert(slice_is_null(rbuf_bytes(&r, SIZE_MAX)));
    cr_assert(eq(int, rbuf_finish(&r), ERR_EOF));
}

Test(rbuf, big_endian)
{
    const uint8_t bytes[] = {0xff, 0xfe, 0x12, 0x34, 0x56, 0x78};
    struct rbuf r = rbuf_over(bytes, sizeof(bytes));
    cr_assert(eq(i16, rbuf_i16(&r), -2));
    cr_assert(eq(u32, rbuf_u32(&r), 0x12345678));
    cr_assert(eq(int, rbuf_finish(&r), ERR_OK));
}
