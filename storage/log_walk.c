/* Walking entries in order. Where a tail page holds them they are taken from memory as they are;
 * elsewhere they are read from disk in windows and checked by segment_scan.
 *
 * Pages hold whole entries, and windows never reach into a page, so each entry is wholly here or
 * there. Bytes that are not in a page were given to the disk and, below the caller's end, flushed.
 */
#include <string.h>

#include "core/reached.h"
#include "storage/log_priv.h"

enum page_step {
    PAGE_DONE,    /* No more entries in it. */
    PAGE_STOPPED, /* By the verdict. */
    PAGE_BAD,     /* The disk did not lead to it: entries before it are lost. */
};

void log_walk_init(struct log_walk *w, struct log *l)
{
    *w = (struct log_walk){.log = l, .class = BUF_CLIENT, .window_size = 128 << 10};
    list_init(&w->link);
    list_init(&w->wait.link);
}

static void leave_segment(struct log_walk *w)
{
    w->window.size = 0;
    if (w->used != NULL) {
        segment_file_unuse(w->used);
        w->used = NULL;
    }
}

void log_walk_seek_start(struct log_walk *w, struct log_segment *seg)
{
    int64_t skip_offset = w->segment == NULL ? INT64_MIN : w->scan.skip_offset;
    leave_segment(w);
    log_segment_hold(seg); /* Before the other is let go: they may be the same. */
    if (w->segment != NULL) {
        log_segment_release(w->segment);
    }
    w->segment = seg;
    log_segment_scan(seg, &w->scan);
    w->scan.skip_offset = skip_offset;
}

void log_walk_seek_point(struct log_walk *w, struct log_segment *seg, const struct segment_point *p)
{
    log_walk_seek_start(w, seg);
    if (p == NULL) {
        return;
    }
    w->scan.pos = p->pos;
    w->scan.index = p->index;
    w->scan.offset = p->offset;
    w->scan.has_previous = false;
    w->scan.term = log_term_at(w->log, p->index);
    segment_scan_seek(&w->scan);
}

void log_walk_done(struct log_walk *w)
{
    list_remove(&w->link);
    leave_segment(w);
    if (w->segment != NULL) {
        log_segment_release(w->segment);
        w->segment = NULL;
    }
    buf_unref(w->buf);
    w->buf = NULL;
    buf_pool_cancel_wait(log_shard(w->log)->bufs, &w->memory);
    if (w->log->cut != NULL || w->log->end != NULL) {
        log_poke(w->log);
    }
}

void log_walk_park(struct log_walk *w)
{
    list_push_back(&w->log->parked, &w->link);
    log_poke(w->log);
}

void log_walk_leap(struct log_walk *w)
{
    segment_scan_leap(&w->scan);
}

/* ---- from memory ---- */

static void advance(struct segment_scan *scan, const struct entry_header *h, uint64_t pos)
{
    scan->pos = pos + entry_size(h->payload_size);
    scan->index = entry_last_index(h) + 1;
    scan->offset = h->next_offset;
    scan->previous_id = h->entry_id;
    scan->has_previous = true;
    scan->term = h->term;
}

static enum page_step walk_page(struct log_walk *w, const struct log_page *pg)
{
    struct segment_scan *scan = &w->scan;
    if (scan->pos < pg->pos) {
        scan->pos = pg->pos; /* Padding between pages. */
    }
    for (;;) {
        uint64_t pos = entry_place(scan->pos);
        if (pos + sizeof(struct entry_header) > pg->pos + pg->used) {
            scan->pos = pg->pos + pg->used;
            break;
        }
        const uint8_t *at = pg->buf->data + (pos - pg->pos);
        struct entry_header h;
        memcpy(&h, at, sizeof(h));
        if (h.salt == 0) {
            scan->pos = block_align_up(pos + 1); /* Padding at the end of a write. */
            continue;
        }
        if (h.index != scan->index) {
            w->result = (struct scan_result){.pos = pos, .fault = ENTRY_FAULT_ORDER};
            return PAGE_BAD;
        }
        advance(scan, &h, pos);
        w->result = (struct scan_result){
            .header = h,
            .has_header = true,
            .payload = slice_of(at + sizeof(h), h.payload_size),
            .pos = pos,
        };
        w->entry_buf = pg->buf;
        if (w->on_entry(w, &w->result) == WALK_STOP) {
            segment_scan_seek(scan);
            return PAGE_STOPPED;
        }
    }
    segment_scan_seek(scan);
    return PAGE_DONE;
}

