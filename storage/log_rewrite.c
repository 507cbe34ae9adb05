/* Neighbouring sealed segments become one new file, which takes their place; see
 * log_compact_priv.h for the order and why.
 *
 *   WAIT_CREATE -> WAIT_READ -> [WAIT_WRITE -> WAIT_READ]* -> WAIT_WRITE -> WAIT_FSYNC
 *               -> WAIT_RENAME -> WAIT_FSYNC_DIR -> swapped
 *   any -> WAIT_READ (to end) | WAIT_STOP_CLOSE -> WAIT_STOP_DISCARD -> given up
 *
 * Entries are packed: the file has no padding but what entry_place asks for. Runs of removed
 * entries of one term become one gap, gaps of earlier rewritings included.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "core/rand.h"
#include "core/reached.h"
#include "storage/log_compact_priv.h"

enum rewrite_state {
    REWRITE_WAIT_CREATE,
    REWRITE_WAIT_READ,
    REWRITE_WAIT_WRITE,
    REWRITE_WAIT_FSYNC,
    REWRITE_WAIT_RENAME,
    REWRITE_WAIT_FSYNC_DIR,
    REWRITE_WAIT_STOP_CLOSE,
    REWRITE_WAIT_STOP_DISCARD,
};

/* Removed entries that a gap is still to be written for. */
struct pending_gap {
    bool is_there;
    struct entry_header h; /* As it would be written. */
};

struct log_rewrite {
    struct log_rewrite_begin how;
    struct log *log;
    enum rewrite_state state;
    enum err result; /* Of what failed, until the files are gone. */
    bool is_stopping;
    bool is_changed;
    bool is_read; /* The last entry was. */
    bool is_renamed;
    struct log_segment *last; /* That is read. */
    uint64_t end_index;       /* Behind it. */
    struct log_segment *seg;  /* The new one. Not in log.segments before the swap. */
    struct pending_gap gap;
    struct log_paced paced;
    int fd;
    struct buf *buf;
    uint64_t buf_pos; /* Of its first byte in the file. */
    size_t used;
    char *tmp_path;
    char *path;
    struct recycle_discard discard;
    struct io_op op;
    struct log_rewrite_stats stats;
};

static void rewrite_run(struct log_rewrite *rw);

static void on_op_done(struct io_op *op)
{
    struct log_rewrite *rw = container_of(op, struct log_rewrite, op);
    flusher_sync_done(rw->log->env.flusher, op);
    rewrite_run(rw);
}

static void submit(struct log_rewrite *rw, const struct io_op *op, enum rewrite_state next)
{
    rw->state = next;
    rw->op = *op;
    rw->op.on_done = on_op_done;
    io_submit(&log_shard(rw->log)->io, &rw->op);
}

/* ---- ending ---- */

static void rewrite_free(struct log_rewrite *rw)
{
    if (rw->seg != NULL) {
        log_segment_free(rw->seg);
    }
    buf_unref(rw->buf);
    free(rw->tmp_path);
    free(rw->path);
    free(rw);
}

static void finish(struct log_rewrite *rw)
{
    const struct log_rewrite_begin how = rw->how;
    const struct log_rewrite_stats stats = rw->stats;
    const enum err e = rw->result;
    log_paced_done(&rw->paced);
    rewrite_free(rw);
    how.on_done(how.context, e, &stats);
}

static void on_discarded(struct recycle_discard *d, enum err e)
{
    (void)e; /* If it could not be removed, the next start does it. */
    finish(container_of(d, struct log_rewrite, discard));
}

/* At the pace if it is large; never used again, since nobody knows what of it is durable. */
static void stop_discard(struct log_rewrite *rw)
{
    struct recycle *rc = &rw->log->env.shared->recycle;
    const bool is_small = rw->buf_pos < rc->options.file_size_min;
    rw->state = REWRITE_WAIT_STOP_DISCARD;
    rw->discard = (struct recycle_discard){
        .path = rw->is_renamed ? rw->path : rw->tmp_path,
        .written_size = is_small ? RECYCLE_SIZE_SMALL : RECYCLE_SIZE_UNKNOWN,
        .on_done = on_discarded,
    };
    recycle_discard(rc, &rw->discard);
}

