#include "storage/segment_index.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/crc32c.h"
#include "storage/segment_format.h"

enum {
    INDEX_VERSION = 2,
    POINTS_CAPACITY_MIN = 8,
};

static const uint8_t MAGIC[8] = {'C', 'F', 'L', 'O', 'G', 'I', 'D', 'X'};

void segment_points_done(struct segment_points *ps)
{
    free(ps->all);
    *ps = (struct segment_points){0};
}

static enum err reserve(struct segment_points *ps, uint32_t count)
{
    if (count <= ps->capacity) {
        return ERR_OK;
    }
    uint32_t capacity = ps->capacity == 0 ? POINTS_CAPACITY_MIN : ps->capacity;
    while (capacity < count) {
        capacity += capacity / 2;
    }
    struct segment_point *all = realloc(ps->all, capacity * sizeof(*all));
    if (all == NULL) {
        return ERR_BUSY;
    }
    ps->all = all;
    ps->capacity = capacity;
    return ERR_OK;
}

enum err segment_points_add(struct segment_points *ps, const struct segment_point *p)
{
    if (ps->count > 0) {
        const struct segment_point *last = &ps->all[ps->count - 1];
        assert_cmp(p->pos, >, last->pos);
        assert_cmp(p->index, >, last->index);
        assert_cmp(p->offset, >=, last->offset);
    }
    enum err e = reserve(ps, ps->count + 1);
    if (e == ERR_OK) {
        ps->all[ps->count++] = *p;
    }
    return e;
}

void segment_points_note(struct segment_points *ps,
                         const struct segment_point *entry,
                         uint64_t *next_pos,
                         uint32_t interval)
{
    if (entry->pos >= *next_pos) {
        *next_pos = entry->pos + interval;
        if (segment_points_add(ps, entry) == ERR_OK) {
            return;
        }
    }
    if (ps->count > 0 && ps->all[ps->count - 1].max_timestamp < entry->max_timestamp) {
        ps->all[ps->count - 1].max_timestamp = entry->max_timestamp;
    }
}

void segment_points_cut(struct segment_points *ps, uint64_t index)
{
    while (ps->count > 0 && ps->all[ps->count - 1].index >= index) {
        ps->count--;
    }
}

size_t segment_points_size(const struct segment_points *ps)
{
    return ps->capacity * sizeof(ps->all[0]);
}

enum point_key {
    KEY_OFFSET,
    KEY_INDEX,
};

static bool is_at_or_before(const struct segment_point *p, enum point_key key, int64_t value)
{
    switch (key) {
    case KEY_OFFSET:
        return p->offset <= value;
    case KEY_INDEX:
        return p->index <= (uint64_t)value;
    }
    return false;
}

