/* Cuts (DESIGN 4.6): entries from an index on go, durably, and never look valid again.
 *
 * The execution, used by log_cut and by recovery (which also redoes it):
 *
 *   START -> WAIT_INTENT -> [WAIT_CLOSE -> WAIT_UNLINK_INDEX -> WAIT_DISCARD]* -> WAIT_UNLINK_OWN
 *         -> WAIT_FSYNC_DIR -> WAIT_OPEN -> WAIT_ZEROS* -> WAIT_FLUSH -> WAIT_DONE -> done
 *
 *  1. The intent {segment, pos, generation + 1} and D lowered to the cut are durable first.
 *  2. Later segments go, last first; the index of the cut segment goes. The store may still name
 *     them: their files never serve another segment (recycle.h, 1).
 *  3. The block that the cut point is in stays as it is, from the next one on zeros are written up
 *     to filled_to, and flushed. What stays of the old generation in that block is skipped: readers
 *     and recovery know the cut's record and jump to the next block.
 *  4. The record says done, durably. Without that a later recovery would do the cut again and with
 *     it remove what was appended since.
 * A crash anywhere in between leaves the intent, and everything from 2. on can be done again.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_priv.h"

/* ---- execution ---- */

static void exec_run(struct log_cut_exec *x);

static void on_op_done(struct io_op *op)
{
    struct log_cut_exec *x = container_of(op, struct log_cut_exec, op);
    free(x->path);
    x->path = NULL;
    flusher_sync_done(x->log->env.flusher, op);
    exec_run(x);
}

static void on_discarded(struct recycle_discard *d, enum err e)
{
    struct log_cut_exec *x = container_of(d, struct log_cut_exec, discard);
    free(x->path);
    x->path = NULL;
    x->op.result = e;
    exec_run(x);
}

static void on_store_durable(struct store_wait *w)
{
    exec_run(container_of(w, struct log_cut_exec, store_wait));
}

static void on_file_ready(struct segment_wait *w, enum err e)
{
    struct log_cut_exec *x = container_of(w, struct log_cut_exec, file_wait);
    x->op.result = e;
    exec_run(x);
}

static void submit(struct log_cut_exec *x, enum log_cut_state next)
{
    x->state = next;
    x->op.on_done = on_op_done;
    io_submit(&log_shard(x->log)->io, &x->op);
}

static void submit_unlink(struct log_cut_exec *x,
                          const struct log_segment *seg,
                          const char *suffix,
                          enum log_cut_state next)
{
    x->path = log_segment_path(seg, suffix);
    if (x->path == NULL) {
        panic("no memory for a path");
    }
    x->op = (struct io_op){.kind = IO_UNLINK, .path = x->path};
    submit(x, next);
}

static void submit_discard(struct log_cut_exec *x, const struct log_segment *seg)
{
    x->path = log_segment_path(seg, ".log");
    if (x->path == NULL) {
        panic("no memory for a path");
    }
    x->state = LOG_CUT_WAIT_DISCARD;
    x->discard = (struct recycle_discard){
        .path = x->path,
        .written_size = RECYCLE_SIZE_UNKNOWN,
        .on_done = on_discarded,
    };
    recycle_discard(&x->log->env.shared->recycle, &x->discard);
}

static void finish(struct log_cut_exec *x, enum err e)
{
    if (x->is_using) {
        x->is_using = false;
        segment_file_unuse(x->seg);
    }
    if (e != ERR_OK) {
        log_error(log_shard(x->log)->log,
                  "log_cut_failed",
                  "log=%s index=%" PRIu64 " state=%d err=%s",
                  x->log->name,
                  x->record.index,
                  (int)x->state,
                  err_name(e));
    }
    x->on_done(x, e);
}

bool log_cut_supersedes(const struct cut_record *newer, const struct cut_record *older)
{
    if (newer->generation <= older->generation) {
        return false;
    }
    return newer->segment < older->segment ||
           (newer->segment == older->segment && newer->pos <= older->pos);
}

struct old_cuts {
    const struct cut_record *newer;
    uint64_t subs[LOG_CUTS_DROPPED_MAX];
    uint32_t count;
};

static void collect_superseded(void *context, uint64_t sub, struct slice value)
{
    struct old_cuts *old = context;
    struct cut_record r;
    if (old->count < LOG_CUTS_DROPPED_MAX && cut_record_decode(value, &r) == ERR_OK &&
        log_cut_supersedes(old->newer, &r)) {
        old->subs[old->count++] = sub;
    }
}

