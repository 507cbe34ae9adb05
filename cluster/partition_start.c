/* Where a partition's log starts (DESIGN 4.9): moved by an entry of the log, applied when that is
 * committed, never otherwise. DeleteRecords and retention propose such entries; after a restart the
 * entries that are still there say the same again.
 *
 * An entry may stand in a segment that its own start lets go of. What follows such a segment begins
 * at that start, so nothing is forgotten with it: the start was committed before the segment was
 * rolled away from, and is at most the high watermark of then.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/memory.h"
#include "cluster/partition_priv.h"
#include "cluster/retention_rule.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/reached.h"
#include "core/shard.h"

enum {
    MOVES_CAPACITY_MIN = 4,
    /* The last segment is rolled away from when that gives back more than the next one takes. */
    ROLL_SIZE_MIN = 256 << 10,
};

/* ---- moves that wait for their commit ---- */

static void note_move(struct partition *p, uint64_t index, int64_t offset)
{
    if (p->moves_count == p->moves_capacity) {
        const uint32_t capacity =
            p->moves_capacity == 0 ? MOVES_CAPACITY_MIN : p->moves_capacity * 2;
        struct log_start_move *moves = memory_alloc_array(capacity, sizeof(*moves));
        if (p->moves_count > 0) {
            memcpy(moves, p->moves, p->moves_count * sizeof(*moves));
        }
        free(p->moves);
        p->moves = moves;
        p->moves_capacity = capacity;
    }
    p->moves[p->moves_count++] = (struct log_start_move){.index = index, .offset = offset};
}

int64_t partition_proposed_start(const struct partition *p)
{
    const int64_t start_offset = log_start_offset(p->log);
    if (p->moves_count == 0 || p->moves[p->moves_count - 1].offset < start_offset) {
        return start_offset;
    }
    return p->moves[p->moves_count - 1].offset;
}

static enum err propose(struct partition *p, int64_t offset)
{
    assert_cmp(offset, >, partition_proposed_start(p));
    assert_cmp(offset, <=, p->high_watermark);
    struct entry_log_start payload;
    entry_log_start_encode(offset, &payload);
    const int64_t next_offset = log_next_offset(p->log);
    const struct log_entry entry = {
        .type = ENTRY_LOG_START,
        .term = p->env->term,
        .base_offset = next_offset,
        .next_offset = next_offset,
        .max_timestamp = -1,
        .payload = slice_of(&payload, sizeof(payload)),
    };
    uint64_t index;
    enum err e = log_append(p->log, &entry, &index);
    if (e == ERR_OK) {
        note_move(p, index, offset);
    }
    return e;
}

enum err partition_start_replay(struct partition *p, const struct log_entry *entry)
{
    int64_t offset;
    enum err e = entry_log_start_decode(entry->payload, entry->base_offset, &offset);
    if (e == ERR_OK) {
        note_move(p, entry->index, offset);
    }
    return e;
}

void partition_start_restore(struct partition *p, int64_t offset, uint64_t index)
{
    if (offset > 0) {
        note_move(p, index, offset);
    }
}

static void answer_start_waits(struct partition *p)
{
    while (!list_is_empty(&p->start_waits)) {
        struct partition_op *op = container_of(p->start_waits.next, struct partition_op, link);
        if (op->need_index > p->commit_index) {
            return;
        }
        list_remove(&op->link);
        partition_finish(p, op, ERR_OK);
    }
}

void partition_start_committed(struct partition *p)
{
    uint32_t count = 0;
    while (count < p->moves_count && p->moves[count].index <= p->commit_index) {
        const int64_t offset = p->moves[count++].offset;
        if (offset > log_start_offset(p->log) && offset <= p->high_watermark) {
            log_set_start(p->log, offset);
        }
    }
    p->moves_count -= count;
    if (p->moves_count == 0) {
        free(p->moves);
        p->moves = NULL;
        p->moves_capacity = 0;
    } else if (count > 0) {
        memmove(p->moves, p->moves + count, p->moves_count * sizeof(p->moves[0]));
    }
    answer_start_waits(p);
}

/* ---- DeleteRecords ---- */

static void wait_for_start(struct partition *p, struct partition_op *op)
{
    op->need_index = p->moves_count == 0 ? 0 : p->moves[p->moves_count - 1].index;
    if (op->need_index > p->commit_index && p->env->is_drained) {
        partition_finish(p, op, ERR_CANCELLED);
        return;
    }
    list_push_back(&p->start_waits, &op->link);
    answer_start_waits(p);
}