/* The new file goes again; e says why, ERR_OK if it is only not needed. */
static void give_up(struct log_rewrite *rw, enum err e)
{
    rw->result = e;
    rw->stats.written_size = 0;
    if (rw->fd == -1) {
        stop_discard(rw);
        return;
    }
    const int fd = rw->fd;
    rw->fd = -1;
    submit(rw, &(struct io_op){.kind = IO_CLOSE, .fd = fd}, REWRITE_WAIT_STOP_CLOSE);
}

/* ---- what is written ---- */

static uint64_t end_of_file(const struct log_rewrite *rw)
{
    return rw->buf_pos + rw->used;
}

/* Room for size bytes more; a larger buffer only until they are written. */
static enum err need_room(struct log_rewrite *rw, uint64_t size)
{
    const uint64_t wanted = block_align_up(rw->used + size + ENTRY_BLOCK_SIZE);
    if (rw->buf != NULL && wanted <= rw->buf->capacity) {
        return ERR_OK;
    }
    const uint64_t capacity = wanted > COMPACT_BUF_SIZE ? wanted : (uint64_t)COMPACT_BUF_SIZE;
    struct buf *larger = log_shared_alloc(rw->log->env.shared, capacity, BUF_CLIENT);
    if (larger == NULL) {
        return ERR_BUSY;
    }
    if (rw->buf != NULL && rw->used > 0) {
        memcpy(larger->data, rw->buf->data, rw->used);
    }
    buf_unref(rw->buf);
    rw->buf = larger;
    return ERR_OK;
}

/* h names the entry; what is of this file is set here. */
static enum err put_entry(struct log_rewrite *rw, struct entry_header h, struct slice payload)
{
    const uint64_t size = entry_size((uint32_t)payload.size);
    enum err e = need_room(rw, size);
    if (e != ERR_OK) {
        return e;
    }
    const uint64_t pos = entry_place(end_of_file(rw));
    uint8_t *out = rw->buf->data + (pos - rw->buf_pos);
    memset(rw->buf->data + rw->used, 0, (size_t)(pos - end_of_file(rw)));
    memset(out + size - ENTRY_ALIGN, 0, ENTRY_ALIGN);
    if (payload.size > 0) {
        memcpy(out + sizeof(h), payload.data, payload.size);
    }
    h.payload_size = (uint32_t)payload.size;
    h.salt = rw->seg->salt;
    h.generation = rw->seg->generation;
    h.durable_index = h.index - 1;
    h.durable_generation = rw->seg->generation;
    entry_seal(&h, out);
    log_segment_note(rw->seg, pos, &h);
    rw->used = (size_t)(pos + size - rw->buf_pos);
    rw->seg->end_pos = pos + size;
    rw->paced.bytes += size;
    return ERR_OK;
}

static enum err put_gap(struct log_rewrite *rw)
{
    if (!rw->gap.is_there) {
        return ERR_OK;
    }
    rw->gap.is_there = false;
    reached(log_shard(rw->log), "log_gap_written");
    return put_entry(rw, rw->gap.h, (struct slice){0});
}

/* True: h became part of the gap before it. */
static bool extends_gap(struct pending_gap *gap, const struct entry_header *h)
{
    const uint64_t span = entry_last_index(h) - gap->h.index;
    if (!gap->is_there || gap->h.term != h->term || span > UINT32_MAX) {
        return false;
    }
    assert_cmp(entry_last_index(&gap->h) + 1, ==, h->index);
    gap->h.span = (uint32_t)span;
    gap->h.next_offset = h->next_offset;
    gap->h.entry_id = h->entry_id;
    return true;
}

static enum err remove_entry(struct log_rewrite *rw, const struct entry_header *h)
{
    rw->is_changed |= h->type != ENTRY_GAP;
    rw->stats.entries_removed += h->type != ENTRY_GAP;
    if (extends_gap(&rw->gap, h)) {
        return ERR_OK;
    }
    enum err e = put_gap(rw);
    rw->gap.is_there = true;
    rw->gap.h = *h;
    rw->gap.h.type = ENTRY_GAP;
    rw->gap.h.max_timestamp = -1;
    return e;
}

static enum err keep_entry(struct log_rewrite *rw,
                           const struct entry_header *h,
                           const struct compaction_result *result)
{
    enum err e = put_gap(rw);
    struct entry_header kept = *h;
    kept.max_timestamp = result->max_timestamp;
    rw->is_changed |= result->verdict == COMPACTION_REWRITE;
    return e == ERR_OK ? put_entry(rw, kept, result->payload) : e;
}