/* Records of earlier cuts at or behind this one are not needed any more; they are also ignored when
 * met, so it does not matter when this becomes durable, or if some stay. */
static void drop_superseded(struct log_cut_exec *x)
{
    struct old_cuts old = {.newer = &x->record};
    store_each(x->log->env.store, &x->log->id, STORE_CUT, &old, collect_superseded);
    for (uint32_t i = 0; i < old.count; i++) {
        struct store_key key = log_store_key(x->log, STORE_CUT, old.subs[i]);
        (void)store_delete(x->log->env.store, &key);
    }
}

static enum err put_record(struct log_cut_exec *x)
{
    struct store_key key = log_store_key(x->log, STORE_CUT, x->record.generation);
    return store_put(x->log->env.store, &key, cut_record_encode(&x->record));
}

static void wait_store(struct log_cut_exec *x, enum log_cut_state next)
{
    x->state = next;
    x->store_wait.on_durable = on_store_durable;
    enum err e = log_store_wait(x->log, &x->store_wait);
    if (e != ERR_OK) {
        finish(x, e);
    }
}

static void put_intent(struct log_cut_exec *x)
{
    struct log *l = x->log;
    uint64_t kept_index = x->record.index - 1;
    struct durable_record durable = {
        .generation = x->record.generation,
        .durable_index = l->flushed_index < kept_index ? l->flushed_index : kept_index,
        .commit_index = l->commit_index < kept_index ? l->commit_index : kept_index,
    };
    enum err e = put_record(x);
    if (e == ERR_OK) {
        struct store_key key = log_store_key(l, STORE_DURABLE, 0);
        e = store_put(l->env.store, &key, durable_record_encode(&durable));
    }
    if (e != ERR_OK) {
        finish(x, e);
        return;
    }
    l->persisted_index = durable.durable_index;
    l->persisted_commit = durable.commit_index;
    l->persisted_end_pos = 0;
    wait_store(x, LOG_CUT_WAIT_INTENT);
}

/* The last segment, if it is behind the cut one. */
static struct log_segment *doomed(const struct log_cut_exec *x)
{
    struct log_segment *last = log_tail_segment(x->log);
    return last == x->seg ? NULL : last;
}

static void next_segment(struct log_cut_exec *x)
{
    struct log_segment *seg = doomed(x);
    if (seg == NULL) {
        submit_unlink(x, x->seg, ".index", LOG_CUT_WAIT_UNLINK_OWN);
        return;
    }
    x->state = LOG_CUT_WAIT_CLOSE;
    x->file_wait.on_ready = on_file_ready;
    x->op.result = ERR_OK;
    if (!segment_file_close(seg, &x->file_wait)) {
        exec_run(x);
    }
}

static void forget_segment(struct log_cut_exec *x)
{
    struct log_segment *seg = doomed(x);
    struct store_key key = log_store_key(x->log, STORE_SEGMENT, seg->base.index);
    reached(log_shard(x->log), "log_cut_removes_segment");
    (void)store_delete(x->log->env.store, &key); /* The intent covers it if this gets lost. */
    log_segment_free(seg);
}

static void open_segment(struct log_cut_exec *x)
{
    x->is_using = true;
    x->state = LOG_CUT_WAIT_OPEN;
    x->op.result = ERR_OK;
    segment_file_use(x->seg);
    if (segment_file_is_open(x->seg)) {
        exec_run(x);
    } else {
        segment_file_wait(x->seg, &x->file_wait);
    }
}

static void zero_or_flush(struct log_cut_exec *x)
{
    struct log *l = x->log;
    x->op = (struct io_op){.fd = x->seg->file.fd};
    if (x->zeroed_to < x->seg->filled_to) {
        x->zeroed_to +=
            log_shared_zero_op(l->env.shared, &x->op, x->iov, x->zeroed_to, x->seg->filled_to);
        submit(x, LOG_CUT_WAIT_ZEROS);
    } else {
        x->op.kind = IO_FDATASYNC;
        submit(x, LOG_CUT_WAIT_FLUSH);
    }
}

static void put_done(struct log_cut_exec *x)
{
    x->record.is_done = 1;
    drop_superseded(x);
    log_holes_cut(x->log, x->record.segment, x->record.pos);
    enum err e = put_record(x);
    if (e != ERR_OK) {
        finish(x, e);
        return;
    }
    wait_store(x, LOG_CUT_WAIT_DONE);
}