/* How many points are at or before value. */
static uint32_t count_until(const struct segment_points *ps, enum point_key key, int64_t value)
{
    uint32_t low = 0;          /* Points below are at or before value ... */
    uint32_t high = ps->count; /* ... and from here on they are not. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (is_at_or_before(&ps->all[middle], key, value)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const struct segment_point *
find(const struct segment_points *ps, enum point_key key, int64_t value)
{
    uint32_t count = count_until(ps, key, value);
    return count == 0 ? NULL : &ps->all[count - 1];
}

const struct segment_point *segment_points_by_offset(const struct segment_points *ps,
                                                     int64_t offset)
{
    return find(ps, KEY_OFFSET, offset);
}

const struct segment_point *segment_points_by_index(const struct segment_points *ps, uint64_t index)
{
    return find(ps, KEY_INDEX, (int64_t)index);
}

/* Stretch 0 lies before the first point, stretch n starts at point n - 1. */
static struct segment_stretch stretch_at(const struct segment_points *ps, uint32_t number)
{
    const struct segment_point *start = number == 0 ? NULL : &ps->all[number - 1];
    const struct segment_point *next = number == ps->count ? NULL : &ps->all[number];
    return (struct segment_stretch){
        .start = start,
        .end_index = next == NULL ? UINT64_MAX : next->index,
        .end_offset = next == NULL ? INT64_MAX : next->offset,
        .max_timestamp = start == NULL ? SEGMENT_TIME_UNKNOWN : start->max_timestamp,
    };
}

bool segment_points_find_late(const struct segment_points *ps,
                              uint64_t from_index,
                              int64_t timestamp,
                              struct segment_stretch *ret_stretch)
{
    for (uint32_t n = count_until(ps, KEY_INDEX, (int64_t)from_index); n <= ps->count; n++) {
        if (n == 0 || ps->all[n - 1].max_timestamp >= timestamp) {
            *ret_stretch = stretch_at(ps, n);
            return true;
        }
    }
    return false;
}

size_t segment_index_file_size(const struct segment_points *ps)
{
    return block_align_up(sizeof(struct segment_index_header) +
                          ps->count * sizeof(struct segment_point));
}

static uint32_t crc_of(const struct segment_index_header *h, const void *points, size_t size)
{
    struct segment_index_header copy = *h;
    copy.crc = 0;
    return crc32c_extend(crc32c(&copy, sizeof(copy)), points, size);
}

void segment_index_encode(struct segment_index_header *h,
                          const struct segment_points *ps,
                          uint8_t *out)
{
    uint8_t *to = out + sizeof(*h);
    memset(out, 0, segment_index_file_size(ps));
    for (uint32_t i = 0; i < ps->count; i++, to += sizeof(struct segment_point)) {
        struct segment_point p = ps->all[i];
        if (p.max_timestamp == SEGMENT_TIME_UNKNOWN) {
            p.max_timestamp = h->max_timestamp;
        }
        memcpy(to, &p, sizeof(p));
    }
    memcpy(h->magic, MAGIC, sizeof(MAGIC));
    h->version = INDEX_VERSION;
    h->points_count = ps->count;
    h->crc = crc_of(h, out + sizeof(*h), ps->count * sizeof(struct segment_point));
    memcpy(out, h, sizeof(*h));
}

/* Invariant 1, within what the header says of the segment. */
static bool is_sound(const struct segment_points *ps, const struct segment_index_header *h)
{
    for (uint32_t i = 0; i < ps->count; i++) {
        const struct segment_point *p = &ps->all[i];
        if (p->pos < SEGMENT_HEADER_SIZE || p->pos >= h->covered_pos || p->index < h->base_index ||
            p->index >= h->covered_next || p->max_timestamp > h->max_timestamp) {
            return false;
        }
        if (i > 0) {
            const struct segment_point *before = p - 1;
            if (p->pos <= before->pos || p->index <= before->index || p->offset < before->offset) {
                return false;
            }
        }
    }
    return true;
}

enum err segment_index_decode(struct slice file,
                              struct segment_index_header *ret_header,
                              struct segment_points *ps)
{
    assert(ps->count == 0);
    struct segment_index_header h;
    if (file.size < sizeof(h)) {
        return ERR_CORRUPT;
    }
    memcpy(&h, file.data, sizeof(h));
    if (memcmp(h.magic, MAGIC, sizeof(MAGIC)) != 0 || h.version != INDEX_VERSION) {
        return ERR_CORRUPT;
    }
    const size_t points_size = (size_t)h.points_count * sizeof(struct segment_point);
    if (points_size > file.size - sizeof(h)) {
        return ERR_CORRUPT;
    }
    if (h.crc != crc_of(&h, file.data + sizeof(h), points_size)) {
        return ERR_CORRUPT;
    }
    enum err e = reserve(ps, h.points_count);
    if (e != ERR_OK) {
        return e;
    }
    if (points_size > 0) {
        memcpy(ps->all, file.data + sizeof(h), points_size);
    }
    ps->count = h.points_count;
    if (!is_sound(ps, &h)) {
        segment_points_done(ps);
        return ERR_CORRUPT;
    }
    *ret_header = h;
    return ERR_OK;
}