/* ---- reading ---- */

static void take(struct log_rewrite *rw, struct log_segment *seg)
{
    rw->last = seg;
    rw->end_index = log_segment_after(seg)->base.index;
    rw->stats.old_size += seg->written_to;
    rw->stats.segments_count++;
    rw->stats.next_index = rw->end_index;
}

/* The last entry was read: of these segments, or of all that there is room for? */
static bool take_more(struct log_rewrite *rw)
{
    struct log_segment *next = log_segment_after(rw->last);
    if (rw->how.takes_more == NULL || !rw->how.takes_more(rw->how.context, next, end_of_file(rw))) {
        return false;
    }
    take(rw, next);
    return true;
}

static enum paced_verdict on_entry(struct log_paced *p, const struct scan_result *entry)
{
    struct log_rewrite *rw = container_of(p, struct log_rewrite, paced);
    const struct entry_header *h = &entry->header;
    struct compaction_result result = {
        .verdict = h->type == ENTRY_GAP ? COMPACTION_REMOVE : COMPACTION_KEEP,
        .payload = entry->payload,
        .max_timestamp = h->max_timestamp,
    };
    if (rw->how.judge != NULL && h->type != ENTRY_GAP) {
        p->cost_ns += rw->how.judge(rw->how.context, entry, &result);
    }
    p->cost_ns += COMPACT_ENTRY_NS + entry->payload.size / COMPACT_COPY_BYTES_PER_NS;
    rw->stats.read_size += entry_size(h->payload_size);
    rw->result =
        result.verdict == COMPACTION_REMOVE ? remove_entry(rw, h) : keep_entry(rw, h, &result);
    rw->is_read = entry_last_index(h) + 1 == rw->end_index && !take_more(rw);
    if (rw->is_read && rw->result == ERR_OK) {
        rw->result = put_gap(rw);
    }
    if (rw->result != ERR_OK || rw->is_read) {
        return PACED_END;
    }
    return rw->used >= COMPACT_CHUNK_SIZE ? PACED_PAUSE : PACED_ON;
}

/* Whole blocks; the rest stays for what comes behind it. */
static void submit_write(struct log_rewrite *rw)
{
    const uint64_t size = rw->is_read ? block_align_up(rw->used) : block_align_down(rw->used);
    if (size > rw->used) {
        memset(rw->buf->data + rw->used, 0, (size_t)(size - rw->used));
        rw->used = (size_t)size;
    }
    const struct log *l = rw->log;
    if (!space_has_spare(l->env.space, l->tier, size)) {
        reached(log_shard(l), "log_rewrite_leaves_the_reserve");
        give_up(rw, ERR_NO_SPACE);
        return;
    }
    space_take(l->env.space, size);
    submit(rw,
           &(struct io_op){
               .kind = IO_WRITE,
               .fd = rw->fd,
               .buf = rw->buf->data,
               .size = size,
               .pos = rw->buf_pos,
           },
           REWRITE_WAIT_WRITE);
}

static void written(struct log_rewrite *rw)
{
    const uint64_t size = rw->op.size;
    memmove(rw->buf->data, rw->buf->data + size, rw->used - (size_t)size);
    rw->buf_pos += size;
    rw->used -= (size_t)size;
    rw->stats.written_size += size;
    if (rw->buf->capacity > 2 * (size_t)COMPACT_BUF_SIZE && rw->used <= ENTRY_BLOCK_SIZE) {
        uint8_t rest[ENTRY_BLOCK_SIZE];
        memcpy(rest, rw->buf->data, rw->used); /* The large one was for one entry. */
        const size_t used = rw->used;
        buf_unref(rw->buf);
        rw->buf = NULL;
        rw->used = 0;
        rw->result = need_room(rw, used);
        if (rw->result != ERR_OK) {
            give_up(rw, rw->result);
            return;
        }
        memcpy(rw->buf->data, rest, used);
        rw->used = used;
    }
    if (rw->is_read) {
        submit(rw, &(struct io_op){.kind = IO_FSYNC, .fd = rw->fd}, REWRITE_WAIT_FSYNC);
    } else {
        rw->state = REWRITE_WAIT_READ;
        log_paced_go(&rw->paced);
    }
}