/* What the log knows of the segment after the cut. */
static void apply(struct log_cut_exec *x)
{
    struct log *l = x->log;
    struct log_segment *seg = x->seg;
    log_segment_cut_jumps(seg, x->record.pos);
    const struct segment_jump j = {
        .pos = x->record.pos,
        .resume_pos = block_align_up(x->record.pos),
        .generation = x->record.generation,
        .index = x->record.index,
    };
    if (log_segment_add_jump(seg, &j) != ERR_OK) {
        panic("no memory for a cut");
    }
    log_index_unseal(seg);
    seg->is_end_put = false;
    seg->end_pos = x->record.pos;
    if (seg->entries_size > seg->end_pos) {
        seg->entries_size = seg->end_pos;
    }
    seg->tail_pos = j.resume_pos;
    log_room_promise(seg->log);
    segment_points_cut(&seg->points, x->record.index);
    if (x->record.pos == SEGMENT_HEADER_SIZE) {
        seg->first_timestamp = LOG_TIMESTAMP_UNKNOWN;
    }
    if (seg->points.count > 0) {
        seg->point_next_pos =
            seg->points.all[seg->points.count - 1].pos + l->options.index_interval;
    } else {
        seg->point_next_pos = SEGMENT_HEADER_SIZE;
    }
    l->generation = x->record.generation;
    l->stats.cuts++;
}

static enum err result_of(const struct log_cut_exec *x)
{
    switch (x->state) {
    case LOG_CUT_WAIT_UNLINK_INDEX:
    case LOG_CUT_WAIT_DISCARD:
    case LOG_CUT_WAIT_UNLINK_OWN:
        return x->op.result == ERR_NOT_FOUND ? ERR_OK : x->op.result;
    case LOG_CUT_WAIT_CLOSE:
    case LOG_CUT_WAIT_FSYNC_DIR:
    case LOG_CUT_WAIT_OPEN:
    case LOG_CUT_WAIT_ZEROS:
    case LOG_CUT_WAIT_FLUSH:
        return x->op.result;
    case LOG_CUT_START:
    case LOG_CUT_WAIT_INTENT:
    case LOG_CUT_WAIT_DONE:
        return ERR_OK;
    }
    return ERR_OK;
}

static void exec_run(struct log_cut_exec *x)
{
    enum err e = result_of(x);
    if (e != ERR_OK) {
        finish(x, e);
        return;
    }
    switch (x->state) {
    case LOG_CUT_START:
        put_intent(x);
        break;
    case LOG_CUT_WAIT_INTENT:
        next_segment(x);
        break;
    case LOG_CUT_WAIT_CLOSE:
        submit_unlink(x, doomed(x), ".index", LOG_CUT_WAIT_UNLINK_INDEX);
        break;
    case LOG_CUT_WAIT_UNLINK_INDEX:
        submit_discard(x, doomed(x));
        break;
    case LOG_CUT_WAIT_DISCARD:
        forget_segment(x);
        next_segment(x);
        break;
    case LOG_CUT_WAIT_UNLINK_OWN:
        x->op = (struct io_op){.kind = IO_FSYNC_DIR, .path = x->log->dir};
        submit(x, LOG_CUT_WAIT_FSYNC_DIR);
        break;
    case LOG_CUT_WAIT_FSYNC_DIR:
        open_segment(x);
        break;
    case LOG_CUT_WAIT_OPEN:
    case LOG_CUT_WAIT_ZEROS:
        zero_or_flush(x);
        break;
    case LOG_CUT_WAIT_FLUSH:
        put_done(x);
        break;
    case LOG_CUT_WAIT_DONE:
        apply(x);
        finish(x, ERR_OK);
        break;
    }
}

void log_cut_execute(struct log_cut_exec *x, struct log *l, struct log_segment *seg, bool is_redo)
{
    assert_cmp(x->record.segment, ==, seg->base.index);
    assert(list_is_empty(&l->pages));
    x->log = l;
    x->seg = seg;
    x->is_using = false;
    x->path = NULL;
    x->file_wait.on_ready = on_file_ready;
    x->zeroed_to = block_align_up(x->record.pos);
    /* Redone, the intent is durable already: go on as if it had just become so. */
    x->state = is_redo ? LOG_CUT_WAIT_INTENT : LOG_CUT_START;
    exec_run(x);
}

void log_cut_exec_abandon(struct log_cut_exec *x)
{
    if (x->state == LOG_CUT_WAIT_INTENT || x->state == LOG_CUT_WAIT_DONE) {
        store_wait_cancel(x->log->env.store, &x->store_wait);
        finish(x, ERR_FAILED);
    }
}

/* ---- log_cut ---- */

