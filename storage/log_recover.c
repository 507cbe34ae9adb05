/* Opening a log (DESIGN 4.5): what the store says is checked against the directory, unfinished cuts
 * are redone, and every entry is walked.
 *
 *   START -> [WAIT_CHECKPOINT] -> WAIT_UNLINK* -> [WAIT_REDO] -> WAIT_SCAN*
 *         -> [WAIT_PROBE* -> WAIT_SCAN | WAIT_CUT]
 *         -> [WAIT_OPEN_FLUSH -> WAIT_FLUSH]* -> [WAIT_STORE] -> opened
 *
 *  1. A segment of the manifest whose file is missing: refused. A file that the manifest does not
 *     name is what an unfinished birth or delete left: removed.
 *  2. A rewritten segment (compaction, repacking) supersedes the records of those it stands for:
 *     what the crash left of them, and of their cuts, is removed from the store.
 *  3. Where the bytes are not the next entry (index N), the rest of the log is probed for good
 *     headers: for the highest D, and for where the entries go on.
 *     N above D: a torn write, never acknowledged. Cut there, durably, also when good entries
 *     follow.
 *     N at or below D: damage. Noted, not cut, and the walk goes on behind it. An open that accepts
 *     the loss leaves an accepted hole there (log_holes.c), and cuts where nothing is behind it.
 *     Where the log ends in front of a cut (a write that went astray brought the entries there),
 *     the cut is done again at that place: appends go where later walks look for them.
 *  4. D counts from the store and from every good header of a generation that is in force, each
 *     lowered by the cuts made since it was learnt.
 *  5. Entries above D may exist only in the device's cache, if only the process died: they are
 *     flushed before the log reports them.
 *  6. A log that was closed names its end: what was filled behind it was never written and is not
 *     read. The store forgets that end, durably, before the log takes an append.
 * A crash at any point leaves a log that recovers to the same: everything before the cut only
 * reads or removes what counts for nothing, and the cut has its intent.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_recover_priv.h"

/* ---- ending ---- */

static void names_done(struct recovery_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        free(names->all[i]);
    }
    free(names->all);
}

/* Files are closed; the log goes with this call. */
static void on_closed(void *context)
{
    struct log *l = context;
    l->callbacks->on_opened(l->context, l->open_error);
}

static void restore_tail(struct log_recovery *r)
{
    if (r->ended != NULL) {
        r->ended->filled_to = r->ended_filled_to;
        r->ended = NULL;
    }
}

void recovery_cut(struct log_recovery *r, struct log_segment *seg, bool is_redo)
{
    restore_tail(r); /* The cut may take it away. */
    log_cut_execute(&r->cut, r->log, seg, is_redo);
}

void recovery_finish(struct log_recovery *r, enum err e)
{
    struct log *l = r->log;
    if (e == ERR_OK && l->is_failed) {
        e = ERR_FAILED; /* Of the flusher, meanwhile: what was read may not be durable. */
    }
    log_walk_done(&r->walk);
    restore_tail(r);
    names_done(&r->files);
    names_done(&r->leftovers);
    recovery_drop_checkpoint(r);
    free(r->cuts);
    free(r->superseded);
    free(r);
    l->recovery = NULL;
    l->state = LOG_OPEN;
    if (e == ERR_OK) {
        log_shared_touch(l->env.shared, l);
        l->has_unindexed = true;
        log_compact_note(l);
        log_index_seal(l);
        l->callbacks->on_opened(l->context, ERR_OK);
        return;
    }
    log_error(log_shard(l)->log, "log_open_failed", "log=%s err=%s", l->name, err_name(e));
    l->is_failed = true;
    l->open_error = e;
    log_close(l, l, on_closed);
}

/* ---- records ---- */

/* Segments come in order of their base, so whatever starts below the end of a rewritten one was
 * rewritten into it. */
