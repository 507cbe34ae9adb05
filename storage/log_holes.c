/* Holes: damage that was accepted as lost. The store names each, with the place where the entries
 * go on, so that no start has to find it again, and none takes other damage for it. Every walk
 * shows a hole as one gap entry: to all above it looks as what compaction leaves. When its segment
 * is rewritten the gap is written, and the hole is gone.
 */
#include <inttypes.h>

#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_recover_priv.h"

enum {
    HOLES_DROPPED_MAX = 64, /* At once; others that mean nothing any more wait for the next open. */
};

/* ---- as a gap ---- */

void log_hole_gap(const struct segment_scan *scan,
                  const struct segment_jump *j,
                  struct entry_header *ret_header)
{
    const uint64_t last_index = j->index > scan->index ? j->index - 1 : scan->index;
    *ret_header = (struct entry_header){
        .salt = scan->salt,
        .generation = scan->generation_min,
        .type = ENTRY_GAP,
        .index = scan->index,
        .span = (uint32_t)(last_index - scan->index),
        .term = scan->term != 0 ? scan->term : j->term, /* 0: the log begins with it. */
        .base_offset = scan->offset,
        .next_offset = j->offset,
        .max_timestamp = -1,
        .entry_id = j->previous_id,
        .previous_id = scan->previous_id,
    };
}

/* ---- accepting ---- */

void log_say_lost(const struct log *l, const struct log_damage *lost)
{
    const bool is_end = lost->last_index == UINT64_MAX;
    char file[SEGMENT_NAME_SIZE];
    segment_name_format(&lost->file, ".log", file);
    log_warn(log_shard(l)->log,
             "log_loss_accepted",
             "log=%s file=%s/%s pos=%" PRIu64 " end_pos=%" PRIu64 " first_index=%" PRIu64
             " last_index=%" PRIu64 " first_offset=%" PRId64 " next_offset=%" PRId64
             " effect=\"%s\"",
             l->name,
             l->dir,
             file,
             lost->pos,
             lost->end_pos,
             lost->first_index,
             lost->last_index,
             lost->first_offset,
             lost->next_offset,
             is_end ? "the log ends there" : "read as if compaction had removed them");
}

enum err log_hole_accept(struct log_segment *seg,
                         const struct segment_jump *j,
                         const struct log_damage *lost)
{
    const struct log *l = seg->log;
    if (lost->last_index - lost->first_index > UINT32_MAX) {
        return ERR_TOO_LARGE; /* No gap stands for so many. */
    }
    struct hole_record record = {
        .file_version = seg->file_version,
        .segment = seg->base.index,
        .pos = j->pos,
        .resume_pos = j->resume_pos,
        .first_index = lost->first_index,
        .next_index = j->index,
        .first_offset = lost->first_offset,
        .next_offset = j->offset,
        .previous_id = j->previous_id,
        .term = j->term,
    };
    const struct store_key key = log_store_key(l, STORE_HOLE, lost->first_index);
    enum err e = store_put(l->env.store, &key, hole_record_encode(&record));
    if (e != ERR_OK) {
        return e;
    }
    struct segment_jump accepted = *j;
    accepted.is_accepted = true;
    e = log_segment_add_jump(seg, &accepted);
    if (e == ERR_OK) {
        log_say_lost(l, lost);
    }
    return e;
}

/* ---- in the store ---- */

struct dropped_holes {
    const struct log *log;
    const struct log_segment *seg; /* Of it; or NULL, and */
    bool is_cut; /* those of the segment with base_index, over pos or behind it, and later */
    uint64_t base_index;
    uint64_t pos;
    uint64_t subs[HOLES_DROPPED_MAX];
    uint32_t count;
};

static bool is_dropped(const struct dropped_holes *d, const struct hole_record *r)
{
    if (d->is_cut) {
        const bool is_behind = r->pos >= d->pos || r->resume_pos > d->pos;
        return r->segment > d->base_index || (r->segment == d->base_index && is_behind);
    }
    if (d->seg != NULL) {
        return r->segment == d->seg->base.index && r->file_version <= d->seg->file_version;
    }
    const struct log_segment *seg = recovery_segment_at(d->log, r->segment);
    return seg == NULL || r->file_version != seg->file_version; /* Left by a crash. */
}

