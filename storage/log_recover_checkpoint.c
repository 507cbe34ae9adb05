/* Recovery from a checkpoint: the log and its owner are put into the state that they had, closed
 * segments before are looked at by name and size only, and the walk begins behind the last entry
 * that is covered.
 *
 * Nothing of a checkpoint is believed that does not fit to what else is known; then all entries are
 * read, as if there were none, and one line says why. That is also the way out if its file is
 * damaged or gone. Its index counts as a D: it was flushed when it was put.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_recover_priv.h"

void recovery_drop_checkpoint(struct log_recovery *r)
{
    free(r->checkpoint.bytes);
    buf_unref(r->checkpoint.buf);
    r->checkpoint.bytes = NULL;
    r->checkpoint.buf = NULL;
    r->checkpoint.record.index = 0;
}

static void ignore(struct log_recovery *r, const char *why)
{
    log_warn(log_shard(r->log)->log,
             "log_checkpoint_ignored",
             "log=%s index=%" PRIu64 " why=\"%s\" action=\"none: all entries are read\"",
             r->log->name,
             r->checkpoint.record.index,
             why);
    reached(log_shard(r->log), "log_checkpoint_ignored");
    recovery_drop_checkpoint(r);
}

/* ---- reading ---- */

void recovery_find_checkpoint(struct log_recovery *r)
{
    struct log *l = r->log;
    struct store_key key = log_store_key(l, STORE_CHECKPOINT, 0);
    struct slice value;
    if (!store_get(l->env.store, &key, &value)) {
        return;
    }
    struct slice bytes;
    enum err e = checkpoint_record_decode(value, &r->checkpoint.record, &bytes);
    if (e != ERR_OK) {
        ignore(r, err_name(e));
        return;
    }
    if (r->checkpoint.record.file_size > 0) {
        l->checkpoint_file = r->checkpoint.record.index;
        return;
    }
    r->checkpoint.bytes = malloc(bytes.size);
    if (r->checkpoint.bytes == NULL) {
        ignore(r, "no memory");
        return;
    }
    memcpy(r->checkpoint.bytes, bytes.data, bytes.size); /* The store may change before its use. */
    r->checkpoint.size = bytes.size;
}

static void on_read(struct whole_file *f, enum err e)
{
    struct log_recovery *r = container_of(f, struct log_recovery, checkpoint.file);
    free(r->path);
    r->path = NULL;
    if (e != ERR_OK) {
        ignore(r, e == ERR_NOT_FOUND ? "its file is gone" : err_name(e));
    }
    recovery_unlink_next(r);
}

void recovery_load_checkpoint(struct log_recovery *r)
{
    struct log *l = r->log;
    const uint64_t size = block_align_up(r->checkpoint.record.file_size);
    if (r->checkpoint.record.index == 0 || size == 0) {
        recovery_unlink_next(r);
        return;
    }
    r->path = log_checkpoint_path(l, r->checkpoint.record.index);
    r->checkpoint.buf = log_shared_alloc(l->env.shared, size, BUF_RESERVED);
    if (r->path == NULL || r->checkpoint.buf == NULL) {
        free(r->path);
        r->path = NULL;
        ignore(r, "no memory");
        recovery_unlink_next(r);
        return;
    }
    r->state = RECOVERY_WAIT_CHECKPOINT;
    r->checkpoint.size = r->checkpoint.record.file_size;
    r->checkpoint.file = (struct whole_file){
        .s = log_shard(l),
        .flusher = l->env.flusher,
        .path = r->path,
        .data = r->checkpoint.buf->data,
        .size = size,
        .on_done = on_read,
    };
    whole_file_read_begin(&r->checkpoint.file);
}

/* ---- judging ---- */

/* A cut that was made since reached below it: below its index, or, where a write went astray, below
 * the place where what it covers had ended. */
static bool is_cut(const struct log_recovery *r, const struct checkpoint_header *h)
{
    for (uint32_t i = 0; i < r->cuts_count; i++) {
        const struct cut_record *c = &r->cuts[i];
        const bool is_below = c->index <= h->index || (c->segment == h->segment && c->pos < h->pos);
        if (c->generation > h->generation && is_below) {
            return true;
        }
    }
    return false;
}

/* The size on disk of a closed segment that is not going to be read. */
static bool is_whole(const struct log_segment *seg)
{
    char *path = log_segment_path(seg, ".log");
    uint64_t size = 0;
    bool is_there = path != NULL && io_file_size(&log_shard(seg->log)->io, path, &size) == ERR_OK;
    free(path);
    return is_there && size >= block_align_up(seg->end_pos);
}