/*   WAIT_DRAIN -> WAIT_LOCATE -> WAIT_EXECUTE -> done */
enum cut_task_state {
    CUT_WAIT_DRAIN,
    CUT_WAIT_LOCATE,
    CUT_WAIT_EXECUTE,
};

struct log_cut_task {
    struct log *log;
    struct log_cut *cut;
    enum cut_task_state state;
    struct log_walk walk;
    struct segment_wait index_wait;
    struct log_segment *seg;
    uint64_t pos;           /* End of the last entry that stays. */
    struct segment_base at; /* What the log ends with after the cut. */
    int64_t max_timestamp;  /* Of seg up to there. */
    int64_t late_timestamp; /* Of its last stretch up to there. */
    struct log_cut_exec exec;
};

static void end_task(struct log_cut_task *t, enum err e)
{
    struct log *l = t->log;
    struct log_cut *c = t->cut;
    l->cut = NULL;
    free(t);
    l->state = LOG_OPEN;
    c->result = e;
    if (e != ERR_OK) {
        log_fail(l, e, "cut");
    } else {
        log_shared_touch(l->env.shared, l); /* It was not persisted while the cut went on. */
    }
    if (l->end != NULL) {
        log_end_start(l); /* It came meanwhile. */
    }
    log_poke(l); /* Walks that were parked meanwhile. */
    log_trim(l);
    c->on_cut(c);
    log_room_resume(l);
}

static void on_executed(struct log_cut_exec *x, enum err e)
{
    struct log_cut_task *t = container_of(x, struct log_cut_task, exec);
    struct log *l = t->log;
    if (e == ERR_OK) {
        uint64_t last_index = t->cut->index - 1;
        log_info(log_shard(l)->log,
                 "log_cut",
                 "log=%s first_index=%" PRIu64 " last_index=%" PRIu64 " generation=%u",
                 l->name,
                 t->cut->index,
                 l->last_index,
                 l->generation);
        log_terms_cut(l, t->cut->index);
        l->last_index = last_index;
        l->taken_index = last_index;
        l->flushed_index = last_index;
        l->last_id = t->at.previous_id;
        l->last_term = t->at.term;
        l->next_offset = t->at.offset;
        l->flushed_offset = t->at.offset;
        t->seg->max_timestamp = t->max_timestamp;
        struct segment_points *points = &t->seg->points;
        if (points->count > 0) {
            points->all[points->count - 1].max_timestamp = t->late_timestamp;
        }
        log_recount(l);
    }
    end_task(t, e);
}

static void execute(struct log_cut_task *t)
{
    struct log *l = t->log;
    while (!list_is_empty(&l->pages)) {
        log_page_free(container_of(l->pages.next, struct log_page, link));
    }
    t->state = CUT_WAIT_EXECUTE;
    t->exec.record = (struct cut_record){
        .generation = l->generation + 1,
        .segment = t->seg->base.index,
        .file_version = t->seg->file_version,
        .pos = t->pos,
        .index = t->cut->index,
        .previous_id = t->at.previous_id,
    };
    t->exec.on_done = on_executed;
    log_cut_execute(&t->exec, l, t->seg, false);
}

static enum walk_verdict on_entry(struct log_walk *w, const struct scan_result *entry)
{
    struct log_cut_task *t = container_of(w, struct log_cut_task, walk);
    const struct entry_header *h = &entry->header;
    if (h->max_timestamp > t->max_timestamp) {
        t->max_timestamp = h->max_timestamp;
    }
    if (h->max_timestamp > t->late_timestamp) {
        t->late_timestamp = h->max_timestamp;
    }
    if (entry_last_index(h) + 1 < t->cut->index) {
        return WALK_ON;
    }
    assert_cmp(entry_last_index(h) + 1, ==, t->cut->index); /* Gaps end below the commit index. */
    t->pos = w->scan.pos; /* Behind an accepted loss, where that is what ends here. */
    t->at = (struct segment_base){
        .index = t->cut->index,
        .offset = h->next_offset,
        .previous_id = h->entry_id,
        .term = h->term,
    };
    return WALK_STOP;
}

static void on_located(struct log_walk *w, enum walk_reason reason)
{
    struct log_cut_task *t = container_of(w, struct log_cut_task, walk);
    if (reason == WALK_DAMAGE && w->scan.jumps[w->scan.jump_next].index < t->cut->index) {
        log_walk_leap(w);
        log_walk_run(w);
        return;
    }
    enum err e = w->error;
    if (reason == WALK_STOPPED) {
        e = ERR_OK;
    } else if (reason != WALK_ERROR) {
        e = ERR_CORRUPT; /* What the log would end with cannot be read. */
    }
    log_walk_done(w);
    if (e != ERR_OK) {
        end_task(t, e);
    } else {
        execute(t);
    }
}