static void collect(void *context, uint64_t sub, struct slice value)
{
    struct dropped_holes *d = context;
    struct hole_record r;
    if (d->count < HOLES_DROPPED_MAX && hole_record_decode(value, &r) == ERR_OK &&
        is_dropped(d, &r)) {
        d->subs[d->count++] = sub;
    }
}

static void drop(struct dropped_holes *d)
{
    const struct log *l = d->log;
    do {
        d->count = 0;
        store_each(l->env.store, &l->id, STORE_HOLE, d, collect);
        for (uint32_t i = 0; i < d->count; i++) {
            const struct store_key key = log_store_key(l, STORE_HOLE, d->subs[i]);
            if (store_delete(l->env.store, &key) != ERR_OK) {
                return; /* Ignored as long as it stays. */
            }
        }
    } while (d->count == HOLES_DROPPED_MAX);
}

void log_holes_drop(const struct log_segment *seg)
{
    if (seg->jumps_count > 0) {
        drop(&(struct dropped_holes){.log = seg->log, .seg = seg});
    }
}

void log_holes_cut(struct log *l, uint64_t base_index, uint64_t pos)
{
    drop(&(struct dropped_holes){.log = l, .is_cut = true, .base_index = base_index, .pos = pos});
}

static struct log_damage damage_of(const struct hole_record *r)
{
    return (struct log_damage){
        .first_index = r->first_index,
        .last_index = r->next_index - 1,
        .first_offset = r->first_offset,
        .next_offset = r->next_offset,
        .file = {.base_index = r->segment, .version = r->file_version},
        .pos = r->pos,
        .end_pos = r->resume_pos,
    };
}

/* ---- opening ---- */

struct placing {
    struct log *log;
    enum err error;
};

static bool makes_sense(const struct hole_record *r, uint64_t sub, const struct log_segment *seg)
{
    return r->first_index == sub && r->next_index > r->first_index &&
           r->next_index - r->first_index <= UINT32_MAX && r->next_offset >= r->first_offset &&
           r->pos >= SEGMENT_HEADER_SIZE && r->resume_pos >= r->pos &&
           r->resume_pos <= seg->filled_to;
}

static void on_hole(void *context, uint64_t sub, struct slice value)
{
    struct placing *p = context;
    struct hole_record r;
    enum err e = hole_record_decode(value, &r);
    struct log_segment *seg = e == ERR_OK ? recovery_segment_at(p->log, r.segment) : NULL;
    if (e == ERR_OK && (seg == NULL || r.file_version != seg->file_version)) {
        return;
    }
    if (e == ERR_OK && !makes_sense(&r, sub, seg)) {
        e = ERR_CORRUPT;
    }
    if (e == ERR_OK) {
        reached(log_shard(p->log), "log_hole_placed");
        const struct log_damage lost = damage_of(&r);
        log_say_lost(p->log, &lost);
        e = log_segment_add_jump(seg,
                                 &(struct segment_jump){
                                     .pos = r.pos,
                                     .resume_pos = r.resume_pos,
                                     .is_damage = true,
                                     .is_accepted = true,
                                     .index = r.next_index,
                                     .offset = r.next_offset,
                                     .previous_id = r.previous_id,
                                     .term = r.term,
                                 });
    }
    p->error = p->error == ERR_OK ? e : p->error;
}

enum err log_holes_place(struct log *l)
{
    drop(&(struct dropped_holes){.log = l});
    struct placing p = {.log = l};
    store_each(l->env.store, &l->id, STORE_HOLE, &p, on_hole);
    return p.error;
}

/* ---- telling ---- */

struct telling {
    void *context;
    void (*on_loss)(void *context, const struct log_damage *lost);
};

static void tell(void *context, uint64_t sub, struct slice value)
{
    (void)sub;
    const struct telling *t = context;
    struct hole_record r;
    if (hole_record_decode(value, &r) == ERR_OK) {
        const struct log_damage lost = damage_of(&r);
        t->on_loss(t->context, &lost);
    }
}

void log_each_loss(const struct log *l,
                   void *context,
                   void (*on_loss)(void *context, const struct log_damage *lost))
{
    struct telling t = {.context = context, .on_loss = on_loss};
    store_each(l->env.store, &l->id, STORE_HOLE, &t, tell);
}

bool log_lost_end(const struct log *l, struct log_damage *ret_lost)
{
    if (l->lost_end == NULL) {
        return false;
    }
    *ret_lost = *l->lost_end;
    return true;
}
