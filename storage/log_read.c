/* Reading whole batches, from tail pages or from disk. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "storage/batch.h"
#include "storage/log_priv.h"

enum {
    READ_WINDOW_SIZE_MIN = 64 << 10,
    READ_WINDOW_SIZE_MAX = 1 << 20,
};

struct read_walk {
    struct log_walk walk;
    struct log_read *read;
    struct log_segment *seg; /* Where it starts. */
    struct segment_wait index_wait;
    uint64_t start_index;         /* The entry that the index names. */
    bool is_by_point;             /* Started at a point of an index file. */
    struct segment_scan answered; /* Behind the last entry that was, if r->size > 0. */
    uint64_t answered_base;       /* base.index of its segment. */
};

static struct read_walk *read_walk_of(struct log_walk *w)
{
    return container_of(w, struct read_walk, walk);
}

/* The last segment that starts at or below offset. NULL: below the log start. */
struct log_segment *log_segment_by_offset(const struct log *l, int64_t offset)
{
    for (struct list *n = l->segments.prev; n != &l->segments; n = n->prev) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->base.offset <= offset) {
            return seg;
        }
    }
    return NULL;
}

static void count(const struct read_walk *rw)
{
    struct log_shared_stats *stats = &rw->walk.log->env.shared->stats;
    if (rw->walk.was_on_disk) {
        stats->cache_misses++;
    } else if (rw->read->size > 0) {
        stats->cache_hits++;
    }
}

/* The walk stands where the next read of the same reader will go on, and came there by the disk. */
static bool has_lagged(struct read_walk *rw)
{
    const struct log_walk *w = &rw->walk;
    if (!w->was_on_disk || rw->read->size == 0 || rw->read->is_header_enough) {
        return false;
    }
    if (rw->answered_base != w->segment->base.index) {
        rw->answered.pos = SEGMENT_HEADER_SIZE; /* It has entered the next segment. */
        return rw->answered.index == w->segment->base.index;
    }
    return true;
}

static void finish(struct read_walk *rw, enum err e)
{
    struct log_read *r = rw->read;
    struct log *l = r->log;
    count(rw);
    log_ahead_leave(&rw->walk, has_lagged(rw) ? &rw->answered : NULL);
    log_walk_done(&rw->walk);
    free(rw);
    r->state = NULL;
    r->result = r->size > 0 ? ERR_OK : e; /* What was checked is answered; the rest comes again. */
    l->stats.reads++;
    l->stats.read_bytes += r->size;
    r->on_done(r);
}

/* How much of a batch the reader gets. */
static size_t wanted_size(const struct log_read *r, size_t payload_size)
{
    return r->is_header_enough && payload_size > BATCH_HEADER_SIZE ? BATCH_HEADER_SIZE
                                                                   : payload_size;
}

static enum walk_verdict judge(struct log_read *r, const struct entry_header *h)
{
    if (h->type != ENTRY_DATA || h->next_offset <= r->offset) {
        return WALK_ON;
    }
    if (h->next_offset > r->end_offset) {
        return WALK_STOP;
    }
    if (wanted_size(r, h->payload_size) > r->dst_size - r->size) {
        if (r->size == 0) {
            r->size_needed = h->payload_size;
        }
        return WALK_STOP;
    }
    return WALK_ON;
}

static enum walk_verdict on_header(struct log_walk *w, const struct entry_header *h)
{
    return judge(read_walk_of(w)->read, h);
}

/* No batch can follow this one in the answer. */
static bool is_last_batch(const struct log_read *r, const struct entry_header *h)
{
    return r->is_header_enough || h->next_offset >= r->end_offset ||
           r->dst_size - r->size < h->payload_size + BATCH_HEADER_SIZE;
}

static void answer(struct log_walk *w, const struct scan_result *entry)
{
    struct log_read *r = read_walk_of(w)->read;
    const struct slice bytes = slice_of(entry->payload.data, wanted_size(r, entry->payload.size));
    if (!log_pin_add(r, w->entry_buf, bytes, is_last_batch(r, &entry->header))) {
        log_pin_note_copy(r, bytes.size);
        memcpy(r->dst + r->copied_size, bytes.data, bytes.size);
        r->copied_size += bytes.size;
    }
    r->size += bytes.size;
    read_walk_of(w)->answered = w->scan;
    read_walk_of(w)->answered_base = w->segment->base.index;
}