/* ---- from disk ---- */

static void on_read_done(struct io_op *op);
static void begin_load(struct log_walk *w);

static void end(struct log_walk *w, enum walk_reason reason)
{
    w->on_end(w, reason); /* May free w. */
}

static void loaded(struct log_walk *w, enum err e)
{
    if (w->on_loaded != NULL) {
        w->on_loaded(w, e);
    } else if (e != ERR_OK) {
        w->error = e;
        end(w, WALK_ERROR);
    } else {
        log_walk_run(w);
    }
}

static void on_memory(struct buf_waiter *waiter)
{
    begin_load(container_of(waiter, struct log_walk, memory));
}

static bool has_buffer(struct log_walk *w, uint64_t size)
{
    /* With others who refer to it, the bytes must stay as they are. */
    if (w->buf != NULL && w->buf->capacity >= size && w->buf->refs_count == 1) {
        return true;
    }
    buf_unref(w->buf);
    w->window.size = 0;
    w->buf = log_shared_alloc(w->log->env.shared, size, w->class);
    return w->buf != NULL;
}

static void on_gate_turn(struct gate_wait *gate)
{
    struct log_walk *w = container_of(gate, struct log_walk, gate);
    io_submit(&log_shard(w->log)->io, &w->op);
}

static void submit_read(struct log_walk *w)
{
    gate_wait_init(&w->gate, on_gate_turn);
    w->op = (struct io_op){
        .kind = IO_READ,
        .fd = w->segment->file.fd,
        .buf = w->buf->data,
        .size = w->window.size,
        .pos = w->window.pos,
        .on_done = on_read_done,
    };
    if (!w->is_for_client ||
        log_gate_enter(&w->log->env.shared->gate, &w->gate, w->op.size, true)) {
        io_submit(&log_shard(w->log)->io, &w->op);
    }
}

static void on_file_ready(struct segment_wait *wait, enum err e)
{
    struct log_walk *w = container_of(wait, struct log_walk, wait);
    if (e != ERR_OK) {
        w->window.size = 0;
        loaded(w, e);
    } else {
        submit_read(w);
    }
}

uint64_t log_disk_end(const struct log_segment *seg, uint64_t pos)
{
    uint64_t end_pos = block_align_up(seg->tail_pos);
    end_pos = end_pos < seg->filled_to ? end_pos : seg->filled_to;
    const struct log_page *pg = log_page_find_above(seg, pos);
    if (pg != NULL && pg->pos < end_pos) {
        end_pos = pg->pos;
    }
    return end_pos > pos ? end_pos : pos;
}

/* Up to where a window from pos may reach: not into a page, not beyond what was filled. */
static uint64_t window_end(const struct log_walk *w, uint64_t pos)
{
    uint64_t end_pos = w->segment->filled_to;
    /* Behind the tail is no entry now, and perhaps some by the time the walk gets there. A
     * recovery does not know the tail yet, and nobody appends meanwhile. */
    uint64_t tail_pos = block_align_up(w->segment->tail_pos);
    if (w->log->state != LOG_OPENING && pos < tail_pos) {
        /* What is asked for comes anyway: a walk of one segment ends at the zeros behind it. */
        uint64_t need_end = pos + w->need_size;
        uint64_t seen_end = need_end > tail_pos ? need_end : tail_pos;
        end_pos = seen_end < end_pos ? seen_end : end_pos;
    }
    const struct log_page *pg = log_page_find_above(w->segment, pos);
    return pg != NULL && pg->pos > pos && pg->pos < end_pos ? pg->pos : end_pos;
}

static uint64_t window_size(const struct log_walk *w)
{
    const uint64_t size_max =
        w->is_for_client ? log_gate_size(&w->log->env.shared->gate) : UINT64_MAX;
    return w->window_size < size_max ? w->window_size : size_max;
}

