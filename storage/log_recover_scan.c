/* Walking the entries of a log that opens, and what is done where they do not go on; the rules
 * stand in log_recover.c.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_recover_priv.h"

enum {
    RECOVERY_WINDOW_SIZE = 256 << 10,
    RECOVERY_PROBE_SIZE = 1 << 20,
};

static void scan_on(struct log_recovery *r);

/* ---- the walk ---- */

enum walk_verdict recovery_on_entry(struct log_walk *w, const struct scan_result *entry)
{
    struct log_recovery *r = container_of(w, struct log_recovery, walk);
    struct log *l = r->log;
    struct log_segment *seg = r->seg;
    const struct entry_header *h = &entry->header;

    recovery_learn_durable(r, h->durable_index, h->durable_generation);
    log_segment_note(seg, entry->pos, h);
    if (l->terms_count == 0 || h->term > l->terms[l->terms_count - 1].term) {
        log_terms_add(l, h->term, h->index, h->base_offset);
    }
    seg->end_pos = w->scan.pos;
    l->uncovered_size += entry_size(h->payload_size);
    l->last_index = entry_last_index(h);
    l->last_term = h->term;
    l->last_id = h->entry_id;
    l->next_offset = h->next_offset;

    const struct log_entry replayed = {
        .type = (enum entry_type)h->type,
        .index = h->index,
        .last_index = entry_last_index(h),
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

void recovery_set_tail(struct log_segment *seg)
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
    if (!recovery_has_file(r, seg, ".index")) {
        return;
    }
    char *path = log_segment_path(seg, ".index");
    uint64_t size;
    if (path != NULL && io_file_size(&log_shard(l)->io, path, &size) == ERR_OK) {
        seg->index_file_size = size;
        log_index_sealed(seg);
    }
    free(path);
}

void recovery_on_end(struct log_walk *w, enum walk_reason reason)
{
    struct log_recovery *r = container_of(w, struct log_recovery, walk);
    r->fault = ENTRY_GOOD;
    switch (reason) {
    case WALK_STOPPED:
        recovery_finish(r, r->error);
        return;
    case WALK_ERROR:
        recovery_finish(r, w->error);
        return;
    case WALK_GONE:
        assert(false && "a log that opens retires nothing");
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
    recovery_set_tail(r->seg);
    const struct log_segment *next = log_segment_after(r->seg);
    if (next != NULL && next->base.index == w->scan.index) {
        adopt_index_file(r);
        recovery_scan_segment(r);
    } else {
        probe_start(r);
    }
}

/* The manifest is what counts, so a header that differs from it is no reason to stop; but it tells
 * that something wrote where it should not have, or that a newer version was here. */
static void on_header_loaded(struct log_walk *w, enum err e)
{
    struct log_recovery *r = container_of(w, struct log_recovery, walk);
    struct segment_header h;
    if (e == ERR_OK) {
        e = segment_header_decode(w->window.data, &h);
    }
    bool is_other = e == ERR_OK &&
                    (h.salt != r->seg->salt || memcmp(&h.base, &r->seg->base, sizeof(h.base)) != 0);
    if (e == ERR_CORRUPT || is_other) {
        log_error(log_shard(r->log)->log,
                  "log_segment_header_bad",
                  "log=%s base_index=%" PRIu64,
                  r->log->name,
                  r->seg->base.index);
    } else if (e != ERR_OK) {
        recovery_finish(r, e);
        return;
    }
    scan_on(r);
}

void recovery_scan_segment(struct log_recovery *r)
{
    struct log *l = r->log;
    r->state = RECOVERY_WAIT_SCAN;
    if (list_is_empty(&l->segments)) {
        recovery_settle(r);
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
    seg->is_end_put = false; /* What is read counts. */
    seg->end_pos = SEGMENT_HEADER_SIZE;
    seg->entries_size = 0;
    seg->max_timestamp = -1;
    log_walk_seek_start(&r->walk, seg);
    r->walk.on_loaded = on_header_loaded;
    r->walk.window_size = RECOVERY_WINDOW_SIZE;
    log_walk_load(&r->walk, 0, SEGMENT_HEADER_SIZE);
}

static void scan_on(struct log_recovery *r)
{
    r->state = RECOVERY_WAIT_SCAN;
    r->walk.on_loaded = NULL;
    r->walk.window_size = RECOVERY_WINDOW_SIZE;
    log_walk_run(&r->walk);
}

void recovery_begin_scan(struct log_recovery *r)
{
    struct log *l = r->log;
    uint64_t pos;
    r->seg = NULL;
    if (l->is_all_read || !recovery_take_checkpoint(r, &pos)) {
        recovery_scan_segment(r);
        return;
    }
    log_walk_seek_start(&r->walk, r->seg);
    struct segment_scan *scan = &r->walk.scan;
    scan->pos = pos;
    scan->index = l->last_index + 1;
    scan->offset = l->next_offset;
    scan->previous_id = l->last_id;
    scan->term = l->last_term;
    segment_scan_seek(scan);
    scan_on(r);
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
    r->probe.has_own = r->fault != ENTRY_GOOD || log_segment_after(r->seg) != NULL;
    probe_enter(r, r->seg, r->walk.scan.pos);
    probe_load(r);
}

/* Searches the window. */
static void probe_window(struct log_recovery *r)
{
    struct probe *p = &r->probe;
    const struct segment_window *window = &r->walk.window;
    if (!p->has_own) {
        p->has_own = segment_scan_has_own(&p->rules, window, p->pos);
        if (!p->has_own) {
            p->pos = window->pos + window->size; /* Nothing in it can be an entry. */
            return;
        }
    }
    struct scan_result found;
    while (segment_scan_probe(&p->rules, window, &p->pos, &found)) {
        const struct entry_header *h = &found.header;
        recovery_learn_durable(r, h->durable_index, h->durable_generation);
        if (entry_last_index(h) > p->last_index) {
            p->last_index = entry_last_index(h);
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
        recovery_finish(r, e);
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
        recovery_finish(r, e);
        return;
    }
    recovery_settle(r);
}

/* Nothing behind the place where the walk stopped counts. */
static void cut_here(struct log_recovery *r)
{
    struct log *l = r->log;
    r->cut.record = (struct cut_record){
        .generation = l->generation + 1,
        .segment = r->seg->base.index,
        .file_version = r->seg->file_version,
        .pos = r->walk.scan.pos,
        .index = r->walk.scan.index,
        .previous_id = l->last_id,
    };
    /* The intent lowers D and the commit index to these. */
    l->flushed_index = r->durable_index;
    l->commit_index = r->commit_index;
    r->cut.on_done = on_cut_executed;
    r->state = RECOVERY_WAIT_CUT;
    log_walk_done(&r->walk);
    recovery_cut(r, r->seg, false);
}

/* A torn write: never acknowledged, cut. */
static void cut_tail(struct log_recovery *r)
{
    const struct log *l = r->log;
    const struct probe *p = &r->probe;
    const uint64_t index = r->walk.scan.index;
    reached(log_shard(l), "log_torn_tail_cut");
    if (p->last_index > index) {
        reached(log_shard(l), "log_torn_tail_has_entries_behind");
    }
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
    cut_here(r);
}

/* The entries in front of a cut are whole and known to be durable, but a write that went astray
 * brought them to a lower place than the one they were cut at. */
static bool ends_in_front_of_cut(const struct log_recovery *r)
{
    const struct segment_scan *stopped = &r->walk.scan;
    for (uint32_t i = 0; i < r->seg->jumps_count; i++) {
        if (r->seg->jumps[i].pos > stopped->pos) {
            return true;
        }
    }
    return false;
}

/* What is appended next would go behind that cut, where no later walk looks: between the two is
 * nothing, and that ends the log. So the cut is done again, where the log ends now. */
static void repeat_cut(struct log_recovery *r)
{
    const struct log *l = r->log;
    reached(log_shard(l), "log_cut_repeated");
    log_warn(log_shard(l)->log,
             "log_cut_repeated",
             "log=%s segment=%" PRIu64 " pos=%" PRIu64 " first_index=%" PRIu64 " generation=%u",
             l->name,
             r->seg->base.index,
             r->walk.scan.pos,
             r->walk.scan.index,
             l->generation + 1);
    cut_here(r);
}

static void say_damage(const struct log_recovery *r, const struct log_damage *d)
{
    const struct log *l = r->log;
    char file[SEGMENT_NAME_SIZE];
    segment_name_format(&d->file, ".log", file);
    log_error(log_shard(l)->log,
              "log_damaged",
              "log=%s file=%s/%s pos=%" PRIu64 " end_pos=%" PRIu64 " fault=%s first_index=%" PRIu64
              " last_index=%" PRIu64 " first_offset=%" PRId64 " next_offset=%" PRId64
              " action=\"restore the node's files from a backup; or stop it and see 'coreflume "
              "help log repair'\"",
              l->name,
              l->dir,
              file,
              d->pos,
              d->end_pos,
              r->fault == ENTRY_GOOD ? "missing" : entry_fault_name(r->fault),
              d->first_index,
              d->last_index,
              d->first_offset,
              d->next_offset);
}

static void extend_damage(struct log_damage *last, const struct log_damage *d)
{
    last->last_index = d->last_index;
    last->next_offset = d->next_offset;
    if (last->file.base_index == d->file.base_index) {
        last->end_pos = d->end_pos;
    }
}

static enum err note_damage(struct log *l, const struct log_damage *d)
{
    if (l->damages_count == LOG_DAMAGES_MAX) {
        extend_damage(&l->damages[LOG_DAMAGES_MAX - 1], d);
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
    *ret = (struct segment_jump){
        .pos = stopped->pos, .resume_pos = r->seg->filled_to, .is_damage = true};
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
        ret->index = next->base.index;
        ret->offset = next->base.offset;
        ret->previous_id = next->base.previous_id;
        ret->term = next->base.term;
        *ret_is_next_seg = true;
        return true;
    }
    return false;
}

/* Goes on where the entries do, behind a jump that the segment knows. */
static void walk_behind(struct log_recovery *r)
{
    if (r->walk.segment != r->seg) {
        struct segment_scan stopped = r->walk.scan;
        log_walk_seek_start(&r->walk, r->seg);
        r->walk.scan = stopped;
    }
    r->walk.window.size = 0;
    scan_on(r);
}

/* Acknowledged entries are given up. Where nothing can be read behind them, the log ends now; its
 * compaction may have been further, and has to look at what comes there again. */
static void
give_up(struct log_recovery *r, const struct segment_jump *j, const struct log_damage *lost)
{
    struct log *l = r->log;
    reached(log_shard(l), "log_loss_accepted");
    if (lost->last_index != UINT64_MAX) {
        const enum err e = log_hole_accept(r->seg, j, lost);
        if (e != ERR_OK) {
            recovery_finish(r, e);
        } else {
            walk_behind(r);
        }
        return;
    }
    const struct store_key clean = log_store_key(l, STORE_CLEAN, 0);
    l->lost_end = malloc(sizeof(*l->lost_end));
    const enum err e = l->lost_end == NULL ? ERR_BUSY : store_delete(l->env.store, &clean);
    if (e != ERR_OK) {
        recovery_finish(r, e);
        return;
    }
    *l->lost_end = *lost;
    l->clean_index = 0;
    l->clean_offset = 0;
    log_say_lost(l, lost);
    cut_here(r);
}

/* Acknowledged entries cannot be read. */
static void keep_damage(struct log_recovery *r)
{
    struct log *l = r->log;
    struct segment_jump j;
    bool is_next_seg;
    reached(log_shard(l), "log_damage_kept");
    bool is_end_known = find_resumption(r, &j, &is_next_seg);
    const struct log_damage d = {
        .first_index = r->walk.scan.index,
        .last_index = is_end_known ? j.index - 1 : UINT64_MAX,
        .first_offset = r->walk.scan.offset,
        .next_offset = is_end_known ? j.offset : INT64_MAX,
        .file = {.base_index = r->seg->base.index, .version = r->seg->file_version},
        .pos = j.pos,
        .end_pos = j.resume_pos,
    };
    if (l->accepts_loss) {
        give_up(r, &j, &d);
        return;
    }
    say_damage(r, &d);
    enum err e = note_damage(l, &d);
    if (e == ERR_OK && l->is_replay_strict) {
        e = ERR_CORRUPT;
    }
    if (e == ERR_OK && is_end_known) {
        e = log_segment_add_jump(r->seg, &j);
    }
    if (e != ERR_OK) {
        recovery_finish(r, e);
        return;
    }
    if (!is_end_known) {
        l->is_end_unknown = true;
        recovery_settle(r);
        return;
    }
    l->last_index = j.index - 1;
    l->last_term = j.term;
    l->last_id = j.previous_id;
    l->next_offset = j.offset;
    if (is_next_seg) {
        recovery_set_tail(r->seg);
        recovery_scan_segment(r);
    } else {
        walk_behind(r);
    }
}

static void probe_done(struct log_recovery *r)
{
    uint64_t index = r->walk.scan.index;
    if (index <= r->durable_index) {
        keep_damage(r);
    } else if (r->probe.has_own) {
        cut_tail(r);
    } else if (ends_in_front_of_cut(r)) {
        repeat_cut(r);
    } else {
        recovery_settle(r);
    }
}
