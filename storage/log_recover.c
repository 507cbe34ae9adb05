/* Opening a log (DESIGN 4.5): what the store says is checked against the directory, unfinished cuts
 * are redone, and every entry is walked.
 *
 *   START -> WAIT_UNLINK* -> [WAIT_REDO] -> WAIT_SCAN* -> [WAIT_PROBE* -> WAIT_SCAN | WAIT_CUT]
 *         -> [WAIT_OPEN_FLUSH -> WAIT_FLUSH]* -> opened
 *
 *  1. A segment of the manifest whose file is missing: refused. A file that the manifest does not
 *     name is what an unfinished birth or delete left: removed.
 *  2. Where the bytes are not the next entry (index N), the rest of the log is probed for good
 *     headers: for the highest D, and for where the entries go on.
 *     N above D: a torn write, never acknowledged. Cut there, durably, also when good entries
 * follow. N at or below D: damage. Never cut: noted, and the walk goes on behind it.
 *  3. D counts from the store and from every good header of a generation that is in force, each
 *     lowered by the cuts made since it was learnt.
 *  4. Entries above D may exist only in the device's cache, if only the process died: they are
 *     flushed before the log reports them.
 * A crash at any point leaves a log that recovers to the same: everything before the cut only
 * reads or removes what counts for nothing, and the cut has its intent.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "storage/log_priv.h"

enum recovery_state {
    RECOVERY_START,
    RECOVERY_WAIT_UNLINK,
    RECOVERY_WAIT_REDO,
    RECOVERY_WAIT_SCAN,
    RECOVERY_WAIT_PROBE,
    RECOVERY_WAIT_CUT,
    RECOVERY_WAIT_OPEN_FLUSH,
    RECOVERY_WAIT_FLUSH,
    RECOVERY_DONE,
};

enum {
    RECOVERY_WINDOW_SIZE = 256 << 10,
    RECOVERY_PROBE_SIZE = 1 << 20,
};

struct recovery_names {
    char **all;
    uint32_t count;
    uint32_t capacity;
};

/* What a search behind a bad entry found. */
struct probe {
    struct log_segment *seg; /* Being searched. */
    uint64_t pos;
    struct segment_scan rules;
    bool has_bytes; /* Something stands behind the last good entry. */
    bool has_next;  /* The first good entry behind it: */
    struct log_segment *next_seg;
    struct entry_header next;
    uint64_t next_pos;
    uint64_t last_index; /* Highest one seen, for the log line. */
};

struct log_recovery {
    struct log *log;
    enum recovery_state state;
    enum err error; /* Of reading records or replaying. */

    struct cut_record *cuts;
    uint32_t cuts_count;
    const struct cut_record *intent; /* To be redone; NULL = none. */
    uint64_t durable_index;          /* The highest D. */
    uint64_t commit_index;

    struct recovery_names files;     /* In the directory. */
    struct recovery_names leftovers; /* To be removed. */
    uint32_t leftover_next;
    char *path;
    struct io_op op;

    struct log_walk walk;
    struct log_segment *seg; /* Being walked. */
    enum entry_fault fault;  /* Why the walk stopped. */
    struct probe probe;
    struct log_cut_exec cut;
    struct segment_wait file_wait;
};

static void scan_segment(struct log_recovery *r);
static void scan_on(struct log_recovery *r);

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