static struct log_segment *segment_by_index(const struct log *l, uint64_t index)
{
    struct log_segment *seg = log_tail_segment(l);
    while (seg->base.index > index) {
        seg = container_of(seg->link.prev, struct log_segment, link);
    }
    return seg;
}

static void locate(struct log_cut_task *t);

static void on_index_ready(struct segment_wait *w, enum err e)
{
    (void)e;
    locate(container_of(w, struct log_cut_task, index_wait));
}

/* The last point before the cut, NULL for the start of the segment: the walk from there learns what
 * its stretch ends with, the points before it say what came earlier. Where they do not know it, or
 * do not reach back to the start, they go. */
static const struct segment_point *walk_start(struct log_cut_task *t)
{
    struct segment_points *points = &t->seg->points;
    if (points->count > 0 && points->all[0].index != t->seg->base.index) {
        segment_points_cut(points, 0);
    }
    if (points->count == 0) {
        return NULL;
    }
    const struct segment_point *start = segment_points_by_index(points, t->cut->index - 1);
    int64_t max_timestamp = -1;
    for (const struct segment_point *p = points->all; p < start; p++) {
        max_timestamp = p->max_timestamp > max_timestamp ? p->max_timestamp : max_timestamp;
    }
    if (max_timestamp == SEGMENT_TIME_UNKNOWN) {
        segment_points_cut(points, 0);
        return NULL;
    }
    t->max_timestamp = max_timestamp;
    return start;
}

static void locate(struct log_cut_task *t)
{
    struct log *l = t->log;
    t->state = CUT_WAIT_LOCATE;
    t->seg = segment_by_index(l, t->cut->index);
    t->index_wait.on_ready = on_index_ready;
    /* The segment takes entries again, and from then on nobody could tell points of its file from
     * those of the log itself: it starts with the latter. */
    (void)log_index_doubt(t->seg);
    if (!log_index_want(t->seg, &t->index_wait)) {
        return;
    }
    log_index_pin(t->seg);
    t->max_timestamp = -1;
    t->late_timestamp = -1;
    if (t->seg->base.index == t->cut->index) {
        t->pos = SEGMENT_HEADER_SIZE;
        t->at = t->seg->base;
        execute(t);
        return;
    }
    struct log_walk *w = &t->walk;
    log_walk_init(w, l);
    w->class = BUF_RESERVED;
    w->is_one_segment = true;
    w->is_patient = true;
    w->on_entry = on_entry;
    w->on_end = on_located;
    log_walk_seek_point(w, t->seg, walk_start(t));
    list_push_back(&l->walks, &w->link);
    log_walk_run(w);
}

void log_cut_poke(struct log *l)
{
    struct log_cut_task *t = l->cut;
    if (t->state != CUT_WAIT_DRAIN) {
        return;
    }
    if (!l->is_failed && l->flushed_index < l->last_index) {
        /* What was appended is written first, if it needs a birth for that: with it the cut knows
         * one case only. */
        log_kick(l);
        return;
    }
    bool is_birth_over = log_birth_stop(l) || l->is_failed;
    bool is_compact_over = log_compact_stop(l);
    bool is_ahead_over = log_ahead_stop(l);
    if (!log_is_quiet(l) || !is_birth_over || !is_compact_over || !is_ahead_over) {
        return;
    }
    if (l->is_failed) {
        end_task(t, ERR_FAILED);
        return;
    }
    timer_cancel(&log_shard(l)->timers, &l->retry);
    if (l->last_index < t->cut->index) {
        end_task(t, ERR_OK);
        return;
    }
    locate(t);
}

void log_cut_begin(struct log *l, struct log_cut *c)
{
    assert(l->state == LOG_OPEN);
    assert_cmp(c->index, >, l->commit_index);
    assert_cmp(c->index, >=, log_first_index(l));
    struct log_cut_task *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        panic("no memory for a cut");
    }
    t->log = l;
    t->cut = c;
    t->state = CUT_WAIT_DRAIN;
    c->log = l;
    l->cut = t;
    l->state = LOG_CUTTING;
    log_checkpoint_cancel(l);
    log_poke(l);
}

void log_cut_abandon(struct log *l)
{
    if (l->cut != NULL && l->cut->state == CUT_WAIT_EXECUTE) {
        log_cut_exec_abandon(&l->cut->exec);
    }
}