static enum err note_superseded(struct log_recovery *r, uint64_t sub)
{
    uint64_t *subs = realloc(r->superseded, (r->superseded_count + 1) * sizeof(subs[0]));
    if (subs == NULL) {
        return ERR_BUSY;
    }
    r->superseded = subs;
    r->superseded[r->superseded_count++] = sub;
    return ERR_OK;
}

static void on_segment_record(void *context, uint64_t sub, struct slice value)
{
    struct log_recovery *r = context;
    struct log *l = r->log;
    struct segment_record record;
    enum err e = segment_record_decode(value, &record);
    if (e == ERR_OK &&
        (record.base.index != sub || record.salt == 0 || record.filled_to < SEGMENT_HEADER_SIZE ||
         record.filled_to % ENTRY_BLOCK_SIZE != 0 || record.written_to < record.filled_to ||
         record.written_to % ENTRY_BLOCK_SIZE != 0 ||
         (record.end_index != 0 && record.end_index <= sub))) {
        e = ERR_CORRUPT;
    }
    if (e != ERR_OK || r->error != ERR_OK) {
        r->error = r->error == ERR_OK ? e : r->error;
        return;
    }
    if (sub < r->rewritten_to) {
        r->error = note_superseded(r, sub);
        return;
    }
    struct log_segment *seg = log_segment_new(l, &record.base, record.salt);
    if (seg == NULL) {
        r->error = ERR_BUSY;
        return;
    }
    r->rewritten_to = record.end_index;
    seg->end_index = record.end_index;
    seg->file_version = record.file_version;
    seg->generation = record.generation;
    seg->filled_to = record.filled_to;
    seg->written_to = record.written_to;
    seg->filled_to_put = record.filled_to;
    seg->is_end_put = record.end_pos != 0;
    seg->end_pos = record.end_pos;
    seg->max_timestamp = record.max_timestamp;
    seg->entries_size = record.entries_size;
    seg->is_usable = true;
    if (record.generation > l->generation) {
        l->generation = record.generation;
    }
    list_push_back(&l->segments, &seg->link);
}

static void on_cut_record(void *context, uint64_t sub, struct slice value)
{
    struct log_recovery *r = context;
    struct cut_record record;
    enum err e = cut_record_decode(value, &record);
    if (e == ERR_OK &&
        (record.generation != sub || record.pos < SEGMENT_HEADER_SIZE || record.index == 0)) {
        e = ERR_CORRUPT;
    }
    struct cut_record *cuts = NULL;
    if (e == ERR_OK) {
        cuts = realloc(r->cuts, (r->cuts_count + 1) * sizeof(cuts[0]));
        e = cuts == NULL ? ERR_BUSY : ERR_OK;
    }
    if (e != ERR_OK) {
        r->error = r->error == ERR_OK ? e : r->error;
        return;
    }
    r->cuts = cuts;
    r->cuts[r->cuts_count++] = record;
    if (record.generation > r->log->generation) {
        r->log->generation = record.generation;
    }
}

/* A D counts only up to the cuts that came after it was learnt. */
static uint64_t lowered(const struct log_recovery *r, uint64_t durable_index, uint32_t generation)
{
    for (uint32_t i = 0; i < r->cuts_count; i++) {
        if (r->cuts[i].generation > generation && durable_index >= r->cuts[i].index) {
            durable_index = r->cuts[i].index - 1;
        }
    }
    return durable_index;
}

void recovery_learn_durable(struct log_recovery *r, uint64_t durable_index, uint32_t generation)
{
    durable_index = lowered(r, durable_index, generation);
    if (durable_index > r->durable_index) {
        r->durable_index = durable_index;
    }
}

/* Until recovery ends, or cuts, the tail seems to be filled no further than the log is written. */
static void end_tail(struct log_recovery *r, const struct durable_record *record)
{
    struct log_segment *tail = log_tail_segment(r->log);
    const bool is_end = record->end_pos != 0 && record->generation == r->log->generation;
    if (!is_end || tail == NULL || tail->base.index != record->end_segment ||
        record->end_pos > tail->filled_to || record->end_pos < SEGMENT_HEADER_SIZE ||
        record->end_pos % ENTRY_BLOCK_SIZE != 0) {
        return;
    }
    reached(log_shard(r->log), "log_closed_end_trusted");
    r->ended = tail;
    r->ended_filled_to = tail->filled_to;
    tail->filled_to = record->end_pos;
}