static void begin_load(struct log_walk *w)
{
    uint64_t pos = w->need_pos;
    uint64_t end_max = window_end(w, pos);
    w->was_on_disk = true;
    uint64_t size = window_size(w);
    size = w->need_size > size ? w->need_size : size;
    if (pos + size > end_max) {
        size = end_max - pos;
    }
    if (!has_buffer(w, size)) {
        if (w->is_patient) {
            w->memory.on_memory = on_memory;
            buf_pool_wait(log_shard(w->log)->bufs, &w->memory);
        } else {
            loaded(w, ERR_BUSY);
        }
        return;
    }
    w->window = (struct segment_window){.data = w->buf->data, .pos = pos, .size = size};
    if (w->used == NULL) {
        segment_file_use(w->segment);
        w->used = w->segment;
    }
    if (segment_file_is_open(w->segment)) {
        submit_read(w);
    } else {
        w->wait.on_ready = on_file_ready;
        segment_file_wait(w->segment, &w->wait);
    }
}

static void on_read_done(struct io_op *op)
{
    struct log_walk *w = container_of(op, struct log_walk, op);
    if (w->is_for_client) {
        log_gate_leave(&w->log->env.shared->gate, op->size);
    }
    w->log->stats.disk_read_bytes += op->done_size;
    enum err e = op->result;
    if (e == ERR_EOF) {
        /* A file shorter than its manifest says: what is missing reads as zeros, and is judged as
         * any other damage. */
        memset(w->buf->data + op->done_size, 0, op->size - op->done_size);
        e = ERR_OK;
    }
    if (e != ERR_OK) {
        w->window.size = 0;
    }
    loaded(w, e);
}

void log_walk_set_window(struct log_walk *w, struct buf *b, uint64_t pos, uint64_t size)
{
    buf_ref(b);
    buf_unref(w->buf);
    w->buf = b;
    w->window = (struct segment_window){.data = b->data, .pos = pos, .size = size};
}

void log_walk_load(struct log_walk *w, uint64_t pos, uint64_t size)
{
    assert_cmp(pos % ENTRY_BLOCK_SIZE, ==, 0);
    assert_cmp(pos, <, w->segment->filled_to);
    w->need_pos = pos;
    w->need_size = size;
    begin_load(w);
}

/* ---- the walk ---- */

static bool is_in_window(const struct log_walk *w, uint64_t pos)
{
    return pos >= w->window.pos && pos < w->window.pos + w->window.size;
}

/* What follows a segment that was retired while the walk was in it; NULL if that is gone, too, or
 * the walk is not that far. */
static struct log_segment *after_retired(const struct log_walk *w)
{
    if (w->scan.index < w->segment->retired_next) {
        return NULL;
    }
    list_for_each (n, &w->log->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->base.index >= w->scan.index) {
            return seg;
        }
    }
    return NULL;
}

/* True: the walk goes on in the next segment. */
static bool enter_next_segment(struct log_walk *w)
{
    struct log_segment *next =
        w->segment->is_retired ? after_retired(w) : log_segment_after(w->segment);
    if (w->is_one_segment || next == NULL || w->scan.index != next->base.index) {
        return false;
    }
    log_walk_seek_start(w, next);
    return true;
}

static bool is_at_end(const struct log_walk *w)
{
    return w->log->state != LOG_OPENING && w->scan.index > w->log->last_index;
}

enum disk_step {
    DISK_ON,
    DISK_RETURN, /* Ended, or a load is on its way. */
};

/* What is needed: from what was read ahead, else from disk. */
static enum disk_step take_ahead(struct log_walk *w)
{
    w->need_pos = w->result.need_pos;
    w->need_size = w->result.need_size;
    switch (log_ahead_take(w)) {
    case AHEAD_READY:
        w->was_on_disk = true;
        return DISK_ON;
    case AHEAD_WAIT:
        return DISK_RETURN;
    case AHEAD_NONE:
        break;
    }
    log_walk_load(w, w->need_pos, w->need_size);
    return DISK_RETURN;
}

static enum disk_step need_more(struct log_walk *w)
{
    if (w->result.has_header && w->on_header != NULL &&
        w->on_header(w, &w->result.header) == WALK_STOP) {
        end(w, WALK_STOPPED);
        return DISK_RETURN;
    }
    if (log_page_find(w->segment, w->result.pos) != NULL) {
        w->window.size = 0;          /* From here on it is in memory. */
        w->scan.pos = w->result.pos; /* The scan has seen the padding in between. */
        return DISK_ON;
    }
    return take_ahead(w);
}

