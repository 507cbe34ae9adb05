#include "storage/segment_scan.h"

#include <string.h>

#include "core/assert.h"
#include "storage/segment_format.h"

enum {
    /* A checksum of an entry that is not data covers its payload; larger ones than this are missed
     * where two windows meet. */
    PROBE_OVERLAP = 64 << 10,
};

static bool is_zero(const uint8_t *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static bool covers(const struct segment_window *w, uint64_t pos, uint64_t size)
{
    return pos >= w->pos && pos + size <= w->pos + w->size;
}

static const uint8_t *at(const struct segment_window *w, uint64_t pos)
{
    return w->data + (pos - w->pos);
}

/* [pos, pos + size) is wanted. The window has to begin where the scan stands: it looks at the
 * padding before pos again. */
static enum scan_step
need(const struct segment_scan *scan, struct scan_result *ret, uint64_t pos, uint64_t size)
{
    ret->pos = pos;
    ret->need_pos = block_align_down(scan->pos);
    ret->need_size = block_align_up(pos + size) - ret->need_pos;
    return SCAN_MORE;
}

static enum scan_step bad(struct scan_result *ret, enum entry_fault fault)
{
    ret->fault = fault;
    return SCAN_BAD;
}

/* Goes by the jumps before pos; what follows is of the generation of the cuts among them. */
static void pass_jumps(struct segment_scan *scan)
{
    while (scan->jump_next < scan->jumps_count && scan->jumps[scan->jump_next].pos < scan->pos) {
        const struct segment_jump *j = &scan->jumps[scan->jump_next];
        if (!j->is_damage && j->generation > scan->generation_min) {
            scan->generation_min = j->generation;
        }
        scan->jump_next++;
    }
}

void segment_scan_seek(struct segment_scan *scan)
{
    scan->jump_next = 0;
    pass_jumps(scan);
    for (size_t i = 0; i < scan->jump_next; i++) {
        const struct segment_jump *j = &scan->jumps[i];
        if (j->is_damage && j->resume_pos > scan->pos) {
            scan->pos = j->pos;
            scan->jump_next = i;
        }
    }
}

static const struct segment_jump *jump_here(const struct segment_scan *scan)
{
    if (scan->jump_next < scan->jumps_count && scan->jumps[scan->jump_next].pos == scan->pos) {
        return &scan->jumps[scan->jump_next];
    }
    return NULL;
}

void segment_scan_leap(struct segment_scan *scan)
{
    const struct segment_jump *j = jump_here(scan);
    assert(j != NULL);
    assert(j->resume_pos >= scan->pos);
    scan->jump_next++;
    scan->pos = j->resume_pos;
    if (j->is_damage) {
        scan->index = j->index;
        scan->offset = j->offset;
        scan->previous_id = j->previous_id;
        scan->has_previous = true;
        scan->term = j->term;
    } else if (j->generation > scan->generation_min) {
        scan->generation_min = j->generation;
    }
    pass_jumps(scan); /* A hole may reach over cuts. */
}

static uint64_t salt_at(const struct segment_window *w, uint64_t pos)
{
    uint64_t salt;
    memcpy(&salt, at(w, pos) + offsetof(struct entry_header, salt), sizeof(salt));
    return salt;
}

/* Steps over what may stand between two entries. SCAN_ENTRY: an entry must start at *pos. */
static enum scan_step skip_padding(const struct segment_scan *scan,
                                   const struct segment_window *window,
                                   uint64_t *pos,
                                   struct scan_result *ret)
{
    for (;;) {
        *pos = entry_place(*pos);
        if (*pos >= scan->limit_pos) {
            return SCAN_END;
        }
        uint64_t left = ENTRY_BLOCK_SIZE - *pos % ENTRY_BLOCK_SIZE;
        if (!covers(window, *pos, left)) {
            return need(scan, ret, *pos, left);
        }
        if (left == ENTRY_BLOCK_SIZE && salt_at(window, *pos) != scan->salt) {
            /* Nothing of this life was written here: zeros, or what a recycled file held before. */
            ret->fault = is_zero(at(window, *pos), sizeof(struct entry_header)) ? ENTRY_FAULT_ZERO
                                                                                : ENTRY_FAULT_SALT;
            return SCAN_END;
        }
        if (!is_zero(at(window, *pos), sizeof(struct entry_header))) {
            return SCAN_ENTRY;
        }
        if (!is_zero(at(window, *pos), left)) {
            return bad(ret, ENTRY_FAULT_ZERO);
        }
        *pos += left;
    }
}

/* Removed by a cut that is still to come. Only a write that went astray brings such an entry in
 * front of the place where it was cut. */
static bool is_cut(const struct segment_scan *scan, const struct entry_header *h)
{
    for (size_t i = scan->jump_next; i < scan->jumps_count; i++) {
        const struct segment_jump *j = &scan->jumps[i];
        if (!j->is_damage && h->generation < j->generation && h->index >= j->index) {
            return true;
        }
    }
    return false;
}

/* What an older life of the log, or a cut, left behind. */
static bool is_of_other_life(const struct segment_scan *scan, const struct entry_header *h)
{
    return h->generation < scan->generation_min || h->generation > scan->generation_max ||
           is_cut(scan, h);
}

static enum entry_fault check_order(const struct segment_scan *scan, const struct entry_header *h)
{
    if (is_of_other_life(scan, h)) {
        return ENTRY_FAULT_GENERATION;
    }
    if (h->index != scan->index || h->base_offset != scan->offset || h->term < scan->term) {
        return ENTRY_FAULT_ORDER;
    }
    if (scan->has_previous && h->previous_id != scan->previous_id) {
        return ENTRY_FAULT_ORDER;
    }
    return ENTRY_GOOD;
}

enum scan_step segment_scan_next(struct segment_scan *scan,
                                 const struct segment_window *window,
                                 struct scan_result *ret)
{
    *ret = (struct scan_result){.pos = scan->pos};
    pass_jumps(scan); /* Entries that went astray may stand over the place of a cut. */
    for (const struct segment_jump *j = jump_here(scan); j != NULL; j = jump_here(scan)) {
        if (j->is_damage) {
            return SCAN_DAMAGE;
        }
        segment_scan_leap(scan);
    }

    uint64_t pos = scan->pos;
    enum scan_step step = skip_padding(scan, window, &pos, ret);
    ret->pos = pos;
    if (step != SCAN_ENTRY) {
        return step;
    }
    struct entry_header h;
    memcpy(&h, at(window, pos), sizeof(h));
    enum entry_fault fault = entry_check_fields(&h, scan->salt);
    if (fault != ENTRY_GOOD) {
        return bad(ret, fault);
    }
    if (pos + entry_size(h.payload_size) > scan->limit_pos) {
        return bad(ret, ENTRY_FAULT_HEADER);
    }
    uint64_t covered = sizeof(h) + entry_covered_size(h.type, h.payload_size);
    if (!covers(window, pos, covered)) {
        return need(scan, ret, pos, covered);
    }
    if (!entry_crc_matches(&h, at(window, pos + sizeof(h)))) {
        return bad(ret, ENTRY_FAULT_HEADER);
    }
    fault = check_order(scan, &h);
    if (fault != ENTRY_GOOD) {
        return bad(ret, fault);
    }

    ret->header = h;
    ret->has_header = true;
    if (h.next_offset > scan->skip_offset) {
        if (!covers(window, pos, entry_size(h.payload_size))) {
            return need(scan, ret, pos, entry_size(h.payload_size));
        }
        ret->payload = slice_of(at(window, pos + sizeof(h)), h.payload_size);
        if (!entry_payload_matches(&h, ret->payload)) {
            return bad(ret, ENTRY_FAULT_PAYLOAD);
        }
    }
    scan->pos = pos + entry_size(h.payload_size);
    scan->index = entry_last_index(&h) + 1;
    scan->offset = h.next_offset;
    scan->previous_id = h.entry_id;
    scan->has_previous = true;
    scan->term = h.term;
    return SCAN_ENTRY;
}

/* A header that could be an entry behind the damage. Entries that an older life or a cut left
 * behind do not count. */
static bool is_candidate(const struct segment_scan *scan,
                         const struct segment_window *window,
                         uint64_t pos,
                         struct entry_header *ret_header)
{
    struct entry_header h;
    memcpy(&h, at(window, pos), sizeof(h));
    if (h.salt != scan->salt || entry_check_fields(&h, scan->salt) != ENTRY_GOOD) {
        return false;
    }
    if (is_of_other_life(scan, &h)) {
        return false;
    }
    if (h.index <= scan->index || h.base_offset < scan->offset || h.term < scan->term) {
        return false;
    }
    uint64_t covered = sizeof(h) + entry_covered_size(h.type, h.payload_size);
    if (!covers(window, pos, covered) || pos + entry_size(h.payload_size) > scan->limit_pos) {
        return false;
    }
    if (!entry_crc_matches(&h, at(window, pos + sizeof(h)))) {
        return false;
    }
    *ret_header = h;
    return true;
}

bool segment_scan_has_own(const struct segment_scan *scan,
                          const struct segment_window *window,
                          uint64_t pos)
{
    const uint64_t end = window->pos + window->size;
    uint64_t from = pos < window->pos ? window->pos : pos;
    for (from = entry_place(from); from + sizeof(struct entry_header) <= end;
         from = entry_place(from + ENTRY_ALIGN)) {
        if (salt_at(window, from) == scan->salt) {
            return true;
        }
    }
    return false;
}

bool segment_scan_probe(const struct segment_scan *scan,
                        const struct segment_window *window,
                        uint64_t *pos,
                        struct scan_result *ret)
{
    /* Candidates near the window's end are judged with the next window, unless there is none. */
    const uint64_t end = window->pos + window->size;
    const uint64_t overlap =
        window->size > 2 * PROBE_OVERLAP ? (uint64_t)PROBE_OVERLAP : (uint64_t)ENTRY_BLOCK_SIZE;
    const uint64_t stop = end < scan->limit_pos ? end - overlap : end;
    while (*pos < stop) {
        *pos = entry_place(*pos);
        if (*pos + sizeof(struct entry_header) > end) {
            break;
        }
        struct entry_header h;
        if (is_candidate(scan, window, *pos, &h)) {
            *ret = (struct scan_result){.header = h, .has_header = true, .pos = *pos};
            return true;
        }
        *pos += ENTRY_ALIGN;
    }
    return false;
}