static enum err read_durable_record(struct log_recovery *r)
{
    struct log *l = r->log;
    struct store_key key = log_store_key(l, STORE_DURABLE, 0);
    struct slice value;
    if (!store_get(l->env.store, &key, &value)) {
        return ERR_OK;
    }
    struct durable_record record;
    enum err e = durable_record_decode(value, &record);
    if (e != ERR_OK) {
        return e;
    }
    if (record.generation > l->generation) {
        l->generation = record.generation;
    }
    recovery_learn_durable(r, record.durable_index, record.generation);
    l->persisted_index = r->durable_index; /* A value from before a cut says less than it did. */
    l->persisted_commit = record.commit_index;
    l->persisted_end_pos = record.end_pos;
    r->commit_index = record.commit_index;
    end_tail(r, &record);
    return ERR_OK;
}

static enum err read_clean_record(struct log *l)
{
    const struct store_key key = log_store_key(l, STORE_CLEAN, 0);
    struct slice value;
    struct clean_record record;
    if (!store_get(l->env.store, &key, &value)) {
        return ERR_OK;
    }
    enum err e = clean_record_decode(value, &record);
    if (e == ERR_OK) {
        l->clean_index = record.clean_index;
        l->clean_offset = record.clean_offset;
    }
    return e;
}

static bool is_superseded(const struct log_recovery *r, const struct cut_record *c)
{
    for (uint32_t i = 0; i < r->cuts_count; i++) {
        if (log_cut_supersedes(&r->cuts[i], c)) {
            return true;
        }
    }
    return false;
}

struct log_segment *recovery_segment_at(const struct log *l, uint64_t base_index)
{
    list_for_each (n, &l->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->base.index == base_index) {
            return seg;
        }
    }
    return NULL;
}

/* The cut is of a file that a rewritten segment took the place of. */
static bool is_rewritten(const struct log *l, const struct cut_record *c)
{
    list_for_each (n, &l->segments) {
        const struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->base.index == c->segment) {
            return c->file_version < seg->file_version;
        }
        if (seg->base.index < c->segment && c->segment < seg->end_index) {
            return true;
        }
    }
    return false;
}

