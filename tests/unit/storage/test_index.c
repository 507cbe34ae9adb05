/* The sparse index of a segment: searches against a naive walk, cuts, and the file form, of which
 * no changed byte may be believed. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "core/rand.h"
#include "storage/segment_index.h"

enum {
    POINTS_COUNT = 200,
};

static void fill(struct segment_points *ps, struct rand *r)
{
    struct segment_point p = {.pos = 4096, .index = 10, .offset = 100, .max_timestamp = -1};
    for (int i = 0; i < POINTS_COUNT; i++) {
        cr_assert(eq(int, segment_points_add(ps, &p), ERR_OK));
        p.pos += 8 + rand_below(r, 5000);
        p.index += 1 + rand_below(r, 4);
        p.offset += (int64_t)rand_below(r, 4);
        p.max_timestamp += (int64_t)rand_below(r, 3);
    }
}

Test(index, an_empty_one_knows_nothing)
{
    struct segment_points ps = {0};
    cr_assert(segment_points_by_offset(&ps, 5) == NULL);
    cr_assert(segment_points_by_index(&ps, 5) == NULL);
    cr_assert(segment_points_by_timestamp(&ps, 5) == NULL);
}

Test(index, searches_agree_with_a_walk)
{
    struct rand r;
    rand_init_seed(&r, 1);
    struct segment_points ps = {0};
    fill(&ps, &r);
    for (int64_t key = 0; key < 1000; key++) {
        const struct segment_point *by_offset = NULL;
        const struct segment_point *by_index = NULL;
        const struct segment_point *by_timestamp = NULL;
        for (uint32_t i = 0; i < ps.count; i++) {
            const struct segment_point *p = &ps.all[i];
            by_offset = p->offset <= key ? p : by_offset;
            by_index = p->index <= (uint64_t)key ? p : by_index;
            by_timestamp = p->max_timestamp < key ? p : by_timestamp;
        }
        cr_assert(segment_points_by_offset(&ps, key) == by_offset, "key=%d", (int)key);
        cr_assert(segment_points_by_index(&ps, (uint64_t)key) == by_index, "key=%d", (int)key);
        cr_assert(segment_points_by_timestamp(&ps, key) == by_timestamp, "key=%d", (int)key);
    }
    segment_points_done(&ps);
}

Test(index, a_cut_removes_points_at_or_above)
{
    struct rand r;
    rand_init_seed(&r, 2);
    struct segment_points ps = {0};
    fill(&ps, &r);
    uint64_t index = ps.all[50].index;
    segment_points_cut(&ps, index);
    cr_assert(eq(u32, ps.count, 50));
    segment_points_cut(&ps, 0);
    cr_assert(eq(u32, ps.count, 0));
    segment_points_done(&ps);
}

static uint8_t *encode(const struct segment_points *ps, size_t *ret_size)
{
    struct segment_index_header h = {
        .salt = 5,
        .base_index = 10,
        .generation = 3,
        .covered_pos = 1 << 30,
        .covered_next = 1 << 20,
        .max_timestamp = 999,
    };
    *ret_size = segment_index_file_size(ps);
    uint8_t *file = malloc(*ret_size);
    segment_index_encode(&h, ps, file);
    return file;
}

Test(index, the_file_gives_back_the_points)
{
    struct rand r;
    rand_init_seed(&r, 3);
    struct segment_points ps = {0};
    fill(&ps, &r);
    size_t size;
    uint8_t *file = encode(&ps, &size);
    struct segment_points back = {0};
    struct segment_index_header h;
    cr_assert(eq(int, segment_index_decode(slice_of(file, size), &h, &back), ERR_OK));
    cr_assert(eq(u64, h.salt, 5));
    cr_assert(eq(u32, back.count, ps.count));
    cr_assert(memcmp(back.all, ps.all, ps.count * sizeof(ps.all[0])) == 0);
    segment_points_done(&back);
    segment_points_done(&ps);
    free(file);
}

Test(index, no_changed_or_missing_byte_is_believed)
{
    struct rand r;
    rand_init_seed(&r, 4);
    struct segment_points ps = {0};
    fill(&ps, &r);
    size_t size;
    uint8_t *file = encode(&ps, &size);
    size_t used = sizeof(struct segment_index_header) + ps.count * sizeof(ps.all[0]);
    struct segment_points back = {0};
    struct segment_index_header h;
    for (size_t at = 0; at < used; at++) {
        file[at] ^= 1;
        enum err e = segment_index_decode(slice_of(file, size), &h, &back);
        cr_assert(ne(int, e, ERR_OK), "byte=%zu", at);
        file[at] ^= 1;
        e = segment_index_decode(slice_of(file, at), &h, &back);
        cr_assert(ne(int, e, ERR_OK), "size=%zu", at);
    }
    segment_points_done(&ps);
    free(file);
}