static void on_paused(struct log_paced *p)
{
    struct log_rewrite *rw = container_of(p, struct log_rewrite, paced);
    if (rw->is_stopping) {
        give_up(rw, ERR_CANCELLED);
    } else {
        submit_write(rw);
    }
}

/* One segment that stays as it is would only get another name, unless much of it is padding. */
static bool is_worth_it(const struct log_rewrite *rw)
{
    const uint64_t old_size = rw->how.first->written_to;
    return rw->is_changed || rw->how.first != rw->last || end_of_file(rw) < old_size / 4 * 3;
}

static void on_read_ended(struct log_paced *p, enum err e)
{
    struct log_rewrite *rw = container_of(p, struct log_rewrite, paced);
    if (e == ERR_OK) {
        e = rw->result;
    }
    if (e == ERR_OK && !rw->is_read) {
        e = ERR_CORRUPT; /* The log ended before the segments did. */
    }
    if (e != ERR_OK) {
        give_up(rw, e);
    } else if (!is_worth_it(rw)) {
        give_up(rw, ERR_OK);
    } else {
        submit_write(rw);
    }
}

static void write_header(struct log_rewrite *rw)
{
    struct log *l = rw->log;
    struct segment_header h = {
        .salt = rw->seg->salt,
        .base = rw->seg->base,
        .partition = l->id.partition,
        .generation = rw->seg->generation,
        .file_version = rw->seg->file_version,
    };
    memcpy(h.topic_id, l->id.topic_id.bytes, sizeof(h.topic_id));
    segment_header_encode(&h, rw->buf->data);
    rw->used = SEGMENT_HEADER_SIZE;
}

/* ---- the swap ---- */

/* Behind the new record, so that none of them is missed after a crash: see compaction's order. */
static void forget_records(struct log_rewrite *rw)
{
    struct log *l = rw->log;
    for (struct log_segment *seg = rw->how.first; seg != NULL; seg = log_segment_after(seg)) {
        if (seg != rw->how.first) {
            const struct store_key key = log_store_key(l, STORE_SEGMENT, seg->base.index);
            (void)store_delete(l->env.store, &key); /* Else the next start does it. */
        }
        log_segment_drop_cuts(seg);
        log_holes_drop(seg);
        if (seg == rw->last) {
            break;
        }
    }
}

static void replace_in_memory(struct log_rewrite *rw)
{
    struct log *l = rw->log;
    struct log_segment *seg = rw->seg;
    struct segment_file *f = &seg->file;
    f->state = SEGMENT_FILE_OPEN;
    f->fd = rw->fd;
    rw->fd = -1;
    rw->seg = NULL;
    l->env.shared->stats.files_open++;
    list_push_back(&l->env.shared->idle_files, &f->idle_link);

    list_insert(rw->how.first->link.prev, &seg->link);
    struct log_segment *old = rw->how.first;
    for (bool is_last = false; !is_last;) {
        struct log_segment *next = log_segment_after(old);
        is_last = old == rw->last;
        if (log_retire(old, LOG_RETIRE_REPLACED) != ERR_OK) {
            panic("no memory to replace a segment");
        }
        old = next;
    }
    log_recount(l);
    l->has_unindexed = true;
    log_index_seal(l);
}

static void swap(struct log_rewrite *rw)
{
    struct log *l = rw->log;
    struct log_segment *seg = rw->seg;
    assert_cmp(rw->end_index - 1, <=, l->commit_index);
    assert_cmp(rw->end_index - 1, <=, l->flushed_index);
    seg->end_index = rw->end_index;
    seg->filled_to = end_of_file(rw);
    seg->written_to = seg->filled_to;
    seg->tail_pos = seg->filled_to;
    seg->is_usable = true;
    seg->is_end_put = true; /* No recovery that begins at a checkpoint walks it. */
    /* All of it is durable: whatever is bad in it from now on is damage, never a torn write. */
    enum err e = log_persist_durable(l);
    if (e == ERR_OK) {
        e = log_segment_put(seg, seg->filled_to);
    }
    if (e != ERR_OK) {
        give_up(rw, e);
        return;
    }
    forget_records(rw);
    replace_in_memory(rw);
    rw->result = ERR_OK;
    finish(rw);
}

/* ---- the task ---- */

