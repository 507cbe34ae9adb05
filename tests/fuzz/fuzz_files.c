/* What stands in files beside the entries: headers of segments, their sparse indexes, checkpoints
 * and what owners keep in them, the values of the store that speak of logs. And the walk over
 * entries, in windows of any size. The first byte chooses the decoder, the second says with its
 * lowest bit whether checksums are made right first; the rest is the file.
 *
 * What is accepted encodes to the same bytes, or to some that decode to the same; what a window
 * hides changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/crc32c.h"
#include "storage/checkpoint.h"
#include "storage/entry.h"
#include "storage/producer_state.h"
#include "storage/segment_format.h"
#include "storage/segment_index.h"
#include "storage/segment_scan.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seal.h"

enum {
    PRODUCERS_MAX = 16,
    RESTORE_INDEX = 1000,
    STATE_SIZE_MAX = 1 << 20,
    BLOCKS_MAX = 8,
    SCAN_STEPS_MAX = 4096,
    SALT = 0x5A17,
};

static void set_crc(uint8_t *bytes, size_t size, size_t crc_pos)
{
    if (size >= crc_pos + sizeof(uint32_t)) {
        memset(bytes + crc_pos, 0, sizeof(uint32_t));
        const uint32_t crc = crc32c(bytes, size);
        memcpy(bytes + crc_pos, &crc, sizeof(crc));
    }
}

/* ---- headers and values ---- */

static void try_segment_header(uint8_t *bytes, size_t size, bool is_sealed)
{
    uint8_t *block = calloc(1, SEGMENT_HEADER_SIZE);
    uint8_t *again = calloc(1, SEGMENT_HEADER_SIZE);
    assert(block != NULL);
    assert(again != NULL);
    memcpy(block, bytes, size < SEGMENT_HEADER_SIZE ? size : SEGMENT_HEADER_SIZE);
    if (is_sealed) {
        set_crc(block, sizeof(struct segment_header), offsetof(struct segment_header, crc));
    }
    struct segment_header h;
    /* No segment that we make has the salt 0, or begins at the index 0. */
    if (segment_header_decode(block, &h) == ERR_OK && h.salt != 0 && h.base.index != 0) {
        struct segment_header h_again;
        segment_header_encode(&h, again);
        const enum err e = segment_header_decode(again, &h_again);
        assert_cmp(e, ==, ERR_OK);
        const size_t start = offsetof(struct segment_header, salt);
        const size_t end = offsetof(struct segment_header, reserved);
        assert(memcmp((const uint8_t *)&h + start,
                      (const uint8_t *)&h_again + start,
                      end - start) == 0);
    }
    free(block);
    free(again);
}

/* Whatever is taken is put again as it was. */
static void try_records(struct slice value)
{
    struct segment_record segment;
    struct cut_record cut;
    struct durable_record durable;
    struct clean_record clean;
    if (segment_record_decode(value, &segment) == ERR_OK) {
        assert(slice_equal(segment_record_encode(&segment), value));
    }
    if (cut_record_decode(value, &cut) == ERR_OK) {
        assert(slice_equal(cut_record_encode(&cut), value));
    }
    if (durable_record_decode(value, &durable) == ERR_OK) {
        assert(slice_equal(durable_record_encode(&durable), value));
    }
    if (clean_record_decode(value, &clean) == ERR_OK) {
        assert(slice_equal(clean_record_encode(&clean), value));
    }
    int64_t offset = -1;
    if (entry_log_start_decode(value, INT64_MAX, &offset) == ERR_OK) {
        struct entry_log_start start;
        entry_log_start_encode(offset, &start);
        assert(slice_equal(slice_of(&start, sizeof(start)), value));
    }
}

static void try_names(struct slice text)
{
    char *name = malloc(text.size + 1);
    assert(name != NULL);
    memcpy(name, text.data, text.size);
    name[text.size] = '\0';
    struct segment_name n;
    if (segment_name_parse(name, ".log", &n)) {
        char again[SEGMENT_NAME_SIZE];
        segment_name_format(&n, ".log", again);
        assert(strcmp(name, again) == 0);
    }
    free(name);
}

/* ---- indexes ---- */