static enum walk_verdict on_entry(struct log_walk *w, const struct scan_result *entry)
{
    struct log_read *r = read_walk_of(w)->read;
    const struct entry_header *h = &entry->header;
    if (judge(r, h) == WALK_STOP) {
        return WALK_STOP;
    }
    if (h->type == ENTRY_DATA && h->next_offset > r->offset) {
        answer(w, entry);
    }
    const bool is_enough = r->is_header_enough && r->size > 0;
    return is_enough || h->next_offset >= r->end_offset ? WALK_STOP : WALK_ON;
}

void log_report_corruption(struct log_walk *w)
{
    struct log *l = w->log;
    const struct scan_result *found = &w->result;
    char file[SEGMENT_NAME_SIZE];
    log_segment_name(w->segment, ".log", file);
    l->stats.corrupt_reads++;
    log_error(log_shard(l)->log,
              "log_read_corrupt",
              "log=%s file=%s/%s pos=%" PRIu64 " fault=%s index=%" PRIu64 " first_offset=%" PRId64
              " next_offset=%" PRId64
              " action=\"restore the node's files from a backup; or stop it and see 'coreflume "
              "help log repair'\"",
              l->name,
              l->dir,
              file,
              found->pos,
              entry_fault_name(found->fault),
              w->scan.index,
              w->scan.offset,
              found->has_header ? found->header.next_offset : -1);
}

static bool doubts_index(struct read_walk *rw);

static void on_end(struct log_walk *w, enum walk_reason reason)
{
    struct read_walk *rw = read_walk_of(w);
    struct log_read *r = rw->read;
    switch (reason) {
    case WALK_STOPPED:
        finish(rw, r->size_needed > 0 ? ERR_TOO_LARGE : ERR_OK);
        break;
    case WALK_AT_END:
        finish(rw, ERR_OK);
        break;
    case WALK_BAD:
        if (!doubts_index(rw)) {
            log_report_corruption(w);
            finish(rw, ERR_CORRUPT);
        }
        break;
    case WALK_DAMAGE:
        if (r->size == 0 && w->scan.jumps[w->scan.jump_next].offset <= r->offset) {
            log_walk_leap(w);
            log_walk_run(w);
        } else {
            finish(rw, ERR_CORRUPT);
        }
        break;
    case WALK_GONE:
        if (r->size > 0) {
            finish(rw, ERR_OK);
        } else {
            log_ahead_leave(w, NULL); /* It may stand in what is gone, and w joins another. */
            w->on_start(w);
        }
        break;
    case WALK_ERROR:
        finish(rw, w->error);
        break;
    }
}

static uint32_t window_size_for(const struct log_read *r)
{
    uint32_t size = READ_WINDOW_SIZE_MIN;
    while (size < r->dst_size && size < READ_WINDOW_SIZE_MAX) {
        size *= 2;
    }
    return size;
}

static void start_in_segment(struct read_walk *rw)
{
    struct log_read *r = rw->read;
    const struct segment_point *p = segment_points_by_offset(&rw->seg->points, r->offset);
    log_walk_seek_point(&rw->walk, rw->seg, p);
    rw->is_by_point = p != NULL && rw->seg->is_index_loaded;
    rw->start_index = rw->walk.scan.index;
    rw->walk.scan.skip_offset = r->offset;
    log_walk_run(&rw->walk);
}

static void on_index_ready(struct segment_wait *wait, enum err e)
{
    (void)e;
    start_in_segment(container_of(wait, struct read_walk, index_wait));
}

/* The index named a place where its entry is not. It is not believed any more; if the walk through
 * the whole segment meets a bad entry, too, it is the log that is damaged. */
static bool doubts_index(struct read_walk *rw)
{
    if (!rw->is_by_point || rw->walk.scan.index != rw->start_index) {
        return false;
    }
    (void)log_index_doubt(rw->seg); /* Another read may have been there before. */
    log_walk_seek_start(&rw->walk, rw->seg);
    rw->is_by_point = false;
    rw->walk.scan.skip_offset = rw->read->offset;
    log_walk_run(&rw->walk);
    return true;
}

static void on_start(struct log_walk *w)
{
    struct read_walk *rw = read_walk_of(w);
    struct log_read *r = rw->read;
    struct log *l = r->log;
    if (r->offset < log_start_offset(l) || r->offset > l->next_offset) {
        finish(rw, ERR_OUT_OF_RANGE);
        return;
    }
    if (r->offset >= r->end_offset || r->offset == l->next_offset) {
        finish(rw, ERR_OK);
        return;
    }
    /* Who wants headers does not go through the log, and takes nothing from who does. */
    if (!r->is_header_enough && log_ahead_join(w, r->offset)) {
        rw->seg = w->segment;
        rw->is_by_point = false;
        w->scan.skip_offset = r->offset;
        log_walk_run(w);
        return;
    }
    rw->seg = log_segment_by_offset(l, r->offset);
    log_walk_seek_start(w, rw->seg); /* So it is held while its index is brought. */
    rw->index_wait.on_ready = on_index_ready;
    if (log_index_want(rw->seg, &rw->index_wait)) {
        start_in_segment(rw);
    }
}