/* Gives segments their jumps and finds the intent. */
static enum err place_cuts(struct log_recovery *r)
{
    struct log *l = r->log;
    for (uint32_t i = 0; i < r->cuts_count; i++) {
        const struct cut_record *c = &r->cuts[i];
        struct log_segment *seg = recovery_segment_at(l, c->segment);
        if (is_superseded(r, c)) {
            continue;
        }
        /* Its file was rewritten, or retired; what it lowered D for went with it. */
        if (is_rewritten(l, c) || c->segment < log_first_index(l)) {
            if (c->is_done == 0) {
                return ERR_CORRUPT; /* Only what is committed is rewritten or retired. */
            }
            const struct store_key key = log_store_key(l, STORE_CUT, c->generation);
            (void)store_delete(l->env.store, &key); /* Ignored as long as it stays. */
            continue;
        }
        if (seg == NULL || c->pos > seg->filled_to || c->file_version != seg->file_version) {
            return ERR_CORRUPT; /* The segment of a cut goes only together with its record. */
        }
        if (c->is_done == 0) {
            if (r->intent != NULL || c->generation != l->generation) {
                return ERR_CORRUPT; /* Nothing comes after a cut that is not done. */
            }
            r->intent = c;
            continue;
        }
        const struct segment_jump j = {
            .pos = c->pos,
            .resume_pos = block_align_up(c->pos),
            .generation = c->generation,
            .index = c->index,
        };
        enum err e = log_segment_add_jump(seg, &j);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

static void drop_superseded(struct log_recovery *r)
{
    if (r->superseded_count > 0) {
        reached(log_shard(r->log), "log_rewrite_redone");
    }
    for (uint32_t i = 0; i < r->superseded_count; i++) {
        struct store_key key = log_store_key(r->log, STORE_SEGMENT, r->superseded[i]);
        (void)store_delete(r->log->env.store,
                           &key); /* If this gets lost, the next start does it. */
    }
}

static enum err read_records(struct log_recovery *r)
{
    struct log *l = r->log;
    store_each(l->env.store, &l->id, STORE_SEGMENT, r, on_segment_record);
    store_each(l->env.store, &l->id, STORE_CUT, r, on_cut_record);
    if (r->error != ERR_OK) {
        return r->error;
    }
    drop_superseded(r);
    enum err e = read_durable_record(r);
    if (e != ERR_OK) {
        return e;
    }
    l->has_dir = !list_is_empty(&l->segments);
    bool was_written = l->persisted_index > 0 || r->cuts_count > 0;
    if (was_written && !l->has_dir) {
        /* All of its files would be taken for leftovers. */
        log_error(log_shard(l)->log,
                  "log_manifest_missing",
                  "log=%s dir=%s durable_index=%" PRIu64 " cuts=%u",
                  l->name,
                  l->dir,
                  l->persisted_index,
                  r->cuts_count);
        return ERR_CORRUPT;
    }
    e = place_cuts(r);
    e = e == ERR_OK ? log_holes_place(l) : e;
    return e == ERR_OK ? read_clean_record(l) : e;
}

/* ---- the directory ---- */

static enum err names_add(struct recovery_names *names, const char *name)
{
    if (names->count == names->capacity) {
        uint32_t capacity = names->capacity == 0 ? 8 : names->capacity * 2;
        char **all = realloc(names->all, capacity * sizeof(all[0]));
        if (all == NULL) {
            return ERR_BUSY;
        }
        names->all = all;
        names->capacity = capacity;
    }
    names->all[names->count] = strdup(name);
    return names->all[names->count++] == NULL ? ERR_BUSY : ERR_OK;
}

static void on_name(void *context, const char *name)
{
    struct log_recovery *r = context;
    if (r->error == ERR_OK) {
        r->error = names_add(&r->files, name);
    }
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t size = strlen(name);
    size_t suffix_size = strlen(suffix);
    return size >= suffix_size && strcmp(name + size - suffix_size, suffix) == 0;
}

static bool is_in_manifest(const struct log *l, const struct segment_name *n)
{
    const struct log_segment *seg = recovery_segment_at(l, n->base_index);
    return seg != NULL && seg->file_version == n->version;
}

static bool is_old_checkpoint(const struct log *l, const char *name)
{
    struct segment_name n;
    return segment_name_parse(name, ".checkpoint", &n) &&
           (n.version != 0 || n.base_index != l->checkpoint_file);
}

/* Files that the manifest does not account for. */
static enum err find_leftovers(struct log_recovery *r)
{
    struct log *l = r->log;
    enum err e = io_list_dir(&log_shard(l)->io, l->dir, r, on_name);
    if (e == ERR_NOT_FOUND) {
        return ERR_OK;
    }
    if (e != ERR_OK || r->error != ERR_OK) {
        return e == ERR_OK ? r->error : e;
    }
    for (uint32_t i = 0; i < r->files.count; i++) {
        const char *name = r->files.all[i];
        struct segment_name n;
        bool is_segments =
            segment_name_parse(name, ".log", &n) || segment_name_parse(name, ".index", &n);
        bool is_leftover = is_segments ? !is_in_manifest(l, &n)
                                       : ends_with(name, ".tmp") || is_old_checkpoint(l, name);
        if (is_leftover) {
            e = names_add(&r->leftovers, name);
            if (e != ERR_OK) {
                return e;
            }
        }
    }
    return ERR_OK;
}

bool recovery_has_file(const struct log_recovery *r,
                       const struct log_segment *seg,
                       const char *suffix)
{
    char name[SEGMENT_NAME_SIZE];
    log_segment_name(seg, suffix, name);
    for (uint32_t i = 0; i < r->files.count; i++) {
        if (strcmp(r->files.all[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static enum err check_files(const struct log_recovery *r)
{
    const struct log *l = r->log;
    list_for_each (n, &l->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        bool is_doomed = r->intent != NULL && seg->base.index > r->intent->segment;
        if (is_doomed && seg->generation >= r->intent->generation) {
            return ERR_CORRUPT; /* No segment is born before a cut is done. */
        }
        if (!is_doomed && !recovery_has_file(r, seg, ".log")) {
            log_error(log_shard(l)->log,
                      "log_segment_missing",
                      "log=%s dir=%s base_index=%" PRIu64,
                      l->name,
                      l->dir,
                      seg->base.index);
            return ERR_CORRUPT;
        }
    }
    return ERR_OK;
}

/* ---- unlink, redo ---- */

static void on_redone(struct log_cut_exec *x, enum err e)
{
    struct log_recovery *r = container_of(x, struct log_recovery, cut);
    if (e != ERR_OK) {
        recovery_finish(r, e);
        return;
    }
    r->intent = NULL;
    recovery_begin_scan(r);
}

static void redo_or_scan(struct log_recovery *r)
{
    struct log *l = r->log;
    if (r->intent == NULL) {
        recovery_begin_scan(r);
        return;
    }
    log_info(log_shard(l)->log,
             "log_cut_redone",
             "log=%s first_index=%" PRIu64 " generation=%u",
             l->name,
             r->intent->index,
             r->intent->generation);
    reached(log_shard(l), "log_cut_redone");
    r->state = RECOVERY_WAIT_REDO;
    r->cut.record = *r->intent;
    r->cut.on_done = on_redone;
    recovery_cut(r, recovery_segment_at(l, r->intent->segment), true);
}

static void on_discarded(struct recycle_discard *d, enum err e);

void recovery_unlink_next(struct log_recovery *r)
{
    if (r->leftover_next == r->leftovers.count) {
        redo_or_scan(r);
        return;
    }
    const char *name = r->leftovers.all[r->leftover_next++];
    log_info(log_shard(r->log)->log, "log_leftover_removed", "log=%s file=%s", r->log->name, name);
    reached(log_shard(r->log), "log_leftover_removed");
    r->path = log_path(r->log->dir, name);
    if (r->path == NULL) {
        recovery_finish(r, ERR_BUSY);
        return;
    }
    r->state = RECOVERY_WAIT_UNLINK;
    /* At once, for its name may be wanted again; what it holds is freed later. */
    struct recycle *rc = &r->log->env.shared->recycle;
    r->discard = (struct recycle_discard){
        .path = r->path,
        .written_size = recycle_size_of(rc, r->path),
        .on_done = on_discarded,
    };
    recycle_discard(rc, &r->discard);
}

static void on_discarded(struct recycle_discard *d, enum err e)
{
    struct log_recovery *r = container_of(d, struct log_recovery, discard);
    free(r->path);
    r->path = NULL;
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        recovery_finish(r, e);
        return;
    }
    recovery_unlink_next(r);
}

/* ---- flush and open ---- */

static void on_end_forgotten(struct store_wait *w)
{
    recovery_finish(container_of(w, struct log_recovery, store_wait), ERR_OK);
}

/* From now on something may be written behind it. */
static void forget_end(struct log_recovery *r)
{
    struct log *l = r->log;
    if (l->persisted_end_pos == 0) {
        recovery_finish(r, ERR_OK);
        return;
    }
    r->state = RECOVERY_WAIT_STORE;
    r->store_wait.on_durable = on_end_forgotten;
    enum err e = log_persist_durable(l); /* As it does not close, without an end. */
    if (e == ERR_OK) {
        e = log_store_wait(l, &r->store_wait);
    }
    if (e != ERR_OK) {
        recovery_finish(r, e);
    }
}

static void flush_segment(struct log_recovery *r);

static void on_flushed(struct io_op *op)
{
    struct log_recovery *r = container_of(op, struct log_recovery, op);
    flusher_sync_done(r->log->env.flusher, op);
    segment_file_unuse(r->seg);
    if (op->result != ERR_OK) {
        recovery_finish(r, op->result);
        return;
    }
    bool has_more =
        r->seg->base.index > r->durable_index + 1 && r->seg->link.prev != &r->log->segments;
    if (has_more) {
        r->seg = container_of(r->seg->link.prev, struct log_segment, link);
        flush_segment(r);
        return;
    }
    forget_end(r);
}

static void submit_flush(struct log_recovery *r)
{
    if (flusher_is_failed(r->log->env.flusher)) { /* A sync that failed is not tried again. */
        segment_file_unuse(r->seg);
        recovery_finish(r, ERR_FAILED);
        return;
    }
    r->state = RECOVERY_WAIT_FLUSH;
    r->op = (struct io_op){.kind = IO_FDATASYNC, .fd = r->seg->file.fd, .on_done = on_flushed};
    io_submit(&log_shard(r->log)->io, &r->op);
}

static void on_flush_file_ready(struct segment_wait *w, enum err e)
{
    struct log_recovery *r = container_of(w, struct log_recovery, file_wait);
    if (e != ERR_OK) {
        segment_file_unuse(r->seg);
        recovery_finish(r, e);
    } else {
        submit_flush(r);
    }
}

static void flush_segment(struct log_recovery *r)
{
    r->state = RECOVERY_WAIT_OPEN_FLUSH;
    segment_file_use(r->seg);
    if (segment_file_is_open(r->seg)) {
        submit_flush(r);
    } else {
        r->file_wait.on_ready = on_flush_file_ready;
        segment_file_wait(r->seg, &r->file_wait);
    }
}

/* The walk came to the end of the log. */
void recovery_settle(struct log_recovery *r)
{
    struct log *l = r->log;
    log_recount(l);
    l->taken_index = l->last_index;
    l->flushed_index = l->last_index;
    l->flushed_offset = l->next_offset;
    l->commit_index = r->commit_index < l->last_index ? r->commit_index : l->last_index;
    if (l->commit_index < log_first_index(l) - 1) {
        l->commit_index = log_first_index(l) - 1; /* Only what is committed is ever retired. */
    }
    log_walk_done(&r->walk);
    if (l->last_index > r->durable_index) {
        r->seg = log_tail_segment(l);
        flush_segment(r);
    } else {
        forget_end(r);
    }
}

/* ---- start ---- */

void log_recovery_start(struct log *l)
{
    struct log_recovery *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        panic("no memory to open a log");
    }
    r->log = l;
    l->recovery = r;
    struct log_walk *w = &r->walk;
    log_walk_init(w, l);
    w->class = BUF_RESERVED;
    w->is_one_segment = true;
    w->is_patient = true;
    w->on_entry = recovery_on_entry;
    w->on_end = recovery_on_end;
    log_poke(l);
}

void log_recovery_poke(struct log *l)
{
    struct log_recovery *r = l->recovery;
    if (r->state != RECOVERY_START) {
        return;
    }
    enum err e = read_records(r);
    recovery_find_checkpoint(r);
    if (e == ERR_OK) {
        e = find_leftovers(r);
    }
    if (e == ERR_OK) {
        e = check_files(r);
    }
    if (e != ERR_OK) {
        recovery_finish(r, e);
        return;
    }
    recovery_load_checkpoint(r);
}

void log_recovery_abandon(struct log *l)
{
    struct log_recovery *r = l->recovery;
    if (r != NULL && (r->state == RECOVERY_WAIT_REDO || r->state == RECOVERY_WAIT_CUT)) {
        log_cut_exec_abandon(&r->cut);
    }
    if (r != NULL && r->state == RECOVERY_WAIT_STORE) {
        store_wait_cancel(l->env.store, &r->store_wait);
        recovery_finish(r, ERR_FAILED);
    }
}