static void try_index(uint8_t *bytes, size_t size, bool is_sealed)
{
    struct segment_index_header h;
    struct segment_points points = {0};
    if (is_sealed && size >= sizeof(h)) {
        memcpy(&h, bytes, sizeof(h));
        const size_t points_size = h.points_count * sizeof(struct segment_point);
        const size_t whole_size = sizeof(h) + points_size;
        set_crc(bytes,
                whole_size <= size ? whole_size : size,
                offsetof(struct segment_index_header, crc));
    }
    if (segment_index_decode(slice_of(bytes, size), &h, &points) != ERR_OK) {
        assert_cmp(points.count, ==, 0);
        return;
    }
    /* Searches end, and find what is not behind what was looked for. */
    for (uint32_t i = 0; i < points.count; i++) {
        const struct segment_point *p = &points.all[i];
        const struct segment_point *found = segment_points_by_offset(&points, p->offset);
        assert(found != NULL);
        assert_cmp(found->offset, <=, p->offset);
        assert(segment_points_by_index(&points, p->index) == p);
        struct segment_stretch stretch;
        (void)segment_points_find_late(&points, p->index, p->max_timestamp, &stretch);
    }
    uint8_t *again = malloc(segment_index_file_size(&points));
    assert(again != NULL);
    segment_index_encode(&h, &points, again);
    struct segment_points copy = {0};
    struct segment_index_header h_again;
    const enum err e =
        segment_index_decode(slice_of(again, segment_index_file_size(&points)), &h_again, &copy);
    assert_cmp(e, ==, ERR_OK);
    assert_cmp(copy.count, ==, points.count);
    if (copy.count > 0) {
        assert(memcmp(copy.all, points.all, copy.count * sizeof(*copy.all)) == 0);
    }
    segment_points_done(&copy);
    segment_points_done(&points);
    free(again);
}

/* ---- checkpoints ---- */

static void try_producers(struct slice state)
{
    struct producer_state *ps = NULL;
    enum err e = producer_state_new(1, PRODUCERS_MAX, &ps);
    assert(e == ERR_OK);
    e = producer_state_restore(ps, state, RESTORE_INDEX);
    producer_state_assert_valid(ps);
    if (e == ERR_OK) {
        struct wbuf w;
        wbuf_init(&w, STATE_SIZE_MAX);
        producer_state_encode(ps, &w);
        struct producer_state *copy = NULL;
        e = producer_state_new(2, PRODUCERS_MAX, &copy);
        assert(e == ERR_OK);
        e = producer_state_restore(copy, wbuf_slice(&w), RESTORE_INDEX);
        assert_cmp(e, ==, ERR_OK);
        assert_cmp(producer_state_count(copy), ==, producer_state_count(ps));
        producer_state_free(copy);
        wbuf_done(&w);
    } else {
        assert_cmp(producer_state_count(ps), ==, 0);
    }
    producer_state_free(ps);
}

static void try_checkpoint(uint8_t *bytes, size_t size, bool is_sealed)
{
    if (is_sealed) {
        set_crc(bytes, size, offsetof(struct checkpoint_header, crc));
    }
    struct checkpoint c;
    if (checkpoint_decode(slice_of(bytes, size), &c) == ERR_OK) {
        struct wbuf w;
        wbuf_init(&w, STATE_SIZE_MAX);
        checkpoint_encode(&c, &w);
        assert(slice_equal(wbuf_slice(&w), slice_of(bytes, size)));
        wbuf_done(&w);
        try_producers(c.state);
    }
    struct checkpoint_record record;
    struct slice inside;
    if (checkpoint_record_decode(slice_of(bytes, size), &record, &inside) == ERR_OK) {
        assert_cmp(inside.size, <, size);
    }
}

/* ---- entries ---- */

/* Seals what could be entries, so that the walk goes on behind the first. */
static void seal_entries(uint8_t *bytes, size_t size)
{
    uint64_t previous_id = 0;
    for (uint64_t pos = 0; pos + sizeof(struct entry_header) <= size;) {
        struct entry_header h;
        memcpy(&h, bytes + pos, sizeof(h));
        h.salt = SALT;
        h.payload_size %= 2 * ENTRY_BLOCK_SIZE;
        h.flags = 0;
        h.index = h.index == 0 ? 1 : h.index;
        h.type = (uint8_t)(1 + h.type % (ENTRY_TYPE_COUNT - 1));
        h.span = h.type == ENTRY_GAP ? h.span : 0;
        if (pos + entry_size(h.payload_size) > size) {
            return;
        }
        uint8_t *payload = bytes + pos + sizeof(h);
        if (h.type == ENTRY_DATA) {
            seal_batch(payload, h.payload_size);
        }
        h.previous_id = h.durable_generation % 4 == 0 ? h.previous_id : previous_id;
        h.entry_id = entry_id_of(&h, payload);
        previous_id = h.entry_id;
        entry_seal(&h, bytes + pos);
        pos = entry_place(pos + entry_size(h.payload_size));
    }
}