/* NULL: it fits. Else what does not. */
static const char *judge(const struct log_recovery *r, const struct checkpoint *c)
{
    const struct checkpoint_header *h = &c->header;
    const struct log *l = r->log;
    if (h->index != r->checkpoint.record.index || h->crc != r->checkpoint.record.crc) {
        return "it is another one than the store names";
    }
    const struct log_segment *seg = recovery_segment_at(l, h->segment);
    if (seg == NULL || seg->salt != h->salt || h->pos < SEGMENT_HEADER_SIZE ||
        h->pos > seg->filled_to || h->generation < seg->generation) {
        return "its segment is another one";
    }
    if (h->generation > l->generation) {
        return "its generation is unknown";
    }
    if (is_cut(r, h)) {
        return "the log was cut below it";
    }
    list_for_each (n, &l->segments) {
        const struct log_segment *before = container_of(n, struct log_segment, link);
        if (before == seg) {
            break;
        }
        if (!before->is_end_put || before->end_pos > before->filled_to) {
            return "the end of a segment before is unknown";
        }
        if (!is_whole(before)) {
            return "a segment before it is shorter than it was";
        }
    }
    return NULL;
}

/* ---- taking ---- */

static void take_sealed(struct log_recovery *r, struct log_segment *seg)
{
    recovery_set_tail(seg);
    log_index_forget(seg);
    if (!recovery_has_file(r, seg, ".index")) {
        return;
    }
    char *path = log_segment_path(seg, ".index");
    uint64_t size;
    if (path != NULL && io_file_size(&log_shard(r->log)->io, path, &size) == ERR_OK) {
        seg->index_file_size = size;
    }
    free(path);
}

static void take_points(struct log_segment *seg, const struct checkpoint *c)
{
    for (uint32_t i = 0; i < c->header.points_count; i++) {
        struct segment_point p;
        memcpy(&p, c->points.data + i * sizeof(p), sizeof(p));
        seg->point_next_pos = p.pos; /* Each is due, whatever the interval was. */
        segment_points_note(
            &seg->points, &p, &seg->point_next_pos, seg->log->options.index_interval);
    }
    seg->max_timestamp = c->header.max_timestamp;
    seg->first_timestamp = c->header.first_timestamp;
}

static void take(struct log_recovery *r, const struct checkpoint *c)
{
    struct log *l = r->log;
    const struct checkpoint_header *h = &c->header;
    list_for_each (n, &l->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->base.index == h->segment) {
            r->seg = seg;
            break;
        }
        take_sealed(r, seg);
    }
    r->seg->is_end_put = false;
    r->seg->end_pos = h->pos;
    r->seg->entries_size = h->pos; /* As if there were no padding before. */
    take_points(r->seg, c);
    for (uint32_t i = 0; i < h->terms_count; i++) {
        struct log_term t;
        memcpy(&t, c->terms.data + i * sizeof(t), sizeof(t));
        log_terms_add(l, t.term, t.index, t.offset);
    }
    log_forget_below(l, log_first_index(l));
    l->start_offset = h->start_offset;
    l->last_index = h->index;
    l->last_term = h->term;
    l->last_id = h->entry_id;
    l->next_offset = h->next_offset;
    l->checkpoint_index = h->index;
    l->checkpoint_segment = h->segment;
    if (h->index > r->commit_index) {
        r->commit_index = h->index;
    }
    recovery_learn_durable(r, h->index, h->generation);
}

bool recovery_take_checkpoint(struct log_recovery *r, uint64_t *ret_pos)
{
    struct log *l = r->log;
    if (r->checkpoint.record.index == 0) {
        return false;
    }
    const uint8_t *bytes =
        r->checkpoint.buf != NULL ? r->checkpoint.buf->data : r->checkpoint.bytes;
    struct checkpoint c;
    enum err e = checkpoint_decode(slice_of(bytes, r->checkpoint.size), &c);
    const char *why = e == ERR_OK ? judge(r, &c) : err_name(e);
    if (why == NULL && l->callbacks->on_restore != NULL) {
        e = l->callbacks->on_restore(l->context, c.state, c.header.index);
        why = e == ERR_OK ? NULL : "its owner cannot use the state";
    }
    if (why != NULL) {
        ignore(r, why);
        return false;
    }
    take(r, &c);
    *ret_pos = c.header.pos;
    reached(log_shard(l), "log_checkpoint_taken");
    recovery_drop_checkpoint(r);
    return true;
}
