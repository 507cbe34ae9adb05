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
        p.max_timestamp = (int64_t)rand_below(r, 400) - 1;
    }
}

Test(index, an_empty_one_knows_nothing)
{
    struct segment_points ps = {0};
    cr_assert(segment_points_by_offset(&ps, 5) == NULL);
    cr_assert(segment_points_by_index(&ps, 5) == NULL);
    struct segment_stretch stretch;
    cr_assert(segment_points_find_late(&ps, 0, 5, &stretch), "it may hold anything");
    cr_assert(stretch.start == NULL && stretch.end_index == UINT64_MAX);
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
        for (uint32_t i = 0; i < ps.count; i++) {
            const struct segment_point *p = &ps.all[i];
            by_offset = p->offset <= key ? p : by_offset;
            by_index = p->index <= (uint64_t)key ? p : by_index;
        }
        cr_assert(segment_points_by_offset(&ps, key) == by_offset, "key=%d", (int)key);
        cr_assert(segment_points_by_index(&ps, (uint64_t)key) == by_index, "key=%d", (int)key);
    }
    segment_points_done(&ps);
}

/* From any entry on, for any time: the stretch that the entry is in, or a later one. */
Test(index, late_stretches_agree_with_a_walk)
{
    struct rand r;
    rand_init_seed(&r, 7);
    struct segment_points ps = {0};
    fill(&ps, &r);
    for (uint64_t from = 10; from < ps.all[ps.count - 1].index + 5; from += 3) {
        for (int64_t timestamp = 0; timestamp < 410; timestamp += 13) {
            uint32_t at = ps.count;
            for (uint32_t i = ps.count; i > 0 && (i == ps.count || ps.all[i].index > from); i--) {
                at = ps.all[i - 1].max_timestamp >= timestamp ? i - 1 : at;
            }
            struct segment_stretch found = {0};
            bool is_found = segment_points_find_late(&ps, from, timestamp, &found);
            cr_assert(eq(int, is_found, at < ps.count), "from=%ju", (uintmax_t)from);
            if (is_found) {
                bool is_last = at + 1 == ps.count;
                cr_assert(found.start == &ps.all[at]);
                cr_assert(eq(i64, found.max_timestamp, ps.all[at].max_timestamp));
                cr_assert(eq(u64, found.end_index, is_last ? UINT64_MAX : ps.all[at + 1].index));
                cr_assert(eq(i64, found.end_offset, is_last ? INT64_MAX : ps.all[at + 1].offset));
            }
        }
    }
    segment_points_done(&ps);
}

/* Points are made so far apart, and know the latest entry up to the next one. */
Test(index, a_note_goes_to_the_last_point)
{
    struct segment_points ps = {0};
    uint64_t next_pos = 4096;
    static const int64_t timestamps[] = {5, 9, 7, 3, 8, -1};
    for (uint32_t i = 0; i < 6; i++) {
        const struct segment_point entry = {
            .pos = 4096 + 100 * i, .index = 1 + i, .offset = i, .max_timestamp = timestamps[i]};
        segment_points_note(&ps, &entry, &next_pos, 300);
    }
    cr_assert(eq(u32, ps.count, 2));
    cr_assert(eq(i64, ps.all[0].max_timestamp, 9));
    cr_assert(eq(i64, ps.all[1].max_timestamp, 8));
    cr_assert(eq(u64, next_pos, 4096 + 600));
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

Test(index, a_point_later_than_the_segment_is_not_believed)
{
    struct rand r;
    rand_init_seed(&r, 3);
    struct segment_points ps = {0};
    fill(&ps, &r);
    ps.all[3].max_timestamp = 1000;
    size_t size;
    uint8_t *file = encode(&ps, &size);
    struct segment_points back = {0};
    struct segment_index_header h;
    cr_assert(eq(int, segment_index_decode(slice_of(file, size), &h, &back), ERR_CORRUPT));
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