static struct segment_scan scan_of(uint64_t limit_pos)
{
    return (struct segment_scan){
        .salt = SALT,
        .generation_max = UINT32_MAX,
        .limit_pos = limit_pos,
        .index = 1,
    };
}

/* One step with no more of the file in memory than was asked for. */
static enum scan_step step_in_windows(struct segment_scan *scan,
                                      const struct segment_window *whole,
                                      struct scan_result *ret)
{
    const uint64_t start = block_align_down(scan->pos);
    struct segment_window w = {.data = whole->data + start, .pos = start, .size = ENTRY_BLOCK_SIZE};
    for (int i = 0; i < BLOCKS_MAX + 1; i++) {
        w.size = w.pos + w.size <= whole->size ? w.size : whole->size - w.pos;
        const enum scan_step step = segment_scan_next(scan, &w, ret);
        if (step != SCAN_MORE) {
            return step;
        }
        assert_cmp(ret->need_size, >, 0);
        assert_cmp(ret->need_pos % ENTRY_BLOCK_SIZE, ==, 0);
        assert_cmp(ret->need_pos + ret->need_size, <=, whole->size);
        w = (struct segment_window){
            .data = whole->data + ret->need_pos, .pos = ret->need_pos, .size = ret->need_size};
    }
    return SCAN_MORE;
}

static void probe(const struct segment_scan *scan, const struct segment_window *whole)
{
    uint64_t pos = block_align_down(scan->pos);
    struct scan_result found;
    if (segment_scan_probe(scan, whole, &pos, &found)) {
        assert(found.has_header);
        assert(found.header.index > scan->index);
        assert(found.pos + entry_size(found.header.payload_size) <= scan->limit_pos);
    }
    (void)segment_scan_has_own(scan, whole, pos);
}

static void try_entries(const uint8_t *data, size_t size, bool is_sealed)
{
    const size_t whole_size = block_align_up(size);
    if (whole_size == 0 || whole_size > BLOCKS_MAX * ENTRY_BLOCK_SIZE) {
        return;
    }
    uint8_t *bytes = calloc(1, whole_size);
    assert(bytes != NULL);
    memcpy(bytes, data, size);
    if (is_sealed) {
        seal_entries(bytes, whole_size);
    }
    const struct segment_window whole = {.data = bytes, .size = whole_size};
    struct segment_scan at_once = scan_of(whole_size);
    struct segment_scan in_windows = scan_of(whole_size);
    enum scan_step step = SCAN_ENTRY;
    for (int i = 0; step == SCAN_ENTRY; i++) {
        assert_cmp(i, <, SCAN_STEPS_MAX);
        struct scan_result a;
        struct scan_result b;
        step = segment_scan_next(&at_once, &whole, &a);
        const enum scan_step other = step_in_windows(&in_windows, &whole, &b);
        assert_cmp(step, ==, other);
        assert_cmp(step, !=, SCAN_MORE); /* All there is, is in the window. */
        assert_cmp(a.pos, ==, b.pos);
        assert_cmp(a.fault, ==, b.fault);
        assert_cmp(at_once.pos, ==, in_windows.pos);
    }
    probe(&at_once, &whole);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const bool is_sealed = data[1] % 2 == 1;
    const size_t file_size = size - 2;
    uint8_t *bytes = malloc(file_size + 1);
    assert(bytes != NULL);
    memcpy(bytes, data + 2, file_size);
    switch (data[0] % 7) {
    case 0:
        try_segment_header(bytes, file_size, is_sealed);
        break;
    case 1:
        try_index(bytes, file_size, is_sealed);
        break;
    case 2:
        try_checkpoint(bytes, file_size, is_sealed);
        break;
    case 3:
        try_records(slice_of(bytes, file_size));
        break;
    case 4:
        try_producers(slice_of(bytes, file_size));
        break;
    case 5:
        try_names(slice_of(bytes, file_size));
        break;
    default:
        try_entries(bytes, file_size, is_sealed);
    }
    free(bytes);
    return 0;
}