bool partition_try_delete_records(struct partition *p, struct partition_op *op)
{
    int64_t offset = op->in.delete_records.offset;
    if (offset == PARTITION_DELETE_TO_END) {
        offset = p->high_watermark;
    }
    enum err e = ERR_OK;
    if (!p->settings.is_deleted) {
        e = ERR_POLICY;
    } else if (offset < 0 || offset > p->high_watermark) {
        e = ERR_OUT_OF_RANGE;
    } else if (offset > partition_proposed_start(p)) {
        e = propose(p, offset);
    }
    if (e == ERR_BUSY) {
        return false;
    }
    if (e == ERR_OK) {
        wait_for_start(p, op);
    } else {
        partition_finish(p, op, e);
    }
    return true;
}

/* ---- retention ---- */

static bool take_segment(void *context, const struct log_segment_info *segment)
{
    return retention_rule_take(context, segment);
}

static bool propose_start(struct partition *p, int64_t offset, bool takes_last, uint64_t size)
{
    if (takes_last && size >= ROLL_SIZE_MIN) {
        log_roll_next(p->log);
    }
    enum err e = propose(p, offset);
    if (e != ERR_OK) {
        return false; /* No room now: the next check comes. */
    }
    reached(p->env->s, "retention_proposed");
    p->env->counters->retained_moves++;
    log_info(p->env->s->log,
             "retention",
             "partition=%s log_start=%lld size=%llu",
             p->name,
             (long long)offset,
             (unsigned long long)size);
    return true;
}

static bool is_retainable(const struct partition *p)
{
    return p->state == PARTITION_SERVING && p->settings.is_deleted && p->moves_count == 0 &&
           p->high_watermark > log_start_offset(p->log);
}

void partition_retain(struct partition *p)
{
    if (!is_retainable(p)) {
        return;
    }
    struct retention_rule rule = {
        .limits = {.ms = p->settings.retention_ms, .size = p->settings.retention_size_max},
        .wall_ms = p->env->s->wall_ms,
        .high_watermark = p->high_watermark,
        .log_size = log_size(p->log),
        .start_offset = log_start_offset(p->log),
    };
    const int64_t start_offset = rule.start_offset;
    log_each_segment(p->log, &rule, take_segment);
    if (rule.start_offset > start_offset) {
        (void)propose_start(p, rule.start_offset, rule.takes_last, rule.removed_size);
    }
}

/* ---- the cap of a topic ---- */

struct tally_walk {
    const struct partition *p;
    struct partition_tally *tally;
    int64_t start_offset;
    bool is_first;
    bool may_drop; /* Its first segment may be the topic's oldest. */
};

static bool tally_segment(void *context, const struct log_segment_info *segment)
{
    struct tally_walk *w = context;
    if (segment->next_offset <= w->start_offset) {
        return true; /* On its way out, or the last one with nothing in it. */
    }
    w->tally->size += segment->size;
    if (!w->is_first) {
        return true;
    }
    w->is_first = false;
    struct partition_tally *t = w->tally;
    const int64_t time_ms = retention_time_of(segment);
    if (w->may_drop && segment->next_offset <= w->p->high_watermark &&
        (!t->has_oldest || time_ms < t->oldest_ms)) {
        t->has_oldest = true;
        t->oldest_ms = time_ms;
        t->oldest_size = segment->size;
        t->oldest = w->p->id;
        t->oldest_end = segment->next_offset;
        t->is_oldest_last = segment->is_last;
    }
    return true;
}

void partition_add_to_tally(const struct partition *p, struct partition_tally *tally)
{
    if (p->state != PARTITION_SERVING) {
        return;
    }
    struct tally_walk w = {
        .p = p,
        .tally = tally,
        .start_offset = partition_proposed_start(p),
        .is_first = true,
        /* What takes no entry of a new start would be the topic's oldest for ever. */
        .may_drop = !log_is_failed(p->log) && !log_is_end_unknown(p->log),
    };
    log_each_segment(p->log, &w, tally_segment);
}

bool partition_drop_oldest(struct partition *p, const struct partition_tally *tally)
{
    const bool is_current = p->state == PARTITION_SERVING && p->settings.is_deleted &&
                            tally->oldest_end > partition_proposed_start(p) &&
                            tally->oldest_end <= p->high_watermark;
    return !is_current ||
           propose_start(p, tally->oldest_end, tally->is_oldest_last, tally->oldest_size);
}