static void finish(struct log_recovery *r, enum err e)
{
    struct log *l = r->log;
    log_walk_done(&r->walk);
    names_done(&r->files);
    names_done(&r->leftovers);
    free(r->cuts);
    free(r);
    l->recovery = NULL;
    l->state = LOG_OPEN;
    if (e == ERR_OK) {
        log_shared_touch(l->env.shared, l);
        l->has_unindexed = true;
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

static void on_segment_record(void *context, uint64_t sub, struct slice value)
{
    struct log_recovery *r = context;
    struct log *l = r->log;
    struct segment_record record;
    enum err e = segment_record_decode(value, &record);
    if (e == ERR_OK &&
        (record.base.index != sub || record.salt == 0 || record.filled_to < SEGMENT_HEADER_SIZE ||
         record.filled_to % ENTRY_BLOCK_SIZE != 0)) {
        e = ERR_CORRUPT;
    }
    if (e != ERR_OK || r->error != ERR_OK) {
        r->error = r->error == ERR_OK ? e : r->error;
        return;
    }
    struct log_segment *seg = log_segment_new(l, &record.base, record.salt);
    if (seg == NULL) {
        r->error = ERR_BUSY;
        return;
    }
    seg->generation = record.generation;
    seg->filled_to = record.filled_to;
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

static void learn_durable(struct log_recovery *r, uint64_t durable_index, uint32_t generation)
{
    durable_index = lowered(r, durable_index, generation);
    if (durable_index > r->durable_index) {
        r->durable_index = durable_index;
    }
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
    learn_durable(r, record.durable_index, record.generation);
    l->persisted_index = record.durable_index;
    l->persisted_commit = record.commit_index;
    r->commit_index = record.commit_index;
    return ERR_OK;
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

static struct log_segment *segment_at(const struct log *l, uint64_t base_index)
{
    list_for_each (n, &l->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->base.index == base_index) {
            return seg;
        }
    }
    return NULL;
}

/* Gives segments their jumps and finds the intent. */
static enum err place_cuts(struct log_recovery *r)
{
    struct log *l = r->log;
    for (uint32_t i = 0; i < r->cuts_count; i++) {
        const struct cut_record *c = &r->cuts[i];
        struct log_segment *seg = segment_at(l, c->segment);
        if (is_superseded(r, c)) {
            continue;
        }
        if (seg == NULL || c->pos > seg->filled_to) {
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
        };
        enum err e = log_segment_add_jump(seg, &j);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

static enum err read_records(struct log_recovery *r)
{
    struct log *l = r->log;
    store_each(l->env.store, &l->id, STORE_SEGMENT, r, on_segment_record);
    store_each(l->env.store, &l->id, STORE_CUT, r, on_cut_record);
    if (r->error != ERR_OK) {
        return r->error;
    }
    enum err e = read_durable_record(r);
    if (e != ERR_OK) {
        return e;
    }
    l->has_dir = !list_is_empty(&l->segments);
    return place_cuts(r);
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
        uint64_t base_index;
        bool is_segments = segment_name_parse(name, ".log", &base_index) ||
                           segment_name_parse(name, ".index", &base_index);
        bool is_leftover =
            is_segments ? segment_at(l, base_index) == NULL : ends_with(name, ".tmp");
        if (is_leftover) {
            e = names_add(&r->leftovers, name);
            if (e != ERR_OK) {
                return e;
            }
        }
    }
    return ERR_OK;
}

static bool has_file(const struct log_recovery *r, uint64_t base_index, const char *suffix)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name_format(base_index, suffix, name);
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
        if (!is_doomed && !has_file(r, seg->base.index, ".log")) {
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
        finish(r, e);
        return;
    }
    r->intent = NULL;
    r->seg = NULL;
    scan_segment(r);
}

static void redo_or_scan(struct log_recovery *r)
{
    struct log *l = r->log;
    if (r->intent == NULL) {
        scan_segment(r);
        return;
    }
    log_info(log_shard(l)->log,
             "log_cut_redone",
             "log=%s first_index=%" PRIu64 " generation=%u",
             l->name,
             r->intent->index,
             r->intent->generation);
    r->state = RECOVERY_WAIT_REDO;
    r->cut.record = *r->intent;
    r->cut.on_done = on_redone;
    log_cut_execute(&r->cut, l, segment_at(l, r->intent->segment), true);
}

static void on_unlinked(struct io_op *op);

static void unlink_next(struct log_recovery *r)
{
    if (r->leftover_next == r->leftovers.count) {
        redo_or_scan(r);
        return;
    }
    const char *name = r->leftovers.all[r->leftover_next++];
    log_info(log_shard(r->log)->log, "log_leftover_removed", "log=%s file=%s", r->log->name, name);
    r->path = log_path(r->log->dir, name);
    if (r->path == NULL) {
        finish(r, ERR_BUSY);
        return;
    }
    r->state = RECOVERY_WAIT_UNLINK;
    r->op = (struct io_op){.kind = IO_UNLINK, .path = r->path, .on_done = on_unlinked};
    io_submit(&log_shard(r->log)->io, &r->op);
}

static void on_unlinked(struct io_op *op)
{
    struct log_recovery *r = container_of(op, struct log_recovery, op);
    free(r->path);
    r->path = NULL;
    if (op->result != ERR_OK && op->result != ERR_NOT_FOUND) {
        finish(r, op->result);
        return;
    }
    unlink_next(r);
}

/* ---- flush and open ---- */

static void flush_segment(struct log_recovery *r);

static void on_flushed(struct io_op *op)
{
    struct log_recovery *r = container_of(op, struct log_recovery, op);
    segment_file_unuse(r->seg);
    if (op->result != ERR_OK) {
        finish(r, op->result);
        return;
    }
    bool has_more =
        r->seg->base.index > r->durable_index + 1 && r->seg->link.prev != &r->log->segments;
    if (has_more) {
        r->seg = container_of(r->seg->link.prev, struct log_segment, link);
        flush_segment(r);
        return;
    }
    r->state = RECOVERY_DONE;
    finish(r, ERR_OK);
}

static void submit_flush(struct log_recovery *r)
{
    r->state = RECOVERY_WAIT_FLUSH;
    r->op = (struct io_op){.kind = IO_FDATASYNC, .fd = r->seg->file.fd, .on_done = on_flushed};
    io_submit(&log_shard(r->log)->io, &r->op);
}

static void on_flush_file_ready(struct segment_wait *w, enum err e)
{
    struct log_recovery *r = container_of(w, struct log_recovery, file_wait);
    if (e != ERR_OK) {
        segment_file_unuse(r->seg);
        finish(r, e);
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
static void settle(struct log_recovery *r)
{
    struct log *l = r->log;
    log_recount(l);
    l->taken_index = l->last_index;
    l->flushed_index = l->last_index;
    l->flushed_offset = l->next_offset;
    l->commit_index = r->commit_index < l->last_index ? r->commit_index : l->last_index;
    log_walk_done(&r->walk);
    if (l->last_index > r->durable_index) {
        r->seg = log_tail_segment(l);
        flush_segment(r);
    } else {
        r->state = RECOVERY_DONE;
        finish(r, ERR_OK);
    }
}

/* ---- the walk ---- */

static enum walk_verdict on_entry(struct log_walk *w, const struct scan_result *entry)
{
    struct log_recovery *r = container_of(w, struct log_recovery, walk);
    struct log *l = r->log;
    struct log_segment *seg = r->seg;
    const struct entry_header *h = &entry->header;

    learn_durable(r, h->durable_index, h->durable_generation);
    log_segment_note(seg, entry->pos, h);
    if (l->terms_count == 0 || h->term > l->terms[l->terms_count - 1].term) {
        log_terms_add(l, h->term, h->index, h->base_offset);
    }
    seg->end_pos = entry->pos + entry_size(h->payload_size);
    l->last_index = h->index;
    l->last_term = h->term;
    l->last_id = h->entry_id;
    l->next_offset = h->next_offset;

    const struct log_entry replayed = {
        .type = (enum entry_type)h->type,
        .index = h->index,
        .term = h->term,
        .base_offset = h->base_offset,
        .next_offset = h->next_offset,
        .max_timestamp = h->max_timestamp,
        .payload = entry->payload,
    };
    r->error = l->callbacks->on_replay(l->context, &replayed);
    return r->error == ERR_OK ? WALK_ON : WALK_STOP;
}

static void probe_start(struct log_recovery *r);

/* Where the next byte of the segment goes. */
static void set_tail(struct log_segment *seg)
{
    seg->tail_pos = block_align_up(seg->end_pos);
    for (uint32_t i = 0; i < seg->jumps_count; i++) {
        if (seg->jumps[i].resume_pos > seg->tail_pos) {
            seg->tail_pos = seg->jumps[i].resume_pos;
        }
    }
}

/* The segment is sealed. Its index file, if there is one, is looked at only when the points that
 * this walk collected have left memory. */
static void adopt_index_file(struct log_recovery *r)
{
    struct log_segment *seg = r->seg;
    struct log *l = r->log;
    if (!has_file(r, seg->base.index, ".index")) {
        return;
    }
    char *path = log_segment_path(l, seg->base.index, ".index");
    uint64_t size;
    if (path != NULL && io_file_size(&log_shard(l)->io, path, &size) == ERR_OK) {
        seg->index_file_size = size;
        log_index_sealed(seg);
    }
    free(path);
}

static void on_end(struct log_walk *w, enum walk_reason reason)
{
    struct log_recovery *r = container_of(w, struct log_recovery, walk);
    r->fault = ENTRY_GOOD;
    switch (reason) {
    case WALK_STOPPED:
        finish(r, r->error);
        return;
    case WALK_ERROR:
        finish(r, w->error);
        return;
    case WALK_DAMAGE: /* Noted by ourselves a moment ago. */
        log_walk_leap(w);
        log_walk_run(w);
        return;
    case WALK_BAD:
        r->fault = w->result.fault;
        break;
    case WALK_AT_END:
        break;
    }
    set_tail(r->seg);
    const struct log_segment *next = log_segment_after(r->seg);
    if (next != NULL && next->base.index == w->scan.index) {
        adopt_index_file(r);
        scan_segment(r);
    } else {
        probe_start(r);
    }
}

/* Walks the segment after r->seg, the first one if that is NULL. */
static void scan_segment(struct log_recovery *r)
{
    struct log *l = r->log;
    r->state = RECOVERY_WAIT_SCAN;
    if (list_is_empty(&l->segments)) {
        settle(r);
        return;
    }
    struct log_segment *seg = r->seg == NULL
                                  ? container_of(l->segments.next, struct log_segment, link)
                                  : log_segment_after(r->seg);
    if (r->seg == NULL) {
        l->last_index = seg->base.index - 1;
        l->last_term = seg->base.term;
        l->last_id = seg->base.previous_id;
        l->next_offset = seg->base.offset;
    }
    r->seg = seg;
    log_walk_seek_start(&r->walk, seg);
    scan_on(r);
}

static void scan_on(struct log_recovery *r)
{
    r->state = RECOVERY_WAIT_SCAN;
    r->walk.on_loaded = NULL;
    r->walk.window_size = RECOVERY_WINDOW_SIZE;
    log_walk_run(&r->walk);
}

/* ---- behind a bad entry ---- */

static void probe_load(struct log_recovery *r);
static void probe_done(struct log_recovery *r);

static void probe_enter(struct log_recovery *r, struct log_segment *seg, uint64_t pos)
{
    struct probe *p = &r->probe;
    const struct segment_scan *stopped = &r->walk.scan;
    p->seg = seg;
    p->pos = pos;
    if (seg == r->seg) {
        p->rules = *stopped;
        p->rules.limit_pos = seg->filled_to;
        return;
    }
    log_segment_scan(seg, &p->rules);
    p->rules.index = stopped->index;
    p->rules.offset = stopped->offset;
    p->rules.term = stopped->term;
}

static void probe_start(struct log_recovery *r)
{
    r->state = RECOVERY_WAIT_PROBE;
    r->probe = (struct probe){0};
    r->probe.has_bytes = r->fault != ENTRY_GOOD || log_segment_after(r->seg) != NULL;
    probe_enter(r, r->seg, r->walk.scan.pos);
    probe_load(r);
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Searches the window. */
static void probe_window(struct log_recovery *r)
{
    struct probe *p = &r->probe;
    const struct segment_window *window = &r->walk.window;
    if (!p->has_bytes) {
        uint64_t from = block_align_up(p->pos);
        from = from < window->pos ? window->pos : from;
        uint64_t end = window->pos + window->size;
        p->has_bytes = from < end && !is_zero(window->data + (from - window->pos), end - from);
        if (!p->has_bytes) {
            p->pos = end; /* Nothing in it can be an entry. */
            return;
        }
    }
    struct scan_result found;
    while (segment_scan_probe(&p->rules, window, &p->pos, &found)) {
        const struct entry_header *h = &found.header;
        learn_durable(r, h->durable_index, h->durable_generation);
        if (h->index > p->last_index) {
            p->last_index = h->index;
        }
        if (!p->has_next) {
            p->has_next = true;
            p->next_seg = p->seg;
            p->next = *h;
            p->next_pos = found.pos;
        }
        p->pos = found.pos + ENTRY_ALIGN;
    }
}

static void on_probe_loaded(struct log_walk *w, enum err e)
{
    struct log_recovery *r = container_of(w, struct log_recovery, walk);
    if (e != ERR_OK) {
        finish(r, e);
        return;
    }
    probe_window(r);
    probe_load(r);
}

/* Brings the next window, or ends the search. */
static void probe_load(struct log_recovery *r)
{
    struct probe *p = &r->probe;
    bool is_decided = p->has_next && r->durable_index >= r->walk.scan.index;
    if (is_decided) {
        probe_done(r);
        return;
    }
    while (p->pos >= p->seg->filled_to) {
        struct log_segment *next = log_segment_after(p->seg);
        if (next == NULL) {
            probe_done(r);
            return;
        }
        probe_enter(r, next, SEGMENT_HEADER_SIZE);
    }
    struct log_walk *w = &r->walk;
    struct segment_scan stopped = w->scan; /* The place to come back to. */
    if (w->segment != p->seg) {
        log_walk_seek_start(w, p->seg); /* Only for its file. */
        w->scan = stopped;
    }
    w->on_loaded = on_probe_loaded;
    w->window_size = RECOVERY_PROBE_SIZE;
    log_walk_load(w, block_align_down(p->pos), ENTRY_BLOCK_SIZE);
}

static void on_cut_executed(struct log_cut_exec *x, enum err e)
{
    struct log_recovery *r = container_of(x, struct log_recovery, cut);
    if (e != ERR_OK) {
        finish(r, e);
        return;
    }
    settle(r);
}

/* A torn write: never acknowledged, cut. */
static void cut_tail(struct log_recovery *r)
{
    struct log *l = r->log;
    const struct probe *p = &r->probe;
    const uint64_t index = r->walk.scan.index;
    log_warn(log_shard(l)->log,
             "log_torn_tail_cut",
             "log=%s segment=%" PRIu64 " pos=%" PRIu64 " first_index=%" PRIu64
             " last_index_seen=%" PRIu64 " durable_index=%" PRIu64 " fault=%s generation=%u",
             l->name,
             r->seg->base.index,
             r->walk.scan.pos,
             index,
             p->last_index,
             r->durable_index,
             entry_fault_name(r->fault),
             l->generation + 1);
    r->cut.record = (struct cut_record){
        .generation = l->generation + 1,
        .segment = r->seg->base.index,
        .pos = r->walk.scan.pos,
        .index = index,
        .previous_id = l->last_id,
    };
    /* The intent lowers D and the commit index to these. */
    l->flushed_index = r->durable_index;
    l->commit_index = r->commit_index;
    r->cut.on_done = on_cut_executed;
    r->state = RECOVERY_WAIT_CUT;
    log_walk_done(&r->walk);
    log_cut_execute(&r->cut, l, r->seg, false);
}

static enum err note_damage(struct log *l, const struct log_damage *d)
{
    log_error(log_shard(l)->log,
              "log_damaged",
              "log=%s first_index=%" PRIu64 " last_index=%" PRIu64 " first_offset=%" PRId64
              " next_offset=%" PRId64 " action=\"restore from a replica or a backup\"",
              l->name,
              d->first_index,
              d->last_index,
              d->first_offset,
              d->next_offset);
    if (l->damages_count == LOG_DAMAGES_MAX) {
        l->damages[LOG_DAMAGES_MAX - 1].last_index = d->last_index;
        l->damages[LOG_DAMAGES_MAX - 1].next_offset = d->next_offset;
        return ERR_OK;
    }
    struct log_damage *damages = realloc(l->damages, (l->damages_count + 1) * sizeof(damages[0]));
    if (damages == NULL) {
        return ERR_BUSY;
    }
    l->damages = damages;
    l->damages[l->damages_count++] = *d;
    return ERR_OK;
}

/* Where the entries go on: at a good header, or with a segment whose base is known. */
static bool find_resumption(struct log_recovery *r, struct segment_jump *ret, bool *ret_is_next_seg)
{
    const struct probe *p = &r->probe;
    const struct segment_scan *stopped = &r->walk.scan;
    *ret = (struct segment_jump){.pos = stopped->pos, .is_damage = true};
    const struct log_segment *next = log_segment_after(r->seg);
    *ret_is_next_seg = false;
    if (p->has_next && p->next_seg == r->seg) {
        ret->resume_pos = p->next_pos;
        ret->index = p->next.index;
        ret->offset = p->next.base_offset;
        ret->previous_id = p->next.previous_id;
        ret->term = p->next.term;
        return true;
    }
    if (next != NULL && next->base.index > stopped->index) {
        ret->resume_pos = r->seg->filled_to;
        ret->index = next->base.index;
        ret->offset = next->base.offset;
        ret->previous_id = next->base.previous_id;
        ret->term = next->base.term;
        *ret_is_next_seg = true;
        return true;
    }
    return false;
}

/* Acknowledged entries cannot be read. */
static void keep_damage(struct log_recovery *r)
{
    struct log *l = r->log;
    struct segment_jump j;
    bool is_next_seg;
    bool is_end_known = find_resumption(r, &j, &is_next_seg);
    const struct log_damage d = {
        .first_index = r->walk.scan.index,
        .last_index = is_end_known ? j.index - 1 : UINT64_MAX,
        .first_offset = r->walk.scan.offset,
        .next_offset = is_end_known ? j.offset : INT64_MAX,
    };
    enum err e = note_damage(l, &d);
    if (e == ERR_OK && l->is_replay_strict) {
        e = ERR_CORRUPT;
    }
    if (e == ERR_OK && is_end_known) {
        e = log_segment_add_jump(r->seg, &j);
    }
    if (e != ERR_OK) {
        finish(r, e);
        return;
    }
    if (!is_end_known) {
        l->is_end_unknown = true;
        settle(r);
        return;
    }
    l->last_index = j.index - 1;
    l->last_term = j.term;
    l->last_id = j.previous_id;
    l->next_offset = j.offset;
    if (r->walk.segment != r->seg) {
        struct segment_scan stopped = r->walk.scan;
        log_walk_seek_start(&r->walk, r->seg);
        r->walk.scan = stopped;
    }
    if (is_next_seg) {
        set_tail(r->seg);
        scan_segment(r);
    } else {
        r->walk.window.size = 0;
        scan_on(r);
    }
}

static void probe_done(struct log_recovery *r)
{
    uint64_t index = r->walk.scan.index;
    if (index <= r->durable_index) {
        keep_damage(r);
    } else if (r->probe.has_bytes) {
        cut_tail(r);
    } else {
        settle(r);
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
    w->on_entry = on_entry;
    w->on_end = on_end;
    log_poke(l);
}

void log_recovery_poke(struct log *l)
{
    struct log_recovery *r = l->recovery;
    if (r->state != RECOVERY_START) {
        return;
    }
    enum err e = read_records(r);
    if (e == ERR_OK) {
        e = find_leftovers(r);
    }
    if (e == ERR_OK) {
        e = check_files(r);
    }
    if (e != ERR_OK) {
        finish(r, e);
        return;
    }
    unlink_next(r);
}

void log_recovery_abandon(struct log *l)
{
    struct log_recovery *r = l->recovery;
    if (r != NULL && (r->state == RECOVERY_WAIT_REDO || r->state == RECOVERY_WAIT_CUT)) {
        log_cut_exec_abandon(&r->cut);
    }
}