void log_walk_resume(struct log_walk *w)
{
    if (take_ahead(w) == DISK_ON) {
        log_walk_run(w);
    }
}

/* The scan came to the end of the zeros that are there: entries behind it wait in memory for more.
 */
static bool enters_memory(struct log_walk *w)
{
    if (w->result.pos < w->scan.limit_pos || log_page_find(w->segment, w->result.pos) == NULL) {
        return false;
    }
    reached(log_shard(w->log), "log_walk_enters_memory");
    w->window.size = 0;
    w->scan.pos = w->result.pos;
    return true;
}

/* What was accepted as lost is shown as the gap that compaction would leave for it. */
static enum disk_step meet_hole(struct log_walk *w)
{
    const struct segment_jump *j = &w->scan.jumps[w->scan.jump_next];
    if (!j->is_accepted) {
        end(w, WALK_DAMAGE);
        return DISK_RETURN;
    }
    w->result = (struct scan_result){.pos = w->scan.pos, .has_header = true};
    log_hole_gap(&w->scan, j, &w->result.header);
    segment_scan_leap(&w->scan);
    w->entry_buf = NULL;
    if (w->on_entry(w, &w->result) == WALK_STOP) {
        end(w, WALK_STOPPED);
        return DISK_RETURN;
    }
    return DISK_ON;
}

static enum disk_step walk_disk(struct log_walk *w)
{
    switch (segment_scan_next(&w->scan, &w->window, &w->result)) {
    case SCAN_ENTRY:
        w->entry_buf = w->buf;
        if (w->on_entry(w, &w->result) == WALK_STOP) {
            end(w, WALK_STOPPED);
            return DISK_RETURN;
        }
        return DISK_ON;
    case SCAN_MORE:
        return need_more(w);
    case SCAN_END:
        if (enters_memory(w) || enter_next_segment(w)) {
            return DISK_ON;
        }
        if (w->segment->is_retired && !w->is_one_segment) {
            reached(log_shard(w->log), "log_walk_meets_gone_segment");
            end(w, WALK_GONE);
        } else if (w->log->state != LOG_OPENING && !w->is_one_segment) {
            if (w->result.fault == ENTRY_GOOD) {
                w->result.fault = ENTRY_FAULT_ZERO; /* At the limit. */
            }
            end(w, WALK_BAD); /* The log knows of more entries than are there. */
        } else {
            end(w, WALK_AT_END);
        }
        return DISK_RETURN;
    case SCAN_BAD:
        end(w, WALK_BAD);
        return DISK_RETURN;
    case SCAN_DAMAGE:
        return meet_hole(w);
    }
    return DISK_RETURN;
}

/* Whether the walk goes on in pg, the first page that ends above it. A walk that stands inside of
 * the block before pg may have entries of that block still in front of it, on disk, unless it came
 * to the end of the page before. */
static bool goes_on_in(const struct log_walk *w, const struct log_page *pg)
{
    if (pg->pos <= w->scan.pos) {
        return true;
    }
    if (pg->link.prev == &w->log->pages || pg->pos != block_align_up(w->scan.pos)) {
        return false;
    }
    const struct log_page *before = container_of(pg->link.prev, struct log_page, link);
    return before->segment == pg->segment && before->pos + before->used == w->scan.pos;
}

void log_walk_run(struct log_walk *w)
{
    for (;;) {
        if (is_at_end(w)) {
            end(w, WALK_AT_END);
            return;
        }
        if (enter_next_segment(w)) {
            continue;
        }
        /* These may have grown since the walk was here last. */
        w->scan.limit_pos = w->segment->filled_to;
        w->scan.jumps = w->segment->jumps;
        w->scan.jumps_count = w->segment->jumps_count;
        if (!is_in_window(w, w->scan.pos)) {
            struct log_page *pg = log_page_find_above(w->segment, w->scan.pos);
            if (pg != NULL && goes_on_in(w, pg)) {
                enum page_step step = walk_page(w, pg);
                if (step == PAGE_DONE) {
                    continue;
                }
                end(w, step == PAGE_STOPPED ? WALK_STOPPED : WALK_BAD);
                return;
            }
        }
        if (walk_disk(w) == DISK_RETURN) {
            return;
        }
    }
}