void log_read_begin(struct log *l, struct log_read *r)
{
    assert(l->state != LOG_OPENING);
    assert(l->end == NULL);
    r->log = l;
    r->result = ERR_OK;
    r->size = 0;
    r->size_needed = 0;
    r->pin = NULL;
    r->copied_size = 0;
    assert_cmp(r->pieces_max, <=, LOG_PIECES_MAX);

    struct read_walk *rw = malloc(sizeof(*rw));
    if (rw == NULL) {
        panic("no memory for a read");
    }
    rw->read = r;
    r->state = rw;
    log_walk_init(&rw->walk, l);
    rw->walk.window_size = window_size_for(r);
    rw->walk.is_for_client = true;
    rw->walk.on_start = on_start;
    rw->walk.on_header = on_header;
    rw->walk.on_entry = on_entry;
    rw->walk.on_end = on_end;
    log_walk_park(&rw->walk);
}

/* ---- how much there is ---- */

struct tally {
    int64_t offset;
    int64_t end_offset;
    size_t size;
    size_t size_max;
    bool is_done; /* Reached end_offset or size_max. */
};

/* Adds up the entries of a page from pos on. */
static void tally_page(struct tally *t, const struct log_page *pg, uint64_t pos)
{
    pos = pos < pg->pos ? pg->pos : pos;
    for (;;) {
        pos = entry_place(pos);
        if (pos + sizeof(struct entry_header) > pg->pos + pg->used) {
            return;
        }
        struct entry_header h;
        memcpy(&h, pg->buf->data + (pos - pg->pos), sizeof(h));
        if (h.salt == 0) {
            pos = block_align_up(pos + 1);
            continue;
        }
        if (h.type == ENTRY_DATA && h.next_offset > t->offset) {
            if (h.next_offset > t->end_offset) {
                t->is_done = true;
                return;
            }
            t->size += h.payload_size;
        }
        if (h.next_offset >= t->end_offset || t->size >= t->size_max) {
            t->is_done = true;
            return;
        }
        pos += entry_size(h.payload_size);
    }
}

/* Position in the log as a whole, by the nearest point. */
static uint64_t estimate_pos(const struct log *l, int64_t offset)
{
    uint64_t pos = 0;
    list_for_each (n, &l->segments) {
        const struct log_segment *seg = container_of(n, struct log_segment, link);
        const struct log_segment *next = log_segment_after(seg);
        if (next != NULL && next->base.offset <= offset) {
            pos += seg->tail_pos;
            continue;
        }
        if (offset >= l->next_offset) {
            return pos + seg->tail_pos;
        }
        const struct segment_point *p = segment_points_by_offset(&seg->points, offset);
        return pos + (p == NULL ? SEGMENT_HEADER_SIZE : p->pos);
    }
    return pos;
}

size_t log_readable_size(const struct log *l, int64_t offset, int64_t end_offset, size_t max)
{
    end_offset = end_offset < l->next_offset ? end_offset : l->next_offset;
    if (offset >= end_offset || offset < log_start_offset(l)) {
        return 0;
    }
    const struct log_segment *seg = log_segment_by_offset(l, offset);
    const struct segment_point *p = segment_points_by_offset(&seg->points, offset);
    const uint64_t pos = p == NULL ? SEGMENT_HEADER_SIZE : p->pos;
    struct tally t = {.offset = offset, .end_offset = end_offset, .size_max = max};
    const struct log_page *pg = log_page_find(seg, pos);
    if (pg != NULL) {
        tally_page(&t, pg, pos);
        /* Behind a page in memory there are only pages in memory: they leave oldest first. */
        for (struct list *n = pg->link.next; n != &l->pages && !t.is_done; n = n->next) {
            const struct log_page *more = container_of(n, struct log_page, link);
            tally_page(&t, more, more->pos);
        }
        return t.size < max ? t.size : max;
    }
    uint64_t from_pos = estimate_pos(l, offset);
    uint64_t end_pos = estimate_pos(l, end_offset);
    uint64_t size = end_pos > from_pos ? end_pos - from_pos : 1;
    return size < max ? (size_t)size : max;
}