static void rewrite_run(struct log_rewrite *rw)
{
    const bool is_ending =
        rw->state == REWRITE_WAIT_STOP_CLOSE || rw->state == REWRITE_WAIT_STOP_DISCARD;
    if (rw->state == REWRITE_WAIT_CREATE && rw->op.result == ERR_OK) {
        rw->fd = rw->op.result_fd;
    }
    rw->is_renamed |= rw->state == REWRITE_WAIT_RENAME && rw->op.result == ERR_OK;
    if (!is_ending && rw->op.result != ERR_OK) {
        give_up(rw, rw->op.result);
        return;
    }
    /* A cut or a close that has begun may not have asked us to stop yet. */
    const struct log *l = rw->log;
    if (!is_ending && (rw->is_stopping || l->is_failed || l->state != LOG_OPEN)) {
        give_up(rw, ERR_CANCELLED);
        return;
    }
    switch (rw->state) {
    case REWRITE_WAIT_CREATE:
        rw->state = REWRITE_WAIT_READ;
        log_paced_start(&rw->paced, rw->how.first, INT64_MIN);
        break;
    case REWRITE_WAIT_READ:
        break;
    case REWRITE_WAIT_WRITE:
        written(rw);
        break;
    case REWRITE_WAIT_FSYNC:
        submit(rw,
               &(struct io_op){.kind = IO_RENAME, .path = rw->tmp_path, .new_path = rw->path},
               REWRITE_WAIT_RENAME);
        break;
    case REWRITE_WAIT_RENAME:
        submit(rw,
               &(struct io_op){.kind = IO_FSYNC_DIR, .path = rw->log->dir},
               REWRITE_WAIT_FSYNC_DIR);
        break;
    case REWRITE_WAIT_FSYNC_DIR:
        swap(rw);
        break;
    case REWRITE_WAIT_STOP_CLOSE:
        stop_discard(rw);
        break;
    case REWRITE_WAIT_STOP_DISCARD:
        break; /* on_discarded */
    }
}

static struct log_segment *make_segment(const struct log_rewrite_begin *how)
{
    const struct log_segment *first = how->first;
    uint64_t salt = 0;
    while (salt == 0) {
        salt = rand_u64(&log_shard(first->log)->rand);
    }
    struct log_segment *seg = log_segment_new(first->log, &first->base, salt);
    if (seg != NULL) {
        seg->file_version = first->file_version + 1;
    }
    return seg;
}

enum err log_rewrite_start(const struct log_rewrite_begin *how, struct log_rewrite **ret_rewrite)
{
    struct log *l = how->first->log;
    assert(l->state == LOG_OPEN);
    assert(!l->is_end_unknown);
    /* The old files stay until the new one counts. */
    if (!space_has_spare(l->env.space, l->tier, how->first->entries_size)) {
        return ERR_NO_SPACE;
    }
    struct log_rewrite *rw = calloc(1, sizeof(*rw));
    if (rw == NULL) {
        return ERR_BUSY;
    }
    rw->how = *how;
    rw->log = l;
    rw->fd = -1;
    rw->seg = make_segment(how);
    rw->tmp_path = log_path(l->dir, "rewrite.tmp");
    rw->path = rw->seg == NULL ? NULL : log_segment_path(rw->seg, ".log");
    log_paced_init(&rw->paced, l);
    rw->paced.on_entry = on_entry;
    rw->paced.on_paused = on_paused;
    rw->paced.on_end = on_read_ended;
    if (rw->path == NULL || rw->tmp_path == NULL || need_room(rw, SEGMENT_HEADER_SIZE) != ERR_OK) {
        rewrite_free(rw);
        return ERR_BUSY;
    }
    take(rw, how->first);
    write_header(rw);
    *ret_rewrite = rw;
    submit(rw,
           &(struct io_op){
               .kind = IO_OPEN,
               .path = rw->tmp_path,
               .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_TRUNCATE |
                             IO_OPEN_DIRECT,
           },
           REWRITE_WAIT_CREATE);
    return ERR_OK;
}

void log_rewrite_stop(struct log_rewrite *rw)
{
    rw->is_stopping = true;
    (void)log_paced_stop(&rw->paced);
}

bool log_rewrite_has(const struct log_rewrite *rw, const struct log_segment *seg)
{
    return seg->base.index >= rw->how.first->base.index && seg->base.index < rw->end_index;
}
